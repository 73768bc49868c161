# %% [markdown]
# # Exercises 6: Layout and the price of an op
#
# You predict registers, prices and slices with pencil and paper, and then write kernels that have to stay within a
# budget. All cycles are those of a v5e, predicted (compiler).
#
# Come here from [lesson 6](../notebooks/06_layout_and_op_costs.ipynb). About 53 minutes.
# Short of time? Do 06.4 and 06.6. Want more? 06.8 and 06.9, 45 minutes, begin with an empty cell.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, cost, grid


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


# %% [markdown]
# ## 06.1 Predict: six arrays in registers
#
# *Difficulty 2 of 5. 9 minutes, 6 lines.*
#
# For each array, give a pair such as `(3, "12.5 %")`: the number of vector registers that the array takes, with those
# that it fills only in part, and the share of the places in them that is empty. The number of registers must be exact,
# while the share may be off by 1 % either way.
#
# | name | the array |
# |---|---|
# | A | float32[100, 100] |
# | B | float32[9, 4, 128] |
# | C | float32[3, 900] |
# | D | bfloat16[48, 200] |
# | E | int8[64, 130] |
# | F | float32[500, 1] |

# %% answer="06.1"
filled = {
    "A": (None, None),
    "B": (None, None),
    "C": (None, None),
    "D": (None, None),
    "E": (None, None),
    "F": (None, None),
}
### BEGIN SOLUTION
filled |= {
    "A": (13, "24.9 %"),
    "B": (9, "50 %"),
    "C": (4, "34.1 %"),
    "D": (6, "21.9 %"),
    "E": (4, "49.2 %"),
    "F": (63, "99.2 %"),
}
### END SOLUTION

# %% check="06.1"
checks.check("06.1", filled)

# %%
# checks.hint("06.1")

# %% [markdown]
# ## 06.2 Choose: eight operations, four prices
#
# *Difficulty 2 of 5. 6 minutes, 8 words.*
#
# What is the price of each operation on a v5e, for one register? Choose among `"1 cycle"`, `"2 to 5"`, `"10 to 40"` and
# `"over 80"`. x and y are float32, n and m are int32, and silu(x) is x * sigmoid(x). Answer before you look at [the
# page of prices](../docs/op_costs.md).

# %% answer="06.2"
price_of = {
    "log(x)": None,
    "sqrt(x)": None,
    "silu(x)": None,
    "cos(x)": None,
    "x // y": None,
    "n % m": None,
    "n ^ m": None,
    "max(x, y)": None,
}
### BEGIN SOLUTION
price_of |= {
    "log(x)": "1 cycle",
    "sqrt(x)": "2 to 5",
    "silu(x)": "2 to 5",
    "cos(x)": "10 to 40",
    "x // y": "10 to 40",
    "n % m": "over 80",
    "n ^ m": "1 cycle",
    "max(x, y)": "1 cycle",
}
### END SOLUTION

# %% check="06.2"
checks.check("06.2", price_of)

# %%
# checks.hint("06.2")

# %% [markdown]
# ## 06.3 Choose: where a slice may begin
#
# *Difficulty 2 of 5. 6 minutes, 6 words.*
#
# Below are six loads from a ref in VMEM, where `i` is known only when the kernel runs. Call a load `"free"` if it takes
# a cycle for each register, `"expensive"` if it takes more, and `"refused"` if the compiler for a v5e refuses it.
#
# | name | the ref | the slice |
# |---|---|---|
# | A | float32[64, 128] | `x_ref[5:13]` |
# | B | float32[8, 512] | `x_ref[:, 100:228]` |
# | C | bfloat16[64, 128] | `x_ref[pl.ds(i, 16)]` |
# | D | float32[8, 512] | `x_ref[:, pl.ds(128 * i, 128)]` |
# | E | float32[64, 256] | `x_ref[pl.ds(4 * i, 8)]` |
# | F | int8[64, 128] | `x_ref[3:35]` |

# %% answer="06.3"
slices = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
slices |= {"A": "free", "B": "expensive", "C": "refused"}
slices |= {"D": "free", "E": "refused", "F": "expensive"}
### END SOLUTION

# %% check="06.3"
checks.check("06.3", slices)

# %%
# checks.hint("06.3")

# %% [markdown]
# ## 06.4 The same sums, another axis
#
# *Difficulty 3 of 5. 10 minutes, 7 lines. Fast track.*
#
# x has a row of 16 values for each of T points, and `slow_energy(x)` sums their squares for each point. Its result is
# right, but it is slow, because the sums run along the lanes and use only 16 of the 128 lanes.
#
# Write `energy(x)`, which calls a kernel of yours and returns the same vector. Around the kernel you may reshape and
# transpose as you like, because only the kernel's cycles count. For x[2048, 16], the core may take at most **a fifth**
# of the cycles that `slow_energy` takes, not counting waits for copies. T is a multiple of 128.


