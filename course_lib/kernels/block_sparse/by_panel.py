"""A sparse matrix times a dense one, panel by panel of columns, which are copied by hand.

    o[:, panel] = A @ b[:, panel]

The next panel of b is asked for before this one is multiplied, and a panel of the result may leave until the next one
is done. Index maps would ask one grid step before a panel is needed, and wait one step after it is done: a step is a
few blocks, too short to hide so large a copy.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.block_sparse.kernel import add_products, for_every_row
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import is_known


def _kernel(
    rows_ref: Int32[Ref, " Z"],
    cols_ref: Int32[Ref, " Z"],
    values_ref: Float[Ref, "p _h _w"],  # the blocks of step t
    b_hbm: Float[Ref, "..."],  # (C, w, N); (N, K) with transpose_b
    o_hbm: Float[Ref, "..."],  # (R, h, N); (N, M) with transpose_o
    acc_ref: Float32[Ref, "..."],  # one row of blocks more, for what is surplus: nobody reads it
    b_ref: Float[Ref, "..."],  # 2 panels
    o_ref: Float[Ref, "..."],  # one
    b_sem: Ref,
    o_sem: Ref,
    *,
    shape: tuple[int, int],
    sizes: tuple[int, int],
    bn: int,
    transpose_b: bool,
    transpose_o: bool,
    **how,
) -> None:
    core, panel, t = (pl.program_id(axis) for axis in range(3))
    panels, steps = pl.num_programs(1), pl.num_programs(2)

    def of(hbm, panel, turned):
        columns = pl.ds(pl.multiple_of((core * panels + panel) * bn, bn), bn)
        return hbm.at[columns] if turned else hbm.at[:, :, columns]

    def fetch(panel):
        slot = lax.rem(panel, 2)
        return pltpu.make_async_copy(of(b_hbm, panel, transpose_b), b_ref.at[slot], b_sem.at[slot])

    def leave(panel):
        return pltpu.make_async_copy(o_ref, of(o_hbm, panel, transpose_o), o_sem)

    @pl.when((panel == 0) & (t == 0))
    def _first():
        fetch(panel).start()

        def zero(row):  # rows without a block, too
            acc_ref[row] = jnp.zeros_like(acc_ref[row])

        for_every_row(zero, shape[0], sizes[0], transpose_o)

    @pl.when((panel + 1 < panels) & (t == 0))
    def _next():
        fetch(panel + 1).start()

    @pl.when(t == 0)
    def _arrived():
        fetch(panel).wait()

    how |= {"shape": shape, "sizes": sizes, "transpose_b": transpose_b, "transpose_o": transpose_o}
    add_products(rows_ref, cols_ref, values_ref, b_ref.at[lax.rem(panel, 2)], acc_ref, t, **how)

    @pl.when((panel > 0) & (t == steps - 1))
    def _left():
        leave(panel - 1).wait()

    @pl.when(t == steps - 1)
    def _store():
        def store(row):
            o_ref[row] = acc_ref[row].astype(o_ref.dtype)  # rounded once
            acc_ref[row] = jnp.zeros_like(acc_ref[row])  # for the next panel

        for_every_row(store, shape[0], sizes[0], transpose_o)
        leave(panel).start()

    @pl.when((panel == panels - 1) & (t == steps - 1))
    def _last():
        leave(panel).wait()


def has_panels(n: int, bn: int, cores: int) -> bool:
    """Whether N is several whole panels for each core: no more of an array can be copied by hand than there is."""
    return is_known(n) and bn % LANES == 0 and n % (cores * bn) == 0 and n > cores * bn


def dsd(
    values: Float[Array, "Z h w"],
    b: Float[Array, "_K _N"],
    rows: Int32[Array, " Z"],
    cols: Int32[Array, " Z"],
    shape: tuple[int, int],
    *,
    transpose_a: bool,
    transpose_b: bool,
    transpose_o: bool,
    precision: lax.Precision | None,
    per_step: int,
    bn: int,
    cores: int,
    vmem_bytes: int,
) -> Float[Array, "_M _N"]:
    """``block_sparse_kernels.dsd`` for an N of panels, see ``has_panels``; ``cores`` of them divide the panels.

    Not under ``jax.vmap``: what is copied by hand has no axis of a grid.
    """
    count, h, w = values.shape
    height, depth = (w, h) if transpose_a else (h, w)
    n = b.shape[0 if transpose_b else 1]

    def lies(count, size, columns, turned):
        return (columns, count * size) if turned else (count, size, columns)

    of_o, of_b = (shape[0], height), (shape[1], depth)
    how = {"transpose_a": transpose_a, "transpose_b": transpose_b, "transpose_o": transpose_o, "precision": precision}
    o = pl.pallas_call(
        functools.partial(_kernel, shape=shape, sizes=(height, depth), bn=bn, **how),
        out_shape=out_type(values, lies(*of_o, n, transpose_o), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(cores, n // (cores * bn), pl.cdiv(count, per_step)),
            in_specs=[
                pl.BlockSpec((per_step, h, w), lambda core, panel, t, *_: (t, 0, 0)),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            scratch_shapes=[
                pltpu.VMEM(lies(shape[0] + 1, height, bn, transpose_o), jnp.float32),
                pltpu.VMEM((2, *lies(*of_b, bn, transpose_b)), b.dtype),
                pltpu.VMEM(lies(*of_o, bn, transpose_o), b.dtype),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.DMA,
            ],
        ),
        compiler_params=compiler_params(vmem_bytes, "parallel", "arbitrary", "arbitrary"),
        name="block_sparse_dsd",
    )(rows, cols, values, b.reshape(lies(*of_b, n, transpose_b)))
    return o if transpose_o else o.reshape(shape[0] * height, n)
