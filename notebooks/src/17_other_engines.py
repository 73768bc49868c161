# %% [markdown]
# # Lesson 17: Other engines
#
# *60 minutes, then 60 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 5 for copies and their semaphores, lesson 8 for values that pass from step to step, and lesson 10 for
# `jax.custom_vjp`. You need neither a TPU nor a GPU. `make setup-gpu` adds the compiler for GPUs; without it, the cells
# that use it say so and go on.*
#
# Every kernel so far was for the TensorCore of a TPU. Pallas has other engines, which are kinds of cores with a
# compiler that takes Pallas to them: two for NVIDIA GPUs, and one for the SparseCores that some TPUs have. The kernel
# below is a softmax of rows with a body of three lines. We compile it twice, unchanged: for a TPU v5e, and for an A100,
# which is a GPU. The cell after it looks for the first instruction of five kinds in each of the two programs. Run both
# cells.

# %%
# FIRST CELL

# %% tags=["folded"]
import copy
import difflib
import functools
import inspect
import re
import textwrap
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from course_lib import chips, compiler, datasets, judges, viz


def for_gpu(fn, *args, chip):
    """Return what the GPU's compiler makes of a kernel; None, and a line, if it is not installed."""
    try:
        return compiler.compile_gpu(fn, *args, chip=chip).kernels[0]
    except compiler.Unavailable as error:
        print(textwrap.fill(f"{chip}: {error}", 94))


def ask(verdicts):
    """Print the verdicts of judges."""
    for verdict in verdicts:
        print(verdict)


# %%
def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    p = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    o_ref[...] = p / jnp.sum(p, axis=1, keepdims=True)


def softmax(x):
    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        softmax_kernel,
        out_shape=x,
        grid=(x.shape[0] // 8,),
        in_specs=[block],
        out_specs=block,
    )(x)


# %%
scores = jax.ShapeDtypeStruct((4096, 256), jnp.float32)
code = compiler.bundles(softmax, scores)
of_v5e = [i for bundle in code.bundles for i in bundle.instructions]
on_a100 = for_gpu(softmax, scores, chip="a100")
of_a100 = [line.strip() for line in on_a100.ptx.splitlines()] if on_a100 else []
for source, *words in (
    ("x_ref[...]", "= vld", "ld.global"),
    ("jnp.max", "vmax.xlane", "shfl.sync"),
    ("jnp.exp", "1.442695", "0f3FB8AA3B"),  # log2(e), in decimal and in hexadecimal
    ("jnp.exp", "vpow2", "ex2.approx"),
    ("o_ref[...] =", "= vst", "st.global"),
):
    for chip, program, word in zip(("v5e", "A100"), (of_v5e, of_a100), words, strict=True):
        found = next((line for line in program if word in line), "-").replace("\t", "")
        print(f"{source:12}  {chip:4}  {found[:66]}")

# %% [markdown]
# Neither machine has an instruction for exp: both multiply by log2(e) and raise 2 to that power. A maximum along a row
# crosses the lanes of a register on the TPU (`vmax.xlane`), and 32 threads at once on the GPU (`shfl.sync`). So one
# body serves two machines. The lines of the A100 are PTX:
#
# > **PTX**: the assembly language of NVIDIA's GPUs, the same for all of them.
# >
# > **ptxas**: NVIDIA's compiler from PTX to the instructions of one GPU.
#
# Two compilers that produce PTX stand behind Pallas on a GPU:
#
# > **Triton**: the compiler that takes a `pl.pallas_call` to an NVIDIA GPU. JAX has deprecated it as a back end of Pallas.
# >
# > **Mosaic GPU**: the newer back end of Pallas for NVIDIA GPUs, above all for Hoppers such as the H100. Its kernels are
# > called with `plgpu.kernel`.
#
# Mosaic GPU does not accept the softmax above. **Write down a guess:** which of its lines would a kernel keep in which
# you make every copy, and every wait for a copy, yourself? The section on Hopper compares the two line by line.
#
# The kernels in this lesson have not run on a chip; those of the library have run on an H100
# ([results](../docs/results.md#measured-on-gpus)). NVIDIA's compiler counts registers and bytes, but no cycles, and the
# TPU's simulator does not run SparseCores. So every time in this lesson is *measured*, and quoted with its source, or it
# is a bound, from bytes or FLOPs.
#
# After this lesson you can
# - say what a grid step is on a TPU and on a GPU, and what may pass from one to the next,
# - write a kernel for a Hopper that makes its own copies, and find the wait that it lacks,
# - write a gather and a scatter-add for SparseCores, and say by bytes when they cannot pay,
# - call your kernel from PyTorch, with its gradient,
# - say which of these engines is current, and which are on their way out.
#
# ## One body, two machines
#
# What is a step of the grid on a GPU? A GPU has many small cores instead of one large one.
#
# > **SM**: a core of a GPU, a *streaming multiprocessor*. It has registers, a small memory, and matrix units, which
# > NVIDIA calls Tensor Cores. (On a TPU, the TensorCore is the whole core.)
# >
# > **thread block**: what a GPU makes of one step of the grid: a group of threads that run on one SM. Several blocks
# > share an SM if their registers and memory fit.
# >
# > **shared memory**: the small memory of an SM, of which each thread block gets a part. GPU texts call it SMEM, which
# > on a TPU is something else (lesson 2).
#
# The next cell prints some sizes of four GPUs, from NVIDIA's documents. The *compute capability* is NVIDIA's number for
# what a generation can do: Ampere begins at 8.0.

# %%
print("            capability   SMs   threads of an SM   shared memory of a block")
for name in ("a100", "l4", "h100", "b200"):
    gpu = chips.gpu_target(name)
    capability = ".".join(map(str, gpu.capability))
    kib = gpu.shared_bytes // 1024
    print(f"{name:12}{capability:>10}{gpu.sms:6}{gpu.sm_threads:19,}{kib:22} KiB")
if on_a100:
    print(f"\nsoftmax: {on_a100.grid[0]} blocks of {on_a100.threads} threads", end=", ")
    print(f"{on_a100.blocks_on('a100')} of them at once on an SM")

