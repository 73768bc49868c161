# Wrong answers to the exercises of lesson 15: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="15.1" name="one too many" judge="exercise" says="Does it add a visit"
# -    visits = rows // tile + experts - 1
# +    visits = rows // tile + experts


# %% answer="15.1" name="every tile with every expert" judge="exercise" says="Rows are sorted by expert"
# -    visits = rows // tile + experts - 1
# +    visits = rows // tile * experts


# %% answer="15.1" name="what is wasted" judge="exercise" says="The rows themselves count, too"
# -    return visits, visits * tile / rows
# +    return visits, visits * tile / rows - 1


# %% answer="15.2" name="one tile more at a border" judge="simulator" says="asks for block"
# -    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 1)
# +    met = jnp.where(sizes > 0, ends // tile - first + 1, 1)


# %% answer="15.2" name="no visit without rows" judge="exercise" says="a group without rows has one\\s+visit"
# -    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 1)
# +    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 0)


# %% answer="15.2" name="behind the last tile" judge="simulator" says="asks for block"
# -    first = jnp.minimum(starts // tile, rows // tile - 1)
# +    first = starts // tile


# %% answer="15.2" name="tiles counted through" judge="numbers" says="wrong"
# -    tiles = first[group] + v - before[group]
# +    tiles = first[group] + v


# %% answer="15.2" name="not padded with the last" judge="exercise" says="past the end"
# -    v = jnp.minimum(jnp.arange(most), count - 1)
# +    v = jnp.minimum(jnp.arange(most), count)


# %% answer="15.3" name="whole tiles" judge="numbers" says="each visit writes the whole tile"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = o


# %% answer="15.3" name="rows of the tile" judge="numbers" says="wrong"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
# +        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)


# %% answer="15.3" name="the first row left out" judge="numbers" says="wrong"
# -        mine = (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])
# +        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])


# %% answer="15.3" name="others cleared" judge="numbers" says="wrong"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.3" name="nobody's rows multiplied" judge="numbers" says="wrong|NaN"
# -        o = jnp.where(e == nobody, 0, dot(x_ref[...], w_ref[...]))
# +        o = dot(x_ref[...], w_ref[...])


# %% answer="15.4" name="never cleared again" judge="numbers" says="the sum of one group goes on in\\s+the next"
# -    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))
# +    @pl.when(v == 0)


# %% answer="15.4" name="g not masked" judge="numbers" says="NaN|nan"
# -        acc_ref[...] += summed(mine(x_ref), mine(g_ref))
# +        acc_ref[...] += summed(mine(x_ref), g_ref[...])


# %% answer="15.4" name="stored at every first visit" judge="numbers" says="wrong|never"
# -    @pl.when((v == last) | (group_ref[jnp.minimum(v + 1, last)] != e))
# +    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))


# %% answer="15.5" name="as given" judge="numbers" says="wrong"
def relu_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    v = pl.program_id(0)
    e = group_ref[v]

    @pl.when(v < count_ref[0])
    def visit():
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])
        o = jnp.maximum(dot(x_ref[...], w_ref[...]), 0)
        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.5" name="one line mended" judge="numbers" says="wrong"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.5" name="the first row left out" judge="numbers" says="wrong"
# -        mine = (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])
# +        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])
