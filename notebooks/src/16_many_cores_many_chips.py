# %% [markdown]
# # Lesson 16: Many cores many chips
#
# *10 minutes, then 5 for the exercises. You need lesson 1. A TPU adds one thing: the kernel runs on it.*
#
# *This lesson is a draft.*
#
# What is there to wonder at? Say it here, in something that runs within a minute, and ask for a guess.
#
# After this lesson you can
# - double every number of an array in a kernel.

# %%
# FIRST CELL

# %%
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

# %% [markdown]
# ## A kernel that doubles
#
# Question, something that runs, picture, rule, proof: one idea a cell. Write down what the next cell prints, then run it.


# %%
def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def double(x):
    return pl.pallas_call(double_kernel, out_shape=x)(x)


print(jax.jit(double)(jnp.arange(8.0)))

# %% [markdown]
# ## Do you remember?
#
# 1. Which ref does the kernel write to?
#
# <details><summary>Answer</summary>The last one, <code>o_ref</code>: outputs stand after the inputs.</details>
#
# Open [the exercises of lesson 16](../exercises/16_many_cores_many_chips.ipynb).
#
# <!-- next -->
