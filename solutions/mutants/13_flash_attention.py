# Wrong answers to the exercises of lesson 13: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="13.1" name="without the result" judge="exercise" says="the\\s+result\\s+has\\s+to\\s+come\\s+out\\s+as\\s+well"
numbers = {"A": 9437184, "B": 603979776, "C": 78, "D": 12}


# %% answer="13.1" name="half of the blocks" judge="exercise" says="what\\s+about\\s+those\\s+on\\s+the\\s+diagonal"
numbers = {"A": 12582912, "B": 603979776, "C": 72, "D": 12}


# %% answer="13.1" name="a mask for every block" judge="exercise" says="below\\s+the\\s+diagonal\\s+is\\s+full"
numbers = {"A": 12582912, "B": 603979776, "C": 78, "D": 78}


# %% answer="13.2" name="acc is not rescaled" judge="numbers" says="acc"
# -    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, v_ref[...], 1, 0)
# +    acc_ref[...] = acc_ref[...] + product(p, v_ref[...], 1, 0)


# %% answer="13.2" name="l is not rescaled" judge="numbers" says="rescaled|l_ref"
# -    l_ref[...] = l_ref[...] * shrink + jnp.sum(p, axis=1, keepdims=True)
# +    l_ref[...] = l_ref[...] + jnp.sum(p, axis=1, keepdims=True)


# %% answer="13.2" name="m is renewed too early" judge="numbers" says="neither l nor acc is\\s+rescaled|rescaled"
# -    p, shrink = jnp.exp(s - m), jnp.exp(old - m)
# -    m_ref[...] = m
# +    m_ref[...] = m
# +    p, shrink = jnp.exp(s - m), jnp.exp(m_ref[...] - m)


# %% answer="13.2" name="no scale" judge="numbers" says="scores\\s+are\\s+not\\s+scaled"
# -    s = product(q_ref[...], k_ref[...], 1, 1) / math.sqrt(d)
# +    s = product(q_ref[...], k_ref[...], 1, 1)


# %% answer="13.2" name="divides by D" judge="numbers" says="divided by D"
# -    s = product(q_ref[...], k_ref[...], 1, 1) / math.sqrt(d)
# +    s = product(q_ref[...], k_ref[...], 1, 1) / d


# %% answer="13.2" name="not divided by l" judge="numbers" says="not\\s+divided\\s+by\\s+l"
# -        o_ref[...] = acc_ref[...] / l_ref[:, :d]
# +        o_ref[...] = acc_ref[...]


# %% answer="13.2" name="begins anew at every block" judge="numbers" says="last block of keys|starts over"
# -    @pl.when(j == 0)
# -    def begin():
# -        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
# -        l_ref[...] = jnp.zeros_like(l_ref)
# -        acc_ref[...] = jnp.zeros_like(acc_ref)
# +    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
# +    l_ref[...] = jnp.zeros_like(l_ref)
# +    acc_ref[...] = jnp.zeros_like(acc_ref)


# %% answer="13.2" name="no maximum" judge="numbers" says="without\\s+subtracting\\s+a\\s+maximum"
# -    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
# -    p, shrink = jnp.exp(s - m), jnp.exp(old - m)
# -    m_ref[...] = m
# +    p, shrink = jnp.exp(s), jnp.ones_like(l_ref)


# %% answer="13.2" name="the block's own maximum" judge="numbers" says="maximum\\s+of\\s+the\\s+last\\s+block"
# -    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
# +    old, m = m_ref[...], jnp.broadcast_to(jnp.max(s, axis=1, keepdims=True), s.shape)


# %% answer="13.2" name="the maximum begins with 0" judge="numbers" says="m\\s+begins\\s+with\\s+0"
# -        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
# +        m_ref[...] = jnp.zeros_like(m_ref)


# %% answer="13.2" name="one maximum for all rows" judge="numbers" says="all\\s+rows\\s+of\\s+a\\s+block"
# -    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
# +    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s))


# %% answer="13.2" name="the scale of heads of 128" judge="numbers" says="sqrt\\(128\\)"
# -    s = product(q_ref[...], k_ref[...], 1, 1) / math.sqrt(d)
# +    s = product(q_ref[...], k_ref[...], 1, 1) / math.sqrt(128)