# %% [markdown]
# On a TPU, the 512 steps run one after another, and the pipeline copies the next block while a step computes. On the
# A100, they become 512 thread blocks, which run at the same time as far as there is room, in no order. Nothing copies
# the next block in advance. A BlockSpec only says where `x_ref` points, and `x_ref[...]` loads from GPU memory. While
# one thread block waits for its loads, another one on the same SM can compute.
#
# So what may pass from one step to the next? The kernel below sums the columns of x in an output block that stays, as
# in lesson 4. **Predict** what the TPU's judges say to it, and what the judges for a GPU say.


# %% tags=["predict"]
def column_sums(x):
    def add_kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def clear():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.sum(x_ref[...], axis=0, keepdims=True)

    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0)),
    )(x)


def summed(x):
    return x.sum(axis=0, keepdims=True)


rows = jax.random.normal(jax.random.key(0), (64, 256))
print("for a TPU")
ask(judges.judge(column_sums, summed, rows))
print("\nfor a GPU")
ask(judges.judge_gpu(column_sums, summed, rows, chip="a100"))

# %% [markdown]
# The numbers judge runs the steps one after another, so it finds the values right. On a GPU all steps would read and
# write the same sums at once. The remedy is to move the reduction from the grid into a loop in the body, so that
# one thread block computes a whole sum, in its registers. The grid then has only steps that are independent.


# %%
def looped_sums(x):
    def add_kernel(x_ref, o_ref):
        def add(k, total):
            part = x_ref[pl.ds(pl.multiple_of(k * 8, 8), 8)]
            return total + jnp.sum(part, axis=0, keepdims=True)

        o_ref[...] = lax.fori_loop(0, len(x) // 8, add, jnp.zeros((1, 128), x.dtype))

    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype),
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec((len(x), 128), lambda j: (0, j))],
        out_specs=pl.BlockSpec((1, 128), lambda j: (0, j)),
    )(x)


for verdicts in (
    judges.judge(looped_sums, summed, rows),
    judges.judge_gpu(looped_sums, summed, rows, chip="a100"),
):
    print(*(f"{v.judge} {v.passed}" for v in verdicts), sep=", ")

# %% [markdown]
# This kernel is right on both machines, but it has a price on the TPU: its blocks are 128 whole columns of x, so two
# such blocks must fit into VMEM. On the GPU, the loop loads eight rows at a time, so x may have any multiple of eight.
# There, the price is another one: this grid has two thread blocks, so 106 of the A100's 108 SMs have nothing to do.
#
# A second difference is the edge of an array. **Predict** what the judges for a GPU say to blocks of 256 of a vector of
# 1,000 elements, and to a softmax of rows of 1,000 elements. Both kernels are right on a TPU.


# %% tags=["predict"]
def doubled(x):
    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    block = pl.BlockSpec((256,), lambda i: (i,))
    return pl.pallas_call(
        double_kernel, out_shape=x, grid=(4,), in_specs=[block], out_specs=block
    )(x)


ask(judges.judge_gpu(doubled, lambda x: 2 * x, jnp.arange(1000.0), chip="a100"))
wide = jax.random.normal(jax.random.key(0), (16, 1000))
ask(judges.judge_gpu(softmax, jax.nn.softmax, wide, chip="a100")[-1:])

# %% [markdown]
# The first kernel would read what lies behind x in the GPU's memory, and overwrite what lies behind the result. The
# second does not compile, because Triton takes only values whose number of elements is a power of two. So three things
# differ between a body for a TPU and one for Triton:
#
# | | on a TPU | on a GPU, by Triton |
# |---|---|---|
# | from step to step | output blocks and scratch stay | nothing stays, and there is no scratch |
# | past the edge of an array | reads garbage, and drops what is written | reads what lies there, and overwrites what lies behind the result, so loads and stores need a mask |
# | sizes | blocks of (8, 128), or whole axes | a power of two of elements in every value |
#
# The library's ops share a body between both machines where they can, and mask its loads on a GPU
# ([GPUs](../docs/gpu.md)).
#
# ## Hopper: who copies, who waits
#
# > **TMA**: the unit of a Hopper GPU that copies between GPU memory and shared memory while the threads go on, as a DMA
# > does on a TPU. (The letters stand for tensor memory accelerator.)
# >
# > **warpgroup**: 128 threads of a block, which in Mosaic GPU run one program together, as if they were one thread.
#
# > **barrier**: a counter in shared memory for which the threads of a block can wait. A TMA copy into shared memory
# > signals the barrier it was given when it has arrived.
#
# > **wgmma**: the instruction with which a warpgroup starts a matmul of two blocks in shared memory. The accumulator is
# > in the registers of its threads.
#
# With Mosaic GPU you write for one thread block and see its hardware. **Look for** the units that go on beside the
# threads: for each of them there is a call that waits.

# %%
viz.sm_picture()

# %% [markdown]
# `plgpu.kernel` takes no BlockSpecs: refs of the arguments stay in GPU memory, and the kernel starts each copy itself
# and waits for it. (There is a pipeline for those who ask for it, `plgpu.emit_pipeline`.) The axes of the grid have
# names, and `lax.axis_index` returns a block's index along one of them. Here is the softmax, with one row for each
# thread block. (By default, a copy into shared memory has at most 256 elements along an axis, so a row here has 256.)


# %%
def softmax_hopper(x):
    rows, columns = x.shape

    def kernel(x_gmem, o_gmem, x_smem, o_smem, arrived):
        row = lax.axis_index("row")
        plgpu.copy_gmem_to_smem(x_gmem.at[row], x_smem, arrived)
        plgpu.barrier_wait(arrived)  # until TMA has written x_smem
        x = x_smem[...]
        p = jnp.exp(x - jnp.max(x))
        o_smem[...] = p / jnp.sum(p)
        plgpu.commit_smem()  # lets TMA see what the threads have written
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[row])
        plgpu.wait_smem_to_gmem(0)  # until TMA has stored o_smem

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(rows,),
        grid_names=("row",),
        scratch_types=[
            plgpu.SMEM((columns,), x.dtype),
            plgpu.SMEM((columns,), x.dtype),
            plgpu.Barrier(),
        ],
    )(x)


