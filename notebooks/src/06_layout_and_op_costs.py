# %% [markdown]
# # Lesson 6: Layout and the price of an op
#
# *60 minutes, then 53 for the exercises. The "Further" part is optional and takes another 35 minutes. You need lesson 2
# and lesson 4's rule for the shapes of blocks, but no TPU, because every price here comes from the compiler.*
#
# A kernel adds 1 to each of 1,024 elements. We compile it four times, with the same elements and additions, and change
# only the shape of the array: (8, 128), (128, 8), (1024, 1) and (1024, 1, 1).
#
# Yet the compiler predicts that one of the four kernels takes a thousand times as long as another. **Which shape is the
# cheapest, and which the most expensive?** Write down all four, the cheapest first, with a factor between neighbors.
# Then run the cells.

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
# `compiler.op_cost(f, x)` returns the price of applying the operation f to an array like x.
#
# > **price of an operation**: the cycles that one more application of it takes in a kernel that already applies it many
# > times, including its loads and its store. All operands are in VMEM, so no copy is counted.
#
# So a price is a throughput, and not the latency of a single operation. `price.slots` counts the instructions of the
# operation by unit. Unless stated otherwise, prices in this lesson are cycles on a v5e, predicted (compiler). [A page
# of the course](../docs/op_costs.md) lists some 80 more of them.
#
# After this lesson you can
# - say how many registers an array takes, and what share of them is empty,
# - tell a cheap operation from an expensive one before you write it, and find a cheaper replacement,
# - choose the axis to sum over,
# - say which reshapes, transposes and slices are free, which cost something, and which are refused,
# - say what narrow dtypes save, and what they cost.
#
# ## The last two axes fill the registers
#
# The painter below draws an array in its registers. **Before you type, predict:** how many registers does each of the
# four shapes of the opening take? Type them to check, and then find two shapes that fit 1,000 float32 elements into a
# single register.

# %%
viz.tile_painter((20, 200))

# %% [markdown]
# The compiled program shows whether the painter counts right, because it loads each float32 register once. **Predict
# two more:** how many registers do (3, 300) and (12, 4, 128) take?

# %% tags=["predict"]
for shape in (*SHAPES, (3, 300), (12, 4, 128)):
    price = prices.get(shape) or compiler.op_cost(plus_one, array(*shape))
    registers = grid.registers(shape, jnp.float32)
    print(
        f"{shape!s:14} painted {registers:5,}, loaded {price.slots['load']:6,.0f},", end=""
    )
    print(f" {price.cycles:6,.0f} cycles")

# %% [markdown]
# **This answers the opening: the four shapes take 1, 16, 128 and 1,024 registers, and each register costs a cycle.** A
# register of (1024, 1, 1) holds a single element, so 1,023 of the 1,024 sums in each addition are thrown away.
#
# > **The last axis goes to the lanes and is rounded up to 128. The axis before it goes to the sublanes and is rounded
# > up to 8. Each index of the axes before these starts a new register.**
#
# Keep the last two axes large, above all the last, and let the axes in front be short: an array of shape (n, 1, 1)
# takes n registers.
#
# The rounding to 8 has one exception: an array of at most 4 rows is stored in tiles of 1, 2 or 4 rows, and tiles that
# lie next to each other along the lanes share a register. So (3, 300), which has three tiles of 4 x 128, takes 2
# registers, and (4, 250) fits 1,000 elements into one, as (8, 125) does. Slices of a leading axis never share a
# register, so (12, 4, 128) takes 12.
#
# Narrow dtypes pack several rows into each sublane. **Predict the cycles** of a copy of (32, 256) in float32, in
# bfloat16 and in int8.


# %% tags=["predict"]
def same(x):
    return x


for dtype in (jnp.float32, jnp.bfloat16, jnp.int8):
    price = compiler.op_cost(same, array(32, 256, dtype=dtype))
    print(
        f"a copy of {price.registers} registers of {jnp.dtype(dtype).name:8}: {price.cycles:.0f} cycles"
    )

