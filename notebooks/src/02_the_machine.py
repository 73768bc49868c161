# %% [markdown]
# # Lesson 2: The machine
#
# *60 minutes, then 59 for the exercises. What stands under "Further" at the end is extra: 35 minutes. You need lesson 1 and
# no TPU. Nothing here is timed on a chip: what a TPU adds is that the kernels run on it.*
#
# Below is one kernel, a softmax of each row of a table. It takes the rows of its block in turns, and an argument says how
# many rows make a turn. We call it twice: with 8 rows in a turn, and with 512.
#
# Both do the same arithmetic on the same numbers, move the same bytes in the same blocks, and return the same result. By the
# compiler one of them takes many times as long as the other. **Which one, and how many times?** Write down a guess, and one
# sentence why. Then run the cells.
#
# After this lesson you can
# - name the parts of a TPU core, and say which of them an operation uses,
# - read the program that the compiler made of your kernel, bundle by bundle,
# - say what goes on in the background, and how much of it a kernel needs to keep busy,
# - say how much each memory holds, how fast it is, and how long it takes to answer,
# - read a report, name what binds, and say what to change.

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
    """The softmax of each row: blocks of 1024 rows, ``rows`` of them in a turn."""

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
    print(f"{rows:3} rows in a turn: {report.seconds * 1e6:6.1f} us, predicted (compiler)")
print(f"{few.seconds / many.seconds:.0f} times as long")

# %% [markdown]
# (`fori_loop` is a loop whose turns run one after another. `pl.ds(start, size)` names so many rows from a start on;
# `pl.multiple_of` promises the compiler what the start is a multiple of.)
#
# Nothing in the few lines of `turn` looks slow. To see what is, you have to know the machine: what its parts are, which of
# them your operations go to, and which of them makes you wait.
#
# ## One core, in one picture
#
# A TPU chip has one core or two, and a core runs your kernel. Here is one, with its memories. Every later lesson comes back
# to this picture. **Look for one thing:** what way does a number go from HBM to an addition, and back?

# %%
viz.core_picture()

# %% [markdown]
# From HBM to VMEM by a copy, from VMEM to a register by a load, from there to the VPU. There is no shorter way: numbers
# from memory reach the units of a core only through registers.
#
# > **core**: what runs a kernel: the units below, with their registers and memories. A TPU's is called TensorCore.
# >
# > **MXU**: the units of a TPU that multiply matrices. Nothing else on the chip computes nearly as fast.
# >
# > **VPU**: the unit for most else on vectors: add, multiply, compare, select.
# >
# > **EUP**: the unit for exp, tanh, log, and for a first guess of 1/x.
# >
# > **XLU**: the unit that moves numbers between lanes: sums and maxima along a row, transposes, rotations.
# >
# > **scalar unit**: the unit for single numbers: addresses, counters, conditions. It also starts copies.
# >
# > **SMEM**: the TPU's memory for single numbers. On a GPU the same four letters mean shared memory, which is
# > something else.
#
# The registers are very wide. That is the main thing to know about them.
#
# > **lane**: one of the 128 columns of a vector register.
# >
# > **sublane**: one of the 8 rows of a vector register.
# >
# > **vreg**: short for vector register: 8 sublanes of 128 lanes, 4 KiB. The lists of the compiler call them v0 to v63.
#
# A TPU is a sequential machine with very wide registers. A core runs one program, one bundle after the other. There are no
# threads. What makes it fast is that each instruction works on 1024 numbers, and that several units get an instruction in
# the same cycle.
#
# ## Which unit does what?
#
# **Predict first.** Here are ten operations on a block of 128 x 128 numbers. For each write down a unit: VPU, EUP, XLU or
# MXU. Some need two.
#
# `x + 1`, `where(x > 0, x, 0)`, `tanh(x)`, `exp(x)`, x plus the sum of each column, x plus the sum of each row, x times
# its first column, `pltpu.roll(x, 1, 0)`, which moves all rows down by one, `x.T`, `x @ x`
#
# The next cell reads the answer off the programs that the compiler makes.


# %% tags=["predict"]
def applied(fn, *args):
    """A kernel that applies ``fn`` to whole arrays."""

    def kernel(*refs):
        *inputs, o_ref = refs
        o_ref[...] = fn(*(ref[...] for ref in inputs))

    return pl.pallas_call(kernel, out_shape=jax.eval_shape(fn, *args))


