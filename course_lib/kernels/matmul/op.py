"""``matmul`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools

from jax import lax

from course_lib.arrays import Array, Described, Num
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.products import dot, generation_of, precision_of, product_dtype
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul import mosaic_gpu, triton
from course_lib.kernels.matmul.kernel import Blocks, gradient_products, launch, reference


def matmul(
    x: Num[Array, "M K"],
    y: Num[Array, "K N"],
    *,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "M N"]:
    """Return ``x @ y`` for x of shape (M, K) and y of shape (K, N): both f32, both bf16, or both int8 (result: int32).

    ``precision`` is for f32 on a TPU: the MXU multiplies bf16 values, so "highest" takes six passes and is as good as
    f32; "high" takes three, and keeps about five decimal digits; "default" takes one, and keeps about three.
    ``blocks`` None: those of ``blocks_for``.
    ``layout`` says how x and y lie on a mesh with Auto axes; if K is cut, the parts are added across the devices.
    Differentiable for floats. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError if shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    return _checked("matmul", x, y, False, False, precision, blocks, layout)


def matmul_transposed(
    x: Num[Array, "_M _K"],
    y: Num[Array, "_K _N"],
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "M N"]:
    """Return the ``matmul`` of operands stored transposed; differentiable likewise.

    With ``transpose_x`` x has shape (K, M) and ``x.T @ y`` is computed, with ``transpose_y`` y has (N, K) and
    ``x @ y.T``; the blocks are transposed on the way to the MXU, and no transposed copy is made in HBM.
    """
    return _checked("matmul_transposed", x, y, transpose_x, transpose_y, precision, blocks, layout)


def matmul_transposed_reference(
    x: Num[Array, "_M _K"], y: Num[Array, "_K _N"], *, transpose_x: bool = False, transpose_y: bool = False
) -> Num[Array, "M N"]:
    """Return what ``matmul_transposed`` must compute."""
    return reference(x.T if transpose_x else x, y.T if transpose_y else y)


def blocks_for(x: Described, y: Described, *, precision: lax.PrecisionLike = "highest", **transposed: bool) -> Blocks:
    """Return the blocks chosen for these arguments, and for the chip that is traced for (a v5e if there is none)."""
    problem = matmul_blocks.problem("blocks_for", x, y, precision_of("blocks_for", x.dtype, precision), **transposed)
    return blocks_of(matmul_blocks.fastest(problem))


def candidates(
    x: Described, y: Described, *, precision: lax.PrecisionLike = "highest", **transposed: bool
) -> list[Blocks]:
    """Return all blocks worth a trial for these arguments: ``bench.autotune`` ranks them by the compiler's cycles."""
    level = precision_of("candidates", x.dtype, precision)
    problem = matmul_blocks.problem("candidates", x, y, level, **transposed)
    return [blocks_of(sizes) for sizes in matmul_blocks.candidates(problem)]


def blocks_of(sizes: tuple[int, int, int]) -> Blocks:
    """Return ``Blocks`` of (bm, bk, bn)."""
    bm, bk, bn = sizes
    return Blocks(bm=bm, bk=bk, bn=bn)


def _checked(op, x, y, transpose_x, transpose_y, precision, blocks, layout) -> Array:
    x, y = arguments.arrays(op, arguments.FACTORS, x=x, y=y)
    level = precision_of(op, x.dtype, precision)
    legal.check_kind(op, blocks, Blocks)
    problem = matmul_blocks.problem(op, x, y, level, transpose_x=transpose_x, transpose_y=transpose_y)
    matmul_blocks.check(blocks, problem)
    (x, y), cuts = sharding.ready(op, _rule(transpose_x, transpose_y), (x, y), layout)
    return _matmul(x, y, transpose_x, transpose_y, level, blocks, cuts)


def _rule(transpose_x: bool, transpose_y: bool) -> str:
    return f"{'k m' if transpose_x else 'm k'}, {'n k' if transpose_y else 'k n'} -> m n +k"


@functools.partial(differentiable, settings=5)
def _matmul(x, y, transpose_x, transpose_y, precision, blocks, cuts):
    turned = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    if 0 in x.shape or 0 in y.shape:
        return _plain(x, y, **turned, precision=precision)
    on_gpus = {"gpu": fixed(mosaic_gpu.on_gpu, **turned), "portable": fixed(triton.on_gpu, **turned)}
    op = Op(
        name="matmul",
        rule=_rule(transpose_x, transpose_y),
        tpu=fixed(_on_tpu, **turned, precision=precision, blocks=blocks),
        plain=fixed(_plain, **turned, precision=precision),
        dtypes=(product_dtype(x.dtype),),
        since=generation_of(x.dtype),
        **(on_gpus if x.dtype != "int8" else {}),
    )
    return op(x, y, cuts=cuts)


def _on_tpu(x, y, *, transpose_x, transpose_y, precision, blocks):
    """Run the kernel on one device's part of the arrays, and choose blocks for it unless the caller named some."""
    turned = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    problem = matmul_blocks.problem("matmul", x, y, precision, **turned)
    sizes = matmul_blocks.chosen(blocks, problem)
    limit = matmul_blocks.vmem_limit(sizes, problem)
    return launch(x, y, sizes, vmem_limit_bytes=limit, precision=precision, **turned)


def _plain(x, y, *, transpose_x, transpose_y, precision):
    product = dot(x, y, transpose_x=transpose_x, transpose_y=transpose_y, precision=precision)
    return product.astype(product_dtype(x.dtype))


def _forward(x, y, *static):
    return _matmul(x, y, *static), (x, y)


def _backward(transpose_x, transpose_y, precision, _, cuts, saved, g):
    return gradients(*saved, g, precision, cuts, transpose_x=transpose_x, transpose_y=transpose_y)


_matmul.defvjp(_forward, _backward)


def gradients(
    x: Array, y: Array, g: Array, precision: lax.Precision | None, cuts: mesh_rules.Cuts, **transposed: bool
) -> tuple[Array, Array]:
    """Return dx and dy, by kernels with blocks of their own; on a mesh, cut as the forward operands were."""

    def multiply(a, b, transpose_a, transpose_b, letters):
        return _matmul(a, b, transpose_a, transpose_b, precision, None, mesh_rules.renamed(cuts, letters, "mkn"))

    return gradient_products(x, y, g, multiply, **transposed)