# %% answer="13.2" name="the maximum is not stored" judge="numbers" says="store\\s+m"
# -    m_ref[...] = m
# +    pass


# %% answer="13.5" name="delta minus dp" judge="numbers" says="negative\\s+of"
# -    ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +    ds = p * (delta_ref[...] - product(v_ref[...], g_ref[...], 1, 1))


# %% answer="13.5" name="plus lse" judge="numbers" says="lse\\s+is\\s+added"
# -    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# +    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale + lse_ref[...])


# %% answer="13.5" name="the keys in the last place are values" judge="numbers" says="multiplied\\s+by\\s+the\\s+values"
# -    acc_ref[...] += product(ds, k_ref[...], 0, 0)
# +    acc_ref[...] += product(ds, v_ref[...], 0, 0)


# %% answer="13.6" name="dv scaled too" judge="numbers" says="dv\\s+is\\s+scaled\\s+too"
# -        dv_ref[...] += product(p, g_ref[...], 1, 0)
# +        dv_ref[...] += scale * product(p, g_ref[...], 1, 0)


# %% answer="13.6" name="dk from g" judge="numbers" says="dk\\s+is\\s+computed\\s+from\\s+g"
# -        dk_ref[...] += scale * product(ds, q_ref[...], 1, 0)
# +        dk_ref[...] += scale * product(ds, g_ref[...], 1, 0)


# %% answer="13.9" name="no maximum" judge="numbers" says="without\\s+subtracting\\s+a\\s+maximum"
# -            new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))
# +            new = jnp.zeros_like(m)


# %% answer="13.3" name="whole blocks of queries alone" judge="exercise" says="some\\s+of\\s+its\\s+scores\\s+count,\\s+but\\s+the\\s+plan\\s+says\\s+that\\s+there\\s+is\\s+no\\s+work"
# -    works = j * BK <= last_query
# +    works = j * BK <= first_query


# %% answer="13.3" name="compares block numbers" judge="exercise" says="Block \\(0, 1\\)"
# -    works = j * BK <= last_query
# +    works = j <= i


# %% answer="13.3" name="a mask everywhere" judge="exercise" says="all\\s+of\\s+its\\s+scores\\s+count,\\s+but\\s+the\\s+plan\\s+asks\\s+for\\s+a\\s+mask"
# -    needs_mask = j * BK + BK - 1 > first_query
# +    needs_mask = j >= 0


# %% answer="13.3" name="no mask in the second half" judge="exercise" says="asks\\s+for\\s+no\\s+mask"
# -    needs_mask = j * BK + BK - 1 > first_query
# +    needs_mask = j * BK > first_query


# %% answer="13.3" name="copies all keys" judge="exercise" says="block\\s+\\d\\s+is\\s+in\\s+VMEM"
# -    return works, needs_mask, jnp.minimum(j, last_query // BK)
# +    return works, needs_mask, j


# %% answer="13.4" name="heads in turn" judge="numbers" says="KV\\s+heads\\s+in\\s+turn"
# -    return (sequence, head, i, 0), (sequence, head // (heads // kv_heads), j, 0)
# +    return (sequence, head, i, 0), (sequence, head % kv_heads, j, 0)


# %% answer="13.4" name="divides by the KV heads" judge="numbers" says="wrong"
# -    return (sequence, head, i, 0), (sequence, head // (heads // kv_heads), j, 0)
# +    return (sequence, head, i, 0), (sequence, head // kv_heads, j, 0)


# %% answer="13.4" name="one index" judge="numbers" says="two indices are\\s+asked for"
# -    return (sequence, head, i, 0), (sequence, head // (heads // kv_heads), j, 0)
# +    return sequence, head, i, 0


# %% answer="13.4" name="one sequence for all" judge="numbers" says="wrong"
# -    return (sequence, head, i, 0), (sequence, head // (heads // kv_heads), j, 0)
# +    return (sequence, head, i, 0), (0, head // (heads // kv_heads), j, 0)


