# %% [markdown]
# # Exercises 15: Grouped matmul
#
# Come here from [lesson 15](../notebooks/15_grouped_matmul.ipynb). About 5 minutes. Short of time? Do 15.1.

# %%
# FIRST CELL

# %%
import jax
from jax.experimental import pallas as pl

# %% [markdown]
# ## 15.1 Double a vector
#
# *Difficulty 1 of 5. 5 minutes, 1 line. Fast track.*
#
# `double` is complete. Write its kernel: each number of the output is twice that of the input. The check tries vectors of
# 4096, 1000 and 8 numbers.


# %% answer="15.1"
def double_kernel(x_ref, o_ref):
    """Write 2 x into o_ref."""
    ### BEGIN SOLUTION
    o_ref[...] = 2 * x_ref[...]
    ### END SOLUTION


# %% given="15.1"
def double(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(double_kernel, out_shape=out)(x)


# %% check="15.1"
checks.check("15.1", double)

# %%
# checks.hint("15.1")

# %% [markdown]
# <!-- next -->