def plain_softmax(x):
    return jax.nn.softmax(x, axis=1)


few = jax.random.normal(jax.random.key(0), (4, 256))
ask(judges.judge_gpu(softmax_hopper, plain_softmax, few, chip="h100"))
if on_h100 := for_gpu(softmax_hopper, few, chip="h100"):
    print(f"{on_h100.registers} registers, {on_h100.spill_stores} bytes spilled", end=", ")
    print(f"{on_h100.shared_bytes:,} bytes of shared memory, {on_h100.instructions}")

# %% [markdown]
# (Of the shared memory, 2,048 bytes are for the two rows and 2,048 for Mosaic GPU's reductions.)
#
# The barrier of a copy *in* is like the semaphore of a copy on a TPU. A copy *out* has none: `wait_smem_to_gmem(n)`
# waits until at most n of them are under way. `commit_smem()` has no counterpart on a TPU.
#
# JAX's GPU simulator also records which accesses to memory are ordered. **Predict** for each of the three lines with a
# comment: are the values right in the simulator if the line is missing, and which judge refuses the kernel? The folded
# cell has the same kernel, with a switch that leaves one of the lines out.


# %% tags=["folded", "predict"]
def softmax_without(x, line):
    rows, columns = x.shape

    def kernel(x_gmem, o_gmem, x_smem, o_smem, arrived):
        row = lax.axis_index("row")
        plgpu.copy_gmem_to_smem(x_gmem.at[row], x_smem, arrived)
        if line != "barrier_wait":
            plgpu.barrier_wait(arrived)
        x = x_smem[...]
        p = jnp.exp(x - jnp.max(x))
        o_smem[...] = p / jnp.sum(p)
        if line != "commit_smem":
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[row])
        if line != "wait_smem_to_gmem":
            plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(rows,),
        grid_names=("row",),
        scratch_types=[
            plgpu.SMEM((columns,), x.dtype),
            plgpu.SMEM((columns,), x.dtype),
            plgpu.Barrier(),
        ],
    )(x)


for line in ("barrier_wait", "commit_smem", "wait_smem_to_gmem"):
    print(f"without {line}")
    fn = functools.partial(softmax_without, line=line)
    ask(judges.judge_gpu(fn, plain_softmax, few, chip="h100"))
    print()

# %% [markdown]
# The simulator runs each copy at once, so without any of the three lines its values would be right. A GPU does not, and
# the races judge refuses the first two kernels. In the third, a block would end while TMA still reads its shared
# memory, which then belongs to the next block. Here the simulator itself stops, because a copy out is still under way
# when the kernel ends, and the numbers judge reports that.
#
# **Which lines have changed, then?** The next cell compares the two bodies, without the comments: lines with a minus
# are only in the TPU's kernel, and lines with a plus only in the one for a Hopper.


# %%
def body(fn, first, last):
    """Return the lines of a function's source from one that contains ``first`` to one that contains ``last``."""
    lines = [line.split("  #")[0].strip() for line in inspect.getsource(fn).splitlines()]
    begin = next(n for n, line in enumerate(lines) if first in line)
    return lines[begin : next(n for n, line in enumerate(lines) if last in line) + 1]


ours = body(softmax_hopper, "row =", "wait_smem")
changed = difflib.ndiff(body(softmax_kernel, "x =", "o_ref[...]"), ours)
print(*(line for line in changed if line[0] != "?"), sep="\n")

# %% [markdown]
# The arithmetic stays, except that the kernel sees a row as a vector, so `axis=` goes. What the BlockSpecs did is now
# written out: which row, the copy in, the copy out, and who waits for whom. This is the answer to the opening question.
# On a TPU the pipeline copies and waits, by Triton the compiler arranges the loads, and with Mosaic GPU you do both. In
# return you decide how many copies are under way, and which threads start them.
#
# The Tensor Cores of a Hopper run beside the threads, too. The next kernel multiplies one tile with wgmma. Its barrier
# expects two arrivals, one for each copy, and `plgpu.ACC` is an accumulator in registers. Reading it waits for the
# matmul.


# %%
def multiplied(x, w):
    (m, k), n = x.shape, w.shape[1]

    def kernel(x_gmem, w_gmem, o_gmem, x_smem, w_smem, o_smem, arrived):
        plgpu.copy_gmem_to_smem(x_gmem, x_smem, arrived)
        plgpu.copy_gmem_to_smem(w_gmem, w_smem, arrived)
        plgpu.barrier_wait(arrived)

        def multiply(acc_ref):
            plgpu.wgmma(acc_ref, x_smem, w_smem)
            return acc_ref[...]

        o = pl.run_scoped(multiply, plgpu.ACC((m, n), jnp.float32))
        o_smem[...] = o.astype(o_smem.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_types=[
            plgpu.SMEM((m, k), x.dtype),
            plgpu.SMEM((k, n), w.dtype),
            plgpu.SMEM((m, n), x.dtype),
            plgpu.Barrier(num_arrivals=2),
        ],
    )(x, w)


def plain_matmul(x, w):
    return jnp.dot(x, w, preferred_element_type=jnp.float32).astype(x.dtype)


keys = jax.random.split(jax.random.key(0))
x = jax.random.normal(keys[0], (64, 64), jnp.bfloat16)
w = jax.random.normal(keys[1], (64, 128), jnp.bfloat16)
ask(judges.judge_gpu(multiplied, plain_matmul, x, w, chip="h100"))

# %% [markdown]
# The accumulator limits a tile: its 64 x 128 values take 64 registers in each of 128 threads, and a thread has 255 at
# most. *Further* shows what ptxas does with a tile that needs more, and how the library's matmul divides one.
#
# The simulator runs wgmma at once, so it cannot see a buffer that is overwritten while wgmma still reads it.
# Layouts of shared memory are not simulated either ([what the judges cannot see](../docs/gpu.md#judges)).
#
# The widget shows the library's matmul on three machines, aspect by aspect, with the lines of each kernel and what the
# compilers made of them. Step to *who waits for whom*, and **look for** the kernels in which you find no wait.

