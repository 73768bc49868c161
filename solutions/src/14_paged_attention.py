# %% [markdown]
# # Exercises 14: Paged attention
#
# You compute a bound, follow a page table, write three kernels, and repair one. Nothing here needs a TPU.
#
# Come here from [lesson 14](../notebooks/14_paged_attention.ipynb). About 66 minutes. Short of time? Do 14.3 and
# 14.4. Want more? 14.8, 14.9 and 14.10, 105 minutes: 14.8 needs "The call of a server" in the lesson's *Further*, and the
# other two begin with an empty cell.

# %%
# FIRST CELL

# %%
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

PAGE, D = 16, 128  # tokens of a page, elements of a key and of a value


def scores(q, k):
    """Return q @ k.T in float32."""
    dimensions = (((1,), (1,)), ((), ()))
    return jax.lax.dot_general(
        q, k, dimensions, precision="highest", preferred_element_type=jnp.float32
    )


def weighted(p, v):
    """Return p @ v in float32."""
    return jnp.dot(p, v, precision="highest", preferred_element_type=jnp.float32)


# %% [markdown]
# ## 14.1 Compute: the bound of three models
#
# *Difficulty 2 of 5. 7 minutes, 4 lines.*
#
# `bound(parameters, layers, kv_heads, head, sequences, context, bandwidth)` returns two numbers, with `bandwidth` in
# bytes per second. The first is how many bytes the model keeps for each token: a key and a value in bfloat16, of `head`
# elements, for each KV head in each layer. The second is how many tokens all sequences together write in a second if a
# step takes as long as reading its bytes. Those are the weights once, with one byte each, and the cache of `context`
# tokens for every sequence. The check asks for Llama 3.1 8B, Llama 2 7B and Gemma 2 9B, from their configuration files.
# Llama 2 7B has fewer parameters than Llama 3.1 8B: compare what the two keep.


# %% answer="14.1"
def bound(parameters, layers, kv_heads, head, sequences, context, bandwidth):
    """Return the bytes kept for each token, and the tokens per second of all sequences."""
    ### BEGIN SOLUTION
    kept = 2 * layers * kv_heads * head * 2
    seconds = (parameters + sequences * context * kept) / bandwidth
    return kept, sequences / seconds
    ### END SOLUTION


# %% check="14.1"
checks.check("14.1", bound)

# %%
# checks.hint("14.1")

# %% [markdown]
# ## 14.2 Configure only: pages in a row
#
# *Difficulty 2 of 5. 8 minutes, 8 lines.*
#
# `in_a_row(pages, lengths, table)` lays the pages of each sequence side by side. `pages` is float32[N, heads, 16, 256],
# `table` is int32[B, M], and the result is float32[B, heads, 16 M, 256]. The kernel and the call are given, with both
# lists prefetched: the grid is (B, M), and a step copies one page, or writes zeros past the last page of a sequence.
# Write the two block specs, and squeeze the first axis in both, so that `page_ref` and `o_ref` have shape (heads, 16,
# 256). Every sequence has at least one token. Past its last page, the table may hold any number, and no page may be
# fetched from HBM for such a step.


# %% answer="14.2"
def specs(heads, width):
    """Return the block specs of the pages and of the result, as a tuple."""
    ### BEGIN SOLUTION
    block = (None, heads, PAGE, width)

    def page_map(b, j, lengths_ref, table_ref):
        last = pl.cdiv(lengths_ref[b], PAGE) - 1
        return table_ref[b, jnp.minimum(j, last)], 0, 0, 0

    return pl.BlockSpec(block, page_map), pl.BlockSpec(block, lambda b, j, *_: (b, 0, j, 0))
    ### END SOLUTION


# %% given="14.2"
def copy_kernel(lengths_ref, table_ref, page_ref, o_ref):
    there = pl.program_id(1) * PAGE < lengths_ref[pl.program_id(0)]

    @pl.when(there)
    def copy():
        o_ref[...] = page_ref[...]

    @pl.when(jnp.logical_not(there))
    def clear():
        o_ref[...] = jnp.zeros_like(o_ref)


def in_a_row(pages, lengths, table):
    (sequences, columns), (_, heads, _, width) = table.shape, pages.shape
    pages_spec, o_spec = specs(heads, width)
    return pl.pallas_call(
        copy_kernel,
        out_shape=jax.ShapeDtypeStruct(
            (sequences, heads, columns * PAGE, width), pages.dtype
        ),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences, columns),
            in_specs=[pages_spec],
            out_specs=o_spec,
        ),
    )(lengths, table, pages)