# %% answer="13.4" name="always the first block of keys" judge="numbers" says="first\\s+block\\s+of\\s+the\\s+keys"
# -    return (sequence, head, i, 0), (sequence, head // (heads // kv_heads), j, 0)
# +    return (sequence, head, i, 0), (sequence, head // (heads // kv_heads), 0, 0)


# %% answer="13.5" name="p of unscaled scores" judge="numbers" says="not\\s+scaled\\s+in\\s+p"
# -    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# +    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) - lse_ref[...])


# %% answer="13.5" name="no scale at the end" judge="numbers" says="the\\s+scale\\s+is\\s+missing"
# -        dq_ref[...] = acc_ref[...] * scale
# +        dq_ref[...] = acc_ref[...]


# %% answer="13.5" name="no delta" judge="numbers" says="delta\\s+is\\s+missing"
# -    ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +    ds = p * product(v_ref[...], g_ref[...], 1, 1)


# %% answer="13.5" name="no p" judge="numbers" says="factor\\s+p\\s+is\\s+missing"
# -    ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +    ds = product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...]


# %% answer="13.5" name="the scale twice" judge="numbers" says="the\\s+result\\s+is\\s+scaled\\s+twice"
# -    acc_ref[...] += product(ds, k_ref[...], 0, 0)
# +    acc_ref[...] += product(ds * scale, k_ref[...], 0, 0)


# %% answer="13.6" name="p of unscaled scores" judge="numbers" says="not\\s+scaled\\s+in\\s+p"
# -        p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# +        p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) - lse_ref[...])


# %% answer="13.6" name="no scale in dk" judge="numbers" says="scale\\s+is\\s+missing\\s+in\\s+dk"
# -        dk_ref[...] += scale * product(ds, q_ref[...], 1, 0)
# +        dk_ref[...] += product(ds, q_ref[...], 1, 0)


# %% answer="13.6" name="dv from ds" judge="numbers" says="dv\\s+is\\s+computed\\s+from\\s+ds"
# -        dv_ref[...] += product(p, g_ref[...], 1, 0)
# +        dv_ref[...] += product(ds, g_ref[...], 1, 0)


# %% answer="13.6" name="no delta" judge="numbers" says="delta\\s+is\\s+missing"
# -        ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +        ds = p * product(v_ref[...], g_ref[...], 1, 1)


# %% answer="13.6" name="never begins" judge="numbers" says="is\\s+read\\s+before\\s+anything\\s+has\\s+been\\s+written"
# -        @pl.when(pl.program_id(2) == 0)
# -        def zero():
# -            dk_ref[...] = jnp.zeros_like(dk_ref)
# -            dv_ref[...] = jnp.zeros_like(dv_ref)


# %% answer="13.6" name="the queries in the middle" judge="numbers" says="reduction\\s+axis\\s+last\\s+in\\s+the\\s+grid"
# -    of_q = pl.BlockSpec((None, SIDE, d), lambda h, j, i: (h, i, 0))
# -    of_k = pl.BlockSpec((None, SIDE, d), lambda h, j, i: (h, j, 0))
# -    row = pl.BlockSpec((None, 1, SIDE), lambda h, j, i: (h, 0, i))
# +    of_q = pl.BlockSpec((None, SIDE, d), lambda h, i, j: (h, i, 0))
# +    of_k = pl.BlockSpec((None, SIDE, d), lambda h, i, j: (h, j, 0))
# +    row = pl.BlockSpec((None, 1, SIDE), lambda h, i, j: (h, 0, i))

# -        grid=(heads, keys // SIDE, t // SIDE),
# +        grid=(heads, t // SIDE, keys // SIDE),


# %% answer="13.7" name="masks behind the maximum" judge="numbers" says="maximum\\s+is\\s+taken\\s+over\\s+keys\\s+of\\s+other\\s+documents"
# -    s = jnp.where(seen, s, -jnp.inf)
# -    m = jnp.max(s, axis=1, keepdims=True)
# -    p = jnp.exp(s - jnp.where(m == -jnp.inf, 0, m))
# +    m = jnp.max(s, axis=1, keepdims=True)
# +    p = jnp.where(seen, jnp.exp(s - m), 0)