# %%
viz.three_engines()

# %% [markdown]
# Neither the kernel for a TPU nor the one by Triton contains a wait. Their compilers put the waits into the programs.
#
# ## SparseCores: rows by index
#
# > **embedding**: a table with one row for each token, item or user, of which a model looks up rows.
# >
# > **gather**: an operation that reads the rows of a table whose indices are in a list.
# >
# > **scatter-add**: an operation that adds each row of an array to the row of a table that an index names.
#
# A lookup multiplies nothing, so we count bytes. The cell below compiles `jnp.take` for the TensorCore
# of a v6e. (`mode="clip"` saves XLA a pass over the result, which would set rows with an index outside the table to
# NaN.) **Predict** how many MB it moves in the second case, where 1,024 rows are taken from a table of 65,536.


# %% tags=["predict"]
def taken(table, indices):
    return jnp.take(table, indices, axis=0, mode="clip")


def shapes(rows, fetched, columns):
    table = jax.ShapeDtypeStruct((rows, columns), jnp.float32)
    return table, jax.ShapeDtypeStruct((fetched,), jnp.int32)


print("   table   fetched   columns   rows in and out   moved by XLA   copies the table")
for case in ((1 << 20, 65536, 128), (65536, 1024, 128), (1 << 20, 65536, 8)):
    report = compiler.compile_tpu(taken, *shapes(*case), chip="v6e", simulate=False)
    rows_mb, moved_mb = 2 * 4 * case[1] * case[2] / 1e6, report.hbm_bytes / 1e6
    copies = "to VMEM" if "copy-start(" in report.hlo else "no"
    print(
        f"{case[0]:8}{case[1]:10}{case[2]:10}{rows_mb:15.1f} MB{moved_mb:12.1f} MB   {copies}"
    )

# %% [markdown]
# In the first case, XLA moves the rows and their indices, and nothing else. In the other two it moves a table of 34 MB
# as a whole. Such a table fits into VMEM, so XLA's program copies it there before it takes rows from it.
#
# > **SparseCore**: a core beside the TensorCore of some TPUs, for rows and elements that an index names. It has no MXU.
# >
# > **vector subcore**: one of the 16 parts of a SparseCore, with a memory of its own. A vector subcore computes with
# > short vectors and starts copies.
#
# > **shared VMEM**: a memory that the subcores of one SparseCore share. Copies with `add=True` add to it, and several
# > subcores may add to the same row at once.
#
# The cell after the picture counts them for each device. (A tpu7x is two devices.) **Look for** what two SparseCores
# share.

# %%
viz.sparse_core_picture()

# %%
for name in ("v5e", "v5p", "v6e", "tpu7x"):
    if cores := chips.sparse_cores(name):
        kib = cores.vmem_bytes // 1024
        print(
            f"{name:6} {cores.cores} SparseCores of {cores.subcores} subcores, {kib} KiB each"
        )
    else:
        print(f"{name:6} no SparseCore")

# %% [markdown]
# `pl.kernel` over a `plsc.VectorSubcoreMesh` runs a function on every subcore of every SparseCore, as `jax.shard_map`
# runs one on every device. `lax.axis_index` tells a subcore its index. Arguments stay in HBM, and `pltpu.VMEM` is the
# subcore's own memory. The second copy below is the gather: if a *ref* is the index, as in `table_hbm.at[indices_ref]`,
# the copy takes the rows whose numbers are in that ref. The kernel is written for the 2 x 16 subcores of a v6e.


# %%
def gathered(table, indices, cores=2, packed=False):
    share = indices.size // (cores * 16)

    def gather_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref):
        me = lax.axis_index("subcore")
        if cores == 2:
            me += 16 * lax.axis_index("core")
        mine = pl.ds(me * share, share)
        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
        pltpu.sync_copy(rows_ref, o_hbm.at[mine])

    return pl.kernel(
        gather_kernel,
        out_type=jax.ShapeDtypeStruct((indices.size, table.shape[1]), table.dtype),
        mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore"),
        scratch_types=[
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share, table.shape[1]), table.dtype),
        ],
        compiler_params=pltpu.CompilerParams(use_tc_tiling_on_sc=not packed),
    )(table, indices)


table = jax.random.normal(jax.random.key(0), (4096, 128))
indices = jax.random.randint(jax.random.key(1), (1024,), 0, 4096)
ask(judges.judge_sparse_core(gathered, taken, table, indices))

# %% [markdown]
# JAX's simulators do not run SparseCores, so the judges evaluate the traced kernel in NumPy, one subcore after another,
# and count its bytes. The *protocol* judge refuses indices outside an array, copies that nobody waits for, and accesses
# that nothing orders. **Predict** what it says if the work is divided among the 16 subcores of a SparseCore, but not
# between the two SparseCores (`cores=1`). Does the kernel compile?

# %% tags=["predict"]
one_share = functools.partial(gathered, cores=1)
ask(judges.judge_sparse_core(one_share, taken, table, indices))
report = compiler.compile_tpu(one_share, table, indices, chip="v6e", simulate=False)
print("\ncompiles:", report.ok)

# %% [markdown]
# Both SparseCores do all of the work, so each row is written twice, with the same values. A comparison with `jnp.take`
# would find nothing wrong, and the compiler accepts the kernel. The judge refuses it because nothing orders the two
# writes.
#
# The compiler lists what a subcore runs, bundle by bundle. **Look for** the copy that takes a list of rows.

# %%
listing = compiler.sparse_core_listing(gathered, table, indices, chip="v6e")
for bundle in listing.find("stream."):
    print(*(i for i in bundle.instructions if "stream." in i), sep="\n")

