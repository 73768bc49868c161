# %% [markdown]
# # Lesson 2: The machine
#
# *60 minutes, then 59 for the exercises. The "Further" part at the end is optional and takes 35 more minutes. You need
# lesson 1, but no TPU. Nothing here is timed on a chip; with a TPU, the kernels also run on it.*
#
# The function below computes the softmax of each row of an array. Its kernel works through a block of 1024 rows in a
# loop, and the argument `rows` says how many rows one iteration of the loop takes. We call it twice, once with 8 rows
# per iteration and once with 512.
#
# Both calls do the same arithmetic on the same data, move the same bytes in the same blocks, and return the same
# result. Yet the compiler predicts that one of them takes many times as long as the other. **Which one, and how many
# times as long?** Write down a guess and the reason for it in one sentence, then run the cells.
#
# After this lesson you can
# - name the parts of a TPU core, and say which of them an operation uses,
# - read the program that the compiler made of your kernel, bundle by bundle,
# - say which work runs in the background, and how much independent work hides its latency,
# - say how much each memory holds, how fast it is, and how long it takes to respond,
# - read a report, name what binds the kernel, and say what to change.

# %%
# FIRST CELL

# %%
import collections
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler, text, viz


def softmax(x, rows):
    """Return the softmax of each row: blocks of 1024 rows, ``rows`` per iteration."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            here = pl.ds(pl.multiple_of(i * rows, rows), rows)
            v = x_ref[here, :]
            e = jnp.exp(v - jnp.max(v, axis=1, keepdims=True))
            o_ref[here, :] = e / jnp.sum(e, axis=1, keepdims=True)
            return carry

        jax.lax.fori_loop(0, 1024 // rows, turn, 0)

    block = pl.BlockSpec((1024, x.shape[1]), lambda i: (i, 0))
    grid = (x.shape[0] // 1024,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=grid, in_specs=[block], out_specs=block
    )(x)


small = jax.random.normal(jax.random.key(0), (1024, 128))
same = jnp.allclose(softmax(small, rows=8), softmax(small, rows=512), rtol=1e-6)
print("the same result:", bool(same))


# %% tags=["predict"]
def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


table = f32(8192, 128)
few = compiler.compile_tpu(functools.partial(softmax, rows=8), table)
many = compiler.compile_tpu(functools.partial(softmax, rows=512), table)
for rows, report in [(8, few), (512, many)]:
    print(f"{rows:3} rows at a time: {report.seconds * 1e6:6.1f} us, predicted (compiler)")
print(f"{few.seconds / many.seconds:.0f} times as long")

# %% [markdown]
# (`fori_loop` runs its iterations one after another. `pl.ds(start, size)` is a slice of `size` rows that begins at
# `start`, and `pl.multiple_of(start, n)` promises the compiler that `start` is a multiple of `n`.)
#
# Nothing in the few lines of `turn`, the body of the loop, looks slow. To find out what is, you have to know the
# machine: what its parts are, which of them execute your operations, and which of them make the core wait.
#
# ## One core, in one picture
#
# A TPU chip has one core or two, and your kernel runs on a core. The picture shows one core with its memories, and
# every later lesson comes back to it. **Look for one thing:** which path does a value take from HBM to an addition, and
# back?

# %%
viz.core_picture()

# %% [markdown]
# A copy brings the value from HBM to VMEM, a load brings it from VMEM to a register, and the VPU reads it from there.
# The result returns the same way, by a store and another copy. There is no shorter path: the units of a core get data
# from memory only through registers.
#
# > **core**: the part of a chip that runs a kernel: the units below, with their registers and memories. On a TPU it is
# > called TensorCore.
# >
# > **MXU**: one of the units of a TPU that multiply matrices. Nothing else on the chip computes nearly as fast.
# >
# > **VPU**: the unit for most operations on vectors: add, multiply, compare, select.
# >
# > **EUP**: the unit for exp, tanh and log, and for a first approximation of 1/x.
# >
# > **XLU**: the unit that moves data between lanes: sums and maxima along a row, transposes, rotations.
# >
# > **scalar unit**: the unit for single values: addresses, counters, conditions. It also starts copies.
#
# What matters most about the vector registers is their width.
#
# > **lane**: one of the 128 columns of a vector register.
# >
# > **sublane**: one of the 8 rows of a vector register.
# >
# > **vreg**: short for vector register: 8 sublanes of 128 lanes, 4 KiB. The compiler's listings call them v0 to v63.
#
# A TPU is a sequential machine with very wide registers. A core has no threads: it runs one program, one bundle after
# the other. It is fast because each instruction works on 1024 elements, and because several units get an instruction in
# the same cycle.
#
# ## Which unit does what?
#
# **Predict first.** Here are ten operations on a block of 128 x 128 elements. Write down for each of them which unit
# executes it: VPU, EUP, XLU or MXU. Some need two units.
#
# The operations are `x + 1`, `where(x > 0, x, 0)`, `tanh(x)`, `exp(x)`, x plus the sum of each column, x plus the sum
# of each row, x times its first column, `pltpu.roll(x, 1, 0)` (which moves all rows down by one), `x.T` and `x @ x`.
#
# The next cell compiles a kernel for each of them, and counts the operations of each unit in its program.


# %% tags=["predict"]
def applied(fn, *args):
    """Return a kernel that applies ``fn`` to whole arrays."""

    def kernel(*refs):
        *inputs, o_ref = refs
        o_ref[...] = fn(*(ref[...] for ref in inputs))

    return pl.pallas_call(kernel, out_shape=jax.eval_shape(fn, *args))


def counted(kernel, *args, chip="v5e"):
    """Return {unit: operations} of the program that the compiler makes of a kernel."""
    program = compiler.bundles(kernel, *args, chip=chip).bundles
    return collections.Counter(
        each.unit for bundle in program for each in bundle.operations
    )


operations = {
    "x + 1": lambda x: x + 1,
    "where(x > 0, x, 0)": lambda x: jnp.where(x > 0, x, 0),
    "tanh(x)": jnp.tanh,
    "exp(x)": jnp.exp,
    "x + sum of each column": lambda x: x + jnp.sum(x, axis=0, keepdims=True),
    "x + sum of each row": lambda x: x + jnp.sum(x, axis=1, keepdims=True),
    "x * column": lambda x: x * x[:, :1],
    "roll(x, 1, 0)": lambda x: pltpu.roll(x, 1, 0),
    "x.T": lambda x: x.T,
    "x @ x": lambda x: jnp.dot(x, x, preferred_element_type=jnp.float32),
}
units = ("load", "VPU", "EUP", "XLU", "MXU", "pop", "store")
print(f"{'operations by unit':22}" + "".join(f"{unit:>7}" for unit in units))
for name, fn in operations.items():
    count = counted(applied(fn, f32(128, 128)), f32(128, 128))
    print(f"{name:22}" + "".join(f"{count[unit] or '':>7}" for unit in units))

# %% [markdown]
# A block of 128 x 128 elements fills 16 registers, so 16 in a column means one operation per register.
#
# - A `where` takes two VPU operations, a comparison and a select.
# - The EUP computes 2^x. Because exp(x) is 2^(x log2 e), the VPU first multiplies x by log2 e.
# - The sum of each *column* is work for the VPU, which adds registers to registers, lane by lane; a few more operations
#   then add up the 8 sublanes. The sum of each *row* has to combine 128 lanes, and that is work for the XLU.
# - Multiplying by a column needs the XLU again, which copies the one element of each row from one lane to all. Rolling
#   by a row moves data between sublanes, which the VPU can do.
# - The 80 operations of the MXU are 64 pushes of its weights and 16 matmuls, one per register.
# - Every result of the EUP, the XLU or the MXU has to be fetched by one more instruction, which is counted in the
#   column *pop*.
#
# > **pop**: the instruction that fetches a result from the EUP, the XLU or the MXU once it is ready.
#
# ## A bundle, slot by slot
#
# The viewer below shows the program for `2 * exp(x)` on two registers. Each row is a bundle, which is what the units
# begin in one cycle. Click a row, or use the arrow keys, to see its instructions below the table, and the line of the
# kernel that they come from.
#
# > **slot**: a place in a bundle for one instruction of one unit.
# >
# > **issue**: to hand a bundle to the units. A core issues one bundle per cycle, in order, and waits if a result is
# > missing.
#
# **Look for three things:** where the copy from HBM is started, where the program waits for it, and how many bundles
# lie between the load of a register and the first instruction that uses it.


# %%
def double_exp_kernel(x_ref, o_ref):
    o_ref[...] = 2 * jnp.exp(x_ref[...])


def double_exp(x):
    return pl.pallas_call(double_exp_kernel, out_shape=x)(x)


viz.bundle_viewer(double_exp, f32(16, 128))

# %% [markdown]
# Begin in the middle of the table. Both registers are loaded in bundle 6 and multiplied in bundle 7. The two
# multiplications by 1.44, which is log2 e, share a bundle because the VPU has several slots. The two powers of 2 take a
# bundle each, because the EUP has only one slot. The first power is popped two bundles after its request, and the next
# bundle multiplies it by our 2. (The dot beside each power is in the VPU column, because the EUP gets its work through
# a slot of the VPU.)
#
# The copies stand before and after this part. The scalar unit computes addresses, starts a copy with `dma`, and waits
# for it with `dma.done.wait`. The wait is a single bundle, although it takes hundreds of cycles. So **bundles are not
# cycles: a bundle waits until what it needs is there, and the whole core waits with it.**
#
# > **DMA**: a copy between memories that runs while the core continues; also the unit that makes it.
#
# Now try a kernel of your own: change `double_exp_kernel`, and run the cell again. The cell below it prints how many
# slots a bundle has for each unit.

# %%
for name in ("v5e", "v6e"):
    offered = compiler.bundles(double_exp, f32(16, 128), chip=name).offered
    print(f"{name}:", ", ".join(f"{unit} {slots}" for unit, slots in offered.items()))

# %% [markdown]
# On a v5e, a bundle has room for four VPU operations, three loads, a store and more. Each of these works on 1024
# elements, and all of them begin in the same cycle. So a bundle can do a lot, but in most kernels it does little.
#
# ### Free arithmetic
#
# Copying 256 registers takes 256 loads and 256 stores. A bundle has only one slot for stores, so the copy takes 256
# bundles, and in all of them the VPU's slots are empty.
#
# **Predict first.** A kernel copies 256 registers and multiplies each of them n times on the way. From which n on does
# it take longer than the copy alone? How many cycles does each further multiplication add?


# %% tags=["predict"]
def times(x, n):
    value = x
    for _ in range(n):
        value = value * 1.5
    return value


ns = range(13)
big = f32(2048, 128)
cycles = [
    compiler.compile_tpu(applied(functools.partial(times, n=n), big), big).cycles
    for n in ns
]
plt.rcParams.update(viz.PLOT_STYLE)
fig, axes = plt.subplots(figsize=(6.2, 2.8))
axes.plot(ns, [c - cycles[0] for c in cycles], "o-")
axes.set(xlabel="multiplications per element", ylabel="cycles more than a copy")
axes.set_title("256 registers, predicted (compiler)")
viz.plot_picture(fig, "The line is flat up to four multiplications, then it rises evenly.")

# %% tags=["predict"]
for n in (4, 6, 12):
    print(f"{n:2} multiplications: {cycles[n] - cycles[0]:4} cycles more than a copy")
tanh_and_four = compiler.compile_tpu(applied(lambda x: times(jnp.tanh(x), 4), big), big)
print(f" 4 and a tanh: {tanh_and_four.cycles - cycles[0]:9} cycles more than a copy")

# %% [markdown]
# The first four multiplications cost next to nothing. From the fifth on, each adds 64 cycles, because the VPU
# multiplies four of the 256 registers per cycle.
#
# **A register takes at least as many cycles as the largest of these: its stores, its loads / 3, its operations of VPU
# and EUP together / 4, and its operations of the EUP alone.**
#
# (EUP operations count in two places because each also takes a slot of the VPU.) This rule is for a v5e, and it is a
# lower bound. A tanh with four multiplications is five operations, which by the rule take 64 cycles more than a copy,
# but the compiled kernel takes more than twice that. The rule also leaves out all waiting, to which we come now.
#
# ## How long does a result take?
#
# The EUP, the XLU and the MXU work in the background: one bundle sends them a request, and a later one pops the result.
# How long does a unit take to return a result, and how soon does it accept the next request? These are two different
# questions.
#
# > **latency**: how long a unit or a memory takes to return a result, however little was requested.
#
# The next cell takes one operation of each unit, on one register; for the MXU, that is a matmul of 8 x 128 elements
# with 128 x 128 weights. It compiles each operation in two arrangements: in a chain, where each operation needs the
# result of the one before, and side by side, where each works on a register of its own and needs no other result. We
# compile 8 operations and 24 operations, and divide the difference in cycles by 16, so that the copies around them drop
# out. **Predict first:** which unit takes longest to return a result?


# %% tags=["predict"]
def chained(x, op, n):
    def kernel(x_ref, o_ref):
        value = x_ref[0]
        for _ in range(n):
            value = op(value)
        o_ref[0] = value

    return pl.pallas_call(kernel, out_shape=x)(x)


def side_by_side(x, op, n):
    def kernel(x_ref, o_ref):
        for i in range(n):
            o_ref[i] = op(x_ref[i])

    return pl.pallas_call(kernel, out_shape=x)(x)


def each(make, op):
    """Return the cycles of each further ``op``, predicted (compiler)."""
    a, b = (
        compiler.compile_tpu(functools.partial(make, op=op, n=n), f32(24, 8, 128)).cycles
        for n in (8, 24)
    )
    return (b - a) / 16


def row_sums(v):
    return v - jnp.sum(v, axis=1, keepdims=True)


def times_weights(v):
    return jnp.dot(v, jnp.ones((128, 128), v.dtype), preferred_element_type=jnp.float32)


one_of_each = {
    "VPU, multiply": lambda v: v * 1.5,
    "EUP, tanh": jnp.tanh,
    "XLU, row sums": row_sums,
    "XLU, rotate": lambda v: pltpu.roll(v, 1, 1),
    "MXU, matmul": times_weights,
}
print("cycles for one more   in a chain   side by side")
for name, op in one_of_each.items():
    print(f"{name:20}{each(chained, op):12.1f}{each(side_by_side, op):15.1f}")

# %% [markdown]
# The XLU and the MXU take more than a hundred cycles to return a result. But they accept new work long before that:
# side by side, a further row sum costs less than three cycles. So a program with dozens of row sums requests all of
# them before it begins to pop, while a program with a single one has to wait for it.
#
# **The core does not look for other work while it waits**, because it issues its bundles in order. The compiler puts
# other work between a request and its pop, but only work from the same iteration. A `fori_loop` stays a loop in the
# compiled program, so the next iteration begins only when this one is done.
#
# ### What does the slow call wait for?
#
# Back to the opening. With 8 rows, an iteration works on a single register, and the viewer shows the bundles of the
# loop. **Look for two things:** the two requests to the XLU, `vmax.xlane` and `vadd.xlane`, and the vector work between
# each of them and its pop.

# %%
viz.bundle_viewer(functools.partial(softmax, rows=8), table)

# %% [markdown]
# No vector work stands between them. The loop requests a maximum and waits for it, then requests a sum and waits for
# that. With 512 rows it requests 64 maxima one after another, and by the time it requests the last of them, the first
# is ready.
#
# If waiting for the XLU is the reason, two things should follow. With 8 rows, a kernel in which nothing crosses lanes
# should be several times as fast, and the time of `softmax` should halve with every doubling of the rows while most of
# it is waiting. The next cell checks both, with a second kernel that takes the maximum and the sum along the columns.


# %%
def without_lanes(x, rows):
    """Take max and sum along columns, for which the VPU is enough; else as ``softmax``."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            here = pl.ds(pl.multiple_of(i * rows, rows), rows)
            v = x_ref[here, :]
            e = jnp.exp(v - jnp.max(v, axis=0, keepdims=True))
            o_ref[here, :] = e / jnp.sum(e, axis=0, keepdims=True)
            return carry

        jax.lax.fori_loop(0, 1024 // rows, turn, 0)

    block = pl.BlockSpec((1024, x.shape[1]), lambda i: (i, 0))
    grid = (x.shape[0] // 1024,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=grid, in_specs=[block], out_specs=block
    )(x)


turns = (8, 16, 32, 64, 128, 256, 512)
print("cycles for a block of 1024 rows, predicted (compiler)")
print("rows per iteration  " + "".join(f"{rows:>8}" for rows in turns))
for name, fn in [("softmax", softmax), ("along columns", without_lanes)]:
    found = [
        compiler.compile_tpu(functools.partial(fn, rows=r), table).cycles / 8 for r in turns
    ]
    print(f"{name:20}" + "".join(f"{c:8,.0f}" for c in found))

# %% [markdown]
# With 8 rows, the kernel along the columns is more than four times as fast. It still gains from more rows, because
# every iteration has costs of its own: the loop, the EUP, and the long path from a load to its store. Along the rows,
# each doubling nearly halves the time, until the copies of the block take longest. So the cause is the latency of the
# XLU, and the cure is **more independent work between a request and its pop**.
#
# ## Why the MXU wants many rows
#
# In the table of latencies, the MXU takes longest to return a result. It holds 128 x 128 weights, one in each cell, and
# they stay there. The rows of x enter from the left, sums move down, and results come out at the bottom. Press *Play*
# to watch an array of only 4 x 4 cells. **Look for one thing:** in how many of the cycles do all 16 cells work?

# %%
viz.systolic_stepper(rows=4, columns=4)

# %% [markdown]
# The array fills at the beginning and empties at the end, so all 16 cells work in only two of the 14 cycles. The more
# rows x has, the larger is the share of the cycles in which all cells work. The picture leaves out a second cost: the
# weights have to be pushed into the cells first. Because of these two costs, a few rows take nearly as long as many.
#
# **Predict first.** The cell below compiles the matmul x[M, 512] @ w[512, 512] in bfloat16, with everything in VMEM
# already. How much longer do 32 rows take than 8? And how much longer do 256 rows take than 32?


# %% tags=["predict"]
def product(x, w, steps):
    """Repeat the matmul at every step; its blocks stay, so nothing is copied in between."""

    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    shapes = (x.shape, w.shape, (x.shape[0], w.shape[1]))
    *inputs, out = [pl.BlockSpec(shape, lambda i: (0, 0)) for shape in shapes]
    return pl.pallas_call(
        kernel, out_shape=f32(*shapes[2]), grid=(steps,), in_specs=inputs, out_specs=out
    )(x, w)


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


print("predicted (compiler)   cycles a matmul    pushes of weights   registers fed in")
for m in (8, 32, 64, 128, 256):
    once, args = functools.partial(product, steps=1), (bf16(m, 512), bf16(512, 512))
    a, b = (
        compiler.compile_tpu(functools.partial(product, steps=steps), *args).cycles
        for steps in (8, 24)
    )
    program = [
        each.text for b in compiler.bundles(once, *args).bundles for each in b.operations
    ]
    pushes = sum("vmatpush" in text for text in program)
    registers = sum("vmatmul" in text for text in program)
    print(f"{m:8} rows {(b - a) / 16:23,.0f} {pushes:19} {registers:16}")

# %% [markdown]
# Eight rows cost nearly as much as 32, because the weights are pushed as often for 8 rows as for 256, and the path
# through the array has the same length. From 64 rows on, each further row costs the same.
#
# How close is this to the best possible? To answer that, we need terms for amounts and for rates.
#
# > **FLOPs**: an amount of work: the number of additions and multiplications.
# >
# > **FLOP/s**: a rate: how many FLOPs are done in a second.
# >
# > **peak**: the FLOP/s of the MXU if nothing else gets in the way.
# >
# > **bandwidth**: the bytes that can pass in a second, between HBM and VMEM unless something else is said.

# %%
v5e = chips.chip("v5e")
cells = v5e.mxus * v5e.mxu_size**2
print(f"{v5e.mxus} MXUs of {v5e.mxu_size} x {v5e.mxu_size} cells: {cells:,} in all")
print(f"a multiplication and an addition each, at {v5e.clock_hz / 1e9:.1f} GHz:", end=" ")
print(f"{2 * cells * v5e.clock_hz / 1e12:.0f} TFLOP/s")
at_peak = 256 * 512 * 512 / cells
print(
    f"256 rows at the peak: {at_peak:,.0f} cycles, {at_peak * 16 / (b - a):.0%} of those above"
)

# %% [markdown]
# ## The memory hierarchy
#
# A core never computes on HBM directly. A copy brings the data into VMEM in the background, and with a BlockSpec,
# Pallas writes that copy for you. How long does a copy take? The kernel below starts its copies itself. It copies
# `times` pieces, one after another or all at once. (Lesson 5 is about such kernels, so skip the code if you like.)
#
# **Predict first:** HBM delivers 546 bytes per cycle. How many cycles does a copy of 4 KiB take, and how many does one
# of 1 MiB take? We take the difference between two copies and one, so that everything around the copies drops out.


# %% tags=["predict"]
def copies(x, times, at_once):
    rows = x.shape[0] // times

    def kernel(x_hbm, o_ref, room, sems):
        pieces = [pl.ds(i * rows, rows) for i in range(times)]
        started = [
            pltpu.make_async_copy(x_hbm.at[piece], room.at[piece], sems.at[i])
            for i, piece in enumerate(pieces)
        ]
        for copy in started:
            copy.start()
            if not at_once:
                copy.wait()
        for copy in started if at_once else []:
            copy.wait()
        o_ref[...] = room[:8]

    return pl.pallas_call(
        kernel,
        out_shape=f32(8, 128),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA((times,))],
    )(x)


