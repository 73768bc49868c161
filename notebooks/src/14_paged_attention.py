# %% [markdown]
# # Lesson 14: Paged attention
#
# *60 minutes, then 66 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 5 for copies by hand with several buffers, lesson 12 for scalar prefetch, and lesson 13 for the online softmax. You do
# not need a TPU; with one, the kernels also run on it.*
#
# A language model writes one token at a time. For each token it reads all of its weights, and the keys and values that
# it has cached for all earlier tokens. How many tokens can one chip write in a second? The bandwidth of its memory
# gives an upper bound before there is any code. Run the three cells, which compute that bound for a model of 8 billion
# parameters from the numbers in its published configuration.

# %%
# FIRST CELL

# %%
import functools
import math

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler, judges, viz
from course_lib.kernels import paged_attention as library

# config.json of meta-llama/Llama-3.1-8B
LAYERS, HIDDEN, MIDDLE, WORDS = 32, 4096, 14336, 128256
HEADS, KV_HEADS, D = 32, 8, 128  # of queries; of keys and values; elements of each
v5e = chips.chip("v5e")

of_attention = 2 * HIDDEN * (HEADS + KV_HEADS) * D  # weights of q and o, of k and v
parameters = LAYERS * (of_attention + 3 * HIDDEN * MIDDLE) + 2 * WORDS * HIDDEN
kept = 2 * LAYERS * KV_HEADS * D * 2  # bytes of a token's keys and values, in bfloat16
print(f"{parameters / 1e9:.2f} billion parameters; {kept:,} bytes of KV cache per token")


# %%
def step_seconds(sequences, context, bytes_a_weight=1):
    """Return the seconds that a v5e takes to read the weights, and the KV cache of all sequences."""
    return (
        bytes_a_weight * parameters / v5e.hbm_bandwidth,
        sequences * context * kept / v5e.hbm_bandwidth,
    )


for bytes_a_weight, dtype in ((2, "bfloat16"), (1, "int8")):
    room = (v5e.hbm_bytes - bytes_a_weight * parameters) / kept
    seconds = sum(step_seconds(1, 2048, bytes_a_weight))
    print(
        f"weights in {dtype:8}: {1 / seconds:3.0f} tokens/s for a sequence of 2,048 tokens, "
        f"and room for {room:6,.0f} tokens"
    )

# %% [markdown]
# Sequences that are decoded in the same batch share the weights: each step reads them once for all. Nothing else is
# shared, because every sequence has a text of its own. With weights in int8 (lesson 9) a v5e has room for eight
# sequences of 8,192 tokens. Their caches have 65,536 x 131,072 bytes, which is 8.6 GB, and the weights have 8.0 GB. So
# attention takes about half of each step, and it cannot take less time than reading its cache. (We count all parameters
# as read, although a step looks up only a few rows of the input embedding, which has 6.5 % of them. The compiler leaves
# a program 15.75 GiB of this memory, so slightly fewer tokens fit.)
#
# In lesson 13 the MXU set the bound; here the bandwidth does. **Write down a guess:** by what factor is the most
# obvious kernel for this slower than reading its bytes at full bandwidth? And what does it spend that time on: the
# matmuls, the exponentials, the copies, or something else? At the end of the lesson you will have timed a kernel that
# takes no longer than its bytes when the sequences are long, and you will know what makes simpler kernels slower.
#
# After this lesson you can
# - say how many tokens a second a chip can write, from the numbers of a model,
# - keep keys and values in pages, and find them through a table,
# - tell whether a kernel is limited by the overhead of its steps or by bandwidth,
# - copy by hand the pages listed in a table, with as many copies in flight as their latency requires,
# - explain why a ring of copies should go on from one sequence to the next, and which lists such a kernel needs.
#
# ## Why pages
#
# The model caches a key and a value for every token in every layer. Queries are not cached, because only the query of the
# newest token is needed.
#
# > **KV cache**: the keys and values of all tokens so far, which every further token attends to.
# >
# > **decode**: to compute the next token of each sequence.
# >
# > **prefill**: to compute all tokens of a prompt at once.
#
# How much room does a sequence need? Nobody knows how long its text will become, and if you reserve room for the
# longest possible one, most of the room stays empty. So the cache is cut into *pages* of a few tokens. A sequence gets
# another page when its last one is full, and its pages may lie anywhere in memory.
#
# > **page**: room for the keys and values of a fixed number of tokens, in one layer.
# >
# > **page table**: lists for each sequence the numbers of its pages, in the order of its tokens.
#
# **Predict:** requests end after 20 to 2,000 tokens, with all lengths equally likely, and the longest text allowed has
# 4,096 tokens. There is room for 65,536 tokens. How many requests fit if each reserves room for 4,096? How many fit
# with pages of 16 tokens, and how many with pages of 1,024?

# %% tags=["predict"]
requests = np.random.default_rng(0).integers(20, 2001, 10_000)
ROOM = 65_536


