# %% [markdown]
# # Lesson 15: Grouped matmul
#
# *60 minutes, then 89 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 4 for the order of a grid, lesson 7 for the tiles of a matmul, lesson 8 for masks, lesson 10 for the backward pass,
# and lesson 12 for prefetched lists. You do not need a TPU; with one, the kernels also run on it.*
#
# Many language models contain mixtures of experts: layers with several MLPs, of which a small router picks one or a few
# for every token. In this lesson it picks one. A token then needs no more FLOPs than in a layer with a single MLP,
# although the layer has many times the weights. But nobody knows before the program runs how many tokens each expert
# will get. Run the next four cells. They draw a router's decisions for 4,096 tokens and 8 experts, one of which is
# popular, and predict what these decisions cost.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler, cost, datasets, grid, judges, viz
from course_lib.kernels import grouped, grouped_swiglu

ROWS, K, N, EXPERTS = 4096, 1024, 1024, 8  # tokens; elements of a token before and after
v5e = chips.chip("v5e")

share = np.array([7, 40, 10, 9, 8, 8, 9, 9]) / 100
expert = np.random.default_rng(0).choice(EXPERTS, size=ROWS, p=share)
popular = np.bincount(expert, minlength=EXPERTS)
print("tokens of each expert:", popular)

# %%
a_row = 2 * K * N  # FLOPs
padded = EXPERTS * popular.max()
print(f"{ROWS:6,} rows: {ROWS * a_row / 1e9:6.1f} GFLOP")
print(
    f"{padded:6,} rows: {padded * a_row / 1e9:6.1f} GFLOP, if all have the room of the largest"
)


# %%
def padded_us(sizes):
    """Return the us, predicted (compiler), of XLA's matmuls with room for the largest."""
    room = -(-max(sizes) // 128) * 128  # in whole tiles of 128 rows
    x = jax.ShapeDtypeStruct((len(sizes), room, K), jnp.bfloat16)
    w = jax.ShapeDtypeStruct((len(sizes), K, N), jnp.bfloat16)
    return compiler.compile_tpu(jnp.matmul, x, w).seconds * 1e6


dense = padded_us([ROWS])
print(f"one matrix for all rows:          {dense:5.1f} us, predicted (compiler)")
print(f"eight, with room for the largest: {padded_us(popular):5.1f} us")

# %% [markdown]
# Shapes must be known when the program is compiled, before any token has been routed. The usual way out is to reserve
# the same room for every expert, and then most of the rows are padding. The second time above is the best case, in
# which the room, in whole tiles, is just enough for the most popular expert. More room costs more time, and with less
# room some tokens are dropped, which changes the result.
#
# A kernel can do better, because it can read the number of each expert's rows while it runs. **Write down a guess:**
# how long does a kernel without padding take? And what keeps it from being as fast as one matrix for all rows?
#
# After this lesson you can
# - turn the sizes of groups into a list of tiles and groups that a grid walks along,
# - write a kernel in which several groups share a tile, and say why their visits must follow one another,
# - predict from the sizes what the borders between groups cost, and choose a tile by it,
# - compute the gradient of the matrices, also for groups without rows.
#
# ## Rows sorted by expert
#
# If the rows of each expert are contiguous, an expert's work is an ordinary matmul. So the rows are first sorted by
# expert, and at the end the results are put back in the order of the tokens.
#
# > **mixture of experts**: a layer with several MLPs, of which each token uses one or a few.
# >
# > **router**: the small layer that picks the experts of a token.
# >
# > **group**: contiguous rows that are multiplied by the same matrix.
# >
# > **grouped matmul**: multiplies the rows of each group by a matrix of its own.


# %%
def by_expert(x, expert, experts):
    """Return the rows sorted by expert, how many each expert has, and the order."""
    order = jnp.argsort(expert)  # stable: rows of one expert keep their order
    return x[order], jnp.bincount(expert, length=experts), order


tokens = jnp.array([[10.0], [11.0], [12.0], [13.0], [14.0], [15.0]])
rows, sizes, order = by_expert(tokens, jnp.array([2, 0, 2, 3, 0, 2]), experts=4)
print("rows ", rows[:, 0])
print("sizes", sizes)
print("back ", jnp.zeros_like(rows).at[order].set(rows)[:, 0])

# %% [markdown]
# The sizes say it all: the first two rows belong to expert 0, none to expert 1, the next three to expert 2, and the
# last one to expert 3. From now on rows are sorted, and the function to compute is `jax.lax.ragged_dot(x, w, sizes)`.
# Our reference gives each row its own copy of a matrix, which is simple, and affordable for small arrays.


# %%
def plain(x, w, sizes):
    """Return x[i] @ w[e] for each row i, where e is its group."""
    group = jnp.repeat(jnp.arange(len(w)), sizes, total_repeat_length=len(x))
    o = jnp.einsum("tk,tkn->tn", x, w[group], preferred_element_type=jnp.float32)
    return o.astype(x.dtype)


def drawn(sizes, k=128, n=128):
    """Return random rows and matrices in bfloat16."""
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (int(np.sum(sizes)), k), jnp.bfloat16)
    w = jax.random.normal(keys[1], (len(sizes), k, n), jnp.bfloat16)
    return x, w


