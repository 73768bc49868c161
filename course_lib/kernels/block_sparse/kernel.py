"""The kernels of block-sparse products: dense = sparse @ dense, and the blocks of dense @ dense that a pattern keeps.

Which block meets which is read before the grid begins (scalar prefetch). Dense operands are seen as rows of blocks,
(C, w, N): so a block is found by an index of the first axis, which may be any number known at run time.

dsd keeps all rows of b and of the result in VMEM, of some columns. So only values are copied while it runs, many blocks
to a step and in the order they lie in; a block costs its product, however the pattern jumps. Had each block a step of
its own, with index maps that follow the pattern, it would cost half the latency of a copy. It is here for what
``block_sparse_by_panel`` does not fit.

sdd is here for what ``block_sparse_by_depth`` does not fit. All of b is in VMEM, and all of a, too, if there are blocks
enough. Else one block is a step, and the rows of a that it needs come by an index map: where the next block is of the
same row, nothing is copied.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.block_sparse.pattern import counted
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond


def place(rows_ref: Int32[Ref, " Z"], cols_ref: Int32[Ref, " Z"], at, per_step: int, shape: tuple[int, int]):
    """In a kernel: row and column of block ``at``. Of one that is surplus, or past the end of the lists: R and 0."""
    count = rows_ref.shape[0]
    if count % per_step == 0:
        return counted(rows_ref[at], cols_ref[at], shape)
    read = jnp.minimum(at, count - 1)
    row, col = counted(rows_ref[read], cols_ref[read], shape)
    return jnp.where(at < count, row, shape[0]), col


def _dsd_kernel(
    rows_ref: Int32[Ref, " Z"],  # of every block its row of blocks in o
    cols_ref: Int32[Ref, " Z"],
    values_ref: Float[Ref, "p _h _w"],  # the blocks of step t
    b_ref: Float[Ref, "..."],  # all rows, columns j: (C, w, bn); (bn, K) with transpose_b
    o_ref: Float[Ref, "..."],  # (R, h, bn); (bn, M) with transpose_o
    acc_ref: Float32[Ref, "..."],  # one row of blocks more, for what is surplus: nobody reads it
    *,
    shape: tuple[int, int],
    sizes: tuple[int, int],
    transpose_o: bool,
    **how,
) -> None:
    t = pl.program_id(1)

    @pl.when(t == 0)
    def _zero():  # rows without a block, too
        def zero(row):
            acc_ref[row] = jnp.zeros_like(acc_ref[row])

        for_every_row(zero, shape[0], sizes[0], transpose_o)

    how |= {"shape": shape, "sizes": sizes, "transpose_o": transpose_o}
    add_products(rows_ref, cols_ref, values_ref, b_ref, acc_ref, t, **how)

    @pl.when(t == pl.num_programs(1) - 1)
    def _store():
        def store(row):
            o_ref[row] = acc_ref[row].astype(o_ref.dtype)  # rounded once

        for_every_row(store, shape[0], sizes[0], transpose_o)


def add_products(
    rows_ref: Int32[Ref, " Z"],
    cols_ref: Int32[Ref, " Z"],
    values_ref: Float[Ref, "p _h _w"],
    b_ref: Float[Ref, "..."],
    acc_ref: Float32[Ref, "..."],
    t,
    *,
    shape: tuple[int, int],  # rows of blocks of o, and of b
    sizes: tuple[int, int],  # height and depth of a block, as it is multiplied
    transpose_a: bool,
    transpose_b: bool,
    transpose_o: bool,
    precision: lax.Precision | None,
) -> None:
    """In a kernel of dsd: the products of the blocks of step ``t``, each added to the sum of its row."""
    per_step = values_ref.shape[0]
    for x in range(per_step):
        row, col = place(rows_ref, cols_ref, t * per_step + x, per_step, shape)
        row, col = _at(row, sizes[0], transpose_o), _at(col, sizes[1], transpose_b)
        if transpose_o:
            turned = {"transpose_x": not transpose_b, "transpose_y": not transpose_a}
            acc_ref[row] += dot(b_ref[col], values_ref[x], **turned, precision=precision)
        else:
            turned = {"transpose_x": transpose_a, "transpose_y": transpose_b}
            acc_ref[row] += dot(values_ref[x], b_ref[col], **turned, precision=precision)


def for_every_row(do, rows: int, height: int, in_lanes: bool) -> None:
    """In a kernel: ``do`` of where each row of blocks lies, one by one: written out it would be a long program."""
    lax.fori_loop(0, rows, lambda row, _: do(_at(row, height, in_lanes)), None)


def _at(index, size: int, in_lanes: bool):
    """Where a row of blocks lies: along the first axis, or side by side in the lanes."""
    return (slice(None), pl.ds(pl.multiple_of(index * size, size), size)) if in_lanes else index


def dsd(
    values: Float[Array, "Z h w"],
    b: Float[Array, "_K _N"],
    rows: Int32[Array, " Z"],  # of the result: the pattern's columns with transpose_a
    cols: Int32[Array, " Z"],
    shape: tuple[int, int],  # rows of blocks of the result, and of b
    *,
    transpose_a: bool,
    transpose_b: bool,
    transpose_o: bool,
    precision: lax.Precision | None,
    per_step: int,
    bn: int,
    vmem_bytes: int,
) -> Float[Array, "_M _N"]:
    """The sum of ``values[z] @ b`` at ``cols[z]`` for all z of a row; zeros for a row without any.

    ``transpose_b``: b is (N, K); ``transpose_o``: the result is (N, M). Then K / C, or M / R, is a multiple of 128.
    """
    count, h, w = values.shape
    height, depth = (w, h) if transpose_a else (h, w)
    n = b.shape[0 if transpose_b else 1]

    def panel(count, size, turned):
        if turned:
            return (n, count * size), pl.BlockSpec((bn, count * size), lambda j, t, *_: (j, 0))
        return (count, size, n), pl.BlockSpec((count, size, bn), lambda j, t, *_: (0, 0, j))

    (b_shape, b_spec), (o_shape, o_spec) = panel(shape[1], depth, transpose_b), panel(shape[0], height, transpose_o)
    acc = (bn, (shape[0] + 1) * height) if transpose_o else (shape[0] + 1, height, bn)
    how = {"transpose_a": transpose_a, "transpose_b": transpose_b, "transpose_o": transpose_o, "precision": precision}
    o = pl.pallas_call(
        functools.partial(_dsd_kernel, shape=shape, sizes=(height, depth), **how),
        out_shape=out_type(values, o_shape, b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(pl.cdiv(n, bn), pl.cdiv(count, per_step)),
            in_specs=[pl.BlockSpec((per_step, h, w), lambda j, t, *_: (t, 0, 0)), b_spec],
            out_specs=o_spec,
            scratch_shapes=[pltpu.VMEM(acc, jnp.float32)],
        ),
        compiler_params=compiler_params(vmem_bytes, "parallel", "arbitrary"),
        name="block_sparse_dsd",
    )(rows, cols, values, b.reshape(b_shape))
    return o if transpose_o else o.reshape(shape[0] * height, n)


def _sdd_kernel(
    rows_ref: Int32[Ref, " Z"],
    cols_ref: Int32[Ref, " Z"],
    *refs: Float[Ref, "..."],
    shape: tuple[int, int],  # rows of blocks of a, and columns of them of b
    per_range: int,  # columns of blocks in b_ref
    ranges: int,
    transpose_b: bool,
    more_lists: int,
    k: int,
    precision: lax.Precision | None,
) -> None:
    """refs: more lists, for index maps; a, all its rows of blocks or one; b; o (p, h, w); the sum, if K is cut."""
    a_ref, b_ref, o_ref, *acc_ref = refs[more_lists:]
    t, step, (per_step, _, w), bk = pl.program_id(0), pl.program_id(1), o_ref.shape, a_ref.shape[2]

    def product(row, col):
        at = lax.rem(col, per_range) if ranges > 1 else col
        a = a_ref[jnp.minimum(row, shape[0] - 1) if a_ref.shape[0] > 1 else 0]
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
        row, col = place(rows_ref, cols_ref, t * per_step + x, per_step, shape)
        o = product(row, col)
        for sum_ref in acc_ref:  # none, or one
            o += jnp.where(step == 0, 0.0, sum_ref[...])
            sum_ref[...] = o
        o_ref[x] = jnp.where(row < shape[0], o, 0.0).astype(o_ref.dtype)  # where K is cut, its last step's stays


def sdd(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    rows: Int32[Array, " Z"],
    cols: Int32[Array, " Z"],
    shape: tuple[int, int],
    *,
    transpose_b: bool,
    precision: lax.Precision | None,
    bk: int,
    per_range: int,
    per_step: int,
    vmem_bytes: int,
) -> Float[Array, "Z h w"]:
    """``a[rows[z]] @ b[:, cols[z]]`` of rows and columns of blocks for all z; zeros for what is surplus.

    With several blocks to a step all of a and of b are in VMEM. Where b is there in several ranges of columns, blocks
    are gone through range by range, and in it by row.
    """
    (m, k), n, count = a.shape, b.shape[0 if transpose_b else 1], rows.shape[0]
    h, w, ranges, lists = m // shape[0], n // shape[1], pl.cdiv(shape[1], per_range), (rows, cols)
    if ranges > 1 and bk == k:
        rows, cols = counted(rows, cols, shape)
        order = jnp.argsort(cols // per_range * (shape[0] + 1) + rows).astype(jnp.int32)
        lists = (rows[order], cols[order], order)

    def b_block(t, step, rows, cols, *_):
        part = 0 if ranges == 1 else lax.div(jnp.clip(cols[t], 0, shape[1] - 1), per_range)
        return (part, 0, step) if transpose_b else (step, part)

    def row_of_a(t, step, rows, cols, *_):
        return jnp.clip(rows[t], 0, shape[0] - 1), 0, step

    if per_step > 1:
        a_spec = pl.BlockSpec((shape[0], h, bk), lambda t, step, *_: (0, 0, step))
    else:
        a_spec = pl.BlockSpec((1, h, bk), row_of_a)
    how = {"per_range": per_range, "ranges": ranges, "transpose_b": transpose_b, "k": k, "precision": precision}
    return pl.pallas_call(
        functools.partial(_sdd_kernel, shape=shape, more_lists=len(lists) - 2, **how),
        out_shape=out_type(a, (count, h, w), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(lists),
            grid=(pl.cdiv(count, per_step), pl.cdiv(k, bk)),
            in_specs=[a_spec, pl.BlockSpec((per_range, w, bk) if transpose_b else (bk, per_range * w), b_block)],
            out_specs=pl.BlockSpec(
                (per_step, h, w), lambda t, step, rows, cols, *place: (place[0][t] if place else t, 0, 0)
            ),
            scratch_shapes=[pltpu.VMEM((h, w), jnp.float32)] * (bk < k),
        ),
        compiler_params=compiler_params(vmem_bytes, "parallel", "arbitrary"),
        name="block_sparse_sdd",
    )(*lists, a.reshape(shape[0], h, k), b.reshape(shape[1], w, k) if transpose_b else b)
