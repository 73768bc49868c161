"""Matrix multiplication: ``o = x @ y``, for f32 and bf16; and int8 times int8, summed in int32.

Cost   FLOPs 2*M*N*K;  HBM bytes, where K is one block, (M*K + K*N*ceil(M/bm) + M*N) * itemsize, and
       (M*K*ceil(N/bn) + K*N*ceil(M/bm) + M*N) * itemsize where it is several (1 instead of ceil(M/bm) where N is one
       block, and so is K)
VMEM   2 * (bm*bk + bk*bn + bm*bn) * itemsize: each block held twice; and 4*bm*bn for the sum where K is several blocks

The grid is (i, j, k), k innermost. With all of K in one block a step is a product and nothing else, so the compiler
weaves the loads, the products and the stores of the whole step into one another. With K in several blocks the sum is
kept in f32 (int32 for int8) from step to step, and rounded to the dtype of the output once, at the last.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels import matmul_blocks
from course_lib.kernels.matmul_blocks import Blocks, Problem
from course_lib.kernels.platforms import by_platform
from course_lib.kernels.products import dot, passes, precision_of, sum_dtype, zero_beyond


def reference(x: Num[Array, "M K"], y: Num[Array, "K N"]) -> Num[Array, "M N"]:
    """What ``matmul`` must compute: products summed in f32 (in int32 for int8), rounded once."""
    return jnp.dot(x, y, precision="highest", preferred_element_type=sum_dtype(x.dtype)).astype(out_dtype(x))


def _whole_k_kernel(x_ref: Num[Ref, "..."], y_ref: Num[Ref, "..."], o_ref: Num[Ref, "bm bn"], *, how) -> None:
    o_ref[...] = dot(x_ref[...], y_ref[...], **how).astype(o_ref.dtype)


def _kernel(
    x_ref: Num[Ref, "..."],  # block (i, k); (k, i) of an x that is stored transposed
    y_ref: Num[Ref, "..."],  # block (k, j); (j, k) of a y that is stored transposed
    o_ref: Num[Ref, "bm bn"],  # block (i, j): stays put while k runs
    acc_ref: Num[Ref, "bm bn"],  # scratch: survives from one grid step to the next
    *,
    size: int,
    bk: int,
    how: dict,
) -> None:
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, y = x_ref[...], y_ref[...]
    if size % bk:  # the last blocks reach past the end of the reduction
        x = zero_beyond(x, 0 if how["transpose_x"] else 1, size - k * bk)
        y = zero_beyond(y, 1 if how["transpose_y"] else 0, size - k * bk)
    acc_ref[...] += dot(x, y, **how)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def blocks_for(
    x: Array,
    y: Array,
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks ``matmul`` chooses for these arguments, and for the chip it is traced for (a v5e where it is none)."""
    level = precision_of(x.dtype, precision)
    return matmul_blocks.blocks_for(problem("matmul", x, y, transpose_x, transpose_y, level))