def fitting(page):
    """Return how many requests fit if room is given in pages of so many tokens."""
    taken = np.cumsum(-(-requests // page) * page)
    return int(np.searchsorted(taken, ROOM, side="right"))


print(f"reserved for the longest: {ROOM // 4096}")
for page in (1, 16, 128, 1024):
    n = fitting(page)
    print(
        f"pages of {page:5}: {n:3}, {requests[:n].sum() / ROOM:4.0%} of the room is in use"
    )

# %% [markdown]
# Below, seven requests share 24 pages of 16 tokens, and each running sequence writes one token per step. **Look for**
# the step in which the most sequences run. The lower bar shows how many of them would fit if each reserved room for the
# longest text allowed, here 128 tokens.

# %%
viz.page_player(
    [  # step in which it arrives, tokens of its prompt, tokens that it writes
        (0, 40, 24),
        (1, 70, 30),
        (2, 20, 12),
        (3, 50, 20),
        (5, 10, 60),
        (8, 60, 18),
        (16, 90, 12),
    ],
    room=24,
    page=16,
    reserve=128,
)

# %% [markdown]
# In step 14 six sequences run; with 128 tokens reserved for each, only three would fit. With pages, only the last page
# of a sequence has unused room, half a page on average, and with 16 tokens per page that is hardly any. But a page is
# also the piece that a kernel copies at once, so smaller is not always better. In this lesson a page holds 16 tokens.
# All pages of a layer are one array `pages` of shape [pages, KV heads, 16, 256], in which each row holds a token's key
# (128 elements), followed by its value. Here is a table for four sequences, whose pages are scattered among twenty.

# %%
PAGE = 16


def table_of(lengths, order=None):
    """Return a table that gives the sequences the pages in this order, or in their own."""
    counts = [-(-length // PAGE) for length in lengths]
    order = np.arange(sum(counts)) if order is None else order
    table, begin = np.zeros((len(counts), max(counts)), np.int32), 0
    for row, count in zip(table, counts, strict=True):
        row[:count] = order[begin : begin + count]
        begin += count
    return table


print(table_of([70, 20, 100, 5], np.random.default_rng(0).permutation(20)))

# %% [markdown]
# Rows end in zeros where a sequence has no more pages. But 0 is also a valid page number, so a kernel must use the
# lengths to find the end of a row.
#
# ## A page a step
#
# With a single query, attention works as in lesson 13 with one row of scores: multiply the query by all keys, apply the
# online softmax, and add up the weighted values. The table says which page comes next, so the table is prefetched, and
# the index map of the pages reads it (lesson 12). The grid has a step for each sequence and each column of the table.
#
# In the model above, four query heads share a KV head. They go through the matmul as four rows, so each key that has
# been copied is used four times. `update` computes the scores of all KV heads first, then all exponentials, then all
# weighted sums. The heads do not depend on each other, so the compiler can overlap their work. The argument `left` is
# the number of tokens that the sequence still has from the beginning of this block on, so row t of the block holds a
# token if t < `left`. The scores of all other rows become -inf, as in lesson 13.


# %%
def dot_of_rows(q, k):
    """Return q @ k.T, summed in float32."""
    dimensions = (((1,), (1,)), ((), ()))
    return jax.lax.dot_general(q, k, dimensions, preferred_element_type=jnp.float32)


def dot(p, v):
    return jnp.dot(p, v, preferred_element_type=jnp.float32)


def begin(m_ref, l_ref, acc_ref):
    """Set m to -inf, and the sums to 0."""
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)


def update(q_ref, rows, left, m_ref, l_ref, acc_ref):
    """Add a block of tokens, rows [KV heads, tokens, 2 D], of which ``left`` count."""
    heads = range(rows.shape[0])
    s = jnp.stack([dot_of_rows(q_ref[h], rows[h, :, :D]) for h in heads]) / math.sqrt(D)
    s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 2) < left, s, -jnp.inf)
    m_old, m = m_ref[...], jnp.maximum(m_ref[...], s.max(axis=2, keepdims=True))
    p, shrink = jnp.exp(s - m), jnp.exp(m_old - m)
    m_ref[...] = m
    l_ref[...] = l_ref[...] * shrink + p.sum(axis=2, keepdims=True)
    p = p.astype(rows.dtype)
    of_values = jnp.stack([dot(p[h], rows[h, :, D:]) for h in heads])
    acc_ref[...] = acc_ref[...] * shrink + of_values


def page_kernel(lengths_ref, table_ref, q_ref, page_ref, o_ref, m_ref, l_ref, acc_ref):
    b, j = pl.program_id(0), pl.program_id(1)
    left = lengths_ref[b] - j * PAGE
    pl.when(j == 0)(lambda: begin(m_ref, l_ref, acc_ref))

    @pl.when(left > 0)
    def add():
        update(q_ref, page_ref[...], left, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(1) - 1)
    def store():
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)


def of_a_sequence(*shape):
    """Return the block spec of an array with one block for each sequence."""
    return pl.BlockSpec((None, *shape), lambda b, *_: (b, *[0] * len(shape)))


def state(heads, group):
    """Return the scratch for m, l and acc."""
    column = pltpu.VMEM((heads, group, 1), jnp.float32)
    return [column, column, pltpu.VMEM((heads, group, D), jnp.float32)]


def a_page_a_step(q, pages, lengths, table):
    """Return attention of q [sequences, KV heads, group, D] over its pages."""
    sequences, heads, group, _ = q.shape
    page = pl.BlockSpec(
        (None, heads, PAGE, 2 * D), lambda b, j, lengths, table: (table[b, j], 0, 0, 0)
    )
    return pl.pallas_call(
        page_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=table.shape,
            in_specs=[of_a_sequence(heads, group, D), page],
            out_specs=of_a_sequence(heads, group, D),
            scratch_shapes=state(heads, group),
        ),
    )(lengths, table, q, pages)


# %% [markdown]
# The reference gathers the pages with JAX, masks the scores, and applies an ordinary softmax. `drawn` makes arguments
# whose pages lie in random order.


# %% tags=["folded"]
def over_rows(q, rows, lengths):
    """Return attention in JAX over rows [sequences, KV heads, tokens, 2 D]."""
    in_float32 = {"preferred_element_type": jnp.float32}
    there = (jnp.arange(rows.shape[2]) < lengths[:, None])[:, None, :, None]
    rows = jnp.where(there, rows, 0)
    s = jnp.einsum("bhgd,bhtd->bhgt", q, rows[..., :D], **in_float32) / math.sqrt(D)
    p = jax.nn.softmax(jnp.where(there[..., 0][:, :, None], s, -jnp.inf), axis=-1)
    o = jnp.einsum("bhgt,bhtd->bhgd", p.astype(rows.dtype), rows[..., D:], **in_float32)
    return o.astype(q.dtype)


def plain(q, pages, lengths, table):
    """Return the same after gathering all pages of the table."""
    found = jnp.moveaxis(pages[table], 2, 1)  # [sequences, KV heads, pages, PAGE, 2 D]
    return over_rows(q, found.reshape(*found.shape[:2], -1, 2 * D), lengths)


def drawn(lengths, heads=2, group=4):
    """Return arguments with random numbers, and pages in random order."""
    table = table_of(lengths, np.random.default_rng(1).permutation(8))
    of_q, of_pages = jax.random.split(jax.random.key(0))
    q = jax.random.normal(of_q, (len(lengths), heads, group, D), jnp.bfloat16)
    pages = jax.random.normal(of_pages, (8, heads, PAGE, 2 * D), jnp.bfloat16)
    return q, pages, jnp.array(lengths, jnp.int32), jnp.array(table)