# %% answer="13.7" name="padding sees padding" judge="numbers" says="padding\\s+attends\\s+to\\s+padding"
# -    seen = (of_q_ref[...] == of_k_ref[...]) & (of_q_ref[...] > 0)
# +    seen = of_q_ref[...] == of_k_ref[...]


# %% answer="13.7" name="one sum for a block" judge="numbers" says="divided\\s+by\\s+one\\s+sum"
# -    total = jnp.sum(p, axis=1, keepdims=True)
# +    total = jnp.sum(p)


# %% answer="13.7" name="no care for rows without keys" judge="numbers" says="(?i)nan"
# -    p = jnp.exp(s - jnp.where(m == -jnp.inf, 0, m))
# +    p = jnp.exp(s - m)


# %% answer="13.7" name="the maximum is at least 0" judge="numbers" says="maximum\\s+is\\s+at\\s+least\\s+0"
# -    p = jnp.exp(s - jnp.where(m == -jnp.inf, 0, m))
# +    p = jnp.exp(s - jnp.maximum(m, 0))


# %% answer="13.7" name="only the sum is repaired" judge="numbers" says="other\\s+documents"
# -    s = jnp.where(seen, s, -jnp.inf)
# -    m = jnp.max(s, axis=1, keepdims=True)
# -    p = jnp.exp(s - jnp.where(m == -jnp.inf, 0, m))
# +    p = jnp.where(seen, jnp.exp(s - jnp.max(s, axis=1, keepdims=True)), 0)
#      total = jnp.sum(p, axis=1, keepdims=True)
# -    o_ref[...] = product(p, v_ref[...], 1, 0) / jnp.where(total == 0, 1, total)
# +    o_ref[...] = product(p, v_ref[...], 1, 0) / total


# %% answer="13.8" name="written alone" judge="exercise" says="they\\s+pass\\s+twice"
# -    return itemsize * peak / bandwidth
# +    return itemsize * peak / (2 * bandwidth)


# %% answer="13.8" name="one FLOP" judge="exercise" says="D\\s+multiplications\\s+and\\s+D\\s+additions"
# -    return itemsize * peak / bandwidth
# +    return 2 * itemsize * peak / bandwidth


# %% answer="13.8" name="upside down" judge="exercise" says="upside down"
# -    return itemsize * peak / bandwidth
# +    return bandwidth / (itemsize * peak)


# %% answer="13.9" name="lse without the maximum" judge="numbers" says="no\\s+maximum\\s+in\\s+it"
# -        lse_ref[...] = (m[:, :1] / math.sqrt(d) + jnp.log(total)).T
# +        lse_ref[...] = jnp.log(total).T


# %% answer="13.9" name="lse to the base 2" judge="numbers" says="to\\s+the\\s+base\\s+2"
# -        lse_ref[...] = (m[:, :1] / math.sqrt(d) + jnp.log(total)).T
# +        lse_ref[...] = (m[:, :1] * RATE + jnp.log2(total)).T


# %% answer="13.9" name="small blocks" judge="exercise" says="cycles, predicted \\(compiler\\); the\\s+limit\\s+is\\s+48,000"
# -    bq, bk = min(512, t), 512 if t % 512 == 0 else 256
# +    bq, bk = 128, 128


# %% answer="13.9" name="the sum after the cast" judge="numbers" says="nearly right|bfloat16"
# -            shrink = jnp.exp2((m - new) * RATE)
# +            p, shrink = p.astype(v.dtype), jnp.exp2((m - new) * RATE)


# %% answer="13.9" name="sees three blocks of many keys" judge="numbers" says="at the size that counts too, .2, 2048, 128."
# -        for j in range(t // bk):
# +        for j in range(min(t // bk, 3)):


# %% answer="13.10" name="the first keys masked" judge="numbers" says="wrong"
# -            triangle = jnp.where(column <= row, s[:, i * bq :], -jnp.inf)
# +            triangle = jnp.where(column < row, s[:, i * bq :], -jnp.inf)


