# %% [markdown]
# # Lesson 13: Flash attention
#
# *60 minutes, then 70 for the exercises. You need
# lesson 7 for the accumulator, lesson 8 for the online softmax and for skipped copies, and lesson 10 for `jax.custom_vjp`.
# You do not need a TPU; with one, the kernels also run on it.*
#
# *This lesson is a draft.*
#
# Attention is two matrix products with a softmax between them. For each of T queries it computes T scores, makes weights
# of them, and returns the weighted mean of T values. Below is attention as one would write it, for eight heads with 2048
# positions of 128 numbers. The compiler says how long it takes on a v5e, and the next line says how long its products
# alone would take. Run the cells.

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

from course_lib import chips, compiler, cost, grid, judges, viz

HEADS, T, D = 8, 2048, 128
v5e = chips.chip("v5e")


def plain(q, k, v):
    """Attention of q, k and v, each [heads, T, D]; scores and softmax in float32."""
    s = jnp.einsum("htd,hsd->hts", q, k, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(s / math.sqrt(q.shape[-1]), axis=-1)
    o = jnp.einsum("hts,hsd->htd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return o.astype(q.dtype)


# %%
x = jax.ShapeDtypeStruct((HEADS, T, D), jnp.bfloat16)
unfused = compiler.compile_tpu(plain, x, x, x)
products = 2 * 2 * HEADS * T * T * D / v5e.bf16_flops
print(f"attention, compiled by XLA:  {unfused.seconds * 1e6:5.1f} us, predicted (compiler)")
print(f"its products at the peak:    {products * 1e6:5.1f} us")

# %% [markdown]
# **Where do the other 260 us go?** Write down a guess before you go on: to the exponentials, of which there are 34 million?
# To the memory, because the scores of one layer take 134 MB in float32? To the products, which may not reach the peak? At
# the end you will have a kernel that takes 100 us, and for each of the steps that lead there, you will know what it saved
# and why.
#
# After this lesson you can
# - compute attention without ever writing a score to HBM,
# - derive the update of the online softmax, and say what has to be kept for each query,
# - read from the compiler's report which unit an attention kernel waits for, and give it more to do,
# - skip the half of the work that a causal mask rules out, together with its copies,
# - write the backward pass from two numbers for each query,
# - say when none of this helps.
#
# ## What the scores cost
#
# The arrays that attention reads and writes are small: q, k, v and o have T x D numbers for each head. The scores have T x T.
# **Predict:** by how much do the bytes exceed those of q, k, v and o, if the scores are written in float32, read for the
# softmax, and the weights are written and read in bfloat16?

# %% tags=["predict"]
arrays = 4 * HEADS * T * D * 2
scores = HEADS * T * T * (4 + 4 + 2 + 2)
for name, moved in [
    ("q, k, v and o", arrays),
    ("scores and weights", scores),
    ("XLA moves", unfused.hbm_bytes),
]:
    print(
        f"{name:18} {moved / 1e6:6.1f} MB, {moved / v5e.hbm_bandwidth * 1e6:6.1f} us at least"
    )

# %% [markdown]
# XLA fuses a part of this, and what it moves is still many times what the arguments have. At full bandwidth, moving it
# takes as long as the whole computation, so the memory is what XLA's version waits for. A kernel can do better if a block
# of scores never leaves VMEM: compute it, make weights of it, multiply by the values, and forget it. One thing stands in
# the way. The softmax of a row needs the sum over the *whole* row, and its largest score, before the first weight is known.
#
# ## Online softmax, once more
#
# Lesson 8 solved that for sums of exponentials. Keep the largest score so far, m, and the sum l of exp(s - m). When a new
# block has a larger maximum, what was summed so far is too large by a known factor, so multiply it by exp(m_old - m_new). The
# weighted sum of the values is such a sum as well. So three things are kept for each query:
#
# - m, the largest score so far,
# - l, the sum of exp(s - m) so far,
# - acc, the sum of exp(s - m) times the values so far.
#
# Compute the three numbers after each block of the row below by hand, with blocks of three keys: scores 1, 3, 2, then 5, 1,
# 1; the values are 1, 2, 3, 4, 5, 6. Then step through it. Change a score and watch what is rescaled.

# %%
viz.softmax_stepper([1.0, 3.0, 2.0, 5.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], block=3)

# %% [markdown]
# The last step divides: o = acc / l. Nothing in this depends on the order of the blocks, or on their size, which you can
# check in NumPy.

# %%
rng = np.random.default_rng(0)
row, value = 4 * rng.normal(size=64), rng.normal(size=64)


def online(blocks):
    m, total, acc = -np.inf, 0.0, 0.0  # total is l
    for at in blocks:
        new = max(m, row[at].max())
        shrink, p = np.exp(m - new), np.exp(row[at] - new)
        m, total, acc = new, total * shrink + p.sum(), acc * shrink + (p * value[at]).sum()
    return acc / total


exact = (np.exp(row) * value).sum() / np.exp(row).sum()
for name, order in [("8 blocks of 8", np.arange(64)), ("mixed", rng.permutation(64))]:
    print(f"{name:14} differs by {abs(online(order.reshape(8, 8)) - exact):.0e}")

# %% [markdown]
# ## The kernel
#
# A grid of three axes: the head, the block of queries i, the block of keys j. The last axis runs fastest, so m, l and acc
# stay in scratch while j goes through all keys. Two products stand in a step: queries times keys, and weights times values.
# Read `update` first, and find the lines that rescale what was summed before. What belongs to `causal` and `group` comes
# later.


# %%
def dot_of_rows(q, k):
    """q @ k.T, summed in float32."""
    dimensions = (((1,), (1,)), ((), ()))
    return jax.lax.dot_general(q, k, dimensions, preferred_element_type=jnp.float32)


def update(s, v_ref, m_ref, l_ref, acc_ref):
    """One block of scores: what was summed before is rescaled, and the block is added."""
    m_old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - (m if m.shape[1] == 1 else jnp.tile(m, (1, s.shape[1] // 128))))
    shrink = jnp.exp(m_old - m)
    of_values = jnp.dot(
        p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
    )
    m_ref[...] = m
    l_ref[...] = l_ref[...] * shrink + jnp.sum(p, axis=1, keepdims=True)
    acc_ref[...] = acc_ref[...] * shrink + of_values


def flash(q, k, v, bq=512, bk=512, lanes=1, causal="", group=1):
    """Attention, block by block; m and l are kept in ``lanes`` columns."""
    heads, t, d = q.shape

    def kernel(q_ref, k_ref, v_ref, o_ref, *kept):
        i, j = pl.program_id(1), pl.program_id(2)
        m_ref, l_ref, acc_ref = kept

        @pl.when(j == 0)
        def begin():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when(j <= i if causal.startswith("skips") else True)
        def work():
            s = dot_of_rows(q_ref[...], k_ref[...]) / math.sqrt(d)
            if causal:
                row, column = (
                    jax.lax.broadcasted_iota(jnp.int32, s.shape, a) for a in (0, 1)
                )
                s = jnp.where(j * bk + column <= i * bq + row, s, -jnp.inf)
            update(s, v_ref, m_ref, l_ref, acc_ref)

        @pl.when(j == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)

    def of_keys(h, i, j):
        return h // group, jnp.minimum(i, j) if causal == "skips copies" else j, 0

    queries = pl.BlockSpec((None, bq, d), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((None, bk, d), of_keys)
    statistic = pltpu.VMEM((bq, lanes), jnp.float32)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(heads, t // bq, t // bk),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        scratch_shapes=[statistic, statistic, pltpu.VMEM((bq, d), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(q, k, v)


def drawn(*shape):
    keys = jax.random.split(jax.random.key(0), 3)
    return [jax.random.normal(key, shape, jnp.bfloat16) for key in keys]


def verdict_on(fn, reference, *args):
    """What the first judge says that refuses."""
    refused = [v for v in judges.judge(fn, reference, *args) if v.passed is False]
    return refused[0] if refused else "no judge refuses it"


small = drawn(2, 256, 128)
print(verdict_on(functools.partial(flash, bq=128, bk=128), plain, *small))

# %% [markdown]
# It is right, and no score is ever in HBM. Is it fast? **Guess** the time for blocks of 128, 256 and 512: XLA's kernel took
# 348 us.

# %% tags=["predict"]
steps = {}
for size in (128, 256, 512):
    report = compiler.compile_tpu(functools.partial(flash, bq=size, bk=size), x, x, x)
    steps[f"blocks of {size}"] = report
    print(f"{size}: {report.seconds * 1e6:7.1f} us, {report.hbm_bytes / 1e6:5.0f} MB")

# %% [markdown]
# With small blocks it is four times *slower* than XLA, although it moves half of the bytes, and with large ones it moves a
# seventh and takes two thirds of the time. The memory is no longer what it waits for, and something else is. The rest of
# the lesson is about finding out what.
#
# ## Which unit is it waiting for?
#
# A v5e core has several units that work at the same time: the MXU multiplies matrices, the VPU adds and compares, the EUP
# computes exponentials, the XLU moves numbers between lanes. For attention the MXU should be the busy one. The report says
# which share of its instruction slots each unit has filled. In the picture, **look for** the unit that is busiest in each
# version.


# %%
def slots_of(reports, title):
    units = ("MXU", "VPU", "EUP", "XLU", "store")
    plt.rcParams.update(viz.PLOT_STYLE)
    fig, ax = plt.subplots()
    for n, (name, report) in enumerate(reports.items()):
        places = np.arange(len(units)) + (n - (len(reports) - 1) / 2) * 0.8 / len(reports)
        filled = [round(100 * report.slots.get(unit, 0)) for unit in units]
        ax.bar(places, filled, 0.8 / len(reports), label=name)
    ax.set(title=title, ylabel="% of the slots", ylim=(0, 100))
    ax.set_xticks(range(len(units)), units)
    ax.legend()
    return viz.plot_picture(
        fig, "Filled slots by unit, for each version, from the compiler's program."
    )


slots_of(steps, "Three sizes of blocks")

# %% [markdown]
# Even with blocks of 512 the MXU fills a little more than a third of its slots, and the XLU nearly as many. What do we need
# the XLU for? A row of scores lies along the lanes, so its maximum takes a reduction across lanes. That one is needed. But
# there is another: m and l have one number for each row, in one lane, and wherever they meet the scores, the XLU has to
# copy that lane to the other 127. Lesson 8 had this under *One maximum per row*. The cure costs nothing: keep the same
# number in all 128 lanes, so that it meets the scores register by register. **Predict** how much time this saves. It
# changes one argument.

# %% tags=["predict"]
in_all_lanes = compiler.compile_tpu(functools.partial(flash, lanes=128), x, x, x)
versions = {"one lane": steps["blocks of 512"], "all lanes": in_all_lanes}


def line(report):
    """Time and two units, for a table."""
    mxu, xlu = (report.slots[unit] for unit in ("MXU", "XLU"))
    return f"{report.seconds * 1e6:6.1f} us, MXU {mxu:.0%}, XLU {xlu:.0%}"


for name, report in versions.items():
    print(f"{name:10} {line(report)}")

# %% [markdown]
# ## No walls
#
# What else keeps the MXU waiting? In a step the two products and the softmax depend on each other: scores, then the
# maximum, then exponentials, then the product with the values. While the VPU and the EUP work on the exponentials of *this*
# block, the MXU could work on the scores of the *next*. The compiler may reorder instructions like that, but only within
# straight-line code. A grid step is a wall: nothing of the next step begins before this one has ended. A `pl.when` is a
# wall, too.
#
# So give it more straight-line code. The keys and values of a head fit into VMEM, 512 KiB each. The kernel below takes them
# whole, has no third grid axis, and writes the loop over blocks of keys out in Python. m, l and acc become plain values: no
# scratch, no `pl.when`. **Guess** its time.


# %% tags=["predict"]
RATE = math.log2(math.e) / math.sqrt(D)  # exp(s / sqrt(D)) is exp2(s * RATE)


def straight(q, k, v, bq=512, bk=512, by_lanes=False, causal=False, group=1):
    """Attention with all keys of a head in VMEM; ``by_lanes`` adds up l at the end."""
    heads, t, d = q.shape

    def rows(q_ref, k_ref, v_ref, o_ref, blocks):
        m = jnp.full((bq, 128), -jnp.inf, jnp.float32)  # of each row, in all lanes
        sums, acc = jnp.zeros((bq, 128), jnp.float32), jnp.zeros((bq, d), jnp.float32)
        for j in range(blocks):
            keys = pl.ds(j * bk, bk)
            s = dot_of_rows(q_ref[...], k_ref[keys])
            if causal and j == blocks - 1:
                row, column = (
                    jax.lax.broadcasted_iota(jnp.int32, s.shape, a) for a in (0, 1)
                )
                s = jnp.where(column <= row, s, -jnp.inf)
            new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))
            p = jnp.exp2((s - jnp.tile(new, (1, bk // 128))) * RATE)
            shrink = jnp.exp2((m - new) * RATE)
            parts = [p[:, lane : lane + 128] for lane in range(0, bk, 128)]
            sums = sums * shrink + (
                sum(parts) if by_lanes else jnp.sum(p, axis=1, keepdims=True)
            )
            of_values = jnp.dot(
                p.astype(v.dtype), v_ref[keys], preferred_element_type=jnp.float32
            )
            m, acc = new, acc * shrink + of_values
        total = jnp.sum(sums, axis=1, keepdims=True) if by_lanes else sums
        o_ref[...] = (acc / total).astype(o_ref.dtype)

    def kernel(q_ref, k_ref, v_ref, o_ref):
        refs = q_ref, k_ref, v_ref, o_ref
        if not causal:
            rows(*refs, blocks=t // bk)
            return
        for i in range(t // bq):  # each block of queries has a program of its own
            pl.when(pl.program_id(1) == i)(functools.partial(rows, *refs, blocks=i + 1))

    queries = pl.BlockSpec((None, bq, d), lambda h, i: (h, i, 0))
    keys = pl.BlockSpec((None, t, d), lambda h, i: (h // group, 0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(heads, t // bq),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(q, k, v)


print(verdict_on(functools.partial(straight, bq=128, bk=128), plain, *small))

# %% tags=["predict"]
larger = functools.partial(flash, lanes=128, bq=1024, bk=1024)
ladder = {
    "XLA": unfused,
    "blocks of 512": steps["blocks of 512"],
    "m and l in all lanes": in_all_lanes,
    "blocks of 1024": compiler.compile_tpu(larger, x, x, x),
    "straight-line code": compiler.compile_tpu(straight, x, x, x),
    "l added up at the end": compiler.compile_tpu(
        functools.partial(straight, by_lanes=True), x, x, x
    ),
}
for name, report in ladder.items():
    print(f"{name:22} {line(report)}")
print(f"{'products at the peak':22} {products * 1e6:6.1f} us")

# %% [markdown]
# Three of these versions side by side: **look for** the bar of the MXU.

# %%
chosen = ("blocks of 512", "m and l in all lanes", "l added up at the end")
slots_of({name: ladder[name] for name in chosen}, "From waiting to multiplying")

# %% [markdown]
# In straight-line code the MXU fills nine of ten slots. Larger blocks help for the same reason, a little: there is more
# code between two walls. The last line is an idea like the lanes of m: l may stay a sum for each lane until the end, which
# saves the XLU a reduction in every block. It does save a third of the XLU's slots, and no time at all, because nobody
# waits for the XLU any more. Before you make a unit's work cheaper, ask whether it is the one that the others wait for.
#
# The exponentials are all still there, and the kernel takes little longer than its products: most of them are computed
# while the MXU is busy. **The units have to work at the same time, and that takes independent work without a wall between
# it.**
#
# ## Causal attention
#
# In a language model a query may look only at the keys up to its own position. Then half of the scores do not count. Most
# blocks are either full, and need no mask, or are skipped as a whole. Only those on the diagonal need a mask.

# %%
viz.block_map(2048, 2048, 512, 512, causal=True)

# %% [markdown]
# How much of the time does that save? There are three things to do about a block that does not count. One can mask it. One
# can skip its work with `pl.when`. And one can skip its copies with an index map that stays where it is, as in lesson 8:
# `jnp.minimum(i, j)`. **Predict** the order of the four times, and which step saves the most: masking everything, skipping
# work, skipping copies too, and straight-line code that never mentions the blocks that do not count.


# %% tags=["predict"]
def plain_causal(q, k, v):
    s = jnp.einsum("htd,hsd->hts", q, k, preferred_element_type=jnp.float32)
    row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, a) for a in (1, 2))
    p = jax.nn.softmax(
        jnp.where(column <= row, s / math.sqrt(q.shape[-1]), -jnp.inf), axis=-1
    )
    o = jnp.einsum("hts,hsd->htd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return o.astype(q.dtype)


causal = {
    name: functools.partial(flash, lanes=128, causal=name)
    for name in ("masked", "skips work", "skips copies")
}
causal["straight-line code"] = functools.partial(straight, by_lanes=True, causal=True)
for name, fn in causal.items():
    verdict = verdict_on(functools.partial(fn, bq=128, bk=128), plain_causal, *small)
    report = compiler.compile_tpu(fn, x, x, x)
    print(
        f"{name:18} {report.seconds * 1e6:6.1f} us, {report.hbm_bytes / 1e6:4.0f} MB, "
        f"MXU {report.slots['MXU']:.0%}: {verdict}"
    )

# %% [markdown]
# Skipping work saves less than one might hope, because a step that does nothing still waits for its copies. When those are
# skipped too, it saves twice as much. Straight-line code wins again, for the same reason as before. There, every block of
# queries has a program of its own, under a `pl.when`, so the walls are few, and blocks above the diagonal do not occur.
#
# ## What the backward pass needs
#
# The gradient of a softmax needs its weights, and there are T x T of them. Keep them, and all that was saved is lost.
# Recompute them? From q and k come the scores, and from a score the weight, if one knows m and l of its row. In fact one
# number is enough, their *log-sum-exp*: p = exp(s) / sum(exp(s)) = exp(s - lse).
#
# > **log-sum-exp** (lse): log(sum(exp(s))) of a row, which is m + log(l). With it, a weight is exp(s - lse).
#
# So the forward kernel keeps T numbers for each head beside o. With the cotangent g of o, and the names of lesson 10:
#
# - dv = p^T g
# - dp = g v^T
# - ds = p (dp - delta), where delta is the sum of o * g for each query
# - dq = ds k and dk = ds^T q, both times the scale 1 / sqrt(D)
#
# Where does delta come from? A weight can only grow at the cost of the others in its row, since they add up to 1. The
# gradient of a softmax is p (dp - sum(p dp)), and the sum over the keys of p dp is the sum over d of o g, which is much
# cheaper. Check all of it in plain JAX, in float32.


# %%
def backward(q, k, v, o, lse, g):
    """dq, dk and dv of attention, from what the forward kernel keeps."""
    scale = 1 / math.sqrt(q.shape[-1])
    s = jnp.einsum("htd,hsd->hts", q, k) * scale
    p = jnp.exp(s - lse[:, :, None])
    delta = jnp.sum(o * g, axis=-1, keepdims=True)
    ds = p * (jnp.einsum("htd,hsd->hts", g, v) - delta)
    dq, dk = jnp.einsum("hts,hsd->htd", ds, k), jnp.einsum("hts,htd->hsd", ds, q)
    return scale * dq, scale * dk, jnp.einsum("hts,htd->hsd", p, g)


q, k, v, g = (
    jax.random.normal(key, (2, 64, 128)) for key in jax.random.split(jax.random.key(1), 4)
)
o, pull_back = jax.vjp(plain, q, k, v)
lse = jax.nn.logsumexp(jnp.einsum("htd,hsd->hts", q, k) / math.sqrt(128), axis=-1)
for name, ours, jaxs in zip(
    ("dq", "dk", "dv"), backward(q, k, v, o, lse, g), pull_back(g), strict=True
):
    print(f"{name} is right: {bool(jnp.allclose(ours, jaxs, atol=1e-4))}")
kept, weights = HEADS * T * 4, HEADS * T * T * 2
print(
    f"lse of {HEADS} heads of {T}: {kept / 1e3:.0f} KB; their weights: {weights / 1e6:.0f} MB"
)

# %% [markdown]
# In kernels, dq is a sum over keys, and dk and dv are sums over queries. Lesson 10 has the rule: the axis of the sum goes
# last, so they want different grids. You will write both in exercises 13.5 and 13.6. No row maximum is needed any more, so
# nothing in a step has to wait for a reduction across lanes; that makes backward kernels the easier ones to make fast.
#
# ## Grouped queries
#
# Many models let several query heads share one head of keys and values. For the kernel that is an index map: `h // group`
# for k and v. The heads of a group follow each other, so in the straight-line kernel, where k and v of a head are one
# block, the copy is skipped for all but the first. **Predict** the bytes of k and v in both kernels: 8 query heads on 2
# heads of keys.

# %% tags=["predict"]
shared = jax.ShapeDtypeStruct((2, T, D), jnp.bfloat16)
for name, kv, group in [("a head for each", x, 1), ("8 on 2", shared, 4)]:
    print(f"{name}: {2 * kv.size * 2 / 1e6:.1f} MB of k and v stored", end=", moved: ")
    for fn in (flash, straight):
        rows = cost.traffic(grid.walk(functools.partial(fn, group=group), x, kv, kv))
        moved = sum(row.bytes for row in rows if row.name in ("k_ref", "v_ref"))
        print(f"{fn.__name__} {moved / 1e6:.1f} MB", end="; ")
    print()

# %% [markdown]
# The first kernel reads all keys anew for every block of queries of every head, so its bytes stay the same. Only the
# straight-line kernel, which keeps the keys of a head in VMEM, moves four times fewer. What shrinks in both is the cache
# that has to be stored, and that is why models do it.
#
# ## When it does not help
#
# A fused kernel saves bytes that grow with T x T. When T is small, there are few to save. And when there is one query
# instead of T, as in a model that writes a text word by word, the scores are a single row, and what has to be read is the
# cache of keys and values: the kernel is bound by HBM, whatever it does with its scores. Lesson 14 is about that case.

# %%
viz.attention_roof(heads=HEADS)

# %% [markdown]
# **Look for** the sequence length at which the fused line leaves the slanted HBM roof and becomes compute-bound, and how
# far above it the unfused line runs from there on.
#
# ## The guess
#
# XLA's version waits for the memory: what it moves takes all of its time at full bandwidth. But taking those bytes away did
# not make attention fast by itself. A kernel without them, in small blocks, was slower than XLA. What made it fast was to
# let the units work at the same time: statistics in the lanes where they are needed, larger blocks, and straight-line code
# that gives the compiler something to put beside each product.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. So far m is 2, l is 3 and acc is 6. A block comes with the scores 4 and 4 and the values 1 and 3.
# What are m, l and acc now?</summary> m is 4; l is 3 exp(-2) + 2, about 2.41; acc is 6 exp(-2) + 4, about 4.81.</details>
#
# <details><summary>2. Why does a mask use -inf, and not 0, and why before the maximum?</summary>
# exp(-inf) is 0, so the key does not count in l and acc. And a maximum over keys that do not count may be so large that
# all weights of those that do count become 0.</details>
#
# <details><summary>3. A causal kernel skips the work of half of its steps, and takes three quarters of the time. What is
# missing?</summary> An index map that stays where it is, so that the copies of those steps are skipped as well.</details>
#
# <details><summary>4. What does the forward pass keep for the backward pass, and how many numbers is that for T
# positions?</summary> q, k, v and o, and one log-sum-exp for each query: T numbers, and no T x T array.</details>
#
# <details><summary>5. Your attention kernel fills 40 % of the MXU's slots, and no other unit more. What do you try?</summary>
# Fewer walls: larger blocks, several blocks of keys in one step, no pl.when inside. The units are idle because they wait for
# each other.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 13](../exercises/13_flash_attention.ipynb). You write the update yourself, and then both
# gradients.
#
# <!-- next -->
