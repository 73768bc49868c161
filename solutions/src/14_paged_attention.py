# %% [markdown]
# # Exercises 14: Paged attention
#
# Come here from [lesson 14](../notebooks/14_paged_attention.ipynb). About 5 minutes. Short of time? Do 14.1.

# %%
# FIRST CELL

# %%
import jax
from jax.experimental import pallas as pl

# %% [markdown]
# ## 14.1 Double a vector
#
# *Difficulty 1 of 5. 5 minutes, 1 line. Fast track.*
#
# `double` is complete. Write its kernel: each number of the output is twice that of the input. The check tries vectors of
# 4096, 1000 and 8 numbers.


# %% answer="14.1"
def double_kernel(x_ref, o_ref):
    """Write 2 x into o_ref."""
    ### BEGIN SOLUTION
    o_ref[...] = 2 * x_ref[...]
    ### END SOLUTION


# %% given="14.1"
def double(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(double_kernel, out_shape=out)(x)


# %% check="14.1"
checks.check("14.1", double)

# %%
# checks.hint("14.1")

# %% [markdown]
# <!-- next -->