def cycles_of(times, kib, at_once=False):
    fn = functools.partial(copies, times=times, at_once=at_once)
    return compiler.compile_tpu(fn, f32(2 * kib * times, 128)).cycles


per_cycle = v5e.hbm_bandwidth / v5e.clock_hz
print("one copy     predicted (compiler)    its bytes at full speed")
for kib in (4, 64, 512, 1024):
    one = cycles_of(2, kib) - cycles_of(1, kib)
    print(f"{kib:5} KiB {one:16,} cycles {kib * 1024 / per_cycle:18,.0f} cycles")

# %% [markdown]
# Whatever the size, more than a thousand cycles of each copy are latency, while the latency of the XLU was about a
# hundred. So a kernel waits for HBM unless it requests its data early. With a grid, Pallas does that for you: it
# requests the next block before the kernel works on the current one.
#
# > **SMEM**: the TPU's memory for single values. On a GPU the same four letters mean shared memory, which is something
# > else.
#
# The next picture shows all the memories that can hold your data. From registers to VMEM to HBM, each is larger, slower
# and farther away than the one before, and another chip is farther still. SMEM stands beside them, because it is near
# but narrow. **Look for two things:** between which two memories does the bandwidth fall most? And which figures change
# on other chips?

# %%
viz.memory_ladder(chip="v5e")

