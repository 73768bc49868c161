# %% [markdown]
# # Exercises 17: Other engines
#
# You decide which engine a kernel belongs on, write two kernels for SparseCores, repair one for a Hopper GPU and port
# another to it, and make an operator of PyTorch with a gradient. Nothing here needs a TPU, a GPU or PyTorch. Where the
# GPU's compiler is not installed, or PyTorch is not, the check judges the rest.
#
# Come here from [lesson 17](../notebooks/17_other_engines.ipynb). About 60 minutes. Short of time? Do 17.2 and 17.6.
# Want more? 17.9 and 17.10, 75 minutes, are a segment sum from an empty cell, and bytes to save.

# %%
# FIRST CELL

# %%
import importlib.util

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from course_lib import compiler


def subcores():
    """Return the mesh of all vector subcores of the chip that is traced for."""
    return plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")


# %% [markdown]
# In 17.2, 17.9 and 17.10 the kernels run on SparseCores, and in 17.6 and 17.7 on an H100. The check asks
# `judges.judge_sparse_core` and `judges.judge_gpu` about them.
#
# ## 17.1 Which engine?
#
# *Difficulty 1 of 5. 5 minutes, 6 answers.*
#
# Six kernels are to be written. On which engine, or by which of Pallas' back ends, should each of them run? Answer with
# `"TensorCore"`, `"SparseCore"`, `"Mosaic GPU"` or `"Triton"`.
#
# - **words**: on a v6e, fetch 65,536 rows of 512 bytes from a table of a million rows.
# - **words_v5e**: the same on a v5e.
# - **layer**: on a v5p, `gelu(x @ w + b)` for matrices of 4,096 by 4,096 in bfloat16.
# - **votes**: on a v6e, count how often each of 1,000 labels occurs among 16 million.
# - **softmax_a100**: on an A100, run the softmax kernel that your TPU runs, unchanged.
# - **matmul_h100**: on an H100, multiply from shared memory with `wgmma` while TMA copies the next blocks.


# %% answer="17.1"
engines = {
    "words": None,
    "words_v5e": None,
    "layer": None,
    "votes": None,
    "softmax_a100": None,
    "matmul_h100": None,
}
### BEGIN SOLUTION
engines |= {
    "words": "SparseCore",
    "words_v5e": "TensorCore",
    "layer": "TensorCore",
    "votes": "SparseCore",
    "softmax_a100": "Triton",
    "matmul_h100": "Mosaic GPU",
}
### END SOLUTION

# %% check="17.1"
checks.check("17.1", engines)

# %%
# checks.hint("17.1")

# %% [markdown]
# ## 17.2 Rows by index
#
# *Difficulty 3 of 5. 12 minutes, 16 lines. Fast track.*
#
# Write `lookup(table, indices)`, which returns `table[indices]`. The table is float32[N, 128]. There are n indices,
# int32 in [0, N), and n is a multiple of 1,024, at most 4,096. Divide the work among all vector subcores of the chip,
# however many it has: the check compiles for a v5p, a v6e and a tpu7x. All subcores together may read each index once
# and one row for each index, and write one row for each, which is 4 n + 1,024 n bytes.


# %% answer="17.2"
def lookup(table, indices):
    """Return the rows of the table that the indices name."""
    ### BEGIN SOLUTION
    mesh = subcores()
    share = indices.size // (mesh.num_cores * mesh.num_subcores)

    def lookup_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref):
        core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
        mine = pl.ds((core * mesh.num_subcores + subcore) * share, share)
        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
        pltpu.sync_copy(rows_ref, o_hbm.at[mine])

    return pl.kernel(
        lookup_kernel,
        out_type=jax.ShapeDtypeStruct((indices.size, table.shape[1]), table.dtype),
        mesh=mesh,
        scratch_types=[
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share, table.shape[1]), table.dtype),
        ],
    )(table, indices)
    ### END SOLUTION


