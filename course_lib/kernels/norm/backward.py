"""The gradients of ``norm``: of x, of the weight and of the bias, in one kernel each.

With ``n = x * rstd`` (for LayerNorm ``(x - mean) * rstd``) and ``h = g * weight``:
``dx = rstd * (h - n * mean(h * n))``, for LayerNorm less ``rstd * mean(h)``; ``dweight = sum_i g * n``;
``dbias = sum_i g``.

Cost   FLOPs 12 * M * N or so;  HBM bytes 3 * M * N * itemsize, with a residual 4 * M * N * itemsize,
       and 4 * N * cores for each of dweight and dbias
VMEM   bm * N * (6 * itemsize + 12), with a residual bm * N * (8 * itemsize + 12)

x is read anyway, so rstd and the mean are computed again: keeping them would save no traffic, and keeping n would cost
an array. dweight and dbias collect in VMEM, in f32, while the row blocks go by: so the axis of the row blocks may not
be "parallel", or two cores would add into the same memory. On a chip whose two cores act as one device (v4, v5p) an
outer parallel axis halves the rows; each core has sums of its own, and XLA adds the two.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.common import row_blocks
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.dispatch import mesh_rules
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.norm import traced_eps

_TEMPORARIES = 3  # f32 values of a block's size that live while it is computed
_BLOCK = 1 << 20  # bytes of a block in f32: half of what the forward kernels take, or the compiler takes long


# ``axis`` is that of a row: 1, or 0 in a block of the transpose, for a matrix that XLA stores by columns.


def _rms_norm_gradient(x: Array, weight: Array, g: Array, eps: float, axis: int) -> tuple[Array, Array]:
    """dx and the terms of dweight, all f32."""
    rstd = lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True) + eps)
    n, h = x * rstd, g * weight
    return rstd * (h - n * jnp.mean(h * n, axis=axis, keepdims=True)), g * n


def _layer_norm_gradient(x: Array, weight: Array, g: Array, eps: float, axis: int) -> tuple[Array, Array]:
    """dx and the terms of dweight, all f32."""
    dx, terms = _rms_norm_gradient(x - jnp.mean(x, axis=axis, keepdims=True), weight, g, eps, axis)
    return dx - jnp.mean(dx, axis=axis, keepdims=True), terms


def rms_norm_kernel(
    x_ref: Float[Ref, "*block"],
    g_ref: Float[Ref, "*block"],
    weight_ref: Float[Ref, "*row"],
    dx_ref: Float[Ref, "*block"],
    dweight_ref: Float32[Ref, "*row"],  # one for each core: stays put while the row blocks go by
    *,
    eps: float,
    rows: int,
    axis: int,
) -> None:
    _zero_at_first(dweight_ref)
    weight = row_blocks.vector(weight_ref, axis)
    dx, terms = _rms_norm_gradient(_wide(x_ref), weight, _wide(g_ref), eps, axis)
    dx_ref[...] = dx.astype(dx_ref.dtype)
    _add_rows(dweight_ref, terms, rows, axis)


def layer_norm_kernel(
    x_ref: Float[Ref, "*block"],
    g_ref: Float[Ref, "*block"],
    weight_ref: Float[Ref, "*row"],
    dx_ref: Float[Ref, "*block"],
    dweight_ref: Float32[Ref, "*row"],
    dbias_ref: Float32[Ref, "*row"],
    *,
    eps: float,
    rows: int,
    axis: int,
) -> None:
    _zero_at_first(dweight_ref, dbias_ref)
    g, weight = _wide(g_ref), row_blocks.vector(weight_ref, axis)
    dx, terms = _layer_norm_gradient(_wide(x_ref), weight, g, eps, axis)
    dx_ref[...] = dx.astype(dx_ref.dtype)
    _add_rows(dweight_ref, terms, rows, axis)
    _add_rows(dbias_ref, g, rows, axis)


def rms_norm_residual_kernel(
    s_ref: Float[Ref, "*block"],
    g_ref: Float[Ref, "*block"],  # gradient of the normalised result
    gs_ref: Float[Ref, "*block"],  # gradient of s itself
    weight_ref: Float[Ref, "*row"],
    ds_ref: Float[Ref, "*block"],
    dweight_ref: Float32[Ref, "*row"],
    *,
    eps: float,
    rows: int,
    axis: int,
) -> None:
    _zero_at_first(dweight_ref)
    weight = row_blocks.vector(weight_ref, axis)
    ds, terms = _rms_norm_gradient(_wide(s_ref), weight, _wide(g_ref), eps, axis)
    ds_ref[...] = (ds + _wide(gs_ref)).astype(ds_ref.dtype)
    _add_rows(dweight_ref, terms, rows, axis)


def _wide(ref) -> Array:
    return ref[...].astype(jnp.float32)


def _zero_at_first(*refs) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _zero():
        for ref in refs:
            ref[...] = jnp.zeros_like(ref)


def _add_rows(total_ref, terms: Float32[Array, "*block"], rows: int, axis: int) -> None:
    """The sum of this step's rows, without those past the last one, which are garbage."""
    bm = terms.shape[1 - axis]
    if rows % bm:
        first = (pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)) * bm
        row = first + lax.broadcasted_iota(jnp.int32, terms.shape, 1 - axis)
        terms = jnp.where(row < rows, terms, 0.0)
    total = jnp.sum(terms, axis=1 - axis, keepdims=True)
    total_ref[...] += (total.T if axis == 0 else total).reshape(total_ref.shape)


def _cores() -> int:
    """Cores that act as one device on the chip that is traced for: 2 on a v4 or v5p as JAX shows it, 1 elsewhere."""
    try:
        return pltpu.get_tpu_info().num_cores
    except ValueError:  # traced on a machine without a TPU, and not for one
        return 1


