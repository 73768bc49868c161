"""Matrix multiplication: ``o = x @ y``, for f32 and bf16; and int8 times int8, summed in int32.

Cost   FLOPs 2*M*N*K;  HBM bytes, where K is one block, (M*K + K*N*ceil(M/bm) + M*N) * itemsize, and
       (M*K*ceil(N/bn) + K*N*ceil(M/bm) + M*N) * itemsize where it is several (1 instead of ceil(M/bm) where N is one
       block, and so is K)
VMEM   2 * (bm*bk + bk*bn + bm*bn) * itemsize: each block held twice; and 4*bm*bn for the sum where K is several blocks

The grid is (i, j, k), k innermost: the sum of a block of o is kept in f32 from step to step (in int32 for int8).
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, generation_of, precision_of, sum_dtype, zero_beyond
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu
from course_lib.kernels.matmul import triton as matmul_portable
from course_lib.kernels.matmul import turned as matmul_transposed_kernels


def reference(x: Num[Array, "M K"], y: Num[Array, "K N"]) -> Num[Array, "M N"]:
    """What ``matmul`` must compute: products summed in f32 (in int32 for int8), rounded once."""
    return jnp.dot(x, y, precision="highest", preferred_element_type=sum_dtype(x.dtype)).astype(out_dtype(x))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: bm rows, bk of the reduction, bn columns. They change the speed, not the result.

    Legal: bk and bn multiples of 128, bm of 8 (32 for int8); of 128 where x is stored transposed, by the caller or by
    XLA (`layouts`). A block is cut down to an array that is smaller, so a bk as large as K means: all in one step.
    """

    bm: int = 512
    bk: int = 1024
    bn: int = 512

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES, bk=legal.LANES, bn=legal.LANES)


def _kernel(
    x_ref: Num[Ref, "bm bk"],  # block (i, k)
    y_ref: Num[Ref, "bk bn"],  # block (k, j)
    o_ref: Num[Ref, "bm bn"],  # block (i, j): stays put while k runs
    acc_ref: Num[Ref, "bm bn"],  # scratch: survives from one grid step to the next
    *,
    size: int,  # of the reduction, which the last bk may reach past
    precision: lax.Precision | None,
) -> None:
    k, bk = pl.program_id(2), x_ref.shape[1]

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, y = x_ref[...], y_ref[...]
    if size % bk:
        x, y = zero_beyond(x, 1, size - k * bk), zero_beyond(y, 0, size - k * bk)
    acc_ref[...] += dot(x, y, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)  # rounded once, at the last


# With all of K in one block a step is a product and nothing else, and the compiler weaves the loads, the products and
# the stores of the whole step into one another.
def _whole_k_kernel(
    x_ref: Num[Ref, "bm K"], y_ref: Num[Ref, "K bn"], o_ref: Num[Ref, "bm bn"], *, precision: lax.Precision | None
) -> None:
    o_ref[...] = dot(x_ref[...], y_ref[...], precision=precision).astype(o_ref.dtype)


