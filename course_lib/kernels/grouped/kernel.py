"""Grouped matrix products, as in a mixture of experts: ``o[i] = x[i] @ w[e]`` for the rows i of each group e.

Cost   FLOPs 2*T*K*N;  HBM bytes (T*K*ceil(N/bn) + E*K*N + T*N) * itemsize, if each group has more than one tile.
       The gradient of w: as many FLOPs, and (T*K*ceil(N/bn) + T*N*ceil(K/bk) + E*K*N) * itemsize
VMEM   2 * (bm*K + K*bn + bm*bn) * itemsize, each block held twice, and 4*bm*bn for the product.
       The gradient of w: 2 * (bm*(bk + bn) + bk*bn) * itemsize, and 8*bk*bn for the accumulator

Rows are sorted by group, and how many each group has is data: other sizes run the same program. The last grid axis
walks a list of visits, the pairs of a tile of rows and a group that meet. The list is in SMEM before the grid begins
(scalar prefetch), and the index maps look up there which tile and which matrix come next. All of K is one block, so a
matrix is copied once per group, however many tiles the group has. If a group ends inside a tile, the next one visits
the same tile: each multiplies only the chunks that hold rows of its own, so at most 128 rows are multiplied twice.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.common.legal import LANES, SUBLANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot
from course_lib.kernels.grouped.visits import Visits, ends_of

CHUNK = 128  # rows: with fewer, loading weights into the MXU would take longer than multiplying


def reference(
    x: Float[Array, "T K"], w: Float[Array, "E _K _N"], sizes: Int32[Array, " E"], *, transpose_w: bool = False
) -> Float[Array, "T N"]:
    """Return what ``grouped_matmul`` must compute: products accumulated in f32, rounded once.

    ``jax.lax.ragged_dot`` returns the same, unless a size is negative.
    """
    w = w.swapaxes(1, 2) if transpose_w else w
    group = jnp.searchsorted(ends_of(sizes, x.shape[0]), jnp.arange(x.shape[0]), side="right")
    mine = jax.nn.one_hot(group, w.shape[0], dtype=jnp.float32)
    wide = (mine, x.astype(jnp.float32), w.astype(jnp.float32))
    return jnp.einsum("te,tk,ekn->tn", *wide, precision="highest").astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes; all of K is in one block. They change the speed, not the result."""

    bm: int = 512  # rows: a multiple of 8
    bn: int = 1024  # columns: a multiple of 128

    def __post_init__(self):
        check(self, bm=SUBLANES, bn=LANES)


def _kernel(
    visits: Visits,  # of refs in SMEM
    x_ref: Float[Ref, "bm K"],  # the tile of visit v
    w_ref: Float[Ref, "1 _K _bn"],  # the matrix of its group; (1, bn, K) if w is stored transposed
    o_ref: Float[Ref, "bm bn"],  # its tile: stays put while one group after another visits it
    *,
    product,
) -> None:
    write_visit(visits, o_ref, lambda rows: product(x_ref[rows], w_ref[0]))


def write_visit(visits: Visits, o_ref: Float[Ref, "bm bn"], result) -> None:
    """Write ``result(rows)`` to the rows of the tile that are the group's, and 0 to nobody's. Part of a kernel."""
    v, rows, nobody = pl.program_id(1), o_ref.shape[0], visits.bounds.shape[0] - 2
    group, start, end = visits.rows_of(v, rows)
    busy = jnp.logical_not(visits.is_idle(v))

    def merge(part, o, at):
        row = lax.broadcasted_iota(jnp.int32, o.shape, 0) + at
        o_ref[part] = jnp.where(row >= start, o, o_ref[part])  # later groups overwrite the rows that are theirs

    @pl.when(busy & (group < nobody))
    def _visit():
        whole = (start <= 0) & (end >= rows)

        @pl.when(whole)
        def _tile():
            o_ref[...] = result(...).astype(o_ref.dtype)

        @pl.when(jnp.logical_not(whole))
        def _chunks():
            each_chunk(start, end, rows, lambda part, at: merge(part, result(part).astype(o_ref.dtype), at))

    @pl.when(busy & (group == nobody))
    def _zeros():
        merge(..., jnp.zeros(o_ref.shape, o_ref.dtype), 0)


