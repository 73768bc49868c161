# %% [markdown]
# # Exercises 1: Hello, kernel
#
# In these exercises you write, configure or repair five kernels, and you answer four questions about kernels that you
# read. Each exercise has an empty place for your lines, a cell that checks them, and hints if you ask for them. Nothing
# here needs a TPU. A wrong answer produces an explanation, and only code that is not valid Python, because a bracket is
# missing for example, ends in a red traceback.
#
# Come here from [lesson 1](../notebooks/01_hello_kernel.ipynb). About 53 minutes.
# Short of time? Do 01.1, 01.4 and 01.7. Want more? 01.10 and 01.11, 35 minutes, begin with an empty cell.
#
# Your progress is kept in `course_progress.json`, a small file that you may delete, and `checks.progress()` shows it.

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
# The function `add_vectors` below your cell is complete: it passes two arrays to `add_kernel`, which you write. Its
# arguments `x_ref`, `y_ref` and `o_ref` are places in memory, not values. Read a whole place with `x_ref[...]`, and
# write to it with `o_ref[...] = value`. The check tries vectors of 4096, 1000 and 8 elements.


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
# If you are stuck, each call of `checks.hint("01.1")` gives one more hint, and after an attempt
# `checks.solution("01.1")` shows our answer. Once you have passed, `checks.report("01.1")` shows the compiler's report
# on your kernel.

# %%
# checks.hint("01.1")
# checks.report("01.1")

# %% [markdown]
# ## 01.2 Any dtype, any shape
#
# *Difficulty 2 of 5. 8 minutes, 4 lines.*
#
# Write `add_any(x, y)` with a kernel and a `pallas_call` of your own. It must work for float32, int32 and bfloat16 and
# for arrays with one or two axes, and its result must have the dtype of x and y. Some integers in the check are larger
# than 2^24, so a kernel that converts them to float32 on the way gets some sums wrong.


# %% answer="01.2"
def add_any(x, y):
    """Return x + y from a Pallas kernel, for any shape and dtype that x and y share."""
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
# Write a `keras.layers.Layer` around a kernel: `PallasAdd` takes a list of two arrays and returns their sum. Use
# `add_vectors` of 01.1, or write a new kernel. The check calls the layer on arrays and builds a model of unknown batch
# size with it. It runs `model.predict` on 20 rows in batches of 8, so the last batch has only 4 rows. Finally, it
# writes the layer to JSON and reads it back.
#
# As in the lesson, Keras finds the shape of a layer's output by tracing `call` with a batch of unknown size, and Pallas
# cannot trace a kernel of unknown size. You therefore have to tell Keras the shape in `compute_output_shape`.


# %% answer="01.3"
class PallasAdd(keras.layers.Layer):
    """Add two inputs in a Pallas kernel."""

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
# The kernel is given: it adds one block of each vector, and you choose how the vectors are cut into blocks. Write
# `configure(n)`, which returns the grid, the block shape, and the index map for vectors of `n` elements. The index map
# says which block belongs to step `i`. The grid must have at least two steps and visit every block exactly once, and
# the v5e compiler must accept the block. The check tries 4096, 8192 and 3072 elements.


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
# The kernel below computes `2 * x + y`, and if you run it, the numbers are right. It is wrong all the same, because it
# writes to an input. On a chip, `x_ref` is a copy that belongs to Pallas, which may show the same copy to a later step.
# Running the kernel does not reveal the mistake, not even in the simulator. The numbers judge finds it because it also
# reads the kernel's code.
#
# Write `scaled_add_kernel` so that it computes the same result and leaves its inputs alone.


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
# `add_vectors` adds two float32 vectors of 6144 elements in a single step. How many bytes move between HBM and VMEM, in
# both directions together? Write the number and its unit as a string. Any unit of memory will do.

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
# The function `add_bias(x, b)`, which the next cell lists, should add the same vector `b`, of 1024 elements, to every
# block of `x`. It does not, because one line is wrong. Answer with the number of that line, or with its text.

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
# The function `total(x)`, which the next cell lists, should add up the four blocks of a vector of 4096 elements, so its
# result has 1024 elements. Which judge is the first to refuse it: `"numbers"`, `"simulator"`, `"races"`, `"compiler"`,
# or `"none"`? Decide before you try, and remember that `total` looks much like `fold`, the last kernel in "The
# suspect".

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
# Why is no single judge enough? Explain it as you would to a friend who knows NumPy. The check shows our answer and
# what to look for, so that you can judge your own. Then add the line `checks.assess("01.9", "yes")` below your text,
# with `"partly"` or `"no"` instead of `"yes"` if that is nearer the truth, and run both cells again.

# %% answer="01.9"
why = None
### BEGIN SOLUTION
why = """The plain interpreter and the simulator compute the numbers, but they never ask
whether a block is legal. The compiler knows what is legal, but it never looks at a number.
A race shows only where two cores run. So each of them passes some kernel that another
refuses."""
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
# This time you write both the kernel and its call. `blend(x, y, t)` takes three float32 vectors of the same length.
# Element by element, its result is `x + t * (y - x)`, which is x where t is 0 and y where t is 1. The vectors may have
# any length, and the kernel must fit into VMEM even if they have 2 Mi elements. So `blend` needs blocks, and a grid
# whose last block may extend past the end. The check tries 4096, 2500 and 130 elements, and then asks how much VMEM 2
# Mi elements would take.

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
# `ys` holds four vectors, one after another, each as long as `x`. Write `add_to_each(x, ys)`, which adds `x` to each of
# the four and returns a vector as long as `ys`. Any kernel that the judges accept has a **score**, which is the number
# of bytes that it moves between HBM and the chip for an `x` of 4096 elements. A lower score is better, and a kernel
# passes with a score of at most **par**, 160,000 bytes. Operations on the arrays outside the kernel count too: each of
# them reads its inputs and writes its result, and only a reshape is free. The kernel may use 96 KiB of VMEM, which is
# too little for all of `ys` at once. All lengths are multiples of 1024. Your best score is kept, and
# `checks.progress()` shows it.
#
# (A straightforward kernel moves 196,608 bytes. Work out where they go before you write a better one.)

# %% answer="01.11"
add_to_each = None
### BEGIN SOLUTION


def sum_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add_to_each(x, ys):
    blocks = x.size // 1024  # step i adds block i // 4 of x to vector i % 4 of ys
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
# If you have passed everything, you have written, wrapped, tiled and repaired kernels for several dtypes, and you have
# read two kernels that others wrote. Lesson 2 opens the machine that runs them. Lesson 3 asks how fast a kernel can be
# at best, and lesson 4 takes up grids and blocks where 01.4 leaves them.
#
# <!-- next -->