def matmul(
    x: Num[Array, "M K"],
    y: Num[Array, "K N"],
    *,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "M N"]:
    """``x @ y`` for x of shape (M, K) and y of shape (K, N), both f32 or both bf16, or both int8 (the result: int32).

    ``precision`` is for f32 on a TPU: the MXU multiplies bf16 numbers, so "highest" takes six passes and is as good as
    f32; "high" takes three, and keeps about five decimal digits; "default" takes one, and keeps about three.
    ``blocks`` None: chosen by ``blocks_for``.
    ``layout`` says how x and y lie on a mesh with Auto axes; where K is cut, the parts are added among the devices.
    Differentiable for floats. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError where shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    x, y = arguments.arrays("matmul", arguments.FACTORS, x=x, y=y)
    level = precision_of("matmul", x.dtype, precision)
    legal.check_kind("matmul", blocks, Blocks)
    matmul_blocks.check(blocks, matmul_blocks.problem("matmul", x, y, level))
    (x, y), cuts = sharding.ready("matmul", _rule(False, False), (x, y), layout)
    return _matmul(x, y, False, False, level, blocks, cuts)


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
    """``matmul`` of operands stored transposed, and differentiable likewise.

    With ``transpose_x`` x has shape (K, M) and ``x.T @ y`` is computed, with ``transpose_y`` y has (N, K) and
    ``x @ y.T``; the blocks are turned on the way to the MXU, no transposed copy is made in HBM.
    """
    x, y = arguments.arrays("matmul_transposed", arguments.FACTORS, x=x, y=y)
    level = precision_of("matmul_transposed", x.dtype, precision)
    legal.check_kind("matmul_transposed", blocks, Blocks)
    turned = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    matmul_blocks.check(blocks, matmul_blocks.problem("matmul_transposed", x, y, level, **turned))
    (x, y), cuts = sharding.ready("matmul_transposed", _rule(transpose_x, transpose_y), (x, y), layout)
    return _matmul(x, y, transpose_x, transpose_y, level, blocks, cuts)


def matmul_transposed_reference(
    x: Num[Array, "_M _K"], y: Num[Array, "_K _N"], *, transpose_x: bool = False, transpose_y: bool = False
) -> Num[Array, "M N"]:
    """What ``matmul_transposed`` must compute."""
    return reference(x.T if transpose_x else x, y.T if transpose_y else y)


def blocks_for(x: Described, y: Described, *, precision: lax.PrecisionLike = "highest", **transposed: bool) -> Blocks:
    """The blocks that are chosen for these arguments, and for the chip traced for (a v5e where it is none)."""
    problem = matmul_blocks.problem("blocks_for", x, y, precision_of("blocks_for", x.dtype, precision), **transposed)
    return blocks_of(matmul_blocks.fastest(problem))


def candidates(
    x: Described, y: Described, *, precision: lax.PrecisionLike = "highest", **transposed: bool
) -> list[Blocks]:
    """All the blocks worth a trial for these arguments: ``bench.autotune`` searches them by the compiler's cycles."""
    level = precision_of("candidates", x.dtype, precision)
    problem = matmul_blocks.problem("candidates", x, y, level, **transposed)
    return [blocks_of(sizes) for sizes in matmul_blocks.candidates(problem)]


def blocks_of(sizes: tuple[int, int, int]) -> Blocks:
    """``Blocks`` of (bm, bk, bn)."""
    bm, bk, bn = sizes
    return Blocks(bm=bm, bk=bk, bn=bn)


def out_dtype(x: Array) -> jnp.dtype:
    """int32 for a product of int8, else the dtype of the operands."""
    return jnp.dtype(jnp.int32 if x.dtype == jnp.int8 else x.dtype)


def _rule(transpose_x: bool, transpose_y: bool) -> str:
    return f"{'k m' if transpose_x else 'm k'}, {'n k' if transpose_y else 'k n'} -> m n +k"


@functools.partial(differentiable, settings=5)
def _matmul(x, y, transpose_x, transpose_y, precision, blocks, cuts):
    how = {"transpose_x": transpose_x, "transpose_y": transpose_y, "precision": precision}
    if 0 in x.shape or 0 in y.shape:
        return _plain(x, y, **how)
    rule, on_tpu = _rule(transpose_x, transpose_y), fixed(_on_tpu, **how, blocks=blocks)
    turned = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    roads = {"gpu": fixed(matmul_gpu.on_gpu, **turned), "portable": fixed(matmul_portable.on_gpu, **turned)}
    roads = {} if x.dtype == jnp.int8 else roads
    since = generation_of(x.dtype)
    launch = Op(name="matmul", rule=rule, tpu=on_tpu, plain=fixed(_plain, **how), since=since, **roads)
    return launch(x, y, cuts=cuts)


