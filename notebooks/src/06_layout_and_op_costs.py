# %% [markdown]
# # Lesson 6: Layout and the price of an op
#
# *60 minutes, then 53 for the exercises. The "Further" part is optional and takes another 35 minutes. You need lesson 2
# and lesson 4's rule for the shapes of blocks, but no TPU, because every price here comes from the compiler.*
#
# A kernel adds 1 to each of 1,024 elements. Below it does so four times, and only the shape of the array differs: (8,
# 128), (128, 8), (1024, 1) and (1024, 1, 1). The elements are the same, and so are the additions.
#
# Yet the compiler predicts that one of the four takes a thousand times as long as another. **In which order do they
# come?** Write down the four shapes, the cheapest first, with a factor between neighbors. Then run the cells.

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
# `compiler.op_cost(f, x)` returns the price of an operation.
#
# > **price of an operation**: the cycles that one more application of it takes in a kernel that already applies it many
# > times, including its loads and its store. All operands are in VMEM, so no copy is counted.
#
# A price is thus a throughput, which says what each of many operations costs, and not the latency of a single one.
# `price.slots` counts its instructions by unit. Unless stated otherwise, prices in this lesson are cycles on a v5e,
# predicted (compiler). [A page of the course](../docs/op_costs.md) lists some 80 more.
#
# After this lesson you can
# - say how many registers an array takes, and how much of them is empty,
# - tell a cheap operation from an expensive one before you write it, and find a cheaper replacement,
# - choose the axis to sum over,
# - say which reshapes, transposes and slices are free, which cost something, and which are refused,
# - say what narrow dtypes save, and what they cost.
#
# ## The last two axes fill the registers
#
# The painter below draws an array in its registers. **Before you type, predict:** how many registers does each of the
# four shapes of the opening take? Type them to check, and then find two shapes in which 1,000 float32 elements fit into
# a single register.

# %%
viz.tile_painter((20, 200))

