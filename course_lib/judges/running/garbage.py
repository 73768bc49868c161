"""Garbage of several kinds: what a kernel has not written is NaN in the simulator, and may be any value on a chip."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic.interpret import utils as interpreter

from course_lib import grid
from course_lib.grid.jaxprs import is_variable
from course_lib.judges.reading import memory, order
from course_lib.judges.verdict import Complaint

_PLAUSIBLE = 1234.5  # unlike any likely argument, and large enough to show in a sum
_LEAST = int(np.iinfo(np.int32).min)
_LARGE = 1e9  # its square is finite, so that 0 times it is 0, as in a mask that multiplies

# Operations whose result for NaN looks like one for a number, so that NaN no longer shows in what follows.
_HIDES_NAN = ("gt", "ge", "lt", "le", "eq", "ne", "gt_to", "ge_to", "lt_to", "le_to", "sort", "argmax", "argmin")


class Filling(NamedTuple):
    """What unwritten memory holds in the simulator. None: what JAX puts there, NaN or the largest integer."""

    floats: float | None = None
    integers: int | None = None


class Suspicion(NamedTuple):
    """What to simulate with, one after another, and what to say about the first filling that makes results wrong."""

    fillings: tuple[Filling, ...]
    complaint: Callable[[Filling], Complaint]


class _Source(NamedTuple):
    """Memory that may hold garbage when the kernel reads it. ``dtype``: None if unknown."""

    where: str
    dtype: np.dtype | None


def suspicion(walk: grid.Walk, args: tuple) -> Suspicion | None:
    """Return what other garbage to try on a function's kernels; None if NaN shows all that a kernel does with garbage.

    NaN does not show where a float is compared or converted to an integer. Integers and booleans have no NaN. Infinity
    is not tried on a kernel that asks whether a value is NaN: such a kernel may replace NaN in one operand of a product
    and mask the other, and infinity times 0 is NaN.
    """
    ordinary = [*_ordinary(args, jnp.floating), *_compared_with(walk, float)]
    if any(_asks_for_nan(call) for call in walk.calls):
        finite = dict.fromkeys((_PLAUSIBLE, 0.0, -_LARGE, _LARGE, *ordinary))
        return Suspicion(tuple(map(Filling, finite)), _told_by_nan)
    sources = [(call, source) for call in walk.calls for source in _sources(call)]
    floats = [s for call, s in sources if (s.dtype is None or _is_float(s.dtype)) and _hides_nan(call)]
    integers = [s for _, s in sources if s.dtype is not None and not _is_float(s.dtype)]
    tried = itertools.zip_longest(
        dict.fromkeys((np.inf, -np.inf, 0.0, -_LARGE, _LARGE, *ordinary)) if floats else (),
        dict.fromkeys((0, _LEAST, *_ordinary(args, jnp.integer), *_compared_with(walk, int))) if integers else (),
    )
    where = " or ".join(dict.fromkeys(source.where for source in (*floats, *integers)))
    fillings = tuple(Filling(*values) for values in tried)
    return Suspicion(fillings, lambda filling: _depends(where, filling)) if fillings else None


def _asks_for_nan(call: grid.Call) -> bool:
    """Whether a kernel asks if a number is NaN: compares it with itself, or calls isfinite."""
    return any(
        eqn.primitive.name == "is_finite" or (eqn.primitive.name in ("eq", "ne") and eqn.invars[0] is eqn.invars[1])
        for eqn in grid.equations(call.kernel)
    )


def _hides_nan(call: grid.Call) -> bool:
    """Whether a kernel compares floats, or converts one to an integer or a boolean."""
    return any(
        _is_float(eqn.invars[0].aval.dtype)
        and (name in _HIDES_NAN or ("convert" in name and not _is_float(eqn.outvars[0].aval.dtype)))
        for eqn in grid.equations(call.kernel)
        if eqn.invars and hasattr(eqn.invars[0].aval, "dtype") and (name := eqn.primitive.name)
    )


def _compared_with(walk: grid.Walk, kind: type) -> list:
    """Return the constants of type ``kind`` with which the kernels compare: x == 1 is true of no other garbage."""
    return [
        kind(v.val)
        for call in walk.calls
        for eqn in grid.equations(call.kernel)
        if eqn.primitive.name in _HIDES_NAN
        for v in eqn.invars
        if not is_variable(v) and np.ndim(v.val) == 0 and _is_float(v.aval.dtype) == (kind is float)
    ]


def _is_float(dtype: np.dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _sources(call: grid.Call) -> Iterator[_Source]:
    """Yield the blocks that extend past the end of an array, and the memory that is read before it is written."""
    for one in (call, *order.pipelines(grid.Walk(calls=(call,), jaxpr=None))):
        for operand in one.inputs:
            if any(n % block for n, block in zip(operand.shape, operand.block_shape, strict=True)):
                yield _Source(f"past the end of the array that {operand.name} reads", operand.dtype)
    if memory.known_uses(call) is None and call.scratch:
        yield _Source("in scratch memory that nothing has written", None)
    dtypes = {ref.name: ref.dtype for ref in (*call.operands, *call.scratch)}
    for read in memory.unwritten_reads(call):
        reads = f"step {call.step(read.step)} reads" if call.steps > 1 else "is read"
        yield _Source(f"in {read.ref}, which {reads} before anything has been written there", dtypes.get(read.ref))


def _ordinary(args: tuple, kind: type) -> list:
    """Return the smallest, the middle and the largest finite value among the arguments of a kind of dtype."""
    leaves = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(args) if jnp.issubdtype(leaf.dtype, kind)]
    values = np.concatenate([leaf.astype(np.float64) for leaf in leaves]) if leaves else np.zeros(0)
    values = np.sort(values[np.isfinite(values)])
    found = values[[0, len(values) // 2, -1]].tolist() if len(values) else []
    return found if kind is jnp.floating else list(map(int, found))


def _told_by_nan(filling: Filling) -> Complaint:
    return Complaint(
        "Memory that nobody has written, and what lies past the end of an array, is NaN in the simulator, and the "
        f"kernel asks whether a value is NaN. With {filling.floats:g} there instead, its results are wrong. A chip has "
        "whatever was there before.",
        "tell garbage by where it lies, not by what it is: compare the index with the length of the array.",
    )


def _depends(where: str, filling: Filling) -> Complaint:
    """Say that results depend on garbage that NaN, or the largest integer, did not show."""
    tried = [f"{filling.floats:g}"] if filling.floats is not None else []
    hidden = (
        ["NaN there, and a comparison such as y > 0 is never true for NaN, so that run looks right"] if tried else []
    )
    if filling.integers is not None:
        tried.append(f"the integer {filling.integers}")
        hidden.append("the largest integer there, and that run looks right, too")
    advice = []
    if "written" in where:
        advice.append("write that memory before the first step that reads it: @pl.when(pl.program_id(axis) == 0).")
    if "past the end" in where:
        advice.append("mask by index: compare the index with the length of the array. y > 0 is no mask.")
    return Complaint(
        f"The result depends on garbage. It is wrong with {' or '.join(tried)} {where}. The simulator first puts "
        f"{' or '.join(hidden)}. A chip has whatever was there before.",
        " ".join(advice),
    )


_filling = Filling()  # of the run in progress


@contextlib.contextmanager
def that_is(filling: Filling | None) -> Iterator[None]:
    """Make the simulator fill unwritten memory with ``filling``; None changes nothing.

    A compiled run asks for it whenever it allocates memory, so that one compilation serves for all fillings.
    """
    if filling is None:
        yield
        return
    global _filling
    _filling = filling
    usual = interpreter.get_uninitialized_value

    def value(dtype, uninitialized_memory):
        """Return a NumPy scalar."""
        if _filling.floats is not None and _is_float(dtype):
            return np.asarray(_filling.floats, dtype)
        if _filling.integers is not None and not _is_float(dtype):
            ends = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else None
            return np.asarray(np.clip(_filling.integers, ends.min, ends.max) if ends else _filling.integers, dtype)
        return np.asarray(usual(dtype, uninitialized_memory), dtype)

    def array(shape, dtype, uninitialized_memory):
        """Return a traced array."""
        one = jax.pure_callback(lambda: value(dtype, uninitialized_memory), jax.ShapeDtypeStruct((), dtype))
        return jnp.full(shape, one, dtype)

    with (
        mock.patch.object(interpreter, "get_uninitialized_value", value),
        mock.patch.object(interpreter, "get_uninitialized_array", array),
    ):
        yield