# %% [markdown]
# A register holds 16 x 128 elements of bfloat16, as two tiles of 8 rows, or 32 x 128 elements of int8. So the int8
# copy, with a quarter of the bytes, takes a quarter of the cycles. The saving is that large only if the rows fill the
# registers and the kernel computes nothing.
#
# ## In HBM, too
#
# Registers are filled from VMEM, and VMEM is filled from HBM, where the arrays of a kernel are stored in the same
# tiles. The kernel below doubles 1,048,576 float32 elements, so it has to move 4.2 MB in and 4.2 MB out. **Predict:**
# how many MB does it move in all if the array is a column, of shape (1048576, 1)? And if it is a row, an array of
# (8192, 128), a vector with one axis, or a row of bfloat16?


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
print("                                    MB: kernel  its elements   copies by XLA")
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
# For the column, the kernel moves 128 times as many bytes as the elements take, because each row is padded to 128 lanes
# in HBM. XLA also adds two copies, which the "Further" part explains. A single bfloat16 row is padded to two rows,
# while a float32 row, (8192, 128) and a vector with one axis are not padded at all.
#
# > **Do not store a vector as a column. Store it as (n,) or as (n / 128, 128), or, if its dtype has 32 bits, as a row
# > (1, n).**
#
# The rule matters most for statistics with one value per row, such as a mean, a maximum or the sum of a softmax.
#
# ## A list of prices
#
# JAX's page on [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) sorts elementwise
# operations into three classes. The cheap ones are `+ - *`, max, min, where, abs, bitwise operations, comparisons and
# casts. The medium ones are `/ // %`, exp, tanh and pow, and the expensive ones are sin and cos.
#
# **Predict first.** Which two of the medium operations cost no more than an addition? And which two cost more than a
# sine if they are applied to integers? The chart below prices each operation on that list, and some more, for the chip
# and the dtype that you choose (try int32, too).

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
# On float32, exp and tanh are as cheap as an addition. On integers, `//` and `%` cost more than two sines. On a v6e, x
# / y is as cheap as exp. So look prices up for your chip and dtype.
#
# By the rule of lesson 2, a price is the largest of stores, loads / 3, VPU / 4 and EUP. The next table shows the rule
# next to the price, and counts an EUP operation in both columns, because it takes a VPU slot too.
#
# Start with the rows of x / y; most of the others come up below. A division begins with an approximation r of 1 / y
# from the EUP, and takes fourteen VPU slots in all. **Predict:** what does it cost to use r as it is, and what does it
# cost to refine r with one Newton step, which replaces r by r + r (1 - y r)?


# %% tags=["predict"]
def by_rule(price):
    """Return the cycles that the rule of lesson 2 gives for the slots of a price."""
    slots = {unit: price.slots.get(unit, 0) for unit in ("store", "load", "VPU", "EUP")}
    return max(slots["store"], slots["load"] / 3, slots["VPU"] / 4, slots["EUP"])


def newton(x, y):
    """Return x / y by the approximation of 1 / y and one Newton step."""
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
# An exp is a multiplication and one EUP operation, and both fit into the bundles that the load and the store take
# anyway. The rule only counts slots, so it gives a lower bound. (A price is the difference between two programs, so it
# can come out a percent lower, as with exp2.) If the EUP works beside many VPU operations, as in Newton by hand, the
# schedule may take longer.
#
# Multiplying x by the approximation costs as much as a copy. With a Newton step, which takes four more operations and
# squares the error of r, x / y still costs only half as much as a division. The division also handles zeros,
# infinities, NaN and values at the ends of float32's range. If y lies well inside that range, write the step yourself
# on a v5e or a v5p. On a v6e, do not: there a float32 division is an approximation and one multiplication, and Newton
# by hand is slower. (Only a run on a v6e can tell how accurate that division is.)
#
# - **A power with an array as its exponent** is expensive because it has to be accurate for all values. If x is above
#   0, use exp2(y log2(x)) instead, whose two EUP operations take two cycles, although its error grows with y log2(x).
#   If the exponent is a constant positive integer, the power is only a few multiplications.
# - **A division of two integer arrays** is expensive because no unit divides integers, so the compiler writes out a
#   long division, bit by bit. If the divisor is a constant, as in `n // 60`, it multiplies instead. If the divisor is a
#   power of two, shift and mask yourself: `n >> 3` is `n // 8` and `n & 7` is `n % 8`, for negative integers too.
# - **A sine** has no unit either, and takes some 150 operations, because it has to be right at every angle. On a short
#   interval, a polynomial such as the one in the table is enough.
# - **A sigmoid** as JAX writes it contains a division. Written with tanh, it costs a quarter as much on a v5e.
#
# ## Store in 16 bits, compute in 32
#
# bfloat16 halves the loads and the stores, but what does it do to the arithmetic? The table below prices gelu, by its
# tanh formula, and x / y in three ways: in float32, in bfloat16, and in float32 with one cast from bfloat16 after the
# load and one back before the store. **Predict** for both which way is the cheapest on a v5e, and which the most
# expensive.


