"""The kernels of grouped products: each group of rows times its own matrix, and the gradient of these matrices.

Both walk the list of ``grouped_visits``, which is read before the grid begins (scalar prefetch): the index maps look up
there which tile and which matrix comes next. All of K is one block, so a product needs no sum from step to step, and a
matrix is copied once for a group, however many tiles that has. A tile that a border crosses is visited by each of its
groups, one after the other: each multiplies the chunks of rows that are its own, and keeps what was written before its
first row.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot
from course_lib.kernels.grouped.visits import Visits, is_idle, written

CHUNK = 128  # rows: what the MXU multiplies with one loading of its weights, at the least


def _kernel(
    group_ref: Int32[Ref, " V"],
    tile_ref: Int32[Ref, " V"],
    idle_ref: Int32[Ref, "1"],
    bounds_ref: Int32[Ref, " B"],
    x_ref: Float[Ref, "bm K"],  # tile v
    *refs: Float[Ref, "..."],  # matrices of the group of visit v, (1, K, bn) or (1, bn, K); and of o (bm, bn), tile v
    groups: int,
    result: Callable,
) -> None:
    *w_refs, o_ref = refs
    v, rows = pl.program_id(1), x_ref.shape[0]
    group, first = group_ref[v], tile_ref[v] * rows
    start, end = bounds_ref[group] - first, bounds_ref[group + 1] - first
    busy = jnp.logical_not(is_idle(v, idle_ref))

    def product(part):
        return result(x_ref[part], *(ref[0] for ref in w_refs)).astype(o_ref.dtype)

    def merge(part, o, at):
        row = lax.broadcasted_iota(jnp.int32, o.shape, 0) + at
        o_ref[part] = jnp.where(row >= start, o, o_ref[part])  # whoever comes later writes over the rest

    @pl.when(busy & (group < groups))
    def _visit():
        whole = (start <= 0) & (end >= rows)

        @pl.when(whole)
        def _tile():
            o_ref[...] = product(...)

        @pl.when(jnp.logical_not(whole))
        def _chunks():
            @_each_chunk(start, end, rows)
            def _chunk(part, at):
                merge(part, product(part), at)

    @pl.when(busy & (group == groups))
    def _nobodys():
        merge(..., jnp.zeros(o_ref.shape, o_ref.dtype), 0)


def _each_chunk(start, end, rows: int) -> Callable:
    """Runs what it decorates for each chunk of a tile that has rows from ``start`` to ``end``: with the chunk, and with
    the row of the tile that it begins at. A tile that no chunks divide is one."""

    def run(body: Callable) -> None:
        if rows % CHUNK:
            return body(pl.ds(0, rows), 0)

        @pl.loop(jnp.maximum(start, 0) // CHUNK, pl.cdiv(jnp.minimum(end, rows), CHUNK))
        def _chunk(n):
            body(pl.ds(pl.multiple_of(n * CHUNK, CHUNK), CHUNK), n * CHUNK)

    return run


def products(
    x: Float[Array, "T K"],
    weights: tuple[Float[Array, "E K N"], ...],
    visits: Visits,
    result: Callable,
    *,
    transposed: bool,  # weights are (E, N, K)
    bm: int,
    bn: int,
    vmem_bytes: int,
) -> Float[Array, "T N"]:
    """``out_type(x_tile, *matrices)`` for each tile of rows of x and the matrices of its groups; 0 past the groups."""
    (t, k), groups, n = x.shape, weights[0].shape[0], weights[0].shape[1 if transposed else 2]

    def matrix(j, v, group, *_):
        e = jnp.minimum(group[v], groups - 1)
        return (e, j, 0) if transposed else (e, 0, j)

    w_spec = pl.BlockSpec((1, bn, k) if transposed else (1, k, bn), matrix)
    return pl.pallas_call(
        functools.partial(_kernel, groups=groups, result=result),
        out_shape=out_type(x, (t, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(pl.cdiv(n, bn), visits.group.shape[0]),
            in_specs=[pl.BlockSpec((bm, k), lambda j, v, group, tile, *_: (tile[v], 0)), *[w_spec] * len(weights)],
            out_specs=pl.BlockSpec((bm, bn), lambda j, v, group, tile, idle, _: (tile[written(v, idle)], j)),
        ),
        compiler_params=compiler_params(vmem_bytes, "parallel", "arbitrary"),
        name="grouped_matmul",
    )(*visits, x, *weights)


def _gradient_kernel(
    group_ref: Int32[Ref, " V"],
    tile_ref: Int32[Ref, " V"],
    idle_ref: Int32[Ref, "1"],
    bounds_ref: Int32[Ref, " B"],
    x_ref: Float[Ref, "bm bk"],  # tile v, columns i
    g_ref: Float[Ref, "bm bn"],  # tile v, columns j
    o_ref: Float[Ref, "1 bk bn"],  # block (i, j) of the group of visit v: stays put while that does
    acc_ref: Float32[Ref, "bk bn"],
    *,
    precision: lax.Precision | None,
) -> None:
    v, rows = pl.program_id(2), x_ref.shape[0]
    last = pl.num_programs(2) - 1
    group, first = group_ref[v], tile_ref[v] * rows
    start, end = bounds_ref[group] - first, bounds_ref[group + 1] - first
    begins = (v == 0) | (group_ref[written(v - 1, idle_ref)] != group)
    only = idle_ref[0] == last  # then the idle steps, too, have its group
    ends = only | (v == last) | (group_ref[jnp.minimum(v + 1, last)] != group)

    def product(x, g):
        return dot(x, g, transpose_x=True, precision=precision)

    def mine(ref, part, at):  # in both: rows of others count in neither, and past the array may be NaN
        row = lax.broadcasted_iota(jnp.int32, (part.size, ref.shape[1]), 0) + at
        return jnp.where((row >= start) & (row < end), ref[part], jnp.zeros((), ref.dtype))

    @pl.when(jnp.logical_not(is_idle(v, idle_ref)))
    def _visit():
        whole = (start <= 0) & (end >= rows)

        @pl.when(whole)
        def _tile():
            acc_ref[...] = jnp.where(begins, 0.0, acc_ref[...]) + product(x_ref[...], g_ref[...])
            o_ref[0] = acc_ref[...].astype(o_ref.dtype)  # at each visit: beside the product it takes no time

        @pl.when(jnp.logical_not(whole))
        def _chunks():
            @pl.when(begins)
            def _zero():
                acc_ref[...] = jnp.zeros_like(acc_ref)

            @_each_chunk(start, end, rows)
            def _chunk(part, at):
                acc_ref[...] += product(mine(x_ref, part, at), mine(g_ref, part, at))

            @pl.when(ends)
            def _store():
                o_ref[0] = acc_ref[...].astype(o_ref.dtype)


def gradients(
    x: Float[Array, "T K"],
    g: Float[Array, "T N"],
    visits: Visits,
    groups: int,
    dtype: jax.typing.DTypeLike,
    *,
    bm: int,
    bk: int,
    bn: int,
    vmem_bytes: int,
    precision: lax.Precision | None,
) -> Float[Array, "E K N"]:
    """``x_e.T @ g_e`` of the rows of each group; 0 for an empty one, which ``visits`` must have."""
    k, n = x.shape[1], g.shape[1]

    def matrix(i, j, v, group, tile, idle, _):
        return group[written(v, idle)], i, j

    return pl.pallas_call(
        functools.partial(_gradient_kernel, precision=precision),
        out_shape=out_type(x, (groups, k, n), dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(pl.cdiv(k, bk), pl.cdiv(n, bn), visits.group.shape[0]),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda i, j, v, group, tile, *_: (tile[v], i)),
                pl.BlockSpec((bm, bn), lambda i, j, v, group, tile, *_: (tile[v], j)),
            ],
            out_specs=pl.BlockSpec((1, bk, bn), matrix),
            scratch_shapes=[pltpu.VMEM((bk, bn), jnp.float32)],
        ),
        compiler_params=compiler_params(vmem_bytes, "parallel", "parallel", "arbitrary"),
        name="grouped_matmul_gradient",
    )(*visits, x, g)