# %% check="14.2"
checks.check("14.2", specs)

# %%
# checks.hint("14.2")

# %% [markdown]
# ## 14.3 The last page
#
# *Difficulty 3 of 5. 8 minutes, 8 lines. Fast track.*
#
# Four queries, float32[4, 128], attend to the tokens of one page, float32[16, 256], whose rows hold a key each,
# followed by its value. Only the first `left[0]` tokens count, 1 to 16 of them, and the rest of the page may hold
# *anything*, such as NaN. Write the kernel, whose call is given, and divide the scores by sqrt(128). The functions
# `scores` and `weighted`, at the top of this page, are matmuls in full precision.


# %% answer="14.3"
def last_page_kernel(left_ref, q_ref, page_ref, o_ref):
    """Compute attention over the first left_ref[0] tokens of a page."""
    ### BEGIN SOLUTION
    left = left_ref[0]
    k, v = page_ref[:, :D], page_ref[:, D:]
    s = scores(q_ref[...], k) / math.sqrt(D)
    s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)
    v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
    p = jnp.exp(s - s.max(axis=1, keepdims=True))
    o_ref[...] = weighted(p, v) / p.sum(axis=1, keepdims=True)
    ### END SOLUTION


# %% given="14.3-call"
def last_page(q, page, left):
    return pl.pallas_call(
        last_page_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[
                pl.BlockSpec(q.shape, lambda i, left_ref: (0, 0)),
                pl.BlockSpec(page.shape, lambda i, left_ref: (0, 0)),
            ],
            out_specs=pl.BlockSpec(q.shape, lambda i, left_ref: (0, 0)),
        ),
    )(left, q, page)


# %% check="14.3"
checks.check("14.3", last_page)

# %%
# checks.hint("14.3")

# %% [markdown]
# ## 14.4 Page after page
#
# *Difficulty 3 of 5. 15 minutes, 20 lines. Fast track.*
#
# Now there are several sequences, each with several pages: q is float32[B, 4, 128], `pages` is float32[N, 16, 256],
# with one KV head, `lengths` is int32[B], and `table` is int32[B, M]. The grid is (B, M), and the index maps are given:
# at step (b, j), `q_ref` holds the queries of sequence b, and `page_ref` holds its page j, or again its last page if it
# has no page j. As scratch the kernel has `m_ref` and `l_ref` of shape (4, 1), and `acc_ref` of shape (4, 128). Write
# the kernel, with `scores` and `weighted` as its matmuls. The last page of a sequence is rarely full, and rows that
# belong to no token may hold NaN. The result for a sequence without tokens is zeros.


# %% answer="14.4"
def decode_kernel(lengths_ref, table_ref, q_ref, page_ref, o_ref, m_ref, l_ref, acc_ref):
    """Compute attention over the pages of a sequence, with online softmax."""
    ### BEGIN SOLUTION
    b, j = pl.program_id(0), pl.program_id(1)
    left = lengths_ref[b] - j * PAGE

    @pl.when(j == 0)
    def begin():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(left > 0)
    def add():
        k, v = page_ref[:, :D], page_ref[:, D:]
        s = scores(q_ref[...], k) / math.sqrt(D)
        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)
        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
        m_old, m = m_ref[...], jnp.maximum(m_ref[...], s.max(axis=1, keepdims=True))
        p, shrink = jnp.exp(s - m), jnp.exp(m_old - m)
        m_ref[...] = m
        l_ref[...] = l_ref[...] * shrink + p.sum(axis=1, keepdims=True)
        acc_ref[...] = acc_ref[...] * shrink + weighted(p, v)

    @pl.when(j == pl.num_programs(1) - 1)
    def store():
        o_ref[...] = jnp.where(lengths_ref[b] > 0, acc_ref[...] / l_ref[...], 0)

    ### END SOLUTION


# %% given="14.4"
def decode(q, pages, lengths, table):
    group = q.shape[1]
    queries = pl.BlockSpec((None, group, D), lambda b, j, *_: (b, 0, 0))

    def page_map(b, j, lengths_ref, table_ref):
        last = jnp.maximum(pl.cdiv(lengths_ref[b], PAGE) - 1, 0)
        return jnp.where(lengths_ref[b] > 0, table_ref[b, jnp.minimum(j, last)], 0), 0, 0

    column = pltpu.VMEM((group, 1), jnp.float32)
    return pl.pallas_call(
        decode_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=table.shape,
            in_specs=[queries, pl.BlockSpec((None, PAGE, 2 * D), page_map)],
            out_specs=queries,
            scratch_shapes=[column, column, pltpu.VMEM((group, D), jnp.float32)],
        ),
    )(lengths, table, q, pages)