# %% given="06.4"
def slow_energy(x):
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        o_ref[...] = jnp.sum(v * v, axis=1, keepdims=True)

    column = jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype)
    return pl.pallas_call(kernel, out_shape=column)(x)[:, 0]


def of_the_core(fn, *args):
    """Return the cycles in which the core does not wait for copies."""
    report = compiler.compile_tpu(fn, *args)
    return report.cycles - report.time_split["DMA wait"]


try:
    cycles = of_the_core(slow_energy, array(2048, 16))
    print(f"slow_energy: {cycles:,} cycles of the core, predicted (compiler)")
except compiler.Unavailable as error:
    print(error)


# %% answer="06.4"
def energy(x):
    """Return the sum of the squares of each row of an f32[T, 16], as f32[T]."""
    ### BEGIN SOLUTION
    points = x.shape[0]

    def kernel(x_ref, o_ref):
        v = x_ref[...]
        o_ref[...] = jnp.sum(v * v, axis=0)

    blocks = x.T.reshape(16, points // 128, 128)
    return pl.pallas_call(kernel, out_shape=array(points // 128, 128))(blocks).reshape(
        points
    )
    ### END SOLUTION


# %% check="06.4"
checks.check("06.4", energy)

# %%
# checks.hint("06.4")
# checks.report("06.4")

# %% [markdown]
# ## 06.5 Rows and columns
#
# *Difficulty 2 of 5. 5 minutes, 10 lines.*
#
# Write `both_sums(x)` with one kernel, which takes x in one block. The function returns two vectors: the sum of each
# row, f32[M], and the sum of each column, f32[N]. There are two budgets:
#
# - The kernel may move x once, and the two vectors without padding. A column f32[M, 1] would exceed this budget.
# - The core may take at most 500 cycles for x[256, 1024], not counting waits for copies.

# %% answer="06.5"
both_sums = None
### BEGIN SOLUTION


def both_kernel(x_ref, rows_ref, columns_ref):
    v = x_ref[...]
    rows_ref[...] = jnp.sum(v, axis=1, keepdims=True).T
    columns_ref[...] = jnp.sum(v, axis=0, keepdims=True)


def both_sums(x):
    m, n = x.shape
    rows, columns = pl.pallas_call(both_kernel, out_shape=(array(1, m), array(1, n)))(x)
    return rows.reshape(m), columns.reshape(n)


### END SOLUTION

# %% check="06.5"
checks.check("06.5", both_sums)

# %%
# checks.hint("06.5")
# checks.report("06.5")

# %% [markdown]
# ## 06.6 Cheap enough
#
# *Difficulty 3 of 5. 12 minutes, 8 lines. Fast track.*
#
# `slow_ripple(a, p, x, s)` returns `a ** p * sin(x) / s`, where a and x are f32[M, N], and p and s are f32[1, N]. You
# may assume that a lies between 0.5 and 2, p between 0.5 and 3, x between -1.5 and 1.5, and s between 1 and 2. Each of
# the three parts needs only the accuracy of a bfloat16, so the error of the whole may be 1.2 % of a typical result.
#
# Write `ripple_kernel`, which computes the same values within that error. It may take at most **an eighth** of the
# cycles of `slow_ripple` for a[32, 512], not counting waits for copies.


# %% given="06.6"
def slow_ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    o_ref[...] = a_ref[...] ** p_ref[...] * jnp.sin(x_ref[...]) / s_ref[...]


def rippling(kernel, a, p, x, s):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype))(
        a, p, x, s
    )


slow_ripple = functools.partial(rippling, slow_ripple_kernel)
four = array(32, 512), array(1, 512), array(32, 512), array(1, 512)
try:
    report = compiler.compile_tpu(slow_ripple, *four)
    cycles = report.cycles - report.time_split["DMA wait"]
    print(f"slow_ripple: {cycles:,} cycles of the core, predicted (compiler)")
except compiler.Unavailable as error:
    print(error)


# %% answer="06.6"
def ripple_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    """Write a ** p * sin(x) / s."""
    ### BEGIN SOLUTION
    x, y = x_ref[...], x_ref[...] * x_ref[...]
    sine = x * (1 + y * (-1 / 6 + y * (1 / 120)))
    power = jnp.exp2(p_ref[...] * jnp.log2(a_ref[...]))
    # s has one row, so its reciprocal is computed once for all rows.
    o_ref[...] = power * sine * (1 / s_ref[...])
    ### END SOLUTION


# %% check="06.6"
checks.check("06.6", ripple_kernel)

# %%
# checks.hint("06.6")
# checks.report("06.6")

# %% [markdown]
# ## 06.7 Repair: one number a row
#
# *Difficulty 2 of 5. 5 minutes, 3 lines.*
#
# `slow_decay(t)` takes a vector and returns t exp(-t). Its author wanted an array with two axes and reshaped the vector
# to a column. The result is right, but because of how a column is stored in HBM, the blocks move many times as many
# bytes as the elements take.
#
# Write `decay(t)`, which calls a kernel and returns the same values, but moves each of them only once in and once out,
# without padding. The size of t is a multiple of 1024.