def counted(kernel, *args, chip="v5e"):
    """{unit: operations} of the program that the compiler makes of a kernel."""
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
print(f"{'operations of the':22}" + "".join(f"{unit:>7}" for unit in units))
for name, fn in operations.items():
    count = counted(applied(fn, f32(128, 128)), f32(128, 128))
    print(f"{name:22}" + "".join(f"{count[unit] or '':>7}" for unit in units))

# %% [markdown]
# A block of 128 x 128 numbers fills 16 registers. So 16 in a column is one operation for each register.
#
# - A `where` is two of the VPU: a comparison and a choice.
# - exp is 2^x on the EUP, and a multiplication of the VPU before it, because exp(x) is 2^(x log2 e).
# - The sum of each *column* is the VPU's: registers are added to registers, lane by lane, and a few operations bring the 8
#   sublanes together. The sum of each *row* has to bring 128 lanes together, and that is the XLU's.
# - A column has one number for each row, which has to get from one lane to all: the XLU again. To roll down by a row is a
#   matter of sublanes, and the VPU's.
# - EUP, XLU and MXU have a companion in the column *pop*.
#
# > **pop**: the instruction that fetches a result from the EUP, the XLU or the MXU, once it is there.
#
# ## A bundle, slot by slot
#
# Here is the program for `2 * exp(x)` on two registers. Each row is a bundle: what the units begin in one cycle. Click a
# row, or use the arrow keys: below the table stand its instructions, and the line of the kernel that they come from.
#
# > **slot**: a place in a bundle for one instruction of one unit.
# >
# > **issue**: to hand a bundle to the units. A core issues one a cycle, in order, and waits where a result is missing.
#
# **Look for three things:** where the copy from HBM is started, where it is waited for, and how many bundles lie between
# the load of a register and the first instruction that uses it.


# %%
def double_exp_kernel(x_ref, o_ref):
    o_ref[...] = 2 * jnp.exp(x_ref[...])


def double_exp(x):
    return pl.pallas_call(double_exp_kernel, out_shape=x)(x)


viz.bundle_viewer(double_exp, f32(16, 128))

# %% [markdown]
# Read the middle. Both registers are loaded in bundle 6, and multiplied in bundle 7. The two multiplications by 1.44 stand
# in one bundle, since the VPU has several slots. The two powers go to the EUP, one a bundle: it has one. Two bundles later
# the first is popped, and multiplied by our 2. (The dot beside it: the EUP gets its work through a slot of the VPU.)
#
# Around it stand the copies. The scalar unit works out addresses, starts a copy, `dma`, and waits for it, `dma.done.wait`.
# A wait is one bundle too, though it takes hundreds of cycles: **bundles are not cycles. A bundle that needs what is not
# there yet stands still, and the core with it.**
#
# > **DMA**: a copy between memories that runs while the core goes on; also the unit that makes it.
#
# Now your own kernel: change `double_exp_kernel`, and run the cell again.
#
# How many slots does a bundle have?

# %%
for name in ("v5e", "v6e"):
    offered = compiler.bundles(double_exp, f32(16, 128), chip=name).offered
    print(f"{name}:", ", ".join(f"{unit} {slots}" for unit, slots in offered.items()))

# %% [markdown]
# On a v5e: four operations of the VPU, three loads, a store, and more. Each is on 1024 numbers, and all of them are in one
# cycle. So a bundle can do a lot. In most kernels it does little.
#
# ### Free arithmetic
#
# To copy 256 registers takes 256 loads and 256 stores. A bundle has one slot for stores, so it takes 256 bundles, and the
# slots of the VPU are empty meanwhile.
#
# **Predict first.** A kernel copies 256 registers and multiplies each n times on the way. From which n on does it take
# longer than the copy? How much longer does each further multiplication make it?


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
axes.set(xlabel="multiplications for each number", ylabel="cycles more than a copy")
axes.set_title("256 registers, predicted (compiler)")
viz.plot_picture(fig, "Flat up to four multiplications, then a straight line.")

# %% tags=["predict"]
for n in (4, 6, 12):
    print(f"{n:2} multiplications: {cycles[n] - cycles[0]:4} cycles more than a copy")
tanh_and_four = compiler.compile_tpu(applied(lambda x: times(jnp.tanh(x), 4), big), big)
print(f" 4 and a tanh: {tanh_and_four.cycles - cycles[0]:9} cycles more than a copy")

