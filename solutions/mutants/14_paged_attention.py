# Wrong answers to the exercises of lesson 14: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="14.1" name="one layer" judge="exercise" says="every\\s+layer\\s+keeps\\s+its\\s+own"
# -    kept = 2 * layers * kv_heads * head * 2
# +    kept = 2 * kv_heads * head * 2


# %% answer="14.1" name="keys without values" judge="exercise" says="Count keys and values"
# -    kept = 2 * layers * kv_heads * head * 2
# +    kept = layers * kv_heads * head * 2


# %% answer="14.1" name="the tokens of one sequence" judge="exercise" says="every\\s+sequence\\s+gets\\s+a\\s+token"
# -    return kept, sequences / seconds
# +    return kept, 1 / seconds


# %% answer="14.1" name="weights for each sequence" judge="exercise" says="serve all sequences"
# -    seconds = (parameters + sequences * context * kept) / bandwidth
# +    seconds = sequences * (parameters + context * kept) / bandwidth


# %% answer="14.2" name="page j of the pool" judge="numbers" says="takes\\s+page\\s+j\\s+of\\s+the\\s+pool"
# -        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0
# +        return jnp.minimum(j, last), 0, 0, 0


# %% answer="14.2" name="goes on behind the last page" judge="simulator" says="asks for block \\(7777"
# -        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0
# +        return table_ref[b, j], 0, 0, 0


# %% answer="14.2" name="back to page 0 behind the end" judge="budget" says="It moves"
# -        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0
# +        return jnp.where(j <= last, table_ref[b, jnp.minimum(j, last)], 0), 0, 0, 0


# %% answer="14.2" name="row 0 of the table" judge="numbers" says="every\\s+sequence\\s+gets\\s+the\\s+pages\\s+of\\s+sequence\\s+0"
# -        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0
# +        return table_ref[0, jnp.minimum(j, last)], 0, 0, 0


# %% answer="14.2" name="rows for the result" judge="numbers" says="an index map returns block indices"
# -    return pl.BlockSpec(block, page_map), pl.BlockSpec(block, lambda b, j, *_: (b, 0, j, 0))
# +    return pl.BlockSpec(block, page_map), pl.BlockSpec(block, lambda b, j, *_: (b, 0, j * PAGE, 0))


# %% answer="14.3" name="NaN replaced, and not by place" judge="numbers" says="NaN|nan"
# -    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
# +    v = jnp.where(jnp.isnan(v), 0, v)


# %% answer="14.3" name="values not cleaned" judge="numbers" says="0 \\* NaN is NaN"
# -    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)


# %% answer="14.3" name="masked with 0" judge="numbers" says="exp\\(0\\s+-\\s+m\\)\\s+counts"
# -    s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)
# +    s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, 0)


# %% answer="14.3" name="one token too many" judge="numbers" says="a\\s+mask\\s+that\\s+is\\s+off\\s+by\\s+one"
# -    s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)
# +    s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) <= left, s, -jnp.inf)


# %% answer="14.3" name="not scaled" judge="numbers" says="are\\s+not divided by sqrt"
# -    s = scores(q_ref[...], k) / math.sqrt(D)
# +    s = scores(q_ref[...], k)


# %% answer="14.3" name="one sum for all queries" judge="numbers" says="take them along the same axis"
# -    o_ref[...] = weighted(p, v) / p.sum(axis=1, keepdims=True)
# +    o_ref[...] = weighted(p, v) / p.sum()


# %% answer="14.4" name="NaN replaced, and not by place" judge="numbers" says="NaN|nan"
# -        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
# +        v = jnp.where(jnp.isnan(v), 0, v)


# %% answer="14.4" name="m is not kept" judge="numbers" says="only\\s+the\\s+last\\s+page\\s+of\\s+each\\s+sequence"
# -        m_ref[...] = m


