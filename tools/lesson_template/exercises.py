# %% [markdown]
# # Exercises $n: $title
#
# Come here from [lesson $n](../notebooks/$name.ipynb). About 5 minutes. Short of time? Do $number.1.

# %%
# FIRST CELL

# %%
import jax
from jax.experimental import pallas as pl

# %% [markdown]
# ## $number.1 Double a vector
#
# *Difficulty 1 of 5. 5 minutes, 1 line. Fast track.*
#
# `double` is complete. Write its kernel: each number of the output is twice that of the input. The check tries vectors of
# 4096, 1000 and 8 numbers.


# %% answer="$number.1"
def double_kernel(x_ref, o_ref):
    """Write 2 x into o_ref."""
    ### BEGIN SOLUTION
    o_ref[...] = 2 * x_ref[...]
    ### END SOLUTION


# %% given="$number.1"
def double(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(double_kernel, out_shape=out)(x)


# %% check="$number.1"
checks.check("$number.1", double)

# %%
# checks.hint("$number.1")

# %% [markdown]
# <!-- next -->
