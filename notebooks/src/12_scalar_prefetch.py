# %% [markdown]
# # Lesson 12: Scalar prefetch
#
# *60 minutes, then 60 for the exercises. The "Further" part is optional and not counted in these times. You need
# lesson 4 for index maps, lesson 5 for copies that run ahead, lesson 7 for the accumulator and lesson 8 for `pl.when`.
# You do not need a TPU; with one, the kernels also run on it.*
#
# A language model begins by looking words up: every token is the number of a row in a table. The kernel below does that
# for blocks of eight rows. Its body is one line, and all the work is in the index map, which looks up in `wanted` which
# block of the table comes next. Run the three cells.

# %%
# FIRST CELL

# %%
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler, cost, errors, grid, judges, viz
from course_lib.kernels import block_sparse

table = jax.random.normal(jax.random.key(0), (64, 256))
wanted = jnp.array([5, 2, 7, 2], jnp.int32)


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def look_up(table, wanted):
    return pl.pallas_call(
        copy_kernel,
        out_shape=jax.ShapeDtypeStruct((8 * len(wanted), 256), table.dtype),
        grid=(len(wanted),),
        in_specs=[pl.BlockSpec((8, 256), lambda t: (wanted[t], 0))],
        out_specs=pl.BlockSpec((8, 256), lambda t: (t, 0)),
    )(table)


# %%
try:
    look_up(table, wanted)
except ValueError as error:
    print("JAX says:  ", re.sub(r" at \S+", "", str(error))[:91])
    print("We say:    ", errors.explain(error))

# %% [markdown]
# JAX refuses the index map, because `wanted` is an array, and the index map has to be compiled into the kernel. Until
# now, an index map knew only the grid indices. Here the next block depends on data that arrives with the call.
#
# **Before you read on, write down where `wanted` must be stored, and by when.** It could stay in HBM, where all
# arguments are, or come into VMEM block by block, as `table` does. Ask yourself who reads `wanted`, and at which
# moment. At the end of this lesson you will know, and you will know why a kernel with an eighth of the work need not
# take an eighth of the time.
#
# After this lesson you can
# - write kernels in which data decides which block comes next,
# - count from a list how many copies a kernel will make,
# - multiply a matrix that is mostly zeros, block by block, and give its empty rows zeros,
# - say at which density the dense matmul becomes the faster one,
# - leave the size of a grid open until the call.
#
# ## Who reads an index map?
#
# Lesson 5 showed that a block's copy is started one step before the step that uses it. So the index map of step t + 1
# is evaluated during step t at the latest, and the index map of the first step before any step has run. The scalar unit
# evaluates index maps, because it is the unit that counts the steps and starts the copies, and its memory is SMEM
# (lesson 2).
#
# So the list has to be in SMEM before the first step. That is what *scalar prefetch* means. You ask for it with
# `pltpu.PrefetchScalarGridSpec`, which holds `grid`, `in_specs`, `out_specs` and `scratch_shapes`, plus
# `num_scalar_prefetch`, the number of prefetched arguments.
#
# > **scalar prefetch**: arguments of a kernel that are copied to SMEM as a whole before the first step. Index maps and the
# > kernel's body can read individual elements.


# %%
def gather_kernel(wanted_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]


def gather(table, wanted):
    return pl.pallas_call(
        gather_kernel,
        out_shape=jax.ShapeDtypeStruct((8 * len(wanted), 256), table.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(len(wanted),),
            in_specs=[pl.BlockSpec((8, 256), lambda t, wanted_ref: (wanted_ref[t], 0))],
            out_specs=pl.BlockSpec((8, 256), lambda t, wanted_ref: (t, 0)),
        ),
    )(wanted, table)


def gathered(table, wanted):
    return table.reshape(-1, 8, 256)[wanted].reshape(-1, 256)


for verdict in judges.judge(gather, gathered, table, wanted):
    print(verdict)