# %% [markdown]
# The first four cost next to nothing. From the fifth on each costs 64 cycles: 256 registers, four a cycle.
#
# **A register takes at least the largest of: stores, loads / 3, operations of VPU and EUP together / 4, operations of the EUP.**
#
# (An operation of the EUP takes a slot of the VPU as well.) That is for a v5e, and a floor: a tanh with four multiplications
# is five operations, by the rule 64 cycles more than a copy, and takes more than twice that. All of it is without waiting.
# Now the waiting.
#
# ## How long until the answer is there?
#
# EUP, XLU and MXU work in the background: asked in one bundle, popped in a later one. How long does an answer take? And how
# soon can one ask again? These are two questions.
#
# > **latency**: how long an answer takes, however little was asked for: of a unit, or of a memory.
#
# Take an operation of each unit, on one register; for the MXU, 8 x 128 numbers times 128 x 128 weights. First as a chain,
# where each needs the result of the one before. Then on registers of their own, where none needs another. We compile 8 of
# them and 24, and divide the difference by 16, so that the copies around them drop out. **Predict first:** which unit is
# the slowest to answer?


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
    """Cycles for each further ``op``, predicted (compiler)."""
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
    "MXU, product": times_weights,
}
print("cycles for one more   in a chain   side by side")
for name, op in one_of_each.items():
    print(f"{name:20}{each(chained, op):12.1f}{each(side_by_side, op):15.1f}")

# %% [markdown]
# XLU and MXU take more than a hundred cycles to answer. But they take new work long before: side by side, a further row sum
# costs less than three. With dozens of row sums to ask for, a program asks for all of them, and then begins to pop. With
# one, it waits.
#
# **The core does not look for other work while it waits.** It issues in order. It is the compiler that puts other work
# between a request and its pop, and it takes it from the same turn: a `fori_loop` is a loop in the program too, and its
# next turn begins when this one is done.
#
# ### Who is guilty?
#
# Back to the opening. With 8 rows a turn has one register. Here is its loop. **Look for two things:** the two requests to
# the XLU, `vmax.xlane` and `vadd.xlane`, and the vector work that stands between each of them and its pop.

# %%
viz.bundle_viewer(functools.partial(softmax, rows=8), table)

# %% [markdown]
# There is none. The loop asks for a maximum and waits, then asks for a sum and waits. With 512 rows it asks for 64 maxima
# one after another, and by the last of them the first is there.
#
# If that is the reason, two things should be seen. A kernel in which nothing crosses lanes should be several times as fast
# at 8 rows. And the time of `softmax` should halve with every doubling of the rows, as long as the waiting rules. Take the
# cause away:


# %%
def without_lanes(x, rows):
    """As ``softmax``, but max and sum are taken along the columns of the turn, for which the VPU is enough."""

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
print("rows in a turn      " + "".join(f"{rows:>8}" for rows in turns))
for name, fn in [("softmax", softmax), ("without lanes", without_lanes)]:
    found = [
        compiler.compile_tpu(functools.partial(fn, rows=r), table).cycles / 8 for r in turns
    ]
    print(f"{name:20}" + "".join(f"{c:8,.0f}" for c in found))

# %% [markdown]
# Along the columns the slow call is more than four times as fast. What is left of the difference is what each turn costs by
# itself: the loop, the EUP, the long way from a load to its store. Along the rows each doubling nearly halves the time,
# until the copies of the block take longest. So the XLU's latency is guilty, and the cure is **more independent work
# between a request and its pop**.
#
# The report says so as well. Where do the cycles of the slow one go?

# %%
print(few)

# %% [markdown]
# *time goes: XLU* is time in which the core waits for the XLU. The *slots* line says that the unit itself has little to do.
# (Its shares are of the whole program, those of the viewer of the loop alone.)
#
# ## Why the MXU wants many rows
#
# The MXU is the extreme case. It holds 128 x 128 weights, one in each cell, and they stay. The rows of x march in from the
# left, sums move down, and results come out below. Press *Play* at a small one. **Look for one thing:** in how many of the
# cycles do all of the 16 cells work?

# %%
viz.systolic_stepper(rows=4, columns=4)

# %% [markdown]
# At the beginning the array fills, at the end it empties, and only in between all of it works. The more rows x has, the
# longer that is. There is a second cost, which the picture leaves out: the weights have to be pushed into the cells first.
# So one row costs nearly as much as many.
#
# **Predict first.** x[M, 512] @ w[512, 512] in bfloat16, everything in VMEM already. How much longer do 32 rows take than
# 8? And 256 than 32?