# %% [markdown]
# Each of our three copies has become one instruction, and one of them, `stream.indirect.gather`, fetches all rows of a
# subcore.
#
# ### Adding rows
#
# The gradient of a gather is a scatter-add: row r of the table's gradient is the sum of the cotangents of all rows that
# were fetched from r. Several subcores may have to add to the same row, and none can reach another's memory, so they
# add in shared VMEM.
#
# In the kernel below, each SparseCore sums its half of the rows. First each subcore sets its stripe of the sum to zero,
# then all of them add, then each copies its stripe to HBM, and XLA adds the sums of the two SparseCores. **Predict**
# what the judge says without the first barrier, and without the second.


# %% tags=["predict"]
def added(rows, indices, count, barriers=(True, True)):
    width, share, stripe = rows.shape[1], len(rows) // 32, count // 16

    def add_kernel(
        rows_hbm, indices_hbm, zeros_hbm, o_hbm, sum_shared, indices_ref, rows_ref
    ):
        core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
        mine = pl.ds((16 * core + subcore) * share, share)
        my_stripe = pl.ds(subcore * stripe, stripe)
        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
        pltpu.sync_copy(rows_hbm.at[mine], rows_ref)
        pltpu.sync_copy(zeros_hbm, sum_shared.at[my_stripe])
        if barriers[0]:
            plsc.subcore_barrier()
        pltpu.sync_copy(rows_ref, sum_shared.at[indices_ref], add=True)
        if barriers[1]:
            plsc.subcore_barrier()
        pltpu.sync_copy(sum_shared.at[my_stripe], o_hbm.at[core, my_stripe])

    sums = pl.kernel(
        add_kernel,
        out_type=jax.ShapeDtypeStruct((2, count, width), rows.dtype),
        mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore"),
        scratch_types=[
            pltpu.VMEM_SHARED((count, width), rows.dtype),
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share, width), rows.dtype),
        ],
    )(rows, indices, jnp.zeros((stripe, width), rows.dtype))
    return sums.sum(axis=0)


def segment_sum(rows, indices):
    return jax.ops.segment_sum(rows, indices, 512)


cotangents = jax.random.normal(jax.random.key(2), (1024, 128))
for barriers in ((True, True), (False, True), (True, False)):
    fn = functools.partial(added, count=512, barriers=barriers)
    print(f"barriers: {barriers}")
    ask(judges.judge_sparse_core(fn, segment_sum, cotangents, indices % 512))

# %% [markdown]
# Without the first barrier, a subcore may add to a stripe that another then sets to zero. Without the second, one may
# copy its stripe while others still add to it. One assumption is left: the list of a single copy may hold an index
# twice, and JAX does not document that both rows are then added. This kernel and the judge assume that they are.
#
# ### When does a kernel pay?
#
# XLA runs some ops on SparseCores unasked, so look at its program before you write a kernel (a cell under *Further*
# does). On a v6e, `jnp.take` stays on the TensorCore. Our kernel moves 4 bytes for each index, and each row of 128
# columns in and out, 512 bytes each way. In the first of the three cases above that is exactly what XLA moves. In the
# second, the kernel moves 1.1 MB, where XLA moves 32 times as much.
#
# What about narrow rows? The next cell compiles the kernel for a table of 16 columns, as it is and with `packed=True`,
# and prints what XLA does around the second.

# %%
narrow = shapes(4096, 1024, 16)
print(compiler.compile_tpu(gathered, *narrow, chip="v6e", simulate=False).error)
packed = functools.partial(gathered, packed=True)
hlo = compiler.compile_tpu(packed, *narrow, chip="v6e", simulate=False).hlo
print("\nthe table, and what XLA does around the packed kernel:")
for line in hlo[hlo.index("ENTRY") :].splitlines():
    if any(f" {op}(" in line for op in ("parameter", "copy", "reshape")):
        print(re.split(r", (?=\w+=)", line.strip())[0])

# %% [markdown]
# XLA keeps a table of few columns column by column, which is the `{0,1}` of its layout. This needs no padding, but no
# row is contiguous, and a copy cannot take one. There are two ways out:
#
# - **Padded**: make the table with 128 columns. Each row then moves 512 bytes in and 512 out, however few you need.
# - **Packed**, with `use_tc_tiling_on_sc=False`: a row moves in whole granules of 32 bytes. But XLA lays out the table
#   again before the kernel, and the result after it, as above. This pays only if the table stays packed from one call
#   to the next, so that only the result has to be laid out.
#
# Exercise 17.3 asks at which width the two break even. Do not forget the TensorCore: in the third case above, XLA moved
# the whole table of 8 columns, 34 MB, and still fewer bytes than padded rows, which are 67 MB.
#
# **What do the bytes not say?** How long a gather takes. One comparison has been *measured* and published, in JAX's
# documentation ("SparseCore Kernel Writing", 2026): 4,194,304 rows of 512 bytes, from a table of 4,096 rows, on a TPU
# 7x. It took 4.05 ms on the SparseCores, and 18.1 ms on the TensorCore.

# %%
tpu7x = chips.chip("tpu7x")
moved = 2 * 512 * 4_194_304
print(f"the rows in and out: {moved / 1e9:.1f} GB")
print(f"at the HBM bandwidth of one device: {moved / tpu7x.program_bandwidth * 1e3:.2f} ms")

# %% [markdown]
# The published kernel ran on one device, and divides its work like ours with `cores=1`, so both SparseCores move all of
# the bytes. Twice the time above is more than half of the 4.05 ms. Bandwidth does not explain the 18.1 ms of the
# TensorCore. (Compiled today for a tpu7x, `jnp.take` runs on SparseCores, so XLA's own program may have changed since.)
# Bytes are a lower bound, and they tell you which of two layouts is better. Only a chip can tell the rest.
#
# ## PyTorch
#
# A model in PyTorch can call the same kernels. `torch.library` registers a Python function as an operator, and
# `operator` in `course_lib.frameworks.torch` registers a JAX function: it hands contiguous tensors to JAX without
# copying them, and its gradient is the function's vjp. Take a layer like that of lesson 10, with a kernel for each
# direction.


