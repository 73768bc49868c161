# %% [markdown]
# # Lesson 6: Layout and the price of an op
#
# *60 minutes, then 53 for the exercises. What stands under "Further" at the end is extra: 35 minutes. You need lesson 2,
# of lesson 4 the rule of blocks, and no TPU: every price here is the compiler's.*
#
# Here are 1,024 numbers, and a kernel that adds 1 to each. Below it does so four times. Only the shape of the array
# differs: (8, 128), (128, 8), (1024, 1) and (1024, 1, 1). The numbers are the same, and so are the additions.
#
# By the compiler one of the four takes a thousand times as long as another. **In which order do they come?** Write the
# four shapes down, the cheapest first, and between neighbours a factor. Then run the cells.

# %%
# FIRST CELL

# %%
import functools
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, grid, text, viz


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def plus_one(x):
    return x + 1


SHAPES = ((8, 128), (128, 8), (1024, 1), (1024, 1, 1))
prices = {shape: compiler.op_cost(plus_one, array(*shape)) for shape in SHAPES}
for cycles in sorted(price.cycles for price in prices.values()):
    print(f"one of the four: {cycles:6,.0f} cycles, predicted (compiler)")

# %% [markdown]
# `compiler.op_cost(f, x)` asks for the price of an operation.
#
# > **price of an operation**: the cycles that one more application takes in a kernel, beside others of its kind, with
# > its loads and its store. All operands lie in VMEM: no copy is counted.
#
# It is what many such operations cost each, not how long one alone takes. `price.slots` counts its instructions, unit by
# unit. All prices on this page are cycles of a v5e, predicted (compiler), if nothing else is said.
# [A page of the course](../docs/op_costs.md) has some 80 more.
#
# After this lesson you can
# - say how many registers an array takes, and how much of them is empty,
# - tell a cheap operation from a dear one before you write it, and find a cheaper one,
# - choose the axis along which you sum,
# - say which reshapes, transposes and slices are free, which cost, and which are refused,
# - say what narrow numbers save, and what they cost.
#
# ## The last two axes are a register
#
# Here is an array in its registers. **Before you type, predict:** how many registers do the four shapes of the opening
# take? Type them one after another. Then find two shapes of 1,000 float32 numbers that fit into one register.

# %%
viz.tile_painter((20, 200))

# %% [markdown]
# The painter only counts. Is it right? The program tells, because it loads each register of float32 once. (A few flat
# rows of bfloat16 or int8 may take more loads than registers.) **Predict two more:** how many registers take (3, 300) and
# (12, 4, 128)?

# %% tags=["predict"]
for shape in (*SHAPES, (3, 300), (12, 4, 128)):
    price = prices.get(shape) or compiler.op_cost(plus_one, array(*shape))
    registers = grid.registers(shape, jnp.float32)
    print(
        f"{shape!s:14} painted {registers:5,}, loaded {price.slots['load']:6,.0f},", end=""
    )
    print(f" {price.cycles:6,.0f} cycles")

# %% [markdown]
# **The opening is answered: 1, 16, 128 and 1,024 cycles, a cycle for each register.** A register of (1024, 1, 1) holds one
# number. The other 1,023 sums are made as well, and thrown away.
#
# > **The last axis goes to the lanes and is rounded up to 128. The one before goes to the sublanes and is rounded up to 8.
# > Each index of the axes before these begins registers of its own.**
#
# Keep the last two axes large, above all the last, and let the axes in front be short: an array of shape (n, 1, 1)
# takes n registers.
#
# An array of 1, 2, 3 or 4 rows is rounded up to 1, 2, 4 or 4 rows, not to 8. Such flat tiles, side by side in a row,
# share a register: (3, 300) has three tiles of 4 x 128, and so 2 registers. Two slices of a leading axis never share one,
# so (12, 4, 128) has 12.
#
# And narrow numbers share a lane. **Predict the cycles** of a copy of (32, 256) in float32, in bfloat16 and in int8.


# %% tags=["predict"]
def same(x):
    return x


for dtype in (jnp.float32, jnp.bfloat16, jnp.int8):
    price = compiler.op_cost(same, array(32, 256, dtype=dtype))
    print(
        f"a copy of {price.registers} registers of {jnp.dtype(dtype).name:8}: {price.cycles:.0f} cycles"
    )