# %% check="17.2"
checks.check("17.2", lookup)

# %%
# checks.hint("17.2")

# %% [markdown]
# ## 17.3 Break-even width
#
# *Difficulty 2 of 5. 5 minutes, 3 lines.*
#
# A table of float32 has few columns. There are two ways to keep it:
#
# - In the TensorCore's tiles. A row takes whole tiles of 128 columns, and a gather on SparseCores reads and writes as
#   many bytes for each index.
# - Packed (`use_tc_tiling_on_sc=False`). A gather reads and writes only the row. The TensorCore needs the result in
#   tiles, so XLA then reads the packed result and writes a tiled one. The table stays packed. Whoever reads or writes a
#   packed row moves whole granules of 32 bytes.
#
# How many bytes of HBM does each of them move for one index, not counting the index itself, if the table has 20
# columns? Write a text with the unit, as in "64 bytes". And with how many columns, at most, do packed rows move fewer
# bytes than tiled ones?


# %% answer="17.3"
widths = {"tiled": None, "packed": None, "widest": None}
### BEGIN SOLUTION
widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
### END SOLUTION

# %% check="17.3"
checks.check("17.3", widths)

# %%
# checks.hint("17.3")

# %% [markdown]
# ## 17.4 Find the instruction
#
# *Difficulty 2 of 5. 5 minutes, 6 answers.*
#
# `tallied` adds up the rows of a table by label, and counts the labels. The cell below compiles it for a v6e, without
# one, and says how many bundles of its listing have each of five instructions. Which instruction does what line
# **A**, **B**, **C**, **D** or **E** says? (`listing.find("vunique")` returns the bundles of one of them, and
# `print(listing)` shows all.) And how many **labels**, a plain number, does the instruction of line D take at once?


# %% given="17.4"
LABELS = 128


def tallied(table, indices, labels):
    mesh, lanes = subcores(), plsc.get_sparse_core_info().num_lanes
    workers = mesh.num_cores * mesh.num_subcores
    share, stripe = indices.size // workers, LABELS // mesh.num_subcores

    def tally_kernel(
        table_hbm, indices_hbm, labels_hbm, zeros_hbm, sums_hbm, counts_hbm,
        sums_shared, indices_ref, labels_ref, rows_ref, counts_ref,
    ):  # fmt: skip
        core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
        me = core * mesh.num_subcores + subcore
        mine, part = pl.ds(me * share, share), pl.ds(subcore * stripe, stripe)
        pltpu.sync_copy(zeros_hbm, sums_shared.at[part])
        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
        pltpu.sync_copy(labels_hbm.at[mine], labels_ref)

        @pl.loop(0, LABELS, step=lanes)
        def clear(k):
            counts_ref[pl.ds(k, lanes)] = jnp.zeros((lanes,), jnp.int32)

        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)  # A
        plsc.subcore_barrier()  # E
        pltpu.sync_copy(rows_ref, sums_shared.at[labels_ref], add=True)  # B

        @pl.loop(0, share, step=lanes)
        def count(k):
            label = labels_ref[pl.ds(k, lanes)]
            so_far, is_last = plsc.scan_count(label, mask=label >= 0)  # C
            plsc.addupdate_scatter(counts_ref, [label], so_far, mask=is_last)  # D

        plsc.subcore_barrier()  # E
        pltpu.sync_copy(sums_shared.at[part], sums_hbm.at[core, part])
        pltpu.sync_copy(counts_ref, counts_hbm.at[me])

    width = table.shape[1]
    return pl.kernel(
        tally_kernel,
        out_type=(
            jax.ShapeDtypeStruct((mesh.num_cores, LABELS, width), table.dtype),
            jax.ShapeDtypeStruct((workers, LABELS), jnp.int32),
        ),
        mesh=mesh,
        scratch_types=[
            pltpu.VMEM_SHARED((LABELS, width), table.dtype),
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share, width), table.dtype),
            pltpu.VMEM((LABELS,), jnp.int32),
        ],
    )(table, indices, labels, jnp.zeros((stripe, width), table.dtype))