# %%
def forward_kernel(x_ref, w_ref, b_ref, y_ref):
    y_ref[...] = jnp.maximum(x_ref[...] @ w_ref[...] + b_ref[...], 0)


def backward_kernel(x_ref, w_ref, y_ref, g_ref, dx_ref, dw_ref, db_ref):
    g = jnp.where(y_ref[...] > 0, g_ref[...], 0)
    dx_ref[...] = g @ w_ref[...].T
    dw_ref[...] = x_ref[...].T @ g
    db_ref[...] = jnp.sum(g, axis=0, keepdims=True)


@jax.custom_vjp
def dense(x, w, b):
    y = jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype)
    return pl.pallas_call(forward_kernel, out_shape=y)(x, w, b.reshape(1, -1))


def dense_forward(x, w, b):
    y = dense(x, w, b)
    return y, (x, w, b, y)


def dense_backward(saved, g):
    x, w, b, y = saved
    like = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, w, b.reshape(1, -1))]
    dx, dw, db = pl.pallas_call(backward_kernel, out_shape=like)(x, w, y, g)
    return dx, dw, db.reshape(-1)


dense.defvjp(dense_forward, dense_backward)

# %% [markdown]
# The next cell trains a small network with this layer, and then with PyTorch's own ReLU layer in its place. It also
# compiles the operator for a v5e, forward and backward. PyTorch takes 5 GB, and the course does not install it. Where it
# is missing, the cell shows a run that was recorded with the same code.


# %%
def trained():
    """Train with our layer and with PyTorch's: the losses of each, and the kernels in the v5e's programs."""
    import torch

    from course_lib.frameworks.torch import operator, proof

    torch.manual_seed(0)
    x, w, b = torch.randn(64, 50), torch.randn(50, 96) / 7, torch.zeros(96)
    head = torch.nn.Linear(96, 1)
    ours = operator("lesson17::dense", dense, mode="interpreted")

    class Layer(torch.nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn
            self.w = torch.nn.Parameter(w.clone())
            self.b = torch.nn.Parameter(b.clone())

        def forward(self, x):
            return self.fn(x, self.w, self.b)

    def losses(fn):
        net = torch.nn.Sequential(Layer(fn), copy.deepcopy(head))
        adam, found = torch.optim.Adam(net.parameters(), 1e-2), []
        for _ in range(20):
            adam.zero_grad()
            loss = ((net(x) - x[:, :1]) ** 2).mean()
            loss.backward()
            adam.step()
            found.append(loss.item())
        return found

    reports = proof(ours, x, w.requires_grad_(), b.requires_grad_())
    return {
        "our kernels": losses(ours),
        "PyTorch": losses(lambda x, w, b: torch.relu(x @ w + b)),
        "v5e": [
            [op.name for op in report.ops if op.kind == "kernel"] for report in reports
        ],
    }


try:
    run = trained()
except ImportError:
    run = datasets.torch_run()
    print(run["about"])
STEPS = (0, 1, 2, 5, 10, 19)
print("loss in step     ", *(f"{step:6}" for step in STEPS))
for name in ("our kernels", "PyTorch"):
    print(f"with {name:12}", *(f"{run[name][step]:6.3f}" for step in STEPS))
print("kernels in the v5e's programs:", *run["v5e"])

# %% [markdown]
# Both layers learn alike: to three decimals the losses are equal. The program of the backward pass begins with
# the forward kernel, because PyTorch keeps only the arguments between the passes.
#
# `torch.compile` and `torch.export` take the operator as one node, and two modules, `FusedLinear` and `FlashAttention`,
# replace PyTorch's own ([the kernels in PyTorch](../docs/pytorch.md)).
#
# **And on a TPU?** PyTorch needs a package for that device. Google's is TorchTPU (`torch_tpu`), a beta, and
# `operator(..., tpu=True)` goes through it. We have not run that on a TPU. *Further* has a table for code that was
# written for its predecessor, PyTorch/XLA.
#
# ## The map of engines
#
# Three compilers take Pallas to four kinds of cores. **Look for** the calls that lead to each of them, and for the
# dashed line.

# %% tags=["folded"]
BRANCHES = (
    ("pl.pallas_call, pl.kernel", "Mosaic TPU", "TensorCores, from the v4 on", "-"),
    ("pl.kernel", "Mosaic TPU", "SparseCores: v5p, v6e, 7x", "-"),
    ("plgpu.kernel", "Mosaic GPU", "GPUs: Hopper, Blackwell", "-"),
    ("pl.pallas_call", "Triton", "GPUs from Ampere on", "--"),
)
plt.rcParams.update(viz.PLOT_STYLE)
fig, ax = plt.subplots(figsize=(7.6, 2.4), layout="tight")
box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "gray"}
ax.text(0, 1.5, "Pallas", ha="center", va="center", bbox=box, size=11)
for y, (*names, line) in enumerate(reversed(BRANCHES)):
    ax.plot((0, 1, 2, 3), (1.5, y, y, y), line, color="gray", zorder=0)
    for x, name in enumerate(names, 1):
        ax.text(x, y, name, ha="center", va="center", bbox=box, size=11)
ax.set(xlim=(-0.2, 3.6), ylim=(-0.4, 3.4))
ax.axis("off")
viz.plot_picture(
    fig,
    "The tree of Pallas' back ends: which call leads through which compiler to which machine. Triton is deprecated.",
)

# %% [markdown]
# The states in the following table are those of November 2026.
#
# | engine | state | who says so |
# |---|---|---|
# | Mosaic TPU | current | this course runs on it |
# | Pallas for SparseCores | current | the [Pallas changelog](https://docs.jax.dev/en/latest/pallas/CHANGELOG.html) |
# | Mosaic GPU | current, the successor of Triton | the same |
# | Triton | deprecated since JAX 0.11, to be removed | the same, and JAX's warning under *Further* |
# | Mosaic GPU through `pl.pallas_call` | gone since JAX 0.11 | an error under *Further* |
# | TorchTPU | beta | its page on the package index |
# | PyTorch/XLA | no release since November 2025 | its page on the package index |
#
# The next widget says what each engine can do, why, and how we know. **Tick what your own workload needs:** which
# engines have it all? (A lookup with a gradient, say, needs a gather, an add to memory and a derivative.)

