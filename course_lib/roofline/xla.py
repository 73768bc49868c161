"""What XLA runs around the kernels of a function: the operations it fuses, and the bytes that pass through HBM.

Arrays are counted with the padding of their tiles, in the axis order that needs least, because XLA stores arguments and
results that way. The count differs from the program in two cases. Next to a kernel, which takes row-major arrays, XLA
transposes them with copies that are not counted (the compiler's report has a note). Arrays that XLA keeps in VMEM
between two operations, or that it never creates because it fuses two matmuls, are counted but do not move.
"""

import dataclasses
import itertools
from collections.abc import Iterator

import jax
import jax.extend.core
import jax.numpy as jnp

from course_lib import chips, grid
from course_lib.grid import jaxprs
from course_lib.roofline import mxu

_LOOPS = {"scan": "", "while": "the length of a loop depends on data: counted once", "cond": ""}
_FREE = ("reshape", "squeeze", "expand_dims")  # free on an array in HBM: other names for the same bytes
# These run on their own, and take longer than their bytes do.
_ALONE = (
    "sort", "top_k", "approx_top_k", "fft", "gather", "scatter", "scatter-add", "scatter_mul", "scatter_min",
    "scatter_max", "cholesky", "triangular_solve", "lu", "qr", "eigh", "svd", "reduce_window", "select_and_scatter_add",
)  # fmt: skip
_UNKNOWN_TILES = "XLA chooses the tiles of a grouped matmul: the time is a lower bound"


@dataclasses.dataclass(kw_only=True, eq=False)
class Fusion:
    """Operations that run as one: at most one matmul, and the elementwise work before and after it."""

    mxu_s: float = 0.0  # seconds at the MXU's peak
    times: int = 1
    doubt: str = ""
    read: dict = dataclasses.field(default_factory=dict)  # value in HBM -> bytes
    written: dict = dataclasses.field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(self.read.values()) + sum(self.written.values())


@dataclasses.dataclass(eq=False)
class _Value:
    """An array while a jaxpr is read: in HBM from the start, made by a fusion, or computed from values in HBM alone."""

    bytes: int
    fusion: Fusion | None = None
    made_of: tuple["_Value", ...] = ()  # for a value that no fusion has made yet: it is computed where it is used

    @property
    def stored(self) -> bool:
        return self.fusion is None and not self.made_of


def fusions(jaxpr: jax.extend.core.ClosedJaxpr, chip: chips.Chip) -> tuple[Fusion, ...]:
    """Return the fusions around the kernels of a traced function, in order."""
    reader = _Reader(chip)
    reader.results(reader.jaxpr(jaxpr, [_Value(_bytes(v)) for v in jaxpr.invars]))
    return tuple(f for f in reader.found if f.bytes or f.mxu_s)


