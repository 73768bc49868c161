# Wrong answers to the exercises of lesson 15: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="15.1" name="one too many" judge="exercise" says="Does\\s+a\\s+group\\s+that\\s+begins"
# -    visits = rows // tile + experts - 1
# +    visits = rows // tile + experts


# %% answer="15.1" name="every tile with every expert" judge="exercise" says="rows\\s+are\\s+sorted\\s+by\\s+expert"
# -    visits = rows // tile + experts - 1
# +    visits = rows // tile * experts


# %% answer="15.1" name="what is wasted" judge="exercise" says="the\\s+rows\\s+themselves\\s+count,\\s+too"
# -    return visits, visits * tile / rows
# +    return visits, visits * tile / rows - 1


# %% answer="15.2" name="one tile more at a border" judge="exercise" says="count is \\["
# -    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 1)
# +    met = jnp.where(sizes > 0, ends // tile - first + 1, 1)


# %% answer="15.2" name="no visit without rows" judge="exercise" says="a\\s+group\\s+without\\s+rows\\s+has\\s+one\\s+visit"
# -    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 1)
# +    met = jnp.where(sizes > 0, (ends - 1) // tile - first + 1, 0)


# %% answer="15.2" name="behind the last tile" judge="exercise" says="visits the last\\s+tile"
# -    first = jnp.minimum(starts // tile, rows // tile - 1)
# +    first = starts // tile


# %% answer="15.2" name="tiles counted through" judge="exercise" says="the\\s+first\\s+tile\\s+of\\s+the\\s+group,\\s+and\\s+one\\s+more"
# -    tiles = first[group] + v - before[group]
# +    tiles = first[group] + v


# %% answer="15.2" name="not padded with the last" judge="exercise" says="tiles is \\["
# -    v = jnp.minimum(jnp.arange(most), count - 1)
# +    v = jnp.minimum(jnp.arange(most), count)


# %% answer="15.3" name="whole tiles" judge="numbers" says="each\\s+(visit )?writes"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = o


# %% answer="15.3" name="rows of the tile" judge="numbers" says="No step writes rows 0 to 9"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
# +        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)


# %% answer="15.3" name="the first row left out" judge="numbers" says="No step writes row 0 and 1 more"
# -        mine = (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])
# +        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])


# %% answer="15.3" name="others cleared" judge="numbers" says="keep the rest"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.3" name="nobody's rows multiplied" judge="numbers" says="belong\\s+to\\s+nobody\\s+are\\s+multiplied"
# -        o = jnp.where(e == nobody, 0, dot(x_ref[...], w_ref[...]))
# +        o = dot(x_ref[...], w_ref[...])


# %% answer="15.4" name="never cleared again" judge="numbers" says="the sum of one group goes on in\\s+the next"
# -    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))
# +    @pl.when(v == 0)


# %% answer="15.4" name="g not masked" judge="numbers" says="is NaN and must not count"
# -        acc_ref[...] += summed(mine(x_ref), mine(g_ref))
# +        acc_ref[...] += summed(mine(x_ref), g_ref[...])


# %% answer="15.4" name="stored at every first visit" judge="numbers" says="o_ref is written for the\\s+last time at step"
# -    @pl.when((v == last) | (group_ref[jnp.minimum(v + 1, last)] != e))
# +    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))


# %% answer="15.5" name="as given" judge="numbers" says="only\\s+what step \\(1,\\) computes remains"
def relu_kernel(group_ref, tile_ref, bounds_ref, count_ref, x_ref, w_ref, o_ref):
    v = pl.program_id(0)
    e = group_ref[v]

    @pl.when(v < count_ref[0])
    def visit():
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])
        o = jnp.maximum(dot(x_ref[...], w_ref[...]), 0)
        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.5" name="one line mended" judge="numbers" says="keep the rest"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = jnp.where(mine, o, 0)


# %% answer="15.5" name="the first row left out" judge="numbers" says="No step writes row 0 and 1 more"
# -        mine = (row >= bounds_ref[e]) & (row < bounds_ref[e + 1])
# +        mine = (row > bounds_ref[e]) & (row < bounds_ref[e + 1])


# %% answer="15.6" name="not put back" judge="numbers" says="left\\s+in\\s+the\\s+order\\s+of\\s+the\\s+experts"
# -    each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
# -    return jnp.sum(share[:, :, None] * each, axis=1)
# +    each = o.reshape(len(x), 2, -1)
# +    return jnp.sum(share.reshape(-1)[order].reshape(-1, 2, 1) * each, axis=1)