# %%
viz.capability_matrix()

# %% [markdown]
# ## What does not carry over
#
# Take the ideas with you, and leave the numbers behind:
#
# - *Carries over*: bytes first; blocks that fit the small memory; copies that overlap with work; online softmax; masks at
#   edges; values from a reference, and judges for what values do not show.
# - *Does not*: an accumulator over grid steps, scratch that stays, the order of steps, block sizes, layouts, and every
#   figure of speed. On a v5e, one large core fetches blocks in the order of the grid. A GPU has many small cores and
#   a cache that they share, so what a block finds there depends on which blocks run beside it.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel adds to an output block that stays while the last grid axis runs. What happens on a GPU,
# and what do you change?</summary> All steps read and write the block at once, so sums are lost. Move that axis into a
# loop in the body.</details>
#
# <details><summary>2. In a Hopper kernel the values of every simulated run are right. Why is that not enough?</summary>
# A missing <code>barrier_wait</code> or <code>commit_smem</code> does not show in the simulator's values, only as a race.
# And the simulator never shows a buffer that is overwritten while wgmma still reads it.</details>
#
# <details><summary>3. Two SparseCores write the same rows with the same values. Is the kernel right?</summary> Its result
# is, but it does all of the work twice, and nothing orders the writes. If one of them ever wrote something else, the
# result would depend on chance.</details>
#
# <details><summary>4. A model gathers rows of 16 columns on SparseCores, from a table that XLA keeps in its own layout.
# What does each call move beside the rows?</summary> XLA lays out the whole table again before the call, and the
# result after it. Only a table that stays packed, or padded, between the calls avoids the first.</details>
#
# <details><summary>5. Which engine would you learn next for an H100, and which for an A100?</summary> Mosaic GPU for the
# H100. On an A100 Triton is what Pallas has today, but it is deprecated. Keep its kernels few and near to those of the
# TPU, leave the rest to XLA, or call Triton itself through jax_triton, as JAX's warning suggests.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 17](../exercises/17_other_engines.ipynb).
#
# ## Further
#
# No exercise needs what follows.
#
# ### A matmul with three warpgroups
#
# The library's matmul for a Hopper uses 132 thread blocks, one for each SM, with three warpgroups each. One of them
# only copies, into a ring of four buffers, and two multiply. Two barriers for each buffer say when it is full and when
# it is empty again, as the two semaphores of a ring of chips do (lesson 16). [GPUs](../docs/gpu.md#one-op-three-kernels)
# compares it line by line with the kernel for a TPU and the one by Triton.
#
# Why two that multiply? The next cell compiles `multiplied` for a tile of 128 x 256, and then the library's kernels for
# both GPUs.

# %%
large = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((128, 64), (64, 256)))
if kernel := for_gpu(multiplied, *large, chip="h100"):
    print(f"one warpgroup: {kernel.registers} registers")
    print(textwrap.fill(f"ptxas: {kernel.remarks[0]}", 94), end="\n\n")

from course_lib.kernels import launch, matmul

square = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)
for chip in ("a100", "h100"):
    with launch.gpu_kernels():
        kernel = for_gpu(matmul.matmul, square, square, chip=chip)
    if kernel:
        print(f"{chip}: {kernel.threads} threads, {kernel.registers} registers, ", end="")
        print(
            f"{kernel.shared_bytes // 1024} KiB of shared memory\n      {kernel.instructions}"
        )

# %% [markdown]
# An accumulator of 128 x 256 values takes 256 registers in each thread of one warpgroup, more than a thread has, so
# ptxas makes each wgmma wait for the one before it. In the library's kernel each of two warpgroups has half of the
# tile. Both kernels multiply tiles of 128 rows, the one by `mma` from registers, the other by `wgmma` from shared
# memory, which its ring and two buffers for the result nearly fill. Neither count says which is faster.
#
# An H100 does. The next cell puts two of the library's times, *measured* on an H100 (80 GB, HBM3) with JAX 0.11.2 in
# November 2026, beside the least that NVIDIA's data sheet allows: the FLOPs at its peak, or the bytes at its bandwidth.
# That is *predicted (model)*. More of them are in the [results](../docs/results.md#measured-on-gpus).

# %%
MEASURED = {  # microseconds on the H100: the library's kernel by Mosaic GPU, XLA's, the library's by Triton
    "softmax of f32[8192, 4096]": (90.0, 90.8, 90.0),
    "matmul of bf16[4096, 4096]": (173.7, 173.6, 264.6),
}
h100 = chips.gpu_target("h100")
bounds = (
    ("HBM", 2 * 4 * 8192 * 4096 / h100.memory_bandwidth),
    ("compute", 2 * 4096**3 / h100.bf16_flops),
)
print(
    f"{'us':28}{'predicted (model)':>18}{'measured: ours':>20}{'XLA':>8}{'by Triton':>12}"
)
for (name, (ours, xla, triton)), (bound, seconds) in zip(
    MEASURED.items(), bounds, strict=True
):
    least = f"{seconds * 1e6:.1f}, {bound}"
    print(f"{name:28}{least:>18}{ours:20.1f}{xla:8.1f}{triton:12.1f}")

# %% [markdown]
# Softmax needs an eighth more than its bytes predict, by whichever back end: a plain copy of as many bytes took 89.6 us.
# The matmul by Mosaic GPU is as fast as XLA's, which is cuBLAS's, and takes a quarter more than its FLOPs predict. By
# Triton it takes half as long again.
#
# ### What JAX says of its back ends
#
# What JAX itself says is certain for the version that you have. The next cell lowers a kernel that copies an array for
# a GPU, and then compiles it with compiler parameters of Mosaic GPU.


# %%
def copied(x, params=None):
    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(copy_kernel, out_shape=x, compiler_params=params)(x)


