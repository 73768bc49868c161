# %% [markdown]
# # Exercises 15: Grouped matmul
#
# You bound the number of visits, make the list of visits in JAX, write the two kernels that walk along it, and repair a
# third. Nothing here needs a TPU.
#
# Come here from [lesson 15](../notebooks/15_grouped_matmul.ipynb). About 52 minutes. Short of time? Do 15.2 and 15.3.

# %%
# FIRST CELL

# %%
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TILE = 16  # rows


def dot(x, w):
    """Return x @ w in float32."""
    return jnp.dot(x, w, precision="highest", preferred_element_type=jnp.float32)


# %% [markdown]
# ## 15.1 Compute: the most visits
#
# *Difficulty 2 of 5. 5 minutes, 3 lines.*
#
# `worst(rows, experts, tile)` returns two numbers for rows that are sorted by expert: how many visits there are at most,
# and how many times as many rows as there are the kernel multiplies in that case. `rows` is a multiple of `tile`, and
# there are more rows than experts. Try it for 4,096 rows and tiles of 256, with 8 experts and with 64.


# %% answer="15.1"
def worst(rows, experts, tile):
    """Return the most visits, and the factor by which the rows grow then."""
    ### BEGIN SOLUTION
    visits = rows // tile + experts - 1
    return visits, visits * tile / rows
    ### END SOLUTION


# %% check="15.1"
checks.check("15.1", worst)

# %%
# checks.hint("15.1")

# %% [markdown]
# ## 15.2 The list of visits
#
# *Difficulty 3 of 5. 15 minutes, 12 lines. Fast track.*
#
# The lesson made its lists with a loop in Python. Inside `jax.jit` the sizes are not known, so JAX has to make them, and
# their lengths must not depend on the sizes. `visits(sizes, rows, tile)` gets sizes, int32[E], that add up to `rows`, a
# multiple of `tile`. It returns four arrays of int32:
#
# - `bounds`, [E + 1]: group e has the rows from bounds[e] up to, but not including, bounds[e + 1]
# - `count`, [1]: how many visits there are
# - `group` and `tile`, [rows // tile + E - 1]: those of each visit, sorted; past the end both repeat the last visit
#
# A group without rows gets one visit, of the tile in which it would begin. If it would begin behind the last row, it gets
# the last tile. Write it in five small steps, and look at each: bounds; the first tile of each group; how many visits
# each group has; the group of each visit; and its tile. Return `group, tile, bounds, count`.


# %% answer="15.2"
def visits(sizes, rows, tile):
    """Return the group and the tile of each visit, the bounds of the groups, and how many visits count."""
    ### BEGIN SOLUTION
    most = rows // tile + len(sizes) - 1
    ends = jnp.cumsum(sizes)
    starts = ends - sizes
    first = jnp.minimum(starts // tile, rows // tile - 1)
    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 1)
    before, count = jnp.cumsum(met) - met, jnp.sum(met)
    v = jnp.minimum(jnp.arange(most), count - 1)
    group = jnp.repeat(jnp.arange(len(sizes)), met, total_repeat_length=most)[v]
    tiles = first[group] + v - before[group]
    bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), ends])
    return [a.astype(jnp.int32) for a in (group, tiles, bounds, count[None])]
    ### END SOLUTION


# %% check="15.2"
checks.check("15.2", visits)

# %%
# checks.hint("15.2")

# %% [markdown]
# ## 15.3 A visit
#
# *Difficulty 3 of 5. 12 minutes, 10 lines. Fast track.*
#
# Write the kernel of the grouped matmul in tiles of 16 rows; the call is given. All arrays are float32. The four lists
# are those of 15.2, with one difference: rows past the last expert's belong to nobody, and nobody is a group of its own in
# the lists, with the number E. The index map gives it the last matrix, because there is no other. Its rows of x may be
# NaN, and its rows of the result are 0. A visit that does not count must change nothing.


# %% answer="15.3"
def visit_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    """Multiply the rows of a tile that belong to one group."""
    ### BEGIN SOLUTION
    v, nobody = pl.program_id(0), bounds_ref.shape[0] - 2
    e = group_ref[v]

    @pl.when(v < count_ref[0])
    def visit():
        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])
        o = jnp.where(e == nobody, 0, dot(x_ref[...], w_ref[...]))
        o_ref[...] = jnp.where(mine, o, o_ref[...])

    ### END SOLUTION


