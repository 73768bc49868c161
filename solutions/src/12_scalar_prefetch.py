# %% [markdown]
# # Exercises 12: Scalar prefetch
#
# You predict copies, configure index maps, write three kernels, find the mistake in a published one, repair another,
# and compute a break-even. Nothing here needs a TPU.
#
# Come here from [lesson 12](../notebooks/12_scalar_prefetch.ipynb). About 60 minutes. Short of time? Do 12.2 and
# 12.5. Want more? 12.9 and 12.10, 50 minutes, begin with an empty cell.

# %%
# FIRST CELL

# %%
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

SIDE = 128  # of a block of a block-sparse matrix

# %% [markdown]
# ## 12.1 Predict: copies from a list
#
# *Difficulty 2 of 5. 5 minutes, 4 lines.*
#
# `chosen` is the prefetched list `[7, 7, 2, 2, 2, 7, 0, 0]`, and the index map of x returns `(chosen_ref[t], 0)`. How
# many blocks of x are copied from HBM on each of these grids? Give four plain numbers:
#
# - **A** on a grid (8,) with the axis t
# - **B** on a grid (3, 8) with the axes j and t
# - **C** on a grid (8, 3) with the axes t and j
# - **D** on the grid of B, if `chosen` is sorted first


# %% answer="12.1"
copies = {"A": None, "B": None, "C": None, "D": None}
### BEGIN SOLUTION
copies |= {"A": 4, "B": 12, "C": 4, "D": 9}
### END SOLUTION

# %% check="12.1"
checks.check("12.1", copies)

# %%
# checks.hint("12.1")

# %% [markdown]
# ## 12.2 Configure only: permuted matrices
#
# *Difficulty 2 of 5. 7 minutes, 6 lines. Fast track.*
#
# x is float32[G, M, K], y is float32[G, K, N], and `order`, int32[G], is a permutation of the numbers 0 to G - 1.
# Matrix g of x is multiplied by matrix `order[g]` of y, which gives matrix `order[g]` of the result. The kernel and the
# call are given, and each step multiplies two matrices. Your task is to write the three block specs. Where the size of
# a block is `None`, the ref does not have that axis (lesson 4).


# %% answer="12.2"
def specs(m, k, n):
    """The block specs of x, y and the result, as a tuple."""
    ### BEGIN SOLUTION
    x_spec = pl.BlockSpec((None, m, k), lambda g, order_ref: (g, 0, 0))
    y_spec = pl.BlockSpec((None, k, n), lambda g, order_ref: (order_ref[g], 0, 0))
    o_spec = pl.BlockSpec((None, m, n), lambda g, order_ref: (order_ref[g], 0, 0))
    return x_spec, y_spec, o_spec
    ### END SOLUTION