# %% answer="14.4" name="begun at the first token" judge="numbers" says="the\\s+sequence\\s+before\\s+it\\s+left"
# -    @pl.when(j == 0)
# +    @pl.when((j == 0) & (left > 0))

# -        o_ref[...] = jnp.where(lengths_ref[b] > 0, acc_ref[...] / l_ref[...], 0)
# +        o_ref[...] = jnp.where(l_ref[...] > 0, acc_ref[...] / l_ref[...], 0)


# %% answer="14.4" name="scores not scaled" judge="numbers" says="not\\s+divided\\s+by\\s+sqrt"
# -        s = scores(q_ref[...], k) / math.sqrt(D)
# +        s = scores(q_ref[...], k)


# %% answer="14.4" name="scores not masked" judge="numbers" says="belong\\s+to\\s+no\\s+token|NaN"
# -        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)


# %% answer="14.4" name="l not rescaled" judge="numbers" says="l is not rescaled"
# -        l_ref[...] = l_ref[...] * shrink + p.sum(axis=1, keepdims=True)
# +        l_ref[...] = l_ref[...] + p.sum(axis=1, keepdims=True)


# %% answer="14.4" name="acc not rescaled" judge="numbers" says="acc is not rescaled"
# -        acc_ref[...] = acc_ref[...] * shrink + weighted(p, v)
# +        acc_ref[...] = acc_ref[...] + weighted(p, v)


# %% answer="14.4" name="a maximum for each page" judge="numbers" says="an exp that overflows"
# -        m_old, m = m_ref[...], jnp.maximum(m_ref[...], s.max(axis=1, keepdims=True))
# +        m_old, m = m_ref[...], s.max(axis=1, keepdims=True)


# %% answer="14.4" name="begins once" judge="numbers" says="m_ref is initialized only once"
# -    @pl.when(j == 0)
# +    @pl.when((j == 0) & (b == 0))


# %% answer="14.4" name="0 / 0 of an empty sequence" judge="numbers" says="does not get\\s+zeros"
# -        o_ref[...] = jnp.where(lengths_ref[b] > 0, acc_ref[...] / l_ref[...], 0)
# +        o_ref[...] = acc_ref[...] / l_ref[...]


# %% answer="14.4" name="stored with the last token" judge="numbers" says="None\\s+of\\s+the\\s+steps\\s+of\\s+this\\s+block writes"
# -    @pl.when(j == pl.num_programs(1) - 1)
# +    @pl.when((left > 0) & (left <= PAGE))


# %% answer="14.4" name="shrink upside down" judge="numbers" says="instead, which is at most 1"
# -        p, shrink = jnp.exp(s - m), jnp.exp(m_old - m)
# +        p, shrink = jnp.exp(s - m), jnp.exp(m - m_old)


# %% answer="14.5" name="without the time of the bytes" judge="exercise" says="also\\s+takes\\s+the\\s+time\\s+of\\s+its\\s+bytes"
# -    latency = fixed + page / rate
# +    latency = fixed


# %% answer="14.5" name="bytes for pages" judge="exercise" says="how\\s+many\\s+pages\\s+is\\s+that"
# -    return latency * rate / page
# +    return latency * rate


# %% answer="14.5" name="the larger the more" judge="exercise" says="The larger a page"
# -    return latency * rate / page
# +    return fixed * page / rate + 1


# %% answer="14.6" name="one at a time" judge="exercise" says="41,310 cycles"
# -    jax.lax.fori_loop(0, count, lambda j, _: copy(j).start(), None)
# -    jax.lax.fori_loop(0, count, lambda j, _: copy(j).wait(), None)
# +    def both(j, _):
# +        copy(j).start()
# +        copy(j).wait()
# +
# +    jax.lax.fori_loop(0, count, both, None)


# %% answer="14.6" name="never waits" judge="simulator" says="while a copy of pages_ref into it is under way"
# -    jax.lax.fori_loop(0, count, lambda j, _: copy(j).wait(), None)
# +