# %% tags=["predict"]
def product(x, w, steps):
    """The same product at every step: the blocks stay, so nothing is copied between the steps."""

    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    shapes = (x.shape, w.shape, (x.shape[0], w.shape[1]))
    *inputs, out = [pl.BlockSpec(shape, lambda i: (0, 0)) for shape in shapes]
    return pl.pallas_call(
        kernel, out_shape=f32(*shapes[2]), grid=(steps,), in_specs=inputs, out_specs=out
    )(x, w)


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


print("predicted (compiler)   cycles a product   pushes of weights   registers fed in")
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
# Eight rows cost nearly what 32 cost: the weights are pushed as often for 8 rows as for 256, and the way through the array is
# as long. From 64 on each further row costs the same.
#
# How near is that to the best there is? For that we need words for amounts and for rates.
#
# > **FLOPs**: an amount of work: so many additions and multiplications of numbers.
# >
# > **FLOP/s**: a rate: so many FLOPs in a second.
# >
# > **peak**: the FLOP/s of the MXU if nothing else gets in the way.
# >
# > **bandwidth**: the bytes that can pass in a second, between HBM and VMEM if nothing else is said.

# %%
v5e = chips.chip("v5e")
cells = v5e.mxus * v5e.mxu_size**2
print(f"{v5e.mxus} MXUs of {v5e.mxu_size} x {v5e.mxu_size} cells: {cells:,} in all")
print(f"a multiplication and an addition in each, {v5e.clock_hz / 1e9:.1f} GHz:", end=" ")
print(f"{2 * cells * v5e.clock_hz / 1e12:.0f} TFLOP/s")
at_peak = 256 * 512 * 512 / cells
print(
    f"256 rows at the peak: {at_peak:,.0f} cycles, {at_peak * 16 / (b - a):.0%} of those above"
)

# %% [markdown]
# ## The ladder of memories
#
# HBM is never computed on. A copy brings what you need into VMEM, in the background, and with a BlockSpec Pallas writes
# that copy for you. How long does one take? Here is a kernel that makes its own: it copies `times` pieces, one after
# another or all at once. (Lesson 5 is about such kernels; skip the code if you like.)
#
# **Predict first:** HBM brings 546 bytes a cycle. How many cycles does a copy of 4 KiB take? And one of 1 MiB? We take the
# difference between two copies and one, so that what stands around them drops out.


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
# More than a thousand cycles are latency, whatever the size. The XLU took a hundred. A kernel waits for HBM unless it asks
# early. Pallas does: with a grid it asks for the next block before it works on this one.
#
# Here are all the memories that a number can lie in. From registers to VMEM to HBM each step is larger, slower and
# farther away, and another chip is farther still. SMEM stands beside them: it is near, and narrow. **Look for two things:** between which two of
# them does the bandwidth fall most? And which figures change on other chips?

# %%
viz.memory_ladder(chip="v5e")

