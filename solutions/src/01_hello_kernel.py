# %% [markdown]
# # Exercises 1: Hello, kernel
#
# Five kernels to write, configure or repair. Each has an empty place for your lines, a cell that checks them, and
# hints if you ask. Nothing here needs a TPU. A wrong answer gets a sentence, not a red page; only what is no Python at
# all, a missing bracket say, is red.
#
# Come here from lesson 1 (`notebooks/01_hello_kernel.ipynb`). About 40 minutes. Short of time? Do 01.1 and 01.4.

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
# Stuck? Each call gives one more hint; after an attempt, `checks.solution("01.1")` shows ours.

# %%
# checks.hint("01.1")

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
# Two steps or more, every block exactly once, and the v5e compiler must accept the block. The check tries 4096 and 8192.


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
# ## Where next
#
# All five passed? You have written, typed, wrapped, tiled and repaired a kernel. Lesson 2 opens the machine it runs
# on; lesson 4 takes up grids and blocks where 01.4 leaves them.