# %% answer="14.6" name="zeros over the copies" judge="numbers" says="while a copy of pages_ref into it is\\s+under way"
# -    o_ref[...] = jnp.zeros_like(o_ref)
# -
# -    def copy(j):
# -        place = o_ref.at[pl.ds(j * PAGE, PAGE)]
# -        return pltpu.make_async_copy(pages_ref.at[table_ref[b, j]], place, sem)
# -
# -    jax.lax.fori_loop(0, count, lambda j, _: copy(j).start(), None)
# +
# +    def copy(j):
# +        place = o_ref.at[pl.ds(j * PAGE, PAGE)]
# +        return pltpu.make_async_copy(pages_ref.at[table_ref[b, j]], place, sem)
# +
# +    jax.lax.fori_loop(0, count, lambda j, _: copy(j).start(), None)
# +    o_ref[...] = jnp.zeros_like(o_ref)


# %% answer="14.6" name="full pages alone" judge="numbers" says="not\\s+full\\s+is\\s+left\\s+out"
# -    count = pl.cdiv(lengths_ref[b], PAGE)
# +    count = lengths_ref[b] // PAGE


# %% answer="14.6" name="every column of the table" judge="numbers" says="that\\s+is\\s+out\\s+of\\s+bounds"
# -    count = pl.cdiv(lengths_ref[b], PAGE)
# +    count = table_ref.shape[1]


# %% answer="14.6" name="nothing behind the last page" judge="numbers" says="Nothing\\s+has\\s+written\\s+this\\s+memory"
# -    o_ref[...] = jnp.zeros_like(o_ref)


# %% answer="14.7" name="the table of sequence 0" judge="numbers" says="every sequence reads row 0"
# -        page = pages_ref.at[table_ref[b, j]]
# +        page = pages_ref.at[table_ref[0, j]]


# %% answer="14.7" name="full pages alone" judge="numbers" says="not full is left\\s+out"
# -    count = pl.cdiv(length, PAGE)
# +    count = length // PAGE


# %% answer="14.7" name="two pages ahead" judge="numbers" says="page\\s+j\\s+\\+\\s+2\\s+is\\s+in\\s+the\\s+slot"
# -        pl.when(j + 1 < count)(lambda: copy(j + 1).start())
# -        copy(j).wait()
# -        rows = buffer[jax.lax.rem(j, 2)]
# -        token = j * PAGE + jax.lax.broadcasted_iota(jnp.int32, rows.shape, 0)
# -        return total + jnp.where(token < length, rows, 0).sum(axis=0, keepdims=True)
# -
# -    pl.when(count > 0)(lambda: copy(0).start())
# +        pl.when(j + 2 < count)(lambda: copy(j + 2).start())
# +        copy(j).wait()
# +        rows = buffer[jax.lax.rem(j, 2)]
# +        token = j * PAGE + jax.lax.broadcasted_iota(jnp.int32, rows.shape, 0)
# +        return total + jnp.where(token < length, rows, 0).sum(axis=0, keepdims=True)
# +
# +    for j in range(2):
# +        pl.when(j < count)(lambda j=j: copy(j).start())


# %% answer="14.7" name="no page on its way" judge="exercise" says="in\\s+flight\\s+while\\s+page\\s+j\\s+is\\s+added"
# -        pl.when(j + 1 < count)(lambda: copy(j + 1).start())
# +        copy(j).start()

# -    pl.when(count > 0)(lambda: copy(0).start())


# %% answer="14.7" name="rows behind the last token" judge="numbers" says="rows\\s+past\\s+the\\s+last\\s+token\\s+are\\s+added"
# -        return total + jnp.where(token < length, rows, 0).sum(axis=0, keepdims=True)
# +        return total + rows.sum(axis=0, keepdims=True)


# %% answer="14.7" name="asks for a page that is not there" judge="simulator" says="that\\s+is\\s+out\\s+of\\s+bounds"
# -        pl.when(j + 1 < count)(lambda: copy(j + 1).start())
# +        copy(j + 1).start()


