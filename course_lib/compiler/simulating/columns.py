"""The simulation of XLA's own matmul for a few of its columns.

A 4096 x 4096 matmul takes the simulator 20 s and 2 GB. XLA walks a grid too, and if it cuts a narrower matmul into the
same windows, its cycles are on a straight line with those of the whole.
"""

import dataclasses
import math

import jax

from course_lib import grid
from course_lib.compiler.dumps import hlo
from course_lib.compiler.report import Extrapolation
from course_lib.grid.jaxprs import inside

SMALL, LARGE = 4, 6  # steps along the columns; two or three steps are often cut differently
_EPILOGUE = {
    "convert_element_type", "mul", "add", "sub", "div", "max", "min", "neg", "tanh", "logistic", "exp", "erf",
    "integer_pow", "square", "pow", "copy",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """A function that is one matmul, possibly followed by something elementwise."""

    argument: int  # the argument that has the columns
    axis: int
    columns: int


def product(jaxpr) -> Product | None:
    """Return the matmul that a traced function consists of; None if it is anything else."""
    eqns = [eqn for eqn in grid.equations(jaxpr) if not inside(eqn)]
    dots = [eqn for eqn in eqns if eqn.primitive.name == "dot_general"]
    inputs = _where_it_is_done(jaxpr)
    if len(dots) != 1 or len(inputs) != 2 or not all(_harmless(eqn, inputs) for eqn in eqns if eqn is not dots[0]):
        return None
    (_, contracted), (batch, _) = dots[0].params["dimension_numbers"]
    right = dots[0].invars[1]
    if batch or list(dots[0].invars).count(right) != 1 or right not in inputs or right.aval.ndim != 2:
        return None
    axis = 1 - contracted[0]
    return Product(argument=inputs.index(right), axis=axis, columns=right.aval.shape[axis])


def narrow(jaxpr, product: Product, args: tuple, steps: int, of: int, chip: str) -> tuple[object, tuple]:
    """Trace the function for ``steps`` of XLA's ``of`` steps along the columns; return its arguments too."""
    leaves = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in jax.tree.leaves(args)]
    shape = list(leaves[product.argument].shape)
    shape[product.axis] = product.columns // of * steps
    leaves[product.argument] = jax.ShapeDtypeStruct(tuple(shape), leaves[product.argument].dtype)
    return grid.trace(lambda *a: grid.run(jaxpr, False, *a), *leaves, chip=chip), tuple(leaves)


def main_op(module: hlo.Module) -> hlo.HloOp | None:
    """Return the op that is the matmul, if no other op in the module computes."""
    working = [op for op in module.ops if op.windows]
    return working[0] if len(working) == 1 and len(working[0].iterations) == 3 and working[0].times == 1 else None


def line(whole: hlo.HloOp, parts: list[tuple[hlo.HloOp, int]]) -> Extrapolation | None:
    """Return the line through two narrower matmuls, each (op, cycles); None unless XLA does the same in all three."""
    for op, _ in parts:
        if op.windows != whole.windows or op.iterations[1:] != whole.iterations[1:] or _places(op) != _places(whole):
            return None
    small, large = ((math.prod(op.iterations), cycles) for op, cycles in parts)
    return Extrapolation(steps=math.prod(whole.iterations), small=small, large=large)


def remark(product: Product, whole: hlo.HloOp) -> str:
    """Say what was simulated, for the Report."""
    return (
        f"simulated with {SMALL} and {LARGE} of every {whole.iterations[0]} columns of argument {product.argument}, "
        "which XLA splits into the same windows."
    )


def _places(op: hlo.HloOp) -> list[bool]:
    """Return which of its arrays are in HBM."""
    return [size > 0 for size in (*op.operands, *op.results)]


def _where_it_is_done(jaxpr) -> list:
    """Return the variables of the function's inputs; inside the jit, if that is the whole function."""
    if len(jaxpr.eqns) == 1 and jaxpr.eqns[0].primitive.name in ("jit", "pjit"):
        eqn = jaxpr.eqns[0]
        return _where_it_is_done(eqn.params["jaxpr"]) if list(eqn.invars) == list(jaxpr.jaxpr.invars) else []
    return list(jaxpr.jaxpr.invars)


def _harmless(eqn, inputs: list) -> bool:
    """Whether an equation does the same for fewer columns: arithmetic on the matmul's result and scalars."""
    arrays = [v for v in eqn.invars if v.aval.shape != ()]
    shape = eqn.outvars[0].aval.shape
    return eqn.primitive.name in _EPILOGUE and all(v not in inputs and v.aval.shape == shape for v in arrays)