def candidates(
    x: Array,
    y: Array,
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> list[Blocks]:
    """All the blocks worth a trial for these arguments: ``bench.autotune`` searches them by the compiler's cycles."""
    level = precision_of(x.dtype, precision)
    return matmul_blocks.candidates(problem("matmul", x, y, transpose_x, transpose_y, level))


def matmul(
    x: Num[Array, "..."],
    y: Num[Array, "..."],
    *,
    transpose_x: bool = False,
    transpose_y: bool = False,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
) -> Num[Array, "M N"]:
    """``x @ y`` for x of shape (M, K) and y of shape (K, N), both f32 or both bf16, or both int8 (the result: int32).

    With ``transpose_x`` x has shape (K, M) and ``x.T @ y`` is computed, with ``transpose_y`` y has (N, K) and
    ``x @ y.T``; the blocks are turned on the way to the MXU, no transposed copy is made in HBM.
    ``precision`` is for f32 on a TPU: the MXU multiplies bf16 numbers, so "highest" takes six passes and is as good as
    f32, "default" takes one and keeps about three decimal digits. ``blocks`` None: chosen by ``blocks_for``.
    Differentiable for floats, in both modes of transposition. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError where shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    how = {"transpose_x": transpose_x, "transpose_y": transpose_y, "precision": precision_of(x.dtype, precision)}
    sizes = problem("matmul", x, y, **how)
    return _matmul(x, y, tuple(how.items()), matmul_blocks.chosen(blocks, sizes))


def problem(
    op: str,
    x: Array,
    y: Array,
    transpose_x: bool = False,
    transpose_y: bool = False,
    precision: lax.Precision | None = None,
) -> Problem:
    """The sizes of a product. Raises ValueError, in the name of ``op``, where shapes or dtypes do not fit."""
    for name, array in (("x", x), ("y", y)):
        if array.ndim != 2:
            raise ValueError(f"{op}: {name} has shape {array.shape}; it must have two axes. Try jax.vmap for more.")
    m, k = x.shape[::-1] if transpose_x else x.shape
    k_of_y, n = y.shape[::-1] if transpose_y else y.shape
    if k != k_of_y:
        raise ValueError(
            f"{op}: the reduction is {k} long in x, shape {x.shape}{', transposed' * transpose_x}, and {k_of_y} "
            f"in y, shape {y.shape}{', transposed' * transpose_y}; they must be equal. "
            "Is one of them stored the other way round? Then try transpose_x=True or transpose_y=True."
        )
    if x.dtype != y.dtype or x.dtype not in (jnp.float32, jnp.bfloat16, jnp.int8):
        raise ValueError(
            f"{op}: x is {x.dtype} and y {y.dtype}; both must be float32, both bfloat16 or both int8. Try y.astype."
        )
    return Problem(m=m, n=n, k=k, dtype=jnp.dtype(x.dtype), passes=passes(precision))


def out_dtype(x: Array) -> jnp.dtype:
    """int32 for a product of int8, else the dtype of the operands."""
    return jnp.dtype(jnp.int32 if x.dtype == jnp.int8 else x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _matmul(x, y, how, blocks):
    def plain(x, y):
        return dot(x, y, **dict(how)).astype(out_dtype(x))

    if 0 in x.shape or 0 in y.shape:
        return plain(x, y)
    return by_platform(x, y, tpu=functools.partial(_on_tpu, dict(how), blocks), default=plain)


def _backward(how, blocks, saved, g):
    """dx = g @ y.T and dy = x.T @ g; their transposes where x or y is stored transposed. Blocks are chosen anew."""
    x, y = saved
    of_x, of_y, level = dict(how).values()
    product = functools.partial(matmul, precision=lax.Precision.HIGHEST if level is None else level)
    dx = product(y, g, transpose_x=of_y, transpose_y=True) if of_x else product(g, y, transpose_y=not of_y)
    dy = product(g, x, transpose_x=True, transpose_y=of_x) if of_y else product(x, g, transpose_x=not of_x)
    return dx, dy


_matmul.defvjp(lambda x, y, how, blocks: (_matmul(x, y, how, blocks), (x, y)), _backward)


def _on_tpu(how: dict, blocks: Blocks, x: Array, y: Array) -> Array:
    sizes = problem("matmul", x, y, **how)
    m, n, k = sizes.m, sizes.n, sizes.k
    bm, bn, bk = min(blocks.bm, m), min(blocks.bn, n), min(blocks.bk, k)
    x_spec, y_spec = pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    if how["transpose_x"]:
        x_spec = pl.BlockSpec((bk, bm), lambda i, j, k: (k, i))
    if how["transpose_y"]:
        y_spec = pl.BlockSpec((bn, bk), lambda i, j, k: (j, k))
    if bk == k:
        kernel, scratch = functools.partial(_whole_k_kernel, how=how), []
    else:
        kernel = functools.partial(_kernel, size=k, bk=bk, how=how)
        scratch = [pltpu.VMEM((bm, bn), sum_dtype(x.dtype))]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), out_dtype(x)),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[x_spec, y_spec],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=matmul_blocks.vmem_limit(blocks, sizes),
        ),
        name="matmul",
    )(x, y)