# %% answer="14.8" name="without the token itself" judge="exercise" says="attends to itself"
# -call |= {"A": 52, "B": 201, "C": 51, "D": 13}
# +call |= {"A": 52, "B": 200, "C": 51, "D": 13}


# %% answer="14.8" name="where its rows end" judge="exercise" says="first\\s+row\\s+of\\s+sequence\\s+2"
# -call |= {"A": 52, "B": 201, "C": 51, "D": 13}
# +call |= {"A": 52, "B": 201, "C": 52, "D": 13}


# %% answer="14.8" name="a query for each sequence" judge="exercise" says="a query for each of its tokens"
# -call |= {"A": 52, "B": 201, "C": 51, "D": 13}
# +call |= {"A": 3, "B": 201, "C": 51, "D": 13}


# %% answer="14.9" name="asks for the slot that is read" judge="numbers" says="it\\s+has\\s+started\\s+the\\s+next\\s+copy\\s+of\\s+pages_ref\\s+into\\s+it"
# -COUNT, SLOTS = 16, 4  # pages of a block, and blocks in the ring
# +COUNT, SLOTS = 16, 8  # pages of a block, and blocks in the ring

# -        start(n + SLOTS - 1)
# -        each_copy(n, lambda copy: copy.wait())
# +        each_copy(n, lambda copy: copy.wait())
# +        start(n + SLOTS)

# -    for n in range(SLOTS - 1):
# +    for n in range(SLOTS):


# %% answer="14.9" name="two slots" judge="exercise" says="keep\\s+enough\\s+copies\\s+in\\s+flight"
# -COUNT, SLOTS = 16, 4  # pages of a block, and blocks in the ring
# +COUNT, SLOTS = 16, 2  # pages of a block, and blocks in the ring


# %% answer="14.9" name="waits for what nobody asked for" judge="numbers" says="nothing has started\\s+one"
# -        start(n + SLOTS - 1)
# +        start(n + SLOTS)


# %% answer="14.9" name="begins once" judge="numbers" says=""
# -        @pl.when(place_ref[n] == 0)
# +        @pl.when(n == 0)


# %% answer="14.9" name="values not cleaned" judge="numbers" says="NaN that was\\s+read"
# -        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 1) < left, v, 0)


# %% answer="14.10" name="the prompt for the first sequence alone" judge="numbers" says="only\\s+sequence\\s+0\\s+attends"
# -        add(slice(None), PAGE)
# +        add(slice(0, group), PAGE)


# %% answer="14.10" name="own pages for all" judge="numbers" says=""
# -        add(pl.ds(pl.multiple_of(b * group, group), group), left)
# +        add(slice(None), left)


# %% answer="14.10" name="copies behind the last page" judge="exercise" says="above par|moves"
# -        j = jnp.minimum(own % columns, pl.cdiv(lengths_ref[b], PAGE) - 1)
# +        j = own % columns


# %% answer="14.1" name="no elements of a head" judge="exercise" says="Your\\s+value\\s+times\\s+head\\s+would\\s+be\\s+right"
# -    kept = 2 * layers * kv_heads * head * 2
# +    kept = 2 * layers * kv_heads * 2


# %% answer="14.1" name="the bandwidth of a v5e" judge="exercise" says="does\\s+not\\s+depend\\s+on\\s+bandwidth"
# -    seconds = (parameters + sequences * context * kept) / bandwidth
# +    seconds = (parameters + sequences * context * kept) / 8.2e11


# %% answer="14.1" name="the larger of both times" judge="exercise" says="so\\s+their\\s+times\\s+add\\s+up"
# -    seconds = (parameters + sequences * context * kept) / bandwidth
# +    seconds = max(parameters, sequences * context * kept) / bandwidth