# %% given="15.3"
def of_tile(v, group_ref, tile_ref, *_):
    return tile_ref[v], 0


def by_visits(kernel, x, w, group, tile, bounds, count):
    (rows, k), (experts, _, n) = x.shape, w.shape

    def of_matrix(v, group_ref, *_):
        return jnp.minimum(group_ref[v], experts - 1), 0, 0

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=group.shape,
            in_specs=[
                pl.BlockSpec((TILE, k), of_tile),
                pl.BlockSpec((None, k, n), of_matrix),
            ],
            out_specs=pl.BlockSpec((TILE, n), of_tile),
        ),
    )(group, tile, bounds, count, x, w)


def grouped(x, w, *lists):
    return by_visits(visit_kernel, x, w, *lists)


# %% check="15.3"
checks.check("15.3", grouped)

# %%
# checks.hint("15.3")

# %% [markdown]
# ## 15.4 The gradient of the matrices
#
# *Difficulty 3 of 5. 12 minutes, 15 lines.*
#
# dw[e] is x_e.T @ g_e, summed over the rows of group e: x is float32[T, K], g is float32[T, N], and the result is
# float32[E, K, N]. The lists are those of 15.2, where a group without rows has one visit; its gradient is 0. Rows past
# the last group may be NaN in x and in g. Write the kernel; acc_ref is scratch of the shape of a result's block. A visit
# that does not count must change nothing. `summed(x, g)` returns x.T @ g.


# %% answer="15.4"
def dw_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, g_ref, o_ref, acc_ref):
    """Add up x.T @ g over the rows of a group."""
    ### BEGIN SOLUTION
    v, last = pl.program_id(0), count_ref[0] - 1
    e = group_ref[v]

    def mine(ref):
        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
        return jnp.where((row >= bounds_ref[e]) & (row < bounds_ref[e + 1]), ref[...], 0)

    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))
    def clear():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(v <= last)
    def add():
        acc_ref[...] += summed(mine(x_ref), mine(g_ref))

    @pl.when((v == last) | (group_ref[jnp.minimum(v + 1, last)] != e))
    def store():
        o_ref[...] = acc_ref[...]

    ### END SOLUTION


# %% given="15.4"
def summed(x, g):
    """Return x.T @ g in float32."""
    dimensions = (((0,), (0,)), ((), ()))
    return jax.lax.dot_general(x, g, dimensions, precision="highest")


def dw(x, g, group, tile, bounds, count):
    (_, k), (_, n) = x.shape, g.shape
    return pl.pallas_call(
        dw_kernel,
        out_shape=jax.ShapeDtypeStruct((bounds.shape[0] - 1, k, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=group.shape,
            in_specs=[pl.BlockSpec((TILE, k), of_tile), pl.BlockSpec((TILE, n), of_tile)],
            out_specs=pl.BlockSpec(
                (None, k, n), lambda v, group_ref, *_: (group_ref[v], 0, 0)
            ),
            scratch_shapes=[pltpu.VMEM((k, n), jnp.float32)],
        ),
    )(group, tile, bounds, count, x, g)


# %% check="15.4"
checks.check("15.4", dw)

# %%
# checks.hint("15.4")

# %% [markdown]
# ## 15.5 Repair: rows of other experts
#
# *Difficulty 2 of 5. 8 minutes, 3 lines.*
#
# `relu_of` is the call of 15.3 with another kernel: a grouped matmul with a ReLU. All rows belong to a group. Three lines of
# the kernel are wrong: find and fix them.


# %% given="15.5"
def relu_kernel_broken(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    v = pl.program_id(0)
    e = group_ref[v]

    @pl.when(v < count_ref[0])
    def visit():
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])
        o = jnp.maximum(dot(x_ref[...], w_ref[...]), 0)
        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.5"
def relu_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    """Multiply the rows of a tile that belong to one group, and keep what is above 0."""
    ### BEGIN SOLUTION
    v = pl.program_id(0)
    e = group_ref[v]

    @pl.when(v < count_ref[0])
    def visit():
        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])
        o = jnp.maximum(dot(x_ref[...], w_ref[...]), 0)
        o_ref[...] = jnp.where(mine, o, o_ref[...])

    ### END SOLUTION


# %% given="15.5-call"
def relu_of(x, w, *lists):
    return by_visits(relu_kernel, x, w, *lists)


# %% check="15.5"
checks.check("15.5", relu_of)

# %%
# checks.hint("15.5")

# %% [markdown]
# <!-- next -->