# %% check="14.4"
checks.check("14.4", decode)

# %%
# checks.hint("14.4")

# %% [markdown]
# ## 14.5 Compute: pages in flight
#
# *Difficulty 2 of 5. 5 minutes, 2 lines.*
#
# A copy arrives `fixed` cycles after its start, plus the time of its bytes at full bandwidth, which is `rate` bytes per
# cycle. How many pages of `page` bytes have to be in flight so that the memory is busy all the time? The function
# `in_flight(fixed, page, rate)` returns that number without rounding it. Try it with fixed = 1,100 and rate = 546 for a
# page of 64 KiB, as in the lesson, and for one of 4 KiB, the size of a copy if a kernel fetches the keys of one head
# separately.


# %% answer="14.5"
def in_flight(fixed, page, rate):
    """Return how many pages have to be in flight."""
    ### BEGIN SOLUTION
    latency = fixed + page / rate
    return latency * rate / page
    ### END SOLUTION


# %% check="14.5"
checks.check("14.5", in_flight)

# %%
# checks.hint("14.5")

# %% [markdown]
# ## 14.6 All pages at once
#
# *Difficulty 3 of 5. 13 minutes, 12 lines.*
#
# `fetched(pages, lengths, table)` returns what `in_a_row` of 14.2 does, for pages of float32[N, 16, 256], but the
# kernel copies by hand. Each step of the grid (B,) fetches all pages of sequence b from `pages_ref` in HBM into
# `o_ref`, [16 M, 256], which lies in VMEM. Start all copies before you wait for the first one, so that their latencies
# overlap, and start none for pages that do not exist. Copy the last page whole, with the rows past its last token.
# Write zeros past the last page of a sequence, where the table may hold any number. If a sequence has no tokens, all of
# its rows are zeros. The call is given, and `sem` is one DMA semaphore. For 16 pages in each of two sequences the
# kernel may take at most 9,000 cycles (predicted (compiler)); with one page at a time it would take some 40,000.


# %% answer="14.6"
def fetch_kernel(lengths_ref, table_ref, pages_ref, o_ref, sem):
    """Fetch all pages of a sequence at once."""
    ### BEGIN SOLUTION
    b = pl.program_id(0)
    count = pl.cdiv(lengths_ref[b], PAGE)
    o_ref[...] = jnp.zeros_like(o_ref)

    def copy(j):
        place = o_ref.at[pl.ds(j * PAGE, PAGE)]
        return pltpu.make_async_copy(pages_ref.at[table_ref[b, j]], place, sem)

    jax.lax.fori_loop(0, count, lambda j, _: copy(j).start(), None)
    jax.lax.fori_loop(0, count, lambda j, _: copy(j).wait(), None)
    ### END SOLUTION


# %% given="14.6"
def fetched(pages, lengths, table):
    sequences, columns = table.shape
    rows = pl.pallas_call(
        fetch_kernel,
        out_shape=jax.ShapeDtypeStruct((sequences * columns * PAGE, 2 * D), pages.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((columns * PAGE, 2 * D), lambda b, *_: (b, 0)),
            scratch_shapes=[pltpu.SemaphoreType.DMA],
        ),
    )(lengths, table, pages)
    return rows.reshape(sequences, columns * PAGE, 2 * D)


# %% check="14.6"
checks.check("14.6", fetched)

# %%
# checks.hint("14.6")

# %% [markdown]
# ## 14.7 Repair: a ring of pages
#
# *Difficulty 3 of 5. 10 minutes, 4 lines.*
#
# `summed(pages, lengths, table)` adds up all rows of each sequence, float32[B, 256], with a ring of two pages.
# `ring_kernel_broken` has three bugs: it reads another sequence's row of the table, it drops the last page, and it
# requests a page too early, so that the page arrives in a slot that is still being read. Copy the body of this kernel
# into `ring_kernel` and repair it there; one of the repairs needs a change in a second place. Rows past the last token
# of a sequence may hold NaN or inf. For 16 pages in each of two sequences the kernel may take at most 25,000 cycles
# (predicted (compiler)); if no page were in flight while one is added, it would take some 41,000.