# %% [markdown]
# The order of arguments is the part that people get wrong, so look at it once more. In the call, prefetched arrays come
# *before* the others. In the kernel, their refs come *before* all other refs, even if the body does not use them, as
# here. In an index map, their refs come *after* the grid indices. Every index map gets them, even one that does not use
# them.
#
# ## What a list costs
#
# In lesson 4 a block was copied only when its index changed from one step to the next. That rule still holds, but the
# index now comes from data, so the bytes that move depend on the *order* of the list.
#
# **Predict:** here are three lists of eight blocks. How many blocks of the table does each of them copy?
#
# - **A** `[3, 3, 3, 1, 1, 3, 3, 0]`
# - **B** the same numbers, sorted
# - **C** the same numbers, so that no two equal ones are neighbors

# %% tags=["predict"]
lists = {
    "A": [3, 3, 3, 1, 1, 3, 3, 0],
    "B": [0, 1, 1, 3, 3, 3, 3, 3],
    "C": [3, 1, 3, 0, 3, 1, 3, 0],
}


for name, each in lists.items():
    moved = cost.traffic(grid.walk(gather, table, jnp.array(each, jnp.int32)))
    copies = next(row.copies for row in moved if row.name == "x_ref")
    print(f"{name}: {copies} of 8 steps copy a block of the table")

# %% [markdown]
# Step through the same kernel for list A. **Look for** the steps at which nothing is copied for x_ref.

# %%
viz.grid_player(gather, table, jnp.array(lists["A"], jnp.int32))

# %% [markdown]
# The list holds block numbers, because that is what an index map returns. If one of them lies outside the array, no
# compiler can find the mistake, because the list is data; the simulator finds it when it reaches that step. The table
# has 64 rows, which are blocks 0 to 7. Suppose somebody wants row 40, which is in block 5, and writes 40.


# %%
def verdict_on(fn, reference, *args):
    """What the first judge says that refuses."""
    refused = [v for v in judges.judge(fn, reference, *args) if v.passed is False]
    return refused[0] if refused else "no judge refuses it"


print(verdict_on(gather, gathered, table, jnp.array([5, 2, 40], jnp.int32)))

# %% [markdown]
# ## Where a list leads: outputs
#
# The index map of an output can read a list too, and then data decides where a result goes. Suppose every block of
# eight rows belongs to a group, and the blocks of a group are to be added up: `total[g]` is the sum of the blocks whose
# group is g. The output's index map returns `group_ref[t]`. The body adds to the block, or overwrites it when the group
# differs from that of the previous step.


# %%
def totals_kernel(group_ref, x_ref, o_ref):
    t = pl.program_id(0)
    new = (t == 0) | (group_ref[t] != group_ref[jnp.maximum(t - 1, 0)])

    @pl.when(new)
    def start():
        o_ref[...] = x_ref[...]

    @pl.when(jnp.logical_not(new))
    def add():
        o_ref[...] += x_ref[...]


def totals(x, group, groups):
    return pl.pallas_call(
        totals_kernel,
        out_shape=jax.ShapeDtypeStruct((8 * groups, x.shape[1]), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(len(group),),
            in_specs=[pl.BlockSpec((8, x.shape[1]), lambda t, group_ref: (t, 0))],
            out_specs=pl.BlockSpec((8, x.shape[1]), lambda t, group_ref: (group_ref[t], 0)),
        ),
    )(group, x)


def summed(x, group, groups):
    blocks = x.reshape(-1, 8, x.shape[1])
    return jax.ops.segment_sum(blocks, group, groups).reshape(-1, x.shape[1])


x = jax.random.normal(jax.random.key(1), (64, 256))
group = jnp.array([0, 0, 1, 1, 1, 2, 3, 3], jnp.int32)
print(verdict_on(lambda x, g: totals(x, g, 4), lambda x, g: summed(x, g, 4), x, group))

# %% [markdown]
# The result is right. Besides its own entry the kernel reads the one before, `group_ref[t - 1]`; the body may read any
# element of a prefetched list. `jnp.maximum` keeps the first step from reading before the start of the list, because
# index -1 does not wrap around here.
#
# Now try two other lists with the same kernel. In the first, the groups are not sorted. In the second, no block belongs
# to group 2. **Predict** for each: is the result right, and if not, which blocks of it are wrong, and why?

# %% tags=["predict"]
shuffled = jnp.array([0, 1, 0, 3, 1, 2, 3, 1], jnp.int32)
no_two = jnp.array([0, 0, 1, 1, 1, 1, 3, 3], jnp.int32)
for name, each in [("shuffled", shuffled), ("nobody in group 2", no_two)]:
    verdict = verdict_on(
        lambda x, g: totals(x, g, 4), lambda x, g: summed(x, g, 4), x, each
    )
    print(f"{name}\n{verdict}\n")

