"""Kernels on SparseCores, and mistakes that can be planted in each: for test_judges_sparse_core.

Each runs on the subcores of the chip that it is traced for. ``case`` has its reference and arguments.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from course_lib.kernels import sparse_core

ROWS, BINS, LANES = 512, 100, 128
DMA = pltpu.SemaphoreType.DMA


def mesh():
    return plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")


def me():
    return lax.axis_index("core") * lax.axis_size("subcore") + lax.axis_index("subcore")


def workers():
    chip = plsc.get_sparse_core_info()
    return chip.num_cores * chip.num_subcores


def gathered(table, indices, mistake=""):
    """Return table[indices]: each subcore fetches its share of the rows in two halves."""
    if mistake == "rows of bfloat16":
        table = table.astype(jnp.bfloat16)
    width, n = table.shape[1], indices.size
    share = n // workers() + (16 if mistake == "the last shares overlap" else 0)
    half = share // 2

    def gather_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref, in_sems, out_sem):
        number = lax.axis_index("subcore") if mistake == "divided among the subcores of one core" else me()
        start = number * share
        if mistake == "the last shares overlap":
            start = pl.multiple_of(jnp.minimum(start, n - share), 8)
        if mistake == "a promise that does not hold":
            start = pl.multiple_of(start, 2 * share)
        pltpu.sync_copy(indices_hbm.at[pl.ds(start, share)], indices_ref)
        copies = []
        for k in range(2):
            at = pl.ds(k * half, half)
            sem = in_sems.at[0 if mistake == "both halves on one semaphore" else k]
            source = indices_ref.at[pl.ds(0, half)] if mistake == "the first half twice" else indices_ref.at[at]
            copies.append(pltpu.async_copy(table_hbm.at[source], rows_ref.at[at], sem))
        if mistake == "the list is overwritten":
            pltpu.sync_copy(indices_hbm.at[pl.ds(0, share)], indices_ref)
        for k, copy in enumerate(copies):
            if not (mistake == "the second half is not awaited" and k):
                copy.wait()
            out = pltpu.async_copy(rows_ref.at[pl.ds(k * half, half)], o_hbm.at[pl.ds(start + k * half, half)], out_sem)
            if mistake != "the output is not awaited":
                out.wait()
            if mistake == "waits twice" and k:
                out.wait()

    rows = 64 * share if mistake == "more rows than VMEM holds" else share
    scratch = [pltpu.VMEM((share,), jnp.int32), pltpu.VMEM((rows, width), table.dtype), DMA((2,)), DMA]
    out = jax.ShapeDtypeStruct((n, width), table.dtype)
    return pl.kernel(gather_kernel, out_type=out, mesh=mesh(), scratch_types=scratch)(table, indices)


def scattered(rows, indices, mistake=""):
    """Return (ROWS, D): row r is the sum of the rows whose index is r. Each core adds its share in shared memory."""
    (n, width), chip = rows.shape, plsc.get_sparse_core_info()
    share, mine, cores = n // workers(), ROWS // chip.num_subcores, chip.num_cores

    def scatter_kernel(rows_hbm, indices_hbm, zeros_hbm, o_hbm, sums_shared, indices_ref, rows_ref, zeros_ref):
        core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
        stripe = pl.ds(subcore * mine, mine)
        pltpu.sync_copy(zeros_hbm, zeros_ref)
        if mistake != "the sum is not set to zero":
            pltpu.sync_copy(zeros_ref, sums_shared.at[stripe])
        if mistake == "a barrier for some":
            pl.when(subcore < 8)(plsc.subcore_barrier)
        elif mistake != "no barrier behind the zeros":
            plsc.subcore_barrier()
        pltpu.sync_copy(indices_hbm.at[pl.ds(me() * share, share)], indices_ref)
        pltpu.sync_copy(rows_hbm.at[pl.ds(me() * share, share)], rows_ref)
        if mistake == "rows straight into HBM":
            pltpu.sync_copy(rows_ref, o_hbm.at[core].at[indices_ref])
        else:
            pltpu.sync_copy(rows_ref, sums_shared.at[indices_ref], add=mistake != "without add")
        if mistake != "no barrier behind the sum":
            plsc.subcore_barrier()
        if mistake != "rows straight into HBM":
            pltpu.sync_copy(sums_shared.at[stripe], o_hbm.at[core, stripe])

    scratch = [
        pltpu.VMEM_SHARED((ROWS, width), rows.dtype),
        pltpu.VMEM((share,), jnp.int32),
        pltpu.VMEM((share, width), rows.dtype),
        pltpu.VMEM((mine, width), rows.dtype),
    ]
    out = jax.ShapeDtypeStruct((cores, ROWS, width), rows.dtype)
    kernel = pl.kernel(scatter_kernel, out_type=out, mesh=mesh(), scratch_types=scratch)
    sums = kernel(rows, indices, jnp.zeros((mine, width), rows.dtype))
    return sums[0] if mistake == "the sum of one core" else sums.sum(axis=0)


def counted(values, mistake=""):
    """Return how many values are 0, 1 ... BINS - 1: each subcore counts its share."""
    n, lanes = values.size, plsc.get_sparse_core_info().num_lanes
    share = n // workers()

    def count_kernel(values_hbm, o_hbm, counts_ref, values_ref):
        pltpu.sync_copy(values_hbm.at[pl.ds(me() * share, share)], values_ref)

        if mistake != "the counts are not set to zero":

            @pl.loop(0, LANES, step=lanes)
            def _clear(b):
                counts_ref[pl.ds(b, lanes)] = jnp.zeros((lanes,), jnp.int32)

        @pl.loop(0, share - (lanes if mistake == "one step too few" else 0), step=lanes)
        def _count(k):
            value = values_ref[pl.ds(k, lanes)]
            mask = (value >= 0) & (value < BINS)
            if mistake == "a bin that does not exist":
                mask = value >= 0
            if mistake == "equal lanes add at once":
                plsc.addupdate_scatter(counts_ref, [value], jnp.ones((lanes,), jnp.int32), mask=mask)
            else:
                so_far, is_last = plsc.scan_count(value, mask=mask)
                plsc.addupdate_scatter(counts_ref, [value], so_far, mask=is_last)

        pltpu.sync_copy(counts_ref, o_hbm.at[0 if mistake == "all write one row" else me()])

    out = jax.ShapeDtypeStruct((workers(), LANES), jnp.int32)
    scratch = [pltpu.VMEM((LANES,), jnp.int32), pltpu.VMEM((share,), jnp.int32)]
    return pl.kernel(count_kernel, out_type=out, mesh=mesh(), scratch_types=scratch)(values).sum(axis=0)[:BINS]


def added(x, mistake=""):
    """Return x + 1, in a pipeline over both axes of the mesh."""
    lanes = plsc.get_sparse_core_info().num_lanes

    def add_kernel(x_hbm, o_hbm):
        def add_step(x_ref, o_ref):
            @pl.loop(0, 8)
            def _row(row):
                @pl.loop(0, LANES, step=lanes)
                def _lanes(k):
                    o_ref[row, pl.ds(k, lanes)] = x_ref[row, pl.ds(k, lanes)] + 1

        block = pl.BlockSpec((8, LANES), lambda i: (i, 0))
        names = "subcore" if mistake == "a pipeline over one axis" else ("core", "subcore")
        pltpu.emit_pipeline(
            add_step, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=[block], core_axis_name=names,
            dimension_semantics=(pltpu.PARALLEL,),
        )(x_hbm, o_hbm)  # fmt: skip

    return pl.kernel(add_kernel, out_type=x, mesh=mesh())(x)


def summed(x, mistake=""):
    """Return the cumulative sums of each row, by the scalar subcores: one row for each core."""

    def sum_kernel(x_hbm, o_hbm, row_ref, sem):
        @pl.loop(lax.axis_index("core"), x.shape[0], step=lax.axis_size("core"))
        def _row(number):
            pltpu.async_copy(x_hbm.at[number], row_ref, sem).wait()

            @pl.loop(1, x.shape[1])
            def _add(k):
                row_ref[k] = row_ref[k] + row_ref[k - 1]

            pltpu.async_copy(row_ref, o_hbm.at[number], sem).wait()

    scratch = [pltpu.SMEM((x.shape[1],), x.dtype), DMA]
    return pl.kernel(sum_kernel, out_type=x, mesh=plsc.ScalarSubcoreMesh(axis_name="core"), scratch_types=scratch)(x)


def normal(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), jnp.float32)


def numbers(low, high, n):
    return jnp.asarray(np.random.default_rng(n).integers(low, high, n), jnp.int32)


OPS = {
    "sparse_core.gather_rows": sparse_core.gather_rows,
    "sparse_core.scatter_add": functools.partial(sparse_core.scatter_add, count=ROWS),
    "sparse_core.histogram": functools.partial(sparse_core.histogram, bins=BINS),
}
KERNELS = {"gathered": gathered, "scattered": scattered, "counted": counted, "added": added, "summed": summed} | OPS
_OF = {
    "sparse_core.gather_rows": "gathered",
    "sparse_core.scatter_add": "scattered",
    "sparse_core.histogram": "counted",
}


def case(kernel, mistake=""):
    """A function with its mistake, the reference, and arguments."""
    fn = KERNELS[kernel] if kernel in OPS else functools.partial(KERNELS[kernel], mistake=mistake)
    table, rows, indices = normal(ROWS, LANES), normal(1024, LANES), numbers(0, ROWS, 1024)
    if mistake == "an index outside":
        indices = indices.at[300].set(ROWS)
    if mistake == "64 columns":
        table = table[:, :64]
    reference = sparse_core.gather_rows_reference
    if mistake == "rows of bfloat16":
        reference = lambda table, indices: sparse_core.gather_rows_reference(table.astype(jnp.bfloat16), indices)  # noqa: E731
    return {
        "gathered": (fn, reference, (table, indices)),
        "scattered": (fn, functools.partial(sparse_core.scatter_add_reference, count=ROWS), (rows, indices)),
        "counted": (fn, functools.partial(sparse_core.histogram_reference, bins=BINS), (numbers(-5, 300, 2048),)),
        "added": (fn, lambda x: x + 1, (normal(512, LANES),)),
        "summed": (fn, lambda x: jnp.cumsum(x, axis=1), (numbers(0, 9, 128).reshape(8, 16),)),
    }[_OF.get(kernel, kernel)]