# %% answer="14.2" name="the next page" judge="numbers" says="takes\\s+page\\s+j\\s+\\+\\s+1"
# -        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0
# +        return table_ref[b, jnp.minimum(j + 1, last)], 0, 0, 0


# %% answer="14.2" name="full pages alone" judge="numbers" says="a\\s+last\\s+page\\s+that\\s+is\\s+not\\s+full\\s+is\\s+left\\s+out"
# -        last = pl.cdiv(lengths_ref[b], PAGE) - 1
# +        last = jnp.maximum(lengths_ref[b] // PAGE - 1, 0)


# %% answer="14.2" name="the last page rounded down" judge="simulator" says="comes\\s+from\\s+table_ref.1, 1."
# -        last = pl.cdiv(lengths_ref[b], PAGE) - 1
# +        last = lengths_ref[b] // PAGE


# %% answer="14.2" name="columns and rows of the table" judge="numbers" says="the\\s+table\\s+is\\s+read\\s+at\\s+.j,\\s+b"
# -        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0
# +        return table_ref[j, b], 0, 0, 0


# %% answer="14.2" name="sequences for pages of the result" judge="numbers" says="b\\s+and\\s+j\\s+are\\s+exchanged"
# -    return pl.BlockSpec(block, page_map), pl.BlockSpec(block, lambda b, j, *_: (b, 0, j, 0))
# +    return pl.BlockSpec(block, page_map), pl.BlockSpec(block, lambda b, j, *_: (j, 0, b, 0))


# %% answer="14.2" name="one spec" judge="exercise" says="it\\s+should\\s+return\\s+two\\s+block\\s+specs"
# -    return pl.BlockSpec(block, page_map), pl.BlockSpec(block, lambda b, j, *_: (b, 0, j, 0))
# +    return pl.BlockSpec(block, page_map)


# %% answer="14.2" name="two heads, whatever heads is" judge="numbers" says="the\\s+grid\\s+or\\s+the\\s+block\\s+is\\s+too\\s+short"
# -    block = (None, heads, PAGE, width)
# +    block = (None, 2, PAGE, width)


# %% answer="14.3" name="keys for values" judge="numbers" says="keys\\s+and\\s+values\\s+are\\s+exchanged"
# -    k, v = page_ref[:, :D], page_ref[:, D:]
# +    v, k = page_ref[:, :D], page_ref[:, D:]


# %% answer="14.3" name="scaled by a row" judge="numbers" says="divided\\s+by\\s+sqrt\\(256\\)"
# -    s = scores(q_ref[...], k) / math.sqrt(D)
# +    s = scores(q_ref[...], k) / math.sqrt(page_ref.shape[1])


# %% answer="14.3" name="values masked across" judge="numbers" says="runs\\s+along\\s+their\\s+elements"
# -    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
# +    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 1) < left, v, 0)


# %% answer="14.3" name="no maximum" judge="numbers" says="no\\s+maximum\\s+is\\s+subtracted"
# -    p = jnp.exp(s - s.max(axis=1, keepdims=True))
# +    p = jnp.exp(s)


# %% answer="14.3" name="one maximum for all" judge="numbers" says="all\\s+queries\\s+share\\s+one\\s+maximum"
# -    p = jnp.exp(s - s.max(axis=1, keepdims=True))
# +    p = jnp.exp(s - s.max())


# %% answer="14.3" name="values not cleaned, keys need not be" judge="numbers" says="page\\[11,\\s+129\\]\\s+is\\s+NaN"
# -    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)


# %% answer="14.4" name="the length for every page" judge="numbers" says="masked\\s+with\\s+the\\s+length\\s+of\\s+the\\s+whole\\s+sequence"
# -    left = lengths_ref[b] - j * PAGE
# +    left = lengths_ref[b]


# %% answer="14.4" name="every page as the last" judge="numbers" says="masked\\s+as\\s+if\\s+it\\s+were\\s+the\\s+last\\s+one"
# -    left = lengths_ref[b] - j * PAGE
# +    left = jax.lax.rem(lengths_ref[b], PAGE)


