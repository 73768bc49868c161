"""The evaluation of a kernel's body for its scalars, at all grid steps at once or one after another."""

import functools
import math

import jax
import numpy as np
from jax._src.state import indexing

from course_lib.grid.body import Body, Broken, Copy, Loop, Use, Wait
from course_lib.grid.following.prepared import PROMISE, Prepared, prepared
from course_lib.grid.following.refs import (
    Ref,
    ask_for,
    dtype_of,
    element,
    first_axis,
    other_axes,
    scoped_names,
    space_of,
    starts,
    window,
    window_of,
)
from course_lib.grid.following.scalars import UNKNOWN, known, plain
from course_lib.grid.jaxprs import equations, is_variable, scan_parts, while_parts
from course_lib.grid.unreadable import Reason, UnreadableCall

MAX_EVALUATIONS = 3_000_000  # some seconds of work; longer bodies are refused
MAX_USES = 100_000
MAX_TURNS = 5000  # of a loop that is followed one iteration at a time only to see what it touches


class Follower:
    """The state of following a body: counts, copies, and the memory of scalars."""

    def __init__(
        self,
        grid: tuple,
        coordinates: tuple,
        names: frozenset[str] = frozenset(),
        in_detail: bool = False,
        ordered: bool = False,
    ):
        self.grid, self.coordinates, self.ordered = grid, coordinates, ordered
        self.first = 0  # the grid step that the first entry of ``coordinates`` belongs to
        self.counts: dict[int, list] = {}
        self.copies: list[Copy] = []
        self.waits: list[Wait] = []
        self.loops: list[Loop] = []
        self.written: set[str] = set()
        self.turn: tuple[int, int] | None = None
        self.doubt = self.hidden_copies = ""
        self.stored = False  # whether it came across a store of scalars
        self.stale = False  # whether a scalar was read that a later line stores, so that another step reads another
        self.evaluations = 0
        self.uses: list[Use] | None = [] if in_detail else None
        self.broken: Broken | None = None  # the first promise that does not hold
        self.unsure = 0  # how many undecidable conditions are open
        self.names = names  # of the kernel's own refs
        self._known_steps: tuple = (None, -1, None, None)

    def result(self) -> Body:
        return Body(
            runs=tuple((eqn, times) for eqn, times in self.counts.values()),
            copies=tuple(self.copies),
            waits=tuple(self.waits),
            loops=tuple(self.loops),
            written=frozenset(self.written),
            doubt=self.doubt,
            hidden_copies=self.hidden_copies,
        )

    def jaxpr(self, jaxpr, inputs, active: np.ndarray, times: int, consts: list | None = None) -> list:
        """Follow a jaxpr for the steps in ``active`` (bool[S]), each ``times`` times; return its outputs."""
        consts = jaxpr.consts if consts is None else consts
        env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

        for step in prepared(jaxpr):
            self.evaluations += 1
            if self.evaluations > MAX_EVALUATIONS:
                raise UnreadableCall(
                    f"following this kernel takes more than {MAX_EVALUATIONS:,} evaluations. Try it with a smaller "
                    "array or larger blocks.",
                    reason=Reason.LONG_BODY,
                )
            values = [constant if variable is None else env[variable] for variable, constant in step.atoms]
            outputs = step.scalar(values) if step.scalar else self._step(step, values, active, times)
            env.update(zip(step.eqn.outvars, outputs, strict=True))
        return [env[v] if is_variable(v) else plain(v.val) for v in jaxpr.outvars]

    def _step(self, step: Prepared, inputs: list, active, times: int) -> list:
        if step.name == "program_id":
            return [self.coordinates[step.eqn.params["axis"]]]
        if step.name == "num_programs":
            return [self.grid[step.eqn.params["axis"]]]
        if handler := _HANDLERS.get(step.name):
            return handler(self, step.eqn, inputs, active, times)
        if step.inner:
            return self.jaxpr(step.inner, inputs, active, times)
        if step.on_arrays:
            self._count(step.eqn, active, times)
        return [UNKNOWN] * len(step.eqn.outvars)

    def _count(self, eqn, active, times: int) -> None:
        count = self.counts.setdefault(id(eqn), [eqn, 0])
        count[1] += int(np.count_nonzero(active)) * times

    def _cond(self, eqn, inputs: list, active, times: int) -> list:
        index, *rest = inputs
        branches = eqn.params["branches"]
        if not known(index):
            self._undecided(eqn, branches, "a condition")
            self.unsure += 1
            for branch in branches:
                self.jaxpr(branch, rest, active, times)
            self.unsure -= 1
            return [UNKNOWN] * len(eqn.outvars)
        if isinstance(index, int):  # the same at all steps
            branch = branches[min(max(index, 0), len(branches) - 1)]
            return self.jaxpr(branch, rest, active, times)
        index = np.clip(index.astype(np.int64), 0, len(branches) - 1)
        merged = None
        for number in np.unique(index[active]).tolist():
            branch = branches[number]
            here = active & (index == number)
            outputs = self.jaxpr(branch, rest, here, times)
            merged = (
                outputs
                if merged is None
                else [_where(here, new, old) for new, old in zip(outputs, merged, strict=True)]
            )
        return merged if merged is not None else [UNKNOWN] * len(eqn.outvars)

    def _while(self, eqn, inputs: list, active, times: int) -> list:
        condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        of_cond, of_body, carry = while_parts(eqn, inputs)
        outer, counters, number = self.turn, [], len(self.loops)
        self.loops.append(Loop(turns=0, counters=_table([])))
        while True:
            self.turn = number, len(counters)
            (going,) = self.jaxpr(condition, [*of_cond, *carry], active, 0)
            if not known(going):
                self._undecided(eqn, (body,), "the end of a loop")
                self.unsure += 1
                self.jaxpr(body, [*of_body, *map(_unknown, carry)], active, times)
                self.unsure -= 1
                self.turn = outer
                return list(map(_unknown, carry))
            active = active & np.asarray(going, bool)
            if not active.any():
                self.turn, self.loops[number] = outer, Loop(turns=len(counters), counters=_table(counters))
                return carry
            counters.append(_counters(carry, body.invars[len(of_body) :]))
            after = self.jaxpr(body, [*of_body, *carry], active, times)
            carry = [_where(active, new, old) for new, old in zip(after, carry, strict=True)]

    def _scan(self, eqn, inputs: list, active, times: int) -> list:
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        consts, carry, xs = scan_parts(eqn, inputs)
        xs = [UNKNOWN] * len(xs)
        ys = [UNKNOWN] * (len(eqn.outvars) - len(carry))
        in_detail = self.uses is not None and length <= MAX_TURNS
        if not in_detail and not _decides(body):  # all iterations do the same: follow one, count it ``length`` times
            after = self.jaxpr(body, [*consts, *map(_unknown, carry), *xs], active, times * length)
            return [*after[: len(carry)], *ys]
        outer, counters, number = self.turn, [], len(self.loops)
        self.loops.append(Loop(turns=0, counters=_table([])))
        variables = body.invars[len(consts) : len(consts) + len(carry)]
        for n in range(length):
            self.turn = number, n
            counters.append(_counters(carry, variables))
            carry = self.jaxpr(body, [*consts, *carry, *xs], active, times)[: len(carry)]
        self.turn, self.loops[number] = outer, Loop(turns=length, counters=_table(counters))
        return [*carry, *ys]

    def _run_scoped(self, eqn, inputs: list, active, times: int) -> list:
        jaxpr = eqn.params["jaxpr"]
        names = scoped_names(jaxpr, self.names)
        refs = [Ref(name, space_of(v.aval), v.aval) for name, v in zip(names, jaxpr.invars, strict=True)]
        return self.jaxpr(jaxpr, refs, active, times, consts=inputs)

    def _empty_ref(self, eqn, inputs: list, active, times: int) -> list:
        (variable,) = eqn.outvars
        return [Ref("an empty_ref", space_of(variable.aval), variable.aval)]

    def _get(self, eqn, inputs: list, active, times: int) -> list:
        self._touched("read", eqn, inputs[0], inputs[1:], active)
        return self._value(eqn, inputs, active, times)

    def _value(self, eqn, inputs: list, active, times: int) -> list:
        ref, *rest = inputs
        if eqn.outvars[0].aval.shape != ():
            self._count(eqn, active, times)
            return [UNKNOWN]
        index = self._index(eqn, rest) if ref.space == "smem" else None
        if index is None or not element(ref.known, index).all():
            return [UNKNOWN]
        if np.any(active):
            ask_for(ref, index, active)
        return [plain(element(ref.values, index))]

    def _swap(self, eqn, inputs: list, active, times: int) -> list:
        ref, value, *rest = inputs
        old = self._value(eqn, [ref, *rest], active, times)
        self._touched("write", eqn, ref, rest, active)
        self.written |= {ref.name} if active.any() else set()
        if ref.space == "smem":
            self.stored, self.stale = True, self.stale or bool(ref.read.any())
            index = self._index(eqn, rest)
            if not self.ordered or index is None:
                ref.known[...] = False  # another step may have written it
            elif active.any():
                ref.known[index] = known(value)
                ref.values[index] = value if known(value) else 0
        return old

    def _promise(self, eqn, inputs: list, active, times: int) -> list:
        (value,) = inputs
        if self.uses is None or self.broken or self.unsure or not known(value) or not np.any(active):
            return inputs
        entries, steps = self._steps(active)
        values = np.broadcast_to(value, np.shape(active)).reshape(-1)[entries]
        for multiple in eqn.params["values"]:
            if len(wrong := np.flatnonzero(values % multiple)):
                first = wrong[0]
                self.broken = Broken(multiple=multiple, value=int(values[first]), step=int(steps[first]))
                break
        return inputs

    def _other_store(self, eqn, inputs: list, active, times: int) -> list:
        """Follow a masked or accumulating store. Afterwards nothing is known about the scalars of a ref in SMEM."""
        ref = inputs[0]
        self._count(eqn, active, times)
        if eqn.primitive.name == "addupdate":
            self._touched("read", eqn, ref, inputs[2:], active)
        self._touched("write", eqn, ref, inputs[2:] if eqn.primitive.name == "addupdate" else None, active)
        self.written |= {ref.name} if active.any() else set()
        if ref.space == "smem":
            self.stored, self.stale = True, self.stale or bool(ref.read.any())
            ref.known[...] = False
        return [UNKNOWN] * len(eqn.outvars)

    def _index(self, eqn, leaves: list) -> tuple | None:
        """Return the index of one element of a ref, or None if it is not known."""
        transforms = jax.tree.unflatten(eqn.params["tree"], leaves)
        if not transforms:
            return ()
        if len(transforms) != 1 or not isinstance(transforms[0], indexing.NDIndexer):
            return None
        index = transforms[0].indices
        return tuple(index) if all(known(i) and not isinstance(i, indexing.Slice) for i in index) else None

    def _dma_start(self, eqn, inputs: list, active, times: int) -> list:
        source, target, semaphore, _, device = jax.tree.unflatten(eqn.params["tree"], inputs)
        source, target = window(source), window(target)
        self._copied("start", source, target, window(semaphore), active, remote=device is not None)
        if source is None or target is None or times != 1:
            self.hidden_copies = self.hidden_copies or "the amount that it copies depends on an array's values"
            return []
        side, other = (source, target) if source.ref.space == "hbm" else (target, source)
        steps = np.flatnonzero(active)
        if len(steps):
            self.written.add(target.ref.name)
            self.copies.append(
                Copy(
                    source=source.ref.name,
                    target=target.ref.name,
                    source_space=source.ref.space,
                    target_space=target.ref.space,
                    dtype=dtype_of(side.ref.aval),
                    array=tuple(side.ref.aval.shape),
                    shape=side.sizes,
                    starts=starts(side, active.shape, steps),
                    steps=steps + self.first,
                    remote=device is not None,
                    buffer=other.ref.number,
                    room=math.prod(other.ref.aval.shape),
                    turn=self.turn,
                )
            )
        return []

    def _dma_wait(self, eqn, inputs: list, active, times: int) -> list:
        source, target, semaphore, _, device = jax.tree.unflatten(eqn.params["tree"], inputs)
        self._copied("wait", window(source), window(target), window(semaphore), active, remote=device is not None)
        if active.any():
            buffer = getattr(target, "ref", target)
            self.waits.append(Wait(buffer=getattr(buffer, "number", -1), turn=self.turn))  # -1: chosen by a number
        return []

    def _touched(self, kind: str, eqn, ref: Ref, leaves: list | None, active) -> None:
        """Record a read or a write of a ref, if uses are wanted."""
        if self.uses is None or not np.any(active):
            return
        transforms = jax.tree.unflatten(eqn.params["tree"], leaves) if leaves is not None else None
        part = window_of(ref, transforms) if transforms is not None else None
        entries, steps = self._steps(active)
        use = Use(
            kind=kind,
            ref=ref.name,
            number=ref.number,
            steps=steps,
            part=first_axis(part, np.shape(active), entries),
            length=(*ref.aval.shape, 1)[0],
            inner=other_axes(part, np.shape(active), entries),
            whole=part is not None and part.sizes == tuple(ref.aval.shape),
            wide=part is not None and part.sizes[1:] == tuple(ref.aval.shape[1:]),
            sure=not self.unsure,
            eqn=eqn,
        )
        self._noted(use)

    def _copied(self, kind: str, source, target, semaphore, active, remote: bool) -> None:
        """Record the start of a copy or the wait for one. The parts are None if it is unknown what is copied."""
        if self.uses is None or not np.any(active):
            return
        shape, (entries, steps) = np.shape(active), self._steps(active)
        known_all = None not in (source, target, semaphore)
        index = starts(semaphore, shape, entries) if known_all else None
        use = Use(
            kind=kind,
            ref=target.ref.name if target else "",
            number=target.ref.number if target else -1,
            steps=steps,
            part=first_axis(target, shape, entries),
            length=(*target.ref.aval.shape, 1)[0] if target else 1,
            inner=other_axes(target, shape, entries),
            whole=target is not None and target.sizes == tuple(target.ref.aval.shape),
            wide=target is not None and target.sizes[1:] == tuple(target.ref.aval.shape[1:]),
            source=source.ref.name if source else "",
            source_number=source.ref.number if source else -1,
            source_part=first_axis(source, shape, entries),
            source_length=(*source.ref.aval.shape, 1)[0] if source else 1,
            source_inner=other_axes(source, shape, entries),
            semaphore=None if index is None else np.insert(index, 0, semaphore.ref.number, axis=1),
            semaphore_name=semaphore.ref.name if semaphore else "",
            semaphores=tuple(semaphore.ref.aval.shape) if semaphore else (),
            bytes=int(np.prod(target.sizes, dtype=np.int64)) * dtype_of(target.ref.aval).itemsize if target else 0,
            remote=remote,
            sure=not self.unsure,
        )
        self._noted(use)

    def _steps(self, active) -> tuple[np.ndarray, np.ndarray]:
        """Return where ``active`` is True, and the grid steps of those entries. Uses under one condition share both."""
        if self._known_steps[0] is not active or self._known_steps[1] != self.first:
            entries = np.flatnonzero(active)
            self._known_steps = active, self.first, entries, entries + self.first
        return self._known_steps[2:]

    def _noted(self, use: Use) -> None:
        if len(self.uses) >= MAX_USES:
            raise UnreadableCall(
                f"the kernel touches memory in more than {MAX_USES:,} places.", reason=Reason.LONG_BODY
            )
        self.uses.append(use)

    def _undecided(self, eqn, jaxprs, what: str) -> None:
        """Record that a decision depends on a value that is unknown here."""
        self.doubt = f"{what} depends on an array's values; it is counted as if it always ran"
        if any(e.primitive.name == "dma_start" for j in jaxprs for e in equations(j)):
            self.hidden_copies = f"{what} that guards a copy depends on an array's values"