def each_chunk(start, end, rows: int, do) -> None:
    """Call ``do(chunk, its first row)`` for each chunk of a tile that has rows from ``start`` to ``end``."""
    if rows % CHUNK:
        return do(pl.ds(0, rows), 0)

    @pl.loop(jnp.maximum(start, 0) // CHUNK, pl.cdiv(jnp.minimum(end, rows), CHUNK))
    def _chunk(n):
        do(pl.ds(pl.multiple_of(n * CHUNK, CHUNK), CHUNK), n * CHUNK)


def launch(x, w, visits: Visits, blocks, *, transpose_w, precision, vmem) -> Float[Array, "T N"]:
    """Run the kernel on one TPU with ``blocks`` (bm, bn), none larger than the arrays, and the visits of bm rows."""
    (t, k), groups, n, (bm, bn) = x.shape, w.shape[0], w.shape[1 if transpose_w else 2], blocks

    def matrix(j, v, visits):
        e = jnp.minimum(visits.group[v], groups - 1)
        return (e, j, 0) if transpose_w else (e, 0, j)

    return pl.pallas_call(
        functools.partial(_kernel, product=functools.partial(dot, transpose_y=transpose_w, precision=precision)),
        out_shape=out_type(x, (t, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(n, bn), visits.group.shape[0]),
            in_specs=[
                pl.BlockSpec((bm, k), lambda j, v, visits: (visits.tile[v], 0)),
                pl.BlockSpec((1, bn, k) if transpose_w else (1, k, bn), matrix),
            ],
            out_specs=pl.BlockSpec((bm, bn), lambda j, v, visits: (visits.tile[visits.written(v)], j)),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=vmem),
        name="grouped_matmul",
    )(visits, x, w)


def _gradient_kernel(
    visits: Visits,
    x_ref: Float[Ref, "bm bk"],  # the tile of visit v, columns i
    g_ref: Float[Ref, "bm bn"],  # the tile of visit v, columns j
    o_ref: Float[Ref, "1 bk bn"],  # block (i, j) of its group's gradient: stays put while the group does
    acc_ref: Float32[Ref, "bk bn"],
    *,
    product,
) -> None:
    v, rows = pl.program_id(2), x_ref.shape[0]
    last = pl.num_programs(2) - 1
    group, start, end = visits.rows_of(v, rows)
    begins = (v == 0) | (visits.group[visits.written(v - 1)] != group)
    only = visits.idle[0] == last  # a single visit: the idle steps have its group, too
    ends = only | (v == last) | (visits.group[jnp.minimum(v + 1, last)] != group)

    def mine(ref, part, at):  # of both operands, because 0 times what lies beyond the array may be NaN
        row = lax.broadcasted_iota(jnp.int32, (part.size, ref.shape[1]), 0) + at
        return jnp.where((row >= start) & (row < end), ref[part], jnp.zeros((), ref.dtype))

    @pl.when(jnp.logical_not(visits.is_idle(v)))
    def _visit():
        whole = (start <= 0) & (end >= rows)

        @pl.when(whole)
        def _tile():
            acc_ref[...] = jnp.where(begins, 0.0, acc_ref[...]) + product(x_ref[...], g_ref[...])
            o_ref[0] = acc_ref[...].astype(o_ref.dtype)  # at every visit: it costs nothing beside the product

        @pl.when(jnp.logical_not(whole))
        def _chunks():
            @pl.when(begins)
            def _zero():
                acc_ref[...] = jnp.zeros_like(acc_ref)

            def add(part, at):
                acc_ref[...] += product(mine(x_ref, part, at), mine(g_ref, part, at))

            each_chunk(start, end, rows, add)

            @pl.when(ends)
            def _store():
                o_ref[0] = acc_ref[...].astype(o_ref.dtype)


def launch_gradient(x, g, visits: Visits, blocks, dtype, *, precision, vmem) -> Float[Array, "E K N"]:
    """Run the kernel of ``x_e.T @ g_e`` with ``blocks`` (bm, bk, bn); ``visits`` has the empty groups, which are 0."""
    (k, n), groups, (bm, bk, bn) = (x.shape[1], g.shape[1]), visits.bounds.shape[0] - 2, blocks
    return pl.pallas_call(
        functools.partial(_gradient_kernel, product=functools.partial(dot, transpose_x=True, precision=precision)),
        out_shape=out_type(x, (groups, k, n), dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(k, bk), pl.cdiv(n, bn), visits.group.shape[0]),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda i, j, v, visits: (visits.tile[v], i)),
                pl.BlockSpec((bm, bn), lambda i, j, v, visits: (visits.tile[v], j)),
            ],
            out_specs=pl.BlockSpec((1, bk, bn), lambda i, j, v, visits: (visits.group[visits.written(v)], i, j)),
            scratch_shapes=[pltpu.VMEM((bk, bn), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=vmem
        ),
        name="grouped_matmul_gradient",
    )(visits, x, g)