# %% answer="14.4" name="the length of sequence 0" judge="numbers" says="with\\s+the\\s+length\\s+of\\s+sequence\\s+0"
# -    left = lengths_ref[b] - j * PAGE
# +    left = lengths_ref[0] - j * PAGE


# %% answer="14.4" name="keys for values" judge="numbers" says="keys\\s+and\\s+values\\s+are\\s+exchanged"
# -        k, v = page_ref[:, :D], page_ref[:, D:]
# +        v, k = page_ref[:, :D], page_ref[:, D:]


# %% answer="14.4" name="divided by D" judge="numbers" says="divided\\s+by\\s+128,\\s+not\\s+by\\s+its\\s+square\\s+root"
# -        s = scores(q_ref[...], k) / math.sqrt(D)
# +        s = scores(q_ref[...], k) / D


# %% answer="14.4" name="scaled by a row" judge="numbers" says="divided\\s+by\\s+sqrt\\(256\\)"
# -        s = scores(q_ref[...], k) / math.sqrt(D)
# +        s = scores(q_ref[...], k) / math.sqrt(2 * D)


# %% answer="14.4" name="one score too many" judge="numbers" says="the\\s+score\\s+of\\s+the\\s+first\\s+row\\s+past\\s+the\\s+last\\s+token"
# -        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)
# +        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) <= left, s, -jnp.inf)


# %% answer="14.4" name="l of the last page" judge="numbers" says="l\\s+holds\\s+the\\s+sum\\s+of\\s+the\\s+last\\s+page\\s+alone"
# -        l_ref[...] = l_ref[...] * shrink + p.sum(axis=1, keepdims=True)
# +        l_ref[...] = p.sum(axis=1, keepdims=True)


# %% answer="14.4" name="acc of the last page" judge="numbers" says="acc\\s+holds\\s+the\\s+values\\s+of\\s+the\\s+last\\s+page\\s+alone"
# -        acc_ref[...] = acc_ref[...] * shrink + weighted(p, v)
# +        acc_ref[...] = weighted(p, v)


# %% answer="14.4" name="divided at every page" judge="numbers" says="acc\\s+is\\s+divided\\s+by\\s+l\\s+at\\s+every\\s+page"
# -        acc_ref[...] = acc_ref[...] * shrink + weighted(p, v)
# +        acc_ref[...] = acc_ref[...] * shrink + weighted(p, v) / l_ref[...]

# -        o_ref[...] = jnp.where(lengths_ref[b] > 0, acc_ref[...] / l_ref[...], 0)
# +        o_ref[...] = acc_ref[...]


# %% answer="14.4" name="m from 0" judge="numbers" says="m\\s+starts\\s+at\\s+0"
# -        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
# +        m_ref[...] = jnp.zeros_like(m_ref)


# %% answer="14.4" name="stored for the last sequence" judge="numbers" says="does\\s+not\\s+tell\\s+the\\s+steps\\s+of\\s+a\\s+block\\s+apart"
# -    @pl.when(j == pl.num_programs(1) - 1)
# +    @pl.when(b == pl.num_programs(0) - 1)


# %% answer="14.5" name="one page too many" judge="exercise" says="Every\\s+case\\s+is\\s+1\\s+more"
# -    return latency * rate / page
# +    return latency * rate / page + 1


# %% answer="14.5" name="the rate of a v5e" judge="exercise" says="does\\s+not\\s+depend\\s+on\\s+rate"
# -    latency = fixed + page / rate
# -    return latency * rate / page
# +    return fixed * 546 / page + 1


# %% answer="14.5" name="upside down" judge="exercise" says="the\\s+share\\s+of\\s+the\\s+bandwidth"
# -    return latency * rate / page
# +    return page / (latency * rate)


