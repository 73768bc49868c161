"""Block-sparse products whose operands come by index maps, for what kernel.py and sdd_kernel.py do not fit.

dsd with its b and o in VMEM by a block spec: for panels that do not divide N, for a single one, and under ``jax.vmap``.

sdd with all of b in VMEM, and all of a, too, if there are blocks enough. Otherwise a block is a step, and the index map
brings the rows of a that it needs; if the next block is of the same row, nothing is copied. If b is too large, ranges
of its columns of blocks come one after the other, and the list is gone through range by range, and in it by row. If not
even one column of blocks fits, K is cut.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.block_sparse.kernel import Form, add_products, for_every_row, place
from course_lib.kernels.block_sparse.pattern import Pattern, counted
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond


def _dsd_kernel(
    pattern: Pattern,  # of refs in SMEM
    values_ref: Float[Ref, "p _h _w"],  # the blocks of step t
    b_ref: Float[Ref, "..."],  # all rows, columns j: (C, w, bn), or transposed (bn, K)
    o_ref: Float[Ref, "..."],  # (R, h, bn), or transposed (bn, M)
    acc_ref: Float32[Ref, "..."],  # one more row of blocks, which takes the surplus ones
    *,
    form: Form,
    precision: lax.Precision | None,
) -> None:
    t = pl.program_id(1)

    @pl.when(t == 0)
    def _zero():
        def zero(row):  # rows without a block, too
            acc_ref[row] = jnp.zeros_like(acc_ref[row])

        for_every_row(zero, pattern, form)

    add_products(pattern, values_ref, b_ref, acc_ref, t, form, precision)

    @pl.when(t == pl.num_programs(1) - 1)
    def _store():
        def store(row):
            o_ref[row] = acc_ref[row].astype(o_ref.dtype)  # rounded once

        for_every_row(store, pattern, form)


def dsd_by_maps(
    values: Float[Array, "Z h w"],
    pattern: Pattern,
    b: Float[Array, "_K _N"],
    form: Form,
    *,
    bn: int,
    per_step: int,
    precision: lax.Precision | None,
    vmem: int,
) -> Float[Array, "_M _N"]:
    """Run the kernel on one TPU; ``bn`` is no more than N."""
    (count, h, w), n, (rows, cols) = values.shape, b.shape[0 if form.transpose_b else 1], pattern.shape

    def panel(shape, transposed):
        return pl.BlockSpec(shape, lambda j, t, _: (j, 0) if transposed else (0, 0, j))

    o = pl.pallas_call(
        functools.partial(_dsd_kernel, form=form, precision=precision),
        out_shape=out_type(values, form.o_shape(rows, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(n, bn), pl.cdiv(count, per_step)),
            in_specs=[
                pl.BlockSpec((per_step, h, w), lambda j, t, _: (t, 0, 0)),
                panel(form.b_shape(cols, bn), form.transpose_b),
            ],
            out_specs=panel(form.o_shape(rows, bn), form.transpose_o),
            scratch_shapes=[pltpu.VMEM(form.o_shape(rows + 1, bn), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=vmem),
        name="block_sparse_dsd",
    )(pattern, values, b.reshape(form.b_shape(cols, n)))
    return o if form.transpose_o else o.reshape(rows * form.height, n)


def _sdd_kernel(
    lists: tuple[Pattern, Int32[Ref, " Z"] | None],  # the pattern in the order of steps, and for index maps that order
    a_ref: Float[Ref, "_R h bk"],  # all rows of blocks, or one
    b_ref: Float[Ref, "..."],  # (bk, w * per_range); (per_range, w, bk) with transpose_b
    o_ref: Float[Ref, "p h w"],
    *acc_ref: Float32[Ref, "h w"],  # if K is cut
    per_range: int,  # columns of blocks in b_ref
    transpose_b: bool,
    k: int,
    precision: lax.Precision | None,
) -> None:
    pattern, _ = lists
    t, step, (per_step, _, w), bk = pl.program_id(0), pl.program_id(1), o_ref.shape, a_ref.shape[2]
    rows, cols = pattern.shape

    def product(row, col):
        at = lax.rem(col, per_range) if per_range < cols else col
        a = a_ref[jnp.minimum(row, rows - 1) if a_ref.shape[0] > 1 else 0]
        if transpose_b:
            b = b_ref[at]
        elif per_range == 1:
            b = b_ref[...]
        else:
            b = b_ref[:, pl.ds(pl.multiple_of(at * w, w), w)]
        if k % bk:
            a, b = zero_beyond(a, 1, k - step * bk), zero_beyond(b, 1 if transpose_b else 0, k - step * bk)
        return dot(a, b, transpose_y=transpose_b, precision=precision)

    for x in range(per_step):
        row, col = place(pattern, t * per_step + x, per_step)
        o = product(row, col)
        for sum_ref in acc_ref:  # none, or one
            o += jnp.where(step == 0, 0.0, sum_ref[...])
            sum_ref[...] = o
        o_ref[x] = jnp.where(row < rows, o, 0.0).astype(o_ref.dtype)  # if K is cut, the last step's is what remains


def sdd_by_maps(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    pattern: Pattern,
    *,
    transpose_b: bool,
    precision: lax.Precision | None,
    bk: int,
    per_range: int,
    per_step: int,
    vmem: int,
) -> Float[Array, "Z h w"]:
    """Run the kernel on one TPU. With several blocks to a step, all of a and of b are in VMEM."""
    (m, k), n, count, (rows, cols) = a.shape, b.shape[0 if transpose_b else 1], pattern.rows.shape[0], pattern.shape
    h, w, ranges, lists = m // rows, n // cols, pl.cdiv(cols, per_range), (pattern, None)
    if ranges > 1 and bk == k:
        row, col = counted(pattern.rows, pattern.cols, pattern.shape)
        order = jnp.argsort(col // per_range * (rows + 1) + row).astype(jnp.int32)
        lists = Pattern(row[order], col[order], pattern.shape), order

    def b_block(t, step, lists):
        part = 0 if ranges == 1 else lax.div(jnp.clip(lists[0].cols[t], 0, cols - 1), per_range)
        return (part, 0, step) if transpose_b else (step, part)

    def row_of_a(t, step, lists):
        return jnp.clip(lists[0].rows[t], 0, rows - 1), 0, step

    def place_of_o(t, step, lists):
        return t if lists[1] is None else lists[1][t], 0, 0

    if per_step > 1:
        a_spec = pl.BlockSpec((rows, h, bk), lambda t, step, _: (0, 0, step))
    else:
        a_spec = pl.BlockSpec((1, h, bk), row_of_a)
    how = {"per_range": per_range, "transpose_b": transpose_b, "k": k, "precision": precision}
    return pl.pallas_call(
        functools.partial(_sdd_kernel, **how),
        out_shape=out_type(a, (count, h, w), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(count, per_step), pl.cdiv(k, bk)),
            in_specs=[a_spec, pl.BlockSpec((per_range, w, bk) if transpose_b else (bk, per_range * w), b_block)],
            out_specs=pl.BlockSpec((per_step, h, w), place_of_o),
            scratch_shapes=[pltpu.VMEM((h, w), jnp.float32)] * (bk < k),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=vmem),
        name="block_sparse_sdd",
    )(lists, a.reshape(rows, h, k), b.reshape(cols, w, k) if transpose_b else b)