def verdict_on(fn, reference, *args):
    """Return the verdict of the first judge that refuses."""
    verdicts = judges.judge(fn, reference, *args, simulate=False)
    refused = [v for v in verdicts if v.passed is False]
    return refused[0] if refused else "no judge refuses it"


small = drawn([40, 16, 25])
print(verdict_on(a_page_a_step, plain, *small))

# %% [markdown]
# Step through the kernel. **Look for** the steps past the end of a sequence. Which page is copied for them?

# %%
viz.grid_player(a_page_a_step, *small)

# %% [markdown]
# Page 0 is copied again for sequence 1 and again for sequence 2, because unused entries of the table are 0. An index
# map that stays at the last page of the sequence saves such copies; you will write one in exercise 14.2. For a sequence
# without tokens l stays 0, so the kernels of this lesson return 0 / 0, which is NaN. In exercise 14.4 you return zeros
# instead.
#
# The kernel is right for these inputs, but it has a bug that they do not reveal. The last page of a sequence is rarely
# full, and the rows past the last token hold whatever was there before, perhaps values of a text that has ended. The
# scores of such rows are masked, so their weights are 0. **Predict** what happens if an old value there is NaN.

# %% tags=["predict"]
q, pages, lengths, table = small
behind = table[0, 2], slice(None), slice(40 % PAGE, None)  # sequence 0 has 40 tokens
stale = pages.at[behind].set(jnp.nan)
print(verdict_on(a_page_a_step, plain, q, stale, lengths, table))

# %% [markdown]
# A weight of 0 does not help, because 0 * NaN is NaN, and so is 0 * inf. So the *values* have to be cleaned, too. The
# keys can stay as they are, because the scores that come from them are replaced. In the next kernel, `clean` sets the
# rows past the last token to 0.
#
# Next, we compile the kernel for four sequences of 1,024 tokens each, in one layer of the model above. **Predict:** how
# many bytes are their pages, and how long does it take to read them at 820 GB/s? Then guess the time of the kernel.


# %% tags=["predict"]
def arguments(lengths):
    """Return shapes for a layer of the model, and the values of lengths and table."""
    table = table_of(lengths)
    q = jax.ShapeDtypeStruct((len(lengths), KV_HEADS, HEADS // KV_HEADS, D), jnp.bfloat16)
    pages = jax.ShapeDtypeStruct((table.max() + 1, KV_HEADS, PAGE, 2 * D), jnp.bfloat16)
    return q, pages, np.array(lengths, np.int32), table


def bytes_us(args):
    """Return the microseconds that all pages take at full bandwidth."""
    return args[1].size * 2 / v5e.hbm_bandwidth * 1e6


even = arguments([1024] * 4)
first = compiler.compile_tpu(a_page_a_step, *even)
print(f"the pages at full bandwidth: {bytes_us(even):6.1f} us")
print(f"the kernel:                  {first.seconds * 1e6:6.1f} us, predicted (compiler)")


# %% [markdown]
# The pages are 16.8 MB: 4,096 tokens of 4,096 bytes each in this layer. Reading them takes 20.5 us at full bandwidth,
# and the kernel takes eight times as long, although it copies every page once. Where does the time go? The report
# divides the cycles of a step. "Scalar" is the loop over the grid, with its index maps and addresses, and "issue" is
# the time in which instructions of the body are issued. The other three columns are waits, for copies and for the
# results of two units. (The VPU and the EUP, with some 20 cycles, are left out.)

# %%
WAITS = {
    "scalar": "scalar",
    "DMA wait": "copies",
    "XLU": "XLU",
    "MXU": "MXU",
    "issue": "issue",
}
HEADING = f"{'':44}cycles" + "".join(f"{name:>8}" for name in WAITS.values())


def per_step(name, report, args):
    """Print the time of a kernel, and where the cycles of a step go."""
    us, waits = (
        report.seconds * 1e6,
        [report.time_split[key] / report.steps for key in WAITS],
    )
    row = "".join(f"{cycles:8,.0f}" for cycles in waits)
    print(
        f"{name:10}{us:6.1f} us, {us / bytes_us(args):4.1f} x bytes, "
        f"{report.steps:4} steps{report.cycles / report.steps:8,.0f}{row}"
    )


print(HEADING)
per_step("a page", first, even)
page_cycles = bytes_us(even) / 1e6 * v5e.clock_hz / even[1].shape[0]
print(f"a page at full bandwidth takes {page_cycles:.0f} cycles")

# %% [markdown]
# A page takes 120 cycles at full bandwidth, and a step takes nearly a thousand. No single cause explains the
# difference: each of the five parts alone takes as long as the page or longer. A step waits for its copy, because a
# copy takes much longer than its bytes (lesson 5) and was started only one step before. It also waits for one unit
# after the other: the maximum needs the first matmul, the exponentials need the maximum, and the second matmul needs
# the exponentials. (Lesson 13 removed the wait for the XLU by keeping m and l in all lanes. We leave them in one lane
# to keep the code short; the library's kernel, later on, does not.) Most of these cycles are spent in every step,
# however few tokens it has, so give each step more tokens.
#
# ## Several pages a step
#
# A block spec describes one block, and the pages of a sequence do not lie side by side. But you can pass the same array
# several times, each time with an index map of its own: map n finds page n of the step. The kernel then has several
# refs, and concatenates their pages. The table gets as many columns as the steps need. The zeros at the end of a row
# name page 0, whose tokens do not count there.


# %%
def clean(rows, left):
    """Set the rows of tokens that do not count to 0."""
    token = jax.lax.broadcasted_iota(jnp.int32, rows.shape, 1)
    return jnp.where(token < left, rows, 0)


def several_kernel(lengths_ref, table_ref, q_ref, *refs):
    *page_refs, o_ref, m_ref, l_ref, acc_ref = refs
    b, j = pl.program_id(0), pl.program_id(1)
    left = lengths_ref[b] - j * len(page_refs) * PAGE
    pl.when(j == 0)(lambda: begin(m_ref, l_ref, acc_ref))

    @pl.when(left > 0)
    def add():
        rows = jnp.concatenate([ref[...] for ref in page_refs], axis=1)
        update(q_ref, clean(rows, left), left, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(1) - 1)
    def store():
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)


def several_pages(q, pages, lengths, table, count=4):
    """Return the same as a_page_a_step, with ``count`` pages a step."""
    sequences, heads, group, _ = q.shape
    steps = pl.cdiv(table.shape[1], count)
    table = jnp.pad(table, ((0, 0), (0, steps * count - table.shape[1])))

    def page(n):
        return pl.BlockSpec(
            (None, heads, PAGE, 2 * D),
            lambda b, j, lengths, table: (table[b, count * j + n], 0, 0, 0),
        )

    return pl.pallas_call(
        several_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences, steps),
            in_specs=[of_a_sequence(heads, group, D), *map(page, range(count))],
            out_specs=of_a_sequence(heads, group, D),
            scratch_shapes=state(heads, group),
        ),
    )(lengths, table, q, *[pages] * count)


