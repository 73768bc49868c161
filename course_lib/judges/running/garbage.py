"""Garbage of several kinds: what a kernel has not written is NaN in the simulator, and may be any value on a chip."""

import contextlib
import functools
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
_MOST_VALUES = 50_000  # of an argument, to draw garbage from

# Operations whose result for NaN looks like one for a number, so that NaN no longer shows in what follows.
_HIDES_NAN = ("gt", "ge", "lt", "le", "eq", "ne", "gt_to", "ge_to", "lt_to", "le_to", "sort", "argmax", "argmin")


class Filling(NamedTuple):
    """What unwritten memory holds in the simulator. None: what JAX puts there, NaN or the largest integer.

    An array: every element holds one of these numbers, drawn at random.
    """

    floats: float | np.ndarray | None = None
    integers: int | np.ndarray | None = None


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
    is not tried on a kernel that asks whether a value is NaN: such a kernel may replace NaN in one operand of a matmul
    and mask the other, and infinity times 0 is NaN.
    """
    sources = [(call, source) for call in walk.calls for source in _sources(call)]
    floats = [s for call, s in sources if (s.dtype is None or _is_float(s.dtype)) and _hides_nan(call)]
    integers = [s for _, s in sources if s.dtype is not None and not _is_float(s.dtype)]
    by_nan = any(_asks_for_nan(call) for call in walk.calls)
    extremes = (_PLAUSIBLE, 0.0, -_LARGE, _LARGE) if by_nan else (np.inf, -np.inf, 0.0, -_LARGE, _LARGE)
    tried = itertools.zip_longest(
        _values(extremes, args, walk, float) if floats or by_nan else (),
        _values((0, _LEAST), args, walk, int) if integers else (),
    )
    fillings = tuple(Filling(*values) for values in tried)
    if not fillings:
        return None
    suspects = (source for _, source in sources) if by_nan else (*floats, *integers)
    where = " or ".join(dict.fromkeys(source.where for source in suspects))
    return Suspicion(fillings, functools.partial(_told_by_nan if by_nan else _depends, where))


def _values(extremes: tuple, args: tuple, walk: grid.Walk, kind: type) -> list:
    """Return the numbers of one kind to fill memory with, one after another; last an array to draw from.

    The array holds the arguments' numbers and those around the kernels' constants, with either sign: a kernel that
    looks for numbers in a narrow range finds some there.
    """
    given = _finite(args, jnp.floating if kind is float else jnp.integer)
    constants = [c for c in _compared_with(walk, kind) if np.isfinite(c)]
    few = given[[0, len(given) // 2, -1]] if len(given) else given
    ends = np.sort(np.unique([*constants, *few]))
    near = np.concatenate([ends, (ends[1:] + ends[:-1]) / 2, ends - 1, ends + 1])
    drawn = np.concatenate([given, np.repeat(near, 1 + len(given) // (4 * len(near) or 1))])
    listed = [*dict.fromkeys((*extremes, *map(kind, few), *_compared_with(walk, kind)))]
    return [*listed, np.concatenate([drawn, -drawn]).astype(kind)] if len(drawn) else listed


def likely(args: tuple) -> tuple[Filling, ...]:
    """Return garbage that looks like the arguments: their smallest values, their largest, and zeros."""
    floats, integers = _finite(args, jnp.floating), _finite(args, jnp.integer)
    ends = [(float(floats[n]) if len(floats) else 0.0, int(integers[n]) if len(integers) else 0) for n in (0, -1)]
    return tuple(Filling(*values) for values in dict.fromkeys([*ends, (0.0, 0)]))


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
        and (
            name in _HIDES_NAN
            or (("convert" in name or "bitcast" in name) and not _is_float(eqn.outvars[0].aval.dtype))
        )
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
            ends = operand.starts + np.array(operand.block_shape)
            if (operand.starts < 0).any() or (ends > np.array(operand.shape)).any():
                yield _Source(f"past the end of the array that {operand.name} reads", operand.dtype)
    if memory.known_uses(call) is None and call.scratch:
        yield _Source("in scratch memory that nothing has written", None)
    dtypes = {ref.name: ref.dtype for ref in (*call.operands, *call.scratch)}
    unwritten = {read.ref for read in memory.unwritten_reads(call)}
    for read in memory.unwritten_reads(call, doubtful=True):
        reads = f"step {call.step(read.step)} reads" if call.steps > 1 else "is read"
        before = (
            "anything has been written there"
            if read.ref in unwritten and not read.rows
            else "all of it has been written"
        )
        yield _Source(f"in {read.ref}, which {reads} before {before}", dtypes.get(read.ref))


def _finite(args: tuple, kind: type) -> np.ndarray:
    """Return the finite numbers among the arguments of a kind of dtype in order, not more than _MOST_VALUES of each."""
    leaves = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(args) if jnp.issubdtype(leaf.dtype, kind)]
    some = [leaf[:: 1 + len(leaf) // _MOST_VALUES].astype(np.float64) for leaf in leaves]
    values = np.concatenate(some) if some else np.zeros(0)
    return np.sort(values[np.isfinite(values)])


def _named(values: float | np.ndarray, kind: str = "") -> str:
    if isinstance(values, np.ndarray):
        return f"{'integers' if kind else 'values'} like the arguments'"
    return f"{kind}{values}" if kind else f"{values:g}"


def _told_by_nan(where: str, filling: Filling) -> Complaint:
    there = _named(filling.floats) if filling.floats is not None else _named(filling.integers, "the integer ")
    lies = f" That memory lies {where}." if where else ""
    return Complaint(
        "In the simulator, unwritten memory and the elements past the end of an array are NaN, and the kernel tests "
        f"for NaN. With {there} there instead, its results are wrong.{lies} On a chip this memory holds whatever was "
        "there before.",
        "detect garbage by its position, not by its value: compare the index with the length of the array.",
    )


def _depends(where: str, filling: Filling) -> Complaint:
    """Say that results depend on garbage that NaN, or the largest integer, did not show."""
    tried = [_named(filling.floats)] if filling.floats is not None else []
    hidden = (
        ["NaN there, and a comparison such as y > 0 is always false for NaN, so that run looks right"] if tried else []
    )
    if filling.integers is not None:
        tried.append(_named(filling.integers, "the integer "))
        hidden.append("the largest integer there, and that run looks right, too")
    advice = []
    if "written" in where:
        advice.append("write that memory before the first step that reads it: @pl.when(pl.program_id(axis) == 0).")
    if "past the end" in where:
        advice.append("mask by index: compare the index with the length of the array. y > 0 is no mask.")
    return Complaint(
        f"The result depends on garbage. It is wrong with {' or '.join(tried)} {where}. The simulator first puts "
        f"{' or '.join(hidden)}. On a chip this memory holds whatever was there before.",
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

    def filled(shape, dtype, uninitialized_memory):
        """Return a NumPy array."""
        values = _filling.floats if _is_float(dtype) else _filling.integers
        if values is None:
            values = usual(dtype, uninitialized_memory)
        elif jnp.issubdtype(dtype, jnp.integer):
            values = np.clip(values, jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)
        return np.random.default_rng(0).choice(np.atleast_1d(values), shape).astype(dtype)

    def array(shape, dtype, uninitialized_memory):
        """Return a traced array."""
        fill = functools.partial(filled, shape, dtype, uninitialized_memory)
        return jax.pure_callback(fill, jax.ShapeDtypeStruct(shape, dtype))

    def padded(value, block_shape, uninitialized_memory):
        """Return a traced array that is longer by what is missing from the last blocks."""
        shape = tuple(-(-n // block) * block for n, block in zip(value.shape, block_shape, strict=True))
        if shape == value.shape:
            return value
        return jax.lax.dynamic_update_slice(array(shape, value.dtype, uninitialized_memory), value, (0,) * len(shape))

    with (
        mock.patch.object(interpreter, "get_uninitialized_value", functools.partial(filled, ())),
        mock.patch.object(interpreter, "get_uninitialized_array", array),
        mock.patch.object(interpreter, "pad_to_block_dimension", padded),
    ):
        yield