# %% given="17.4-listing"
numbers = jax.ShapeDtypeStruct((1024,), jnp.int32)
rows_of_table = jax.ShapeDtypeStruct((512, 128), jnp.float32)
try:
    listing = compiler.sparse_core_listing(
        tallied, rows_of_table, numbers, numbers, chip="v6e"
    )
    for name in (
        "sbarrier.arrive",
        "stream.indirect.gather",
        "stream.indirect.scatter.add.f32",
        "vst.idx.add",
        "vunique",
    ):
        print(f"{len(listing.find(name))}  {name}")
except compiler.Unavailable as missing:
    print(missing)

# %% answer="17.4"
found = {"A": None, "B": None, "C": None, "D": None, "E": None, "labels": None}
### BEGIN SOLUTION
found |= {
    "A": "stream.indirect.gather",
    "B": "stream.indirect.scatter.add.f32",
    "C": "vunique",
    "D": "vst.idx.add",
    "E": "sbarrier.arrive",
    "labels": 8,
}
### END SOLUTION

# %% check="17.4"
checks.check("17.4", found)

# %%
# checks.hint("17.4")

# %% [markdown]
# ## 17.5 What needs porting?
#
# *Difficulty 2 of 5. 5 minutes, 5 answers.*
#
# Each of these functions is right on a TPU. Somebody runs it unchanged on an A100, where Pallas goes through Triton.
# What happens? Answer with `"right"`, `"a race"` (two blocks write the same memory), `"out of bounds"` (memory beyond
# an array is read or overwritten) or `"refused"` (it does not lower).


# %% given="17.5"
def row_maxima(x):  # x: float32[64, 256]
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 1), x.dtype),
        grid=(8,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 1), lambda i: (i, 0)),
    )(x)


def column_sums(x):  # x: float32[64, 256]
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def clear():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 256), x.dtype),
        grid=(8,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 256), lambda i: (0, 0)),
    )(x)


def doubled(x):  # x: float32[1000]
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    block = pl.BlockSpec((512,), lambda i: (i,))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(2,), in_specs=[block], out_specs=block
    )(x)


def squared(x):  # x: float32[64, 256]
    def kernel(x_ref, o_ref, copy_ref):
        copy_ref[...] = x_ref[...]
        o_ref[...] = copy_ref[...] * copy_ref[...]

    block = pl.BlockSpec((8, 256), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(8,),
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pltpu.VMEM((8, 256), x.dtype)],
    )(x)


def wide(x):  # x: float32[64, 384]
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    block = pl.BlockSpec((8, 384), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(8,), in_specs=[block], out_specs=block
    )(x)


# %% answer="17.5"
unported = {
    "row_maxima": None,
    "column_sums": None,
    "doubled": None,
    "squared": None,
    "wide": None,
}
### BEGIN SOLUTION
unported |= {
    "row_maxima": "right",
    "column_sums": "a race",
    "doubled": "out of bounds",
    "squared": "refused",
    "wide": "refused",
}
### END SOLUTION

# %% check="17.5"
checks.check("17.5", unported)

# %%
# checks.hint("17.5")

# %% [markdown]
# ## 17.6 Repair: two pieces through one buffer
#
# *Difficulty 2 of 5. 6 minutes, 1 line. Fast track.*
#
# Each block of this Hopper kernel doubles two pieces of x, one after the other, through the same shared memory. The
# simulator's values are right, but one line is missing. Write the kernel again with this line.


# %% given="17.6"
PIECE = 128