print(
    verdict_on(functools.partial(several_pages, count=2), plain, q, stale, lengths, table)
)

# %% [markdown]
# **Predict** for 4 and for 16 pages a step: how many times as long as its bytes does the kernel take?

# %% tags=["predict"]
print(HEADING)
for count in (4, 16):
    report = compiler.compile_tpu(functools.partial(several_pages, count=count), *even)
    per_step(f"{count:2} a step", report, even)

# %% [markdown]
# With 16 pages a step the kernel comes close to its bytes, but more than half of a step is now scalar code. From 4 to
# 16 pages that part grows from 340 to 1,238 cycles, about 75 for each page, because for each ref a step evaluates the
# index map, compares the result with that of the previous step, and computes the addresses of a copy. Larger steps do
# not reduce this cost of a page.
#
# In practice, four texts hardly ever have the same length. **Predict** how long the same kernel takes for four *ragged*
# sequences, of 1000, 300, 700 and 20 tokens, which have half as many tokens in all.

# %% tags=["predict"]
ragged = arguments([1000, 300, 700, 20])
by_maps = compiler.compile_tpu(functools.partial(several_pages, count=16), *ragged)
print(HEADING)
per_step("16 a step", by_maps, ragged)

# %% [markdown]
# The kernel takes as long as before. A grid has the same number of steps for every sequence, so each sequence gets the
# four steps that the longest one needs. That makes 16 steps in all, and the six that have nothing to compute still run
# 16 index maps each. (About 300 of the scalar cycles of a step come from the simulator, as *Further* explains. Without
# them the kernel would still take twice as long as its bytes.)
#
# ## Copies by hand
#
# The pipeline of a grid cannot stop where a row of the table ends. A kernel that starts its own copies can: it loops
# over the pages that exist, and starts one copy for each (lesson 5). The grid has one step for each sequence. The pages
# stay in HBM (`memory_space=pl.ANY`), and the kernel copies them into `slots` buffers in VMEM. As in lesson 5, block j
# goes to buffer j mod `slots`. We call these buffers *slots*, and all of them together a *ring*. Each slot holds a
# block of `count` pages. While one block is being computed, the copies of the next `slots - 1` are in flight.
#
# Read `each_copy` first. It is called twice for each block, once to start its copies and once to wait for them, so both
# calls name the same pages. All copies of a slot signal the same semaphore.


# %%
def by_hand(q, pages, lengths, table, count=8, slots=2):
    """Return the same, a sequence a step, with ``slots`` blocks of ``count`` pages."""
    sequences, heads, group, _ = q.shape

    def kernel(lengths_ref, table_ref, q_ref, pages_ref, o_ref, *scratch):
        *refs, buffer, sem = scratch  # m, l and acc; the ring
        b = pl.program_id(0)
        length = lengths_ref[b]
        blocks = pl.cdiv(length, count * PAGE)

        def each_copy(j, do):
            slot = jax.lax.rem(j, slots)

            def of_page(n, _):
                page = pages_ref.at[table_ref[b, j * count + n]]
                place = buffer.at[slot, :, pl.ds(n * PAGE, PAGE)]
                do(pltpu.make_async_copy(page, place, sem.at[slot]))

            there = jnp.minimum(pl.cdiv(length, PAGE) - j * count, count)
            jax.lax.fori_loop(0, there, of_page, None)

        def start(j):
            pl.when(j < blocks)(lambda: each_copy(j, lambda copy: copy.start()))

        def block(j, _):
            start(j + slots - 1)
            each_copy(j, lambda copy: copy.wait())
            left = length - j * count * PAGE
            update(q_ref, clean(buffer[jax.lax.rem(j, slots)], left), left, *refs)

        begin(*refs)
        for j in range(slots - 1):
            start(j)
        jax.lax.fori_loop(0, blocks, block, None)
        m_ref, l_ref, acc_ref = refs
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sequences,),
            in_specs=[of_a_sequence(heads, group, D), pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=of_a_sequence(heads, group, D),
            scratch_shapes=[
                *state(heads, group),
                pltpu.VMEM((slots, heads, count * PAGE, 2 * D), pages.dtype),
                pltpu.SemaphoreType.DMA((slots,)),
            ],
        ),
    )(lengths, table, q, pages)


print(verdict_on(functools.partial(by_hand, count=2), plain, q, stale, lengths, table))

# %% [markdown]
# **Guess** how long this kernel takes for the four ragged sequences with one slot of eight pages, with two, and with
# more.

# %% tags=["predict"]
rings = {}
for slots in (1, 2, 3, 4):
    rings[slots] = compiler.compile_tpu(functools.partial(by_hand, slots=slots), *ragged)
    waits = rings[slots].time_split["DMA wait"] / v5e.clock_hz * 1e6
    print(f"{slots} slots: {rings[slots].seconds * 1e6:5.1f} us, {waits:4.1f} us waiting")
print(f"by index maps: {by_maps.seconds * 1e6:5.1f} us")

