"""How long matmuls keep the MXUs busy."""

import math

import jax
import numpy as np

from course_lib import chips

PRODUCTS = ("dot_general", "ragged_dot", "ragged_dot_general", "conv_general_dilated")
_PASSES = {jax.lax.Precision.HIGH: 3, jax.lax.Precision.HIGHEST: 6}  # passes of bf16 for float32 operands


def mxu_seconds(eqn, chip: chips.Chip) -> float:
    """Return the seconds of one matmul at the peak of all MXUs.

    An MXU holds a square of the right operand, so the contracted size and the right operand's free size are rounded up
    to whole squares; rows of the left operand stream through in groups of a register's sublanes.
    """
    return 2 * math.prod(_padded(eqn, chip)) * _passes(eqn) / rate(eqn.invars[0].aval.dtype, chip)


def rate(dtype, chip: chips.Chip) -> float:
    """Return the FLOP/s of the MXUs for a dtype of operands: 8-bit integers have their own peak, the rest run as bf16.

    A chip without an integer peak widens 8-bit integers to bf16.
    """
    narrow = np.issubdtype(dtype, np.integer) and np.dtype(dtype).itemsize == 1
    return chip.int8_ops if narrow and chip.int8_ops else chip.bf16_flops


def _sizes(eqn) -> tuple[int, int, int, int]:
    """Return (batch, rows, contracted, columns) of a matmul."""
    left, right, out = eqn.invars[0].aval, eqn.invars[1].aval, eqn.outvars[0].aval
    if eqn.primitive.name == "dot_general":
        (contracted, _), (batch, _) = eqn.params["dimension_numbers"]
        depth = math.prod(left.shape[axis] for axis in contracted)
        times = math.prod(left.shape[axis] for axis in batch)
        rows = left.size // max(depth * times, 1)
        return times, rows, depth, right.size // max(depth * times, 1)
    if eqn.primitive.name == "conv_general_dilated":
        features = right.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
        return 1, out.size // features, right.size // features, features
    if len(out.shape) == 2:  # grouped: (rows, depth) x (groups, depth, columns), each row with its own group
        return 1, out.shape[0], left.shape[-1], out.shape[1]
    return 1, left.shape[0], *out.shape[1:]  # the gradient: each group contracts its own rows


def _padded(eqn, chip: chips.Chip) -> tuple[int, int, int, int]:
    times, rows, depth, columns = _sizes(eqn)
    return times, _up(rows, chip.sublanes), _up(depth, chip.mxu_size), _up(columns, chip.mxu_size)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _passes(eqn) -> int:
    precision = eqn.params.get("precision")
    precision = precision[0] if isinstance(precision, tuple) and precision else precision
    return _PASSES.get(precision, 1) if eqn.invars[0].aval.dtype == np.float32 else 1