class _Reader:
    """A reader that goes through a jaxpr in order and collects fusions."""

    def __init__(self, chip: chips.Chip):
        self.chip, self.found = chip, []

    def jaxpr(self, jaxpr, inputs: list[_Value]) -> list[_Value]:
        env = dict(zip(jaxpr.invars, inputs, strict=True)) | {v: _Value(_bytes(v)) for v in jaxpr.constvars}

        def read(v):
            return env[v] if jaxprs.is_variable(v) else _Value(0)

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self._equation(eqn, [read(v) for v in eqn.invars]), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def results(self, values: list[_Value]) -> None:
        """Write what the function returns; a value that is already in HBM is copied."""
        seen = set()
        for value in values:
            if id(value) in seen and value.bytes:
                self._copy(value)
            seen.add(id(value))
            self._store(value)

    def _equation(self, eqn, inputs: list[_Value]) -> list[_Value]:
        name = eqn.primitive.name
        if name in grid.KERNELS:
            for value in inputs:
                self._store(value)
            return [_Value(_bytes(v)) for v in eqn.outvars]
        if name in _LOOPS:
            return self._loop(eqn, inputs)
        if (inner := _entered(eqn)) is not None:
            return self.jaxpr(inner, inputs)
        if name in mxu.PRODUCTS or name in _ALONE:
            return self._on_its_own(eqn, inputs)
        return self._elementwise(eqn, inputs)

    def _on_its_own(self, eqn, inputs: list[_Value]) -> list[_Value]:
        """Start a fusion for a matmul, or for an operation that nothing fuses with."""
        fusion, name = self._new(), eqn.primitive.name
        if name in _ALONE:
            fusion.doubt = f"only the bytes of `{name}` are counted: the time is a lower bound"
        else:
            fusion.mxu_s = mxu.mxu_seconds(eqn, self.chip)
            fusion.doubt = _UNKNOWN_TILES if name.startswith("ragged") else ""
        for value in inputs:
            self._use(value, fusion)
        return [_Value(_bytes(v), fusion) for v in eqn.outvars]

    def _elementwise(self, eqn, inputs: list[_Value]) -> list[_Value]:
        """Put an operation into the last fusion that made one of its operands; if none did, it joins its consumer's."""
        if eqn.primitive.name in _FREE and inputs[0].stored:
            return inputs[:1]
        makers = [v.fusion for v in inputs if v.fusion is not None]
        if not makers:
            sources = dict.fromkeys(s for v in inputs or [_Value(0)] for s in (v.made_of or (v,)))
            return [_Value(_bytes(v), None, tuple(sources)) for v in eqn.outvars]
        fusion = max(makers, key=self.found.index)
        for value in inputs:
            self._use(value, fusion)
        return [_Value(_bytes(v), fusion) for v in eqn.outvars]

    def _use(self, value: _Value, fusion: Fusion) -> None:
        if value.fusion is fusion:
            return
        if value.made_of:
            for source in value.made_of:
                self._use(source, fusion)
            return
        self._store(value)
        fusion.read[value] = value.bytes

    def _store(self, value: _Value) -> None:
        """Write a value to HBM if it is not there yet."""
        if value.made_of:
            fusion = self._new()
            self._use(value, fusion)
            value.fusion, value.made_of = fusion, ()
        if value.fusion is not None:
            value.fusion.written[value] = value.bytes

    def _copy(self, value: _Value) -> None:
        fusion = self._new()
        self._use(value, fusion)
        fusion.written[value] = value.bytes

    def _loop(self, eqn, inputs: list[_Value]) -> list[_Value]:
        """Read a loop, whose body reads and writes HBM in every iteration, or the last branch of a condition."""
        for value in inputs:
            self._store(value)
        body = jaxprs.bodies(eqn)[-1]
        inner = inputs[1:] if eqn.primitive.name == "cond" else [_Value(_bytes(v)) for v in body.invars]
        first = len(self.found)
        self.results(self.jaxpr(body, inner))
        for fusion in self.found[first:]:
            fusion.times *= eqn.params.get("length", 1)
            fusion.doubt = fusion.doubt or _LOOPS[eqn.primitive.name]
        return [_Value(_bytes(v)) for v in eqn.outvars]

    def _new(self) -> Fusion:
        self.found.append(Fusion())
        return self.found[-1]


def _entered(eqn):
    """Return the jaxpr of a call (jit, custom_vjp ...), or None; a reduction has one too, but over scalars."""
    inner = jaxprs.called(eqn)
    if inner is None or [v.aval.shape for v in inner.invars] != [v.aval.shape for v in eqn.invars]:
        return None
    return inner


def _bytes(variable) -> int:
    """Return the bytes that an array takes in HBM; 0 for anything else."""
    aval = variable.aval
    if not (hasattr(aval, "dtype") and hasattr(aval, "shape")):
        return 0
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended):  # keys of a random generator, for example
        return aval.size * aval.dtype.itemsize
    return min(grid.stored_bytes(shape, aval.dtype) for shape in _orders(aval.shape))


def _orders(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the shape with each pair of axes last; the other axes are not padded, so their order does not matter."""
    for last in itertools.permutations(range(len(shape)), min(2, len(shape))):
        yield (*(n for axis, n in enumerate(shape) if axis not in last), *(shape[axis] for axis in last))