# %% [markdown]
# The letters say whose a figure is. Where nobody has published one, the picture says so. The bandwidth falls most from VMEM
# to HBM, more than twenty times. On other chips all the rates and sizes change, except the register of 8 x 128.
#
# Chips are wired to each other.
#
# > **ICI**: the network between TPU chips: wires from each chip to its neighbours, through which one chip's core can write into
# > another's memory.
#
# The book ["How to Scale Your Model"](https://jax-ml.github.io/scaling-book/) gives 45 GB/s for a link of a v5e in each
# direction, and about 1 us for a hop. Exercise 02.4 sends something.
#
# ## One number at a time
#
# The scalar unit has registers and a memory of its own, for numbers of 32 bits. What goes there? `x + 1`, once for an array
# without axes, read from SMEM, and once for an array of shape (1, 1) in VMEM:


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
# An array in VMEM is the vector units' business, even if it has one element. A number without axes, as `x_ref[0]` is, is the
# scalar unit's, all but what that unit cannot do, such as exp.
#
# So SMEM is for what decides: indices, lengths, flags, the number of a step. It is not for data: it gives one number at a
# time, VMEM a register. (How much slower that is stands under *Further*.)
#
# ## Read a report
#
# `compiler.compile_tpu(fn, *args)` returns a report. Ask it four questions, in this order.
#
# (A report takes the longer of two times: the simulator's cycles, and the bytes at full speed. The simulator does not know
# that all copies share one bandwidth; *Further* shows it.)
#
# | ask | look at | if so, change |
# |---|---|---|
# | Do the bytes take longer than the cycles? | *bound by HBM* | fewer bytes: a narrower dtype, fewer operands, fusion; larger blocks only where a block is read again |
# | Does the core wait for copies? | *bound by waiting for copies*; *DMA wait* of *time goes* | in a grid of many small steps larger blocks, or more buffers; in a grid of one step, more steps |
# | Does it wait for a unit? | *XLU*, *MXU* or *EUP* of *time goes* | more independent work in a turn: more rows at a time |
# | Is it busy? | *issue* of *time goes*; the fullest of the *slots* | less work for that unit: another operation, another axis |
#
# In *time goes*, *issue* are the cycles in which the core issues vector instructions, and waits for nothing.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel adds 1 to every number of a block in VMEM. You make it multiply by 2 as well. How much longer does it
# take?</summary>
# No longer: a register's store takes a slot that is there once a bundle, and the VPU has four.</details>
#
# <details><summary>2. Which is dearer on a TPU, an exp or a sum along a row?</summary>
# With rows of one register: side by side, an EUP operation costs a cycle and a row sum two or three; in a chain, a few cycles against more
# than a hundred. The sum, both times.</details>
#
# <details><summary>3. A GPU hides latency by switching to other threads. What hides it here?</summary>
# Other work of the same program: independent registers in the same turn, placed between request and pop by the compiler, and
# copies for the next block that were started early.</details>
#
# <details><summary>4. Where is the number 3.0, if your kernel says <code>x_ref[...] * 3.0</code>? And if it says
# <code>x_ref[...] * s_ref[0]</code>, with s_ref in SMEM?</summary>
# In the instruction itself, or a register that holds it 1024 times. From SMEM it comes to the scalar unit, and is spread
# over a vector register.</details>
#
# <details><summary>5. A kernel reads each byte once. Its report says "DMA wait 85 %, bound by HBM". Do larger blocks help?</summary>
# No. The bytes at full speed take longer than all of the cycles, waiting included. Fewer bytes help.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 2](../exercises/02_the_machine.ipynb). If you have time for one only, take 02.6: three
# reports, three cures.

# %% [markdown]
# ## Further
#
# Numbers one by one and of 16 bits, what the simulator does not know, the chips side by side, spills, what the hardware has
# not, and what has been written about it.
#
# ### Numbers one by one
#
# SMEM gives one number of 32 bits at a time, from any place. VMEM gives a register at a time, 4 KiB. **Predict first:** how
# many times longer does it take to add up numbers one by one?


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
print(f"a number from SMEM: {scalar:.1f} cycles; from VMEM: {vector:.5f}")
print(f"{scalar / vector:,.0f} times, predicted (compiler), waiting for copies left out")
print(f"from SMEM without the loop: {alone:.1f} cycles, {alone / vector:,.0f} times")

# %% [markdown]
# A part of that is the loop. The rest is the width of a register: one number costs what a register of them costs.
# A bundle has two slots for the scalar unit, so at its best it does three operations in a nanosecond. That is
# less than one core of a CPU does, says the JAX team's article.
#
# One thing SMEM can do and VMEM cannot: give a number from any place. Where does VMEM begin?


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
    print(text.folded(f"{name} from any place on: {said}"))

# %% [markdown]
# Rows from any row on, lanes from a multiple of 128 on, if the place is known only while the kernel runs.
#
# ### Numbers of 32 bits
#
# A lane is 32 bits wide. Two bfloat16 share one, and a load brings both. But the VPU of a v5e adds, multiplies and compares
# numbers of 32 bits only.
# How many operations is `x + y` then, for 1024 numbers?

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
            f"{chip}, {jnp.dtype(dtype).name:8}: {count / 64:4.1f} VPU operations for 1024 numbers"
        )