# %% given="06.7"
def decay_kernel(t_ref, o_ref):
    o_ref[...] = t_ref[...] * jnp.exp(-t_ref[...])


def slow_decay(t):
    column = t.reshape(-1, 1)
    block = pl.BlockSpec((256, 1), lambda i: (i, 0))
    return pl.pallas_call(
        decay_kernel,
        out_shape=column,
        grid=(t.size // 256,),
        in_specs=[block],
        out_specs=block,
    )(column).reshape(t.shape)


t = array(8192)
print(f"{cost.hbm_bytes(grid.walk(slow_decay, t)):,} bytes for {2 * 4 * t.size:,}")

# %% answer="06.7"
decay = None
### BEGIN SOLUTION


def decay(t):
    lanes = t.reshape(-1, 128)
    return pl.pallas_call(decay_kernel, out_shape=lanes)(lanes).reshape(t.shape)


### END SOLUTION

# %% check="06.7"
checks.check("06.7", decay)

# %%
# checks.hint("06.7")

# %% [markdown]
# ## 06.8 From an empty cell: two heads in a register
#
# *Difficulty 4 of 5. 25 minutes, 16 lines. Further.*
#
# x is f32[T, N], and each row holds N / 64 heads of 64 values side by side, so each row of a register holds two heads.
# `slow_heads(x)` divides each head by its root mean square. It is slow because it reshapes x in the kernel.
#
# Write `normed_heads(x)`, which calls a kernel of yours and returns the same array. The heads keep their layout, each
# element is moved once in and once out of HBM, and nothing may be padded. For x[256, 256], the core of `slow_heads`
# must take at least **2.5 times** as many cycles as yours, not counting waits for copies. N is a multiple of 128, while
# T can be anything.


# %% given="06.8"
def slow_heads_kernel(x_ref, o_ref):
    x = x_ref[...]
    heads = x.reshape(x.shape[0], x.shape[1] // 64, 64)
    scale = jax.lax.rsqrt(jnp.mean(heads * heads, axis=2, keepdims=True) + 1e-6)
    o_ref[...] = (heads * scale).reshape(x.shape)


def slow_heads(x):
    return pl.pallas_call(slow_heads_kernel, out_shape=x)(x)


try:
    print(compiler.compile_tpu(slow_heads, array(256, 256)))
except compiler.Unavailable as error:
    print(error)

# %% answer="06.8"
normed_heads = None
### BEGIN SOLUTION


def heads_kernel(x_ref, o_ref):
    for start in range(0, x_ref.shape[1], 128):
        lanes = pl.ds(start, 128)
        pair = x_ref[:, lanes]
        squares = pair * pair
        first = jax.lax.broadcasted_iota(jnp.int32, pair.shape, 1) < 64
        left = jnp.sum(jnp.where(first, squares, 0), axis=1, keepdims=True)
        right = jnp.sum(jnp.where(first, 0, squares), axis=1, keepdims=True)
        mean = jnp.where(first, left, right) / 64
        o_ref[:, lanes] = pair * jax.lax.rsqrt(mean + 1e-6)


def normed_heads(x):
    return pl.pallas_call(heads_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


### END SOLUTION

# %% check="06.8"
checks.check("06.8", normed_heads)

# %%
# checks.hint("06.8")
# checks.report("06.8")

# %% [markdown]
# ## 06.9 Golf: minutes on the clock
#
# *Difficulty 4 of 5. 20 minutes, 14 lines. Further.*
#
# s is int32 and holds times of day, in seconds since midnight, from 0 to 86,399. Write `minutes(s)`, which returns the
# minutes that a clock shows at each of these times, `s // 60 % 60`. The **score** is the number of cycles, predicted
# (compiler), for s[256, 512], including copies, and a lower score is better. **Par is 3,300**, and a score at par or
# below passes. With the divisions as written, a kernel with one block takes nearly 6,000 cycles. The number of rows of
# s is a multiple of 64, and the number of columns a multiple of 128.

# %% answer="06.9"
minutes = None
### BEGIN SOLUTION


def minutes_kernel(s_ref, o_ref):
    s = s_ref[...]
    since_midnight = (s >> 2) * 34953 >> 19
    hours = (s >> 4) * 37283 >> 23
    o_ref[...] = since_midnight - 60 * hours


def minutes(s):
    block = pl.BlockSpec((s.shape[0] // 2, s.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        minutes_kernel,
        out_shape=jax.ShapeDtypeStruct(s.shape, s.dtype),
        grid=(2,),
        in_specs=[block],
        out_specs=block,
    )(s)


### END SOLUTION

# %% check="06.9"
checks.check("06.9", minutes)

# %%
# checks.hint("06.9")
# checks.report("06.9")

# %% [markdown]
# ## Where next
#
# You can now read a layout and a price. Lesson 7 multiplies matrices, where the MXU does the work and the question is
# which blocks keep it busy.
#
# <!-- next -->