# %% tags=["predict"]
def cast_once(fn):
    """Return ``fn`` computed in float32, from bfloat16 arguments to a bfloat16 result."""
    return lambda *args: fn(*(x.astype(jnp.float32) for x in args)).astype(jnp.bfloat16)


gelu = functools.partial(jax.nn.gelu, approximate=True)
narrow = array(64, 256, dtype=jnp.bfloat16)  # 16 times 1,024 elements
print("cycles for 1,024 elements     float32   bfloat16   bfloat16, cast once")
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
# The VPU of a v5e computes in 32 bits. If gelu is left in bfloat16, each of its operations widens the operands and
# packs the result again. If you cast once, the kernel widens and packs only once, which saves more than half of the
# price. The core then takes little longer than in float32, and the copies from and to HBM move half the bytes.
#
# A division, however, is cheapest in bfloat16, because there the approximation and one multiplication are as accurate
# as bfloat16 itself, while a float32 division takes all fourteen slots. A v6e has 16-bit operations of its own, so
# there the cast only adds to the price.
#
# > **On a v5e and a v5p, store in bfloat16 and compute a chain of multiplications and additions in float32: cast after
# > the load and before the store. Divide in bfloat16 where its accuracy is enough.**
#
# ## Sums, axis by axis
#
# The next cell sums an array of (16, 8, 128), which fills 16 registers, over each of its axes. Each time it adds some
# 16,000 elements. **Predict** the order of the three prices, and rough factors between them.


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
# Over a leading axis, whole registers are added to each other, and each register takes a third of a cycle, the time of
# its load. Over the sublanes, each register is folded three times, from 8 rows to 4, 2 and 1, and each fold is a
# rotation and an addition. Over the lanes, each register takes one XLU instruction. There are three XLUs, and an
# instruction keeps one of them busy for eight cycles, so 16 instructions take 43 cycles. **Look for one thing** in the
# picture: in which of the three sums is each register reduced by itself?

# %%
viz.sum_over_axis(16)

# %% [markdown]
# Down the sublanes and along the lanes, each register is reduced by itself, which is expensive. The sum over the lanes
# computed 128 sums of 128 elements. Now store the terms of each sum upright, as a column of a (128, 128) array, and sum
# over the first axis. **Predict the factor.**

# %% tags=["predict"]
upright = compiler.op_cost(lambda x: jnp.sum(x, 0, keepdims=True), array(128, 128))
print(f"128 sums of 128 numbers, upright: {upright.cycles:.0f} cycles")

# %% [markdown]
# Upright, the same number of sums takes an eighth of the cycles. (A transpose in the kernel would not pay, because it
# costs as much as the sums along the lanes, as a table below shows. The array has to be upright before the kernel reads
# it.)
#
# So are the lanes always the worst axis? The next array, of shape (8, 8, 1024), has half as many slices of 8 rows, but
# its rows are eight times as long, which makes four times as many elements. **Predict all three prices.**

# %% tags=["predict"]
sums(8, 8, 1024)