# %% [markdown]
# The painter only counts, but the compiled program tells whether it is right, because it loads each float32 register
# once. (For a few rows of bfloat16 or int8, it may take more loads than registers.) **Predict two more:** how many
# registers do (3, 300) and (12, 4, 128) take?

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
# register of (1024, 1, 1) holds a single element, and the other 1,023 sums that it computes are thrown away.
#
# > **The last axis goes to the lanes and is rounded up to 128. The axis before it goes to the sublanes and is rounded
# > up to 8. Each index of the axes before these starts a new register.**
#
# Keep the last two axes large, above all the last, and let the axes in front be short: an array of shape (n, 1, 1)
# takes n registers.
#
# An array with 1, 2, 3 or 4 rows is rounded up to 1, 2, 4 or 4 rows, and not to 8. Such flat tiles share a register if
# they lie next to each other along the lanes: (3, 300) has three tiles of 4 x 128, which take 2 registers. Slices of a
# leading axis never share a register, so (12, 4, 128) takes 12.
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
# copy, with a quarter of the bytes, takes a quarter of the cycles. This holds as long as nothing is computed and the
# rows fill the registers.
#
# ## In HBM, too
#
# Registers are filled from VMEM, and VMEM is filled from HBM, where the arrays of a kernel are stored in the same
# tiles. The kernel below doubles 1,048,576 float32 elements, 4.2 MB, so 8.4 MB have to be moved. **Predict:** how many
# MB does it move if the elements are stored as a column of shape (1048576, 1)? What if they are stored as a row, as
# (8192, 128), as a vector with one axis, or as a row of bfloat16?


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
# With a column, the kernel moves 128 times the bytes of its elements, because each row is padded to 128 lanes in HBM.
# XLA adds two copies as well, which the "Further" part explains. (It puts a short column, such as one of 8,192
# elements, into VMEM, and then only these copies use HBM.) A single bfloat16 row is padded to two rows, while a float32
# row is not. (8192, 128) and a vector with one axis are not padded at all.
#
# > **Do not store a vector as a column. Store it as (n,) or as (n / 128, 128), or, if its dtype has 32 bits, as a row
# > (1, n).**
#
# This matters most for statistics with one value per row, such as a mean, a maximum or the sum of a softmax.
#
# ## A list of prices
#
# JAX's page on [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) sorts elementwise
# operations into three classes. The cheap ones are `+ - *`, max, min, where, abs, bitwise operations, comparisons and
# casts. The medium ones are `/ // %`, exp, tanh and pow, and the expensive ones are sin and cos.
#
# **Predict first.** Which two of the medium operations cost no more than an addition, and which two cost more than a
# sine when they work on integers? The chart below prices each operation on that list, and some more, for three chips.
# (Try int32, too.)

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
# On float32, exp and tanh are as cheap as an addition. On integers, `//` and `%` cost more than two sines. A price also
# depends on the chip: on a v6e, x / y is as cheap as exp. So look prices up for your chip and dtype.
#
# By the rule of lesson 2, a price is the largest of stores, loads / 3, VPU / 4 and EUP. An EUP operation also takes a
# VPU slot, so it is counted in both columns.
#
# The table below shows the rule next to the price. A division starts with an approximation of 1 / y from the EUP, and
# takes fourteen VPU slots in all. **Predict:** what does it cost to use the approximation as it is, and what if you
# refine it by hand with one Newton step?


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
# An exp is a multiplication and one EUP operation, and both fit beside the load and the store that are needed anyway.
# The rule only counts slots, so it gives a lower bound. If the EUP works beside many VPU operations, as in Newton by
# hand, the schedule may be longer.
#
# Just multiplying x by the approximation costs as much as a copy. A Newton step adds four operations and squares the
# error of the approximation, at half the price of the division. The other half handles zeros, infinities, NaN and
# values at the ends of float32's range. If y lies well inside that range, write the step yourself on a v5e or a v5p. On
# a v6e, do not: there a float32 division is an approximation and one multiplication, and Newton by hand is slower. (How
# accurate that division is, only a v6e can tell.)
#
# - **A power of an array** is expensive because it has to be exact for all values. If x is above 0, use exp2(y
#   log2(x)), which takes two EUP operations and hence two cycles. It is less exact, and its error grows with y log2(x).
#   If the exponent is a constant positive integer, the power is only a few multiplications.
# - **A division of two integer arrays** has no unit of its own, so the compiler writes a long division, bit by bit. If
#   the divisor is a constant, as in `n // 60`, the compiler multiplies instead. If the divisor is a power of two, shift
#   and mask yourself: `n >> 3` is `n // 8` and `n & 7` is `n % 8`, for negative integers too.
# - **A sine** has no unit of its own either, and takes some 150 operations, because it has to be right at every angle.
#   On a short interval, a polynomial is enough.
# - **A sigmoid** as JAX writes it contains a division. Written with tanh, it costs a quarter as much on a v5e.
#
# ## Store in 16 bits, compute in 32
#
# bfloat16 halves the loads and the stores, but what does it do to the arithmetic? The table below prices gelu, by its
# tanh formula, in three ways: in float32, in bfloat16, and in bfloat16 that is cast to float32 at the start and back at
# the end. It prices x / y in the same three ways. **Predict the order** of each three on a v5e.


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
# packs the result again. If you cast once, they are widened once, and more than half of the price is saved. For a
# division it is the other way round: a bfloat16 division is the approximation and one multiplication, which is as
# accurate as bfloat16 itself, while a float32 division takes all fourteen slots. A v6e has 16-bit operations of its
# own, so there the cast only adds to the price.
#
# > **On a v5e and a v5p, store in bfloat16 and compute a chain of multiplications and additions in float32: cast after
# > the load and before the store. Divide in bfloat16 where its accuracy is enough.**
#
# ## Sums, axis by axis
#
# An array of (16, 8, 128) fills 16 registers. Sum it over its first, its second and its last axis: each time some
# 16,000 elements are added. **Predict** the order of the three prices, and rough factors.


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
# Over a leading axis, whole registers are added to each other. Each takes a third of a cycle, which is the time of its
# load. Over the sublanes, each register is folded three times, from 8 rows to 4, 2 and 1, and each fold is a rotation
# and an addition. Over the lanes, each register takes one XLU instruction. There are three XLUs, and an instruction
# keeps one of them busy for eight cycles, so 16 instructions take 43 cycles.

# %%
viz.sum_over_axis(16)

# %% [markdown]
# Is a sum expensive because it runs along the lanes? The sum over the lanes computed 128 sums of 128 elements. Put
# these upright: take an array of (128, 128), and sum over its first axis. **Predict the factor.**