@functools.lru_cache(maxsize=512)
def _decides(jaxpr) -> bool:
    """Whether iterations of a loop may differ because the body branches, loops, copies, or stores scalars."""
    return any(
        e.primitive.name in ("cond", "while", "dma_start", "run_scoped")
        or (e.primitive.name == "swap" and space_of(e.invars[0].aval) == "smem")
        for e in equations(jaxpr)
    )


def _where(mask, new, old):
    if isinstance(new, Ref) or isinstance(old, Ref):
        return new
    if not known(new) or not known(old):
        return new if np.all(mask) else UNKNOWN
    return new if np.all(mask) else np.where(mask, new, old)


def _unknown(value):
    return value if isinstance(value, Ref) else UNKNOWN


def _counters(carry: list, variables: list) -> list:
    """Return the 32-bit integers at the end of a loop's carry, where emit_pipeline keeps its grid index."""
    counters = []
    for value, variable in zip(reversed(carry), reversed(variables), strict=True):
        if not isinstance(value, int) or variable.aval.dtype != np.int32:
            break
        counters.append(value)
    return counters[::-1]


def _table(rows: list[list]) -> np.ndarray:
    width = min(map(len, rows), default=0)
    return np.array([row[len(row) - width :] for row in rows], np.int64).reshape(len(rows), width)


_HANDLERS = {
    "cond": Follower._cond,
    "while": Follower._while,
    "scan": Follower._scan,
    "run_scoped": Follower._run_scoped,
    "empty_ref": Follower._empty_ref,
    PROMISE: Follower._promise,
    "get": Follower._get,
    "swap": Follower._swap,
    "masked_swap": Follower._other_store,
    "addupdate": Follower._other_store,
    "dma_start": Follower._dma_start,
    "dma_wait": Follower._dma_wait,
    "semaphore_signal": lambda self, eqn, inputs, active, times: [],
    "semaphore_wait": lambda self, eqn, inputs, active, times: [],
}
