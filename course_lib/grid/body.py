"""Follow a kernel's scalars through its grid: which branches it takes, how often it loops, what it copies by hand.

The scalar core of a TPU decides where copies go and what runs; it works with grid indices, loop counters and
prefetched integers, and all of those are known here. So the body is evaluated for them, at all grid steps at
once, and array values are left open. Where a decision depends on an array's values, that is said, never guessed.
"""

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.extend.core
import numpy as np
from jax._src.state import indexing

from course_lib.grid import scalars
from course_lib.grid.call import Call, Scratch, UnreadableCall
from course_lib.grid.scalars import UNKNOWN, known
from course_lib.grid.trace import inner_jaxpr, scan_parts, split, sub_jaxprs

MAX_EVALUATIONS = 3_000_000  # some seconds of following; beyond that we say no


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """One place in the order of things where a kernel starts a copy by hand, at one or many grid steps."""

    source: str  # the name of a ref
    target: str
    source_space: str  # "hbm", "vmem", "smem"
    target_space: str
    dtype: np.dtype
    shape: tuple[int, ...]  # of the part that is copied, one entry per axis of the ref on the HBM side
    starts: np.ndarray | None  # int64[n, rank]: its first element on the HBM side; None: an array's values decide
    steps: np.ndarray  # int64[n]: the grid steps that start it
    remote: bool = False  # it goes to another chip
    buffer: int = 0  # a number for the ref on the VMEM side
    turn: tuple[int, int] | None = None  # the loop it is started in (an index of Followed.loops), and the turn of it

    @property
    def bytes(self) -> int:
        """Bytes of one such copy."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Wait:
    """One place where a kernel waits for a copy into or out of a buffer."""

    buffer: int
    turn: tuple[int, int] | None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """A loop that was followed turn by turn. ``counters``: int64[turns, n], its last n 32-bit integers, if known."""

    turns: int
    counters: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Followed:
    """What a kernel does over its whole grid."""

    runs: tuple[tuple[jax.extend.core.JaxprEqn, int], ...]  # operations on arrays, and how often each runs
    copies: tuple[Copy, ...]  # in the order of the program
    waits: tuple[Wait, ...] = ()
    loops: tuple[Loop, ...] = ()
    written: frozenset[str] = frozenset()  # the names of the refs it stores to or copies into
    doubt: str = ""  # why ``runs`` is an upper bound, if it is one
    hidden_copies: str = ""  # why ``copies`` is not all, if so


@functools.lru_cache(maxsize=64)
def follow(call: Call) -> Followed:
    """Follow one kernel over its grid, all steps at once; one by one where a step leaves scalars for the next.

    Raises UnreadableCall if that would take more than three million evaluations.
    """
    followed, stored = _follow_together(call)
    if stored and (followed.doubt or followed.hidden_copies):
        return _follow_in_order(call)
    return followed


def index_values(jaxpr, coordinates: list, scalars: tuple) -> list:
    """The outputs of an index map at the steps whose grid coordinates are given; UNKNOWN where it does more."""
    refs = [_Ref("scalars", "smem", v.aval) for v in jaxpr.invars[len(coordinates) :]]
    for ref, array in zip(refs, scalars, strict=True):
        ref.give(array)
    return _Follower(grid=(), coordinates=()).jaxpr(jaxpr, (), [*coordinates, *refs], np.True_, 1)


def _follow_together(call: Call) -> tuple[Followed, bool]:
    """All steps at once, and whether the kernel stores scalars that a later step may read."""
    follower = _Follower(grid=call.grid, coordinates=_coordinates(call))
    follower.jaxpr(call.kernel, (), _refs(call), np.ones(call.steps, bool), 1)
    return follower.result(), follower.stored


def _follow_in_order(call: Call) -> Followed:
    """Step after step, with the scalars that one leaves in SMEM for the next."""
    follower = _Follower(grid=call.grid, coordinates=(), ordered=True)
    refs, coordinates = _refs(call), _coordinates(call)
    for step in range(call.steps):
        follower.coordinates, follower.first = tuple(c[step] for c in coordinates), step
        follower.jaxpr(call.kernel, (), refs, np.True_, 1)
    return follower.result()


def _coordinates(call: Call) -> tuple[np.ndarray, ...]:
    if not call.grid:
        return ()
    return tuple(np.asarray(c, np.int32) for c in np.unravel_index(np.arange(call.steps), call.grid))


def _refs(call: Call) -> list:
    names = [(o.name, o.memory_space) for o in call.operands] + [(s.name, s.memory_space) for s in call.scratch]
    refs = [_Ref(name, space, v.aval) for (name, space), v in zip(names, call.kernel.invars, strict=True)]
    for ref, array in zip(refs, call.scalars, strict=False):
        ref.give(array)
    return refs


class _Ref:
    """A ref while it is followed. One in SMEM has values: ``values`` where ``known`` is True."""

    def __init__(self, name: str, space: str, aval):
        self.name, self.space, self.aval = name, space, aval
        if space == "smem":
            self.values, self.known = np.zeros(aval.shape, aval.dtype), np.zeros(aval.shape, bool)

    def give(self, array) -> None:
        self.values, self.known = np.array(array), np.ones(self.aval.shape, bool)


class _Follower:
    """The state of following: counts, copies, and the memory of scalars."""

    def __init__(self, grid: tuple, coordinates: tuple, ordered: bool = False):
        self.grid, self.coordinates, self.ordered = grid, coordinates, ordered
        self.first = 0  # the grid step that the first entry of ``coordinates`` belongs to
        self.counts: dict[int, list] = {}
        self.copies: list[Copy] = []
        self.waits: list[Wait] = []
        self.loops: list[Loop] = []
        self.written: set[str] = set()
        self.turn: tuple[int, int] | None = None
        self.doubt = self.hidden_copies = ""
        self.stored = False  # whether it came upon a store of scalars
        self.evaluations = 0

    def result(self) -> Followed:
        return Followed(
            runs=tuple((eqn, times) for eqn, times in self.counts.values()),
            copies=tuple(self.copies),
            waits=tuple(self.waits),
            loops=tuple(self.loops),
            written=frozenset(self.written),
            doubt=self.doubt,
            hidden_copies=self.hidden_copies,
        )

    def jaxpr(self, jaxpr, consts, inputs, active: np.ndarray, times: int) -> list:
        """Follow a jaxpr for the steps in ``active`` (bool[S]), each ``times`` times; its outputs."""
        env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

        def read(v):
            return v.val if isinstance(v, jax.extend.core.Literal) else env[v]

        for eqn in jaxpr.eqns:
            self.evaluations += 1
            if self.evaluations > MAX_EVALUATIONS:
                raise UnreadableCall(
                    f"following this kernel takes more than {MAX_EVALUATIONS:,} evaluations. Try it with a smaller "
                    "array or larger blocks."
                )
            outputs = self._equation(eqn, [read(v) for v in eqn.invars], active, times)
            env.update(zip(eqn.outvars, outputs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, eqn, inputs: list, active, times: int) -> list:
        name = eqn.primitive.name
        if name == "program_id":
            return [self.coordinates[eqn.params["axis"]]]
        if name == "num_programs":
            return [np.int32(self.grid[eqn.params["axis"]])]
        if handler := _HANDLERS.get(name):
            return handler(self, eqn, inputs, active, times)
        if inner := inner_jaxpr(eqn):
            return self.jaxpr(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs, active, times)
        if any(getattr(v.aval, "shape", ()) for v in (*eqn.invars, *eqn.outvars)):
            self._count(eqn, active, times)
        elif all(map(known, inputs)) and not eqn.effects:
            return scalars.evaluate(eqn, inputs)
        return [UNKNOWN] * len(eqn.outvars)

    def _count(self, eqn, active, times: int) -> None:
        count = self.counts.setdefault(id(eqn), [eqn, 0])
        count[1] += int(np.count_nonzero(active)) * times

    def _cond(self, eqn, inputs: list, active, times: int) -> list:
        index, *rest = inputs
        branches = eqn.params["branches"]
        if not known(index):
            self._undecided(eqn, branches, "a condition")
            for branch in branches:
                self.jaxpr(branch.jaxpr, branch.consts, rest, active, times)
            return [UNKNOWN] * len(eqn.outvars)
        index = np.clip(np.asarray(index).astype(np.int64), 0, len(branches) - 1)
        merged = None
        for number in np.unique(index[active] if index.ndim else index).tolist():
            branch = branches[number]
            here = active & (index == number)
            outputs = self.jaxpr(branch.jaxpr, branch.consts, rest, here, times)
            merged = (
                outputs
                if merged is None
                else [_where(here, new, old) for new, old in zip(outputs, merged, strict=True)]
            )
        return merged if merged is not None else [UNKNOWN] * len(eqn.outvars)

    def _while(self, eqn, inputs: list, active, times: int) -> list:
        condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        of_cond, of_body, carry = split(inputs, eqn.params["cond_nconsts"], eqn.params["body_nconsts"])
        outer, counters, number = self.turn, [], len(self.loops)
        self.loops.append(Loop(turns=0, counters=_table([])))
        while True:
            self.turn = number, len(counters)
            (going,) = self.jaxpr(condition.jaxpr, condition.consts, [*of_cond, *carry], active, 0)
            if not known(going):
                self._undecided(eqn, (body,), "the end of a loop")
                self.jaxpr(body.jaxpr, body.consts, [*of_body, *map(_unknown, carry)], active, times)
                self.turn = outer
                return list(map(_unknown, carry))
            active = active & np.asarray(going, bool)
            if not active.any():
                self.turn, self.loops[number] = outer, Loop(turns=len(counters), counters=_table(counters))
                return carry
            counters.append(_counters(carry))
            after = self.jaxpr(body.jaxpr, body.consts, [*of_body, *carry], active, times)
            carry = [_where(active, new, old) for new, old in zip(after, carry, strict=True)]

    def _scan(self, eqn, inputs: list, active, times: int) -> list:
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        consts, carry, xs = scan_parts(eqn, inputs)
        xs = [UNKNOWN] * len(xs)
        ys = [UNKNOWN] * (len(eqn.outvars) - len(carry))
        if not _decides(body.jaxpr):  # every turn does the same: follow one, count it ``length`` times
            after = self.jaxpr(body.jaxpr, body.consts, [*consts, *map(_unknown, carry), *xs], active, times * length)
            return [*after[: len(carry)], *ys]
        outer, counters, number = self.turn, [], len(self.loops)
        self.loops.append(Loop(turns=0, counters=_table([])))
        for n in range(length):
            self.turn = number, n
            counters.append(_counters(carry))
            carry = self.jaxpr(body.jaxpr, body.consts, [*consts, *carry, *xs], active, times)[: len(carry)]
        self.turn, self.loops[number] = outer, Loop(turns=length, counters=_table(counters))
        return [*carry, *ys]

    def _run_scoped(self, eqn, inputs: list, active, times: int) -> list:
        jaxpr = eqn.params["jaxpr"]
        names = _scoped_names(jaxpr)
        refs = [_Ref(name, space_of(v.aval), v.aval) for name, v in zip(names, jaxpr.invars, strict=True)]
        return self.jaxpr(jaxpr, inputs, refs, active, times)

    def _get(self, eqn, inputs: list, active, times: int) -> list:
        ref, *rest = inputs
        if eqn.outvars[0].aval.shape != ():
            self._count(eqn, active, times)
            return [UNKNOWN]
        index = self._index(eqn, rest) if ref.space == "smem" else None
        if index is None or not _element(ref.known, index).all():
            return [UNKNOWN]
        return [_element(ref.values, index)]

    def _swap(self, eqn, inputs: list, active, times: int) -> list:
        ref, value, *rest = inputs
        old = self._get(eqn, [ref, *rest], active, times)
        self.written |= {ref.name} if active.any() else set()
        if ref.space == "smem":
            self.stored = True
            index = self._index(eqn, rest)
            if not self.ordered or index is None:
                ref.known[...] = False  # another step may have written it
            elif active.any():
                ref.known[index] = known(value)
                ref.values[index] = value if known(value) else 0
        return old

    def _other_store(self, eqn, inputs: list, active, times: int) -> list:
        """A store with a mask, or one that adds: of scalars in SMEM it leaves nothing known."""
        ref = inputs[0]
        self._count(eqn, active, times)
        self.written |= {ref.name} if active.any() else set()
        if ref.space == "smem":
            self.stored = True
            ref.known[...] = False
        return [UNKNOWN] * len(eqn.outvars)

    def _index(self, eqn, leaves: list) -> tuple | None:
        """The index of one element of a ref, or None if it is not known."""
        transforms = jax.tree.unflatten(eqn.params["tree"], leaves)
        if not transforms:
            return ()
        if len(transforms) != 1 or not isinstance(transforms[0], indexing.NDIndexer):
            return None
        index = transforms[0].indices
        return tuple(index) if all(known(i) and not isinstance(i, indexing.Slice) for i in index) else None

    def _dma_start(self, eqn, inputs: list, active, times: int) -> list:
        source, target, _, _, device = jax.tree.unflatten(eqn.params["tree"], inputs)
        source, target = _window(source), _window(target)
        if source is None or target is None or times != 1:
            self.hidden_copies = self.hidden_copies or "how much it copies depends on an array's values"
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
                    dtype=np.dtype(side.ref.aval.dtype),
                    shape=side.sizes,
                    starts=_starts(side, active.shape, steps),
                    steps=steps + self.first,
                    remote=device is not None,
                    buffer=id(other.ref),
                    turn=self.turn,
                )
            )
        return []

    def _dma_wait(self, eqn, inputs: list, active, times: int) -> list:
        _, target, *_ = jax.tree.unflatten(eqn.params["tree"], inputs)
        if active.any():
            self.waits.append(Wait(buffer=id(getattr(target, "ref", target)), turn=self.turn))
        return []

    def _undecided(self, eqn, jaxprs, what: str) -> None:
        """A decision depends on what is not known here."""
        self.doubt = f"{what} depends on an array's values: counted as if it always ran"
        if any(e.primitive.name == "dma_start" for j in jaxprs for e in _inside(j.jaxpr)):
            self.hidden_copies = f"{what} that guards a copy depends on an array's values"


@dataclasses.dataclass(frozen=True)
class _Window:
    """A part of a ref: where it starts along each axis, and how many elements it has."""

    ref: _Ref
    starts: tuple  # UNKNOWN where an array's values decide
    sizes: tuple[int, ...]


def _window(side) -> _Window | None:
    """The part of a ref that one side of a copy names; None if its size is not known."""
    ref, transforms = (side, ()) if isinstance(side, _Ref) else (side.ref, side.transforms)
    starts, sizes = [np.int64(0)] * len(ref.aval.shape), list(ref.aval.shape)
    axes = list(range(len(sizes)))  # of the ref, that are still axes of the part
    for transform in transforms:
        if not isinstance(transform, indexing.NDIndexer):
            return None
        left = []
        for axis, index in zip(axes, transform.indices, strict=True):
            is_slice = isinstance(index, indexing.Slice)
            if is_slice and (index.is_dynamic_size or index.stride != 1):
                return None
            start, sizes[axis] = (index.start, index.size) if is_slice else (index, 1)
            both = known(start) and known(starts[axis])
            starts[axis] = starts[axis] + np.asarray(start, np.int64) if both else UNKNOWN
            left += [axis] if is_slice else []
        axes = left
    return _Window(ref, tuple(starts), tuple(sizes))


def _starts(window: _Window, shape: tuple[int, ...], steps: np.ndarray) -> np.ndarray | None:
    """int64[len(steps), rank]: where a part starts at the given steps; ``shape`` is that of one value per step."""
    if not all(map(known, window.starts)):
        return None
    columns = [np.broadcast_to(s, shape).reshape(-1)[steps] for s in window.starts]
    return np.stack(columns, axis=1) if columns else np.zeros((len(steps), 0), np.int64)


def _counters(carry: list) -> list:
    """The 32-bit integers at the end of what a loop carries: emit_pipeline keeps its grid index there."""
    counters = []
    for value in reversed(carry):
        is_counter = isinstance(value, int) or getattr(value, "dtype", None) == np.int32
        if not is_counter or np.ndim(value):
            break
        counters.append(int(value))
    return counters[::-1]


def _table(rows: list[list]) -> np.ndarray:
    width = min(map(len, rows), default=0)
    return np.array([row[len(row) - width :] for row in rows], np.int64).reshape(len(rows), width)


def space_of(aval) -> str:
    """ "vmem", "smem", "hbm" or "semaphore": where a ref lives."""
    space = str(getattr(aval, "memory_space", "")).lower()
    for word, name in (("semaphore", "semaphore"), ("smem", "smem"), ("any", "hbm"), ("hbm", "hbm")):
        if word in space:
            return name
    return "vmem"


def scoped(call: Call) -> tuple[Scratch, ...]:
    """The refs that a kernel's body allocates for itself (pl.run_scoped, pl.kernel's scratch, emit_pipeline)."""
    return tuple(
        Scratch(name=name, memory_space=space_of(v.aval), shape=tuple(v.aval.shape), dtype=v.aval.dtype)
        for eqn in _inside(call.kernel)
        if eqn.primitive.name == "run_scoped"
        for name, v in zip(_scoped_names(eqn.params["jaxpr"]), eqn.params["jaxpr"].invars, strict=True)
    )


def _scoped_names(jaxpr) -> list[str]:
    names = jaxpr.debug_info.arg_names or []
    if len(names) == len(jaxpr.invars):
        return [name or f"scoped {n}" for n, name in enumerate(names)]
    return [f"scoped {n}" for n in range(len(jaxpr.invars))]


@functools.lru_cache(maxsize=256)
def copies_by_hand(call: Call) -> bool:
    """Whether the kernel starts copies itself, besides those that its BlockSpecs ask for."""
    return any(eqn.primitive.name == "dma_start" for eqn in _inside(call.kernel))


def _inside(jaxpr) -> Iterator:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in sub_jaxprs(eqn):
            yield from _inside(inner)


@functools.lru_cache(maxsize=512)
def _decides(jaxpr) -> bool:
    """Whether turns of a loop may differ: the body branches, loops, copies, or stores scalars."""
    return any(
        e.primitive.name in ("cond", "while", "dma_start", "run_scoped")
        or (e.primitive.name == "swap" and space_of(e.invars[0].aval) == "smem")
        for e in _inside(jaxpr)
    )


def _where(mask, new, old):
    if isinstance(new, _Ref) or isinstance(old, _Ref):
        return new
    if not known(new) or not known(old):
        return new if np.all(mask) else UNKNOWN
    return new if np.all(mask) else np.where(mask, new, old)


def _unknown(value):
    return value if isinstance(value, _Ref) else UNKNOWN


def _element(array: np.ndarray, index: tuple):
    """array[index] for scalars or arrays of them; an index outside is left to the judges, here it is clipped."""
    inside = (np.clip(np.asarray(i, np.int64), 0, n - 1) for i, n in zip(index, array.shape, strict=True))
    return array[tuple(inside)]


_HANDLERS = {
    "cond": _Follower._cond,
    "while": _Follower._while,
    "scan": _Follower._scan,
    "run_scoped": _Follower._run_scoped,
    "get": _Follower._get,
    "swap": _Follower._swap,
    "masked_swap": _Follower._other_store,
    "addupdate": _Follower._other_store,
    "dma_start": _Follower._dma_start,
    "dma_wait": _Follower._dma_wait,
    "semaphore_signal": lambda self, eqn, inputs, active, times: [],
    "semaphore_wait": lambda self, eqn, inputs, active, times: [],
}
