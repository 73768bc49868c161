"""Normalization of each row: RMSNorm and LayerNorm, computed in f32.

``rms_norm``    ``o[i] = x[i] / sqrt(mean_j x[i, j]**2 + eps) * weight``
``layer_norm``  ``o[i] = (x[i] - mean[i]) / sqrt(variance[i] + eps) * weight + bias``

Cost   FLOPs 4 * M * N and 7 * M * N, their gradients about 12 * M * N;  HBM bytes 2 * M * N * itemsize, the gradients
       3 * M * N * itemsize: each array is read or written once
VMEM   bm * N * (4 * itemsize + 8), the gradients bm * N * (6 * itemsize + 12)

An array of any rank is seen as (M, N), N its last axis, and cut into blocks of bm whole rows. The gradient kernel reads
x anyway, so it computes the statistics again. With ``n = (x - mean) * rstd`` and ``h = g * weight`` it returns
``dx = rstd * (h - mean(h) - n * mean(h * n))``, ``dweight = sum_i g * n`` and ``dbias = sum_i g``.
"""

import dataclasses
import functools
import math

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Ref
from course_lib.kernels.common.legal import SUBLANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.row_blocks import vector


def rms_norm_reference(x: Float[Array, "*shape N"], weight: Float[Array, " N"], eps=1e-6) -> Float[Array, "*shape N"]:
    """Return what ``rms_norm`` must compute: in f32, rounded once to the dtype of x."""
    wide = x.astype(jnp.float32)
    rstd = lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * rstd * weight.astype(jnp.float32)).astype(x.dtype)


def layer_norm_reference(
    x: Float[Array, "*shape N"], weight: Float[Array, " N"], bias: Float[Array, " N"] | None = None, eps=1e-6
) -> Float[Array, "*shape N"]:
    """Return what ``layer_norm`` must compute: in f32, rounded once to the dtype of x."""
    wide = x.astype(jnp.float32)
    normed = rms_norm_reference(wide - jnp.mean(wide, axis=-1, keepdims=True), weight, eps)
    return (normed if bias is None else normed + bias.astype(jnp.float32)).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes. They change the speed, not the result."""

    bm: int  # rows, a multiple of 8; a row is always whole

    def __post_init__(self):
        check(self, bm=SUBLANES)


Block = Float[Ref, "*block"]  # of whole rows, which lie along ``axis``: 1, or 0 if the transpose is taken
Row = Float[Ref, "*row"]  # a vector as long as a row


def _rms_norm_kernel(x_ref: Block, weight_ref: Row, o_ref: Block, *, eps, axis, inside=None) -> None:
    x = x_ref[...].astype(jnp.float32)
    rstd = lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True, where=inside) + eps)  # inside: on GPUs alone
    o_ref[...] = (x * rstd * vector(weight_ref, axis)).astype(o_ref.dtype)


def _layer_norm_kernel(x_ref: Block, weight_ref: Row, bias_ref: Row, o_ref: Block, *, eps, axis, inside=None) -> None:
    x = x_ref[...].astype(jnp.float32)
    x -= jnp.mean(x, axis=axis, keepdims=True, where=inside)  # a second pass over x costs no traffic: it is in VMEM
    rstd = lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True, where=inside) + eps)
    o_ref[...] = (x * rstd * vector(weight_ref, axis) + vector(bias_ref, axis)).astype(o_ref.dtype)


def launch(
    kernel, arrays, vectors, *, bm, axis=1, gradient=False, cores=1, scalars=(), as_rows=False, vmem_limit_bytes
):
    """Run a kernel in blocks of bm rows. Return as many arrays; or dx and a sum for each vector, given the weight."""
    x, columns = arrays[0], arrays[0].shape[-1]
    rows, count, sums = math.prod(x.shape[:-1]), 1 if gradient else len(arrays), len(vectors) if gradient else 0
    steps = pl.cdiv(rows, bm) // cores  # of each core; sums add up from step to step, so their axis is not parallel
    at = (lambda core, i: core * steps + i) if gradient else (lambda i: i)
    if axis:
        view, block = (rows, columns), pl.BlockSpec((bm, columns), lambda *step: (at(*step), 0))
    else:
        view, block = (columns, rows), pl.BlockSpec((columns, bm), lambda *step: (0, step[-1]))
    row = (1, columns) if as_rows or columns % 1024 == 0 else (columns,)  # whichever view of a vector is no copy
    vector_spec = pl.BlockSpec(row, lambda *step: (0,) * len(row))
    total, total_spec = row, vector_spec
    if cores > 1 or len(row) > 1:
        total, total_spec = (cores, 1, columns), pl.BlockSpec((None, 1, columns), lambda core, i: (core, 0, 0))
    given = [array.reshape(view) if axis else array.T for array in arrays]
    given += [vector.reshape(row) for vector in (vectors[:1] if gradient else vectors)]
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM)] * len(scalars) + [block] * len(arrays)
    results = pl.pallas_call(
        functools.partial(kernel, axis=axis, **({"rows": rows} if gradient else {})),
        out_shape=[out_type(x, view, x.dtype)] * count + [out_type(x, total, jnp.float32)] * sums,
        grid=(cores, steps) if gradient else (steps,),
        in_specs=specs + [vector_spec] * (len(given) - len(arrays)),
        out_specs=[block] * count + [total_spec] * sums,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=["parallel", "arbitrary"][: 2 if gradient else 1], vmem_limit_bytes=vmem_limit_bytes
        ),
    )(*scalars, *given)
    totals = (total.reshape(columns) if cores == 1 else jnp.sum(total, axis=(0, 1)) for total in results[count:])
    totals = (total.astype(vector.dtype) for total, vector in zip(totals, vectors, strict=False))
    return [*(o.reshape(x.shape) if axis else o.T for o in results[:count]), *totals]


def _gradient_kernel(
    x_ref: Block, g_ref: Block, weight_ref: Row, dx_ref: Block, *sum_refs: Row, eps, rows, axis, gs_ref=None
) -> None:
    """Write dx, plus gs if there is one, and add up dweight; for LayerNorm, which has two sums, dbias as well."""
    mean, has_mean = functools.partial(jnp.mean, axis=axis, keepdims=True), len(sum_refs) == 2

    @pl.when(pl.program_id(1) == 0)
    def _zero():
        for ref in sum_refs:
            ref[...] = jnp.zeros_like(ref)

    weight, x, g = vector(weight_ref, axis), x_ref[...].astype(jnp.float32), g_ref[...].astype(jnp.float32)
    if has_mean:
        x -= mean(x)
    rstd = lax.rsqrt(mean(x * x) + eps)
    n, h = x * rstd, g * weight
    dx, dweight = rstd * (h - n * mean(h * n)), g * n
    if has_mean:
        dx -= mean(dx)
    if gs_ref is not None:
        dx += gs_ref[...].astype(jnp.float32)
    dx_ref[...] = dx.astype(dx_ref.dtype)
    for ref, terms in zip(sum_refs, (dweight, g), strict=False):
        bm = terms.shape[1 - axis]
        if rows % bm:  # what lies past the last row is garbage
            first = (pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)) * bm
            row = first + lax.broadcasted_iota(jnp.int32, terms.shape, 1 - axis)
            terms = jnp.where(row < rows, terms, 0.0)
        total = jnp.sum(terms, axis=1 - axis, keepdims=True)
        ref[...] += (total.T if axis == 0 else total).reshape(ref.shape)
