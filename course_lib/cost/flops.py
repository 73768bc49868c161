"""The operations of a function, counted from its jaxpr: on the MXU, on the VPU, and transcendental ones in the EUP.

A multiply and an add count as two FLOPs. Moving, padding and converting values is free.
"""

import dataclasses
import functools
import math

from course_lib import grid
from course_lib.grid import jaxprs

_ARITHMETIC = {
    "add", "add_any", "sub", "mul", "div", "rem", "max", "min", "neg", "abs", "sign", "square", "integer_pow", "clamp",
    "select_n", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "floor", "ceil", "round", "is_finite",
    "shift_left", "shift_right_logical", "shift_right_arithmetic", "nextafter",
}  # fmt: skip
# Each of these is one push into the EUP, or a sequence of vector operations around one.
_TRANSCENDENTAL = {
    "exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "rsqrt", "sqrt", "cbrt", "pow", "sin", "cos", "tan",
    "erf", "erfc", "erf_inv", "asin", "acos", "atan", "atan2", "sinh", "cosh", "reciprocal",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin", "cumsum",
    "cummax", "cummin", "cumprod", "cumlogsumexp", "reduce",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """Operations of a function. ``doubt`` says why the figures are an upper bound, if they are one."""

    mxu: int = 0  # FLOPs of matmuls and convolutions
    vector: int = 0  # elementwise operations and reductions, one per element
    transcendental: int = 0  # exp, log, tanh, sqrt ..., one per element; not counted in ``vector``
    doubt: str = ""

    @property
    def total(self) -> int:
        return self.mxu + self.vector + self.transcendental

    def __add__(self, other: "Work") -> "Work":
        return Work(
            mxu=self.mxu + other.mxu,
            vector=self.vector + other.vector,
            transcendental=self.transcendental + other.transcendental,
            doubt=self.doubt or other.doubt,
        )

    def __mul__(self, times: int) -> "Work":
        return Work(
            mxu=self.mxu * times,
            vector=self.vector * times,
            transcendental=self.transcendental * times,
            doubt=self.doubt,
        )


def flops(walk: grid.Walk) -> Work:
    """Count the operations of a function: its kernels over all grid steps, and the operations around them.

    Inside a kernel a branch counts at the steps that take it. Raises grid.UnreadableCall if a kernel cannot be read.
    """
    return sum((kernel_flops(call) for call in walk.calls), _around(walk.jaxpr))


@functools.lru_cache(maxsize=64)
def kernel_flops(call: grid.Call) -> Work:
    """Count the operations of one kernel over all grid steps, times how often the function runs it."""
    followed = grid.body(call)
    work = sum((_of(eqn) * times for eqn, times in followed.runs), Work(doubt=followed.doubt))
    if call.times is None:
        return work + Work(doubt=f"how often {call.name} runs depends on data: counted once")
    return work * call.times


def _around(jaxpr) -> Work:
    """Count the operations outside kernels: a loop of unknown length once, a condition's most expensive branch."""
    work = Work()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in grid.KERNELS:
            continue
        inner = [_around(jaxpr) for jaxpr in _entered(eqn)]
        if not inner:
            work += _of(eqn)
        elif eqn.primitive.name == "scan":
            work += inner[0] * eqn.params["length"]
        elif eqn.primitive.name == "while":
            work += inner[0] + Work(doubt="the length of a loop depends on data: counted once")
        else:
            work += max(inner, key=lambda w: w.total)
    return work


def _entered(eqn) -> list:
    """Return the jaxprs of an equation that run: a custom derivative's forward function, not its backward rule."""
    if eqn.primitive.name in (*_REDUCTIONS, "scatter", "scatter-add", "sort"):
        return []
    inner = jaxprs.called(eqn)
    return jaxprs.bodies(eqn) or ([inner] if inner is not None else [])


def _of_groups(eqn) -> int:
    """Count the multiplications of a ragged matmul: each row by its group's matrix; rows in no group count too."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (contracted, _), _ = numbers.dot_dimension_numbers
    depth = math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    cut = set(numbers.lhs_ragged_dimensions) & set(contracted)  # a gradient: one matrix per group, from its rows only
    return depth * eqn.outvars[0].aval.size // (eqn.outvars[0].aval.shape[0] if cut else 1)


def _of(eqn) -> Work:
    """Count the operations of one equation on arrays."""
    name = eqn.primitive.name
    if name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        depth = math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
        return Work(mxu=2 * depth * eqn.outvars[0].aval.size)
    if name == "ragged_dot_general":
        return Work(mxu=2 * _of_groups(eqn))
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval
        out_features = kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
        return Work(mxu=2 * eqn.outvars[0].aval.size * kernel.size // out_features)
    if name == "addupdate":
        return Work(vector=eqn.invars[1].aval.size)
    size = eqn.outvars[0].aval.size if eqn.outvars and hasattr(eqn.outvars[0].aval, "size") else 0
    if name in _TRANSCENDENTAL:
        return Work(transcendental=size)
    if name in _REDUCTIONS:
        return Work(vector=eqn.invars[0].aval.size)
    return Work(vector=size) if name in _ARITHMETIC else Work()