# %% [markdown]
# Now the sublanes are the worst axis, and the sum over the lanes takes half as long as before. Whatever the axis,
# registers are first added to each other as far as possible, and those that remain are reduced one by one. Reducing a
# register takes 1.5 to 2 cycles down the sublanes, and 2.7 along the lanes. Along 1,024 lanes, eight registers are
# first added into one, so only 8 of 64 remain. Down 8 rows nothing can be added first, so all 64 remain.
#
# > **Sum over a leading axis if you can. Otherwise count the registers that remain to be reduced: the more registers
# > lie along the axis, the fewer remain.**
#
# ## What moves, and what only gets another shape
#
# A reshape of a contiguous NumPy array is free, because no element moves. In a kernel, a reshape is certain to be free
# if every element stays in its sublane and its lane. **Predict for each line:** is the operation free, does it cost
# something, or does the compiler refuse it? (Free means a cycle for each register, to load it and to store it.)

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
# The compiler refuses none of them. Exchanging two leading axes only renumbers the registers. Going from (64, 256) to
# (128, 128) does move elements between sublanes, but its two VPU operations for each register fit beside the stores, so
# this reshape is free as well, while the reverse one is not. Going from (64, 128) to (64, 2, 64) moves half of all
# elements to other lanes and turns 8 registers into 64, because each slice of 2 x 64 starts a new one. Turning one row
# into a column costs nearly as much as transposing 128 x 128 elements, because the column, too, takes 16 registers.
#
# ## Where a slice begins
#
# The price of loading a part of a ref can depend on where this part begins. A slice is *aligned* if it begins where a
# tile begins. `compiler.slice_cost` returns the price of loading a slice and storing it again. **Predict:** which is
# more expensive, eight rows that begin at row 3, or 128 lanes that begin at lane 64? And in bfloat16, where two rows
# share a sublane, are 16 rows more expensive if they begin at row 4 or at row 3?

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
# An aligned slice costs as much as a copy. Rows that begin inside a tile have to be shifted, which costs little here.
# If bfloat16 rows begin at an odd row, each pair also has to be split, which costs more. Lanes that begin inside a tile
# have to be rotated by the XLU.
#
# In the next cell, the start `i` is known only when the kernel runs. Unless a line says otherwise, the ref has 256
# lanes. **Predict** which three of these slices the compiler refuses.

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
# - A start that is known only at run time must provably be aligned: a multiple of 8 rows (32 for int8) or of 128 lanes.
#   The form `8 * i` proves that, while `i << 3`, which is the same number, does not. With `pl.multiple_of(i, 8)` you
#   promise it instead, and the compiler believes you.
# - There are two exceptions, both for float32. In a ref that is 128 wide, a slice may begin at any row, at no cost,
#   because each row directly follows the one before. In a wider ref, a kernel may load any single row, so it can gather
#   rows. In bfloat16, price the slice first.
# - An index into a leading axis can be anything, at no cost. **Put the axis that you index at run time in front.**
#
# ## Five questions
#
# Answer each question before you open it.
#
# <details><summary>1. How many registers does float32[16, 4, 100] take? And float32[64, 100]?</summary>
# The first takes 16, because each of its 16 slices starts a new register and fills only half of the rows. The second
# takes 8 for the same elements, because the leading axis is merged into the rows.</details>
#
# <details><summary>2. On a v5e, which of these are about as cheap as a copy: tanh(x), x / y, n % 8 of integers,
# x ** 2?</summary>
# tanh(x) is, and x ** 2 is too, because it is one multiplication. n % 8 is not, but n & 7 gives the same result at the
# price of a copy. x / y is not, though on a v6e it costs no more than an exp.</details>
#
# <details><summary>3. You need the largest of 16 values for each of 100,000 points. Which shape should the array
# have?</summary>
# Choose (16, 100000), or put the 16 values on a leading axis and 128 points on the last. With (100000, 16), only an
# eighth of each register is used, and the maximum runs along the lanes.</details>
#
# <details><summary>4. A kernel keeps 4,096 row maxima as f32[4096, 1]. How much VMEM do they take, and how
# much would (1, 4096) take?</summary>
# They take 2 MiB, because each row is padded to 128 lanes. A row of shape (1, 4096) takes 16 KiB.</details>
#
# <details><summary>5. A colleague computes gelu in bfloat16 on a v5e, "because it is half the data". What do
# you say?</summary>
# bfloat16 halves the loads and stores, but adds arithmetic, because each operation widens and packs. Cast to float32
# once, after the load. Before you give this advice for another function, price it: a bfloat16 division is cheaper than
# a float32 one.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 6](../exercises/06_layout_and_op_costs.ipynb). If you have time for only one, take 06.4.