# %% [markdown]
# On a v5e both operands are widened to float32, added, and packed again. Bytes are saved, arithmetic is not. The VPU of a
# v6e adds bfloat16 as it is, two in a lane.
#
# ### What the simulator does not know
#
# All cycles on this page are predicted (compiler). The simulator knows the program to the last bundle. It does not know all
# of the chip. One gap you can see for yourself: eight copies of 1 MiB, one after another, and all at once.

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
# Eight at once take hardly longer than one, by the simulator. They cannot: the memory has one bandwidth, and all share it.
# So a report takes the longer of two times: the simulator's cycles, and the bytes at full speed.
#
# There are more gaps.
#
# - **Data.** The simulator does not know what is in memory, and takes an unknown scalar for 0. Where a `pl.when` asks for a number in
#   SMEM, it may count the wrong branch.
# - **Short copies.** To published timings of kernels with small blocks a latency of 0.5 us fits (lesson 3), where the
#   simulator has 0.76.
# - **Heat, the other core, the host** are not in it.
#
# ["Reading a report of the compiler"](../docs/compiler.md) has the list. What is certain is which instructions your kernel
# became.
#
# ### Five chips, and two GPUs
#
# A vendor's page prints the whole chip. A kernel runs on one core. JAX knows the core:

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
# The peak is for bfloat16, and 17.2 GB are 16 GiB. Left out is a memory on the v4's chip that both of its cores share, CMEM:
# JAX knows it by name and has no figure for it. The two cores of a v4 or a v5p look like one device; those of a
# tpu7x are two devices. For the v5p JAX has 2460 GB/s, where Google's page says 2765; this course takes JAX's.
#
# And whole chips. The GPUs' figures are from NVIDIA's data sheets of the H100 and H200 (SXM), without sparsity, and its
# Hopper tuning guide. What lies on the chip is VMEM here; there it is registers and shared memory of 132 SMs, and a cache.

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
# The chips differ in size by a factor of ten, and most in how the work is cut: one or two wide cores here, 132 small ones
# there, which hide latency by switching threads.
#
# Does a peak follow from the cells? On a v5e it did: two FLOPs a cell and cycle. **Predict first:** at which clock would a
# v6e reach its peak so? The next cell divides, and asks the simulator what further rows of a product cost.


# %% tags=["predict"]
def flops_of_a_cell(chip):
    """FLOPs of a cell in a cycle, predicted (compiler), of further rows of a product."""
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
# The first two come out at the clocks that are published, 1.5 and 1.75 GHz. For v6e and tpu7x the simulator has twice the
# FLOPs that so many cells make, and we know of no page that says why, or at which clock they run. So this course gives
# cycles for those two, and no clock.
#
# ### Are spills a reason to worry?
#
# A spill is a store, and later a load: a *fill*. The softmax once more, with more and more rows in a turn. Its copies take
# longer than its work there, and would hide what spills cost. So here the block stays, and nothing is copied between steps:


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
# Two hundred spills, and it is faster still: twice as many rows in a turn save more than the spills cost. So a spill is not
# a fault by itself. Look at the time, and at the slots for loads and stores: here more than half of them are empty. And
# look at VMEM, for that is where spilled registers lie.
#
# ### Emulated
#
# "If a kernel is accepted by the compiler, it must return the expected results", says JAX's page on TPU kernels, and also:
# what is unnatural to the hardware may be emulated in software, and slow. TPU kernels are called experimental there, and
# only a part of `jax.numpy` is accepted. What does emulation look like? Divide whole numbers.

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
# There is no division of whole numbers on the VPU. The compiler writes one, bit by bit: more than two sines. `n // 8` is
# a division towards zero, and then a correction for negative numbers; `n >> 3` rounds down by itself, in one operation.
#
# Not accepted at all:

# %%
for name, fn in [("cumsum", lambda x: jnp.cumsum(x, axis=0)), ("sort", jnp.sort)]:
    report = compiler.compile_tpu(applied(fn, register), register)
    print(f"{name}: {'compiles' if report.ok else text.folded(str(report.error))}")

# %% [markdown]
# ### To look at, and to read
#
# - A [block diagram of a TPU v4](https://docs.cloud.google.com/static/tpu/docs/images/tpu-v4-layout.png), from Google's documentation:
#   two TensorCores, each with MXUs, a vector and a scalar unit, and the HBM beside them. It is the picture from above, drawn by those
#   who built it. JAX's page ["Writing TPU kernels with Pallas"](https://docs.jax.dev/en/latest/pallas/tpu/details.html) shows the
#   board.
# - "The Design Process for Google's Training Chips: TPUv2 and TPUv3" (IEEE Micro, 2021): why there is a vector unit between the
#   MXU and the memory.
# - "A Domain-Specific Supercomputer for Training Deep Neural Networks" (Communications of the ACM, 2020): the same chips, and the
#   network between them.
# - "Ten Lessons From Three Generations Shaped Google's TPUv4i" (ISCA, 2021): VMEM, and what a compiler needs of a machine.
# - "TPU v4: An Optically Reconfigurable Supercomputer for Machine Learning with Hardware Support for Embeddings" (ISCA, 2023):
#   links that are switched by mirrors, and SparseCores.
# - "How to Scale Your Model", chapter ["How to Think About TPUs"](https://jax-ml.github.io/scaling-book/tpus/): exercises 02.2 and 02.4 owe
#   it their idea.
#
# <!-- next -->
