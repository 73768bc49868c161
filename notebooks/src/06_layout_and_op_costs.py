# %% [markdown]
# # Lesson 6: Layout and the price of an op
#
# *60 minutes, then 58 for the exercises. What stands under "Further" at the end is extra: 25 minutes. You need lesson 2,
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

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, cost, grid, text, viz


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
# It is what many such operations cost each, not how long one alone takes. All prices on this page are cycles of a v5e,
# predicted (compiler), if nothing else is said. [A page of the course](../docs/op_costs.md) has some 80 more.
#
# After this lesson you can
# - say how many registers an array takes, and how much of them is empty,
# - tell a cheap operation from a dear one before you write it, and find a cheaper one,
# - choose the axis along which you sum and broadcast,
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
# The painter only counts. Is it right? The program tells: it loads each register once.

# %%
for shape, price in prices.items():
    registers = grid.registers(shape, jnp.float32)
    print(
        f"{shape!s:14} painted {registers:5,}, loaded {price.slots['load']:6,.0f},", end=""
    )
    print(f" {price.cycles:6,.0f} cycles")

# %% [markdown]
# **The opening is answered: 1, 16, 128 and 1,024 cycles, a cycle for each register.** A register of (1024, 1, 1) holds one
# number, and 1,023 places that are added to as well, and thrown away.
#
# > **The last axis goes to the lanes and is rounded up to 128. The one before goes to the sublanes and is rounded up to 8.
# > Each place of the axes before these begins registers of its own.**
#
# Pallas never looks at any but the last two axes for that. An array of shape (n, 1, 1), says JAX's page on
# [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html), takes at least n registers. So keep the
# last two axes large, above all the last, and let the axes in front be short.
#
# Two things are kinder than the rule. An array of 1, 2 or 4 rows is stored in tiles of so many rows, and several of these
# share a register. And narrow numbers share a lane: a register holds 16 x 128 of bfloat16, and 32 x 128 of int8.
# **Predict the cycles:** (1, 1024) of float32, and then a copy of (32, 256) in float32, bfloat16 and int8.


# %%
def same(x):
    return x


print(f"(1, 1024) plus one: {compiler.op_cost(plus_one, array(1, 1024)).cycles:.0f} cycle")
for dtype in (jnp.float32, jnp.bfloat16, jnp.int8):
    price = compiler.op_cost(same, array(32, 256, dtype=dtype))
    print(
        f"a copy of {price.registers} registers of {jnp.dtype(dtype).name:8}: {price.cycles:.0f} cycles"
    )

# %% [markdown]
# Eight tiles of one row fill one register. And a quarter of the bytes is a quarter of the cycles, as long as nothing is
# computed.
#
# ## In HBM, too
#
# Registers are filled from VMEM, and VMEM from HBM, and there an array lies in the same tiles. Take 8,192 numbers, one
# in each row: f32[8192, 1]. A kernel doubles them. **Predict:** how many bytes does it move from HBM and back? How many if
# the same numbers come as (64, 128)? As (1, 8192)?


# %%
def doubled(x, block):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    down = block[0] < x.shape[0]  # the blocks go down the rows, or along the only row
    spec = pl.BlockSpec(block, lambda i: (i, 0) if down else (0, i))
    steps = x.size // (block[0] * block[1])
    return pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[spec], out_specs=spec
    )(x)


print(f"the numbers themselves, in and out: {2 * 4 * 8192:,} bytes")
for shape, block in [((8192, 1), (1024, 1)), ((64, 128), (8, 128)), ((1, 8192), (1, 1024))]:
    call = functools.partial(doubled, block=block)
    moved = cost.hbm_bytes(grid.walk(call, array(*shape)))
    print(f"{shape!s:10} in blocks of {block!s:10}: {moved:10,} bytes")

# %% [markdown]
# A column moves 128 times its numbers: each row is padded to 128 lanes. A single row is not padded at all.
#
# > **One number a row is the dearest way to keep a vector. Keep it as a row, (1, n), or as (n / 128, 128).**
#
# Statistics of rows, one number each, are where this bites: a mean, a maximum, the sum of a softmax.
#
# ## A list of prices
#
# JAX's page sorts the operations on every element into three classes. Cheap are `+ - *`, max, min, where, abs, the operations
# on bits, comparisons and casts. Medium are `/ // %`, exp, tanh and pow. Expensive are sin and cos. Every row of that list,
# and some more, was compiled and priced for this course, on three chips.
#
# **Predict first.** Of the medium ones, two cost no more than an addition, and two cost more than a sine. Which? (Try the
# list of numbers and chips: one of its entries is int32.)

