# %% [markdown]
# # Exercises 11: Debug, profile, autotune
#
# You solve four cases, repair a kernel whose test was green, remove spills, fit a line to published times, write an
# autotuner, a table for its results and a regression test, and explain a profile. Nothing here needs a TPU.
#
# Come here from [lesson 11](../notebooks/11_debug_profile_autotune.ipynb). About 60 minutes. Short of time? Do 11.1 and
# 11.5. Want more? 11.9 and 11.10, 60 minutes, begin with an empty cell.

# %%
# FIRST CELL

# %%
import itertools
import json

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, testing

# %% [markdown]
# ## 11.1 Detective: four cases
#
# *Difficulty 2 of 5. 12 minutes, 4 lines. Fast track.*
#
# Four kernels go through x[M, 128] in blocks of 8 rows and return the mean of the blocks (`case_a`) or their sum (the
# others). Each kernel has one wrong line. Run them with the tools of the lesson; the cell below the code defines
# `simulated`. The judges would tell you too much, so leave them for the end. For each case name the line, such as
# `"line 3"`, and the cause; a listing below numbers the lines. If you could repair a case in either of two lines, name
# the line whose code contradicts the names in it. The causes are:
#
# - `"count"`: the kernel uses a number of steps that is not the one it needs,
# - `"garbage"`: the kernel reads memory that nothing has written,
# - `"order"`: the steps rely on an order that is not promised,
# - `"early"`: the kernel reads a buffer while a copy into it is in flight,
# - `"block"`: an index map names the wrong block.
#
# So each answer is a pair, for example `("line 3", "block")`.


# %% given="11.1-cases"
def case_a(x):
    """Return the mean of the blocks."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            o_ref[...] = jnp.zeros_like(o_ref)

        done = pl.num_programs(0) * jnp.float32(1)
        o_ref[...] += (x_ref[...] - o_ref[...]) / done

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
    )(x)


def case_b(x):
    """Return the sum of the blocks."""

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            acc_ref[:4, :] = jnp.zeros((4, 128), x.dtype)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
    )(x)


def case_c(x):
    """Return the sum of the blocks."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def case_d(x):
    """Return the sum of the blocks, which are copied by hand."""
    chunks = x.shape[0] // 8

    def kernel(x_hbm, o_ref, two_ref, sem):
        def fetch(i, slot):
            chunk = x_hbm.at[pl.ds(8 * i, 8)]
            return pltpu.make_async_copy(chunk, two_ref.at[slot], sem.at[slot])

        o_ref[...] = jnp.zeros_like(o_ref)
        fetch(0, 0).start()

        @pl.loop(0, chunks)
        def turn(i):
            slot = jax.lax.rem(i, 2)
            fetch(i, slot).wait()

            @pl.when(i + 1 < chunks)
            def ahead():
                fetch(i + 1, 1 - slot).start()

            o_ref[...] += two_ref[1 - slot]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[
            pltpu.VMEM((2, 8, 128), x.dtype),
            pltpu.SemaphoreType.DMA((2,)),
        ],
    )(x)


# %% given="11.1"
x = jnp.repeat(jnp.arange(1.0, 5.0), 8)[:, None] * jnp.ones(
    (32, 128)
)  # blocks of 1, 2, 3, 4


def simulated(fn, *args, random_seed=7, **knobs):
    """Return what fn gives in JAX's TPU simulator with settings other than the course's."""
    knobs = pltpu.InterpretParams(random_seed=random_seed, **knobs)
    with pltpu.force_tpu_interpret_mode(knobs):
        result = jax.block_until_ready(fn(*args))
    pltpu.reset_tpu_interpret_mode_state()
    return result


for case in (case_a, case_b, case_c, case_d):
    print(case.__name__, *simulated(case, x)[:, 0])

# %%
checks.listing("11.1")  # the same code with line numbers

# %% answer="11.1"
found = {"A": None, "B": None, "C": None, "D": None}
### BEGIN SOLUTION
found |= {
    "A": ("line 9", "count"),  # debug_print of done prints 4 in all four steps
    "B": ("line 27", "garbage"),  # rows 4 to 7 are NaN, and right if memory is zero
    "C": ("line 61", "order"),  # two cores return another sum in each run
    "D": ("line 86", "early"),  # adds buffer 1 while the copy of chunk 1 is in flight
}
### END SOLUTION

# %% check="11.1"
checks.check("11.1", found)

# %%
# checks.hint("11.1")

# %% [markdown]
# ## 11.2 Repair: the test was green
#
# *Difficulty 2 of 5. 6 minutes, 2 lines to change.*
#
# `broken(x)` should return the largest value of each row of x[M, N], as [M, 1], for any sizes. Its author ran the test
# below, which passes, and shipped the kernel, but it has two mistakes. Copy it into the answer cell as `mended`, and
# repair both.