on_an_h100, not_simulated = (
    chips.gpu_target("h100").target(),
    pltpu.force_tpu_interpret_mode(False),
)
with on_an_h100, not_simulated, warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    jax.jit(copied).trace(scores).lower(lowering_platforms=("cuda",))
print("JAX warns:", *textwrap.wrap(str(said[0].message), 90), sep="\n  ")
by_mosaic_gpu = functools.partial(copied, params=plgpu.CompilerParams())
print(compiler.compile_gpu(by_mosaic_gpu, scores, chip="h100").error)

# %% [markdown]
# ### Where XLA uses SparseCores
#
# XLA runs some ops on SparseCores unasked. In its program they have `execution_thread="sparsecore"`. Guess on which
# chips it does so for a gather of rows, and on which when 1 is added to many elements of a vector. You have no way to
# know: what counts is that a few lines tell you.

# %% tags=["predict"]
vector = jax.ShapeDtypeStruct((100_000,), jnp.int32)
wide_table, many = shapes(65536, 65536, 128)
for name, fn, args in (
    ("jnp.take(table, i, axis=0)", taken, (wide_table, many)),
    ("x.at[i].add(1)", lambda x, i: x.at[i].add(1), (vector, many)),
):
    found = []
    for chip in ("v5p", "v6e", "tpu7x"):
        hlo = compiler.compile_tpu(fn, *args, chip=chip, simulate=False).hlo
        found += [chip] if 'execution_thread="sparsecore"' in hlo else []
    print(f"{name:27} on the SparseCores of: {', '.join(found) or 'none'}")

# %% [markdown]
# ### Counting, an element at a time
#
# A vector subcore has a store that adds, with an address for each lane. In the histogram below each subcore counts its
# share of the values in its own memory. Two lanes may hold the same value, and JAX does not document that both of them
# would count. `plsc.scan_count` therefore counts equal lanes first, and marks the last of each, which adds for all.


# %%
def counted(values, scans=True):
    share, lanes = values.size // 32, chips.sparse_cores("v6e").lanes

    def count_kernel(values_hbm, o_hbm, counts_ref, values_ref):
        me = 16 * lax.axis_index("core") + lax.axis_index("subcore")
        pltpu.sync_copy(values_hbm.at[pl.ds(me * share, share)], values_ref)

        @pl.loop(0, 128, step=lanes)
        def clear(b):
            counts_ref[pl.ds(b, lanes)] = jnp.zeros((lanes,), jnp.int32)

        @pl.loop(0, share, step=lanes)
        def count(k):
            value = values_ref[pl.ds(k, lanes)]
            if scans:
                so_far, is_last = plsc.scan_count(value, mask=value >= 0)
                plsc.addupdate_scatter(counts_ref, [value], so_far, mask=is_last)
            else:
                plsc.addupdate_scatter(counts_ref, [value], jnp.ones((lanes,), jnp.int32))

        pltpu.sync_copy(counts_ref, o_hbm.at[me])

    return pl.kernel(
        count_kernel,
        out_type=jax.ShapeDtypeStruct((32, 128), jnp.int32),
        mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore"),
        scratch_types=[pltpu.VMEM((128,), jnp.int32), pltpu.VMEM((share,), jnp.int32)],
    )(values).sum(axis=0)


def histogram(values):
    return jnp.bincount(values, length=128)


values = jax.random.randint(jax.random.key(3), (4096,), 0, 128)
for scans in (True, False):
    fn = functools.partial(counted, scans=scans)
    ask(judges.judge_sparse_core(fn, histogram, values))
for bundle in compiler.sparse_core_listing(counted, values).find("vst.idx.add")[:1]:
    print(*(i for i in bundle.instructions if "vst.idx.add" in i))

# %% [markdown]
# ### Code written for PyTorch/XLA
#
# PyTorch/XLA was the first package to bring PyTorch onto TPUs. This is how the two compare.
#
# | | TorchTPU (`torch_tpu`) | PyTorch/XLA (`torch_xla`) |
# |---|---|---|
# | state, November 2026 | current: a beta of Google's | last release 2.9.0 of November 2025, for PyTorch 2.9 |
# | makes an operator of a kernel | `torch.tpu.pallas.jax_op`, experimental | `make_kernel_from_pallas(kernel, output_shape_dtype_fn)`, without a gradient |
# | before JAX is imported | nothing | `jax_import_guard()`, or JAX locks the TPU and the program hangs |
# | kernels of its own | | `flash_attention`, `paged_attention`: JAX's, under torch's names |
# | which JAX | we tried version 0.2.0 beside JAX 0.11.2 | its extra `[pallas]` pins JAX 0.7.1 |
#
# `course_lib.frameworks.torch_xla` has the names of PyTorch/XLA, with the same arguments, for tensors on a CPU.
#
# ### Reading a GPU's program
#
# NVIDIA documents the instructions that you saw in the opening in its [PTX ISA
# reference](https://docs.nvidia.com/cuda/parallel-thread-execution/), and the instructions that ptxas makes of them,
# called SASS, as a list in [CUDA Binary Utilities](https://docs.nvidia.com/cuda/cuda-binary-utilities/). For a TPU no
# such reference is public; lesson 2 reads its bundles by experiment. The limits of an SM stand in the [CUDA C++
# Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/).
#
# ### `ref.at`
#
# `x_gmem.at[row]` and `table_hbm.at[indices_ref]` name a part of a Ref without reading it, so that a copy can. An array
# has an `.at`, too, but it is another thing: `x.at[i].add(1)` returns a changed copy of x. Published introductions say
# that only Pallas has `ref.at`. **Predict** whether JAX 0.11 has it outside of kernels, with `jax.jit` and without.


# %% tags=["predict"]
def middle(ref):
    return ref.at[1:3][...]


four = jax.new_ref(jnp.arange(4.0))
print("under jax.jit:", jax.jit(middle)(four))
try:
    print("without it:   ", middle(four))
except NotImplementedError as error:
    print("without it:   ", type(error).__name__)

# %% [markdown]
# <!-- next -->