def double_kernel_broken(x_gmem, o_gmem, x_smem, o_smem, arrived):
    for piece in range(2):
        here = pl.ds((2 * lax.axis_index("i") + piece) * PIECE, PIECE)
        plgpu.copy_gmem_to_smem(x_gmem.at[here], x_smem, arrived)
        plgpu.barrier_wait(arrived)
        o_smem[...] = 2 * x_smem[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])
    plgpu.wait_smem_to_gmem(0)


# %% answer="17.6"
def double_kernel(x_gmem, o_gmem, x_smem, o_smem, arrived):
    """Double two pieces of x."""
    ### BEGIN SOLUTION
    for piece in range(2):
        here = pl.ds((2 * lax.axis_index("i") + piece) * PIECE, PIECE)
        plgpu.copy_gmem_to_smem(x_gmem.at[here], x_smem, arrived)
        plgpu.barrier_wait(arrived)
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        o_smem[...] = 2 * x_smem[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])
    plgpu.wait_smem_to_gmem(0)
    ### END SOLUTION


# %% given="17.6-call"
def two_pieces(x):
    return plgpu.kernel(
        double_kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.size // (2 * PIECE),),
        grid_names=("i",),
        scratch_types=[
            plgpu.SMEM((PIECE,), x.dtype),
            plgpu.SMEM((PIECE,), x.dtype),
            plgpu.Barrier(),
        ],
    )(x)


# %% check="17.6"
checks.check("17.6", two_pieces)

# %%
# checks.hint("17.6")

# %% [markdown]
# ## 17.7 Port a layer to Hopper
#
# *Difficulty 4 of 5. 15 minutes, 34 lines.*
#
# `layer_tpu` is a kernel for a TPU: relu(x @ w + b), with the reduction as the last axis of the grid. Write `layer(x,
# w, b)` for an H100, by `plgpu.kernel`. All arrays are bfloat16; M is a multiple of 64, N of 128, and K of 64. Let each
# block of the grid compute 64 rows of 128 columns. The sum over K becomes a loop in the body, with `plgpu.wgmma` on
# blocks that TMA has copied to shared memory, and an accumulator in float32. In a loop, remember that `plgpu.wgmma`
# only starts a multiplication: `plgpu.wgmma_wait(n)` waits until at most n of them are under way. `bias_of` loads the
# bias of a block so that it fits the accumulator's registers.


# %% given="17.7"
def layer_tpu(x, w, b):
    def kernel(x_ref, w_ref, b_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def clear():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def finish():
            y = jnp.maximum(acc_ref[...] + b_ref[...].astype(jnp.float32), 0)
            o_ref[...] = y.astype(o_ref.dtype)

    (m, k), n = x.shape, w.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // 64, n // 128, k // 64),
        in_specs=[
            pl.BlockSpec((64, 64), lambda i, j, k: (i, k)),
            pl.BlockSpec((64, 128), lambda i, j, k: (k, j)),
            pl.BlockSpec((1, 128), lambda i, j, k: (0, j)),
        ],
        out_specs=pl.BlockSpec((64, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((64, 128), jnp.float32)],
    )(x, w, b.reshape(1, n))


def bias_of(b_gmem, columns, shape):
    """Return these columns of the bias in float32, for each row of an accumulator of this shape."""
    layout = plgpu.Layout.WGMMA.reduce(0)  # where wgmma keeps the columns of its sums
    bias = plgpu.load(b_gmem.at[columns], layout=layout, optimized=False)
    return lax.broadcast_in_dim(bias.astype(jnp.float32), shape, (1,))


# %% answer="17.7"
def layer(x, w, b):
    """relu(x @ w + b), on a Hopper."""
    ### BEGIN SOLUTION
    (m, k), n = x.shape, w.shape[1]
    bm, bn, bk = 64, 128, 64

    def layer_kernel(x_gmem, w_gmem, b_gmem, o_gmem, x_smem, w_smem, o_smem, arrived):
        rows = pl.ds(lax.axis_index("i") * bm, bm)
        columns = pl.ds(lax.axis_index("j") * bn, bn)

        def summed(acc_ref):
            @pl.loop(0, k // bk)
            def add(step):
                here = pl.ds(step * bk, bk)
                plgpu.copy_gmem_to_smem(x_gmem.at[rows, here], x_smem, arrived)
                plgpu.copy_gmem_to_smem(w_gmem.at[here, columns], w_smem, arrived)
                plgpu.barrier_wait(arrived)
                plgpu.wgmma(acc_ref, x_smem, w_smem)
                plgpu.wgmma_wait(0)

            return acc_ref[...]

        sums = pl.run_scoped(summed, plgpu.ACC((bm, bn), jnp.float32))
        y = jnp.maximum(sums + bias_of(b_gmem, columns, sums.shape), 0)
        o_smem[...] = y.astype(o_smem.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows, columns])
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        layer_kernel,
        out_type=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn),
        grid_names=("i", "j"),
        scratch_types=[
            plgpu.SMEM((bm, bk), x.dtype),
            plgpu.SMEM((bk, bn), w.dtype),
            plgpu.SMEM((bm, bn), x.dtype),
            plgpu.Barrier(num_arrivals=2),
        ],
    )(x, w, b)
    ### END SOLUTION