# %% given="14.7"
def ring_kernel_broken(lengths_ref, table_ref, pages_ref, o_ref, buffer, sem):
    b = pl.program_id(0)
    length = lengths_ref[b]
    count = length // PAGE

    def copy(j):
        slot = jax.lax.rem(j, 2)
        page = pages_ref.at[table_ref[0, j]]
        return pltpu.make_async_copy(page, buffer.at[slot], sem.at[slot])

    def add(j, total):
        pl.when(j + 2 < count)(lambda: copy(j + 2).start())
        copy(j).wait()
        rows = buffer[jax.lax.rem(j, 2)]
        token = j * PAGE + jax.lax.broadcasted_iota(jnp.int32, rows.shape, 0)
        return total + jnp.where(token < length, rows, 0).sum(axis=0, keepdims=True)

    for j in range(2):
        pl.when(j < count)(lambda j=j: copy(j).start())
    o_ref[...] = jax.lax.fori_loop(0, count, add, jnp.zeros((1, 2 * D), jnp.float32))


# %% answer="14.7"
def ring_kernel(lengths_ref, table_ref, pages_ref, o_ref, buffer, sem):
    """Add up the rows of a sequence, with one page in flight while another is read."""
    ### BEGIN SOLUTION
    b = pl.program_id(0)
    length = lengths_ref[b]
    count = pl.cdiv(length, PAGE)

    def copy(j):
        slot = jax.lax.rem(j, 2)
        page = pages_ref.at[table_ref[b, j]]
        return pltpu.make_async_copy(page, buffer.at[slot], sem.at[slot])

    def add(j, total):
        pl.when(j + 1 < count)(lambda: copy(j + 1).start())
        copy(j).wait()
        rows = buffer[jax.lax.rem(j, 2)]
        token = j * PAGE + jax.lax.broadcasted_iota(jnp.int32, rows.shape, 0)
        return total + jnp.where(token < length, rows, 0).sum(axis=0, keepdims=True)

    pl.when(count > 0)(lambda: copy(0).start())
    o_ref[...] = jax.lax.fori_loop(0, count, add, jnp.zeros((1, 2 * D), jnp.float32))
    ### END SOLUTION


# %% given="14.7-call"
def summed(pages, lengths, table):
    sequences = table.shape[0]
    total = pl.pallas_call(
        ring_kernel,
        out_shape=jax.ShapeDtypeStruct((sequences, 1, 2 * D), pages.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((None, 1, 2 * D), lambda b, *_: (b, 0, 0)),
            scratch_shapes=[
                pltpu.VMEM((2, PAGE, 2 * D), pages.dtype),
                pltpu.SemaphoreType.DMA((2,)),
            ],
        ),
    )(lengths, table, pages)
    return total[:, 0]


# %% check="14.7"
checks.check("14.7", summed)

# %%
# checks.hint("14.7")

# %% [markdown]
# ## 14.8 The call of a server
#
# *Difficulty 2 of 5. 5 minutes, 4 lines. Further.*
#
# A server calls `ragged_paged_attention` once in each layer, for all sequences at once. Its arrays have room for eight
# sequences, and pages hold 16 tokens. This step has three sequences, of which the first is a new prompt of 50 tokens.
# The second had 200 tokens in the cache before this step and writes its next one, and so does the third, which had 207.
# The keys and values of the step's tokens are already in their pages. Give four plain numbers that describe the call:
#
# - **A** the number of rows of q that belong to a token
# - **B** `kv_lens[1]`
# - **C** `cu_q_lens[2]`
# - **D** the number of entries of `page_indices[2]` that the kernel reads


# %% answer="14.8"
call = {"A": None, "B": None, "C": None, "D": None}
### BEGIN SOLUTION
call |= {"A": 52, "B": 201, "C": 51, "D": 13}
### END SOLUTION

# %% check="14.8"
checks.check("14.8", call)

# %%
# checks.hint("14.8")