# %% answer="15.6" name="sorted again" judge="numbers" says="sorted\\s+a\\s+second\\s+time"
# -    each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
# +    each = o[order].reshape(len(x), 2, -1)


# %% answer="15.6" name="tokens not repeated" judge="numbers" says="takes the rows of\\s+other tokens"
# -    o = library.grouped_matmul(x[order // 2], w, sizes)
# +    o = library.grouped_matmul(jnp.concatenate([x, x])[order], w, sizes)


# %% answer="15.6" name="shares left out" judge="numbers" says="without\\s+being\\s+multiplied\\s+by\\s+the\\s+shares"
# -    return jnp.sum(share[:, :, None] * each, axis=1)
# +    return jnp.sum(each, axis=1)


# %% answer="15.6" name="one expert set" judge="numbers" says="the\\s+later\\s+expert\\s+of\\s+each\\s+token\\s+replaces\\s+the\\s+other"
# -    each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
# -    return jnp.sum(share[:, :, None] * each, axis=1)
# +    o = o * share.reshape(-1)[order][:, None]
# +    return jnp.zeros((len(x), w.shape[2])).at[order // 2].set(o)


# %% answer="15.6" name="shares in another order" judge="numbers" says="share\\s+is\\s+multiplied\\s+by\\s+the\\s+row\\s+of\\s+another\\s+token"
# -    each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
# -    return jnp.sum(share[:, :, None] * each, axis=1)
# +    o = o * share.reshape(-1)[:, None]
# +    return jnp.zeros((len(x), w.shape[2])).at[order // 2].add(o)


# %% answer="15.7" name="silu of up" judge="numbers" says="the\\s+SiLU\\s+is\\s+applied\\s+to\\s+up,\\s+not\\s+to\\s+gate"
# -        o = jax.nn.silu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])
# +        o = dot(x_ref[...], gate_ref[...]) * jax.nn.silu(dot(x_ref[...], up_ref[...]))


# %% answer="15.7" name="sigmoid" judge="numbers" says="sigmoid\\s+is\\s+applied\\s+to\\s+the\\s+gate"
# -        o = jax.nn.silu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])
# +        o = jax.nn.sigmoid(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])


# %% answer="15.7" name="exp of a large gate" judge="numbers" says="wrong"
# -        o = jax.nn.silu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])
# +        z = jnp.exp(dot(x_ref[...], gate_ref[...]))
# +        o = dot(x_ref[...], gate_ref[...]) * z / (1 + z) * dot(x_ref[...], up_ref[...])


# %% answer="15.7" name="whole tiles" judge="numbers" says="each\\s+(visit )?writes"
# -        o_ref[...] = jnp.where(mine, o, o_ref[...])
# +        o_ref[...] = o


# %% answer="15.8" name="tiles of 256, whole" judge="exercise" says="it takes 1[0-9]{2},[0-9]{3} cycles"
# -ROWS_OF_TILE, CHUNK = 512, 128
# +ROWS_OF_TILE, CHUNK = 256, 256


# %% answer="15.8" name="nobody's rows as the last expert's" judge="numbers" says="is NaN\\s+and must not count"
# -    @pl.when((v < count_ref[0]) & (e == nobody))
# +    @pl.when((v < count_ref[0]) & (e > nobody))

# -    @pl.when((v < count_ref[0]) & (e < nobody) & whole)
# +    @pl.when((v < count_ref[0]) & whole)

# -    @pl.when((v < count_ref[0]) & (e < nobody) & ~whole)
# +    @pl.when((v < count_ref[0]) & ~whole)


# %% answer="15.8" name="one chunk short" judge="numbers" says="No step\\s+writes rows 128 to 249 and"
# -        @pl.loop(start // CHUNK, pl.cdiv(end, CHUNK))
# +        @pl.loop(start // CHUNK, end // CHUNK)


# %% answer="15.9" name="par of 15.8" judge="exercise" says="above par(?s:.)*par is 109,000"
# -    return in_visits(multiply_once, x, w, sizes)
# +    return in_visits(multiply_chunks, x, w, sizes)


