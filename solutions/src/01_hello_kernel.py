# %% [markdown]
# # Exercises 1: Hello, kernel
#
# Five kernels to write, configure or repair, and four questions about kernels to read. Each has an empty place for your
# lines, a cell that checks them, and hints if you ask. Nothing here needs a TPU. A wrong answer gets a sentence, not a
# red page; only what is no Python at all, a missing bracket say, is red.
#
# Come here from [lesson 1](../notebooks/01_hello_kernel.ipynb). About 53 minutes. Short of time? Do 01.1, 01.4 and 01.7.
# Want more? 01.10 and 01.11, 35 minutes, begin with an empty cell.
#
# What you have done is kept in `course_progress.json`, a small file that you may delete; `checks.progress()` shows it.

# %%
# FIRST CELL

# %%
import jax
import jax.numpy as jnp
import keras
from jax.experimental import pallas as pl

# %% [markdown]
# ## 01.1 Add two vectors
#
# *Difficulty 1 of 5. 5 minutes, 1 line. Fast track.*
#
# `add_vectors` is complete: it hands two arrays to a kernel. The kernel is yours. `x_ref`, `y_ref` and `o_ref` are
# places in memory, not values: read all of one with `x_ref[...]`, write with `o_ref[...] = value`. The check tries
# vectors of 4096, 1000 and 8 numbers.


# %% answer="01.1"
def add_kernel(x_ref, y_ref, o_ref):
    """Write x + y into o_ref."""
    ### BEGIN SOLUTION
    o_ref[...] = x_ref[...] + y_ref[...]
    ### END SOLUTION


# %% given="01.1"
def add_vectors(x, y):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(add_kernel, out_shape=out)(x, y)


# %% check="01.1"
checks.check("01.1", add_vectors)

# %% [markdown]
# Stuck? Each call gives one more hint; after an attempt, `checks.solution("01.1")` shows ours. Passed, and curious what
# the compiler predicts? `checks.report("01.1")` is its report on your kernel.

# %%
# checks.hint("01.1")
# checks.report("01.1")

# %% [markdown]
# ## 01.2 Any dtype, any shape
#
# *Difficulty 2 of 5. 8 minutes, 4 lines.*
#
# Write `add_any(x, y)` with a kernel and a `pallas_call` of your own. It must work for float32, int32 and bfloat16,
# for one axis or two, and give back the dtype it was given. The integers in the check are larger than 2^24: a
# kernel that goes through float32 on the way loses some of them.


# %% answer="01.2"
def add_any(x, y):
    """x + y in a Pallas kernel, for any shape and dtype that x and y share."""
    ### BEGIN SOLUTION

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)
    ### END SOLUTION


# %% check="01.2"
checks.check("01.2", add_any)

# %%
# checks.hint("01.2")

# %% [markdown]
# ## 01.3 A Keras layer
#
# *Difficulty 3 of 5. 12 minutes, 4 lines.*
#
# Put a kernel into `keras.layers.Layer`: `PallasAdd` takes a list of two arrays and returns their sum. Use `add_vectors`
# of 01.1, or write a kernel of its own. The check calls it, builds a model with an unknown batch size, runs `model.predict` on 20 rows in batches of 8 (the last
# batch has 4), writes the layer to JSON and reads it back.
#
# Keras finds out the shape of a layer's output by tracing `call` with a batch of unknown size, and Pallas cannot
# trace a kernel of unknown size. So tell Keras the shape yourself, in `compute_output_shape`.


# %% answer="01.3"
class PallasAdd(keras.layers.Layer):
    """Adds its two inputs in a Pallas kernel."""

    ### BEGIN SOLUTION
    def call(self, inputs):
        x, y = inputs
        return add_vectors(x, y)

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    ### END SOLUTION


# %% check="01.3"
checks.check("01.3", PallasAdd)

# %%
# checks.hint("01.3")