# %% check="17.7"
checks.check("17.7", layer)

# %%
# checks.hint("17.7")

# %% [markdown]
# ## 17.8 A gate for PyTorch
#
# *Difficulty 3 of 5. 7 minutes, 16 lines.*
#
# `gate(x, g)` is x * sigmoid(g), for float32 arrays of the same shape. Its forward kernel is given. Write the kernel of
# its gradient, a function with `jax.custom_vjp` that runs both kernels on whole arrays, and make it an operator of
# PyTorch that is called `"exercises::gate"`, in the mode "interpreted". Where PyTorch is installed, the check also
# compares the operator with PyTorch's own gradient. Without PyTorch, `operator` returns your function as it is.


# %% given="17.8"
if importlib.util.find_spec("torch"):
    from course_lib.frameworks.torch import operator
else:  # PyTorch is not installed

    def operator(name, fn, *tensors, **options):
        return fn


def gate_kernel(x_ref, g_ref, o_ref):
    o_ref[...] = x_ref[...] * jax.nn.sigmoid(g_ref[...])


# %% answer="17.8"
gate = None
### BEGIN SOLUTION


def gate_gradient_kernel(x_ref, g_ref, cotangent_ref, dx_ref, dg_ref):
    s = jax.nn.sigmoid(g_ref[...])
    dx_ref[...] = cotangent_ref[...] * s
    dg_ref[...] = cotangent_ref[...] * x_ref[...] * s * (1 - s)


@jax.custom_vjp
def gated(x, g):
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(gate_kernel, out_shape=like)(x, g)


def gated_forward(x, g):
    return gated(x, g), (x, g)


def gated_backward(saved, cotangent):
    like = jax.ShapeDtypeStruct(cotangent.shape, cotangent.dtype)
    return pl.pallas_call(gate_gradient_kernel, out_shape=(like, like))(*saved, cotangent)


gated.defvjp(gated_forward, gated_backward)
gate = operator("exercises::gate", gated, ("x", "g"), mode="interpreted")
### END SOLUTION

# %% check="17.8"
checks.check("17.8", gate)

# %%
# checks.hint("17.8")

# %% [markdown]
# ## 17.9 A segment sum
#
# *Difficulty 5 of 5. 40 minutes, 40 lines. Further.*
#
# Write `segment_sum(rows, segments)` from an empty cell, for the SparseCores of a v6e and a tpu7x, which have two of 16
# subcores each. `rows` is float32[n, 256], `segments` is int32[n] in [0, 512), and n is 2,048 or 4,096. Row s of the
# result, float32[512, 256], is the sum of all rows whose segment is s. All of it happens in the kernel, so nothing may
# be left for XLA to add up, and every subcore takes part. HBM may be read and written 1,024 n + 8 n bytes for rows and
# segments, and 524,288 bytes for the result.