# %% answer="15.9" name="not rounded to registers" judge="simulator" says="is\\s+a\\s+promise\\s+that\\s+the\\s+compiler\\s+trusts"
# -    at = start // 16 * 16  # 16 rows of bfloat16 are a tile of registers
# +    at = start


# %% answer="15.9" name="beyond the tile" judge="numbers" says="accesses x_ref\\[448:576\\]"
# -            first = pl.multiple_of(jnp.minimum(at, tile - size), 16)
# +            first = pl.multiple_of(at, 16)


# %% answer="15.4" name="all rows of a tile" judge="numbers" says="all rows of a tile\\s+count"
# -        return jnp.where((row >= bounds_ref[e]) & (row < bounds_ref[e + 1]), ref[...], 0)
# +        return ref[...]


# %% answer="15.4" name="the last step for the last visit" judge="numbers" says="add\\s+the\\s+last\\s+visit\\s+once\\s+more"
# -    v, last = pl.program_id(0), count_ref[0] - 1
# +    v, last = pl.program_id(0), pl.num_programs(0) - 1


# %% answer="15.4" name="one mask for x and g" judge="numbers" says="16, 128"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
# +        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)


# %% answer="15.3" name="a mask of x's shape" judge="numbers" says="16, 128"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
# +        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)


# %% answer="15.3" name="nobody's visits skipped" judge="numbers" says="No step writes rows"
# -    @pl.when(v < count_ref[0])
# +    @pl.when((v < count_ref[0]) & (e < nobody))


# %% answer="15.3" name="rows from the number of the visit" judge="numbers" says="taken for row\\s+v\\s+\\*\\s+TILE"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
# +        row = v * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)


# %% answer="15.6" name="a call for each expert" judge="exercise" says="calls the library\\s+2 times"
# -    order = jnp.argsort(expert.reshape(-1))  # of 2 * T rows, two for each token
# -    sizes = jnp.bincount(expert.reshape(-1), length=len(w))
# -    o = library.grouped_matmul(x[order // 2], w, sizes)
# -    each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
# -    return jnp.sum(share[:, :, None] * each, axis=1)
# +    def of_one(expert, share):
# +        order = jnp.argsort(expert)
# +        sizes = jnp.bincount(expert, length=len(w))
# +        o = library.grouped_matmul(x[order], w, sizes)
# +        return share[:, None] * jnp.zeros_like(o).at[order].set(o)
# +
# +    return of_one(expert[:, 0], share[:, 0]) + of_one(expert[:, 1], share[:, 1])


# %% answer="15.7" name="ReLU" judge="numbers" says="ReLU\\s+is\\s+applied\\s+to\\s+the\\s+gate"
# -        o = jax.nn.silu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])
# +        o = jax.nn.relu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])


# %% answer="15.8" name="whole tiles forgotten" judge="numbers" says="wrong"
# -        o_ref[...] = product(slice(None))
# +        pass


# %% answer="15.8" name="a list that is one too short" judge="numbers" says="wrong"
# -    most = tiles + groups - 1
# +    most = tiles + groups - 2


# %% answer="15.8" name="the library" judge="exercise" says="runs\\s+the\\s+library's\\s+kernel"
# -    return in_visits(multiply_chunks, x, w, sizes)
# +    return library.grouped_matmul(x, w, sizes)


# %% answer="15.9" name="a size that forgets the rounding" judge="numbers" says="wrong"
# -        @pl.when(counts & (e < nobody) & (end - at > below) & (end - at <= size))
# +        @pl.when(counts & (e < nobody) & (end - start > below) & (end - start <= size))


# %% answer="15.2" name="the length for the count" judge="exercise" says="that\\s+is\\s+the\\s+length\\s+of\\s+the\\s+lists"
# -    return [a.astype(jnp.int32) for a in (group, tiles, bounds, count[None])]
# +    return [a.astype(jnp.int32) for a in (group, tiles, bounds, jnp.full(1, most))]


# %% answer="15.2" name="group and tiles exchanged" judge="exercise" says="this\\s+list\\s+belongs\\s+elsewhere\\s+in\\s+the\\s+result"
# -    return [a.astype(jnp.int32) for a in (group, tiles, bounds, count[None])]
# +    return [a.astype(jnp.int32) for a in (tiles, group, bounds, count[None])]