# %% [markdown]
# ## 01.4 Configure only: a grid for 4096 elements
#
# *Difficulty 2 of 5. 8 minutes, 1 line. Fast track.*
#
# The kernel is given: it adds one block. You choose how the arrays are cut. `configure(n)` returns three things for
# vectors of `n` elements: the grid, the block shape, and the index map that says which block belongs to step `i`.
# Two steps or more, every block exactly once, and the v5e compiler must accept the block. The check tries 4096, 8192
# and 3072.


# %% answer="01.4"
def configure(n):
    """Return (grid, block shape, index map) for two vectors of n elements."""
    ### BEGIN SOLUTION
    return (n // 1024,), (1024,), lambda i: (i,)
    ### END SOLUTION


# %% check="01.4"
checks.check("01.4", configure)

# %%
# checks.hint("01.4")

# %% [markdown]
# ## 01.5 Repair: a kernel that writes where it reads
#
# *Difficulty 2 of 5. 7 minutes, 1 line.*
#
# Someone wrote this kernel for `2 * x + y`. Run it: the numbers are right. It is still wrong, and running it will not
# tell you, not even in the simulator. On a chip `x_ref` is a copy that belongs to the pipeline. (The numbers judge reads
# the kernel's code, so it does see it.)
#
# Write `scaled_add_kernel` so that it computes the same and leaves its inputs alone.


# %% given="01.5-broken"
def broken_kernel(x_ref, y_ref, o_ref):
    x_ref[...] *= 2
    o_ref[...] = x_ref[...] + y_ref[...]


x = jnp.arange(8.0)
print(pl.pallas_call(broken_kernel, out_shape=x)(x, x))


# %% answer="01.5"
def scaled_add_kernel(x_ref, y_ref, o_ref):
    """Write 2 * x + y into o_ref."""
    ### BEGIN SOLUTION
    o_ref[...] = 2 * x_ref[...] + y_ref[...]
    ### END SOLUTION


# %% given="01.5"
def scaled_add(x, y):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(scaled_add_kernel, out_shape=out)(x, y)


# %% check="01.5"
checks.check("01.5", scaled_add)

# %%
# checks.hint("01.5")

# %% [markdown]
# ## 01.6 Predict: how many bytes move?
#
# *Difficulty 1 of 5. 2 minutes, 1 line.*
#
# `add_vectors` adds two float32 vectors of 6144 numbers, all in one step. How many bytes move between HBM and VMEM, both
# ways together? Write the number with its unit, as text. Any unit of memory will do.

# %% answer="01.6"
moved = None
### BEGIN SOLUTION
moved = "72 KiB"
### END SOLUTION

# %% check="01.6"
checks.check("01.6", moved)

# %%
# checks.hint("01.6")

# %% [markdown]
# ## 01.7 Find the line
#
# *Difficulty 2 of 5. 4 minutes, 1 line. Fast track.*
#
# `add_bias(x, b)` should add the same 1024 numbers `b` to every block of `x`. It does not. One line is wrong: which?
# Answer with its number, or with its text.

# %% given="01.7"
checks.listing("01.7")

# %% answer="01.7"
line = None
### BEGIN SOLUTION
line = 8
### END SOLUTION

# %% check="01.7"
checks.check("01.7", line)

# %%
# checks.hint("01.7")

# %% [markdown]
# ## 01.8 Choose: who refuses it?
#
# *Difficulty 3 of 5. 3 minutes, 1 line.*
#
# `total(x)` should add the four blocks of a vector of 4096: the result has 1024 numbers. Which judge is the first to
# refuse it: `"numbers"`, `"simulator"`, `"races"`, `"compiler"`, or `"none"`? Decide before you try: the last `fold` of the
# lesson looked much like it.

# %% given="01.8"
checks.listing("01.8")

# %% answer="01.8"
judge = None
### BEGIN SOLUTION
judge = "none"
### END SOLUTION

# %% check="01.8"
checks.check("01.8", judge)

# %%
# checks.hint("01.8")

# %% [markdown]
# ## 01.9 Explain: why four judges?
#
# *No points. 4 minutes, two or three sentences.*
#
# Why is no single judge enough? Write it as you would say it to a friend who knows NumPy. The check shows our answer and
# what to look for. Then judge your own: below your text add the line `checks.assess("01.9", "yes")`, or `"partly"`, or `"no"`,
# and run both cells again.

# %% answer="01.9"
why = None
### BEGIN SOLUTION
why = """The plain interpreter and the simulator compute the numbers and never ask whether a
block is legal. The compiler knows what is legal and never looks at a number. And a race
shows only where two cores run. Each of them passes some kernel that another refuses."""
checks.assess("01.9", "yes")
### END SOLUTION

# %% check="01.9"
checks.check("01.9", why)

# %%
# checks.hint("01.9")

# %% [markdown]
# ## 01.10 From an empty cell: a blend of any length
#
# *Difficulty 4 of 5. 20 minutes, 12 lines. Further.*
#
# Nothing is given this time: no kernel, no call. Write `blend(x, y, t)` for three float32 vectors of the same length. Its
# result is `x + t * (y - x)`, number by number: all of x where t is 0, all of y where it is 1. The length may be anything, and a
# vector of 2 Mi numbers must fit too; so it needs blocks, and a grid whose last block hangs over the end. The check tries
# 4096, 2500 and 130, then asks how much VMEM 2 Mi numbers would take.

# %% answer="01.10"
blend = None
### BEGIN SOLUTION


def blend_kernel(x_ref, y_ref, t_ref, o_ref):
    o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])