sizes = jnp.array([5, 0, 11, 4, 12])
x, w = drawn(sizes)
off = abs(plain(x, w, sizes) - jax.lax.ragged_dot(x, w, sizes)).max()
print("differs from jax.lax.ragged_dot by", off)

# %% [markdown]
# ## When groups end where tiles end
#
# Suppose first that every group has a multiple of 128 rows. Then each tile of 128 rows belongs to one expert, and the
# kernel is the one of lesson 7, except that it has to know which matrix each tile needs. A prefetched list holds the
# number of that matrix for each tile, and the index map of w looks it up at grid step v (lesson 12). All of K and N is
# one block here. For a wider N, the grid would have another axis before the one that walks along the tiles.


# %%
def dot(x, w):
    return jnp.dot(x, w, preferred_element_type=jnp.float32)


def tiles_kernel(group_ref, x_ref, w_ref, o_ref):
    o_ref[...] = dot(x_ref[...], w_ref[...]).astype(o_ref.dtype)


def by_tiles(x, w, group, tile):
    """Return the grouped matmul if tile v has only rows of group[v]."""
    (rows, k), (_, _, n) = x.shape, w.shape
    return pl.pallas_call(
        tiles_kernel,
        out_shape=jax.ShapeDtypeStruct((rows, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(rows // tile,),
            in_specs=[
                pl.BlockSpec((tile, k), lambda v, group: (v, 0)),
                pl.BlockSpec((None, k, n), lambda v, group: (group[v], 0, 0)),
            ],
            out_specs=pl.BlockSpec((tile, n), lambda v, group: (v, 0)),
        ),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(group, x, w)


def verdict_on(fn, reference, *args):
    """Return the verdict of the first judge that refuses."""
    verdicts = judges.judge(fn, reference, *args, simulate=False)
    refused = [v for v in verdicts if v.passed is False]
    return refused[0] if refused else "no judge refuses it"


def plain_by_tiles(x, w, group, tile=16):
    return plain(x, w, tile * jnp.bincount(group, length=len(w)))


x, w = drawn([32, 0, 16, 48])
group = jnp.array([0, 0, 2, 3, 3, 3], jnp.int32)
print(verdict_on(functools.partial(by_tiles, tile=16), plain_by_tiles, x, w, group))

# %% [markdown]
# **Predict** for eight groups of 512 rows, in tiles of 128: how often is a matrix copied into VMEM? Then guess which
# tile is the fastest: 128, 256 or 512 rows.

# %% tags=["predict"]
x = jax.ShapeDtypeStruct((ROWS, K), jnp.bfloat16)
w = jax.ShapeDtypeStruct((EXPERTS, K, N), jnp.bfloat16)


def of_tiles(tile):
    return np.repeat(np.arange(EXPERTS), 512 // tile).astype(np.int32)


walked = grid.walk(functools.partial(by_tiles, tile=128), x, w, of_tiles(128))
copies = next(row.copies for row in cost.traffic(walked) if row.name == "w_ref")
print(f"{len(of_tiles(128))} steps, {copies} copies of a matrix")
one_w = jax.ShapeDtypeStruct((1, K, N), jnp.bfloat16)
for tile in (128, 256, 512):
    fn = functools.partial(by_tiles, tile=tile)
    reports = [
        compiler.compile_tpu(fn, x, matrices, group)
        for matrices, group in ((w, of_tiles(tile)), (one_w, 0 * of_tiles(tile)))
    ]
    eight, one = (report.seconds * 1e6 for report in reports)
    print(f"tiles of {tile}: {eight:5.1f} us, and {one:5.1f} us with one matrix")

# %% [markdown]
# A matrix is copied once for each group, however many tiles the group has, because the copy is skipped while the index
# stays the same. But the copy of the next matrix starts only one step ahead, and its 2.1 MB take 2.6 us at full
# bandwidth. A step of 512 rows takes longer than that, so eight matrices take as long as one. Steps of 128 rows are
# shorter, and the kernel waits for every new matrix. So if the tiles are large enough, eight matrices alone do not make
# a grouped matmul slow.
#
# ## A tile with two experts
#
# Real groups end anywhere. Then some tiles hold rows of several experts, and have to be multiplied by the matrix of
# each. So the grid no longer walks along tiles but along visits: it comes to every tile once for each expert that has
# rows in it.
#
# > **tile visit**: one grid step, which multiplies a tile by the matrix of one group that has rows in it.
#
# In this lesson we say *visit* for short. Lesson 4 uses the word for all consecutive steps that hold one block; here
# those are the visits of one tile.
#
# **Predict:** there are groups of 5, 0, 11, 4 and 12 rows, and tiles of 8 rows. Write the list of visits, as pairs of
# tile and group.


# %% tags=["predict"]
def visits_of(sizes, tile):
    """Return the group and the tile of each visit, and where each group begins and ends."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    found = [
        (e, t)
        for e, size in enumerate(sizes)
        if size > 0
        for t in range(bounds[e] // tile, -(-bounds[e + 1] // tile))
    ]
    group, tiles = np.array(found).T
    return [a.astype(np.int32) for a in (group, tiles, bounds)]


sizes = np.array([5, 0, 11, 4, 12])
group, tiles, bounds = visits_of(sizes, 8)
print("tile ", tiles)
print("group", group)
print("rows of group e: bounds[e] to bounds[e + 1], bounds =", bounds)

# %% [markdown]
# There are six visits for four tiles. The group without rows has none. Neither list ever decreases, so the visits of
# one tile are consecutive, and so are those of one group.
#
# The map begins with the sizes of the opening, "popular". **Look for** the tile that multiplies the fewest rows if the
# groups are "nearly even". Does the tile matter for "even"?

# %%
spread = {
    "even": [512] * 8,
    "nearly even": [500, 530, 490, 520, 515, 505, 525, 511],
    "popular": popular.tolist(),
    "80 % to one": [100, 3277, 150, 119, 130, 100, 120, 100],
    "all to one": [0, 0, 4096, 0, 0, 0, 0, 0],
}
viz.expert_map(spread, at=(2, 1))

# %% [markdown]
# With groups of 512 rows, every border falls between two tiles, whichever tile you choose, so nothing is multiplied
# twice. Move the borders by a few rows, and each of the seven lies inside a tile and adds one visit. With tiles of 512
# that makes 15 visits instead of 8, so nearly twice as many rows are multiplied as there are. Tiles of 128 waste the
# least, because each border costs one more tile, whatever its size. The cost of padding depends on the largest group
# alone, that of visits on the number of borders.
#
# ## Several steps write one block
#
# A kernel for visits needs both lists: the index map of w reads the group, and those of x and of the result read the
# tile. Here is a first attempt. **Predict:** which rows of the result are wrong?


# %% tags=["predict"]
def by_visits(kernel, x, w, lists, tile):
    """Run a kernel on visits; the lists are those of visits_of, and possibly more."""
    (rows, k), (_, _, n) = x.shape, w.shape

    def of_tile(v, group, tiles, *_):
        return tiles[v], 0

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(lists),
            grid=lists[0].shape,
            in_specs=[
                pl.BlockSpec((tile, k), of_tile),
                pl.BlockSpec((None, k, n), lambda v, group, *_: (group[v], 0, 0)),
            ],
            out_specs=pl.BlockSpec((tile, n), of_tile),
        ),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(*lists, x, w)


def first_kernel(group_ref, tile_ref, bounds_ref, x_ref, w_ref, o_ref):
    o_ref[...] = dot(x_ref[...], w_ref[...]).astype(o_ref.dtype)


def first_attempt(x, w, *lists):
    return by_visits(first_kernel, x, w, lists, tile=16)


def of_bounds(x, w, group, tiles, bounds):
    return plain(x, w, jnp.diff(bounds))


sizes = np.array([10, 0, 22, 8, 24])
small = *drawn(sizes), *map(jnp.array, visits_of(sizes, 16))
print(verdict_on(first_attempt, of_bounds, *small))

# %% [markdown]
# Each visit overwrites the whole tile, so in a tile with two groups only the rows of the last visit are right. A visit
# may write only the rows of its own group:


# %%
def rows_of(v, group_ref, tile_ref, bounds_ref, shape):
    """Return which rows of the tile of visit v belong to its group, in the shape of a block."""
    e, tile = group_ref[v], shape[0]
    row = tile_ref[v] * tile + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    return (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])


def masked_kernel(group_ref, tile_ref, bounds_ref, x_ref, w_ref, o_ref):
    mine = rows_of(pl.program_id(0), group_ref, tile_ref, bounds_ref, o_ref.shape)
    o = dot(x_ref[...], w_ref[...]).astype(o_ref.dtype)
    o_ref[...] = jnp.where(mine, o, o_ref[...])


def masked(x, w, *lists, tile=16):
    return by_visits(masked_kernel, x, w, lists, tile)


print(verdict_on(masked, of_bounds, *small))

# %% [markdown]
# The kernel reads its output block and writes it again. That is allowed, because the visits of a tile follow one
# another: the block stays in VMEM between them (lesson 4), and each visit finds what the one before has written. At the
# first visit of a tile the rows of other groups hold garbage. But every row belongs to some group, so all rows are
# written before the block leaves.
#
# What if the visits of a tile did not follow one another? **Predict** the verdict if the same visits come in the order
# of the groups' sizes, the largest group first.

# %% tags=["predict"]
group = np.asarray(small[2])  # of each visit
order = np.argsort(-sizes[group], kind="stable")
shuffled = *small[:2], small[2][order], small[3][order], small[4]
print(verdict_on(masked, of_bounds, *shuffled))

# %% [markdown]
# The kernel is refused. Tile 2 is visited by group 4 in step 0, and by group 3 only in step 5. In between, the block is
# written to HBM, and nothing copies it back in. So in the rows of group 4 the later visit keeps whatever the buffer
# holds, and these values overwrite the right ones in HBM.
#
# ## As many steps as visits?
#
# There is a problem left. The number of visits depends on the sizes, which are data, and a grid usually has a fixed
# size. But that number has an upper limit: each tile has one visit, and each group that begins inside a tile adds one.
# So there are at most `tiles + experts - 1` visits. The list gets that length, and a prefetched count says how many of
# its entries are real. The others repeat the last visit, so no index changes and nothing is copied for them. (The
# alternative is the dynamic grid of lesson 12.)
#
# **Predict:** for eight groups of 512 rows and tiles of 512 there are 8 visits and 15 steps, so seven steps have
# nothing to do. How long do these steps take if the kernel repeats the matmul, and how long if it skips it?


# %% tags=["predict"]
def padded_visits_of(sizes, tile):
    """Return the lists of visits_of, padded with the last visit, and how many visits count."""
    group, tiles, bounds = visits_of(sizes, tile)
    more = bounds[-1] // tile + len(sizes) - 1 - len(group)
    group, tiles = (np.pad(a, (0, more), mode="edge") for a in (group, tiles))
    return group, tiles, bounds, np.array([len(tiles) - more], np.int32)


def repeating_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    masked_kernel(group_ref, tile_ref, bounds_ref, x_ref, w_ref, o_ref)


def skipping_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    @pl.when(pl.program_id(0) < count_ref[0])
    def visit():
        masked_kernel(group_ref, tile_ref, bounds_ref, x_ref, w_ref, o_ref)


def predicted(kernel, sizes, tile):
    """Return the compiler's report on a kernel of visits, for the arrays of the opening."""
    lists = padded_visits_of(np.array(sizes), tile)
    return compiler.compile_tpu(
        lambda x, w, *lists: by_visits(kernel, x, w, lists, tile), x, w, *lists
    )


x = jax.ShapeDtypeStruct((ROWS, K), jnp.bfloat16)
w = jax.ShapeDtypeStruct((EXPERTS, K, N), jnp.bfloat16)
for kernel in (repeating_kernel, skipping_kernel):
    report = predicted(kernel, spread["even"], 512)
    print(f"{kernel.__name__:16} {report.seconds * 1e6:5.1f} us, {report.steps} steps")
print(f"{'one matrix':16} {dense:5.1f} us, for all rows")

# %% [markdown]
# The seven repeated matmuls cost 92.2 - 53.4 = 38.8 us, 5.5 us each. The kernel that skips them takes 3.1 us longer
# than one matrix for all rows, so its seven idle steps cost no more than about that.
#
# ## What does a border cost?
#
# Next come the sizes of the opening and the nearly even ones. For "popular", tiles of 128, 256 and 512 rows need 39, 23
# and 15 visits, as the map shows. **Guess** which tile is the fastest.

# %% tags=["predict"]
peak_us = 2 * K * N / v5e.bf16_flops * 1e6  # of a row
print(f"{'':14}{'tile':>5}{'visits':>8}{'rows':>8}{'time':>11}{'a visit':>12}  of the peak")
times = {}
for name in ("nearly even", "popular"):
    for tile in (128, 256, 512):
        report = predicted(skipping_kernel, spread[name], tile)
        count, us = len(visits_of(spread[name], tile)[0]), report.seconds * 1e6
        times[name, tile] = us
        print(
            f"{name:14}{tile:5}{count:8}{count * tile:8,}{us:8.1f} us{us / count:9.2f} us"
            f"{count * tile * peak_us / us:9.0%}"
        )

# %% [markdown]
# Both lists of sizes give the same times, although in one of them an expert has more than a third of the rows: what
# matters is the number of visits. A visit costs about 2.1, 3.4 or 6.2 us, depending on the tile. A visit of 512 rows
# takes longer than one of 128 rows, but not four times as long, because a short visit reaches less of the MXU's peak
# and leaves less time for the copy of the next matrix. So the best tile lies in the middle. For groups of about 512
# rows that end anywhere, it has 256 rows, and the kernel still takes about one and a half times as long as one matrix
# for all rows.
#
# Can a border be cheaper? At a border, the tile is multiplied once for each of the two groups, and each time the rows
# of the other one are wasted. The library's kernel multiplies a tile as a whole only if all of it belongs to one group.
# Otherwise it goes through the tile in chunks of 128 rows, and skips those without rows of the group. So even with
# large tiles a border wastes at most one chunk.

# %%
for name in ("nearly even", "popular"):
    sizes = np.array(spread[name], np.int32)
    times[name] = compiler.compile_tpu(grouped.grouped_matmul, x, w, sizes).seconds * 1e6
    print(
        f"{name:12} tiles of 256: {times[name, 256]:5.1f} us, library: {times[name]:5.1f} us"
    )

# %% [markdown]
# The library is 6 % faster for the nearly even sizes, and 13 % for those of the opening. It uses tiles of 512 rows,
# with which the kernel without chunks took 92 us in the table above. Still, borders are expensive: for even groups,
# which have none inside a tile, the library's kernel takes 54 us (in *Further*), 20 us less.
#
# ## The gradient of the matrices
#
# The backward pass needs two more matmuls. The gradient of x is a grouped matmul again, with each matrix transposed.
# Let g be the gradient of the result. Then the gradient of matrix e is x_e.T @ g_e, where x_e and g_e are the rows of
# group e. Here the group selects the *output* block, in which all visits of the group are added up. These visits are
# consecutive, so one accumulator in VMEM suffices. The kernel clears it at the first visit of a group and stores it at
# the last. In x, the kernel replaces the rows of other groups with 0, so that they add nothing as long as g is finite.


# %%
def dw_kernel(group_ref, tile_ref, bounds_ref, x_ref, g_ref, o_ref, acc_ref):
    v, last = pl.program_id(0), pl.num_programs(0) - 1
    e = group_ref[v]

    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))
    def clear():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    mine = rows_of(v, group_ref, tile_ref, bounds_ref, x_ref.shape)
    rows = jnp.where(mine, x_ref[...], 0)
    acc_ref[...] += jax.lax.dot_general(
        rows, g_ref[...], (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
    )

    @pl.when((v == last) | (group_ref[jnp.minimum(v + 1, last)] != e))
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def dw_of(x, g, group, tiles, bounds, tile=16):
    """Return x_e.T @ g_e for each group e."""
    (_, k), (_, n) = x.shape, g.shape
    return pl.pallas_call(
        dw_kernel,
        out_shape=jax.ShapeDtypeStruct((len(bounds) - 1, k, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=group.shape,
            in_specs=[
                pl.BlockSpec((tile, k), lambda v, group, tiles, _: (tiles[v], 0)),
                pl.BlockSpec((tile, n), lambda v, group, tiles, _: (tiles[v], 0)),
            ],
            out_specs=pl.BlockSpec((None, k, n), lambda v, group, *_: (group[v], 0, 0)),
            scratch_shapes=[pltpu.VMEM((k, n), jnp.float32)],
        ),
    )(group, tiles, bounds, x, g)


def plain_dw(x, g, group, tiles, bounds):
    """Return the same in JAX."""
    row = jnp.arange(len(x))[None]
    mine = (row >= bounds[:-1, None]) & (row < bounds[1:, None])
    o = jnp.einsum("et,tk,tn->ekn", mine.astype(jnp.float32), x, g, precision="highest")
    return o.astype(x.dtype)


sizes = np.array([10, 6, 22, 2, 24])
x, _ = drawn(sizes)
g = jax.random.normal(jax.random.key(3), (len(x), 128), jnp.bfloat16)
print(verdict_on(dw_of, plain_dw, x, g, *map(jnp.array, visits_of(sizes, 16))))

# %% [markdown]
# **Predict** the verdict for the sizes of the example above, 10, 0, 22, 8 and 24, where one group has no rows.

# %% tags=["predict"]
sizes = np.array([10, 0, 22, 8, 24])
print(verdict_on(dw_of, plain_dw, x, g, *map(jnp.array, visits_of(sizes, 16))))

# %% [markdown]
# A group without rows has no visit, so nothing writes its block of the result, and the block holds garbage, as in
# lesson 12 where a row of blocks is empty. An optimizer would add this to the weights of an expert that no token has
# used. So in this kernel such a group needs a visit, too. Any tile will do: none of its rows count, so the accumulator
# is stored as 0. You will write that list in exercise 15.2.
#
# ## Two matmuls and a SiLU
#
# The MLP of an expert is usually gated: it computes `silu(x @ w_gate) * (x @ w_up)`, and then a third matmul. The
# library's kernel computes the same tile of both matmuls in one step, so both tiles can stay in VMEM, as in lesson 9,
# and only the result goes to HBM. **Predict** how many bytes that saves for 4,096 rows of 1,024 results each, in
# bfloat16, and how much time.

# %% tags=["predict"]
between = jax.ShapeDtypeStruct((ROWS, N), jnp.bfloat16)
x = jax.ShapeDtypeStruct((ROWS, K), jnp.bfloat16)
sizes = popular.astype(np.int32)
gated = compiler.compile_tpu(lambda gate, up: jax.nn.silu(gate) * up, between, between)
fused = compiler.compile_tpu(grouped_swiglu.grouped_swiglu, x, w, w, sizes)
apart = 2 * times["popular"] + gated.seconds * 1e6
print(f"two grouped matmuls and XLA's silu(gate) * up: {apart:5.1f} us")
print(f"one kernel:                                    {fused.seconds * 1e6:5.1f} us")
print(f"silu(gate) * up alone moves {gated.hbm_bytes / 1e6:.1f} MB")

# %% [markdown]
# Separate kernels write the results of both matmuls and read them again, which moves four times 8.4 MB, and they read x
# twice. The one kernel saves these 42 MB, and takes a quarter less time. (The 25.2 MB above are those of `silu(gate) *
# up` alone: two reads and a write.)
#
# ## The guess
#
# With room for the largest group, the matmul takes three times as long as one matrix for all rows, and a kernel without
# padding takes about one and a half times as long. Most of its extra time, 20 of 29 us, is lost at the borders, where a
# tile with rows of two experts is multiplied twice. (Even groups, which have no border inside a tile, take 59 us with
# tiles of 256 rows, as *Further* shows.) There are at most seven such borders among eight experts, so they matter less
# the more rows an expert gets. And where nearly even groups are certain, padding is the better choice: the sizes that
# are nearly even take 62 us with room for the largest, less than any kernel here. But that room has to be known before
# the program runs.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. Eight experts, 1,024 rows, tiles of 128 rows. How many visits are there at most?</summary> 8
# tiles + 8 experts - 1 = 15.</details>
#
# <details><summary>2. Why must the visits of a tile follow one another in the forward pass, and the visits of a group
# in the gradient of w?</summary> They share an output block, which stays in VMEM only while consecutive steps use it: a
# tile of the result there, the gradient of a matrix here. Once the block leaves, what was in it is not copied in
# again.</details>
#
# <details><summary>3. All tokens go to one of eight experts. What does padding compute, and what do visits
# compute?</summary> Padding computes eight times the rows. There are no borders, so visits compute each row
# once.</details>
#
# <details><summary>4. The groups get four times as many rows. What happens to the time that borders add, compared with
# the time without borders?</summary> The ratio falls to about a quarter, because there are as many borders as before,
# and a border costs one visit.</details>
#
# <details><summary>5. A kernel for dw returns NaN for expert 5, but only in some batches. Where do you look?</summary>
# Check whether expert 5 had no rows in those batches. Then nothing visits its block, so nothing writes it.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 15](../exercises/15_grouped_matmul.ipynb).
#
# ## Further
#
# No exercise needs what follows.
#
# ### A layer that learns
#
# Below is a whole layer of four experts, with a router that learns as well. It classifies the 150 irises of lesson 10
# by species, with `grouped_matmul` in both directions. A flower goes to the expert with the highest probability, and
# that probability scales the result, so the gradient reaches the router through it. The second term of the loss is
# smallest if all experts get equally many rows (from the Switch Transformer, Fedus et al. 2021). **Guess** what happens
# to the experts without that term.

# %% tags=["predict"]
flowers, species = datasets.irises()
flowers, species = (
    jnp.array((flowers - flowers.mean(0)) / flowers.std(0)),
    jnp.array(species),
)
FEW, WIDTH = 4, 16


def layer(params, x):
    """Return logits, the router's probabilities, and how many rows each expert gets."""
    p = jax.nn.softmax(x @ params["router"])
    rows, sizes, order = by_expert(x, jnp.argmax(p, axis=1), FEW)
    h = jax.nn.relu(grouped.grouped_matmul(rows, params["up"], sizes))
    o = grouped.grouped_matmul(h, params["down"], sizes)
    return jnp.zeros_like(o).at[order].set(o) * p.max(axis=1, keepdims=True), p, sizes


def loss(params, weight):
    """Return the loss, and beside it the part of the species and the sizes."""
    o, p, sizes = layer(params, flowers)
    fit = -jnp.take_along_axis(jax.nn.log_softmax(o), species[:, None], axis=1).mean()
    balance = FEW * jnp.sum(sizes / len(flowers) * p.mean(axis=0))
    return fit + weight * balance, (fit, sizes)


@jax.jit
def step(params, velocity, weight):
    (_, seen), gradient = jax.value_and_grad(loss, has_aux=True)(params, weight)
    velocity = jax.tree.map(lambda v, g: 0.9 * v - 0.1 * g, velocity, gradient)
    return jax.tree.map(jnp.add, params, velocity), velocity, seen


def trained(weight, steps=100):
    """Return the loss and the share of the largest expert after each step."""
    keys = jax.random.split(jax.random.key(1), 3)
    params = {
        "router": jax.random.normal(keys[0], (4, FEW)) / 2,
        "up": jax.random.normal(keys[1], (FEW, 4, WIDTH)) / 2,
        "down": jax.random.normal(keys[2], (FEW, WIDTH, 3)) / 4,
    }
    velocity, seen = jax.tree.map(jnp.zeros_like, params), []
    for _ in range(steps):
        params, velocity, (fit, sizes) = step(params, velocity, weight)
        seen.append((fit, sizes.max() / len(flowers)))
    return np.round(np.array(seen, float), 2), sizes


plt.rcParams.update(viz.PLOT_STYLE)
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3))
for name, weight in (("alone", 0.0), ("with balance", 0.3)):
    seen, sizes = trained(weight)
    left.plot(seen[:, 0], label=name)
    right.plot(seen[:, 1], label=name)
    print(f"{name:12} an expert has no rows: {bool((sizes == 0).any())}")
left.set(title="loss of the species", xlabel="step", ylim=(0, None))
right.set(title="share of the largest expert", xlabel="step", ylim=(0, 1))
right.legend()
viz.plot_picture(
    fig,
    "Both losses fall, the one with the second term a little more slowly. Without it one expert gets more and more of the "
    "flowers; with it the largest share falls.",
)

# %% [markdown]
# The loss of the species falls a little more slowly with the second term. But without it one expert ends up without
# rows. From then on it learns nothing, because the gradient of its matrices is 0, and the three others do its work. On
# a chip, a quarter of the weights' memory would be wasted. With the second term every expert keeps some rows. (If the
# gradient's kernel did not write the block of an empty group, each step would add garbage to its weights.)
#
# ### Beside XLA's kernel
#
# `jax.lax.ragged_dot` computes the same, and XLA compiles it for a TPU as a kernel of its own, a `tpu_custom_call` in
# the HLO. We cannot predict its time, because the compiler's simulator stops before it reports one.

# %%
report = compiler.compile_tpu(
    jax.lax.ragged_dot, x, w, jax.ShapeDtypeStruct((8,), jnp.int32)
)
print(report.notes[0] if report.seconds is None else report.seconds)

# %% [markdown]
# But we can compare its results with the library's, and the times of everything else: eight matmuls with the room of
# the largest group, the lesson's kernel with tiles of 256 rows, and the library's. **Guess** for which of the five
# sizes padding is as good as any kernel.

# %% tags=["predict"]
print(f"{'':12}{'padded':>10}{'visits':>10}{'library':>10}   ragged_dot differs by")
for name, each in spread.items():
    sizes = np.array(each, np.int32)
    visits = predicted(skipping_kernel, each, 256).seconds * 1e6
    library = compiler.compile_tpu(grouped.grouped_matmul, x, w, sizes).seconds * 1e6
    few = sizes // 8
    ours, xla = (f(*drawn(few), few) for f in (grouped.grouped_matmul, jax.lax.ragged_dot))
    us = padded_us(each), visits, library
    print(f"{name:12}" + "".join(f"{t:7.1f} us" for t in us), f"  {abs(ours - xla).max()}")

# %% [markdown]
# For groups that are even, or nearly so, padding is the fastest of the three: no tile of XLA's matmuls has two experts.
# But its time depends on the largest group alone. The sizes are known only when the program runs, so the room has to do
# for the most uneven batch that ever comes, or tokens are dropped. The kernels stay between 54 and 79 us, while padding
# takes between 50 and 359. `ragged_dot` and the library agree up to rounding.
#
# Tokamax 0.0.17, a library of kernels, publishes measured times for a v5e. For 8,192 rows, 8 matrices of 4,096 x 14,336
# and bfloat16, its kernel takes 5.26 ms if the groups are even, and 6.51 ms if the group of each row is drawn at
# random. `ragged_dot` takes 9.47 and 7.63 ms. Tokamax has tuned its tiles for each of the two.
#
# ### Experts on several chips
#
# With enough experts a single chip has no room for all matrices, and each chip gets some of them. Then a token has to
# travel to the chip of its expert and back, which takes an all-to-all. The sizes then say how many rows each chip sends
# to each other chip, and a popular expert makes one chip the slowest of all. Lesson 16 is about kernels that talk to
# other chips; the library has some in `course_lib.kernels.collectives`, but no all-to-all.
#
# <!-- next -->