# %% answer="15.2" name="zeros past the end" judge="exercise" says="visits\\s+are\\s+right,\\s+but\\s+past\\s+them"
# -    return [a.astype(jnp.int32) for a in (group, tiles, bounds, count[None])]
# +    group = jnp.where(jnp.arange(most) < count, group, 0)
# +    return [a.astype(jnp.int32) for a in (group, tiles, bounds, count[None])]


# %% answer="15.3" name="the last expert for nobody" judge="numbers" says="as\\s+if\\s+they\\s+were\\s+nobody's"
# -    v, nobody = pl.program_id(0), bounds_ref.shape[0] - 2
# +    v, nobody = pl.program_id(0), bounds_ref.shape[0] - 3


# %% answer="15.3" name="columns for rows" judge="numbers" says="along\\s+the\\s+columns\\s+of\\s+o_ref"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
# +        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 1)


# %% answer="15.4" name="the first row left out" judge="numbers" says="first\\s+row\\s+of\\s+each\\s+group\\s+is\\s+left\\s+out"
# -        return jnp.where((row >= bounds_ref[e]) & (row < bounds_ref[e + 1]), ref[...], 0)
# +        return jnp.where((row > bounds_ref[e]) & (row < bounds_ref[e + 1]), ref[...], 0)


# %% answer="15.4" name="rows counted in the tile" judge="numbers" says="rows\\s+of\\s+each\\s+tile\\s+are\\s+counted\\s+from\\s+0"
# -        row = tile_ref[v] * TILE + jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
# +        row = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)


# %% answer="15.4" name="the last visit left out" judge="numbers" says="last\\s+visit\\s+that\\s+counts\\s+is\\s+not\\s+added"
# -    @pl.when(v <= last)
# +    @pl.when(v < last)


# %% answer="15.4" name="masks that multiply" judge="numbers" says="is\\s+NaN\\s+and\\s+must\\s+not\\s+count"
# -        return jnp.where((row >= bounds_ref[e]) & (row < bounds_ref[e + 1]), ref[...], 0)
# +        return ref[...] * ((row >= bounds_ref[e]) & (row < bounds_ref[e + 1]))


# %% answer="15.4" name="never cleared" judge="numbers" says="where\\s+the\\s+list's\\s+entry\\s+differs"
# -    @pl.when((v == 0) | (group_ref[jnp.maximum(v - 1, 0)] != e))
# +    @pl.when(v < 0)


# %% answer="15.4" name="stored at the end alone" judge="numbers" says="every\\s+block\\s+needs\\s+a\\s+write"
# -    @pl.when((v == last) | (group_ref[jnp.minimum(v + 1, last)] != e))
# +    @pl.when(v == last)


# %% answer="15.5" name="ReLU of x" judge="numbers" says="the\\s+ReLU\\s+is\\s+applied\\s+to\\s+x"
# -        o = jnp.maximum(dot(x_ref[...], w_ref[...]), 0)
# +        o = dot(jnp.maximum(x_ref[...], 0), w_ref[...])


# %% answer="15.6" name="two halves" judge="numbers" says="split\\s+into\\s+two\\s+halves"
# -    each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
# +    each = jnp.zeros_like(o).at[order].set(o).reshape(2, len(x), -1).swapaxes(0, 1)


# %% answer="15.6" name="not sorted" judge="numbers" says="rows\\s+are\\s+not\\s+sorted\\s+by\\s+expert"
# -    order = jnp.argsort(expert.reshape(-1))  # of 2 * T rows, two for each token
# +    order = jnp.arange(expert.size)


# %% answer="15.6" name="sizes of the first expert" judge="numbers" says="sizes\\s+count\\s+only\\s+the\\s+first\\s+expert"
# -    sizes = jnp.bincount(expert.reshape(-1), length=len(w))
# +    sizes = jnp.bincount(expert[:, 0], length=len(w))


# %% answer="15.6" name="shares twice" judge="numbers" says="shares\\s+are\\s+multiplied\\s+twice"
# -    return jnp.sum(share[:, :, None] * each, axis=1)
# +    return jnp.sum(share[:, :, None] ** 2 * each, axis=1)


# %% answer="15.7" name="silu of x" judge="numbers" says="the\\s+SiLU\\s+is\\s+applied\\s+to\\s+x"
# -        o = jax.nn.silu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], up_ref[...])
# +        o = dot(jax.nn.silu(x_ref[...]), gate_ref[...]) * dot(x_ref[...], up_ref[...])