# %% [markdown]
# A register holds 16 x 128 numbers of bfloat16, two tiles of 8 rows, and 32 x 128 of int8. A quarter of the bytes is a
# quarter of the cycles, as long as nothing is computed and the rows fill the register.
#
# ## In HBM, too
#
# Registers are filled from VMEM, and VMEM from HBM. A kernel's blocks lie there in the same tiles. Take 1,048,576 numbers
# of float32, 4.2 MB. A kernel doubles them, so 8.4 MB have to be moved. **Predict:** how many does it move if the numbers
# come as a column, (1048576, 1)? As a row, as (8192, 128), as a vector of one axis? And the row, of bfloat16?


# %% tags=["predict"]
def doubled(x, block, index):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec(block, index)
    steps = x.size // math.prod(block)
    return pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[spec], out_specs=spec
    )(x)


many, f32 = 2**20, jnp.float32
print("                                    MB: kernel   its numbers   copies by XLA")
for shape, block, index, dtype in (
    ((many, 1), (4096, 1), lambda i: (i, 0), f32),
    ((1, many), (1, 32768), lambda i: (0, i), f32),
    ((many // 128, 128), (256, 128), lambda i: (i, 0), f32),
    ((many,), (32768,), lambda i: (i,), f32),
    ((1, many), (1, 32768), lambda i: (0, i), jnp.bfloat16),
):
    x, call = (
        array(*shape, dtype=dtype),
        functools.partial(doubled, block=block, index=index),
    )
    report = compiler.compile_tpu(call, x, simulate=False)
    kernel = sum(op.hbm_bytes for op in report.ops if op.kind == "kernel")
    numbers = 2 * x.size * x.dtype.itemsize
    copied = report.hbm_bytes - kernel
    print(f"{x.dtype.name:9}{shape!s:13} in blocks of {block!s:12}", end="")
    print(f"{kernel / 1e6:7.1f} {numbers / 1e6:10.1f} {copied / 1e6:14.1f}")

# %% [markdown]
# A column's kernel moves 128 times its numbers: in HBM each row is padded to 128 lanes. Here XLA adds two copies besides,
# which "Further" explains. (A short column, such as 8,192 numbers, XLA lays into VMEM: then these copies are all there
# is.) A single row is padded in 16 bits, to two rows, and not in 32. (8192, 128) and a vector of one axis are not padded
# at all.
#
# > **Do not keep a vector as a column. Keep it as (n,) or (n / 128, 128), or, of 32 bits, as a row, (1, n).**
#
# Statistics of rows, one number each, are where this bites: a mean, a maximum, the sum of a softmax.
#
# ## A list of prices
#
# JAX's page on [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) sorts the operations on
# every element into three classes. Cheap are `+ - *`, max, min, where, abs, the operations on bits, comparisons and
# casts. Medium are `/ // %`, exp, tanh and pow. Expensive are sin and cos.
#
# **Predict first.** Of the medium ones, two cost no more than an addition, and two, of whole numbers, cost more than a sine.
# Which? Here is each operation of that list, and some more, priced for three chips. (Try int32.)

# %% tags=["predict"]
viz.cost_bars(compiler.op_prices())

# %% tags=["predict"]
kept = compiler.op_prices()
for name, column in (
    ("x + y, x - y", "f32, v5e"),
    ("exp(x)", "f32, v5e"),
    ("tanh(x)", "f32, v5e"),
    ("x / y", "f32, v5e"),
    ("x / y", "f32, v6e"),
    ("sin(x)", "f32, v5e"),
    ("x % y", "int32, v5e"),
    ("x // y", "int32, v5e"),
):
    print(f"{name:12} {column:11}{kept.rows[name].cycles[column]:5.1f} cycles")

# %% [markdown]
# As cheap as an addition are exp and tanh. Dearer than two sines are `//` and `%` of whole numbers. So look a price up,
# for your chip and your dtype: on a v6e x / y is as cheap as exp.
#
# Where does a price come from? Lesson 2 had the rule: the largest of stores, loads / 3, VPU / 4, and EUP. An
# operation of the EUP takes a slot of the VPU, too, and is counted in both columns.
#
# Below is the rule beside the price. A division begins with a first guess of 1 / y, by the EUP, and fourteen operations
# follow. **Predict:** what does it cost if the guess is left as it is? And if you make it better by hand, with one step
# of Newton's?


# %% tags=["predict"]
def by_rule(price):
    slots = {unit: price.slots.get(unit, 0) for unit in ("store", "load", "VPU", "EUP")}
    return max(slots["store"], slots["load"] / 3, slots["VPU"] / 4, slots["EUP"])


def newton(x, y):
    guess = pltpu.reciprocal(y, approx=True)
    return x * (guess + guess * (1 - y * guess))


x, n = array(64, 128), array(64, 128, dtype=jnp.int32)
LISTED = {
    "x + y": (jnp.add, x, x),
    "exp(x)": (jnp.exp, x),
    "x / y": (jnp.divide, x, x),
    "x * approximate 1 / y": (lambda x, y: x * pltpu.reciprocal(y, approx=True), x, x),
    "x / y, Newton by hand": (newton, x, x),
    "exp2(y * log2(x))": (lambda x, y: jnp.exp2(y * jnp.log2(x)), x, x),
    "x + 2 x^2 + 3 x^3 + 4 x^4": (lambda x: x * (1 + x * (2 + x * (3 + 4 * x))), x),
    "sigmoid(x)": (jax.nn.sigmoid, x),
    "0.5 tanh(0.5 x) + 0.5": (lambda x: 0.5 * jnp.tanh(0.5 * x) + 0.5, x),
    "n // 60": (lambda n: n // 60, n),
    "n // 8": (lambda n: n // 8, n),
    "n >> 3": (lambda n: n >> 3, n),
    "relu(x)": (jax.nn.relu, x),
}
print("for one register           price   by the rule   VPU   EUP")
for name, (fn, *args) in LISTED.items():
    price = compiler.op_cost(fn, *args)
    each = price.registers
    vpu, eup = (price.slots.get(unit, 0) / each for unit in ("VPU", "EUP"))
    print(f"{name:25}{price.of_a_register:7.2f}", end="")
    print(f"{by_rule(price) / each:14.2f}{vpu:6.0f}{eup:6.0f}")

print("for one register         x / y   Newton by hand")
for chip in ("v5e", "v5p", "v6e"):
    pair = [compiler.op_cost(f, x, x, chip=chip) for f in (jnp.divide, newton)]
    print(f"{chip:22}{pair[0].of_a_register:8.2f}{pair[1].of_a_register:17.2f}")

# %% [markdown]
# An exp is a product and one operation of the EUP. Both fit beside the load and the store that are needed anyway. The
# rule counts slots, so it is a lower bound: where the EUP works beside many operations of the VPU, as in Newton by hand,
# the schedule may be longer.
#
# The guess times x, and nothing else, costs what a copy costs. A step of Newton's, four operations more, squares the
# error of the guess, and with it half the price of the division is reached. The other half is for zeros, infinities, NaN
# and numbers at the ends of float32's range. If y lies well inside of it, write the step yourself on a v5e or a v5p. On a
# v6e do not: there the division of float32 is a guess and one product, and Newton by hand makes it slower. (How exact
# that division is, only a v6e can tell.)
#
# - **A power of an array** is dear, for it has to be exact, for all numbers. If x is above 0, take exp2(y log2(x)): two
#   operations of the EUP, two cycles. It is less exact, and the more so the larger y log2(x) is. A constant whole power above 0
#   is a few products.
# - **An array of whole numbers cannot be divided by another** by any unit: the compiler writes a long division, bit by bit.
#   By a constant it multiplies, as in `n // 60`. By a power of two shift and mask: `n >> 3` is `n // 8` and `n & 7` is
#   `n % 8`, for negative numbers too.
# - **A sine** has no unit either. It is made of some 150 operations, to be right at every angle. On a short
#   interval a polynomial will do.
# - **A sigmoid** as JAX writes it holds a division. By tanh it costs a quarter on a v5e.
#
# ## 16 bits are stored, 32 are computed
#
# bfloat16 halves the loads and the stores. What does it do to the arithmetic? Below is gelu, by its tanh formula: in
# float32; in bfloat16; and in bfloat16 that is cast to float32 before and back at the end. And x / y, the same three
# ways. **Predict the order** of each three, on a v5e.


# %% tags=["predict"]
def cast_once(fn):
    """``fn`` in float32, of bfloat16 and to bfloat16."""
    return lambda *args: fn(*(x.astype(jnp.float32) for x in args)).astype(jnp.bfloat16)


gelu = functools.partial(jax.nn.gelu, approximate=True)
narrow = array(64, 256, dtype=jnp.bfloat16)  # 16 times 1,024 numbers
print("cycles for 1,024 numbers      float32   bfloat16   bfloat16, cast once")
for name, fn, count, row in (
    ("gelu", gelu, 1, "gelu(x), by tanh"),
    ("x / y", jnp.divide, 2, "x / y"),
):
    for chip in ("v5e", "v6e"):
        listed = kept.rows[row].cycles
        cast = compiler.op_cost(cast_once(fn), *[narrow] * count, chip=chip).cycles / 16
        print(f"{name:8} {chip:18}", end="")
        print(f"{listed[f'f32, {chip}']:10.2f}{listed[f'bf16, {chip}']:11.2f}{cast:22.2f}")

# %% [markdown]
# The VPU of a v5e computes in 32 bits. Left to itself, bfloat16 is widened and packed again at each of gelu's operations.
# Cast once, and it is widened once: take that cause away, and half of the price is gone. A division is the other way
# round: of bfloat16 it is the guess and a product, as rough as bfloat16 is; of float32 it is all fourteen operations. A
# v6e has operations of 16 bits of its own, and there the cast is a loss.
#
# > **On a v5e and a v5p: store in bfloat16, and compute a chain of products and sums in float32: cast after the load, and
# > before the store. Divide in bfloat16 where its exactness will do.**
#
# ## Sums, axis by axis
#
# An array of (16, 8, 128) is 16 full registers. Sum it over its first axis, over its second, over its last. Each time
# some 16,000 numbers are added. **Predict:** the order, and about the factors.


# %% tags=["predict"]
def sums(*shape):
    for axis, name in enumerate(("leading", "sublanes", "lanes")):
        price = compiler.op_cost(
            lambda x, axis=axis: jnp.sum(x, axis, keepdims=True), array(*shape)
        )
        units = ", ".join(unit for unit in ("VPU", "XLU") if unit in price.slots)
        print(f"{shape!s:13} over axis {axis}, {name:9}{price.cycles:6.0f} cycles, {units}")


sums(16, 8, 128)

# %% [markdown]
# Over a leading axis registers are added to registers, a third of a cycle each: the loads take that long. Over the
# sublanes each register is folded three times, 8 rows to 4 to 2 to 1, and each fold is a rotation and an addition. Over
# the lanes it is one instruction of the XLU for each register. There are three XLUs, and one instruction keeps one busy
# for eight cycles: 16 of them take 43.

# %%
viz.sum_over_axis(16)

# %% [markdown]
# Is it the lanes that cost? Those over the lanes are 128 sums of 128 numbers. Put them upright: an array of (128, 128),
# and sum over its first axis. **Predict the factor.**

# %% tags=["predict"]
upright = compiler.op_cost(lambda x: jnp.sum(x, 0, keepdims=True), array(128, 128))
print(f"128 sums of 128 numbers, upright: {upright.cycles:.0f} cycles")

# %% [markdown]
# The same numbers, the same sums, and an eighth of the cycles. (A transpose in the kernel would not pay: it costs as much
# as the sums along the lanes, as a table below shows. Whoever makes the array has to make it so, or a copy outside the
# kernel.)
#
# So the lanes are the worst? Here are the same 8 rows a slice, eight times as long: (8, 8, 1024), four times as many
# numbers. **Predict all three.**

# %% tags=["predict"]
sums(8, 8, 1024)

# %% [markdown]
# Now the sublanes are the worst, and the lanes cost half of what they did. First registers are added to registers,
# whatever the axis. What is left is folded: 1.5 to 2 cycles a register down the sublanes, 2.7 along the lanes. Along
# 1,024 lanes one register of eight is left to fold. Down 8 rows all 64 are.
#
# > **Sum over leading axes if you can. Otherwise count the registers that are left to fold: fewest where most registers lie
# > along the axis.**
#
# ## What moves, and what only has another name
#
# A reshape of a NumPy array is free: no number moves. In a kernel it is surely free if no number changes its sublane and
# its lane. **Predict for each line:** free, paid for, or refused? Free means a cycle for each register: load it, store
# it.

# %% tags=["predict"]
MOVES = {
    "(64, 128) to (8, 8, 128)": (lambda x: x.reshape(8, 8, 128), (64, 128)),
    "(8, 8, 128) to (64, 128)": (lambda x: x.reshape(64, 128), (8, 8, 128)),
    "(64, 256) to (128, 128)": (lambda x: x.reshape(128, 128), (64, 256)),
    "(128, 128) to (64, 256)": (lambda x: x.reshape(64, 256), (128, 128)),
    "(64, 128) to (64, 2, 64)": (lambda x: x.reshape(64, 2, 64), (64, 128)),
    "(2, 4, 8, 128), axes 0 and 1": (lambda x: x.transpose(1, 0, 2, 3), (2, 4, 8, 128)),
    "(16, 8, 128), axes 0 and 1": (lambda x: x.transpose(1, 0, 2), (16, 8, 128)),
    "(128, 128), its transpose": (lambda x: x.T, (128, 128)),
    "(1, 128), its transpose": (lambda x: x.T, (1, 128)),
}
print("                                registers  cycles   VPU   XLU")
for name, (fn, shape) in MOVES.items():
    price = compiler.op_cost(fn, array(*shape))
    vpu, xlu = (price.slots.get(unit, 0) for unit in ("VPU", "XLU"))
    print(f"{name:30}{price.registers:9}{price.cycles:9.0f}{vpu:8.0f}{xlu:6.0f}")

# %% [markdown]
# None is refused. (64, 256) to (128, 128) does move numbers between sublanes, with two operations of the VPU a register,
# and these fit beside the stores: such a move is free as well. The way back is not. (64, 128) to (64, 2, 64) moves half
# of all numbers to other lanes, and makes 64 registers of 8: each slice of 2 x 64 begins its own. And to turn one row
# into a column costs nearly what 128 x 128 numbers cost: the column, too, is 16 registers.
#
# ## Where a slice begins
#
# A kernel may load a part of a Ref, and where the part begins may cost. It is *aligned* if it begins where a tile begins.
# `compiler.slice_cost` asks for the price of such a load with its store, as `op_cost` does for an operation. **Predict:** which
# is dearer, eight rows that begin at 3, or 128 lanes that begin at 64? And in bfloat16, where two rows share each lane:
# rows from 4, or from 3?

# %% tags=["predict"]
wide, narrow_rows = array(64, 256), array(64, 256, dtype=jnp.bfloat16)
eight, sixteen = array(8, 256), array(16, 256, dtype=jnp.bfloat16)
for name, take, whole, part in (
    ("float32, rows 8 to 16", lambda x, i: x[8:16], wide, eight),
    ("float32, rows 3 to 11", lambda x, i: x[3:11], wide, eight),
    ("float32, lanes 64 to 192", lambda x, i: x[:, 64:192], array(8, 512), array(8, 128)),
    ("bfloat16, rows 8 to 24", lambda x, i: x[8:24], narrow_rows, sixteen),
    ("bfloat16, rows 4 to 20", lambda x, i: x[4:20], narrow_rows, sixteen),
    ("bfloat16, rows 3 to 19", lambda x, i: x[3:19], narrow_rows, sixteen),
):
    price = compiler.slice_cost(take, whole, part)
    vpu, xlu = (price.slots.get(unit, 0) for unit in ("VPU", "XLU"))
    print(f"{name:26}{price.of_a_register:5.1f} cycles a register, ", end="")
    print(f"{vpu / price.registers:2.0f} VPU, {xlu / price.registers:2.0f} XLU")

# %% [markdown]
# Aligned is a cycle a register. Rows that begin elsewhere have to be shifted, which costs little here. In bfloat16, from
# an odd row on, each pair of rows has to be parted, too. (How much it costs depends on the width of the Ref, too: in one
# that is 128 wide, float32 rows may begin anywhere for nothing, and bfloat16 rows cost more than here.) Lanes that begin
# elsewhere are rotated, which is the XLU's.
#
# Now `i` is known only when the kernel runs, and the Ref has 256 lanes if nothing else is said. **Predict:** three of
# these are refused. Which?

# %% tags=["predict"]
for name, take, whole, part in (
    ("8 rows from i", lambda x, i: x[pl.ds(i, 8)], wide, eight),
    ("8 rows from 8 * i", lambda x, i: x[pl.ds(8 * i, 8)], wide, eight),
    ("8 rows from i << 3", lambda x, i: x[pl.ds(i << 3, 8)], wide, eight),
    (
        "the same, 128 lanes, from i",
        lambda x, i: x[pl.ds(i, 8)],
        array(64, 128),
        array(8, 128),
    ),
    ("1 row from i", lambda x, i: x[pl.ds(i, 1)], wide, array(1, 256)),
    ("128 lanes from i", lambda x, i: x[:, pl.ds(i, 128)], wide, array(64, 128)),
    ("slice i of (16, 8, 128)", lambda x, i: x[i], array(16, 8, 128), array(8, 128)),
):
    price = compiler.slice_cost(take, whole, part)
    print(
        text.folded(
            f"{name:28} {price.why or f'{price.of_a_register:.1f} cycles a register'}"
        )
    )

# %% [markdown]
# - A start that only the run knows must be provably a multiple of the rows of a tile (8 in float32 and bfloat16, 32 in int8),
#   or of 128 lanes. `8 * i` proves it; `i << 3`, which is
#   the same number, does not. `pl.multiple_of(i, 8)` is a promise of yours, which the compiler believes.
# - Of a float32 Ref that is 128 wide, any row will do: there each row lies right behind the one before. Of a wider one a single
#   row will do, which is how one gathers. In bfloat16, where two rows share each lane, ask again.
# - A leading axis takes any index, for nothing. **What you want to choose at run time, put in front.**
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. How many registers does float32[16, 4, 100] take? And float32[64, 100]?</summary>
# 16: each of the 16 slices begins its own, and fills half of its rows. 8: the same numbers, with the leading axes
# flattened onto the rows.</details>
#
# <details><summary>2. Which of these are about as cheap as a copy: tanh(x), x / y, n % 8 of whole numbers, x ** 2?</summary>
# tanh, and x ** 2, which is a product. n % 8 is not, but n & 7 is, and the same. x / y is not on a v5e, and is on a
# v6e.</details>
#
# <details><summary>3. You need the largest of 16 numbers for each of 100,000 points. In which shape do you want them?</summary>
# (16, 100000), or with 128 points in the last axis and the 16 in front. As (100000, 16) an eighth of each register is
# used, and the maximum runs along lanes.</details>
#
# <details><summary>4. A kernel keeps 4,096 row maxima as f32[4096, 1]. What does it take in VMEM, and what would (1, 4096) take?</summary>
# 2 MiB, for each row is padded to 128 lanes. 16 KiB.</details>
#
# <details><summary>5. A colleague computes gelu in bfloat16 on a v5e, "because it is half the data". What do you say?</summary>
# Half the loads and stores, and more arithmetic: each operation widens and packs. Cast to float32 once, after the load.
# Before you say it of another function, price it: a division of bfloat16 is cheaper than one of float32.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 6](../exercises/06_layout_and_op_costs.ipynb). If you have time for one only, take 06.4:
# the same sums for a small part of the cycles.

# %% [markdown]
# ## Further
#
# How good a guess is, casts, broadcasts, dtypes, constructors, random numbers, the copies that XLA makes around a kernel,
# and where spilled registers go.
#
# ### How good is the guess?
#
# The first guess of 1 / y is not exact, of course. How good is it?

# %%
y = jnp.linspace(1.0, 2.0, 4096).reshape(32, 128)


def guess_kernel(y_ref, o_ref):
    o_ref[...] = pltpu.reciprocal(y_ref[...], approx=True)


def guess(y):
    simulated = pltpu.InterpretParams()
    return pl.pallas_call(guess_kernel, out_shape=y, interpret=simulated)(y)


worst = jnp.max(jnp.abs(guess(y) * y - 1))
print(f"in the simulator it is off by at most {float(worst):.1e}, bfloat16 by {2**-8:.1e}")

# %% [markdown]
# The simulator rounds the guess as bfloat16 rounds. What a chip does only a chip can tell, and nothing is promised. Where
# the result goes to bfloat16 anyway, that is often good enough.
#
# ### Casts
#
# Casts are said to be cheap. **Predict:** which is dearer, float32 to int32 or back? And to uint32?

# %% tags=["predict"]
print("                    VPU, v5e      cycles on a v5e   v5p   v6e")
for before, after in (("int32", "float32"), ("float32", "int32"), ("float32", "uint32")):
    costs = [
        compiler.op_cost(
            lambda x, to=after: x.astype(to), array(64, 128, dtype=before), chip=chip
        )
        for chip in ("v5e", "v5p", "v6e")
    ]
    vpu = costs[0].slots["VPU"] / costs[0].registers
    cycles = "".join(f"{cost.of_a_register:6.2f}" for cost in costs)
    print(f"{before:7} to {after:7} {vpu:10.0f} {cycles:>33}")

# %% [markdown]
# A cast to whole numbers has to cut off towards zero. To uint32 it is as dear as a division on a v5e.
#
# ### Broadcasts, and sums of other kinds
#
# A broadcast is a sum backwards. **Predict:** which of these costs more than its stores? The last three are other sums.

# %% tags=["predict"]
for name, fn, x in (
    ("(1, 8, 128) to 8 slices", lambda x: jnp.broadcast_to(x, (8, 8, 128)), (1, 8, 128)),
    ("(1, 128) to 64 rows", lambda x: jnp.broadcast_to(x, (64, 128)), (1, 128)),
    ("(64, 1) to 128 columns", lambda x: jnp.broadcast_to(x, (64, 128)), (64, 1)),
    ("(64, 1) to 1,024 columns", lambda x: jnp.broadcast_to(x, (64, 1024)), (64, 1)),
    ("sum over axes 1 and 2", lambda x: jnp.sum(x, (1, 2), keepdims=True), (8, 8, 128)),
    ("argmax along the lanes", lambda x: jnp.argmax(x, 1, keepdims=True), (64, 128)),
    ("product along the lanes", lambda x: jnp.prod(x, 1, keepdims=True), (64, 128)),
):
    price = compiler.op_cost(fn, array(*x))
    stores, xlu = (price.slots.get(unit, 0) for unit in ("store", "XLU"))
    said = f"{price.cycles:.0f} cycles, {stores:.0f} stores{', and the XLU' * (xlu > 0)}"
    print(text.folded(f"{name:25} {price.why or said}"))

# %% [markdown]
# A slice or a row for all is the stores alone. A column takes a trip to the XLU for each 8 rows. With 1,024 columns that
# hides behind the stores. A kernel that subtracts one value per row from block after block, as attention subtracts the
# maximum, avoids that trip by keeping the value in all 128 lanes ([lesson 8](08_control_flow_and_masks.ipynb),
# *Further*). Two axes can be summed at once. An argmax along 128 lanes costs what a sum costs, and along 1,024 lanes four
# times as much, because the registers of a row cannot be added up first. A product along the lanes is refused.
#
# ### Which numbers may a kernel have?
#
# **Predict:** which of these can be copied by a v5e's kernel, and which can be added?

# %% tags=["predict"]
print("           copy      x + x")
for name in "float32 bfloat16 float16 float8_e5m2 int32 uint32 int16 int8 int4".split():
    block = array(64, 256, dtype=jnp.dtype(name))
    said = []
    for fn in (same, lambda x: x + x):

        def kernel(x_ref, o_ref, fn=fn):
            o_ref[...] = fn(x_ref[...])

        call = pl.pallas_call(kernel, out_shape=block)
        ok = compiler.compile_tpu(call, block, simulate=False).ok
        said.append("yes" if ok else "refused")
    print(f"{name:12} {said[0]:9} {said[1]}")

# %% [markdown]
# More can be stored and moved than added. int8 is for the MXU, for storing, and for operations on bits. For
# arithmetic cast it after the load.
#
# ### Constructors
#
# `jnp.zeros`, `jnp.ones` and `jnp.full` make constants. What does a kernel load for 8 registers of them? And for those of
# `broadcasted_iota`, which differ from lane to lane?

# %%
for name, made in {
    "zeros": lambda: jnp.zeros((64, 128)),
    "ones": lambda: jnp.ones((64, 128)),
    "full": lambda: jnp.full((64, 128), 2.5),
    "broadcasted_iota": lambda: jax.lax.broadcasted_iota(jnp.int32, (64, 128), 1),
}.items():

    def kernel(o_ref, made=made):
        o_ref[...] = made()

    program = compiler.bundles(
        pl.pallas_call(kernel, out_shape=jax.eval_shape(made))
    ).bundles
    units = [each.unit for bundle in program for each in bundle.operations]
    print(f"{name:17} {units.count('load')} loads, {units.count('store')} stores")

# %% [markdown]
# Nothing: what is left is the stores. So constants cost no memory, and no input is needed for them. (An iota
# is of whole numbers on a TPU: cast it.)
#
# ### Random numbers
#
# There are two ways. `jax.random` with a key that the kernel makes of a seed: the numbers that JAX gives outside as well.
# And the generator of the chip: `pltpu.prng_seed`, then `pltpu.prng_random_bits`. **Which is cheaper?**


# %% tags=["predict"]
def from_key(s_ref, o_ref):
    key = jax.random.key(s_ref[0], impl="threefry2x32")
    o_ref[...] = jax.random.bits(key, o_ref.shape)


def from_chip(s_ref, o_ref):
    pltpu.prng_seed(s_ref[0])
    o_ref[...] = pltpu.bitcast(pltpu.prng_random_bits(o_ref.shape), jnp.uint32)


def bits(kernel, rows, **how):
    out = array(rows, 128, dtype=jnp.uint32)
    seed = pl.BlockSpec(memory_space=pltpu.SMEM)
    return pl.pallas_call(kernel, out_shape=out, in_specs=[seed], **how)


seed = jnp.array([7], jnp.int32)
for name, kernel in (("jax.random", from_key), ("the chip's", from_chip)):
    reports = [compiler.compile_tpu(bits(kernel, rows), seed) for rows in (128, 256)]
    a, b = (report.cycles - report.time_split["DMA wait"] for report in reports)
    drawn = bits(kernel, 8, interpret=pltpu.InterpretParams())(seed)
    print(f"{name:11} {(b - a) / 16:5.1f} cycles a register;", end="")
    print(f" {jnp.unique(drawn).size:5,} different numbers of 1,024 in the simulator")
outside = jax.random.bits(jax.random.key(7, impl="threefry2x32"), (8, 128))
drawn = bits(from_key, 8, interpret=pltpu.InterpretParams())(seed)
print("in the kernel as outside:", bool((drawn == outside).all()))

# %% [markdown]
# The chip's generator is far cheaper. But **the simulator gives zeros for it**, and nothing else: no judge without a chip
# can say whether a kernel with it is right. Test all the rest of such a kernel with `jax.random` in its place.
# (`pltpu.stateful_uniform`, which makes floats of the chip's bits, does not run in the simulator at all.)
#
# ### Copies that you did not write
#
# XLA chooses how an array lies in HBM, and for an argument it takes the order of axes with the least padding. A kernel
# wants the last axis in the lanes. If the two differ, XLA copies the array before the kernel, and the result after it.
# Here is a kernel on f32[524288, 64], and on the same numbers as f32[262144, 128]. In the third line it is again
# f32[524288, 64], but a product makes it and another takes the result, `doubled(a @ b) @ c`. **Predict:** how many times
# as many bytes does the first move as the second? And who makes copies in the third?

# %% tags=["predict"]
rows = functools.partial(doubled, index=lambda i: (i, 0))
half, full = (
    functools.partial(rows, block=(4096, 64)),
    functools.partial(rows, block=(4096, 128)),
)


def between_products(a, b, c):
    return half(a @ b) @ c


for name, call, args in (
    ("(524288, 64)", half, [array(524288, 64)]),
    ("(262144, 128)", full, [array(262144, 128)]),
    ("between", between_products, [array(524288, 128), array(128, 64), array(64, 128)]),
):
    ops = compiler.compile_tpu(call, *args, simulate=False).ops
    parts = ", ".join(f"{op.kind} {op.hbm_bytes / 1e6:.0f}" for op in ops)
    print(f"{name:14}MB: {parts}")

# %% [markdown]
# Five times: the kernel moves twice as much, for the padding of its rows, and the copies move three times as much. The
# third line takes the copies' cause away. A product makes the array as the kernel wants it, a fusion here, and no copy is
# left; the kernel's padding stays. An array whose last axis is 128 has nothing to win by another order, so it has
# neither. (With fewer rows XLA may keep the padded arrays in VMEM, and these figures are smaller.)
#
# Where a width of 64 is given, as in many heads of attention, let two heads share a row (06.8). A copy that the compiler
# makes to be safe, because an array is overwritten that somebody still needs, is another matter: lesson 9 has those.
#
# ### Where spilled registers go
#
# A core has 64 vector registers. What does not fit is spilled to VMEM, and counts against the limit. A softmax in one
# piece, wider and wider:


# %%
def softmax_kernel(x_ref, o_ref):
    e = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)


for width in (128, 1024, 2048):
    x = array(256, width)
    report = compiler.compile_tpu(pl.pallas_call(softmax_kernel, out_shape=x), x)
    slots = sum(each.bytes for each in report.vmem if each.purpose == "spill slots")
    print(
        f"(256, {width:4}): {report.spills:4} spills, which take {text.size(slots)} of VMEM"
    )

# %% [markdown]
# Arrays of (n, 1, 1) spill soonest: they take the most registers for their numbers.
#
# <!-- next -->