# %% [markdown]
# In the first list, groups 0, 1 and 3 are left and visited again later, so only group 2 is right. The kernel restarts a
# sum whenever the group changes. It could not resume the old one, because an output block leaves VMEM when its index
# changes. That is lesson 4's rule: **the steps that lead to one output block must be neighbors.** In the second list no
# step leads to block 2, so it is never written: **what is empty stays garbage.**
#
# To repair the first case, sort the *steps* and not only the groups: a second prefetched list, `order`, says which
# block of x step t takes, and the index map of x looks it up. For empty groups there are two remedies. You can add an
# entry for each of them to the lists, with a step that writes zeros, or you can have the output begin as an array of
# zeros: `input_output_aliases={3: 0}` tells JAX that argument 3 of the call and output 0 share their memory. Prefetched
# arguments count, so argument 3 is the array of zeros. A block that is never visited then keeps its zeros. The kernel
# gets a ref for this argument, which it does not use.
#
# > **alias**: an input and an output that share memory in HBM. What a kernel does not write keeps the input's values.


# %%
def totals_in_any_order(x, group, groups):
    def kernel(group_ref, order_ref, x_ref, zeros_ref, o_ref):
        totals_kernel(group_ref, x_ref, o_ref)

    order, block = jnp.argsort(group), (8, x.shape[1])
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8 * groups, x.shape[1]), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(len(group),),
            in_specs=[
                pl.BlockSpec(block, lambda t, group_ref, order_ref: (order_ref[t], 0)),
                pl.BlockSpec(memory_space=pl.ANY),  # stays in HBM: nothing of it is copied
            ],
            out_specs=pl.BlockSpec(
                block, lambda t, group_ref, order_ref: (group_ref[t], 0)
            ),
        ),
        input_output_aliases={3: 0},
    )(group[order], order, x, jnp.zeros((8 * groups, x.shape[1]), x.dtype))


for name, each in [("shuffled", shuffled), ("nobody in group 2", no_two)]:
    verdict = verdict_on(
        lambda x, g: totals_in_any_order(x, g, 4), lambda x, g: summed(x, g, 4), x, each
    )
    print(f"{name}: {verdict}")

# %% [markdown]
# ## A matrix that is mostly zeros
#
# Some matrices are zero in whole blocks, such as an attention mask, pruned weights, or a graph sorted by neighborhood.
# Then it is enough to store the nonzero blocks and their positions.
#
# > **block-COO**: a list of blocks with two lists of numbers beside it, the row and the column of each, counted in blocks.
# > (COO stands for coordinates.)
#
# Below, 6 blocks of a matrix of 4 x 4 blocks are stored; the next section takes 32 of 256. The matrix b is dense, and
# the first grid axis, j, cuts it into panels of 512 columns. For each panel, every stored block needs one matmul: block
# (r, c) times the rows of b that belong to column c, added to the rows of the result that belong to row r. You have met
# all the parts: the index map of b looks up `cols`, that of the result looks up `rows`, and the accumulator is reset
# when the row changes. (The argument `still` is for an experiment later.) Read the kernel, then answer: **what are the
# two `pl.when` for, and why does one look back and the other ahead?**

# %%
SIDE = 128  # of a block
BN = 512  # columns of b and of the result at once