# %% answer="13.10" name="one block after the other" judge="exercise" says="above par"
# -        ahead = scores(0)
# -        for i in range(t // bq):
# -            s, ahead = ahead, scores(i + 1) if i + 1 < t // bq else None
# +        for i in range(t // bq):
# +            s = scores(i)


# %% answer="13.10" name="not causal" judge="numbers" says="wrong"
# -            triangle = jnp.where(column <= row, s[:, i * bq :], -jnp.inf)
# +            triangle = s[:, i * bq :]


# %% answer="13.2" name="the scores the other way round" judge="numbers" says="with\\s+a\\s+row\\s+for\\s+each\\s+key"
# -    s = product(q_ref[...], k_ref[...], 1, 1) / math.sqrt(d)
# +    s = product(k_ref[...], q_ref[...], 1, 1) / math.sqrt(d)


# %% answer="13.2" name="the weights the other way round" judge="numbers" says="sums\\s+over\\s+the\\s+queries,\\s+axis\\s+0\\s+of\\s+p"
# -    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, v_ref[...], 1, 0)
# +    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, v_ref[...], 0, 0)


# %% answer="13.2" name="the maximum down the queries" judge="numbers" says="maximum\\s+is\\s+taken\\s+along\\s+axis\\s+0"
# -    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
# +    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=0, keepdims=True))


# %% answer="13.2" name="the keys for the values" judge="numbers" says="k\\s+is\\s+read\\s+where\\s+v\\s+should\\s+be"
# -    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, v_ref[...], 1, 0)
# +    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, k_ref[...], 1, 0)


# %% answer="13.2" name="the scores for the weights" judge="numbers" says="not\\s+their\\s+exponentials"
# -    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, v_ref[...], 1, 0)
# +    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(s, v_ref[...], 1, 0)


# %% answer="13.2" name="acc rescaled too late" judge="numbers" says="after\\s+this\\s+block\\s+was\\s+added"
# -    acc_ref[...] = acc_ref[...] * shrink[:, :d] + product(p, v_ref[...], 1, 0)
# +    acc_ref[...] = (acc_ref[...] + product(p, v_ref[...], 1, 0)) * shrink[:, :d]


# %% answer="13.2" name="times l" judge="numbers" says="multiplied\\s+by\\s+l\\s+at\\s+the\\s+end"
# -        o_ref[...] = acc_ref[...] / l_ref[:, :d]
# +        o_ref[...] = acc_ref[...] * l_ref[:, :d]


# %% answer="13.2" name="times the root" judge="numbers" says="multiplied\\s+by\\s+sqrt\\(128\\)"
# -    s = product(q_ref[...], k_ref[...], 1, 1) / math.sqrt(d)
# +    s = product(q_ref[...], k_ref[...], 1, 1) * math.sqrt(d)


# %% answer="13.5" name="q k.T" judge="numbers" says="scores\\s+are\\s+q\\s+@\\s+k.T,\\s+with\\s+queries\\s+down"
# -    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# +    p = jnp.exp(product(q_ref[...], k_ref[...], 1, 1) * scale - lse_ref[...])


# %% answer="13.5" name="g v.T" judge="numbers" says="dp\\s+is\\s+g\\s+@\\s+v.T,\\s+with\\s+queries\\s+down"
# -    ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +    ds = p * (product(g_ref[...], v_ref[...], 1, 1) - delta_ref[...])


# %% answer="13.5" name="nothing transposed" judge="numbers" says="s\\s+and\\s+dp\\s+have\\s+queries\\s+down"
# -    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# -    ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# -    acc_ref[...] += product(ds, k_ref[...], 0, 0)
# +    p = jnp.exp(product(q_ref[...], k_ref[...], 1, 1) * scale - lse_ref[...])
# +    ds = p * (product(g_ref[...], v_ref[...], 1, 1) - delta_ref[...])
# +    acc_ref[...] += product(ds, k_ref[...], 1, 0)


# %% answer="13.5" name="the sum over the queries" judge="numbers" says="sums\\s+over\\s+the\\s+queries,\\s+axis\\s+1\\s+of\\s+ds.T"
# -    acc_ref[...] += product(ds, k_ref[...], 0, 0)
# +    acc_ref[...] += product(ds, k_ref[...], 1, 0)