# %% [markdown]
# ## 14.9 From an empty cell: decode
#
# *Difficulty 5 of 5. 70 minutes, 70 lines. Further.*
#
# `decode_all(q, pages, lengths, table)` is the whole kernel: q is bfloat16[B, heads, 4, 128], `pages` is bfloat16[N,
# heads, 16, 256], where heads is the number of KV heads, and the result has the shape of q. Accumulate in float32.
# Lengths are ragged and may be 0, and the result for a sequence without tokens is zeros. Rows that belong to no token
# may hold NaN, and past the last page of a sequence the table may hold any number. Outside the kernel, JAX may prepare
# lists, and nothing else.
#
# With 8 KV heads, the kernel may take at most 23,000 cycles (predicted (compiler)) for six sequences of 700, 90, 512,
# 30, 380 and 336 tokens, whose bytes alone take 15,500. For four sequences of 512 tokens it may take at most 18,450,
# which is 1.2 times their bytes. A ring for each sequence is too slow for that, so let one ring go on from sequence to
# sequence, as in "A ring that goes on". `jnp.repeat` needs `total_repeat_length` if its lengths are not known when JAX
# traces.


# %% answer="14.9"
decode_all = None
### BEGIN SOLUTION
COUNT, SLOTS = 16, 4  # pages of a block, and blocks in the ring
BLOCK = COUNT * PAGE  # tokens


def blocks_of(lengths, columns):
    """Return how many blocks there are in all, and for each its sequence and its place in it."""
    counts = (lengths + BLOCK - 1) // BLOCK
    ends = jnp.cumsum(counts)
    n = jnp.arange(len(lengths) * -(-columns // COUNT))
    owner = jnp.minimum(jnp.searchsorted(ends, n, side="right"), len(lengths) - 1)
    return [x.astype(jnp.int32) for x in (ends[-1:], owner, n - (ends - counts)[owner])]


def all_kernel(
    total_ref, owner_ref, place_ref, lengths_ref, table_ref, q_ref, pages_ref, o_ref, *refs
):
    m_ref, l_ref, acc_ref, buffer, sem = refs
    heads = q_ref.shape[1]

    def each_copy(n, do):
        b, j, slot = owner_ref[n], place_ref[n], jax.lax.rem(n, SLOTS)
        there = jnp.minimum(pl.cdiv(lengths_ref[b], PAGE) - j * COUNT, COUNT)

        def of_page(t, _=None):
            page = pages_ref.at[table_ref[b, j * COUNT + t]]
            row = buffer.at[slot, :, pl.ds(t * PAGE, PAGE)]
            do(pltpu.make_async_copy(page, row, sem.at[slot]))

        @pl.when(there == COUNT)
        def whole():
            for t in range(COUNT):
                of_page(t)

        @pl.when(there < COUNT)
        def part():
            jax.lax.fori_loop(0, there, of_page, None)

    def start(n):
        pl.when(n < total_ref[0])(lambda: each_copy(n, lambda copy: copy.start()))

    def block(n, _):
        start(n + SLOTS - 1)
        each_copy(n, lambda copy: copy.wait())
        b, rows = owner_ref[n], buffer[jax.lax.rem(n, SLOTS)]
        left = lengths_ref[b] - place_ref[n] * BLOCK

        @pl.when(place_ref[n] == 0)
        def begin():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        s = jnp.stack(
            [
                jax.lax.dot_general(
                    q_ref[b, h],
                    rows[h, :, :D],
                    (((1,), (1,)), ((), ())),
                    preferred_element_type=jnp.float32,
                )
                for h in range(heads)
            ]
        ) / math.sqrt(D)
        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left, s, -jnp.inf)
        v = rows[:, :, D:]
        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 1) < left, v, 0)
        m_old, m = m_ref[...], jnp.maximum(m_ref[...], s.max(axis=2, keepdims=True))
        p = jnp.exp(s - jnp.tile(m, (1, 1, BLOCK // 128)))
        shrink = jnp.exp(m_old - m)
        m_ref[...] = m
        l_ref[...] = l_ref[...] * shrink + p.sum(axis=2, keepdims=True)
        p = p.astype(v.dtype)
        o = [jnp.dot(p[h], v[h], preferred_element_type=jnp.float32) for h in range(heads)]
        acc_ref[...] = acc_ref[...] * shrink + jnp.stack(o)

        @pl.when(left <= BLOCK)
        def store():
            o_ref[b] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)

    o_ref[...] = jnp.zeros_like(o_ref)  # for sequences without tokens
    for n in range(SLOTS - 1):
        start(n)
    jax.lax.fori_loop(0, total_ref[0], block, None)


def decode_all(q, pages, lengths, table):
    """Return the attention of all sequences, with one ring that goes on between them."""
    _, heads, group, _ = q.shape
    whole = pl.BlockSpec(q.shape, lambda i, *_: (0, 0, 0, 0))
    statistic = pltpu.VMEM((heads, group, 128), jnp.float32)
    return pl.pallas_call(
        all_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=5,
            grid=(1,),
            in_specs=[whole, pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=whole,
            scratch_shapes=[
                *[statistic] * 3,
                pltpu.VMEM((SLOTS, heads, BLOCK, 2 * D), pages.dtype),
                pltpu.SemaphoreType.DMA((SLOTS,)),
            ],
        ),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=32 << 20),
    )(*blocks_of(lengths, table.shape[1]), lengths, table, q, pages)


### END SOLUTION

# %% check="14.9"
checks.check("14.9", decode_all)

# %%
# checks.hint("14.9")

# %% [markdown]
# ## 14.10 Golf: one prompt for all
#
# *Difficulty 4 of 5. 30 minutes, 50 lines. Further.*
#
# The requests to a server often begin with the same text, such as its instructions. The pages of this text need to be
# in memory only once, and need to be *read* only once. In `shared(q, pages, prefix, lengths, table)`, q is float32[B,
# 8, 128], `pages` is float32[N, 16, 256], and `prefix` is int32[S] with the numbers of the pages that all sequences
# begin with: one page or more, all of them full. After them each sequence goes on with `lengths[b]` tokens of its own,
# one or more, in the pages of its row of `table`. Past its last page the table holds zeros, and rows that belong to no
# token may hold NaN. The result is the attention of each sequence's queries over the prompt and its own tokens. The
# fewest bytes between HBM and VMEM win, and par is 300,000 bytes for four sequences that share 6 pages and have 10
# further pages between them.


# %% answer="14.10"
shared = None
### BEGIN SOLUTION


def shared_kernel(
    prefix_ref, lengths_ref, table_ref, q_ref, page_ref, o_ref, m_ref, l_ref, acc_ref
):
    t, (sequences, columns) = pl.program_id(0), table_ref.shape
    common, group = prefix_ref.shape[0], q_ref.shape[0] // sequences

    def add(at, left):
        k, v = page_ref[:, :D], page_ref[:, D:]
        s = scores(q_ref[at], k) / math.sqrt(D)
        s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left, s, -jnp.inf)
        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, v.shape, 0) < left, v, 0)
        m_old, m = m_ref[at], jnp.maximum(m_ref[at], s.max(axis=1, keepdims=True))
        p, shrink = jnp.exp(s - m), jnp.exp(m_old - m)
        m_ref[at] = m
        l_ref[at] = l_ref[at] * shrink + p.sum(axis=1, keepdims=True)
        acc_ref[at] = acc_ref[at] * shrink + weighted(p, v)

    @pl.when(t == 0)
    def begin():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(t < common)
    def of_all():
        add(slice(None), PAGE)

    b, j = (t - common) // columns, (t - common) % columns
    left = lengths_ref[jnp.maximum(b, 0)] - j * PAGE

    @pl.when((t >= common) & (left > 0))
    def of_one():
        add(pl.ds(pl.multiple_of(b * group, group), group), left)

    @pl.when(t == pl.num_programs(0) - 1)
    def store():
        o_ref[...] = acc_ref[...] / l_ref[...]