# %% answer="17.9"
segment_sum = None
### BEGIN SOLUTION


def segment_sum(rows, segments):
    """Return the sum of each segment's rows: each SparseCore adds up 128 of the columns."""
    mesh, (n, width) = subcores(), rows.shape
    lanes = plsc.get_sparse_core_info().num_lanes
    share = n // mesh.num_subcores  # rows that a subcore adds
    mine = 512 // mesh.num_subcores  # rows of the sum that it clears and hands over
    part = width // mesh.num_cores

    def sum_kernel(rows_hbm, segments_hbm, o_hbm, sums_shared, segments_ref, rows_ref):
        subcore = lax.axis_index("subcore")
        columns = pl.ds(lax.axis_index("core") * part, part)
        stripe = pl.ds(subcore * mine, mine)

        @pl.loop(0, mine)
        def clear(row):
            @pl.loop(0, part, step=lanes)
            def clear_lanes(k):
                rows_ref[row, pl.ds(k, lanes)] = jnp.zeros((lanes,), rows.dtype)

        pltpu.sync_copy(rows_ref.at[pl.ds(0, mine)], sums_shared.at[stripe])
        plsc.subcore_barrier()  # all of the sum is zero

        @pl.loop(0, share, step=128)
        def add(start):
            here = pl.ds(subcore * share + start, 128)
            pltpu.sync_copy(segments_hbm.at[here], segments_ref)
            pltpu.sync_copy(rows_hbm.at[here, columns], rows_ref)
            pltpu.sync_copy(rows_ref, sums_shared.at[segments_ref], add=True)

        plsc.subcore_barrier()  # all rows have been added
        pltpu.sync_copy(sums_shared.at[stripe], o_hbm.at[stripe, columns])

    return pl.kernel(
        sum_kernel,
        out_type=jax.ShapeDtypeStruct((512, width), rows.dtype),
        mesh=mesh,
        scratch_types=[
            pltpu.VMEM_SHARED((512, part), rows.dtype),
            pltpu.VMEM((128,), jnp.int32),
            pltpu.VMEM((128, part), rows.dtype),
        ],
    )(rows, segments)


### END SOLUTION

# %% check="17.9"
checks.check("17.9", segment_sum)

# %%
# checks.hint("17.9")

# %% [markdown]
# ## 17.10 Golf: bags of rows
#
# *Difficulty 4 of 5. 35 minutes, 35 lines. Further.*
#
# `bags(table, indices)` adds up rows: a bag is a list of 8 rows of the table, and the result has their sum. The table
# is float32[512, 256]. `indices`, int32[2048], has the first row of all 256 bags, then the second row of all of them,
# and so on, so the k-th row of bag b is `indices[256 * k + b]`. The result is float32[256, 256]. Move as few bytes of
# HBM as you can, on a v6e, whose subcores all have to take part: what all subcores read and write counts, and what
# XLA's operations around the kernel move. Par is 1,400,000 bytes, for which 35 lines are enough. The kernel below
# fetches each row of each bag from HBM.