# %% tags=["predict"]
upright = compiler.op_cost(lambda x: jnp.sum(x, 0, keepdims=True), array(128, 128))
print(f"128 sums of 128 numbers, upright: {upright.cycles:.0f} cycles")

# %% [markdown]
# The same number of sums, of as many elements, takes an eighth of the cycles. (A transpose in the kernel would not pay,
# because it costs as much as the sums along the lanes, as a table below shows. Whoever produces the array has to lay it
# out this way, or a copy outside the kernel must.)
#
# So are the lanes always the worst axis? In the next array, of shape (8, 8, 1024), a slice again has 8 rows, but these
# are eight times as long, so there are four times as many elements. **Predict all three prices.**

# %% tags=["predict"]
sums(8, 8, 1024)

# %% [markdown]
# Now the sublanes are the worst axis, and the sum over the lanes takes half as long as before. Whatever the axis,
# registers are first added to each other as far as possible, and those that remain are reduced one by one. That takes
# 1.5 to 2 cycles for each register down the sublanes, and 2.7 along the lanes. Along 1,024 lanes, eight registers are
# first added into one, so only 8 of 64 remain. Down 8 rows nothing can be added first, so all 64 remain.
#
# > **Sum over a leading axis if you can. Otherwise count the registers that remain to be reduced: the more registers
# > lie along the axis, the fewer remain.**
#
# ## What moves, and what only gets another shape
#
# A reshape of a NumPy array is free, because no element moves. In a kernel, a reshape is certain to be free if every
# element stays in its sublane and its lane. **Predict for each line:** is it free, does it cost something, or is it
# refused? Free means a cycle for each register, to load it and to store it.

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
# None is refused. Going from (64, 256) to (128, 128) does move elements between sublanes, with two VPU operations for
# each register. They fit beside the stores, so this move is free as well, but its opposite is not. Going from (64, 128)
# to (64, 2, 64) moves half of all elements to other lanes and turns 8 registers into 64, because each slice of 2 x 64
# starts a new one. Turning one row into a column costs nearly as much as transposing 128 x 128 elements, because the
# column, too, takes 16 registers.
#
# ## Where a slice begins
#
# A kernel may load a part of a ref, and the price can depend on where this part begins. A slice is *aligned* if it
# begins where a tile begins. As `op_cost` does for an operation, `compiler.slice_cost` returns the price of such a load
# and its store. **Predict:** which is more expensive, eight rows that begin at row 3, or 128 lanes that begin at lane
# 64? And in bfloat16, where two rows share a sublane: 16 rows from row 4, or from row 3?

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
# An aligned slice takes a cycle for each register. Rows that begin elsewhere have to be shifted, which costs little
# here. If bfloat16 rows begin at an odd row, each pair of rows also has to be split, which costs more. Lanes that begin
# elsewhere have to be rotated by the XLU. (The price also depends on the width of the ref. If it is 128 wide, float32
# rows may begin anywhere at no cost, while bfloat16 rows cost more than here.)
#
# Now the start `i` is known only when the kernel runs. Unless a line says otherwise, the ref has 256 lanes. **Predict**
# which three of these slices the compiler refuses.

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
# - A start that is known only at run time must provably be a multiple of the rows of a tile (8 for float32 and
#   bfloat16, 32 for int8), or of 128 lanes. `8 * i` proves it, while `i << 3`, which is the same number, does not. With
#   `pl.multiple_of(i, 8)` you make the promise yourself, and the compiler believes you.
# - In a float32 ref that is 128 wide, a slice may begin at any row, because each row directly follows the one before.
#   In a wider ref, a single row may be anywhere, which is how a kernel gathers rows. In bfloat16, where two rows share
#   a sublane, price the slice first.
# - An index into a leading axis can be anything, at no cost. **Put the axis that you index at run time in front.**
#
# ## Five questions
#
# Answer each question before you open it.
#
# <details><summary>1. How many registers does float32[16, 4, 100] take? And float32[64, 100]?</summary>
# The first takes 16, because each of its 16 slices starts a new register and fills half of the rows. The second takes 8
# for the same elements, because the leading axis is flattened into the rows.</details>
#
# <details><summary>2. Which of these are about as cheap as a copy: tanh(x), x / y, n % 8 of integers, x ** 2?</summary>
# tanh is, and so is x ** 2, which is one multiplication. n % 8 is not, but n & 7 gives the same result and is. x / y is
# on a v6e, but not on a v5e.</details>
#
# <details><summary>3. You need the largest of 16 values for each of 100,000 points. Which shape should the array
# have?</summary>
# It should be (16, 100000), or have 128 points in the last axis and the 16 values in front. With (100000, 16) only an
# eighth of each register is used, and the maximum runs along the lanes.</details>
#
# <details><summary>4. A kernel keeps 4,096 row maxima as f32[4096, 1]. How much VMEM do they take, and how
# much would (1, 4096) take?</summary>
# They take 2 MiB, because each row is padded to 128 lanes. A row of shape (1, 4096) takes 16 KiB.</details>
#
# <details><summary>5. A colleague computes gelu in bfloat16 on a v5e, "because it is half the data". What do
# you say?</summary>
# It halves the loads and stores, but adds arithmetic, because each operation widens and packs. Cast to float32 once,
# after the load. Before you give this advice for another function, price it: a bfloat16 division is cheaper than a
# float32 one.</details>

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
# The approximation of 1 / y that the EUP returns is off by a little, and the next cell shows by how much.

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
# The simulator rounds the approximation to bfloat16. What a chip returns, only a chip can tell, and nothing is
# promised. If the result goes to bfloat16 anyway, the approximation is often good enough.
#
# ### Casts
#
# JAX's page calls casts cheap. **Predict:** which is more expensive, a cast from float32 to int32 or one from int32 to
# float32, and how expensive is one to uint32?

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
# A cast to integers has to truncate towards zero. On a v5e, a cast to uint32 costs as much as a division.
#
# ### Broadcasts, and sums of other kinds
#
# A broadcast is a sum in reverse. **Predict:** which of the lines below, whose last three are other reductions, cost
# more than their stores?

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
# Broadcasting a slice or a row costs only the stores. A column takes a trip through the XLU for every 8 rows; with
# 1,024 columns that is hidden behind the stores. A kernel that subtracts one value per row from block after block, as
# attention subtracts the maximum, avoids that trip by keeping the value in all 128 lanes ([lesson
# 8](08_control_flow_and_masks.ipynb), *Further*). Two axes can be summed at once, while a product along the lanes is
# refused. An argmax along 128 lanes costs what a sum costs, and along 1,024 lanes four times as much, because the
# registers of a row cannot be added up first.
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
# How many loads does a kernel need for 8 registers of the constants that `jnp.zeros`, `jnp.ones` and `jnp.full` make?
# And how many for those of `broadcasted_iota`, which differ from lane to lane?

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
# The kernel needs no loads, only the stores, so constants take no memory and need no input. (On a TPU, an iota has an
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
# say whether a kernel that uses it is right. Test everything else in such a kernel with `jax.random` in its place.
# (`pltpu.stateful_uniform`, which turns the chip's bits into floats, does not run in the simulator at all.)
#
# ### Copies that you did not write
#
# XLA chooses how an array is laid out in HBM, and for an argument it takes the order of axes with the least padding. A
# kernel wants the last axis in the lanes. If the two differ, XLA copies the array before the kernel, and the result
# after it.
#
# The first line below is a kernel on f32[524288, 64], and the second the same kernel on the same elements as
# f32[262144, 128]. In the third line the array is f32[524288, 64] again, but one matmul produces it and another takes
# the result: `doubled(a @ b) @ c`. **Predict:** how many times as many bytes does the first line move as the second,
# and which copies does the third line need?

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
# The first line moves five times as many bytes. Its kernel moves twice as many, because its rows are padded, and the
# copies move three times as many. The third line needs no copies, because the matmul, here a fusion, writes the array
# as the kernel wants it; only the padding in the kernel remains. The second line has neither copies nor padding,
# because no other order of axes is better than a last axis of 128. (With fewer rows, XLA may keep the padded arrays in
# VMEM, which makes these figures smaller.)
#
# If the width is 64, as in many heads of attention, let two heads share a row (06.8). Lesson 9 covers another kind of
# copy, which the compiler makes to be safe when an array is overwritten while it is still needed.
#
# ### Where spilled registers go
#
# A core has 64 vector registers. What does not fit is spilled to VMEM and counts against its limit, as the next cell
# shows for a softmax in one block of growing width.


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
# Arrays of shape (n, 1, 1) spill soonest, because they take the most registers for their elements.
#
# <!-- next -->