# %% [markdown]
# With one slot the kernel waits most of the time. With four it is faster than the kernel with sixteen index maps would
# be without those 300 cycles a step. The fourth slot saves less than the third, which saved less than the second. How
# many are enough?
#
# ## How many copies in flight?
#
# With one slot the kernel requests a block and then waits for it, so the wait is nearly the whole time of its copies.
# The next cell takes the average over all blocks. The figure is rough, because some blocks are not full, and because
# the wait begins only after all copies of a block have been started.

# %%
blocks = sum(-(-length // (8 * PAGE)) for length in ragged[2])
wait = rings[1].time_split["DMA wait"] / blocks
block_bytes = 8 * KV_HEADS * PAGE * 2 * D * 2
bytes_a_cycle = v5e.hbm_bandwidth / v5e.clock_hz
print(f"a block of 8 pages arrives {wait:,.0f} cycles after it was asked for")
print(f"its bytes at full bandwidth: {block_bytes / bytes_a_cycle:,.0f} cycles")
print(f"to keep the memory busy: {wait * bytes_a_cycle / block_bytes:.1f} blocks in flight")

# %% [markdown]
# A block takes longer to arrive than its bytes need at full bandwidth, so the memory is busy all the time only if other
# copies are in flight meanwhile. How many? During the time of one copy, the memory can deliver that time multiplied by
# the bandwidth, so that many bytes must be in flight at any moment:
#
# **bytes in flight = time of a copy x bandwidth** (Little's law). The time of a copy is its latency plus its bytes
# divided by the bandwidth. Lesson 5 says the same from the side of the core: if a copy takes L cycles and the work on a
# block c, then with B buffers a block takes max(c, (L + c) / B), so there are enough buffers when (L + c) / B falls to
# c.
#
# For blocks of eight pages that is two to three blocks, which must be in flight while another one is computed, so three
# or four slots are enough. What does the kernel with four slots still wait for? **Predict:** two sequences of 2,048
# tokens have as many blocks as four of 1,024. For which of the two batches does the kernel wait longer, and by how many
# cycles for each further sequence?

# %% tags=["predict"]
waits = {}
for count in (2, 4):
    args = arguments([4096 // count] * count)
    report = compiler.compile_tpu(functools.partial(by_hand, slots=4), *args)
    waits[count] = report.time_split["DMA wait"]
    print(f"{count} of {4096 // count} tokens: {waits[count]:6,} cycles of waiting")
print(f"for each further sequence: {(waits[4] - waits[2]) / 2:,.0f} cycles")

# %% [markdown]
# When a sequence begins, none of its pages is in flight yet, so the kernel waits for the first block of each sequence.
# This wait is a little more than half of the time that a block takes to arrive.
#
# ## A ring that goes on
#
# The remedy is to request the first blocks of the *next* sequence while this one is still being computed. The lengths
# and the table of all sequences lie in SMEM, so the kernel knows early enough which pages those are. Only the loop has
# to change. Instead of one loop for each sequence, which counts its blocks from 0, a single loop runs over the blocks
# of all sequences. For each block it needs two numbers: the sequence, and the block's place in it. JAX can list both
# outside the kernel. The cell below does so in NumPy; under `jit` the lists need a fixed length, with room for the
# largest possible number of blocks.


# %%
def in_one_list(lengths, tokens):
    """Return the sequence of each block of so many tokens, and its place in the sequence."""
    counts = -(-lengths // tokens)
    sequence = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    return sequence, np.arange(len(sequence)) - first[sequence]


sequences, places = in_one_list(ragged[2], 8 * PAGE)
print("sequence", sequences)
print("place   ", places)

# %% [markdown]
# If you prefetch these two lists and the total number of blocks, the grid needs only a single step. The loop in it
# requests block n + slots - 1 of the list, whichever sequence that block belongs to, waits for block n, and computes
# it. Where the place is 0, the loop resets m, l and acc. After the last block of sequence b, it writes `o_ref[b]`.
# Because the grid has only one step, the block specs of q and o are the whole arrays, and both stay in VMEM.
#
# How much time does that save? The next cell plays both rings with a clock, as in lesson 5, from what the compiler has
# predicted above: the time of a copy, and the cycles of the core for each block. **Look for** the gaps in the lane of
# the core.


# %% tags=["folded"]
def timeline(goes_on, slots=3):
    """Return when each block is asked for, arrives, is begun and done, by a model of the ring."""
    clock, channel, free, events = 0.0, 0.0, [0.0] * slots, []
    latency = wait - block_bytes / bytes_a_cycle
    work = (rings[4].cycles - rings[4].time_split["DMA wait"]) / blocks
    for b, place in zip(sequences, places, strict=True):
        if place == 0 and not goes_on:
            free = [clock] * slots
        here = min(-(-ragged[2][b] // PAGE) - 8 * place, 8) / 8  # how full the block is
        channel = max(channel, free[0] + latency) + here * block_bytes / bytes_a_cycle
        begun = max(clock, channel)
        events.append((free[0], channel, begun, clock := begun + work))
        free = [*free[1:], clock]
    return events


plt.rcParams.update(viz.PLOT_STYLE)
fig, panels = plt.subplots(2, 1, figsize=(7, 4.2), sharex=True)
for ax, goes_on in zip(panels, (False, True), strict=True):
    events = timeline(goes_on)
    for n, (asked, arrived, begun, done) in enumerate(events):
        color = f"C{sequences[n]}"
        lane = n % 3 if goes_on else places[n] % 3
        ax.broken_barh(
            [(asked, arrived - asked)], (lane + 1.1, 0.8), color=color, alpha=0.4
        )
        ax.broken_barh([(begun, done - begun)], (0.1, 0.8), color=color, ec="w", lw=0.5)
    ax.set(yticks=[0.5, 1.5, 2.5, 3.5], yticklabels=["core", "slot 0", "slot 1", "slot 2"])
    name = "one ring for all sequences" if goes_on else "a ring for each sequence"
    ax.set_title(f"{name}: {events[-1][-1]:,.0f} cycles, predicted (model)")
    ax.grid(axis="y", visible=False)
print(f"{rings[3].cycles:,} cycles with a ring for each sequence, predicted (compiler)")
panels[1].set_xlabel(
    "cycles; a color for each sequence; pale: copies; dark: the core at work"
)
viz.plot_picture(
    fig,
    "With a ring for each sequence the core waits at the beginning of each of the four "
    "sequences, for the whole time of a copy. With one ring for all sequences it does so "
    "only at the beginning of the first.",
)

# %% [markdown]
# By this model, one ring for all sequences takes a fifth less time. (For the ring that we have, the model's time is 7 %
# below the compiler's.) The long gaps where the color changes are gone, except for the first one, and most of what
# remains is work of the core. Exercise 14.9 asks for this kernel. The library's kernel,
# `course_lib.kernels.paged_attention`, has such a ring as well, in another form: it keeps a grid step for each
# sequence, and passes the number of the next slot from step to step in SMEM. It also keeps m and l in all lanes, as
# lesson 13 showed, and starts the copies of a whole block without a loop. The next cell compares all four kernels, for
# both batches.


# %%
def of_library(q, pages, lengths, table):
    """Call the library's kernel, which has all query heads on one axis."""
    merged = q.reshape(q.shape[0], -1, D)
    return library.paged_attention(merged, pages, lengths, table).reshape(q.shape)


ways = {
    "a page a step": a_page_a_step,
    "16 pages a step": functools.partial(several_pages, count=16),
    "by hand": functools.partial(by_hand, count=16, slots=4),
    "the library's": of_library,
}
print(f"{'':18}{'even':>10}{'ragged':>14}")
for name, fn in ways.items():
    reports = [compiler.compile_tpu(fn, *args) for args in (even, ragged)]
    found = [report.seconds * 1e6 for report in reports]
    print(f"{name:18}{found[0]:7.1f} us{found[1]:11.1f} us")
print(f"{'the bytes alone':18}{bytes_us(even):7.1f} us{bytes_us(ragged):11.1f} us")

# %% [markdown]
# For sequences of the same length, copies by hand, in blocks of sixteen pages, are as fast as the index maps. For
# ragged sequences, which are the ordinary case, they are clearly ahead. The library's kernel is the fastest in both.
# For the even batch it takes as long as the bytes, and for the ragged one 30 % longer. (A predicted time is the longer
# of the kernel's cycles and its bytes. For `even` and the library's kernel the bytes decide.)
#
# ## The guess
#
# The compiler predicts that the first kernel takes eight times as long as reading its bytes, and no single unit is to
# blame. (The simulator's latency is longer than published times suggest, so on a chip the factor may be smaller.) A
# page of 16 tokens is too little work for a grid step. Each step costs hundreds of cycles for scalar code, for a copy
# that was started only one step before, and for units that need each other's results. Sixteen pages a step share that
# cost, and then the scalar code of the index maps is most of what is left. But a grid gives each sequence as many steps
# as the longest needs, whereas copies by hand stop where a sequence stops. Such a kernel still waits for the latency of
# its copies. Two to three blocks must be in flight to keep the memory busy, but at the start of a sequence there are
# none, unless the kernel has requested them while computing the previous sequence.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A model has 24 layers and 4 KV heads of 128 elements, in bfloat16. How many bytes does it keep for each
# token?</summary> 2 x 24 x 4 x 128 elements of two bytes, 49,152 bytes.</details>
#
# <details><summary>2. Why does a larger batch write more tokens in a second, and why does the gain level off?</summary>
# The weights are read once for the whole batch. The KV cache is read separately for each sequence, so once it takes
# longer than the weights, time grows nearly in proportion to the number of sequences, and the tokens per second level
# off.</details>
#
# <details><summary>3. A kernel masks the scores behind the last token with -inf, and its result is NaN all the same.
# What did it forget?</summary> It did not clean the values. Their weights are 0, but 0 * NaN is NaN.</details>
#
# <details><summary>4. Pages of 32 KiB arrive 1,200 cycles after they were requested, and the memory delivers 546 bytes
# a cycle. How many pages have to be in flight?</summary> 1,200 x 546 / 32,768, which is 20.</details>
#
# <details><summary>5. Your kernel copies by hand, and waits for copies for a third of its time. The ring has enough
# slots. Where do you look?</summary> Look at the beginning of each sequence, where the ring is empty. Request the next
# sequence's first blocks before this one is finished.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 14](../exercises/14_paged_attention.ipynb). You write the kernel and repair a ring of
# copies. In an optional exercise, many sequences begin with the same prompt, and you read it only once.
#
# ## Further
#
# Of the exercises only 14.8 needs a part of what follows, "The call of a server".
#
# ### How fast does it write?
#
# How many tokens a second does the model of the opening write with these kernels? A step reads the weights, and then
# runs 32 layers of attention. We assume that XLA's matmuls take as long as reading their weights, because for eight
# rows there is little else to do. For the cache, the next cell compiles the four kernels for eight sequences of 8,192
# tokens. **Predict** the tokens per second with the first kernel and with the library's.

# %% tags=["predict"]
eight = arguments([8192] * 8)
of_weights, of_cache = step_seconds(8, 8192)
print(f"bound: {8 / (of_weights + of_cache):.0f} tokens/s")
steps = {}
for name, fn in ways.items():
    steps[name] = of_weights + LAYERS * compiler.compile_tpu(fn, *eight).seconds
    share = (steps[name] - of_weights) / steps[name]
    print(f"{name:16} {8 / steps[name]:4.0f} tokens/s, attention is {share:3.0%} of a step")

# %% [markdown]
# The first kernel reaches less than a quarter of the tokens per second that bandwidth allows, and the library's kernel
# reaches all of them. The picture shows the same, with a bar for one step with each kernel:

# %% tags=["folded"]
plt.rcParams.update(viz.PLOT_STYLE)
fig, ax = plt.subplots(figsize=(7, 2.8))
for row, step in enumerate(steps.values()):
    ends = 1e3 * np.array([0, of_weights, of_weights + of_cache, step])
    labels = "bytes of the weights", "bytes of the cache", "what the kernel adds"
    for n, label in enumerate(labels):
        width = ends[n + 1] - ends[n]
        ax.barh(row, width, left=ends[n], color=f"C{n}", label=None if row else label)
    ax.text(ends[-1], row, f" {8 / step:.0f} tokens/s", va="center")
ax.set_yticks(range(len(steps)), steps)
ax.set(
    xlabel="ms a step, attention predicted (compiler)",
    xlim=(0, 1.15 * 1e3 * max(steps.values())),
)
ax.invert_yaxis()
ax.legend(loc="lower right")
ax.grid(axis="y", visible=False)
viz.plot_picture(
    fig,
    "Most of a step with the first kernel is what that kernel adds to the time of the bytes. "
    "With the library's kernel, the bytes of weights and cache are nearly all of the step.",
)

# %% [markdown]
# ### A model that writes
#
# Does a model write the right words with these kernels? Below, a model of two layers with random weights decodes two
# sequences with the kernel, in pages that begin as NaN. For comparison, the same model also uses plain softmax, on an
# array with room for the longest sequence. `keep` puts the newest token's keys and values where they belong: in pages,
# that is page `length // PAGE` of its row, at place `length % PAGE`.


# %%
def small_model(layers=2, width=128, heads=2, group=2, words=61):
    """Return random weights: of the words, of the layers, and of the output."""

    def drawn_weights(n, *shape):
        weights = jax.random.normal(jax.random.key(n), shape)
        return weights / math.sqrt(math.prod(shape[:-1]) if n % 6 == 3 else shape[0])

    shapes = [
        (width, heads, group, D),
        (width, heads, 2 * D),
        (heads, group, D, width),
        (width, 4 * width),
        (4 * width, width),
    ]
    made = [
        [drawn_weights(6 * n + i + 1, *shape) for i, shape in enumerate(shapes)]
        for n in range(layers)
    ]
    return drawn_weights(0, words, width) * 8, made, drawn_weights(6 * layers, width, words)


def next_words(model, words, caches, lengths, keep, attend):
    """Return the next word of each sequence, and the caches with ``words`` in them."""
    embedding, layers, of_words = model
    x, kept = embedding[words], []
    for (of_q, of_kv, of_o, up, down), cache in zip(layers, caches, strict=True):
        normed = x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True))
        q = jnp.einsum("bc,chgd->bhgd", normed, of_q)
        kept.append(keep(cache, jnp.einsum("bc,chw->bhw", normed, of_kv), lengths))
        x = x + jnp.einsum("bhgd,hgdc->bc", attend(q, kept[-1], lengths + 1), of_o)
        x = x + jax.nn.relu(x @ up) @ down
    return jnp.argmax(x @ of_words, axis=1), kept


def written(model, prompts, count, caches, keep, attend):
    """Feed the prompts word by word, then let the model write ``count`` words for each."""
    step = jax.jit(functools.partial(next_words, keep=keep, attend=attend))
    found, words = [], prompts[:, 0]
    for n in range(prompts.shape[1] + count - 1):
        lengths = jnp.full(len(prompts), n, jnp.int32)
        words, caches = step(model, words, caches, lengths)
        if n + 1 < prompts.shape[1]:
            words = prompts[:, n + 1]
        else:
            found.append(words)
    return np.stack(found, axis=1)


model = small_model()
prompts = jax.random.randint(jax.random.key(2), (2, 8), 0, 61)
table, sequence = jnp.array(table_of([8 + 12] * 2, np.array([2, 0, 3, 1]))), jnp.arange(2)


def keep_in_page(cache, rows, at):
    return cache.at[table[sequence, at // PAGE], :, at % PAGE].set(rows)


def attend_pages(q, cache, lengths):
    return by_hand(q, cache, lengths, table, count=1)


def keep_in_row(cache, rows, at):
    return cache.at[sequence, :, at].set(rows)


in_pages = [jnp.full((4, 2, PAGE, 2 * D), jnp.nan)] * 2
in_rows = [jnp.zeros((2, 2, 8 + 12, 2 * D))] * 2
by_kernel = written(model, prompts, 12, in_pages, keep_in_page, attend_pages)
by_softmax = written(model, prompts, 12, in_rows, keep_in_row, over_rows)
print(by_kernel)
print("the same words:", (by_kernel == by_softmax).all())

# %% [markdown]
# All words are equal. In a real server the table grows while the model writes: a sequence gets a page when its last one
# is full, and its pages are free again when it has ended. Lengths and table are data, so the kernel is not recompiled
# as long as the table has columns for the longest text allowed.
#
# ### The call of a server
#
# A server calls this kernel through a standard interface. Its steps do not only decode: while some sequences generate
# one token each, others process a prompt, and every token of that prompt has a query. `ragged_paged_attention`, which
# vLLM has used on TPUs since its V1 engine, handles both in one batch. JAX ships a version of it
# (`jax.experimental.pallas.ops.tpu`), and the library has a function with the same arguments
# (`course_lib.kernels.paged_attention_wrappers`). Ours is meant for decoding: it reads the pages once for every query,
# so long prompts are correct but slow. The arguments are:
#
# - `q`: the queries of all sequences, one after another: as many rows as there are tokens in this step
# - `kv_pages`: the pages; for each token they hold key and value of every head, interleaved: k0, v0, k1, v1
# - `kv_lens`: for each sequence, the tokens that it has in its pages, those of this step among them
# - `page_indices`: the page table
# - `cu_q_lens`: where the rows of each sequence begin in q; the last entry that counts is the number of rows
# - `num_seqs`: how many sequences there are, because the lists have room for more
#
# A query of a prompt sees the tokens up to its own. **Predict** for three sequences, a prompt of 7 tokens and two that
# write one token each after 20 and 33 tokens: what are `kv_lens` and `cu_q_lens`?

# %% tags=["predict"]
from course_lib.kernels import paged_attention_wrappers

before, new = (
    np.array([0, 20, 33]),
    np.array([7, 1, 1]),
)  # tokens in the pages, tokens of this step
kv_lens, cu_q_lens = before + new, np.concatenate([[0], np.cumsum(new)])
print("kv_lens  ", kv_lens)
print("cu_q_lens", cu_q_lens)

table = table_of(kv_lens)
keys = jax.random.split(jax.random.key(4), 2)
q = jax.random.normal(keys[0], (cu_q_lens[-1], 4, D))
kv_pages = jax.random.normal(keys[1], (table.max() + 1, PAGE, 2 * 2, D))  # two KV heads
o = paged_attention_wrappers.ragged_paged_attention(
    q, kv_pages, *map(jnp.int32, (kv_lens, table, cu_q_lens, [3])), sm_scale=D**-0.5
)
for row in (0, 6, 7, 8):
    b = int(np.searchsorted(cu_q_lens, row, side="right")) - 1
    seen = before[b] + row - cu_q_lens[b] + 1  # tokens up to its own
    rows = kv_pages[table[b]].reshape(-1, 2, 2, D)[:seen]
    s = jnp.einsum("hgd,thd->hgt", q[row].reshape(2, 2, D), rows[:, :, 0]) / math.sqrt(D)
    alone = jnp.einsum("hgt,thd->hgd", jax.nn.softmax(s, axis=-1), rows[:, :, 1])
    off = float(abs(o[row] - alone.reshape(4, D)).max())
    print(f"row {row}: sequence {b}, sees {seen:2} tokens; differs by {off:.0e}")

# %% [markdown]
# PyTorch/XLA and JAX have an older interface for decoding alone, `paged_attention(q, k_pages, v_pages, lengths,
# page_indices, pages_per_compute_block=...)`, with keys and values in two arrays. `pages_per_compute_block` is the
# `count` of this lesson: it changes the time, and the result only by rounding. The library's function of that name
# ignores both it and `megacore_mode`, which says how chips with two cores divide the work.
#
# ### Pages of bytes
#
# Bytes limit the kernel, so halve them: keep keys and values in int8, with two scales for each KV head, one for its
# keys and one for its values. A score is linear in the key, and the result is linear in the values, so both scales can
# be applied after the matmuls. **Predict** the time of the library's kernel for `even`.

# %% tags=["predict"]
scales = jax.ShapeDtypeStruct((2, KV_HEADS), jnp.float32)


def of_bytes(q, pages, lengths, table, scales):
    merged = q.reshape(q.shape[0], -1, D)
    return library.paged_attention(merged, pages, lengths, table, scales).reshape(q.shape)


for name, args in (("even", even), ("eight of 8,192", eight)):
    in_bytes = jax.ShapeDtypeStruct(args[1].shape, jnp.int8)
    report = compiler.compile_tpu(of_bytes, args[0], in_bytes, *args[2:], scales)
    us = bytes_us(args) / 2
    print(f"{name:14} int8: {report.seconds * 1e6:6.1f} us, the bytes alone {us:6.1f} us")

# %% [markdown]
# For `even`, int8 takes three quarters of the time of bfloat16, not half. The bytes alone would take 10.2 us, so now
# the cycles of the kernel decide, not its bytes. The eight long sequences take hardly longer than their bytes, which
# are half of what they are in bfloat16.
#
# ### How many sequences at once?
#
# The widget below repeats the arithmetic of the first cells, for the model of 8 billion parameters: how long one step
# takes by bandwidth alone. **Your task:** set the context to 2,048 tokens, and find the smallest number of sequences
# whose KV cache takes longer than the weights. Do they fit into the memory? Guess whether that number changes on a chip
# with twice the bandwidth, then choose another chip.
#
# <details><summary>Answers</summary>It is 30 sequences, and they fit: they have 61,440 tokens, and there is room for
# nearly 70,000. Another chip divides the time of the weights and the time of the cache by the same factor, so the
# number of sequences stays the same. Only the tokens per second change, and how many sequences fit.</details>

# %%
viz.token_meter(parameters, LAYERS, KV_HEADS, D)

# %% [markdown]
# ### What the figures of this lesson rest on
#
# The simulator reads every prefetched value as 0 (lesson 12). So the library computes the values that decide which
# blocks are copied or which code runs, and adds them to the loads. These are the lengths and, in the first two kernels,
# the table, which their index maps read. Each such load gets extra arithmetic. For `even` that is a few instructions a
# page. For a table in any order it would be many, and would be counted as scalar code of the kernel, which is why the
# pages of `even` follow one another. In the kernels that copy by hand the table only says where a copy begins, so
# nothing is added.
#
# The waits need a warning, too. The simulator serves copies that signal the same semaphore one after another. Copies
# with semaphores of their own overlap, as if each had the bandwidth for itself. The last cell shows it for eight pages:
# their copies cost 2,659 cycles on one semaphore and 1,711 on eight. Each slot of our ring has one semaphore, and each
# index map has one as well, so the waits of the two kinds of kernel come from different models. Do not rank two kernels
# of different kinds by their waits. The model favors the index maps, so where the ring is clearly ahead all the same,
# the conclusion is safe.
#
# The next cell combines the ragged lengths with the table of `even`. The difference is the cost of giving the simulator
# the ragged table.

# %%
sixteen = ways["16 pages a step"]
for name, args in (
    ("their own", ragged),
    ("that of even", (*even[:2], ragged[2], even[3])),
):
    report = compiler.compile_tpu(sixteen, *args)
    scalar = report.time_split["scalar"] / report.steps
    print(
        f"{name:12} table: {report.seconds * 1e6:4.1f} us, {scalar:,.0f} scalar cycles a step"
    )


# %%
def eight_copies(pages, semaphores):
    """Copy eight pages into VMEM at once, with one semaphore or eight."""

    def kernel(pages_ref, o_ref, buffer, sem):
        copies = [
            pltpu.make_async_copy(pages_ref.at[n], buffer.at[n], sem.at[n % semaphores])
            for n in range(8)
        ]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()
        o_ref[...] = buffer[0, 0, :8].astype(jnp.float32)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 2 * D), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[
            pltpu.VMEM((8, *pages.shape[1:]), pages.dtype),
            pltpu.SemaphoreType.DMA((semaphores,)),
        ],
    )(pages)


for semaphores in (1, 8):
    copying = functools.partial(eight_copies, semaphores=semaphores)
    waits = compiler.compile_tpu(copying, even[1]).time_split["DMA wait"]
    print(f"eight pages, semaphores: {semaphores}, {waits:,} cycles of waiting")
print(f"their bytes at full bandwidth: {block_bytes / bytes_a_cycle:,.0f} cycles")

# %% [markdown]
# <!-- next -->
