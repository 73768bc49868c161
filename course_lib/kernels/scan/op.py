"""``cumsum`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools

import jax.numpy as jnp

from course_lib.arrays import Array, Described, Num
from course_lib.kernels.common import arguments, axes, legal
from course_lib.kernels.common.along_axis import whole
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.scan.blocks import Plan, plan_of
from course_lib.kernels.scan.kernel import Blocks, launch, reference


def cumsum(
    x: Num[Array, "*shape"],
    axis: int = -1,
    *,
    reverse: bool = False,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "*shape"]:
    """Return the cumulative sums along ``axis`` of an array of f32, bf16 or int32, in the same dtype.

    ``reverse`` begins at the end. Floats are summed in f32 and rounded once. Differentiable: the gradient is the
    cumulative sum in the other direction, by the same kernel. Runs the kernel on a TPU and plain JAX elsewhere.
    ``layout`` says how x lies on a mesh with Auto axes; if ``axis`` itself is cut, each device adds what comes before
    its part. Raises ValueError for another axis or dtype, or if the blocks need more VMEM than there is.
    """
    (x,) = arguments.arrays("cumsum", arguments.NUMBERS, x=x)
    axis = axes.one("cumsum", x, axis)
    legal.check_kind("cumsum", blocks, Blocks)
    (x,), cuts = sharding.ready("cumsum", _rule(x.ndim, axis, reverse), (x,), layout)
    return _cumsum(x, axis, reverse, blocks, cuts)


def blocks_for(x: Num[Described, "*shape"], axis: int = -1, *, reverse: bool = False) -> Blocks:
    """Return the blocks that ``cumsum`` chooses for these arguments; right for every chip.

    For a matrix that XLA stores by columns they are those of its transpose, which is what the kernel sees.
    """
    return plan_of(x.shape, x.dtype, axis % x.ndim, None).blocks


def _rule(rank: int, axis: int, reverse: bool) -> str:
    out = (letters := mesh_rules.letters(rank).split()).copy()
    out[axis] = ("<" if reverse else ">") + out[axis]
    return f"{' '.join(letters)} -> {' '.join(out)}"


@functools.partial(differentiable, settings=4)
def _cumsum(x, axis, reverse, blocks, cuts):
    plain = fixed(reference, axis=axis, reverse=reverse)
    if not x.size:
        return plain(x)
    plan = plan_of(x.shape, x.dtype, axis, blocks)
    check_fits(plan.blocks, plan.vmem_bytes)
    on_tpu = fixed(_on_tpu, axis=axis, reverse=reverse, blocks=blocks)
    return Op(name="cumsum", rule=_rule(x.ndim, axis, reverse), tpu=on_tpu, plain=plain)(x, cuts=cuts)


_cumsum.defvjp(
    lambda x, *how: (_cumsum(x, *how), None),
    lambda axis, reverse, blocks, cuts, _, g: (_cumsum(g, axis, not reverse, blocks, cuts),),
)


def _on_tpu(x, *, axis, reverse, blocks):
    """Run the kernel on one device's part of the array."""
    plan = plan_of(x.shape, x.dtype, axis, blocks)
    if x.ndim == 1:  # zeros behind it, up to whole tiles
        padded = jnp.pad(x, (0, whole(x.size, 1024) - x.size))
        return _launch(padded, plan, reverse)[: x.size]
    return _launch(x.T, plan, reverse).T if plan.of_transpose else _launch(x, plan, reverse)


def _launch(x: Array, plan: Plan, reverse: bool) -> Array:
    how = {"view": plan.view, "axis": plan.axis, "block": plan.block, "carry": plan.carry, "reverse": reverse}
    return launch(x, plan.add_up, **how, vmem_limit_bytes=vmem_limit(plan.vmem_bytes))