# %%
viz.cost_bars(compiler.op_prices())

# %%
kept = compiler.op_prices()
for says in ("cheap", "medium", "expensive"):
    found = [
        (cycles, name, column)
        for name, row in kept.rows.items()
        for column, cycles in row.cycles.items()
        if row.says == says and cycles and column in ("f32, v5e", "int32, v5e")
    ]
    least, most = min(found), max(found)
    print(f"{says:9} from {least[0]:4} ({least[1]}, {least[2]})", end="")
    print(f" to {most[0]:4} ({most[1]}, {most[2]})")

# %% [markdown]
# The page has aged. *Medium* reaches from exp, which costs what an addition costs, to the division of whole numbers, which
# costs more than two sines. And on a v6e things are different once more: there x / y is as cheap as exp.
#
# Where does a price come from? Lesson 2 had the rule: the largest of stores, loads / 3, VPU / 4, and EUP. Here it is,
# beside the price, for operations with their units:


# %%
def by_rule(price):
    slots = {unit: price.slots.get(unit, 0) for unit in ("store", "load", "VPU", "EUP")}
    return max(slots["store"], slots["load"] / 3, slots["VPU"] / 4, slots["EUP"])


x, n = array(64, 128), array(64, 128, dtype=jnp.int32)
LISTED = {
    "x + y": (jnp.add, x, x),
    "exp(x)": (jnp.exp, x),
    "x / y": (jnp.divide, x, x),
    "x * approximate 1 / y": (lambda x, y: x * pltpu.reciprocal(y, approx=True), x, x),
    "exp2(y * log2(x))": (lambda x, y: jnp.exp2(y * jnp.log2(x)), x, x),
    "polynomial of four terms": (lambda x: x * (1 + x * (2 + x * (3 + 4 * x))), x),
    "n // 8": (lambda n: n // 8, n),
    "n >> 3": (lambda n: n >> 3, n),
    "relu(x)": (jax.nn.relu, x),
    "where(x > 0, x, 0)": (lambda x: jnp.where(x > 0, x, 0), x),
}
print("for one register           price   by the rule   VPU   EUP")
for name, (fn, *args) in LISTED.items():
    price = compiler.op_cost(fn, *args)
    each = price.registers
    vpu, eup = (price.slots.get(unit, 0) / each for unit in ("VPU", "EUP"))
    print(f"{name:25}{price.of_a_register:7.2f}", end="")
    print(f"{by_rule(price) / each:14.2f}{vpu:6.0f}{eup:6.0f}")

# %% [markdown]
# An exp is one operation of the EUP and two of the VPU, and these fit beside the load and the store that are needed anyway.
# A division begins with one operation of the EUP, a first guess of 1 / y. Most of the fourteen of the VPU make it exact. Is it
# they that cost? Take them away, and a guess and a product are left, two operations of the VPU, for the price of a copy.
#
# - **A power of an array** is dear, for it has to be right for all numbers, negative ones and zeros too. If x is above 0, take
#   exp2(y log2(x)): two operations of the EUP, two cycles. A constant whole power is a few products.
# - **Whole numbers cannot be divided** by any unit; the compiler writes a long division, bit by bit. By a power of two
#   shift and mask: `n >> 3` is `n // 8` and `n & 7` is `n % 8`, for negative numbers too.
# - **A sine** has no unit either. It is made of some 150 operations, to be right at every angle. On a short
#   interval a polynomial of three or four terms will do.
# - **relu** is a comparison and a choice, or one max. Beside its load and store it is free.
#
# A guess is not exact, of course. How good is it?

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
# The simulator rounds the guess as bfloat16 rounds. What a chip does only a chip can tell, and nothing is promised. Where the
# result goes to bfloat16 anyway, that is often good enough.
#
# And casts, are they cheap? **Predict:** which is dearer, float32 to int32 or back? And to uint32?

# %%
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
# A cast to whole numbers has to cut off, and to hold what is too large. To uint32 it is as dear as a division on a v5e.
#
# ## 16 bits are stored, 32 are computed
#
# bfloat16 halves the loads and the stores. What does it do to the arithmetic? Below is gelu, by its tanh formula: in
# float32; in bfloat16; and in bfloat16 that is cast to float32 before and back at the end. **Predict the order,** for a v5e and
# for a v6e.


# %%
def gelu_in_f32(x):
    wide = x.astype(jnp.float32)
    return jax.nn.gelu(wide, approximate=True).astype(x.dtype)


listed = kept.rows["gelu(x), by tanh"].cycles
narrow = array(64, 256, dtype=jnp.bfloat16)  # 16 times 1,024 numbers
print("cycles for 1,024 numbers      v5e   v6e")
for name, dtype in (("float32", "f32"), ("bfloat16", "bf16")):
    print(f"{name:26}{listed[f'{dtype}, v5e']:7.2f}{listed[f'{dtype}, v6e']:6.2f}")
cast = [compiler.op_cost(gelu_in_f32, narrow, chip=chip).cycles for chip in ("v5e", "v6e")]
print(f"{'bfloat16, cast once':26}{cast[0] / 16:7.2f}{cast[1] / 16:6.2f}")
print(compiler.op_cost(jnp.add, *[array(32, 512, dtype=jnp.int8)] * 2))

# %% [markdown]
# The VPU of a v5e computes in 32 bits. Left to itself, bfloat16 is widened and packed again at each of gelu's operations.
# Cast once, and it is widened once: take that cause away, and half of the price is gone. A v6e has operations of
# 16 bits of its own, and there the cast is a loss.
#
# > **On a v5e and a v5p: store in bfloat16, cast when you load, compute in float32, cast when you store.**
#
# int8 cannot even be added. It is for the MXU, and for storing.
#
# ## Sums, axis by axis
#
# An array of (16, 8, 128) is 16 full registers. Sum it over its first axis, over its second, over its last. Each time some
# 16,000 numbers are added. **Predict:** the order, and about the factors.

# %%
cube = array(16, 8, 128)
print("sum over        cycles   VPU   XLU")
for name, axis in (("axis 0, leading", 0), ("axis 1, sublanes", 1), ("axis 2, lanes", 2)):
    price = compiler.op_cost(lambda x, axis=axis: jnp.sum(x, axis, keepdims=True), cube)
    vpu, xlu = (price.slots.get(unit, 0) for unit in ("VPU", "XLU"))
    print(f"{name:17}{price.cycles:5.0f}{vpu:6.0f}{xlu:6.0f}")

# %% [markdown]
# Over a leading axis whole registers are added to each other: 15 additions, and the loads take longer than they do. Over
# the sublanes each register has to be folded three times, 8 rows to 4 to 2 to 1. Over the lanes it is the XLU that folds,
# and it is slow.
#
# If it is the lanes that cost, then the same sums should be cheap where they do not run along the lanes. Those over axis
# 2 are 128 sums of 128 numbers. Put them upright: an array of (128, 128), and sum over its first axis.

# %%
upright = compiler.op_cost(lambda x: jnp.sum(x, 0, keepdims=True), array(128, 128))
lying = compiler.op_cost(lambda x: jnp.sum(x, 2, keepdims=True), cube)
print(f"128 sums of 128 numbers along the lanes: {lying.cycles:4.0f} cycles")
print(f"128 sums of 128 numbers, upright:        {upright.cycles:4.0f} cycles")

# %% [markdown]
# The same numbers, the same sums, and an eighth of the cycles. (A transpose in the kernel would not pay: it costs as much as
# the sums along the lanes, as a table below shows. Whoever makes the array has to make it so, or a copy outside the kernel.)
#
# Two more questions. Eight rows of 512 numbers have four registers. **Is their sum four times as dear?** And a broadcast is a sum
# backwards: one number to all lanes, or one row to all rows. **Which is dear?**

# %%
for width in (128, 512):
    price = compiler.op_cost(lambda x: jnp.sum(x, 1, keepdims=True), array(64, width))
    print(f"64 rows of {width:4}, a sum each: {price.cycles:4.1f} cycles")
for name, shape, to in (
    ("a block for all blocks", (1, 8, 128), (8, 8, 128)),
    ("a row for all rows", (1, 128), (64, 128)),
    ("a column for all columns", (64, 1), (64, 128)),
):
    price = compiler.op_cost(lambda x, to=to: jnp.broadcast_to(x, to), array(*shape))
    print(f"{name:25} {price.cycles:4.1f} cycles, {price.slots.get('XLU', 0):3.0f} XLU")

# %% [markdown]
# A long row costs no more: its registers are added to one first, and then there is one trip to the XLU for 8 rows.
# Broadcasts come in the same order as sums: along the lanes is dear, the rest is the stores.
#
# > **Sum and broadcast over leading axes if you can, over sublanes if you must, and over lanes as late as possible.**
#
# JAX's page says that only one axis at a time can be summed. What does the compiler say today?

# %%
for name, fn in {
    "sum over axes 1 and 2": lambda x: jnp.sum(x, (1, 2), keepdims=True),
    "argmax along the lanes": lambda x: jnp.argmax(x[0], 1, keepdims=True),
    "product along the lanes": lambda x: jnp.prod(x[0], 1, keepdims=True),
}.items():
    price = compiler.op_cost(fn, array(8, 8, 128))
    print(text.folded(f"{name}: {price.why or f'{price.cycles:.0f} cycles'}"))

# %% [markdown]
# ## What moves, and what only has another name
#
# A reshape of a NumPy array is free: no number moves. In a kernel it is free if no number changes its sublane and its lane.
# JAX's page knows two kinds that work on the last two axes. Leading axes may be flattened onto the second last, and an axis
# that a reduction has just removed may come back. Of transposes it knows all that leave the last two axes alone, for four
# axes and more, and that of the last two.
#
# **Predict for each line:** free, paid for, or refused? Free means a cycle for each register: load it, store it.

# %%
MOVES = {
    "(64, 128) to (8, 8, 128)": (lambda x: x.reshape(8, 8, 128), (64, 128)),
    "(8, 8, 128) to (64, 128)": (lambda x: x.reshape(64, 128), (8, 8, 128)),
    "(64, 256) to (128, 128)": (lambda x: x.reshape(128, 128), (64, 256)),
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
# None is refused: the page has aged here, too. Free is what leaves each number in its place in a register. (64, 256) to
# (128, 128) does move numbers between sublanes, with two operations of the VPU a register, and these fit beside the stores.
# (64, 128) to (64, 2, 64) moves half of all numbers to other lanes, and makes 64 registers of 8: each slice of 2 x 64 begins
# its own. And to turn one row into a column costs as much as to turn 128 x 128 numbers.
#
# ## Where a slice begins
#
# Slices of a Ref have a place, and the place may cost. A slice is aligned if it begins at a multiple of the tile.
# Here is a load of 8 rows, or of 128 lanes, at several places; `i` is known only when the kernel runs. **Predict:** which
# is dearer, rows that begin at 3, or lanes that begin at 64? Which two are refused?


# %%
def loads(take, shape, out, dtype, count):
    """A kernel that takes ``count`` slices of as many arrays in VMEM."""

    def kernel(i_ref, o_hbm, x, o, sem):
        for number in range(count):
            o[number] = take(x.at[number], i_ref[0])
        copy = pltpu.make_async_copy(o.at[i_ref[0]], o_hbm, sem)
        copy.start()
        copy.wait()

    scratch = [pltpu.VMEM((count, *s), dtype) for s in (shape, out)]
    return pl.pallas_call(
        kernel,
        out_shape=array(*out, dtype=dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[*scratch, pltpu.SemaphoreType.DMA],
    )


def price_of(take, shape, out, dtype=jnp.float32):
    """Cycles for each further slice, or the compiler's reason."""
    place = array(1, dtype=jnp.int32)
    few, many = (
        compiler.compile_tpu(loads(take, shape, out, dtype, count), place)
        for count in (16, 32)
    )
    if not few.ok:
        return few.error.what
    xlu = sum(bundle.slots.get("XLU", 0) for bundle in many.listing) / 32
    return f"{(many.cycles - few.cycles) / 16:.1f} cycles, {xlu:.0f} XLU"


f, b = jnp.float32, jnp.bfloat16
for name, take, shape, out, dtype in (
    ("rows 8 to 16", lambda x, i: x[8:16], (64, 256), (8, 256), f),
    ("rows 3 to 11", lambda x, i: x[3:11], (64, 256), (8, 256), f),
    ("lanes 64 to 192", lambda x, i: x[:, 64:192], (8, 512), (8, 128), f),
    ("rows 3 to 19, bf16", lambda x, i: x[3:19], (64, 128), (16, 128), b),
    ("8 rows from i", lambda x, i: x[pl.ds(i, 8)], (64, 256), (8, 256), f),
    ("8 rows from 8 i", lambda x, i: x[pl.ds(8 * i, 8)], (64, 256), (8, 256), f),
    ("8 rows from i, 128 wide", lambda x, i: x[pl.ds(i, 8)], (64, 128), (8, 128), f),
    ("1 row from i", lambda x, i: x[pl.ds(i, 1)], (64, 256), (1, 256), f),
    ("128 lanes from i", lambda x, i: x[:, pl.ds(i, 128)], (8, 512), (8, 128), f),
    ("8 rows, every second", lambda x, i: x[pl.ds(0, 8, 2)], (64, 128), (8, 128), f),
    ("block i of (16, 8, 128)", lambda x, i: x[i], (16, 8, 128), (8, 128), f),
):
    registers = grid.registers(out, dtype)
    said = price_of(take, shape, out, dtype)
    print(text.folded(f"{name:24} {text.counted(registers, 'register')}: {said}"))

# %% [markdown]
# - Aligned is a cycle a register. Rows that begin elsewhere cost little in float32, and five times as much in bfloat16,
#   where two rows share each lane. Lanes that begin elsewhere have to be rotated, which is the XLU's.
# - A start that only the run knows must be provably a multiple of 8 rows, or 128 lanes. `8 * i` proves it. So does
#   `pl.multiple_of(i, 8)`, but that is a promise of yours, which the compiler believes.
# - Of a float32 Ref that is 128 wide, any row will do: there each row lies right behind the one before. And one row of a wide
#   Ref is fine, which is how one gathers. Every second row of a Ref of 128 lanes is free, too; of wider ones it is refused.
# - A leading axis takes any index, for nothing. **What you want to choose at run time, put in front.**
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. How many registers does float32[16, 4, 100] take? And float32[64, 100]?</summary>
# 16: each of the 16 slices begins its own, and fills half of its rows. 8: the same numbers, with the leading axes flattened onto the
# rows.</details>
#
# <details><summary>2. Which of these are about as cheap as a copy: tanh(x), x / y, n % 8 of whole numbers, x ** 2?</summary>
# tanh, and x ** 2, which is a product. n % 8 is not, but n & 7 is, and the same. x / y is not on a v5e, and is on a v6e.</details>
#
# <details><summary>3. You need the largest of 16 numbers for each of 100,000 points. In which shape do you want them?</summary>
# (16, 100000), or with 128 points in the last axis and the 16 in front. As (100000, 16) an eighth of each register is used, and
# the maximum runs along lanes.</details>
#
# <details><summary>4. A kernel keeps 4,096 row maxima as f32[4096, 1]. What does it take in VMEM, and what would (1, 4096) take?</summary>
# 2 MiB, for each row is padded to 128 lanes. 16 KiB.</details>
#
# <details><summary>5. A colleague computes silu in bfloat16 on a v5e, "because it is half the data". What do you say?</summary>
# Half the loads and stores, and more arithmetic: each operation widens and packs. Cast to float32 once, after the load.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 6](../exercises/06_layout_and_op_costs.ipynb). If you have time for one only, take 06.4: the
# same sums for a small part of the cycles.

# %% [markdown]
# ## Further
#
# Dtypes, constructors, random numbers, the copies that XLA makes around a kernel, and where spilled registers go.
#
# ### Which numbers may a kernel have?
#
# JAX's page lists float32, bfloat16, and whole numbers except int4. **Predict:** which of these can be copied by a v5e's
# kernel, and which can be added?

# %%
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
# More than the page lists can be stored and moved; what can be computed with is less. Cast after the load.
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
# "Notably, the jax.random module is not compatible with Pallas as of today", says JAX's page. Today has passed. There are two
# ways. `jax.random` with a key that the kernel makes of a seed: the numbers that JAX gives outside as well. And the generator
# of the chip: `pltpu.prng_seed`, then `pltpu.prng_random_bits`. **Which is cheaper?**


# %%
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
# The chip's generator is far cheaper. But **the simulator gives zeros for it**, and nothing else: no judge without a chip can
# say whether a kernel with it is right. Test all the rest of such a kernel with `jax.random` in its place.
# (`pltpu.stateful_uniform`, which makes floats of the chip's bits, does not run in the simulator at all.)
#
# ### Copies that you did not write
#
# XLA chooses how an array lies in HBM, and for an argument it takes the order of axes with the least padding. A kernel wants the
# last axis in the lanes. If the two differ, XLA copies the array before the kernel, and the result after it. Here is a kernel
# on f32[131072, 64], and on the same numbers as f32[65536, 128]. **Predict:** how many times as many bytes does the first move?

# %%
for shape in ((131072, 64), (65536, 128)):
    call = functools.partial(doubled, block=(4096, shape[1]))
    report = compiler.compile_tpu(call, array(*shape), simulate=False)
    parts = ", ".join(f"{op.kind} {op.hbm_bytes / 1e6:.0f}" for op in report.ops)
    print(
        f"{shape!s:12} {report.hbm_bytes / 1e6:4.0f} MB between HBM and the chip: {parts}"
    )

# %% [markdown]
# Three times as many, padding and copies together. The copies are there for the layout alone: an array whose last axis is 128 has nothing to win by another order, and they are
# gone. Where a width of 64 is given, as in many heads of attention, let two heads share a row (06.8). A copy that the compiler
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
# JAX's page warns of arrays of (n, 1, 1) for this, too: they take the most registers for their numbers.