def call(
    op: str,
    kernel: Callable,
    values: Callable,
    arrays: tuple[Array, ...],
    vectors: tuple[Float[Array, " N"], ...],
    *,
    eps: float | Array,
    blocks=None,
    cuts: mesh_rules.Cuts = None,
    cores: int | None = None,
) -> tuple[Array, ...]:
    """One of the kernels above on a TPU; elsewhere the gradient of ``values(x, *vectors, eps=eps)`` by JAX.

    ``arrays`` are x (or s) and the gradients of the results, of one shape and dtype; ``vectors`` the weight, and the
    bias if there is one; ``eps`` a number, or an array that may be traced. Returned are the gradients of x and of each
    vector. ``blocks`` are ``norm.Blocks``, ``cores``
    share the work; None: chosen for the chip. Raises ValueError where the blocks do not fit in VMEM.
    """
    eps, traced = traced_eps.split(op, eps)
    x, operands, count = arrays[0], (*arrays, *vectors, *traced), len(vectors)
    plain = fixed(_plain, values=values, eps=eps, vectors=count)
    if not x.size:
        return plain(*operands)
    _chosen(blocks, x, len(arrays) + 1)
    how = {"blocks": blocks, "cores": cores, "traced": len(traced)}
    how |= {"kernel": traced_eps.in_kernel(kernel, eps), "vectors": count}
    on_tpu, mapped = fixed(_on_tpu, **how), fixed(_on_tpu, **how, mapped=True)
    axes = mesh_rules.letters(x.ndim - 1)
    sums = " ".join("+" + axis for axis in axes.split())
    rule = (
        ", ".join([f"{axes} N"] * len(arrays) + ["N"] * count + [""] * len(traced))
        + " -> "
        + ", ".join([f"{axes} N"] + [f"N {sums}"] * count)
    )
    return Op(name=f"gradient of {op}", rule=rule, tpu=on_tpu, tpu_mapped=mapped, plain=plain)(*operands, cuts=cuts)


def _plain(*operands: Array, values: Callable, eps: float | None, vectors: int) -> tuple[Array, ...]:
    if eps is None:
        *operands, eps = operands
    (x, *gradients), vectors = operands[:-vectors], operands[-vectors:]
    _, pull_back = jax.vjp(functools.partial(values, eps=eps), x, *vectors)
    return pull_back(tuple(gradients) if len(gradients) > 1 else gradients[0])


def _chosen(blocks, x: Array, operands: int) -> tuple[int, int]:
    """Rows of a block, and the bytes of VMEM that the blocks take."""
    bm = blocks.bm if blocks else row_blocks.rows_for(x, operands, _TEMPORARIES, _BLOCK)
    needed = row_blocks.needed(bm, planned(x.shape)[-1], x, operands, _TEMPORARIES)
    check_fits(blocks, needed)
    return bm, needed


def _on_tpu(
    *operands: Array, kernel: Callable, vectors: int, blocks, cores: int | None, traced: int, mapped: bool = False
) -> tuple[Array, ...]:
    operands, scalars = traced_eps.parted(operands, traced)
    arrays, given = operands[:-vectors], operands[-vectors:]
    x, count = arrays[0], len(arrays) + 1
    view = rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    bm, needed = _chosen(blocks, x, count)
    bm, cores = _shared(rows, bm, cores or _cores())
    steps, axis = pl.cdiv(rows, bm) // cores, 1
    block = pl.BlockSpec((bm, columns), lambda core, i: (core * steps + i, 0))
    by_columns = blocks is None and cores == 1 and row_blocks.lanes_for(x, count, _TEMPORARIES, _BLOCK)
    if by_columns:
        arrays, view, steps, axis = [array.T for array in arrays], view[::-1], pl.cdiv(rows, by_columns), 0
        block = pl.BlockSpec((columns, by_columns), lambda core, i: (0, i))
        needed = row_blocks.needed(by_columns, columns, x, count, _TEMPORARIES)
    vector, seen = row_blocks.vector_spec(x, mapped)
    total, total_shape = pl.BlockSpec((None, 1, columns), lambda core, i: (core, 0, 0)), (cores, 1, columns)
    if len(vector.block_shape) == 1 and cores == 1:
        total, total_shape = vector, (columns,)
    dx, *totals = pl.pallas_call(
        functools.partial(kernel, rows=rows, axis=axis),
        out_shape=[out_type(x, view, x.dtype)] + [out_type(x, total_shape, jnp.float32)] * vectors,
        grid=(cores, steps),
        in_specs=[traced_eps.SPEC] * traced + [block] * len(arrays) + [vector],
        out_specs=[block] + [total] * vectors,
        compiler_params=compiler_params(needed, "parallel", "arbitrary"),
    )(*scalars, *(array.reshape(view) for array in arrays), seen(given[0]))
    sums = (total.reshape(columns) if cores == 1 else jnp.sum(total, axis=(0, 1)) for total in totals)
    sums = (total.astype(vector.dtype) for total, vector in zip(sums, given, strict=True))
    return dx.T if by_columns else dx.reshape(x.shape), *sums


def _shared(rows: int, bm: int, cores: int) -> tuple[int, int]:
    """Rows of a block, fewer if need be, so that each core gets as many blocks; one core where that cannot be."""
    blocks = pl.cdiv(pl.cdiv(rows, bm), cores) * cores
    fewer = pl.cdiv(pl.cdiv(rows, blocks), 8) * 8
    return (fewer, cores) if cores > 1 and pl.cdiv(rows, fewer) == blocks else (min(bm, rows), 1)