# %% given="11.2-broken"
def broken(x):
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.zeros_like(o_ref)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = jnp.where(column < n, x_ref[...], 0.0)
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)


for shape in ((8, 128), (16, 300)):
    uniform = jax.random.uniform(jax.random.key(0), shape)
    print(
        shape, "green:", bool((broken(uniform) == uniform.max(axis=1, keepdims=True)).all())
    )


# %% answer="11.2"
def mended(x):
    """Return the largest value of each row of x[M, N], as [M, 1]."""
    ### BEGIN SOLUTION
    n = x.shape[1]

    def kernel(x_ref, o_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def first():
            o_ref[...] = jnp.full_like(o_ref, -jnp.inf)

        column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        inside = jnp.where(column < n, x_ref[...], -jnp.inf)
        o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
    )(x)
    ### END SOLUTION


# %% check="11.2"
checks.check("11.2", mended)

# %%
# checks.hint("11.2")

# %% [markdown]
# ## 11.3 Find the spills, and remove them
#
# *Difficulty 3 of 5. 8 minutes, 8 lines.*
#
# `spilling(x)` subtracts the mean from each row and divides by the standard deviation, in blocks of 256 rows. Compile
# it for x[2048, 2048], and look at its spills and at what binds. Then write `mended(x)` with the same blocks and **no
# spill**; its time, predicted (compiler), may be at most 1.1 times the time of its bytes. 256 divides M. Removing the
# spills saves no time here, because HBM binds, but it saves VMEM: the lesson's kernel was refused because it was less
# than two MiB over the limit.


# %% given="11.3-spilling"
def spilling(x):
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        away = x - jnp.mean(x, axis=1, keepdims=True)
        variance = jnp.mean(away * away, axis=1, keepdims=True)
        o_ref[...] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)


report = compiler.compile_tpu(spilling, jax.ShapeDtypeStruct((2048, 2048), jnp.float32))
print(f"{report.spills} spills, {report.vmem_bytes / 2**20:.1f} MiB; binds: {report.bound}")