# %% [markdown]
# The letters say where a figure comes from, and if nobody has published one, the picture says so. The bandwidth falls
# most from VMEM to HBM, by a factor of more than twenty. On other chips most rates and sizes are different, but a
# register is always 8 x 128.
#
# TPU chips are also wired to each other.
#
# > **ICI**: the network between TPU chips: wires from each chip to its neighbors, through which one chip's core can
# > write into another's memory.
#
# The book ["How to Scale Your Model"](https://jax-ml.github.io/scaling-book/) gives 45 GB/s in each direction for a
# link of a v5e, and about 1 us for a hop over it. Exercise 02.4 sends data over several links.
#
# ## Scalars
#
# The scalar unit has registers and a memory of its own, for values of 32 bits. Which values go there? The next cell
# compiles `x + 1` twice: for a value without axes that is read from SMEM, and for an array of shape (1, 1) in VMEM.


# %%
def add_one(x, space):
    def kernel(x_ref, o_ref):
        here = 0 if space == pltpu.SMEM else ...
        o_ref[here] = x_ref[here] + 1

    spec = pl.BlockSpec(memory_space=space)
    return pl.pallas_call(kernel, out_shape=x, in_specs=[spec], out_specs=spec)(x)


for shape, space in [((1,), pltpu.SMEM), ((1, 1), pltpu.VMEM)]:
    count = counted(functools.partial(add_one, space=space), f32(*shape))
    count.pop("DMA", None)
    print(f"{space}:", dict(count))

