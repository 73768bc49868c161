"""Rows by index on the SparseCores of a TPU: gather, scatter-add, histogram.

    gather_rows   o[i] = table[indices[i]]                            table (N, D), indices (n,) -> (n, D)
    scatter_add   o[r] = the sum of all rows[i] with indices[i] = r   rows (n, D), indices (n,) -> (N, D)
    histogram     o[b] = how many of the values are b                 values (n,) -> (bins,)

Cost   bytes of HBM, for c SparseCores of s vector subcores: a gather reads 4 n (D + 1) and writes 4 n D; a scatter-add
       reads 4 n D, writes 4 c N D, and reads the indices once for each part of the sum and each 128 columns; a
       histogram reads 4 n and writes 4 c s bins. XLA then adds the c sums, or the c s counts.
VMEM   of a subcore: 129 KiB for a gather, 82 KiB for a scatter-add, 8 KiB and the counts for a histogram. What the
       subcores of a SparseCore leave of their memory holds a part of the sum, which all of them add to.

Every subcore takes its own windows of 128 indices. A row is copied in pieces of 128 columns, 512 bytes: that is how it
lies in HBM, where an array is stored in tiles of 8 x 128. A sum too tall for the shared memory is computed part by
part; an index of another part is replaced by -1, and the copies ignore it. The order in which the subcores add is not
fixed, so a float32 sum may round differently from run to run. The gradient of a gather is a scatter-add, and vice
versa.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from course_lib.arrays import Array, Int32, Num, Ref
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.outputs import out_type

_WINDOW = 128  # indices that a copy takes at most
_VALUES = 1024  # values of a window of a histogram
_CHUNK = 32  # rows of the sum that a subcore sets to zero, or hands over, with one copy
_OWN_BYTES = 104 << 10  # of a subcore's memory that a scatter-add keeps for itself


def gather_rows_reference(table: Num[Array, "N D"], indices: Int32[Array, " n"]) -> Num[Array, "n D"]:
    """Return what ``gather_rows`` must compute: an index outside the table takes the nearest row."""
    return jnp.take(table, indices, axis=0, mode="clip")


def scatter_add_reference(rows: Num[Array, "n D"], indices: Int32[Array, " n"], count: int) -> Num[Array, "N D"]:
    """Return what ``scatter_add`` must compute: rows with an index outside [0, count) are left out."""
    return jnp.zeros((count, rows.shape[1]), rows.dtype).at[_inside(indices, count)].add(rows, mode="drop")


def histogram_reference(values: Int32[Array, " n"], bins: int) -> Int32[Array, " bins"]:
    """Return what ``histogram`` must compute: values outside [0, bins) are left out."""
    return jnp.zeros(bins, jnp.int32).at[_inside(values, bins)].add(1, mode="drop")


def _inside(indices: Array, count: int) -> Array:
    """Return the indices with ``count``, which JAX drops, for those below 0, which it would count from the end."""
    return jnp.where(indices < 0, count, indices)


def _gather_kernel(
    table_hbm: Num[Ref, "N D"],
    indices_hbm: Int32[Ref, "1 padded_n"],
    o_hbm: Num[Ref, "n D"],
) -> None:
    def fetch(indices_ref, o_ref):
        columns = pl.ds(pl.multiple_of(pl.program_id(1) * LANES, LANES), LANES)
        pltpu.sync_copy(table_hbm.at[indices_ref.at[0], columns], o_ref)

    (n, width), window = o_hbm.shape, pl.BlockSpec((1, _WINDOW), lambda i, j: (0, i))
    rows = pl.BlockSpec((_WINDOW, LANES), lambda i, j: (i, j))
    grid = pl.cdiv(n, _WINDOW), width // LANES
    _pipeline(fetch, grid, [window], [rows])(indices_hbm, o_hbm)


def _scatter_kernel(
    rows_hbm: Num[Ref, "n D"],
    indices_hbm: Int32[Ref, "1 padded_n"],
    zeros_hbm: Num[Ref, "CHUNK LANES"],
    o_hbm: Num[Ref, "cores padded_N D"],
    sum_shared: Num[Ref, "part LANES"],  # of a SparseCore: all its subcores add to it
    zeros_ref: Num[Ref, "CHUNK LANES"],
    rows_ref: Num[Ref, "WINDOW LANES"],
    from_ref: Int32[Ref, " WINDOW"],  # which rows to fetch, -1 for those of another part
    to_ref: Int32[Ref, " WINDOW"],  # where in this part to add them
    *,
    lanes: int,
) -> None:
    core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
    part, (n, width) = sum_shared.shape[0], rows_hbm.shape
    mine = part // lax.axis_size("subcore")  # rows of the part that this subcore sets to zero and hands over

    def chunks(do) -> None:
        pl.loop(0, mine // _CHUNK)(lambda k: do(pl.multiple_of(subcore * mine + k * _CHUNK, _CHUNK)))

    def add(indices_ref, *, first, columns):
        @pl.loop(0, _WINDOW, step=lanes)
        def _choose(k):
            row = indices_ref[0, pl.ds(k, lanes)] - first
            is_here = (row >= 0) & (row < part)
            number = pl.program_id(0) * _WINDOW + k + lax.iota(jnp.int32, lanes)
            from_ref[pl.ds(k, lanes)] = jnp.where(is_here, number, -1)
            to_ref[pl.ds(k, lanes)] = jnp.where(is_here, row, -1)

        source, target = (plsc.Indices(ref, ignored_value=-1) for ref in (from_ref, to_ref))
        pltpu.sync_copy(rows_hbm.at[source, columns], rows_ref)
        pltpu.sync_copy(rows_ref, sum_shared.at[target], add=True)

    pltpu.sync_copy(zeros_hbm, zeros_ref)

    @pl.loop(0, o_hbm.shape[1] // part)
    def _part(number):
        @pl.loop(0, width // LANES)
        def _columns(j):
            first, columns = number * part, pl.ds(pl.multiple_of(j * LANES, LANES), LANES)
            chunks(lambda at: pltpu.sync_copy(zeros_ref, sum_shared.at[pl.ds(at, _CHUNK)]))
            plsc.subcore_barrier()  # all of the part is zero
            window = pl.BlockSpec((1, _WINDOW), lambda i: (0, i))
            body = functools.partial(add, first=first, columns=columns)
            _pipeline(body, (pl.cdiv(n, _WINDOW),), [window], [])(indices_hbm)
            plsc.subcore_barrier()  # all rows have been added
            there = o_hbm.at[core, pl.ds(pl.multiple_of(first, _CHUNK), part), columns]
            chunks(lambda at: pltpu.sync_copy(sum_shared.at[pl.ds(at, _CHUNK)], there.at[pl.ds(at, _CHUNK)]))


def _histogram_kernel(
    values_hbm: Int32[Ref, "1 padded_n"],
    o_hbm: Int32[Ref, "subcores padded_bins"],
    counts_ref: Int32[Ref, " padded_bins"],
    *,
    bins: int,
    lanes: int,
) -> None:
    me = lax.axis_index("core") * lax.axis_size("subcore") + lax.axis_index("subcore")

    @pl.loop(0, counts_ref.shape[0], step=lanes)
    def _clear(b):
        counts_ref[pl.ds(b, lanes)] = jnp.zeros((lanes,), jnp.int32)

    def count(values_ref):
        @pl.loop(0, _VALUES, step=lanes)
        def _add(k):
            value = values_ref[0, pl.ds(k, lanes)]
            # Lanes with the same value would add to one element at once: the last of them adds for all.
            so_far, is_last = plsc.scan_count(value, mask=(value >= 0) & (value < bins))
            plsc.addupdate_scatter(counts_ref, [value], so_far, mask=is_last)

    window = pl.BlockSpec((1, _VALUES), lambda i: (0, i))
    _pipeline(count, (values_hbm.shape[1] // _VALUES,), [window], [])(values_hbm)
    pltpu.sync_copy(counts_ref, o_hbm.at[me])


def _pipeline(body, grid: tuple[int, ...], in_specs: list, out_specs: list):
    """Return a pipeline whose steps along the first axis of ``grid`` are divided among all subcores."""
    order = (pltpu.PARALLEL, *[pltpu.ARBITRARY] * (len(grid) - 1))
    names, specs = ("core", "subcore"), {"in_specs": in_specs, "out_specs": out_specs}
    return pltpu.emit_pipeline(body, grid=grid, **specs, core_axis_name=names, dimension_semantics=order)


def _launch(kernel, name: str, out: jax.ShapeDtypeStruct, scratch: list, *arrays: Array) -> Array:
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch, name=name)(*arrays)


def launch_gather(table: Num[Array, "N D"], indices: Int32[Array, " n"]) -> Num[Array, "n D"]:
    """Run the gather; D is a multiple of 128."""
    inside = jnp.clip(indices, 0, table.shape[0] - 1)  # any other index would read memory that is not the table's
    out = out_type(table, (indices.size, table.shape[1]), table.dtype)
    return _launch(_gather_kernel, "gather_rows", out, [], table, _in_windows(inside, _WINDOW, 0))


def launch_scatter(rows: Num[Array, "n D"], indices: Int32[Array, " n"], count: int) -> Num[Array, "N D"]:
    """Run the scatter-add into ``count`` rows; D is a multiple of 128."""
    chip, dtype = plsc.get_sparse_core_info(), rows.dtype
    part = _rows_of_a_part(count, chip)
    scratch = [
        pltpu.VMEM_SHARED((part, LANES), dtype),
        pltpu.VMEM((_CHUNK, LANES), dtype),
        pltpu.VMEM((_WINDOW, LANES), dtype),
        pltpu.VMEM((_WINDOW,), jnp.int32),
        pltpu.VMEM((_WINDOW,), jnp.int32),
    ]
    out = out_type(rows, (chip.num_cores, pl.cdiv(count, part) * part, rows.shape[1]), dtype)
    kernel = functools.partial(_scatter_kernel, lanes=chip.num_lanes)
    arrays = rows, _in_windows(indices, _WINDOW, -1), jnp.zeros((_CHUNK, LANES), dtype)
    sums = _launch(kernel, "scatter_add", out, scratch, *arrays)
    return sums.sum(axis=0)[:count]


def launch_histogram(values: Int32[Array, " n"], bins: int) -> Int32[Array, " bins"]:
    """Run the histogram, whose counts must fit into a subcore's VMEM."""
    chip = plsc.get_sparse_core_info()
    padded = pl.cdiv(bins, LANES) * LANES
    out = out_type(values, (chip.num_cores * chip.num_subcores, padded), jnp.int32)
    kernel = functools.partial(_histogram_kernel, bins=bins, lanes=chip.num_lanes)
    scratch = [pltpu.VMEM((padded,), jnp.int32)]
    counts = _launch(kernel, "histogram", out, scratch, _in_windows(values, _VALUES, -1))
    return counts.sum(axis=0)[:bins]


def _in_windows(indices: Int32[Array, " n"], window: int, fill: int) -> Int32[Array, "1 padded_n"]:
    """Return the indices in one row, padded with ``fill`` to whole windows."""
    return jnp.pad(indices, (0, -indices.size % window), constant_values=fill).reshape(1, -1)


def _rows_of_a_part(count: int, chip) -> int:
    """Return the rows of a sum that a SparseCore's shared memory holds: all, or as many as its subcores leave room for.

    The shared memory is what the VMEM of its subcores has left: the compiler refuses more than their total.
    """
    step = chip.num_subcores * _CHUNK
    room = chip.num_subcores * (chip.vmem_capacity_bytes - _OWN_BYTES) // (4 * LANES)
    return min(room // step, pl.cdiv(count, step)) * step