# %% answer="13.5" name="plus delta" judge="numbers" says="delta\\s+is\\s+added"
# -    ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +    ds = p * (product(v_ref[...], g_ref[...], 1, 1) + delta_ref[...])


# %% answer="13.5" name="q in the last place" judge="numbers" says="ds\\s+is\\s+multiplied\\s+by\\s+the\\s+queries"
# -    acc_ref[...] += product(ds, k_ref[...], 0, 0)
# +    acc_ref[...] += product(ds, q_ref[...], 0, 0)


# %% answer="13.5" name="exp2" judge="numbers" says="p\\s+is\\s+computed\\s+with\\s+exp2"
# -    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# +    p = jnp.exp2(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])


# %% answer="13.5" name="g in the scores" judge="numbers" says="computed\\s+from\\s+g\\s+instead\\s+of\\s+q"
# -    p = jnp.exp(product(k_ref[...], q_ref[...], 1, 1) * scale - lse_ref[...])
# +    p = jnp.exp(product(k_ref[...], g_ref[...], 1, 1) * scale - lse_ref[...])


# %% answer="13.5" name="one by D" judge="numbers" says="1\\s+/\\s+D\\s+instead\\s+of\\s+1\\s+/\\s+sqrt"
# -    scale = 1 / math.sqrt(q_ref.shape[1])
# +    scale = 1 / q_ref.shape[1]


# %% answer="13.5" name="p for ds" judge="numbers" says="p\\s+is\\s+multiplied\\s+by\\s+the\\s+keys"
# -    acc_ref[...] += product(ds, k_ref[...], 0, 0)
# +    acc_ref[...] += product(p, k_ref[...], 0, 0)


# %% answer="13.6" name="g by the map of the keys" judge="numbers" says="did\\s+you\\s+mean\\s+i"
# -        in_specs=[of_q, of_k, of_k, of_q, row, row],
# +        in_specs=[of_q, of_k, of_k, of_k, row, row],


# %% answer="13.6" name="dv over the keys" judge="numbers" says="matmul\\s+for\\s+dv\\s+sums\\s+over\\s+the\\s+keys"
# -        dv_ref[...] += product(p, g_ref[...], 1, 0)
# +        dv_ref[...] += product(p, g_ref[...], 0, 0)


# %% answer="13.6" name="the scale twice" judge="numbers" says="dk\\s+contains\\s+the\\s+scale\\s+twice"
# -        ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +        ds = scale * p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])


# %% answer="13.6" name="no p" judge="numbers" says="factor\\s+p\\s+is\\s+missing"
# -        ds = p * (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])
# +        ds = (product(v_ref[...], g_ref[...], 1, 1) - delta_ref[...])


# %% answer="13.7" name="with earlier documents" judge="numbers" says="sees\\s+the\\s+documents\\s+before\\s+its\\s+own"
# -    seen = (of_q_ref[...] == of_k_ref[...]) & (of_q_ref[...] > 0)
# +    seen = (of_q_ref[...] >= of_k_ref[...]) & (of_q_ref[...] > 0)


# %% answer="13.7" name="masked with 0" judge="numbers" says="other\\s+documents\\s+become\\s+0"
# -    s = jnp.where(seen, s, -jnp.inf)
# +    s = jnp.where(seen, s, 0.0)


# %% answer="13.7" name="masked with a number" judge="numbers" says="masked\\s+with\\s+a\\s+finite\\s+number"
# -    s = jnp.where(seen, s, -jnp.inf)
# +    s = jnp.where(seen, s, -1e9)


# %% answer="13.7" name="sums down the queries" judge="numbers" says="exponentials\\s+are\\s+summed\\s+along\\s+axis\\s+0"
# -    total = jnp.sum(p, axis=1, keepdims=True)
# +    total = jnp.sum(p, axis=0, keepdims=True)[:, :1]


# %% answer="13.7" name="one maximum" judge="numbers" says="queries\\s+of\\s+a\\s+block\\s+have\\s+one\\s+maximum"
# -    m = jnp.max(s, axis=1, keepdims=True)
# +    m = jnp.max(s)