# %% given="12.2"
def product_kernel(order_ref, x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(
        x_ref[...], y_ref[...], precision="highest", preferred_element_type=jnp.float32
    )


def permuted(x, y, order):
    (groups, m, k), n = x.shape, y.shape[2]
    x_spec, y_spec, o_spec = specs(m, k, n)
    return pl.pallas_call(
        product_kernel,
        out_shape=jax.ShapeDtypeStruct((groups, m, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(groups,),
            in_specs=[x_spec, y_spec],
            out_specs=o_spec,
        ),
    )(order, x, y)


# %% check="12.2"
checks.check("12.2", specs)

# %%
# checks.hint("12.2")

# %% [markdown]
# ## 12.3 A window into a matrix
#
# *Difficulty 2 of 5. 6 minutes, 12 lines.*
#
# `window(x, start)` returns the 64 x 128 elements of x that begin at row `start[0]` and column `start[1]`. `start`,
# int32[2], holds element numbers that are known only when the function is called; the first is a multiple of 64 and the
# second a multiple of 128. Write the kernel and the call so that only this window of x is copied.


# %% answer="12.3"
def window(x, start):
    """The (64, 128) elements of x from ``start`` on."""
    ### BEGIN SOLUTION

    def kernel(start_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 128), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[
                pl.BlockSpec((64, 128), lambda i, start: (start[0] // 64, start[1] // 128))
            ],
            out_specs=pl.BlockSpec((64, 128), lambda i, start: (0, 0)),
        ),
    )(start, x)
    ### END SOLUTION


# %% check="12.3"
checks.check("12.3", window)

# %%
# checks.hint("12.3")

# %% [markdown]
# ## 12.4 The largest of each group
#
# *Difficulty 3 of 5. 9 minutes, 25 lines.*
#
# x is float32[8 T, N] and consists of T blocks of eight rows. Block t belongs to group `group[t]`, and the list
# `group`, int32[T], is sorted. `largest(x, group)` returns [8 * GROUPS, N]: for each of the `GROUPS` groups, eight rows
# that hold the element-by-element maximum of the group's blocks, or -inf if the group has no blocks. Write the kernel
# and the call so that a step looks at one block of x and x is read once.

# %% given="12.4"
GROUPS = 6


# %% answer="12.4"
def largest(x, group):
    """The maximum of the blocks of each group, or -inf."""
    ### BEGIN SOLUTION

    def kernel(group_ref, x_ref, start_ref, o_ref):
        t = pl.program_id(0)
        new = (t == 0) | (group_ref[t] != group_ref[jnp.maximum(t - 1, 0)])

        @pl.when(new)
        def first():
            o_ref[...] = x_ref[...]

        @pl.when(jnp.logical_not(new))
        def further():
            o_ref[...] = jnp.maximum(o_ref[...], x_ref[...])

    n = x.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8 * GROUPS, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(len(group),),
            in_specs=[
                pl.BlockSpec((8, n), lambda t, group_ref: (t, 0)),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec((8, n), lambda t, group_ref: (group_ref[t], 0)),
        ),
        input_output_aliases={2: 0},
    )(group, x, jnp.full((8 * GROUPS, n), -jnp.inf, x.dtype))
    ### END SOLUTION


# %% check="12.4"
checks.check("12.4", largest)

# %%
# checks.hint("12.4")

# %% [markdown]
# ## 12.5 A transposed block-sparse product
#
# *Difficulty 3 of 5. 10 minutes, 16 lines. Fast track.*
#
# A is [M, K] in blocks of 128 x 128. Its stored blocks are `values`, bfloat16[Z, 128, 128], at block rows `rows` and
# block columns `cols`. This time the lists are sorted by *column*, and every column has a block.
# `transposed_product(values, rows, cols, b)` returns A.T @ b, [K, N], for b of [M, N] in bfloat16, with sums kept in
# float32. The call is given, except for the two index maps that look something up. Write these two maps and the kernel,
# in which `product(a, b, 0, 0)` gives you a.T @ b.


# %% given="12.5"
def product(a, b, axis_of_a, axis_of_b):
    """The sum of a * b over an axis of each, in float32."""
    dimensions = (((axis_of_a,), (axis_of_b,)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32)


# %% answer="12.5"
def b_map(t, rows_ref, cols_ref):
    """The block of b at step t, as (block row, 0)."""
    ### BEGIN SOLUTION
    return rows_ref[t], 0
    ### END SOLUTION


def o_map(t, rows_ref, cols_ref):
    """The block of the result at step t, as (block row, 0)."""
    ### BEGIN SOLUTION
    return cols_ref[t], 0
    ### END SOLUTION


def transposed_kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref, acc_ref):
    """Add a_ref's transposed times b_ref to the sum, and write the sum where it is complete."""
    ### BEGIN SOLUTION
    t, last = pl.program_id(0), pl.num_programs(0) - 1

    @pl.when((t == 0) | (cols_ref[t] != cols_ref[jnp.maximum(t - 1, 0)]))
    def new():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += product(a_ref[...], b_ref[...], 0, 0)

    @pl.when((t == last) | (cols_ref[t] != cols_ref[jnp.minimum(t + 1, last)]))
    def done():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    ### END SOLUTION


# %% given="12.5-call"
COLUMNS = 3  # blocks that A is wide


def transposed_product(values, rows, cols, b):
    n = b.shape[1]
    return pl.pallas_call(
        transposed_kernel,
        out_shape=jax.ShapeDtypeStruct((COLUMNS * SIDE, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(len(rows),),
            in_specs=[
                pl.BlockSpec((None, SIDE, SIDE), lambda t, rows_ref, cols_ref: (t, 0, 0)),
                pl.BlockSpec((SIDE, n), lambda *at: b_map(*at) or (0, 0)),
            ],
            out_specs=pl.BlockSpec((SIDE, n), lambda *at: o_map(*at) or (0, 0)),
            scratch_shapes=[pltpu.VMEM((SIDE, n), jnp.float32)],
        ),
    )(rows, cols, values, b)


# %% check="12.5"
checks.check("12.5", transposed_product)

# %%
# checks.hint("12.5")

# %% [markdown]
# ## 12.6 Find the line: a published kernel
#
# *Difficulty 2 of 5. 5 minutes, 1 line.*
#
# This is a shortened copy of the sparse kernel in JAX's own guide to scalar prefetch ("Scalar Prefetch and Block-Sparse
# Computation", as of November 2026). That page shows its result to be right on a v5e, and it is right here too, but the
# simulator refuses the kernel: *The kernel read outside rows_ref: [6] of shape (6,).* Run the cell to see the listing,
# and answer with the number of the line that has to change.

# %% given="12.6"
checks.listing("12.6")

# %% answer="12.6"
line = None
### BEGIN SOLUTION
line = 15
### END SOLUTION

# %% check="12.6"
checks.check("12.6", line)

# %%
# checks.hint("12.6")

# %% [markdown]
# ## 12.7 Repair: blocks that nobody wants
#
# *Difficulty 3 of 5. 10 minutes, 8 lines.*
#
# `wanted_scores(q, k, wanted)` multiplies q, float32[M, 128], by the transpose of k, float32[N, 128], in blocks of 128
# x 128. `wanted`, int32[M / 128, N / 128], holds a 1 or a 0 for each block of the result, and at least one 1. A block
# with a 0 must be zeros, and must not cost a matmul. The version below has three mistakes: it reads the wrong flag, it
# leaves garbage in the result, and it copies blocks of k that no matmul needs. To copy k only for wanted blocks,
# prefetch a second list that says, for each step, which block of k should be there. `arrivals` returns this list,
# int32[number of steps], and may use JAX. The first step copies a block of k in any case, so let it be one that is
# needed. As a tip, `jax.lax.cummax` carries the largest value so far along an axis.


# %% given="12.7"
def arrivals_broken(wanted):
    down, across = wanted.shape
    return jnp.tile(jnp.arange(across), down)  # step (i, j): block j of k


def scores_kernel_broken(wanted_ref, arrivals_ref, q_ref, k_ref, o_ref):
    i, j = pl.program_id(0), pl.program_id(1)

    @pl.when(wanted_ref[j * pl.num_programs(0) + i] == 1)
    def work():
        dimensions = (((1,), (1,)), ((), ()))
        o_ref[...] = jax.lax.dot_general(
            q_ref[...],
            k_ref[...],
            dimensions,
            precision="highest",
            preferred_element_type=jnp.float32,
        )


# %% answer="12.7"
def arrivals(wanted):
    """For each step (i, j), row by row: the block of k that should be in VMEM."""
    ### BEGIN SOLUTION
    down, across = wanted.shape
    step = jnp.arange(down * across)
    last_wanted = jax.lax.cummax(jnp.where(wanted.reshape(-1) == 1, step, -1))
    first = jnp.argmax(wanted.reshape(-1))  # before it, what comes next does no harm
    return jnp.where(last_wanted < 0, first, last_wanted) % across
    ### END SOLUTION


def scores_kernel(wanted_ref, arrivals_ref, q_ref, k_ref, o_ref):
    """The product, where it is wanted, and zeros elsewhere; ``wanted_ref`` holds the flags row by row."""
    ### BEGIN SOLUTION
    i, j = pl.program_id(0), pl.program_id(1)
    flag = wanted_ref[i * pl.num_programs(1) + j]

    @pl.when(flag == 1)
    def work():
        dimensions = (((1,), (1,)), ((), ()))
        o_ref[...] = jax.lax.dot_general(
            q_ref[...],
            k_ref[...],
            dimensions,
            precision="highest",
            preferred_element_type=jnp.float32,
        )

    @pl.when(flag == 0)
    def nothing():
        o_ref[...] = jnp.zeros_like(o_ref)

    ### END SOLUTION


# %% given="12.7-call"
def wanted_scores(q, k, wanted):
    down, across = wanted.shape
    listed = arrivals(wanted)
    listed = jnp.zeros(down * across) if listed is None else listed

    def k_map(i, j, wanted_ref, arrivals_ref):
        return arrivals_ref[i * across + j], 0

    return pl.pallas_call(
        scores_kernel,
        out_shape=jax.ShapeDtypeStruct((len(q), len(k)), q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(down, across),
            in_specs=[
                pl.BlockSpec((SIDE, 128), lambda i, j, *_: (i, 0)),
                pl.BlockSpec((SIDE, 128), k_map),
            ],
            out_specs=pl.BlockSpec((SIDE, SIDE), lambda i, j, *_: (i, j)),
        ),
    )(wanted.reshape(-1), listed.astype(jnp.int32), q, k)


# %% check="12.7"
checks.check("12.7", wanted_scores)

# %%
# checks.hint("12.7")

# %% [markdown]
# ## 12.8 Compute: break-even
#
# *Difficulty 2 of 5. 8 minutes, 2 lines.*
#
# A kernel takes `cycles` cycles for each pair of a stored block of `side` x `side` elements and a panel of `width`
# columns of b, in bfloat16, and no further time. The dense matmul runs at the chip's peak of `peak` FLOP/s, and the
# clock ticks at `clock` Hz. Write `break_even(side, width, cycles, clock, peak)`, which returns the density at which
# both take the same time, as a share such as 0.25. If the sparse kernel is the faster one at every density, the answer
# is 1. (Why does the size of the matrix not matter?)


# %% answer="12.8"
def break_even(side, width, cycles, clock, peak):
    """The density at which the sparse product takes as long as the dense one, at most 1."""
    ### BEGIN SOLUTION
    dense_seconds = 2 * side * side * width / peak  # for the work of one stored block
    return min(1, dense_seconds / (cycles / clock))
    ### END SOLUTION


# %% check="12.8"
checks.check("12.8", break_even)

# %%
# checks.hint("12.8")

# %% [markdown]
# ## 12.9 From an empty cell: any order, any number
#
# *Difficulty 4 of 5. 30 minutes, 40 lines. Further.*
#
# `sparse_product(values, rows, cols, b)` is A @ b again: `values` are bfloat16[Z, 128, 128], b is bfloat16[K, N], and
# the result has `ROWS` block rows, bfloat16[128 * ROWS, N], with sums kept in float32. But now the lists come in any
# order, rows may be empty, and a place may occur more than once, in which case its blocks add up. Z is any number, such
# as 13, and N is a multiple of 256. You can start from the lesson's second kernel. At Z = 40, K = N = 1024 and 8 block
# rows, your kernel may take at most 28,000 cycles on a v5e (predicted (compiler)).

# %% given="12.9"
ROWS = 8


# %% answer="12.9"
sparse_product = None
### BEGIN SOLUTION


def sparse_product(values, rows, cols, b):
    """A @ b for A in any order of its blocks."""
    (k, n), count, per_step, width = b.shape, len(rows), 8, 512
    width = min(width, n) if n % 512 == 0 else 256

    def kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref, acc_ref):
        t = pl.program_id(1)

        @pl.when(t == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        for each in range(per_step):
            at = t * per_step + each
            here = jnp.minimum(at, count - 1)
            row = pl.multiple_of(jnp.where(at < count, rows_ref[here], ROWS) * SIDE, SIDE)
            col = pl.multiple_of(cols_ref[here] * SIDE, SIDE)
            acc_ref[pl.ds(row, SIDE)] += jnp.dot(
                a_ref[each], b_ref[pl.ds(col, SIDE)], preferred_element_type=jnp.float32
            )

        @pl.when(t == pl.num_programs(1) - 1)
        def store():
            o_ref[...] = acc_ref[: ROWS * SIDE].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS * SIDE, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(n // width, pl.cdiv(count, per_step)),
            in_specs=[
                pl.BlockSpec((per_step, SIDE, SIDE), lambda j, t, *_: (t, 0, 0)),
                pl.BlockSpec((k, width), lambda j, t, *_: (0, j)),
            ],
            out_specs=pl.BlockSpec((ROWS * SIDE, width), lambda j, t, *_: (0, j)),
            scratch_shapes=[pltpu.VMEM(((ROWS + 1) * SIDE, width), jnp.float32)],
        ),
    )(rows, cols, values, b)


### END SOLUTION

# %% check="12.9"
checks.check("12.9", sparse_product)

# %%
# checks.hint("12.9")

# %% [markdown]
# ## 12.10 Golf: blocks of a product, wherever they are
#
# *Difficulty 5 of 5. 20 minutes, 35 lines. Further.*
#
# `sampled(a, b, rows, cols)` returns the blocks `(rows[t], cols[t])` of a @ b, bfloat16[T, 128, 128], in the order of
# the lists, which may be any order. Here a is bfloat16[M, K], b is bfloat16[K, N], and sums are kept in float32. The
# fewest bytes between HBM and VMEM win. Par is 3,500,000 bytes for 24 blocks, M = N = 1024 and K = 512, with at most
# 1.75 MiB of VMEM; the lesson's kernel moves nearly twice as many. Outside the kernel, JAX may prepare lists and
# nothing else.


# %% answer="12.10"
sampled = None
### BEGIN SOLUTION


def sampled(a, b, rows, cols):
    """The blocks (rows[t], cols[t]) of a @ b: rows of a one after another, all of b in VMEM."""
    (_, k), n = a.shape, b.shape[1]
    order = jnp.argsort(rows)

    def kernel(rows_ref, cols_ref, place_ref, a_ref, b_ref, o_ref):
        col = pl.multiple_of(cols_ref[place_ref[pl.program_id(0)]] * SIDE, SIDE)
        product = jnp.dot(
            a_ref[...], b_ref[:, pl.ds(col, SIDE)], preferred_element_type=jnp.float32
        )
        o_ref[...] = product.astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((len(rows), SIDE, SIDE), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(len(rows),),
            in_specs=[
                pl.BlockSpec((SIDE, k), lambda t, rows, cols, place: (rows[place[t]], 0)),
                pl.BlockSpec((k, n), lambda t, *_: (0, 0)),
            ],
            out_specs=pl.BlockSpec(
                (None, SIDE, SIDE), lambda t, rows, cols, place: (place[t], 0, 0)
            ),
        ),
    )(rows, cols, order.astype(jnp.int32), a, b)


### END SOLUTION

# %% check="12.10"
checks.check("12.10", sampled)

# %%
# checks.hint("12.10")

# %% [markdown]
# <!-- next -->