def shared(q, pages, prefix, lengths, table):
    """Return attention over a prompt that all sequences share, and over their own tokens."""
    (sequences, group, _), columns, common = q.shape, table.shape[1], len(prefix)

    def page_map(t, prefix_ref, lengths_ref, table_ref):
        own = jnp.maximum(t - common, 0)
        b = own // columns
        j = jnp.minimum(own % columns, pl.cdiv(lengths_ref[b], PAGE) - 1)
        first = prefix_ref[jnp.minimum(t, common - 1)]
        return jnp.where(t < common, first, table_ref[b, j]), 0, 0

    rows = sequences * group
    whole = pl.BlockSpec((rows, D), lambda t, *_: (0, 0))
    column = pltpu.VMEM((rows, 1), jnp.float32)
    o = pl.pallas_call(
        shared_kernel,
        out_shape=jax.ShapeDtypeStruct((rows, D), q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(common + sequences * columns,),
            in_specs=[whole, pl.BlockSpec((None, PAGE, 2 * D), page_map)],
            out_specs=whole,
            scratch_shapes=[column, column, pltpu.VMEM((rows, D), jnp.float32)],
        ),
    )(prefix, lengths, table, q.reshape(rows, D), pages)
    return o.reshape(q.shape)


### END SOLUTION

# %% check="14.10"
checks.check("14.10", shared)

# %%
# checks.hint("14.10")

# %% [markdown]
# <!-- next -->