# %% given="17.10"
def fetched_bags(table, indices):
    mesh, count, width = subcores(), indices.size // 8, table.shape[1]
    mine = count // (mesh.num_cores * mesh.num_subcores)

    def bags_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, sums_ref):
        subcore = lax.axis_index("core") * mesh.num_subcores + lax.axis_index("subcore")
        for k in range(8):
            here = pl.ds(k * count + subcore * mine, mine)
            pltpu.sync_copy(indices_hbm.at[here], indices_ref)
            for part in range(width // 128):
                columns = pl.ds(part * 128, 128)
                pltpu.sync_copy(
                    table_hbm.at[indices_ref, columns], sums_ref.at[:, columns], add=k > 0
                )
        pltpu.sync_copy(sums_ref, o_hbm.at[pl.ds(subcore * mine, mine)])

    return pl.kernel(
        bags_kernel,
        out_type=jax.ShapeDtypeStruct((count, width), table.dtype),
        mesh=mesh,
        scratch_types=[
            pltpu.VMEM((mine,), jnp.int32),
            pltpu.VMEM((mine, width), table.dtype),
        ],
    )(table, indices)


# %% answer="17.10"
bags = None
### BEGIN SOLUTION


def bags(table, indices):
    """Return the sum of each bag: a SparseCore brings 128 columns of the rows that occur."""
    mesh, (rows, width), count = subcores(), table.shape, indices.size // 8
    mine, part = count // mesh.num_subcores, width // mesh.num_cores
    stored, lanes = rows // mesh.num_subcores, plsc.get_sparse_core_info().num_lanes

    def bags_kernel(
        table_hbm, indices_hbm, o_hbm, times_shared, table_shared,
        indices_ref, ones_ref, wanted_ref, rows_ref, sums_ref,
    ):  # fmt: skip
        subcore = lax.axis_index("subcore")
        columns = pl.ds(lax.axis_index("core") * part, part)
        stripe = pl.ds(subcore * stored, stored)

        @pl.loop(0, 8 * mine, step=lanes)
        def fill(k):
            ones_ref[pl.ds(k, lanes)] = jnp.ones((lanes,), jnp.int32)

        @pl.loop(0, stored, step=lanes)
        def clear(k):
            wanted_ref[pl.ds(k, lanes)] = jnp.zeros((lanes,), jnp.int32)

        pltpu.sync_copy(wanted_ref, times_shared.at[stripe])
        for k in range(8):
            here = pl.ds(k * count + subcore * mine, mine)
            pltpu.sync_copy(indices_hbm.at[here], indices_ref.at[pl.ds(k * mine, mine)])
        plsc.subcore_barrier()  # all counts are zero
        pltpu.sync_copy(ones_ref, times_shared.at[indices_ref], add=True)
        plsc.subcore_barrier()  # all indices have been counted
        pltpu.sync_copy(times_shared.at[stripe], wanted_ref)

        @pl.loop(0, stored, step=lanes)
        def choose(k):
            here = pl.ds(k, lanes)
            row = subcore * stored + k + lax.iota(jnp.int32, lanes)
            wanted_ref[here] = jnp.where(wanted_ref[here] > 0, row, -1)

        wanted = plsc.Indices(wanted_ref, ignored_value=-1)
        pltpu.sync_copy(table_hbm.at[wanted, columns], rows_ref)
        pltpu.sync_copy(rows_ref, table_shared.at[stripe])
        plsc.subcore_barrier()  # the rows that occur are there
        for k in range(8):
            of_k = indices_ref.at[pl.ds(k * mine, mine)]
            pltpu.sync_copy(table_shared.at[of_k], sums_ref, add=k > 0)
        pltpu.sync_copy(sums_ref, o_hbm.at[pl.ds(subcore * mine, mine), columns])

    return pl.kernel(
        bags_kernel,
        out_type=jax.ShapeDtypeStruct((count, width), table.dtype),
        mesh=mesh,
        scratch_types=[
            pltpu.VMEM_SHARED((rows,), jnp.int32),
            pltpu.VMEM_SHARED((rows, part), table.dtype),
            pltpu.VMEM((8 * mine,), jnp.int32),
            pltpu.VMEM((8 * mine,), jnp.int32),
            pltpu.VMEM((stored,), jnp.int32),
            pltpu.VMEM((stored, part), table.dtype),
            pltpu.VMEM((mine, part), table.dtype),
        ],
    )(table, indices)


### END SOLUTION

# %% check="17.10"
checks.check("17.10", bags)

# %%
# checks.hint("17.10")

# %% [markdown]
# <!-- next -->
