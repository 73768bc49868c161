# %% [markdown]
# # Lesson 13: Flash attention
#
# *60 minutes, then 80 for the exercises. The "Further" part is optional and not counted in these times. You need lesson 7
# for the accumulator, lesson 8 for the online softmax and for skipped copies, and lesson 10 for `jax.custom_vjp`. You do
# not need a TPU; with one, the kernels also run on it.*
#
# Attention is two matmuls with a softmax between them. Each of T queries is multiplied by T keys, which gives T
# scores. The softmax turns these scores, divided by sqrt(D), into T weights, and the result is the weighted mean of T
# values. Queries, keys and values are vectors of D elements. Below is attention as one would write it in JAX, for eight
# heads with 2048 positions of 128 elements. The compiler predicts how long it takes on a v5e, and the next line says
# how long its matmuls alone would take at the peak. Run the cells.

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
from course_lib.kernels import attention as library

HEADS, T, D = 8, 2048, 128
v5e = chips.chip("v5e")


def plain(q, k, v):
    """Return attention of q, k and v, each [heads, T, D]; scores and softmax in float32."""
    s = jnp.einsum("htd,hsd->hts", q, k, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(s / math.sqrt(q.shape[-1]), axis=-1)
    o = jnp.einsum("hts,hsd->htd", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return o.astype(q.dtype)


def arrays(heads, t, d=D):
    """Return the shapes of q, k and v, which are all the same."""
    return [jax.ShapeDtypeStruct((heads, t, d), jnp.bfloat16)] * 3


def matmul_us(heads, t):
    """Return the microseconds that the two matmuls take at the MXU's peak."""
    return 2 * 2 * heads * t * t * D / v5e.bf16_flops * 1e6


# %%
qkv = arrays(HEADS, T)
unfused = compiler.compile_tpu(plain, *qkv)
print(f"attention, compiled by XLA:  {unfused.seconds * 1e6:5.1f} us, predicted (compiler)")
print(f"its matmuls at the peak:     {matmul_us(HEADS, T):5.1f} us")

# %% [markdown]
# **Where do the other 260 us go?** Write down a guess before you go on. They could go to the exponentials, of which
# there are 34 million, to the memory, because the scores of the eight heads take 134 MB in float32, or to the matmuls,
# which may not reach the peak. At the end you will have a kernel that comes close to the second line, and you will know
# what each step on the way saved, and why.
#
# After this lesson you can
# - compute attention without ever writing a score to HBM,
# - derive the update of the online softmax, and say what has to be kept for each query,
# - read from the compiler's report what an attention kernel waits for, and remove it,
# - skip the blocks that a causal mask rules out, together with their copies,
# - write the backward pass from two values for each query instead of T weights,
# - say when none of this helps.
#
# ## What the scores cost
#
# The arrays that attention reads and writes are small: q, k, v and o have T x D elements for each head. The scores have
# T x T. **Predict** how many bytes the four arrays have, and how many move if the scores are written and read in
# float32, and the weights are written and read in bfloat16.

# %% tags=["predict"]
moved = {
    "q, k, v and o": 4 * HEADS * T * D * 2,
    "scores and weights": HEADS * T * T * (4 + 4 + 2 + 2),
    "XLA moves": unfused.hbm_bytes,
}
for name, bytes_ in moved.items():
    print(
        f"{name:18} {bytes_ / 1e6:6.1f} MB, {bytes_ / v5e.hbm_bandwidth * 1e6:6.1f} us at least"
    )

# %% [markdown]
# XLA fuses a part of this, and still moves 17 times as many bytes as the four arrays have. For each operation the
# report takes the longer of two times, the core's and that of the bytes at full bandwidth, and here the bytes take
# longer. How long would attention take if the scores never went to HBM? The scores of four heads take 67 MB in float32,
# so the compiler can keep them in VMEM, which has 128 MiB. With eight heads, the time per head is 348 / 8 = 43.5 us.
# **Predict** the time per head with four.

# %% tags=["predict"]
for heads in (4, 8):
    report = compiler.compile_tpu(plain, *arrays(heads, T))
    print(
        f"{heads} heads: {report.seconds * 1e6 / heads:5.1f} us and {report.hbm_bytes / 1e6 / heads:5.1f} MB a head"
    )

# %% [markdown]
# A head takes less than half of the time once its scores stay in VMEM. With eight heads, XLA's version waits for the
# memory for more than half of its time. But four heads of 2048 positions are a small problem. Twice the positions would
# have four times the scores, and those of a single head of 8192 positions take 268 MB. A kernel can do better if it
# never holds more than a *block* of scores: it computes the block, turns it into weights, multiplies them by the
# values, and forgets them. One thing stands in the way. A weight is exp(s - m) / l, where m is the largest score of the
# row and l is the sum of exp(s - m) over the row, and a single block is not enough to know either of them.
#
# ## Online softmax, once more
#
# Lesson 8 solved that for sums of exponentials. Keep the largest score so far, m, and the sum l of exp(s - m). When a
# new block has a larger maximum, multiply the old sum by exp(m_old - m_new), because its terms were computed with the
# old maximum. The weighted sum of the values needs the same correction. So the kernel keeps three values for each
# query, the last of them a vector of D elements:
#
# - m, the largest score so far,
# - l, the sum of exp(s - m) so far,
# - acc, the sum of exp(s - m) times the values so far.
#
# Take a row with the scores 1, 3, 2, 5, 1, 1 and the values 1 to 6, in blocks of three keys. Compute m, l and acc by
# hand after each block, then step through the row below. Change a score and watch what is rescaled.

# %%
viz.softmax_stepper([1.0, 3.0, 2.0, 5.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], block=3)

# %% [markdown]
# The last step divides: o = acc / l. Apart from rounding, the result depends neither on the order of the keys nor on the
# size of the blocks.
#
# ## The kernel
#
# The grid has three axes: the head, the block of queries i, and the block of keys j. The last axis runs fastest, so m,
# l and acc stay in scratch while j goes through all keys. A step has two matmuls, queries times keys and weights times
# values. Read `update` first: its last two lines multiply l and acc by `shrink` before they add the new block. The
# first block needs no special case, because m begins at -inf and `shrink` is then exp(-inf) = 0. With the default
# `lanes=1`, m and l are columns; we change that later. `vmem_limit_bytes` asks for more than the 16 MiB of VMEM that a
# kernel gets otherwise (lesson 5).


# %%
def dot_of_rows(q, k):
    """Return q @ k.T, summed in float32."""
    dimensions = (((1,), (1,)), ((), ()))
    return jax.lax.dot_general(q, k, dimensions, preferred_element_type=jnp.float32)


def update(s, v_ref, m_ref, l_ref, acc_ref):
    """Add one block of scores to l and acc, after rescaling both to the new maximum."""
    m_old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - (m if m.shape[1] == 1 else jnp.tile(m, (1, s.shape[1] // 128))))
    shrink = jnp.exp(m_old - m)
    of_values = jnp.dot(
        p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
    )
    m_ref[...] = m
    l_ref[...] = l_ref[...] * shrink + jnp.sum(p, axis=1, keepdims=True)
    acc_ref[...] = acc_ref[...] * shrink + of_values


def begin(m_ref, l_ref, acc_ref):
    """Set m to -inf, and the sums to 0."""
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)


def flash(q, k, v, bq=512, bk=512, lanes=1):
    """Return attention, block by block; m and l are kept in ``lanes`` columns, 1 or 128, and D is 128."""
    heads, t, d = q.shape

    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        j = pl.program_id(2)
        pl.when(j == 0)(lambda: begin(m_ref, l_ref, acc_ref))
        s = dot_of_rows(q_ref[...], k_ref[...]) / math.sqrt(d)
        update(s, v_ref, m_ref, l_ref, acc_ref)

        @pl.when(j == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)

    queries = pl.BlockSpec((None, bq, d), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((None, bk, d), lambda h, i, j: (h, j, 0))
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
    """Return the verdict of the first judge that refuses."""
    refused = [v for v in judges.judge(fn, reference, *args) if v.passed is False]
    return refused[0] if refused else "no judge refuses it"


small = drawn(2, 256, 128)
print(verdict_on(functools.partial(flash, bq=128, bk=128), plain, *small))

# %% [markdown]
# The kernel is right, and no score is ever in HBM. Is it fast? **Guess** the time for blocks of 128, 256 and 512. XLA's
# version takes 348 us.

# %% tags=["predict"]
steps = {
    size: compiler.compile_tpu(functools.partial(flash, bq=size, bk=size), *qkv)
    for size in (128, 256, 512)
}
for size, report in steps.items():
    print(f"{size}: {report.seconds * 1e6:7.1f} us, {report.hbm_bytes / 1e6:5.0f} MB")

# %% [markdown]
# With blocks of 128 the kernel is four times *slower* than XLA, although it moves half of the bytes, and with blocks of
# 256 it is still slower. With blocks of 512 it takes two thirds of XLA's time. It still moves more than the 17 MB of
# its arrays, because it reads all keys and values again for every block of queries, T / bq times. So the bytes of this
# kernel still grow with T x T, but divided by the size of a block.
#
# ## What does the kernel wait for?
#
# The compiler's report splits the cycles into those in which the core issues instructions ("issue") and those in which
# it waits. "MXU" and "XLU" are the times spent waiting for a result of that unit, and "scalar" is the time spent on the
# loop over the grid and on addresses; we leave out a few smaller ones. The table shows them for one grid step, beside
# the cycles that the two matmuls of the step take at the peak. **Look for** the reason why blocks of 128 are so slow.

# %%
WAITS = {
    "issue": "issue",
    "MXU": "MXU",
    "XLU": "XLU",
    "DMA wait": "copies",
    "scalar": "scalar",
}
print(
    "block   cycles a step" + "".join(f"{name:>8}" for name in WAITS.values()) + "  matmuls"
)
for size, report in steps.items():
    waits = [report.time_split.get(name, 0) / report.steps for name in WAITS]
    matmuls = 2 * size * size * D / (v5e.bf16_flops / 2 / v5e.clock_hz)
    row = "".join(f"{cycles:8,.0f}" for cycles in waits)
    print(f"{size:5} {report.cycles / report.steps:15,.0f}{row}{matmuls:9,.0f}")

# %% [markdown]
# A step with blocks of 128 takes 16 times as long as its matmuls. A quarter of that is waiting for copies. Half of the
# rest is waiting for results of the MXU and the XLU: the maximum needs the first matmul, the exponentials need the
# maximum, and the second matmul needs the exponentials. A step of 512 does 16 times as much work and waits only 1.6
# times as long for the two units: the wait for the MXU hardly grows, and the wait for the XLU does not even double. The
# step hardly waits for copies, so the memory no longer limits this kernel. Yet it takes 2.6 times as long as its
# matmuls: issue alone takes 1.7 times as long, and most of the rest is waiting for the XLU and the MXU.
#
# ## One value in 128 lanes
#
# The kernel uses the XLU in two ways. A row of scores lies along the lanes, so its maximum and its sum each take a
# reduction across lanes. Besides, m and l have one value for each row, which their refs store in a single lane.
# Whenever they are combined with the scores, the XLU has to copy that lane to the other 127. In VMEM, 128 lanes take no
# more room than one, because a register has 128 lanes anyway. So keep the same value in all of them; m and l then line
# up with the scores, register by register. (Lesson 8 shows this under "Further", for scores that are read from HBM.)
# **Predict** how much time this change of one argument saves.

# %% tags=["predict"]
in_all_lanes = compiler.compile_tpu(functools.partial(flash, lanes=128), *qkv)
for name, report in [("one lane", steps[512]), ("all lanes", in_all_lanes)]:
    issue, xlu = (report.time_split.get(key, 0) / report.steps for key in ("issue", "XLU"))
    print(
        f"{name:9} {report.seconds * 1e6:6.1f} us; a step waits {xlu:3.0f} cycles for the XLU and issues for {issue:,.0f}"
    )

# %% [markdown]
# This saves 88 of 226 us. The kernel no longer waits for the XLU at all, although it still reduces across lanes for the
# maxima and the sums, so other work hides these reductions. Copying lanes also took instructions, and without them a
# step issues for 555 fewer cycles.
#
# ## One basic block
#
# While the VPU and the EUP work on the exponentials of *this* block, the MXU could work on the scores of the *next*.
# The compiler does reorder instructions like that, but hardly beyond a basic block, as lesson 8 says. A grid step ends
# its basic block, so no computation of the next step begins before this step has ended. Only the copies for the next
# step begin earlier.
#
# So put several blocks of keys into one basic block. The keys and values of a head fit into VMEM, 512 KiB each. The
# kernel below takes them whole, has no third grid axis, and goes through the blocks of keys in a loop, with the same
# `update`. With `unroll=True` the four iterations become one basic block; with `unroll=1` each iteration is a basic
# block of its own. (The loop carries no value, because m, l and acc are in refs, so the compiler honors `unroll`.) In
# `attend`, read only `add` and the `fori_loop` now; the next two sections use `causal` and `lse`. **Guess** both times;
# the grid took 138 us.


# %% tags=["predict"]
def attend(blocks, bk, unroll, causal, q_ref, k_ref, v_ref, o_ref, *refs):
    """Write attention of a block of queries over the first blocks of keys, and its log-sum-exp if there is a ref."""
    *lse, m_ref, l_ref, acc_ref = refs
    begin(m_ref, l_ref, acc_ref)

    def add(j, _, masked=False):
        keys = pl.ds(pl.multiple_of(j * bk, bk), bk)
        s = dot_of_rows(q_ref[...], k_ref[keys]) / math.sqrt(q_ref.shape[1])
        update(above_diagonal(s) if masked else s, v_ref.at[keys], m_ref, l_ref, acc_ref)

    jax.lax.fori_loop(0, blocks - causal, add, None, unroll=unroll)
    if causal:  # the last block of keys lies on the diagonal
        add(blocks - 1, None, masked=True)
    o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)
    for lse_ref in lse:
        lse_ref[...] = (m_ref[...] + jnp.log(l_ref[...]))[:, :1].T


def above_diagonal(s, first_query=0, first_key=0):
    """Return the scores with -inf where the key comes after the query."""
    row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, a) for a in (0, 1))
    return jnp.where(first_key + column <= first_query + row, s, -jnp.inf)


def straight(q, k, v, bq=512, bk=512, unroll=True, causal=False, lse=False):
    """Return attention, with all keys of a head in VMEM; with ``lse`` also its log-sum-exp. ``causal`` needs bq == bk."""
    heads, t, d = q.shape

    def kernel(*refs):
        if not causal:
            attend(t // bk, bk, unroll, False, *refs)
            return
        for i in range(t // bq):  # each block of queries has a branch of its own

            @pl.when(pl.program_id(1) == i)
            def rows(i=i):
                attend(i + 1, bk, unroll, True, *refs)

    queries = pl.BlockSpec((None, bq, d), lambda h, i: (h, i, 0))
    keys = pl.BlockSpec((None, t, d), lambda h, i: (h, 0, 0))
    row = pl.BlockSpec((None, 1, bq), lambda h, i: (h, 0, i))
    statistic = pltpu.VMEM((bq, 128), jnp.float32)
    return pl.pallas_call(
        kernel,
        out_shape=[q, jax.ShapeDtypeStruct((heads, 1, t), jnp.float32)] if lse else q,
        grid=(heads, t // bq),
        in_specs=[queries, keys, keys],
        out_specs=[queries, row] if lse else queries,
        scratch_shapes=[statistic, statistic, pltpu.VMEM((bq, d), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(q, k, v)


print(verdict_on(functools.partial(straight, bq=128, bk=128), plain, *small))

# %% tags=["predict"]
ladder = {
    "XLA": unfused,
    "blocks of 512": steps[512],
    "m and l in all lanes": in_all_lanes,
    "a loop in the step": compiler.compile_tpu(functools.partial(straight, unroll=1), *qkv),
    "one basic block": compiler.compile_tpu(straight, *qkv),
    "the library's": compiler.compile_tpu(library.flash_attention, *qkv),
}
print(f"{'':22} {'us':>6}  of the MXU's peak")
for name, report in ladder.items():
    us = report.seconds * 1e6
    print(f"{name:22} {us:6.1f}  {matmul_us(HEADS, T) / us:4.0%}")

for name in ("a loop in the step", "one basic block"):
    waits = [
        f"{word} {ladder[name].time_split.get(key, 0) / ladder[name].steps:,.0f}"
        for key, word in list(WAITS.items())[:4]
    ]
    print(f"cycles a step, {name}: {', '.join(waits)}")

# %% [markdown]
# The grid, the loop and the basic block go through the same blocks with the same `update`. The loop takes a tenth less
# time than the grid, because it has no grid step between the blocks of keys. When it is unrolled into one basic block,
# it takes another sixth less. The library's kernel has all 16 blocks of a head in one basic block. It also folds the
# scale into an exp2, keeps l as one partial sum per lane that it adds up once at the end, and computes the scores of
# the next block before the softmax of this one.
#
# In one basic block the compiler fills the gaps of an iteration with matmuls of its neighbors (a picture under
# "Further" shows where). A step therefore issues for 4,347 cycles instead of 4,874, and waits 210 cycles for results of
# the MXU instead of 444.
#
# **The units have to work at the same time, and for that the compiler needs independent work within one basic block.**
#
# ## Causal attention
#
# In a language model a query may look only at the keys up to its own position, so about half of the scores are masked.
# Most blocks are either full or masked as a whole; only those on the diagonal need a mask. **Look for** how many blocks
# of each kind there are.

# %%
viz.block_map(2048, 2048, 512, 512, causal=True)

# %% [markdown]
# Six of the sixteen blocks are masked as a whole. A kernel can mask such a block, it can skip the work with `pl.when`,
# or it can skip the copies too, with an index map that stays at the last block needed, as in lesson 8. If queries and
# keys have blocks of the same size, this is block `jnp.minimum(i, j)`. The kernel below is `flash` with the mask of
# `above_diagonal`. Its arguments `works` and `keys_of` say in which steps it works, and which block of keys a step has.
# Without a mask, this kernel takes 138 us, and ten sixteenths of that are 86 us. **Predict** the three times.


# %% tags=["predict"]
def flash_causal(q, k, v, works, keys_of, last_first=False, bq=512, bk=512):
    """Return causal attention, block by block, from the first block of keys or from the last."""
    (heads, t, d), blocks = q.shape, q.shape[1] // bk

    def block(step):
        return blocks - 1 - step if last_first else step

    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        i, step = pl.program_id(1), pl.program_id(2)
        pl.when(step == 0)(lambda: begin(m_ref, l_ref, acc_ref))

        @pl.when(works(i, block(step)))
        def work():
            s = dot_of_rows(q_ref[...], k_ref[...]) / math.sqrt(d)
            s = above_diagonal(s, i * bq, block(step) * bk)
            update(s, v_ref, m_ref, l_ref, acc_ref)

        @pl.when(step == blocks - 1)
        def store():
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)

    queries = pl.BlockSpec((None, bq, d), lambda h, i, step: (h, i, 0))
    keys = pl.BlockSpec((None, bk, d), lambda h, i, step: (h, keys_of(i, block(step)), 0))
    statistic = pltpu.VMEM((bq, 128), jnp.float32)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(heads, t // bq, blocks),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        scratch_shapes=[statistic, statistic, pltpu.VMEM((bq, d), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 << 20),
    )(q, k, v)


def plain_causal(q, k, v):
    s = jnp.einsum("htd,hsd->hts", q, k, preferred_element_type=jnp.float32)
    s = jax.vmap(above_diagonal)(s / math.sqrt(D))
    o = jnp.einsum("hts,hsd->htd", jax.nn.softmax(s).astype(v.dtype), v)
    return o.astype(q.dtype)


def priced(fn):
    """Return what a causal kernel takes, and what its judges say, in a line."""
    report = compiler.compile_tpu(fn, *qkv)
    waits = report.time_split["DMA wait"] / v5e.clock_hz * 1e6
    verdict = verdict_on(functools.partial(fn, bq=128, bk=128), plain_causal, *small)
    return (
        f"{report.seconds * 1e6:6.1f} us, {waits:4.1f} of them for copies, "
        f"{report.hbm_bytes / 1e6:3.0f} MB: {verdict}"
    )


stays = {"works": lambda i, j: j <= i, "keys_of": lambda i, j: jnp.minimum(i, j)}
ways = {
    "masked": {"works": lambda i, j: j >= 0, "keys_of": lambda i, j: j},
    "skips work": {"works": stays["works"], "keys_of": lambda i, j: j},
    "skips copies": stays,
}
for name, way in ways.items():
    print(f"{name:13} {priced(functools.partial(flash_causal, **way))}")

# %% [markdown]
# Skipping work saves only 15 of 140 us, because the kernel now waits 28 us longer for copies. Skipping copies removes a
# third of the wait. The rest probably remains because the empty steps come last in a row of blocks. The pipeline starts
# a copy one step ahead, so the next block of queries and its first keys and values are requested in an empty step,
# which is over long before they arrive. If this explanation is right, the wait should shrink when the empty steps come
# *first*, so we go through the keys from the last block to the first. The online softmax allows any order, but in this
# order masked blocks must be skipped: if the first block of a row were masked as a whole, m would still be -inf, and
# exp(s - m) would be exp(-inf + inf), which is NaN. **Predict** how much of the wait remains.

# %% tags=["predict"]
reordered = functools.partial(flash_causal, last_first=True, **stays)
print(f"empty first   {priced(reordered)}")

# %% [markdown]
# Less than half of the wait remains, 10.3 of 21.9 us, although this order copies one more block of keys and values for
# each head. So skipping copies is not enough; the remaining copies need work to hide behind. The kernel with one basic
# block has no empty steps at all, because each block of queries has its own branch, which contains no work for the keys
# above the diagonal.

# %%
print(f"one block     {priced(functools.partial(straight, causal=True))}")

# %% [markdown]
# ## What the backward pass needs
#
# The gradient of a softmax needs its weights, and storing T x T of them would bring back the traffic that the forward
# pass avoids. So the backward kernel recomputes the scores from q and k, and each weight from its score and one value
# for its row.
#
# > **log-sum-exp** (lse): log(sum(exp(s))) of a row, which is m + log(l). With it, a weight is exp(s - lse).
#
# Let g be the cotangent of o, and dx the gradient with respect to x, as in lesson 10. The circle multiplies element by
# element; all other multiplications are matmuls:
#
# $$\begin{aligned}
# dv &= p^\top g & dp &= g\,v^\top \\
# \delta &= \textstyle\sum_D o \odot g & ds &= p \odot (dp - \delta) \\
# dq &= ds\,k / \sqrt{D} & dk &= ds^\top q / \sqrt{D}
# \end{aligned}$$
#
# There is one delta for each query, and it comes from the softmax. The weights of a row add up to 1, so raising the
# score of key j by a small e changes p_j by e p_j (1 - p_j) and every other p_i by -e p_i p_j. Multiply each change by
# its dp and add them up, which gives ds_j = p_j (dp_j - sum(p dp)).
#
# The sum of p_i dp_i runs over T keys, but there is a shorter way. Since dp_i is the dot product of g and v_i, the sum
# is the dot product of g and the sum of p_i v_i, which is o. So delta needs only D multiplications per query, of two
# arrays that are already in HBM.
#
# With `lse=True`, `straight` writes lse beside o, as a row, so that it takes T elements and not T x 128 in HBM. The
# next cell checks all of this in plain JAX, with o and lse from the forward kernel.


# %%
@jax.custom_vjp
def attention(q, k, v):
    return straight(q, k, v, bq=128, bk=128)


def forward(q, k, v):
    o, lse = straight(q, k, v, bq=128, bk=128, lse=True)
    return o, (q, k, v, o, lse)


def backward(kept, g):
    q, k, v, o, lse = kept
    scale = 1 / math.sqrt(q.shape[-1])
    s = jnp.einsum("htd,hsd->hts", q, k) * scale
    p = jnp.exp(s - jnp.swapaxes(lse, 1, 2))
    delta = jnp.sum(o * g, axis=-1, keepdims=True)
    ds = p * (jnp.einsum("htd,hsd->hts", g, v) - delta)
    dq, dk = jnp.einsum("hts,hsd->htd", ds, k), jnp.einsum("hts,htd->hsd", ds, q)
    return scale * dq, scale * dk, jnp.einsum("hts,htd->hsd", p, g)


attention.defvjp(forward, backward)
*args, g = jax.random.normal(jax.random.key(1), (4, 2, 256, 128))
_, ours = jax.vjp(attention, *args)
_, jaxs = jax.vjp(plain, *args)
for name, mine, right in zip(("dq", "dk", "dv"), ours(g), jaxs(g), strict=True):
    print(f"{name} differs by {float(abs(mine - right).max() / abs(right).max()):.0e}")
print(
    f"kept for each head: lse {T * 4 / 1e3:.0f} KB, not {T * T * 2 / 1e6:.1f} MB of weights"
)

# %% [markdown]
# In a kernel, dq is a sum over keys, and dk and dv are sums over queries. By the rule of lesson 10, the axis of the sum
# goes last, so dq needs a different grid from dk and dv. You will write both kernels in exercises 13.5 and 13.6. Both
# recompute s and dp, so the kernel for dq needs three matmuls for each block and the other one four, seven in all. The
# library's kernel needs only five, because it has the grid of dk and dv and keeps dq of a whole head in VMEM, where
# every step adds its part.
#
# ## The guess
#
# One experiment is left: how long does XLA take for four heads, whose scores fit into VMEM, if there is no softmax?


# %%
def without_softmax(q, k, v):
    s = jnp.einsum("htd,hsd->hts", q, k, preferred_element_type=jnp.float32)
    return jnp.einsum("hts,hsd->htd", s.astype(v.dtype), v)


for name, fn in (("with", plain), ("without", without_softmax)):
    report = compiler.compile_tpu(fn, *arrays(4, T))
    print(f"4 heads {name:7} softmax: {report.seconds * 1e6:5.1f} us")
print(f"their matmuls at the peak: {matmul_us(4, T):5.1f} us")

# %% [markdown]
# Three quarters of the other 260 us go to the memory: with its scores in VMEM, a head takes 19.2 us instead of 43.5, so
# eight heads save 194 us. The softmax takes another 56 us, twice the difference between 76.6 and 48.4. The last 10 us
# are lost in the matmuls, which reach nine tenths of the peak. With blocks of 128 our kernel moved half of XLA's bytes
# and was still four times slower, because each of its 2048 steps takes 1,018 cycles for 64 cycles of matmuls: it waits
# for copies and for results, and issue and scalar work alone add up to 448 us. Larger blocks spread these costs over
# more work, m and l in all lanes removed the copies between lanes, and one basic block let the MXU work on one block of
# keys while the VPU and the EUP work on another. If the scores fit into VMEM anyway, the kernel takes seven to nine
# tenths of XLA's time, and with 256 positions it is slower than XLA (a table under *Further*).

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. So far m is 2, l is 3 and acc is 6. The next block has the scores 4 and 4 and the values 1 and 3.
# What are m, l and acc now?</summary> m is 4; l is 3 exp(-2) + 2, about 2.41; acc is 6 exp(-2) + 4, about
# 4.81.</details>
#
# <details><summary>2. Why does a mask use -inf and not 0, and why is it applied before the maximum?</summary> exp(-inf)
# is 0, so the key adds nothing to l and acc, whereas a score of 0 would add exp(0 - m). A maximum that includes masked
# keys may be so large that the weights of all other keys become 0.</details>
#
# <details><summary>3. A causal kernel skips the work of 6 of its 16 steps, and still takes nine tenths of the time.
# What are two things to try?</summary> An index map that stays on the last block needed, so that the empty steps copy
# nothing, and an order in which the steps with work come last, so that the copies for the next row hide behind them.
# Better still is a branch for each block of queries, which has no empty steps.</details>
#
# <details><summary>4. What does the forward pass keep for the backward pass, and how many values is that for T
# positions?</summary> q, k, v and o, and one log-sum-exp for each query: T values, and no T x T array.</details>
#
# <details><summary>5. Your attention kernel reaches 40 % of the MXU's peak. It does not wait for copies, and no unit fills
# its slots. What do you try?</summary> Keep m and l in all lanes if the kernel waits for the XLU; then put several blocks
# of keys into one basic block, because the units are idle while they wait for each other.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 13](../exercises/13_flash_attention.ipynb). You write the forward kernel yourself, and
# then the kernels for dq and for dk and dv.
#
# ## Further
#
# No exercise needs what follows.
#
# ### Inside the basic block
#
# The picture shows what the MXU and the EUP do along the loop and along the basic block. **Look for** the stretches in which the
# MXU has little to do.


# %%
def along_the_program(kernels):
    """Plot which share of two units' slots is filled along the innermost loop of each program."""
    plt.rcParams.update(viz.PLOT_STYLE)
    fig, axes = plt.subplots(len(kernels), 1, figsize=(7, 1.6 * len(kernels)), sharey=True)
    for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
        code = compiler.bundles(kernel, *qkv)
        loop = code.busiest
        body = [bundle.slots for bundle in code.bundles[loop.first : loop.last + 1]]
        each = len(body) // 80
        for unit in ("MXU", "EUP"):
            filled = np.array([slots.get(unit, 0) / code.offered[unit] for slots in body])
            mean = filled[: len(filled) // each * each].reshape(-1, each).mean(axis=1)
            ax.fill_between(np.arange(len(mean)) * each, mean, alpha=0.5, label=unit)
        idle = sum("MXU" not in slots for slots in body)
        ax.set(
            title=f"{name}: {len(body):,} bundles, {idle} without the MXU", ylim=(0, 1.05)
        )
        ax.set_ylabel("slots filled")
    axes[-1].set_xlabel("bundle")
    axes[0].legend(loc="upper right")
    return viz.plot_picture(
        fig,
        "The filled share of the MXU's and the EUP's slots along two programs: each iteration of the loop leaves the MXU "
        "idle at its beginning and at its end, and four iterations in one basic block do so mostly at the ends of the block.",
    )


along_the_program(
    {
        "one iteration of the loop, of four": functools.partial(straight, unroll=1),
        "four iterations in one basic block": straight,
    }
)

# %% [markdown]
# An iteration of the loop begins and ends with bundles in which the MXU has nothing to do: at the start its operands
# are not there yet, and at the end m, l and acc are updated. One basic block has 397 bundles without the MXU, while
# four iterations of the loop have 636.
#
# ### The backward kernel
#
# For each block of exponentials the library's backward kernel has five matmuls, where the forward pass has two. It
# waits for no maximum, because lse is known. **Guess** how close it comes to the MXU's peak. (We compile both passes
# together and subtract the forward pass.)

# %% tags=["predict"]
both = functools.partial(jax.vjp, library.flash_attention)
report = compiler.compile_tpu(lambda q, k, v, g: both(q, k, v)[1](g), *qkv, qkv[0])
backwards = report.seconds * 1e6 - ladder["the library's"].seconds * 1e6
five = 5 / 2 * matmul_us(HEADS, T)  # s, dp, dv, dq and dk, where the forward pass has two
print(f"backward alone: {backwards:5.1f} us, {five / backwards:.0%} of the MXU's peak")

# %% [markdown]
# ### When it does not help
#
# A fused kernel saves bytes that grow with T x T. When T is small, there are few to save, because XLA writes no scores
# to HBM as long as they fit into VMEM. The kernel can then be faster only if it overlaps the softmax with the matmuls
# better than XLA does. **Predict** for which of these the kernel takes less than half of XLA's time: 8 heads of 256 or
# 512 positions, 4 of 1024, and 2 to 16 heads of 2048.

# %% tags=["predict"]
print("heads     T   XLA moves        XLA     kernel, of it waiting for copies")
for heads, t in [
    (8, 256),
    (8, 512),
    (4, 1024),
    (2, 2048),
    (4, 2048),
    (8, 2048),
    (16, 2048),
]:
    blocks = functools.partial(straight, bq=min(t, 512), bk=min(t, 512))
    xla = compiler.compile_tpu(plain, *arrays(heads, t))
    ours = compiler.compile_tpu(blocks, *arrays(heads, t))
    print(
        f"{heads:5} {t:5} {xla.hbm_bytes / 1e6:8.1f} MB {xla.seconds * 1e6:7.1f} us "
        f"{ours.seconds * 1e6:7.1f} us, {ours.time_split.get('DMA wait', 0) / ours.cycles:4.0%}"
    )

# %% [markdown]
# As long as the scores of these problems fit into VMEM, the kernel takes seven to nine tenths of XLA's time from 512
# positions on. With 256 positions it is slower than XLA, because its steps are so short that it waits for copies for
# more than a third of its time. Once the scores do not fit, it takes less than a third of XLA's time.
#
# The other case is a single query, as when a language model generates text token by token. There is only one row of
# scores, and reading the cached keys and values takes longer than all computation on them. Lesson 14 is about that
# case.
#
# ### Heads that share their keys
#
# In grouped-query attention several query heads share one KV head, which makes the cache of keys and values (the KV
# cache) smaller. A kernel needs only another index map for this, `h // group` for k and v. The heads of a group follow
# each other, so if the block is a whole KV head, it is copied only for the first of them. **Predict** how many bytes of
# k and v the library's kernel moves for 8 query heads with 8 KV heads, and with 2.

# %% tags=["predict"]
for kv_heads in (8, 2):
    q, (k, v) = qkv[0], arrays(kv_heads, T)[:2]
    rows = cost.traffic(grid.walk(library.flash_attention, q, k, v))
    moved = sum(row.bytes for row in rows if row.name in ("k_ref", "v_ref"))
    print(
        f"{kv_heads} KV heads: {2 * k.size * 2 / 1e6:4.1f} MB stored, {moved / 1e6:4.1f} MB moved"
    )

# %% [markdown]
# ### The library's kernel and JAX's
#
# JAX comes with a flash attention kernel for TPUs. The caller chooses its blocks; those below were the fastest that we
# tried.

# %%
from jax.experimental.pallas.ops.tpu import flash_attention as jaxs_kernel


def jaxs(q, k, v, causal):
    sizes = {"block_q": 1024, "block_k_major": 1024 if causal else 2048, "block_k": 1024}
    blocks = jaxs_kernel.BlockSizes(block_b=1, **sizes)
    return jaxs_kernel.flash_attention(
        q, k, v, causal=causal, sm_scale=1 / math.sqrt(D), block_sizes=blocks
    )


batch = [jax.ShapeDtypeStruct((1, HEADS, T, D), jnp.bfloat16)] * 3
for causal in (False, True):
    times = [
        compiler.compile_tpu(functools.partial(fn, causal=causal), *batch).seconds * 1e6
        for fn in (library.flash_attention, jaxs)
    ]
    print(f"causal={causal!s:5}  ours {times[0]:6.1f} us, JAX's {times[1]:6.1f} us")

# %% [markdown]
# ### A model for all lengths
#
# The plot below shows time against T by the roofline, without asking the compiler; the dashed line is the time of the
# matmuls alone. **Look for** the T at which the fused line meets the dashed one.

# %%
viz.attention_roof(heads=HEADS)

# %% [markdown]
# They meet at T = 480. The model's unfused version takes 675 us for 2048 positions, which is more than XLA's 348 us,
# because the model writes and reads both scores and weights in float32, and XLA fuses a part of it.
#
# ### Windows, segments, and small heads
#
# A sliding window adds a second diagonal: keys `window` or more positions back are masked, and blocks wholly beyond
# that diagonal are skipped like those above the first. Segment ids separate documents that are packed into one
# sequence. Which blocks they mask is known only at run time, so the kernel skips none because of them. Heads of 64 use
# only half of the MXU's depth and width. **Predict** which of the three saves time.

# %% tags=["predict"]
ids = jax.ShapeDtypeStruct((1, T), jnp.int32)
half = [jax.ShapeDtypeStruct((1, HEADS, T, 64), jnp.bfloat16)] * 3
kinds = {
    "causal": (functools.partial(library.flash_attention, causal=True), *batch),
    "window of 512": (
        functools.partial(library.flash_attention, causal=True, window=512),
        *batch,
    ),
    "segments": (
        lambda q, k, v, ids: library.flash_attention(q, k, v, causal=True, segments=ids),
        *batch,
        ids,
    ),
    "heads of 64": (functools.partial(library.flash_attention, causal=True), *half),
}
for name, (fn, *shapes) in kinds.items():
    print(f"{name:14} {compiler.compile_tpu(fn, *shapes).seconds * 1e6:6.1f} us")

# %% [markdown]
# The window saves time. With segments the kernel masks every block, and takes longer. Heads of 64 have half of the
# FLOPs and take almost as long. The MXU pads a depth or a width of 64 to 128, and the library's kernel for such heads
# transposes the scores, so that only one of the two matmuls is padded. The MXU would then need three quarters of the
# time. Does the kernel wait more, or does it issue more?

# %%
for name in ("causal", "heads of 64"):
    fn, *shapes = kinds[name]
    report = compiler.compile_tpu(fn, *shapes)
    issue = report.time_split["issue"]
    print(
        f"{name:11} issues for {issue:6,} of {report.cycles:,} cycles; filled MXU slots: {report.slots['MXU']:.0%}"
    )

# %% [markdown]
# The kernel for heads of 64 waits less than the one for heads of 128, 16,380 cycles instead of 21,302. But it issues
# for 5 % more cycles, and fewer of the MXU's slots are filled. There are as many scores as before, so the exponentials
# and the maxima take as much work.
#
# ### In a model
#
# `jax.nn.dot_product_attention` takes arrays of [batch, T, heads, D], with the heads after the positions; our kernel,
# like most, takes [batch, heads, T, D]. In Keras, the library's `FlashAttention` layer replaces
# `keras.layers.MultiHeadAttention` and has the same weights.

# %%
from course_lib.frameworks.keras_attention import FlashAttention

x = jax.random.normal(jax.random.key(2), (1, 256, 4, 128))
ours = library.flash_attention(*[jnp.swapaxes(x, 1, 2)] * 3, causal=True)
theirs = jax.nn.dot_product_attention(x, x, x, is_causal=True)
print(f"they differ by {float(abs(jnp.swapaxes(ours, 1, 2) - theirs).max()):.0e}")
layer = FlashAttention(num_heads=4, key_dim=128)
print(layer(x.reshape(1, 256, 512), x.reshape(1, 256, 512)).shape)

# %% [markdown]
# <!-- next -->