# %% [markdown]
# Arrays in VMEM are work for the vector units, even if they have only one element. A value without axes, such as
# `x_ref[0]`, is work for the scalar unit, except for operations that this unit cannot do, such as exp.
#
# So SMEM is for the values that control a kernel: indices, lengths, flags, the number of a step. It is not for data,
# because it delivers one value at a time, while VMEM delivers a register. (*Further* shows how much slower that is.)
#
# ## Read a report
#
# `compiler.compile_tpu(fn, *args)` returns a report. This is the one of the slow call:

# %%
print(few)

# %% [markdown]
# In the line *time goes*, *issue* stands for the cycles in which the core issues vector instructions and waits for
# nothing. *XLU* stands for those in which it waits for the XLU, while the line *slots* says that the unit itself has
# little to do. (The shares in *slots* are of the whole program, while those in the viewer are of the loop alone.)
#
# Ask every report the four questions of this table, from top to bottom. As in lesson 1, its time is the longer of two:
# the simulator's cycles, and the bytes at full speed. The simulator does not know that all copies share one bandwidth,
# as *Further* shows.
#
# | ask | look at | if so, change |
# |---|---|---|
# | Do the bytes take longer than the cycles? | *bound by HBM* | fewer bytes: a narrower dtype, fewer operands, fusion; larger blocks only where a block is read again |
# | Does the core wait for copies? | *bound by waiting for copies*; *DMA wait* of *time goes* | in a grid of many small steps, larger blocks or more buffers; in a grid of one step, more steps |
# | Does the core wait for a unit? | *XLU*, *MXU* or *EUP* of *time goes* | more independent work per iteration: more rows at a time |
# | Is the core busy? | *issue* of *time goes*; the fullest of the *slots* | less work for that unit: another operation, another axis |
#
# For the slow call, the answer to the third question is yes, because the core waits for the XLU in most of its cycles.
#
# ## Five questions
#
# Answer each question before you open it.
#
# <details><summary>1. A kernel adds 1 to every element of a block in VMEM. You make it multiply by 2 as well. How much
# longer does it take?</summary>
# It takes no longer. A bundle has one slot for stores and four for the VPU, so the store of each register leaves room
# for both operations.</details>
#
# <details><summary>2. Which is more expensive on a TPU, an exp or a sum along a row?</summary>
# The sum is more expensive in both arrangements. With rows of one register, an EUP operation costs one cycle side by
# side and a few in a chain, while a row sum costs two or three side by side and more than a hundred in a
# chain.</details>
#
# <details><summary>3. A GPU hides latency by switching to other threads. What hides it on a TPU?</summary>
# Other work of the same program hides it. The compiler places work on independent registers of the same iteration
# between a request and its pop, and copies for the next block are started early.</details>
#
# <details><summary>4. Where is the constant 3.0 if your kernel says <code>x_ref[...] * 3.0</code>? And where is the
# factor if it says <code>x_ref[...] * s_ref[0]</code>, with s_ref in SMEM?</summary>
# The constant is in the instruction itself, as 1.44 was in the viewer. A factor from SMEM goes to the scalar unit
# first, and is then copied to all elements of a vector register.</details>
#
# <details><summary>5. A kernel reads each byte once. Its report says "DMA wait 85 %, bound by HBM". Do larger blocks
# help?</summary>
# No, because the bytes at full speed take longer than all of the cycles, waiting included. Moving fewer bytes would
# help.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 2](../exercises/02_the_machine.ipynb). If you have time for only one, take 02.6, in
# which you find the cure for each of three kernels from its report.