def sparse_kernel(rows_ref, cols_ref, a_ref, b_ref, *refs):
    *_, o_ref, acc_ref = refs  # before them the zeros, if there are any
    t, last = pl.program_id(1), pl.num_programs(1) - 1

    @pl.when((t == 0) | (rows_ref[t] != rows_ref[jnp.maximum(t - 1, 0)]))
    def a_new_row():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    @pl.when((t == last) | (rows_ref[t] != rows_ref[jnp.minimum(t + 1, last)]))
    def the_row_is_done():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def sparse_times_dense(values, rows, cols, b, bn=BN, zeros=True, still=""):
    """A @ b, where A has as many rows as b and the blocks ``values`` at (rows, cols)."""
    k, n = b.shape
    zeros = [jnp.zeros((k, n), b.dtype)] if zeros else []

    def of_values(j, t, rows_ref, cols_ref):
        return 0 if "values" in still else t, 0, 0

    def of_b(j, t, rows_ref, cols_ref):
        return 0 if "b" in still else cols_ref[t], j

    out = pl.BlockSpec((SIDE, bn), lambda j, t, rows_ref, cols_ref: (rows_ref[t], j))
    return pl.pallas_call(
        sparse_kernel,
        out_shape=jax.ShapeDtypeStruct((k, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(n // bn, len(rows)),
            in_specs=[
                pl.BlockSpec((None, SIDE, SIDE), of_values),
                pl.BlockSpec((SIDE, bn), of_b),
                *[pl.BlockSpec(memory_space=pl.ANY) for _ in zeros],
            ],
            out_specs=out,
            scratch_shapes=[pltpu.VMEM((SIDE, bn), jnp.float32)],
        ),
        input_output_aliases={4: 0} if zeros else {},
    )(rows, cols, values, b, *zeros)


def plain(values, rows, cols, b):
    products = jnp.einsum(
        "zik,zkn->zin",
        values.astype(jnp.float32),
        b.reshape(-1, SIDE, b.shape[1])[cols].astype(jnp.float32),
        precision="highest",
    )
    total = jax.ops.segment_sum(products, rows, len(b) // SIDE)
    return total.reshape(b.shape).astype(b.dtype)


def drawn(side, count, seed=0):
    """Rows and columns of ``count`` blocks of a matrix of side x side blocks, sorted by row."""
    places = np.sort(np.random.default_rng(seed).choice(side * side, count, replace=False))
    return jnp.array(places // side, jnp.int32), jnp.array(places % side, jnp.int32)


rows, cols = drawn(4, 6)
keys = jax.random.split(jax.random.key(2))
values = jax.random.normal(keys[0], (6, SIDE, SIDE), jnp.bfloat16)
b = jax.random.normal(keys[1], (4 * SIDE, BN), jnp.bfloat16)
print("rows   ", rows)
print("columns", cols)
print(verdict_on(sparse_times_dense, plain, values, rows, cols, b))

# %% [markdown]
# The first `pl.when` looks back, because a sum starts where the row differs from the one before. The second looks
# ahead, because the sum must be stored in the last step of its row, before the block is written back. Rows without
# blocks keep their zeros.
#
# ## An eighth of the work
#
# Now take the full size, 32 of 256 blocks, times a b of 2048 x 2048 in bfloat16. The rival is the dense matmul of that
# size, which multiplies all 256 blocks. We time the kernel alone, and together with the zeros that XLA fills in before
# it. **Guess** how many times faster the kernel is on a v5e, predicted (compiler).

# %% tags=["predict"]
rows, cols = drawn(16, 32)
values = jax.ShapeDtypeStruct((32, SIDE, SIDE), jnp.bfloat16)
b = jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16)

dense = compiler.compile_tpu(jnp.matmul, b, b)
kernel = functools.partial(sparse_times_dense, zeros=False)
sparse = compiler.compile_tpu(kernel, values, rows, cols, b)
filled = compiler.compile_tpu(sparse_times_dense, values, rows, cols, b)
for name, report in [
    ("dense, by XLA", dense),
    ("an eighth of the blocks", sparse),
    ("the same over zeros", filled),
]:
    print(
        f"{name:24} {report.seconds * 1e6:5.1f} us, {report.hbm_bytes / 1e6:.0f} MB of HBM"
    )

# %% [markdown]
# With an eighth of the work, the kernel alone takes nine tenths of the time. Together with the zeros it saves next to
# nothing, because filling them in takes time, too. (At the same time XLA copies b into VMEM, which the report counts as
# free, so even that saving is doubtful.) Where does the time go? There are three suspects:
#
# - **Bandwidth.** The bytes have to move, whatever the kernel does with them.
# - **Copies of b.** The dense kernel reads each block of b for many rows at once. The sparse kernel fetches a block of
#   b for every stored block, and has to wait for it.
# - **Small steps.** A step multiplies one block of 128 x 128 by 512 columns. That may be too little to hide what a step
#   costs.
#
# To check the first suspect, divide the bytes by the bandwidth. For the second, we take copies away with index maps
# that stay at block 0, first for b, then for the stored blocks, then for both. The results are wrong, but here only the
# times matter. **Guess** them.

# %% tags=["predict"]
v5e = chips.chip("v5e")
print(f"{'bytes over bandwidth:':33} {sparse.hbm_bytes / v5e.hbm_bandwidth * 1e6:5.1f} us")
for still in ("", "b", "values", "b and values"):
    fn = functools.partial(sparse_times_dense, zeros=False, still=still)
    report = compiler.compile_tpu(fn, values, rows, cols, b)
    what = f"without copies of {still}:" if still else "all copies:"
    waits = report.time_split["DMA wait"] / v5e.clock_hz * 1e6
    print(
        f"{what:33} {report.seconds * 1e6:5.1f} us, {waits:4.1f} of them waiting for copies"
    )
waits = sparse.time_split["DMA wait"] / sparse.steps
product = SIDE * SIDE * BN / (4 * 128 * 128)  # multiply-adds of four MXUs in a cycle
print(
    f"a step: {sparse.cycles / sparse.steps:.0f} cycles, {waits:.0f} of them waiting for "
    f"copies; its product takes {product:.0f}"
)

# %% [markdown]
# Bandwidth explains less than half of the time. Taking away one kind of copy changes little, because each step still
# waits for the other kind; without both, most of the wait is gone. So b in particular is not to blame. **Almost half of
# the time, a step waits for the short copies that the previous step requested. The rest is the step itself, which takes
# four times as long as its matmul needs, because of the accumulator, scalar code and the latency of the MXU.** The
# simulator probably assumes too long a latency for short copies ([compiler.md](../docs/compiler.md)), so on a chip the
# wait may be shorter.
#
# Both parts shrink if a step does more, so the cure is fewer and larger steps. In the next kernel a whole panel of b,
# all rows of 512 columns, comes into VMEM as one block and stays until j changes, and the kernel picks the 128 rows it
# needs with `pl.ds`. A panel of the result stays in VMEM too, so the order of the list no longer matters, and empty
# rows are zeroed in the first step. A step can also take several stored blocks. **Guess** what happens to the time with
# 1, 2, 4 and 8 blocks a step.


# %%
def panels_kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref, acc_ref, *, per_step):
    t = pl.program_id(1)

    @pl.when(t == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    for n in range(per_step):
        row = pl.multiple_of(rows_ref[t * per_step + n] * SIDE, SIDE)
        col = pl.multiple_of(cols_ref[t * per_step + n] * SIDE, SIDE)
        acc_ref[pl.ds(row, SIDE)] += jnp.dot(
            a_ref[n], b_ref[pl.ds(col, SIDE)], preferred_element_type=jnp.float32
        )

    @pl.when(t == pl.num_programs(1) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def in_panels(values, rows, cols, b, per_step=1, bn=BN):
    """The same product; ``per_step`` divides the number of blocks."""
    k, n = b.shape
    panel = pl.BlockSpec((k, bn), lambda j, t, *_: (0, j))
    blocks = pl.BlockSpec((per_step, SIDE, SIDE), lambda j, t, *_: (t, 0, 0))
    return pl.pallas_call(
        functools.partial(panels_kernel, per_step=per_step),
        out_shape=jax.ShapeDtypeStruct((k, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(n // bn, len(rows) // per_step),
            in_specs=[blocks, panel],
            out_specs=panel,
            scratch_shapes=[pltpu.VMEM((k, bn), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=32 << 20),
    )(rows, cols, values, b)


# %% tags=["predict"]
taken = {}
for per_step in (1, 2, 4, 8):
    fn = functools.partial(in_panels, per_step=per_step)
    taken[per_step] = compiler.compile_tpu(fn, values, rows, cols, b)
    print(
        f"{per_step} a step: {taken[per_step].seconds * 1e6:5.1f} us, "
        f"{taken[per_step].hbm_bytes / 1e6:.0f} MB"
    )

# %% [markdown]
# With one block a step, having b in VMEM does not help, because the step still waits for its block of A. With more
# blocks the time falls. The report says how much of the time that is left is waiting for copies.

# %%
for per_step, report in taken.items():
    waits = report.time_split["DMA wait"]
    print(
        f"{per_step} a step: {report.steps:3} steps of {report.cycles / report.steps:5,.0f} cycles, "
        f"{waits:6,.0f} of {report.cycles:7,.0f} cycles waiting"
    )

# %% [markdown]
# With one block, a step takes about a thousand cycles, and waits for more than half of them. How long would its work and
# its bytes take without any waiting?

# %%
per_cycle = v5e.hbm_bandwidth / v5e.clock_hz
print(f"product of one block:  {product:6.0f} cycles in the MXU")
print(f"copy of one block:     {2 * SIDE * SIDE / per_cycle:6.0f} cycles at full bandwidth")
print(f"copy of one panel:     {2 * 2048 * BN / per_cycle:6.0f} cycles at full bandwidth")

# %% [markdown]
# The first two times are too short to explain why a step with one block waits. What is left is latency: even a short
# copy takes a fixed time from start to end, and each step waits for the copy that the previous step started. With eight
# blocks a step, part of the wait is for panels. An index map requests a panel one step before it is needed, and a step
# is shorter than the copy of a panel, even at full bandwidth. (The library's kernel, under *Further*, requests panels
# earlier.)
#
# ## At what density does the dense matmul win?
#
# The dense matmul takes the same time however many blocks are stored, while a sparse kernel takes time for each of
# them. Where the two lines cross, sparsity stops paying.
#
# > **density**: the share of a matrix's blocks that are stored.
# >
# > **break-even**: the density at which the sparse kernel takes as long as the dense one.
#
# On paper two things limit the second kernel: the MXU, whose time is proportional to the density, and HBM, which
# carries b, the result and the stored blocks. **Predict by roofline**, as if copies and matmuls overlapped perfectly:
# at which density does the sparse matmul take as long as the dense one, which the MXU limits?


# %% tags=["predict"]
def roof(density):
    """The least time of the sparse product by roofline, in seconds."""
    flops = density * 2 * 2048**3
    moved = 2 * (2048 * 2048 * (2 + density))  # b and the result, and the stored blocks
    return max(flops / v5e.bf16_flops, moved / v5e.hbm_bandwidth)


for density in (0, 1 / 8, 1 / 2, 1):
    print(f"{density:5.1%} of the blocks: at least {roof(density) * 1e6:4.1f} us")
print(f"dense: at least {2 * 2048**3 / v5e.bf16_flops * 1e6:.1f} us")

# %% [markdown]
# By roofline the sparse matmul is never slower than the dense one. Half of the blocks take half of the time, and below
# a density of about 27 % the MXU no longer matters, because moving b, the result and the stored blocks takes longer.
# Now turn the dial, which shows the compiler's figures for both kernels. **Look for** the density at which each of them
# crosses the line of the dense matmul.

# %%
curves = {"one block a step": [], "eight blocks a step": []}
for density in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4):
    count = int(density * 256)
    stored = jax.ShapeDtypeStruct((count, SIDE, SIDE), jnp.bfloat16), *drawn(16, count), b
    for name, fn, steps in [
        ("one block a step", kernel, 4 * count),
        ("eight blocks a step", functools.partial(in_panels, per_step=8), 4 * count // 8),
    ]:
        report = compiler.compile_tpu(fn, *stored)
        curves[name].append(viz.Sparse(density, steps, report))
viz.density_dial(curves, dense)


# %% [markdown]
# The kernels do not keep the roofline's promise, because neither of them reaches the roof. One block a step breaks even
# at a density of 14 %, even if the time for the zeros is left out, and eight blocks a step at 59 %, both predicted
# (compiler). So before you ask whether a matrix is sparse enough, ask how much of the roof your kernel reaches. Larger
# blocks help too: JAX's own guide, which stores blocks of 512 x 512 at a density of 10 %, measured 8.1 ms against 47.0
# ms for the dense matmul on a v5e ("Scalar Prefetch and Block-Sparse Computation").
#
# ## As many steps as there are entries
#
# So far the length of the list was part of the program, so JAX compiles again for a list of another length. But how
# many blocks are stored may itself be data, for example when a router decides at run time which experts get work. There
# are two options.
#
# - **A dynamic grid.** `grid=(count,)` may contain a number that the program has just computed. The arrays keep a
#   fixed length, and the steps beyond `count` do not run.
# - **A grid for the worst case.** The steps beyond `count` run but do nothing, because `pl.when(t < count)` skips the
#   work. If all index maps repeat their last block in these steps, the copies are skipped, too.
#
# Both compile once, and the dynamic grid also saves the empty steps. The next cell uses one for our gather.
# **Predict:** what do the last blocks of the result hold, for which no step runs?


# %% tags=["predict"]
@jax.jit
def gather_some(table, wanted, count):
    return pl.pallas_call(
        gather_kernel,
        out_shape=jax.ShapeDtypeStruct((8 * len(wanted), 256), table.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(count,),
            in_specs=[pl.BlockSpec((8, 256), lambda t, wanted_ref: (wanted_ref[t], 0))],
            out_specs=pl.BlockSpec((8, 256), lambda t, wanted_ref: (t, 0)),
        ),
    )(wanted, table)


wanted = jnp.array([5, 2, 7, 2, 0, 0, 0, 0], jnp.int32)
for count in (4, 6):
    found = gather_some(table, wanted, jnp.int32(count)).reshape(8, -1)
    right = gathered(table, wanted).reshape(8, -1)
    print(
        f"count {count}: blocks that are right:",
        np.flatnonzero((found == right).all(axis=1)),
    )

# %% [markdown]
# With a dynamic grid nothing writes the blocks beyond `count`, so they hold whatever was in that memory. If something
# reads them after the kernel, let the output begin as zeros. In a grid for the worst case that does not help, because
# the output block of each step is written back, even if the body wrote nothing to it. There, the output's index map
# must stay at its last block, or the empty steps must write zeros.
#
# ## The guess
#
# `wanted` has to be in SMEM because the scalar unit reads it, and it has to be there before the first step because that
# unit looks one step ahead to start the next copy. With such a list, data decides which block comes, where a result
# goes, how many steps there are, and which of them copy anything. A step that has too little work to hide its copies
# waits for them, and every step costs hundreds of cycles besides. That is why a kernel with an eighth of the work can
# take nearly as long as one with all of it.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel has two prefetched lists, one input and one output. In which order does its body get the
# four refs, and what are the arguments of its index maps, on a grid with two axes?</summary> The body gets both lists,
# then the input, then the output. The index maps get the two grid indices, then both lists.</details>
#
# <details><summary>2. The map of an input is <code>lambda t, list_ref: (list_ref[t], 0)</code>, and the list is 4, 4, 0, 0,
# 4. How many blocks are copied?</summary> Three: 4, 0 and 4 again. Between the last two entries the index
# changes.</details>
#
# <details><summary>3. The same map and list belong to an output that the body adds to. What happens?</summary> When the
# kernel comes back to block 4, its old sum may be lost, and what was written back before is overwritten. Equal entries
# must be neighbors, and sorting the list makes them so.</details>
#
# <details><summary>4. Why does <code>input_output_aliases</code> with an array of zeros make empty rows right, and what
# does it cost?</summary> The output then shares the memory of the zeros, and a block that no step writes keeps them.
# Somebody has to write the zeros first.</details>
#
# <details><summary>5. Your kernel multiplies 5 % of the blocks and takes half the time of the dense matmul. Where do
# you look first?</summary> Look at a step in the compiler's report: does it wait for copies, and how much work does it
# have? Several blocks a step, or larger ones, help with both.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 12](../exercises/12_scalar_prefetch.ipynb). In one of them you look for the mistake in a
# kernel from JAX's own documentation.
#
# ## Further
#
# Exercise 12.10 builds on the first section. No exercise needs the others.
#
# ### Only some blocks of a dense product
#
# The mirror problem has dense inputs and a sparse output: a and b are multiplied, and only some blocks of the result
# are wanted, such as the scores of an attention with a sparse mask. Now the output is the list of blocks, and step t
# multiplies the rows of a that `rows_ref[t]` names by the columns of b that `cols_ref[t]` names.


# %%
def sampled_kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref):
    product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = product.astype(o_ref.dtype)


def sampled(a, b, rows, cols):
    """The blocks (rows[t], cols[t]) of a @ b, as an array [T, SIDE, SIDE]."""
    k = a.shape[1]
    return pl.pallas_call(
        sampled_kernel,
        out_shape=jax.ShapeDtypeStruct((len(rows), SIDE, SIDE), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(len(rows),),
            in_specs=[
                pl.BlockSpec((SIDE, k), lambda t, rows_ref, cols_ref: (rows_ref[t], 0)),
                pl.BlockSpec((k, SIDE), lambda t, rows_ref, cols_ref: (0, cols_ref[t])),
            ],
            out_specs=pl.BlockSpec((None, SIDE, SIDE), lambda t, *_: (t, 0, 0)),
        ),
    )(rows, cols, a, b)


# %% [markdown]
# Here every step writes a block of its own, so the result is right for every order of the list. **Predict:** does the
# order matter at all? The next cell counts the bytes for two orders of the same 32 blocks.

# %% tags=["predict"]
a = jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16)
mixed = np.random.default_rng(1).permutation(32)
rows, cols = drawn(16, 32)
for name, order in [("sorted by row", slice(None)), ("mixed", mixed)]:
    moved = cost.hbm_bytes(grid.walk(sampled, a, b, rows[order], cols[order]))
    print(f"{name:14} {moved / 1e6:.1f} MB")

# %% [markdown]
# For an output that is added to, the order decides whether the kernel is right. For inputs, it decides how much the
# kernel reads: a panel of a stays in VMEM as long as the row stays the same. Exercise 12.10 asks how little is possible.
#
# ### How much fits into SMEM
#
# The lists are copied to SMEM as a whole, and SMEM is small. **Predict** which of these shapes, each of 6000 elements,
# the compiler accepts: (6000,), (2, 3000) or (3000, 2).


# %% tags=["predict"]
def first_of(table, pairs):
    """A gather whose list has one axis or two."""
    index = (
        (lambda t, ref: (ref[t], 0)) if pairs.ndim == 1 else (lambda t, ref: (ref[0, t], 0))
    )
    return pl.pallas_call(
        gather_kernel,
        out_shape=jax.ShapeDtypeStruct((16, 256), table.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[pl.BlockSpec((8, 256), index)],
            out_specs=pl.BlockSpec((8, 256), lambda t, ref: (t, 0)),
        ),
    )(pairs, table)


for shape in ((6000,), (2, 3000), (3000, 2)):
    pairs = jax.ShapeDtypeStruct(shape, jnp.int32)
    report = compiler.compile_tpu(first_of, table, pairs, simulate=False)
    print(f"{shape!s:10}", "accepted" if report.ok else report.error)

# %% [markdown]
# In SMEM, too, the last axis is padded to 128 elements, so a list of pairs belongs in an array of two rows, or in two
# lists.
#
# ### What the figures of this lesson rest on
#
# libtpu's simulator reads every entry of a prefetched list as 0. In our kernels it would see a block that never
# changes, and would count far too few copies. Since the lists are known here, the library adds the right value to each
# such load, and checks over the whole grid that the kernel then visits the same blocks as with the real list. The added
# instructions, some 5 to 50 for each look-up ([compiler.md](../docs/compiler.md)), are counted with the kernel's own.
# If a list decides which block comes and its values are not known, the report has no cycles:

# %%
unknown = jax.ShapeDtypeStruct((32,), jnp.int32)
report = compiler.compile_tpu(
    sparse_times_dense,
    jax.ShapeDtypeStruct((32, SIDE, SIDE), jnp.bfloat16),
    unknown,
    unknown,
    b,
)
print(report)

# %% [markdown]
# ### The library's kernel
#
# `block_sparse.dsd`, in `course_lib.kernels`, has a gradient, and takes blocks in any order. It keeps panels of b and
# of the result in VMEM as `in_panels` does, but copies them by hand, and requests the next panel of b before it
# multiplies the current one. **Guess** how much of the wait that saves.


# %% tags=["predict"]
def with_dsd(values, rows, cols, b):
    return block_sparse.dsd(values, block_sparse.Pattern(rows, cols, (16, 16)), b)


library = compiler.compile_tpu(with_dsd, values, rows, cols, b)
for name, report in (("in_panels, eight a step", taken[8]), ("block_sparse.dsd", library)):
    print(
        f"{name:24} {report.hbm_bytes / 1e6:.0f} MB, {report.cycles:6,.0f} cycles, "
        f"{report.time_split['DMA wait']:6,.0f} of them waiting"
    )

# %% [markdown]
# <!-- next -->