# %% answer="11.3"
def mended(x):
    """Return (x - mean) / deviation of each row in blocks of 256 rows, without spills."""
    ### BEGIN SOLUTION
    turn = 16  # rows: 16 x 2048 values fill half of the registers

    def kernel(x_ref, o_ref):
        @pl.loop(0, 256 // turn)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            away = x - jnp.mean(x, axis=1, keepdims=True)
            variance = jnp.mean(away * away, axis=1, keepdims=True)
            o_ref[these, :] = away * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(x.shape[0] // 256,), in_specs=[block], out_specs=block
    )(x)
    ### END SOLUTION


# %% check="11.3"
checks.check("11.3", mended)

# %%
# checks.hint("11.3")

# %% [markdown]
# ## 11.4 The price of a step, and what it cannot tell
#
# *Difficulty 3 of 5. 7 minutes, 8 lines.*
#
# A page of JAX's documentation (`docs/pallas/tpu/matmul.ipynb`) gives times of a bfloat16 matmul N x N x N in blocks of
# 128, **measured** on a v5e, from the host: `0.29767 ms` for N = 1024 and `11.7715 ms` for N = 4096. Suppose that a
# time consists of a fixed cost for the call and a fixed cost for each grid step.
#
# - **A** What does a step cost, its copies and its work included? Answer as text with a unit, such as `"1.2 us"`;
#   0.5 % either way will do.
# - **B** What does a call cost (5 %)?
# - **C** Which time do these two costs predict for N = 8192 (0.5 %)? Once all five answers are right, the check says
#   what the page measured.
# - **D** Which cause of a step's cost do these times prove: the `"latency"` of its copies, the `"work"` of the core, or
#   `"neither"`?
# - **E** Which experiment would tell these causes apart: `"more sizes"`, `"float32"`, `"a longer axis"`, or
#   `"blocks that stay"` where they are?

# %% answer="11.4"
fit = {"A": None, "B": None, "C": None, "D": None, "E": None}
### BEGIN SOLUTION
steps = {n: (n // 128) ** 3 for n in (1024, 4096, 8192)}
each = (11.7715e-3 - 0.29767e-3) / (steps[4096] - steps[1024])
call = 0.29767e-3 - steps[1024] * each
fit |= {
    "A": f"{each * 1e6} us",
    "B": f"{call * 1e3} ms",
    "C": f"{(call + steps[8192] * each) * 1e3} ms",
    "D": "neither",  # each has copies and work in all of its steps
    "E": "blocks that stay",  # with constant index maps no step copies
}
### END SOLUTION

# %% check="11.4"
checks.check("11.4", fit)

# %%
# checks.hint("11.4")

# %% [markdown]
# ## 11.5 An autotuner with six questions
#
# *Difficulty 3 of 5. 12 minutes, 20 lines. Fast track.*
#
# Write `tune(shape, ask)`, which returns good blocks (bm, bk, bn) for a bfloat16 matmul of `shape` = (m, k, n), with
# the kernel of lesson 7 and 16 MiB of VMEM.
#
# - A side is a power of two from 128 to 4096 that divides its axis. An axis shorter than 128 is one block.
# - `ask(blocks)` returns the seconds, predicted (compiler), or None if the compiler refuses the blocks. The lesson
#   asked about twelve choices; you may ask about 6 different ones.
# - You must return blocks that you asked about, and they may take at most 1.03 times as long as the best of all.
#
# The check tries your tuner on six shapes, from 64 x 2048 x 8192 to 8192 x 256 x 512, and on three small ones.


# %% answer="11.5"
def tune(shape, ask):
    """Return good (bm, bk, bn) for a matmul of (m, k, n), asking about at most 6."""
    ### BEGIN SOLUTION
    m, k, n = shape

    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    def fits(blocks):
        bm, bk, bn = blocks
        return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn <= 15 * 2**20

    def guess(blocks):
        bm, bk, bn = blocks
        steps = (m // bm) * (k // bk) * (n // bn)
        x_times = 1 if bk == k else n // bn
        y_times = 1 if (bk, bn) == (k, n) else m // bm
        moved = 2 * (m * k * x_times + k * n * y_times + m * n)
        step = max(max(bm, 32) * bk * bn / 65_536 + 300, 600)
        ends = 2 * (bm * bk + bk * bn + bm * bn) / 819e9
        return max(steps * step / 1.5e9, moved / 819e9) + ends

    legal = itertools.product(*map(sides, shape))
    likely = sorted(filter(fits, legal), key=guess)[:6]
    times = {blocks: ask(blocks) for blocks in likely}
    return min((b for b in likely if times[b] is not None), key=times.get)
    ### END SOLUTION


# %% check="11.5"
checks.check("11.5", tune)

# %%
# checks.hint("11.5")

# %% [markdown]
# ## 11.6 Keep what was found
#
# *Difficulty 2 of 5. 6 minutes, 8 lines.*
#
# Write `table(text, chip, shape, dtype, blocks=None)`, a table of tuned blocks that is stored as the text of a JSON
# file. `text` is what the file contains so far, and "" at first. With `blocks`, the function returns the new text,
# which also keeps these blocks for this chip, shape and dtype. Without `blocks`, it returns what `text` keeps for this
# chip, shape and dtype, as a tuple, or None if there is no entry. The cell below uses the function with a file.


# %% answer="11.6"
def table(text, chip, shape, dtype, blocks=None):
    """Return the new text with ``blocks``; without them, the blocks in ``text`` or None."""
    ### BEGIN SOLUTION
    kept = json.loads(text or "{}")
    key = f"{chip} {shape} {dtype}"
    if blocks is not None:
        return json.dumps(kept | {key: blocks})
    return tuple(kept[key]) if key in kept else None
    ### END SOLUTION


# %% given="11.6"
def keep(file, chip, shape, dtype, blocks):
    before = file.read_text() if file.exists() else ""
    file.write_text(table(before, chip, shape, dtype, blocks))


# %% check="11.6"
checks.check("11.6", table)

# %%
# checks.hint("11.6")

# %% [markdown]
# ## 11.7 A test that keeps it mended
#
# *Difficulty 2 of 5. 5 minutes, 2 lines.*
#
# The cell below the answer tests any kernel that claims to return the largest value of each row, as in 11.2. Before you
# begin, read `broken` there and find its two mistakes. Then write `data()`, which returns the float32 x[M, N] for the
# test: the repaired kernel must pass, and a kernel that still has either of the two mistakes must fail.


# %% answer="11.7"
def data():
    """Return x[M, N] that exposes both mistakes of 11.2, even one alone."""
    ### BEGIN SOLUTION
    return -1 - jax.random.uniform(jax.random.key(0), (8, 130))  # below 0, and ragged
    ### END SOLUTION


# %% given="11.7"
def test_largest(largest):
    testing.assert_kernel(largest, lambda x: jnp.max(x, axis=1, keepdims=True), data())


# %% check="11.7"
checks.check("11.7", data)

# %%
# checks.hint("11.7")

# %% [markdown]
# ## 11.8 Explain: forty percent idle
#
# *No points. 4 minutes, three or four sentences.*
#
# A colleague shows you a profile of a training step. The TPU is idle for 40 % of it, in one gap, and a softmax takes 5
# % of the step and uses next to nothing of the MXU. "I will write a kernel for the softmax," your colleague says. What
# do you answer? Write your text and run both cells; the check shows ours. Then judge yours: add
# `checks.assess("11.8", "yes")` below your text, or `"partly"`, or `"no"`.

# %% answer="11.8"
advice = None
### BEGIN SOLUTION
advice = """First find out what the host does during the gap. If it loads a batch, no kernel makes the gap
shorter, and the loader has to work ahead. It is normal that a softmax hardly uses the MXU, because it has no
matmul and is bound by HBM. Divide its bytes by the bandwidth: if the softmax takes about that long, it is as fast
as it can be. And since it takes only 5 % of the step, no kernel for it can save more than 5 %."""
checks.assess("11.8", "yes")
### END SOLUTION

# %% check="11.8"
checks.check("11.8", advice)

# %%
# checks.hint("11.8")

# %% [markdown]
# ## 11.9 From an empty cell: a census of what went bad
#
# *Difficulty 4 of 5. 30 minutes, 30 lines. Further.*
#
# A training run has NaN somewhere, and you write a kernel that says where. `census(x)` takes a float32 x[M, N] and
# returns two arrays of shape [1, N]. The first, in int32, counts the values of each column that are NaN or infinite.
# The second, in float32, is the largest |x| among the other values of the column, or 0 if none is left. M can be
# anything, and 128 divides N. The kernel reads x once and spills nothing, and its blocks do not grow with M.

# %% answer="11.9"
census = None
### BEGIN SOLUTION


def census(x):
    m, n = x.shape
    rows = 32

    def kernel(x_ref, bad_ref, size_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def begin():
            bad_ref[...] = jnp.zeros_like(bad_ref)
            size_ref[...] = jnp.zeros_like(size_ref)

        row = rows * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        ours, size = row < m, jnp.abs(x_ref[...])
        fine = size < jnp.inf  # false for NaN as well
        bad = jnp.where(ours & ~fine, 1, 0)
        bad_ref[...] += jnp.sum(bad, axis=0, keepdims=True)
        largest = jnp.max(jnp.where(ours & fine, size, 0.0), axis=0, keepdims=True)
        size_ref[...] = jnp.maximum(size_ref[...], largest)

    stays = pl.BlockSpec((1, n), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=(
            jax.ShapeDtypeStruct((1, n), jnp.int32),
            jax.ShapeDtypeStruct((1, n), jnp.float32),
        ),
        grid=(pl.cdiv(m, rows),),
        in_specs=[pl.BlockSpec((rows, n), lambda i: (i, 0))],
        out_specs=(stays, stays),
    )(x)


### END SOLUTION

# %% check="11.9"
checks.check("11.9", census)

# %%
# checks.hint("11.9")

# %% [markdown]
# ## 11.10 Golf: rows and columns that sum to one
#
# *Difficulty 5 of 5. 30 minutes, 30 lines. Further.*
#
# Write `balanced(x)` for a matrix of positive values. It divides each row by its sum and then each column by its sum,
# and does both six times, as `reference` below does. The whole matrix fits into VMEM. We count the cycles, predicted
# (compiler), for x[256, 2048]. Par is 16,000.


# %% given="11.10"
def reference(x):
    for _ in range(6):
        x = x / jnp.sum(x, axis=1, keepdims=True)
        x = x / jnp.sum(x, axis=0, keepdims=True)
    return x


# %% answer="11.10"
balanced = None
### BEGIN SOLUTION


def balanced(x):
    m, n = x.shape
    turn = min(m, 128)

    def kernel(x_ref, o_ref, u_ref):
        def one_round(_, v):
            columns = jnp.zeros((1, n), jnp.float32)
            for k in range(m // turn):
                these = pl.ds(k * turn, turn)
                u = 1 / jnp.sum(x_ref[these, :] * v, axis=1, keepdims=True)
                u_ref[these, :] = u
                columns += jnp.sum(x_ref[these, :] * u, axis=0, keepdims=True)
            return 1 / columns

        v = jax.lax.fori_loop(0, 6, one_round, jnp.ones((1, n), jnp.float32))
        for k in range(m // turn):
            these = pl.ds(k * turn, turn)
            o_ref[these, :] = x_ref[these, :] * u_ref[these, :] * v

    return pl.pallas_call(
        kernel, out_shape=x, scratch_shapes=[pltpu.VMEM((m, 1), jnp.float32)]
    )(x)


### END SOLUTION

# %% check="11.10"
checks.check("11.10", balanced)

# %%
# checks.hint("11.10")

# %% [markdown]
# <!-- next -->