# %% [markdown]
# ## Further
#
# This part is about the speed of scalars, bfloat16 arithmetic, what the simulator does not know, a comparison of chips,
# spills, operations that the hardware does not have, and further reading.
#
# ### How slow are scalars?
#
# SMEM delivers one value of 32 bits at a time, from any address, while VMEM delivers a register at a time, 4 KiB.
# **Predict first:** how many times longer does it take to add up elements one by one than register by register?


# %% tags=["predict"]
def sum_of_scalars(x):
    def kernel(x_ref, o_ref):
        def add(i, total):
            return total + x_ref[i]

        o_ref[0] = jax.lax.fori_loop(0, x.size, add, 0.0)

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    return pl.pallas_call(kernel, out_shape=f32(1), in_specs=[smem], out_specs=smem)(x)


def sum_of_vectors(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sum(x_ref[...], axis=0, keepdims=True)

    return pl.pallas_call(kernel, out_shape=f32(1, 128))(x)


def further(fn, small, large):
    a, b = compiler.compile_tpu(fn, small), compiler.compile_tpu(fn, large)
    work = [r.cycles - r.time_split["DMA wait"] for r in (a, b)]
    return (work[1] - work[0]) / (large.size - small.size)


def written_out(x):
    def kernel(x_ref, o_ref):
        total = 0.0
        for i in range(x.size):
            total += x_ref[i]
        o_ref[0] = total

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    return pl.pallas_call(kernel, out_shape=f32(1), in_specs=[smem], out_specs=smem)(x)


scalar = further(sum_of_scalars, f32(256), f32(512))
alone = further(written_out, f32(256), f32(512))
vector = further(sum_of_vectors, f32(256, 128), f32(512, 128))
print(f"an element from SMEM: {scalar:.1f} cycles; from VMEM: {vector:.5f}")
print(f"{scalar / vector:,.0f} times, predicted (compiler), without waiting for copies")
print(f"from SMEM without the loop: {alone:.1f} cycles, {alone / vector:,.0f} times")

# %% [markdown]
# A part of the difference is the loop. The rest is the width of a register, because adding one element costs as much as
# adding a whole register of them. A bundle has two slots for the scalar unit, which make at most three operations per
# nanosecond. According to the JAX team's article "Pallas: Custom Kernels in JAX", that is less than one core of a CPU
# does.
#
# SMEM can do one thing that VMEM cannot: deliver a value from any address. Where may a slice of VMEM begin?


# %%
def from_place(s_ref, x_ref, o_ref, axis):
    starts = pl.ds(s_ref[0], o_ref.shape[axis])
    o_ref[...] = x_ref[starts, :] if axis == 0 else x_ref[:, starts]


place = pl.BlockSpec(memory_space=pltpu.SMEM)
for name, axis, x in [("rows", 0, f32(64, 128)), ("lanes", 1, f32(8, 512))]:
    taken = pl.pallas_call(
        functools.partial(from_place, axis=axis),
        out_shape=f32(8, 128),
        in_specs=[place, pl.BlockSpec()],
    )
    report = compiler.compile_tpu(taken, jax.ShapeDtypeStruct((1,), jnp.int32), x)
    said = "compiles" if report.ok else report.error.what
    print(text.folded(f"{name} from any start: {said}"))

# %% [markdown]
# If the start is known only while the kernel runs, a slice may begin at any row, but only at a lane whose number is a
# multiple of 128.
#
# ### Arithmetic in bfloat16
#
# A lane is 32 bits wide, so two bfloat16 elements share one, and a load brings both. But the VPU of a v5e adds,
# multiplies and compares only values of 32 bits. How many operations does `x + y` then take for 1024 elements?

# %%
shape = (256, 256)
for chip in ("v5e", "v6e"):
    for dtype in (jnp.float32, jnp.bfloat16):
        args = [jax.ShapeDtypeStruct(shape, dtype)] * 2

        def add_kernel(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] + y_ref[...]

        add = pl.pallas_call(add_kernel, out_shape=args[0])
        count = counted(add, *args, chip=chip)["VPU"]
        print(
            f"{chip}, {jnp.dtype(dtype).name:8}: {count / 64:4.1f} VPU operations per 1024 elements"
        )

# %% [markdown]
# On a v5e, both operands are widened to float32, added, and packed again, so bfloat16 saves bytes but no arithmetic.
# The VPU of a v6e adds bfloat16 directly, two elements in a lane.
#
# ### What the simulator does not know
#
# All cycles on this page are predicted (compiler). The simulator knows the program down to the last bundle, but it does
# not know everything about the chip. You can see one gap for yourself: the next cell makes eight copies of 1 MiB, one
# after another and then all at once.

# %%
one, after, at_once = (
    cycles_of(1, 1024),
    cycles_of(8, 1024),
    cycles_of(8, 1024, at_once=True),
)
for name, found in [
    ("one copy", one),
    ("eight in turn", after),
    ("eight at once", at_once),
]:
    print(f"{name:15} {found:6,} cycles, predicted (compiler)")
print(f"8 MiB at full speed: {8 * 2**20 / per_cycle:,.0f} cycles")

# %% [markdown]
# According to the simulator, eight copies at once take hardly longer than one. That is impossible, because the memory
# has one bandwidth and all copies share it. This is why a report takes the longer of two times, the simulator's cycles
# and the bytes at full speed.
#
# There are more such gaps:
#
# - **Data.** The simulator does not know what is in memory, and takes an unknown scalar for 0. If a `pl.when` tests a
#   value in SMEM, the simulator may count the wrong branch.
# - **Short copies.** The published timings of kernels with small blocks fit a latency of 0.5 us (lesson 3), where the
#   simulator has 0.76.
# - **Heat, the other core and the host** are not part of the simulation.
#
# The page ["Reading a report of the compiler"](../docs/compiler.md) has the full list. Only the instructions themselves
# are certain.
#
# ### Five chips, and two GPUs
#
# Vendors publish figures for the whole chip, but a kernel runs on one core. JAX has the figures of a core:

# %%
print("one core         MXUs    TFLOP/s   HBM GB   GB/s   VMEM MiB   cores on the chip")
for name in chips.NAMES:
    c = chips.chip(name)
    print(
        f"{name:8}{c.mxus:3} x {c.mxu_size}^2 cells"
        f"{c.bf16_flops / 1e12:8.1f}{c.hbm_bytes / 1e9:9.1f}{c.hbm_bandwidth / 1e9:7.0f}"
        f"{c.vmem_bytes / 2**20:9.0f}{c.tensor_cores:12}"
    )

# %% [markdown]
# The peak is for bfloat16, and 17.2 GB are 16 GiB. The table leaves out CMEM, a memory on the v4's chip that both of
# its cores share, because JAX knows it by name but has no figure for it. The two cores of a v4 or a v5p appear as one
# device, while those of a tpu7x are two devices. For the v5p, JAX has 2460 GB/s, where Google's page says 2765; this
# course uses JAX's figure.
#
# The next table compares whole chips with two GPUs. The figures of the GPUs are from NVIDIA's data sheets of the H100
# and H200 (SXM), without sparsity, and from its Hopper tuning guide. The memory on the chip is VMEM on a TPU; on these
# GPUs it is the registers and shared memory of 132 SMs, and a cache.

# %%
print("whole chip   TFLOP/s   HBM GB     GB/s   on the chip, MiB")
for name in chips.NAMES:
    c = chips.chip(name)
    on_chip = f"{c.vmem_bytes * c.tensor_cores / 2**20:.0f} of VMEM"
    hbm = c.hbm_bytes * c.tensor_cores / 1e9
    rates = f"{c.chip_flops / 1e12:10.0f}{hbm:9.1f}{c.chip_bandwidth / 1e9:9.0f}"
    print(f"{name:10}{rates}   {on_chip}")
for name in chips.GPU_NAMES:
    g = chips.gpu(name)
    sms = g.sms * (g.sm_register_bytes + g.sm_shared_bytes) / 2**20
    on_chip = f"{sms:.0f} in its SMs, {g.l2_bytes / 2**20:.0f} of cache"
    rates = (
        f"{g.bf16_flops / 1e12:10.0f}{g.hbm_bytes / 1e9:9.1f}{g.hbm_bandwidth / 1e9:9.0f}"
    )
    print(f"{name:10}{rates}   {on_chip}")

# %% [markdown]
# The peaks of these chips differ by a factor of more than ten, but the more important difference is how the chips
# divide the work. A TPU has one or two wide cores, while these GPUs have 132 small ones, which hide latency by
# switching between threads.
#
# Does the peak of a chip follow from its number of cells? On a v5e it did, with two FLOPs per cell and cycle. **Predict
# first:** at which clock rate would a v6e reach its peak in the same way? The next cell computes that for four chips.
# From the cost of further rows of a matmul, it also derives how many FLOPs a cell does per cycle in the simulator.


# %% tags=["predict"]
def flops_of_a_cell(chip):
    """Return FLOPs per cell and cycle of further rows, predicted (compiler)."""
    found = []
    for m in (256, 1024):
        args = bf16(m, 512), bf16(512, 512)
        runs = [functools.partial(product, steps=steps) for steps in (8, 24)]
        a, b = (compiler.compile_tpu(run, *args, chip=chip).cycles for run in runs)
        found.append((b - a) / 16)
    c = chips.chip(chip)
    return 2 * (1024 - 256) * 512 * 512 / (found[1] - found[0]) / (c.mxus * c.mxu_size**2)


for name in ("v5e", "v5p", "v6e", "tpu7x"):
    c = chips.chip(name)
    cells, of_cell = c.mxus * c.mxu_size**2, flops_of_a_cell(name)
    print(
        f"{name:6} at 2 FLOPs a cell: {c.bf16_flops / cells / 2e9:.2f} GHz; the simulator "
        f"has {of_cell:.0f}: {c.bf16_flops / cells / of_cell / 1e9:.2f} GHz"
    )

# %% [markdown]
# For the first two chips the result is the published clock rate, 1.5 and 1.75 GHz. For the v6e and the tpu7x, a cell
# does twice as many FLOPs per cycle in the simulator, and we know of no page that says why, or at which clock rate
# these chips run. So for those two this course gives cycles, but no clock rate.
#
# ### Are spills a reason to worry?
#
# A spill is a store and, later, a load, which is called a *fill*. The next cell compiles the softmax once more, with
# more and more rows per iteration. In the first version, the copies take longer than the work on so many rows, so they
# would hide what spills cost. Here the block stays in VMEM, and nothing is copied between steps.


# %%
def softmax_of_what_stays(x, rows, steps):
    def kernel(x_ref, o_ref):
        def turn(i, carry):
            here = pl.ds(pl.multiple_of(i * rows, rows), rows)
            v = x_ref[here, :]
            e = jnp.exp(v - jnp.max(v, axis=1, keepdims=True))
            o_ref[here, :] = e / jnp.sum(e, axis=1, keepdims=True)
            return carry

        jax.lax.fori_loop(0, x.shape[0] // rows, turn, 0)

    block = pl.BlockSpec(x.shape, lambda i: (0, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[block], out_specs=block
    )(x)


for rows in (256, 512, 1024):
    a, b = (
        compiler.compile_tpu(
            functools.partial(softmax_of_what_stays, rows=rows, steps=steps), f32(1024, 128)
        )
        for steps in (8, 24)
    )
    print(
        f"{rows:4} rows: {b.spills:3} spills, {(b.cycles - a.cycles) / 16:,.0f} cycles a step; "
        f"slots filled: load {b.slots['load']:.0%}, store {b.slots['store']:.0%}"
    )

# %% [markdown]
# Even with two hundred spills the kernel gets faster, because doubling the rows per iteration saves more than the
# spills cost. So a spill is not a fault by itself. Look at the time first, and then at the slots for loads and stores,
# of which more than half are empty here. Look at VMEM as well, because spilled registers are kept there.
#
# ### Emulated operations
#
# "If a kernel is accepted by the compiler, it must return the expected results", says JAX's page on TPU kernels. It
# also says that what is unnatural to the hardware may be emulated in software, and slow. TPU kernels are experimental,
# according to the same page, and only a part of `jax.numpy` is accepted. To see what emulation looks like, divide
# integers.

# %%
whole = jax.ShapeDtypeStruct((8, 128), jnp.int32)
register = f32(8, 128)
for name, fn, args in [
    ("x + y, float32", jnp.add, (register, register)),
    ("x / y, float32", jnp.divide, (register, register)),
    ("sin(x), float32", jnp.sin, (register,)),
    ("n + m, int32", jnp.add, (whole, whole)),
    ("n >> 3, int32", lambda n: n >> 3, (whole,)),
    ("n // 8, int32", lambda n: n // 8, (whole,)),
    ("n // m, int32", lambda n, m: n // m, (whole, whole)),
]:
    count = counted(applied(fn, *args), *args)
    print(f"{name:16} {count['VPU']:4} VPU operations for one register")

# %% [markdown]
# The VPU cannot divide integers, so the compiler writes out the division bit by bit, which takes more operations than
# two sines. `n // 8` becomes a division that rounds toward zero, and a correction for negative integers, while `n >> 3`
# rounds down by itself, in one operation.
#
# Some functions are not accepted at all:

# %%
for name, fn in [("cumsum", lambda x: jnp.cumsum(x, axis=0)), ("sort", jnp.sort)]:
    report = compiler.compile_tpu(applied(fn, register), register)
    print(f"{name}: {'compiles' if report.ok else text.folded(str(report.error))}")

# %% [markdown]
# ### Further reading
#
# - A [block diagram of a TPU v4](https://docs.cloud.google.com/static/tpu/docs/images/tpu-v4-layout.png) from Google's
#   documentation shows two TensorCores, each with MXUs, a vector and a scalar unit, and the HBM beside them. It is the
#   picture of the core from above, drawn by those who built the chip. JAX's page ["Writing TPU kernels with
#   Pallas"](https://docs.jax.dev/en/latest/pallas/tpu/details.html) shows the board.
# - "The Design Process for Google's Training Chips: TPUv2 and TPUv3" (IEEE Micro, 2021) explains why there is a vector
#   unit between the MXU and the memory.
# - "A Domain-Specific Supercomputer for Training Deep Neural Networks" (Communications of the ACM, 2020) describes the
#   same chips, and the network between them.
# - "Ten Lessons From Three Generations Shaped Google's TPUv4i" (ISCA, 2021) is about VMEM, and about what a compiler
#   needs of a machine.
# - "TPU v4: An Optically Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings" (ISCA,
#   2023) is about links that are switched by mirrors, and about SparseCores.
# - The chapter ["How to Think About TPUs"](https://jax-ml.github.io/scaling-book/tpus/) of "How to Scale Your Model"
#   gave us the idea for exercises 02.2 and 02.4.
#
# <!-- next -->
