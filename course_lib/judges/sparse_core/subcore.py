"""One subcore of a SparseCore: its kernel evaluated in NumPy, up to each barrier, and all that it touches checked."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.extend.core
import numpy as np

from course_lib import chips, compat
from course_lib.grid import jaxprs
from course_lib.judges.sparse_core import arithmetic
from course_lib.judges.sparse_core.copies import Copies, Copy
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.memory import Buffer, Part, check_inside, garbage, part
from course_lib.judges.sparse_core.sharing import Access, Sharing
from course_lib.judges.sparse_core.traffic import Traffic

_OF_A_PIPELINE = re.compile(r"allocations\[(\d+)\]\.(\w+)")
_LONGEST = 5_000_000  # equations that one run evaluates: about a minute


class Shared(NamedTuple):
    """What the subcores of a kernel have in common."""

    chip: chips.SparseCores
    sizes: dict[str, int]  # of the axes of the mesh
    sharing: dict[Buffer, Sharing]  # of the buffers that several subcores may write
    traffic: Traffic
    checked: bool  # False: values alone, as a run on one machine would give them
    evaluated: list[int]  # how many equations, in all subcores


class _Step(NamedTuple):
    """An equation, prepared once for all subcores and iterations."""

    eqn: jax.extend.core.JaxprEqn
    name: str
    atoms: tuple  # of each input (variable, None) or (None, value)
    compute: Callable | None  # of values; None for what touches memory or runs other equations


@functools.lru_cache(maxsize=1024)
def _steps(jaxpr) -> tuple[_Step, ...]:
    steps = []
    for eqn in jaxpr.eqns:
        name = compat.sparse_core_primitive(eqn) or eqn.primitive.name
        is_known = name in _RULES or name in _FLOWS or jaxprs.called(eqn) is not None
        atoms = tuple(
            (v, None) if jaxprs.is_variable(v) else (None, np.asarray(v.val, v.aval.dtype)[()]) for v in eqn.invars
        )
        steps.append(_Step(eqn, name, atoms, None if is_known else arithmetic.operation(eqn)))
    return tuple(steps)


class Subcore:
    """``run`` is a generator, which stops at each barrier."""

    def __init__(self, shared: Shared, number: int, coordinates: dict[str, int], core_axis: str):
        self.shared, self.number, self.coordinates = shared, number, coordinates
        self.core, self.phase = coordinates[core_axis], 0
        self.name = "Subcore (" + ", ".join(f"{axis} {place}" for axis, place in coordinates.items()) + ")"
        self.copies = Copies(self.name)
        self.running: list[jax.extend.core.JaxprEqn] = []  # the equation that runs, behind those that contain it

    @property
    def line(self) -> str:
        """Return " at line 12 of kernel" for the equation that runs; "" if none of the caller's lines contains it."""
        found = next(filter(None, map(compat.line_of, reversed(self.running))), "")
        return f" at {found}" if found else ""

    def run(self, jaxpr, consts: list, args: list) -> Iterator[str]:
        """Evaluate a jaxpr and return its outputs."""
        env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
        self.shared.evaluated[0] += len(jaxpr.eqns)
        if self.shared.evaluated[0] > _LONGEST:
            raise NotEvaluated("The kernel is too long to evaluate: give it smaller arrays.")
        for step in _steps(jaxpr):
            ins = [value if v is None else env[v] for v, value in step.atoms]
            if step.compute is not None:
                outs = step.compute(ins)
            else:
                outs = yield from self._run(step, ins)
            env.update(zip(step.eqn.outvars, outs, strict=True))
        return [env[v] if jaxprs.is_variable(v) else np.asarray(v.val)[()] for v in jaxpr.outvars]

    def _run(self, step: _Step, ins: list) -> Iterator[str]:
        self.running.append(step.eqn)
        if step.name in _RULES:
            outs = _RULES[step.name](self, step.eqn, ins)
        elif step.name in _FLOWS:
            outs = yield from _FLOWS[step.name](self, step.eqn, ins)
        else:
            outs = yield from self._call(jaxprs.called(step.eqn), ins)
        self.running.pop()
        return outs

    def _call(self, jaxpr, ins: list) -> Iterator[str]:
        return (yield from self.run(getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", []), ins))

    # Control flow
    def _cond(self, eqn, ins: list) -> Iterator[str]:
        return (yield from self._call(eqn.params["branches"][int(ins[0])], ins[1:]))

    def _scan(self, eqn, ins: list) -> Iterator[str]:
        consts, carry, arrays = jaxprs.scan_parts(eqn, ins)
        if arrays or len(eqn.outvars) != len(carry):
            raise NotEvaluated("The evaluator has no loop over arrays: slice a ref in the loop instead.")
        for _ in range(eqn.params["length"]):
            carry = yield from self._call(eqn.params["jaxpr"], [*consts, *carry])
        return carry

    def _while(self, eqn, ins: list) -> Iterator[str]:
        of_condition, of_body, carry = jaxprs.while_parts(eqn, ins)
        while (yield from self._call(eqn.params["cond_jaxpr"], [*of_condition, *carry]))[0]:
            carry = yield from self._call(eqn.params["body_jaxpr"], [*of_body, *carry])
        return carry

    def _parallel_loop(self, eqn, ins: list) -> Iterator[str]:
        first, last, step, consts, carry = eqn.params["tree"].unflatten(ins)
        jaxpr = eqn.params["jaxpr"]
        for number in range(int(first), int(last), int(step)):
            values = [*consts, np.int32(number), *carry]
            count = len(jaxpr.constvars)
            carry = yield from self.run(jaxpr, values[:count], values[count:])
        return list(carry)

    def _run_scoped(self, eqn, ins: list) -> Iterator[str]:
        jaxpr = eqn.params["jaxpr"]
        names = [_readable(name) for name in jaxpr.debug_info.arg_names or ["scratch"] * len(jaxpr.invars)]
        made = [own_buffer(v.aval, name) for name, v in zip(names, jaxpr.invars, strict=True)]
        return (yield from self.run(jaxpr, ins, made))

    def _barrier(self, eqn, ins: list) -> Iterator[str]:
        if len(self.coordinates) < 2:
            raise NotEvaluated("The evaluator has no barrier for a mesh of scalar subcores.")
        yield "barrier"
        self.phase += 1
        for copy in self.copies.under_way():
            self._note_copy(copy)
        return []

    # Memory
    def _part(self, ref) -> Part:
        return part(ref, self._indices)

    def _indices(self, listed: Part) -> np.ndarray:
        self._touch(listed, "reads")
        return listed.read()

    def _touch(self, found: Part, does: str) -> None:
        """Check an access of the subcore itself, and note it if others have the buffer too."""
        if not self.shared.checked:
            return
        check_inside(found, f"{self.name}{self.line}", does)
        if does == "reads":
            self.copies.check_read(found, self.line)
        else:
            self.copies.check_write(found, self.line)
        self._note(found, does, self.line)

    def _note(self, found: Part, does: str, line: str) -> None:
        if (sharing := self.shared.sharing.get(found.buffer)) is not None:
            sharing.note(found, Access(self.core, self.number, self.phase, does, f"{self.name}{line}"))

    def _note_copy(self, copy: Copy) -> None:
        self._note(copy.source, "reads", copy.line)
        self._note(copy.target, "adds to" if copy.add else "writes", copy.line)

    def _get(self, eqn, ins: list) -> list:
        found = self._part(_with(ins[0], jax.tree.unflatten(eqn.params["tree"], ins[1:])))
        self._touch(found, "reads")
        return [found.read()[()]]

    def _swap(self, eqn, ins: list) -> list:
        found = self._part(_with(ins[0], jax.tree.unflatten(eqn.params["tree"], ins[2:])))
        old = found.read()[()]
        self._store(found, ins[1])
        return [old]

    def _addupdate(self, eqn, ins: list) -> list:
        self._store(self._part(_with(ins[0], jax.tree.unflatten(eqn.params["tree"], ins[2:]))), ins[1], add=True)
        return []

    def _store(self, found: Part, value, *, add: bool = False) -> None:
        self._touch(found, "writes")
        if found.buffer.is_input and self.shared.checked:
            raise Fault(f"{self.name}{self.line} writes to {found}, which is an input.", "write to an output instead.")
        found.write(value, add=add)

    def _load_expanded(self, eqn, ins: list) -> list:
        (ref, *transforms), mask = ins[:-1], np.asarray(ins[-1])
        if not eqn.params["has_mask"]:
            raise NotEvaluated("The evaluator has a vector load with a mask only.")
        found = self._part(_with(ref, jax.tree.unflatten(eqn.params["tree"], transforms)))
        self._touch(found, "reads")
        return [arithmetic.expanded(found.read(), mask)]

    def _store_compressed(self, eqn, ins: list) -> list:
        """Store, or add, the lanes of the mask one behind the other; without a mask all of them."""
        ref, x, *transforms = ins[:-1] if eqn.params["has_mask"] else ins
        found = self._part(_with(ref, jax.tree.unflatten(eqn.params["tree"], transforms)))
        old, x = found.read(), np.asarray(x)
        chosen = x[np.asarray(ins[-1])] if eqn.params["has_mask"] else x
        new = np.array(old)
        new[: len(chosen)] = old[: len(chosen)] + chosen if eqn.params["add"] else chosen
        self._store(found, new)
        return [old]

    def _vector_gather(self, eqn, ins: list) -> list:
        ref, transforms, indices, mask = eqn.params["tree"].unflatten(ins)
        found, at, on = self._lanes(ref, transforms, indices, mask)
        self._touch(found, "reads")
        view = found.view(found.buffer.array)
        return [np.where(on, view[tuple(np.where(on, i, 0) for i in at)], 0).astype(view.dtype)]

    def _vector_scatter(self, eqn, ins: list) -> list:
        ref, transforms, indices, x, mask = jax.tree.unflatten(eqn.params["tree"], ins)
        found, at, on = self._lanes(ref, transforms, indices, mask)
        self._touch(found, "writes")
        if self.shared.checked and (same := arithmetic.same_lanes(at, on)):
            does, next = "write to", "store each element from one lane: mask the others."
            unknown = "JAX does not document which of the two stays."
            if eqn.params["add"]:
                does, unknown = "add to", "JAX documents such an addition as atomic, but not that both lanes count."
                next = (
                    "count equal values first: counts, last = plsc.scan_count(values, mask=...), then "
                    "plsc.addupdate_scatter(ref, [values], counts, mask=last)."
                )
            place = ", ".join(str(int(i[same[0]])) for i in at)
            raise Fault(
                f"{self.name}: lanes {same[0]} and {same[1]}{self.line} {does} {found.buffer.name}[{place}] with one "
                f"instruction. {unknown}",
                next,
            )
        view, where = found.view(found.buffer.array), tuple(i[on] for i in at)
        if eqn.params["add"]:
            np.add.at(view, where, np.asarray(x)[on])
        else:
            view[where] = np.asarray(x)[on]
        return []

    def _lanes(self, ref, transforms, indices, mask) -> tuple[Part, list[np.ndarray], np.ndarray]:
        """Return the part that lanes choose from, the index of each lane on each axis, and which lanes count."""
        found, at = self._part(_with(ref, transforms)), [np.asarray(i) for i in indices]
        on = np.ones(at[0].shape, bool) if mask is None else np.asarray(mask)
        for axis, size in enumerate(found.view(found.buffer.array).shape):
            outside = on & ((at[axis] < 0) | (at[axis] >= size))
            if not outside.any():
                continue
            if self.shared.checked:
                lane = int(np.argmax(outside))
                raise Fault(
                    f"{self.name}: lane {lane}{self.line} has index {int(at[axis][lane])} for {found}, which has "
                    f"{size:,} elements there.",
                    "mask the lanes whose index is outside: mask=(index >= 0) & (index < size).",
                )
            at[axis] = np.clip(at[axis], 0, size - 1)
        return found, at, on

    # Copies
    def _dma_start(self, eqn, ins: list) -> list:
        source, target, semaphore, _, device = jax.tree.unflatten(eqn.params["tree"], ins)
        if device is not None:
            raise NotEvaluated("The evaluator has no copies to other devices, cores or subcores.")
        source, target = self._part(source), self._part(target)
        add, checked, line = bool(eqn.params.get("add", False)), self.shared.checked, self.line
        if checked:
            check_inside(source, f"{self.name}{line}", "copies from")
            check_inside(target, f"{self.name}{line}", "copies to")
            self.copies.check_read(source, line)
            check = self.copies.check_not_filled if add else self.copies.check_write
            check(target, line)
            self._check_target(target, add, line)
        elements = target.size if target.indices is None else source.size
        copy = Copy(source, target, add, elements * target.buffer.array.itemsize, line)
        if checked:
            self._note_copy(copy)
        else:
            copy.happen()
        self.shared.traffic.note(copy, self.shared.chip.granule_bytes)
        self.copies.start(self._semaphore(semaphore)[0], copy)
        return []

    def _check_target(self, target: Part, add: bool, line: str) -> None:
        if target.buffer.is_input:
            raise Fault(f"{self.name}{line} copies to {target}, which is an input.", "copy to an output instead.")
        if target.indices is None or add:
            return
        rows = target.indices if target.kept is None else target.indices[target.kept]
        values, counts = np.unique(rows, return_counts=True)
        if (counts > 1).any():
            raise Fault(
                f"{self.name}{line} scatters {int(counts.max())} rows to "
                f"{target.buffer.name}[{values[counts.argmax()]}] with one copy, and nothing says which of them stays.",
                "make the indices of a scatter distinct, or add: pltpu.sync_copy(x, shared.at[indices], add=True) into "
                "pltpu.VMEM_SHARED.",
            )

    def _dma_wait(self, eqn, ins: list) -> list:
        source, target, semaphore, _, _ = jax.tree.unflatten(eqn.params["tree"], ins)
        source, target = (part(side, Part.read) for side in (source, target))
        elements = target.size if target.indices is None else source.size
        size = elements * target.buffer.array.itemsize
        key, name = self._semaphore(semaphore)
        ended = self.copies.wait(key, name, size, self.line)
        for copy in ended if self.shared.checked else ():  # else they have happened at once
            copy.happen()
        return []

    def _semaphore(self, ref) -> tuple[tuple, str]:
        found = self._part(ref)
        at = tuple(i if isinstance(i, int) else i.start for i in found.at)
        return (found.buffer, at), str(found)

    # Values
    def _axis_index(self, eqn, ins: list) -> list:
        names = eqn.params["axis_name"]
        names = names if isinstance(names, tuple) else (names,)
        number = 0
        for name in names:
            number = number * self.shared.sizes[name] + self.coordinates[name]
        return [np.int32(number)]

    def _multiple_of(self, eqn, ins: list) -> list:
        value, promised = ins[0], eqn.params["values"]
        for number in promised:
            if self.shared.checked and int(value) % int(number):
                raise Fault(
                    f"{self.name}{self.line} promises that {int(value)} is a multiple of {int(number)}.",
                    "promise with pl.multiple_of what holds: the compiler builds on it, and a chip copies other rows.",
                )
        return [value]

    def _scan_count(self, eqn, ins: list) -> list:
        return list(arithmetic.scan_count(*map(np.asarray, ins)))

    def _cumulative(self, eqn, ins: list) -> list:
        return [arithmetic.cumulative(compat.sparse_core_primitive(eqn), *map(np.asarray, ins))]

    def _counted(self, eqn, ins: list) -> list:
        name = compat.sparse_core_primitive(eqn)
        return [arithmetic.counted(name, np.asarray(ins[0]), eqn.params["reduce"])]

    def _masked_sort(self, eqn, ins: list) -> list:
        keys, values, *given = map(np.asarray, ins)
        mask = given[0] if given else np.ones(keys.shape, bool)
        sorted_ = arithmetic.masked_sort(keys, values, mask, eqn.params["descending"])
        return sorted_ if given else sorted_[:2]

    def _bitcast(self, eqn, ins: list) -> list:
        return [np.ascontiguousarray(ins[0]).view(eqn.params["dtype"])]

    def _not_there(self, eqn, ins: list) -> list:
        name = (compat.sparse_core_primitive(eqn) or eqn.primitive.name).removeprefix("sc.")
        raise NotEvaluated(f"The evaluator has no `{name}`, which the kernel uses{self.line}.")


def _readable(name: str) -> str:
    """Return "pipeline_buffer_0" for what JAX calls allocations[0].window_ref; other names as they are."""
    if (found := _OF_A_PIPELINE.match(name)) is None:
        return name
    return f"pipeline_{'buffer' if found[2] == 'window_ref' else 'semaphore'}_{found[1]}"


def own_buffer(aval, name: str) -> Buffer:
    """Return a ref of a subcore's own, or of a SparseCore's, as it is before anybody has written to it."""
    space = space_of(aval)
    if space not in ("vmem", "smem", "vmem_shared", "semaphore_mem"):
        raise NotEvaluated(f"{name} lies in {space}, which the evaluator does not have.")
    if space == "semaphore_mem":
        return Buffer(name, space, np.zeros(aval.shape, np.int32), tuple(aval.shape))
    return Buffer(name, space, garbage(aval.shape, aval.dtype), tuple(aval.shape))


def space_of(aval) -> str:
    space = getattr(aval.memory_space, "memory_space", aval.memory_space)
    return str(getattr(space, "value", space))


def _with(ref, transforms):
    """Return a ref with further transforms behind its own."""
    if not transforms:
        return ref
    return (
        _Transformed(ref, tuple(transforms))
        if isinstance(ref, Buffer)
        else _Transformed(ref.ref, (*ref.transforms, *transforms))
    )


class _Transformed(NamedTuple):
    ref: Buffer
    transforms: tuple


_FLOWS = {
    "cond": Subcore._cond,
    "scan": Subcore._scan,
    "while": Subcore._while,
    "run_scoped": Subcore._run_scoped,
    "sc.parallel_loop": Subcore._parallel_loop,
    "sc.barrier": Subcore._barrier,
}
_NOT_THERE = (
    "sc.pack", "sc.unpack", "sc.fetch_and_add", "semaphore_signal", "semaphore_wait", "semaphore_read",
    "get_barrier_semaphore", "debug_print",
)  # fmt: skip
_RULES = {
    "get": Subcore._get,
    "swap": Subcore._swap,
    "addupdate": Subcore._addupdate,
    "dma_start": Subcore._dma_start,
    "dma_wait": Subcore._dma_wait,
    "axis_index": Subcore._axis_index,
    "multiple_of": Subcore._multiple_of,
    "sc.load": Subcore._load_expanded,
    "sc.swap": Subcore._store_compressed,
    "sc.masked_sort": Subcore._masked_sort,
    "sc.bitcast": Subcore._bitcast,
    "sc.gather": Subcore._vector_gather,
    "sc.scatter": Subcore._vector_scatter,
    "sc.scan_count": Subcore._scan_count,
    "sc.masked_cumsum": Subcore._cumulative,
    "sc.masked_cummax": Subcore._cumulative,
    "sc.masked_cummin": Subcore._cumulative,
    "sc.all_reduce_population_count": Subcore._counted,
    "sc.all_reduce_ffs": Subcore._counted,
    **dict.fromkeys(_NOT_THERE, Subcore._not_there),
}