# %% answer="14.6" name="zeros last" judge="numbers" says="zeros\\s+are\\s+written\\s+there\\s+last"
# -    o_ref[...] = jnp.zeros_like(o_ref)

# -    jax.lax.fori_loop(0, count, lambda j, _: copy(j).wait(), None)
# +    jax.lax.fori_loop(0, count, lambda j, _: copy(j).wait(), None)
# +    o_ref[...] = jnp.zeros_like(o_ref)


# %% answer="14.6" name="one row for a page" judge="numbers" says="is\\s+under\\s+way:\\s+they\\s+share\\s+rows"
# -        place = o_ref.at[pl.ds(j * PAGE, PAGE)]
# +        place = o_ref.at[pl.ds(j, PAGE)]


# %% answer="14.6" name="rows of all sequences" judge="numbers" says="rows\\s+are\\s+counted\\s+from\\s+0\\s+in\\s+each\\s+step"
# -        place = o_ref.at[pl.ds(j * PAGE, PAGE)]
# +        place = o_ref.at[pl.ds((b * table_ref.shape[1] + j) * PAGE, PAGE)]


# %% answer="14.6" name="waits once" judge="simulator" says="It\\s+was\\s+started\\s+at\\s+step"
# -    jax.lax.fori_loop(0, count, lambda j, _: copy(j).wait(), None)
# +    pl.when(count > 0)(lambda: copy(0).wait())


# %% answer="14.6" name="a page more when the last is full" judge="numbers" says="comes\\s+from\\s+table_ref.1,\\s+1."
# -    count = pl.cdiv(lengths_ref[b], PAGE)
# +    count = lengths_ref[b] // PAGE + 1


# %% answer="14.7" name="one row too many" judge="numbers" says="first\\s+row\\s+past\\s+the\\s+last\\s+token\\s+is\\s+added"
# -        return total + jnp.where(token < length, rows, 0).sum(axis=0, keepdims=True)
# +        return total + jnp.where(token <= length, rows, 0).sum(axis=0, keepdims=True)


# %% answer="14.8" name="tokens for queries" judge="exercise" says="cu_q_lens\\s+adds\\s+up\\s+the\\s+tokens\\s+that\\s+have\\s+a\\s+query"
# -call |= {"A": 52, "B": 201, "C": 51, "D": 13}
# +call |= {"A": 52, "B": 201, "C": 251, "D": 13}


# %% answer="14.8" name="pages for tokens" judge="exercise" says="kv_lens\\s+counts\\s+tokens"
# -call |= {"A": 52, "B": 201, "C": 51, "D": 13}
# +call |= {"A": 52, "B": 13, "C": 51, "D": 13}


# %% answer="14.8" name="pages of all" judge="exercise" says="the\\s+pages\\s+of\\s+all\\s+three\\s+sequences"
# -call |= {"A": 52, "B": 201, "C": 51, "D": 13}
# +call |= {"A": 52, "B": 201, "C": 51, "D": 30}


# %% answer="14.10" name="m from 0" judge="numbers" says="m\\s+starts\\s+at\\s+0"
# -        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
# +        m_ref[...] = jnp.zeros_like(m_ref)


# %% answer="14.10" name="page t of the pool" judge="numbers" says="page\\s+t\\s+of\\s+the\\s+pool\\s+is\\s+taken"
# -        first = prefix_ref[jnp.minimum(t, common - 1)]
# +        first = jnp.minimum(t, common - 1)


# %% answer="14.10" name="the prompt left out" judge="numbers" says="only\\s+the\\s+sequences'\\s+own\\s+pages\\s+count"
# -    @pl.when(t < common)
# +    @pl.when(t < 0)


# %% answer="14.9" name="row 0 of the table" judge="numbers" says="every\\s+sequence\\s+reads\\s+row\\s+0"
# -            page = pages_ref.at[table_ref[b, j * COUNT + t]]
# +            page = pages_ref.at[table_ref[0, j * COUNT + t]]