def _plain(x, y, *, transpose_x, transpose_y, precision):
    product = dot(x, y, transpose_x=transpose_x, transpose_y=transpose_y, precision=precision)
    return product.astype(out_dtype(x))


def _forward(x, y, *static):
    return _matmul(x, y, *static), (x, y)


def _backward(transpose_x, transpose_y, precision, _, cuts, saved, g):
    return gradients(*saved, g, precision, cuts, transpose_x=transpose_x, transpose_y=transpose_y)


def gradients(
    x: Array,
    y: Array,
    g: Array,
    precision: lax.Precision | None,
    cuts: mesh_rules.Cuts,
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> tuple[Array, Array]:
    """dx = g @ y.T and dy = x.T @ g; their transposes where x or y is stored transposed. Blocks are chosen anew."""

    def product(a, b, turn_a, turn_b, letters):
        """``letters`` are what this product's m, k and n are called in the one forwards."""
        return _matmul(a, b, turn_a, turn_b, precision, None, mesh_rules.renamed(cuts, letters, "mkn"))

    if transpose_x:
        dx = product(y, g, transpose_y, True, "knm")
    else:
        dx = product(g, y, False, not transpose_y, "mnk")
    if transpose_y:
        dy = product(g, x, True, transpose_x, "nmk")
    else:
        dy = product(x, g, not transpose_x, False, "kmn")
    return dx, dy


_matmul.defvjp(_forward, _backward)


def _on_tpu(
    x: Array,
    y: Array,
    *,
    transpose_x: bool,
    transpose_y: bool,
    precision: lax.Precision | None,
    blocks: Blocks | None,
) -> Array:
    problem = matmul_blocks.problem("matmul", x, y, precision, transpose_x=transpose_x, transpose_y=transpose_y)
    sizes = matmul_blocks.chosen(blocks, problem)
    m, k = x.shape[::-1] if transpose_x else x.shape
    n = y.shape[0 if transpose_y else 1]
    bm, bk, bn = sizes
    # A matrix that XLA stores by columns is taken by its transpose, which is there for nothing.
    x, transpose_x = _as_it_lies(x, transpose_x)
    y, transpose_y = _as_it_lies(y, transpose_y)
    transpose_o = is_by_columns((m, n))
    kernel, whole_k_kernel = _kernel, _whole_k_kernel
    x_spec = pl.BlockSpec((bm, bk), lambda i, j, k: (i, k))
    y_spec = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    o_shape, o_block, o_spec = (m, n), (bm, bn), pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))
    if transpose_x:
        x_spec = pl.BlockSpec((bk, bm), lambda i, j, k: (k, i))
    if transpose_y:
        y_spec = pl.BlockSpec((bn, bk), lambda i, j, k: (j, k))
    if transpose_o:
        o_shape, o_block, o_spec = (n, m), (bn, bm), pl.BlockSpec((bn, bm), lambda i, j, k: (j, i))
    if transpose_x or transpose_y or transpose_o:
        turned = {"transpose_x": transpose_x, "transpose_y": transpose_y, "transpose_o": transpose_o}
        kernel = functools.partial(matmul_transposed_kernels.kernel, **turned)
        whole_k_kernel = functools.partial(matmul_transposed_kernels.whole_k_kernel, **turned)
    if bk == k:
        kernel, scratch = functools.partial(whole_k_kernel, precision=precision), []
    else:
        kernel = functools.partial(kernel, size=k, precision=precision)
        scratch = [pltpu.VMEM(o_block, sum_dtype(x.dtype))]
    o = pl.pallas_call(
        kernel,
        out_shape=out_type(x, o_shape, out_dtype(x)),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[x_spec, y_spec],
        out_specs=o_spec,
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=matmul_blocks.vmem_limit(sizes, problem),
        ),
        name="matmul",
    )(x, y)
    return o.T if transpose_o else o


def _as_it_lies(matrix: Array, transposed: bool) -> tuple[Array, bool]:
    return (matrix.T, not transposed) if is_by_columns(matrix.shape) else (matrix, transposed)