# %% [markdown]
# ## Further
#
# No exercise needs what follows.
#
# ### How good is the approximation?
#
# The EUP returns only an approximation of 1 / y. The next cell shows its largest relative error in the simulator, for y
# between 1 and 2.

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
# The simulator rounds the approximation to bfloat16, but it cannot tell how accurate the EUP of a chip is. If the
# result goes to bfloat16 anyway, the approximation is often good enough.
#
# ### Casts
#
# JAX's page calls casts cheap. **Predict:** which is more expensive, a cast from float32 to int32 or one from int32 to
# float32? And how expensive is a cast from float32 to uint32?

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
# A cast to integers has to truncate towards zero, which takes several operations. On a v5e, a cast to uint32 costs
# slightly more than a float32 division.
#
# ### Broadcasts, and sums of other kinds
#
# A broadcast is the reverse of a sum, because it copies one value to many places. **Predict:** which of the lines below
# cost more than their stores? (The last three are reductions.)

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
# Broadcasting a slice or a row costs only the stores. Broadcasting a column takes a trip through the XLU for every 8
# rows, and with 1,024 columns the stores hide these trips. A kernel that subtracts one value per row from block after
# block, as attention subtracts the maximum, avoids the trip by keeping the value in all 128 lanes ([lesson
# 8](08_control_flow_and_masks.ipynb), *Further*). Two axes can be summed at once, while a product along the lanes is
# refused. An argmax along 128 lanes costs what a sum costs, but along 1,024 lanes it costs more, because the registers
# of a row cannot be added up first.
#
# ### Which dtypes may a kernel use?
#
# **Predict:** which of these dtypes can a kernel on a v5e copy, and which can it add?

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
# A kernel can store and move more dtypes than it can add. int8 is for the MXU, for storage and for bitwise operations.
# To do arithmetic with it, cast it after the load.
#
# ### Constructors
#
# How many loads does a kernel need to fill 8 registers with `jnp.zeros`, `jnp.ones` or `jnp.full`? And how many does it
# need with `broadcasted_iota`, whose values differ from lane to lane?

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
# None of the four kernels loads anything, so constants take no memory and need no input. (On a TPU, an iota has an
# integer dtype, so cast it if you need floats.)
#
# ### Random numbers
#
# A kernel can draw random numbers in two ways. It can use `jax.random` with a key that it makes from a seed, which
# gives the same numbers as JAX does outside. Or it can use the generator of the chip, with `pltpu.prng_seed` and then
# `pltpu.prng_random_bits`. **Which is cheaper?**


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
    print(f" {jnp.unique(drawn).size:5,} different values among 1,024 in the simulator")
outside = jax.random.bits(jax.random.key(7, impl="threefry2x32"), (8, 128))
drawn = bits(from_key, 8, interpret=pltpu.InterpretParams())(seed)
print("in the kernel as outside:", bool((drawn == outside).all()))

# %% [markdown]
# The chip's generator is far cheaper, but **the simulator returns only zeros for it**, so without a chip no judge can
# say whether a kernel that uses it is right. To test the rest of such a kernel, replace the generator with
# `jax.random`. (`pltpu.stateful_uniform`, which turns the chip's bits into floats, does not run in the simulator at
# all.)
#
# ### Copies that you did not write
#
# XLA chooses how an array is laid out in HBM, and for an argument it takes the order of axes with the least padding. A
# kernel wants the last axis in the lanes. If the two differ, XLA copies the array before the kernel, and the result
# after it.
#
# The first line below runs a kernel on f32[524288, 64], and the second runs the same kernel on the same elements as
# f32[262144, 128]. In the third line the array is f32[524288, 64] again, but one matmul produces it and another takes
# the result: `doubled(a @ b) @ c`. **Predict:** by what factor does the first line move more bytes than the second, and
# which copies does the third line need?

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
# The first line moves five times as many bytes as the second. Its kernel moves twice as many, because its rows are
# padded, and its two copies move three times as many. The second line has neither copies nor padding, because no other
# order of axes is better than a last axis of 128. The third line needs no copy of the array, because the matmul, here a
# fusion, writes it as the kernel wants it; only the padding in the kernel remains. (With fewer rows, XLA may keep the
# padded arrays in VMEM, and the figures are smaller.)
#
# If the width is 64, as in many heads of attention, let two heads share a row (06.8). Lesson 9 covers another kind of
# copy, which the compiler makes for safety when an array is overwritten while it is still needed.
#
# ### Where spilled registers go
#
# A core has 64 vector registers. Values that do not fit are spilled to VMEM, where they count against the kernel's
# limit. The next cell shows this for a softmax in one block of growing width.


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
# Arrays of shape (n, 1, 1) are likely to spill first, because they take the most registers for their elements.
#
# <!-- next -->