def blend(x, y, t):
    block = pl.BlockSpec((1024,), lambda i: (i,))
    return pl.pallas_call(
        blend_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(pl.cdiv(x.size, 1024),),
        in_specs=[block, block, block],
        out_specs=block,
    )(x, y, t)


### END SOLUTION

# %% check="01.10"
checks.check("01.10", blend)

# %%
# checks.hint("01.10")

# %% [markdown]
# ## 01.11 Golf: one vector, added to four
#
# *Difficulty 4 of 5. 15 minutes, 10 lines. Further.*
#
# Four vectors stand one behind the other in `ys`, each as long as `x`. `add_to_each(x, ys)` adds `x` to each of the four: the
# result is as long as `ys`. Any kernel that the judges accept has a **score**: the bytes it moves between HBM and the chip for
# an `x` of 4096 numbers. The fewer, the better; at **par**, 160,000 bytes, or below, it passes. What you do to the arrays
# outside the kernel counts too: each such operation reads what it takes and writes what it makes, and only a reshape
# is free. It may use 96 KiB of VMEM, so all of `ys` at once is too much. Lengths are multiples of 1024. Your best score is
# kept: `checks.progress()` shows it.
#
# (A straightforward kernel moves 196,608 bytes. Work out where they go before you write another one.)

# %% answer="01.11"
add_to_each = None
### BEGIN SOLUTION


def sum_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add_to_each(x, ys):
    blocks = x.size // 1024  # step i: block i // 4 of x, with each of the four in turn
    of_x = pl.BlockSpec((1024,), lambda i: (i // 4,))
    of_four = pl.BlockSpec((1024,), lambda i: (i % 4 * blocks + i // 4,))
    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct(ys.shape, ys.dtype),
        grid=(4 * blocks,),
        in_specs=[of_x, of_four],
        out_specs=of_four,
    )(x, ys)


### END SOLUTION

# %% check="01.11"
checks.check("01.11", add_to_each)

# %%
# checks.hint("01.11")

# %% [markdown]
# ## Where next
#
# All passed? You have written, typed, wrapped, tiled and repaired a kernel, and read two of other people's. Lesson 2
# opens the machine that runs them. Lesson 3 asks how fast a kernel can be at best; lesson 4 takes up grids and blocks
# where 01.4 leaves them.
#
# <!-- next -->
