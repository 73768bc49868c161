# %% [markdown]
# # Lesson 9: Fusion
#
# *60 minutes, then 76 for the exercises. What stands under "Further" is not counted, and no exercise needs it. You need
# lessons 3 to 5, and lesson 7's product in blocks. A TPU adds one thing: under "Further" the layer of the opening is timed on it.*
#
# A layer of a network is a product, a bias, and a ReLU. As three operations, the first two write to HBM what they have made,
# and the next one reads it from there. The kernel below does all three while a block of the product is still in VMEM. To save
# those trips is the best known reason to write a kernel.
#
# **Before you run the third cell, write down two numbers:** how many times faster is the kernel than the one line of JAX,
# under `jax.jit`? And how many times fewer bytes does it move?

# %%
# FIRST CELL

# %%
import functools
import re

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import (
    bench,
    chips,
    compiler,
    cost,
    judges,
    roofline,
    text,
    viz,
)


def layer(x, w, b):
    return jax.nn.relu(x @ w + b)


def fused(x, w, b, activation=jax.nn.relu, bm=512, bn=512):
    """activation(x @ w + b): whole rows of x meet whole columns of w."""

    def kernel(x_ref, w_ref, b_ref, o_ref):
        z = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
        z = z + b_ref[...].astype(jnp.float32)
        o_ref[...] = activation(z).astype(o_ref.dtype)

    (m, k), n = x.shape, w.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn),
        in_specs=[
            pl.BlockSpec((bm, k), lambda i, j: (i, 0)),
            pl.BlockSpec((k, bn), lambda i, j: (0, j)),
            pl.BlockSpec((1, bn), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
    )(x, w, b.reshape(1, n))


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


keys = jax.random.split(jax.random.key(0), 3)
x, w, b = (
    jax.random.normal(key, shape, jnp.bfloat16)
    for key, shape in zip(keys, [(128, 256), (256, 128), (128,)], strict=True)
)
for verdict in judges.judge(functools.partial(fused, bm=64, bn=128), layer, x, w, b):
    print(verdict)


# %% tags=["predict"]
def product(x, w):
    return x @ w


sizes = bf16(2048, 2048), bf16(2048, 2048), bf16(2048)
print("                            us      bytes moved      (a v5e, predicted (compiler))")
for name, fn, args in [
    ("JAX, layer", layer, sizes),
    ("kernel, layer", fused, sizes),
    ("JAX, product alone", product, sizes[:2]),
]:
    report = compiler.compile_tpu(fn, *args)
    print(f"{name:22} {report.seconds * 1e6:7.1f} {report.hbm_bytes:16,}")

# %% [markdown]
# The kernel is a little slower, and it saves no byte that we can see. (Its bytes are exact: each row of blocks reads all of w.
# XLA's figure counts each array once, which is the least it can be.) And look at the third row: **without bias and ReLU the
# line of JAX takes as long as with them.** They were free before we began.
#
# What is wrong with the story of the three operations? Write down a guess.
#
# After this lesson you can
# - see in XLA's own program what it has fused,
# - name what it does not fuse, and count the bytes that this costs,
# - put what stands before or behind a product into the kernel, in the place where it costs least,
# - compare a kernel with XLA so that the comparison stands,
# - decide by two rooflines that a kernel is not worth writing.
#
# ## XLA's own program
#
# `compiler.program` shows what the TPU's compiler makes of a function under `jax.jit`. It has a line for each operation of the
# program: the bytes that it moves through HBM, its kind, and what is inside it.

# %%
print(compiler.program(layer, *sizes))

# %% [markdown]
# `copy-start` begins to bring x into VMEM. The `fusion` is the layer, all of it: the product, which XLA calls a convolution,
# the addition and the maximum. (`convert` changes a dtype. XLA may read an array of a product more often than once. We do not
# count that: for products the figure is a lower bound.)
#
# **Take the cause away.** If fusion is why the layer costs no more than its product, then without fusion it must cost more.
# `jax.lax.optimization_barrier` is a wall: XLA moves nothing across it. Here is a layer whose product z has 256 MiB.
# **Guess:** how many times do 256 MiB pass, as one and in pieces? Then look at the picture for one thing: the arrows of z's
# size.


# %% tags=["predict"]
def in_pieces(x, w, b):
    z = jax.lax.optimization_barrier(x @ w)
    z = jax.lax.optimization_barrier(z + b)
    return jax.nn.relu(z)


large = bf16(16384, 512), bf16(512, 8192), bf16(8192)
print(bench.bound(layer, *large))
z = cost.stored_bytes(bf16(16384, 8192))
read = {"x": cost.stored_bytes(large[0]), "w": cost.stored_bytes(large[1])}
viz.traffic(
    {
        "in pieces": [
            viz.Stage("x @ w", reads=read, writes={"z": z}),
            viz.Stage("+ b", reads={"z": z}, writes={"z + b": z}),
            viz.Stage("relu", reads={"z + b": z}, writes={"y": z}),
        ],
        "as one": [viz.Stage("layer", reads=read, writes={"y": z})],
    }
)

# %% [markdown]
# Five arrows and one. (The times are those of the bytes alone; the products are not in them.) That is what we drew. Is it what
# XLA does?

# %%
print("as one:")
print(compiler.program(layer, *large))
print("in pieces:")
print(compiler.program(in_pieces, *large))

# %% [markdown]
# Five times and once. And see what follows from the first list: z is too large for VMEM, which has 128 MiB, and it does not
# pass HBM. So it is never whole anywhere. XLA finishes the layer block by block, as our kernel does.
#
# The story of the three operations is true, then, of three operations. Who runs them like that? Whoever leaves `jax.jit` out.
#
# > **eager**: without `jax.jit` JAX compiles and starts each of its functions by itself. Some (`jax.nn.silu`) are several
# > operations under a `jit` of their own. XLA never sees two of those functions together.
#
# A kernel that beats eager JAX has beaten a missing `jit`.
#
# ## What XLA does not fuse
#
# Now the softmax of rows, and RMSNorm: each row over its root mean square, times a weight. Done in one go, both read the array
# once and write it once: two passes. **Predict** how many passes XLA's programs make. The array has 134,217,728 bytes.


# %% tags=["predict"]
def rms_norm(x, weight):
    mean = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean + 1e-6) * weight


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


rows, weight = f32(8192, 4096), f32(4096)
print("softmax:")
print(compiler.program(softmax, rows))
print("RMSNorm:")
print(compiler.program(rms_norm, rows, weight))

# %% [markdown]
# Four passes and three. The maximum of a row is known when all of the row has been read. Only then can the sum of the
# exponentials begin, and only after the sum the result. Each of these stages is an operation of XLA's program, and reads x
# from HBM anew. In the picture count the arrows of x.

# %%
size = cost.stored_bytes(rows)
viz.traffic(
    {
        "XLA": [
            viz.Stage("largest", reads={"x": size}, writes={"max": 4 * 8192}),
            viz.Stage("sum", reads={"x": size, "max": 4 * 8192}, writes={"sum": 4 * 8192}),
            viz.Stage("result", reads={"x": size}, writes={"y": size}),
        ],
        "whole rows": [viz.Stage("softmax", reads={"x": size}, writes={"y": size})],
    }
)

# %% [markdown]
# Is it the waiting? Take the cause away: hand RMSNorm its mean as an argument, so that no row has to be finished before it is
# used.


# %%
def given_the_mean(x, mean, weight):
    return x * jax.lax.rsqrt(mean + 1e-6) * weight


print(compiler.program(given_the_mean, rows, f32(8192, 1), weight))

# %% [markdown]
# Two passes and a bit, which is the mean. So it is the waiting:
#
# > **In XLA's program, what waits for a reduction of an array reads the array again:** from HBM, where it is too large to stay
# > in VMEM. A kernel that holds whole rows reads them once.
#
# (How large is too large stands under *Further*.) Here is the kernel. A block is a few whole rows; their means need no others.


# %%
def rms_norm_kernel(x, weight, bm=32):
    def kernel(x_ref, weight_ref, o_ref):
        x = x_ref[...]
        mean = jnp.mean(x * x, axis=-1, keepdims=True)
        o_ref[...] = x * jax.lax.rsqrt(mean + 1e-6) * weight_ref[...]

    n = x.shape[1]
    block = pl.BlockSpec((bm, n), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // bm,),
        in_specs=[block, pl.BlockSpec((1, n), lambda i: (0, 0))],
        out_specs=block,
    )(x, weight.reshape(1, n))


small = jax.random.normal(jax.random.key(1), (128, 256))
for verdict in judges.judge(rms_norm_kernel, rms_norm, small, jnp.ones(256)):
    print(verdict)

# %%
print("                     passes of x        bytes   at 820 GB/s   predicted (compiler)")
for name, fn in [("XLA", rms_norm), ("kernel", rms_norm_kernel)]:
    report = compiler.compile_tpu(fn, rows, weight)
    passes = report.hbm_bytes / cost.stored_bytes(rows)
    times = f"{report.hbm_seconds * 1e6:9.1f} us {report.seconds * 1e6:16.1f} us"
    print(f"RMSNorm, {name:12} {passes:8.2f} {report.hbm_bytes:16,} {times}")

# %% [markdown]
# A third of the bytes is saved, and a third of the time. This fusion pays, since bytes are all that a norm waits for: the last
# two columns agree. In the opening the products took the time.
#
# > **A fusion saves bytes. It saves time where bytes are the roof**, and where XLA has not saved them already.
#
# ## A kernel is a wall
#
# XLA cannot look into a kernel. What stands in front of it and behind it is not fused with it. Here the product alone is a
# kernel, and bias and ReLU are left to XLA.
#
# > **epilogue**: what is done to a block of the result before it is written.
#
# Write down how many bytes more it costs to leave the epilogue behind the kernel.


# %% tags=["predict"]
def product_then_layer(x, w, b):
    z = fused(x, w, jnp.zeros_like(b), activation=lambda z: z)  # a product, no more
    return jax.nn.relu(z + b)


print("the epilogue in the kernel:")
print(compiler.program(fused, *large))
print("the epilogue behind the kernel:")
print(compiler.program(product_then_layer, *large))

# %% [markdown]
# The kernel moves the same both times. The difference is z, out and back. **Who writes the product as a kernel has to write
# its neighbours too.**
#
# **Where does the epilogue stand?** In `fused` each block of the result is finished in one step. With K in the grid, as in
# lesson 7, it is finished in its last step along K, and a ReLU has to wait for that: of two partial sums, -3 and 5, it makes
# 0 and 5, and of the whole sum 2. The bias, too, comes once. Its block has to be legal: `b` as (1, N), in blocks of (1, bn) at
# (0, j).
#
# ### A prologue: weights in bytes
#
# > **prologue of a product**: what is done to a block of an operand before it is multiplied, such as making int8 weights
# > wide.
#
# A layer that serves one user has few rows, and its time is that of its weights (lesson 3). In int8, with one float for each
# column, they have half of bfloat16's bytes. But the product wants them wide. If XLA made them wide in an operation of its
# own, the wide weights would go out to HBM and come in again. **Guess:** does it?


# %% tags=["predict"]
def from_int8(x, q, scale):
    return jnp.dot(x, q.astype(x.dtype), preferred_element_type=jnp.float32) * scale


few = bf16(16, 8192)
print("bfloat16:")
print(compiler.program(product, few, bf16(8192, 8192)))
print("int8:")
print(
    compiler.program(
        from_int8, few, jax.ShapeDtypeStruct((8192, 8192), jnp.int8), f32(8192)
    )
)

# %% [markdown]
# Half the bytes, and no wide weights in HBM: the dtype paid, and no kernel was needed. (You write one in 09.2, where you
# choose yourself where weights become wide.) The scale stands *behind* the product, since one number belongs to a whole
# column of it. In front of it, `q * scale` would have to be rounded to bfloat16.
#
# ## An honest comparison
#
# Four rules, before anything is timed.
#
# 1. **The same work.** Same dtype in and out, same precision. A float32 product is one bfloat16 pass on a TPU unless more is
#    asked (lesson 7): a kernel that asks for more looks slow.
# 2. **Under `jit`**, and with its neighbours, since XLA fuses across them.
# 3. **Bytes first.** They are exact for kernels and elementwise code.
# 4. **Against the roof, not only against XLA.** If XLA is far from it, a kernel may be ahead of XLA and still be slow.
#
# Once there is a chip, a clock decides.
#
# > **warm-up**: calls before the clock starts. The first call of a jitted function traces and compiles; that is not what is
# > timed.
# >
# > **dispatch**: what the host does to start a program on the device, some 0.1 ms a call. The call returns at once, and the
# > device works on by itself; `y.block_until_ready()` waits until y is there.
#
# Here is how a guide timed its layer and its kernel, in short:
#
# ```python
# layer(x, w).block_until_ready()          # warm-up
# start = time.perf_counter()
# for _ in range(100):
#     layer(x, w).block_until_ready()
# seconds = (time.perf_counter() - start) / 100
# ```
#
# Three things in it are right: a warm-up that is waited for, many runs, a wait. But it waits for each call. In the picture
# look at the device's row: where does it stand still?

# %%
dispatch = roofline.DISPATCH_S


def timeline(axes, title, seconds, wait_each, calls=4):
    """Host and device, in units of one call of the device: who is busy when."""
    send, host, device = dispatch / seconds, 0.0, 0.0
    for call in range(calls):
        axes.barh(1, send, left=host, color="C1", edgecolor="white")
        host += send
        start = max(host, device)
        axes.barh(0, 1, left=start, color="C0", edgecolor="white")
        axes.text(start + 0.5, 0, call + 1, ha="center", va="center", color="white")
        device = start + 1
        host = device if wait_each else host
    axes.set(title=title, yticks=[0, 1], yticklabels=["device", "host"], xlim=(0, 7))
    axes.set_xticks([])
    axes.grid(False)


plt.rcParams.update(viz.PLOT_STYLE)
fig, axes = plt.subplots(2)
timeline(axes[0], "a wait for each call", 2 * dispatch, wait_each=True)
timeline(axes[1], "one wait behind all calls", 2 * dispatch, wait_each=False)
viz.plot_picture(
    fig,
    "With a wait for each call the device stands still while the host sends the next one. "
    "With one wait behind all calls it works without a gap.",
)

# %% [markdown]
# With one wait the host sends the next call while the device works on this one, and only the first dispatch is seen.
# **Guess:** a norm of 2.6 us, a hundred calls, one wait. What does the clock show for one of them? Predicted (model):

# %% tags=["predict"]
print(f"a dispatch, fitted on published times: {dispatch * 1e6:.0f} us")
for mib in (128, 1):
    seconds = 2 * mib * 2**20 / chips.chip("v5e").hbm_bandwidth
    each, together = seconds + dispatch, max(seconds, dispatch)
    print(f"RMSNorm of {mib:3} MiB {seconds * 1e6:6.1f} us: ", end="")
    print(f"with a wait each {each * 1e6:6.1f}, with one wait {together * 1e6:6.1f}")

# %% [markdown]
# The large norm is timed rightly by one wait for all. The small one never is from the host: the device waits for the host, and
# the clock shows the dispatch. A profile of the device tells its time; `bench.measure`, under *Further*, takes one.
#
# What is forgotten most often is the wait as such. Then the time is that of a dispatch, and the speed is a miracle. Lesson 3
# gave the cure: hold the roofline beside the clock.

# %%
least = bench.bound(layer, *large)
try:
    bench.refuse_the_impossible("layer", dispatch, least)
except bench.Impossible as error:
    print(text.folded(str(error)))

# %% [markdown]
# (And do not time with an input of ones: a kernel that reads the wrong columns passes. "Ones", under *Further*, shows one.)
#
# ## When not to write a kernel
#
# Two rooflines decide it: what the chip must do, and what XLA's program does. Their gap is all that a kernel can win in bytes.
# For four functions: the products at the MXU's peak, the bytes that must move, and XLA's bytes. **Guess first:** the opening's
# layer, the large norm, int8 weights for 16 rows, a norm of 64 x 512. Which of the four deserve a kernel? In the picture look
# for gaps, and for the side of the dashed line on which they are.


# %% tags=["predict"]
def decide(name, fn, *args):
    least = bench.bound(fn, *args)
    moved = compiler.compile_tpu(fn, *args, simulate=False).hbm_bytes
    us = [least.compute_s, least.memory_s, moved / chips.chip("v5e").hbm_bandwidth]
    now, must = max(us[0], us[2]), max(us[:2])
    row = "".join(f"{1e6 * seconds:9.1f}" for seconds in us)
    print(f"{name:22}{row} {now / must:9.2f}")
    axes.plot([1e6 * must, 1e6 * now], [name] * 2, color="C1", linewidth=6)
    axes.plot(1e6 * now, name, "D", color="C1", markersize=9)
    axes.plot(1e6 * must, name, "o", color="C0", markersize=6)


fig, axes = plt.subplots()
print("us                      products must move XLA moves  XLA / must")
decide("the opening's layer", layer, *sizes)
decide("RMSNorm, 8192 x 4096", rms_norm, rows, weight)
decide(
    "int8 weights, 16 rows",
    from_int8,
    few,
    jax.ShapeDtypeStruct((8192, 8192), jnp.int8),
    f32(8192),
)
decide("RMSNorm, 64 x 512", rms_norm, f32(64, 512), f32(512))
axes.axvline(dispatch * 1e6, color="gray", linestyle="--", label="a dispatch")
axes.set_xscale("log")
axes.set_xticks([1, 10, 100, 1000], labels=[1, 10, 100, 1000])
axes.set(xlabel="us, predicted (model): dot, what must be; diamond, XLA's program")
axes.margins(y=0.2)
axes.invert_yaxis()
axes.legend()
viz.plot_picture(
    fig,
    "Two of four have a gap between what must be and XLA's program: the large norm, at 327 "
    "and 491 us, and the small one, at 0.3 and 0.5 us, far left of a dispatch.",
)

# %% [markdown]
# - **The opening:** products are the roof, 87.2 us, and XLA's whole layer takes 92.1. No kernel can win more than that.
# - **The large norm:** a gap of 1.5, all of it bytes. Worth a kernel, for a large argument.
# - **int8 weights:** no gap. The bytes must come, and XLA brings each once.
# - **The small norm:** as wide a gap, and it is a quarter of a microsecond. A dispatch takes hundreds of times as long: put it
#   into one jit with its neighbours and forget it.
#
# ## The 35 ms mystery
#
# Now the guide that lesson 3 cited: "Define a Custom TPU/GPU Kernel", keras.io, December 2025. Its kernel fuses a product of
# 8192 x 8192, float32, with a ReLU, and it says of this size that it is memory-bound. Its own figures, measured by its author:
# 7.811 ms for the layer, **35.039 ms for the kernel**. First the layer: its program, and its roof.

# %%
wide = f32(8192, 8192)
print(compiler.program(lambda a, b: jax.nn.relu(a @ b), wide, wide))
print(bench.bound(lambda a, b: jax.nn.relu(a @ b), wide, wide))

# %% [markdown]
# | the guide's reason for its kernel | what you can say now |
# |---|---|
# | the ReLU is computed while the data is in VMEM, which saves round trips | true of the kernel, and of XLA's layer under `jit`: one fusion. The guide's layer ran eagerly, so there the round trip was real. |
# | Pallas spreads the tiles over the hardware's cores | a v5e has one TensorCore, and its grid is a loop (lesson 4). |
# | drop-in inference speed | 35.039 ms in place of 7.811. |
#
# And it is not memory-bound: products are the roof, with less than six milliseconds. **Where do the other thirty come from?**
# You have all you need: the kernel makes a block of 128 x 128 from 128 whole rows and 128 whole columns, and lesson 4 has the
# rule of what is copied. Exercise 09.3 asks for the bytes, 09.4 for a kernel that takes 8 ms at most. "The 35 ms, explained",
# under *Further*, has the rest of the answer: read it after 09.3.
#
# And the opening's guess? The fused kernel gained nothing: XLA had fused already, and products were the roof, so that bytes
# did not matter. Of the norm neither was true, and a third of the time was to be had.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel of a 256 MiB layer is two and a half times as fast as `jax.nn.relu(x @ w + b)`, typed at the prompt. Which
# of the two did you measure badly, and what is left of the gain?</summary>
# The line, which was not jitted: z passed five times. Under `jit` it passes once, as in the kernel, and nothing is
# left.</details>
#
# <details><summary>2. You replace the product in the middle of a model by a kernel that is 2 % faster. The model is 20 % slower.
# Why?</summary>
# The kernel is a wall: what XLA had fused before and behind the product is now a program of its own.</details>
#
# <details><summary>3. A LayerNorm of 1 GiB, an argument, with the mean and the mean of the squares added up side by side. How many GiB does XLA's
# program move, and how many a kernel with whole rows?</summary>
# 3: neither of the two waits for the other, so one reading serves both; a second for the result, and the result. The kernel
# moves 2.</details>
#
# <details><summary>4. Which of these may a kernel with K in the grid do to every partial sum: times 2, plus b, the largest of it and
# 0?</summary>
# Times 2 alone: 2 a + 2 b is 2 (a + b). The bias would come once for each step, and a ReLU of parts is not the ReLU of their
# sum.</details>
#
# <details><summary>5. Somebody reports 0.1 ms for a product of 8192. Later 5.0 ms, waited for, in float32. Which one do you believe?</summary>
# Neither. The first is a dispatch. The second is below what the MXU needs, 5.6 ms: not all of the work was
# done.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 9](../exercises/09_fusion.ipynb). The first one is an epilogue with K in the grid.
#
# ## Further
#
# No exercise needs what follows.
#
# ### In XLA's own words
#
# > **HLO**: the language of XLA: lines, each of them an operation on whole arrays.
# >
# > **computation**: in HLO a list of operations with a name, as a function has one. The one marked `ENTRY` is the program.
# >
# > **layout**: in HLO the order in which an array lies in memory, and in which memory: `S(1)` is VMEM.
#
# A report holds XLA's program as XLA writes it. The next cell prints the lines of the opening's layer that compute something,
# without their layouts. `kOutput` says that a fusion is built around a product.

# %%
report = compiler.compile_tpu(layer, *sizes, simulate=False)
for line in report.hlo.splitlines():
    line = re.sub(r"\{[\d,]+:[^}]*\}", "", line.strip())  # the layouts
    line = re.sub(r", (metadata|backend_config|dim_labels)=.*| \(\w+\.\d+: .*", "", line)
    if re.search(r"^ENTRY|^%fused| convolution\(| add\(| maximum\(|=kOutput", line):
        print(line.replace(", kind", ",\n    kind"))

# %% [markdown]
# The last line is the whole layer: one `fusion`, which calls the computation at the top. In that stand the product, the
# addition and the maximum. (The guide of the 35 ms cites a paper on XLA's fusion, arXiv 2301.13062. It studies one program on
# a GPU.)
#
# ### Question 3
#
# For those who like to see it:

# %%
print(compiler.program(lambda x: jax.nn.standardize(x, axis=-1), f32(65536, 4096)))

# %% [markdown]
# ### How large is too large?
#
# Here is the softmax of a quarter of the large array, 32 MiB: first of an argument, then of scores that XLA made itself. Guess
# the passes of the first. And of the second: does it move more than x, w and the result?


# %% tags=["predict"]
def weights_of(x, w):
    return softmax(jnp.dot(x, w, preferred_element_type=jnp.float32))


few_rows = bf16(2048, 256), bf16(256, 4096)
print("an argument:")
print(compiler.program(softmax, f32(2048, 4096)))
print("scores:")
print(compiler.program(weights_of, *few_rows))
print(f"{cost.stored_bytes(*few_rows, f32(2048, 4096)):15,}  x, w and the result")
hlo = compiler.compile_tpu(weights_of, *few_rows, simulate=False).hlo
print(
    next(
        line.split(" convolution(")[0]
        for line in hlo.splitlines()
        if " convolution(" in line
    )
)

# %% [markdown]
# Three passes for the argument, where the large one took four: `copy-start` brings x into VMEM while the first stage reads it,
# and the later stages find it there. The scores move nothing. The last line is from XLA's own words, and its `S(1)` says that
# the product is written to VMEM. So what XLA made itself may stay, if it is small enough; then a softmax costs no byte, and a
# kernel has none to save.
#
# ### Where the kernel's three microseconds are
#
# In the opening the kernel took 3.1 us longer than XLA. A report says what its cycles were spent on.

# %%
waits = [compiler.compile_tpu(fn, *sizes).time_split["DMA wait"] for fn in (layer, fused)]
more = (waits[1] - waits[0]) / chips.chip("v5e").clock_hz
print(f"cycles waiting for copies: {waits}, a difference of {more * 1e6:.1f} us")

# %% [markdown]
# Nearly all of it is waiting. Nothing can be computed before the first blocks are there, and those of the kernel are 4 MiB.
#
# ### What an activation costs
#
# Guess what gelu and silu add to the kernel, in per cent, for a K of 1024 and for one of 128.

# %% tags=["predict"]
print("          K = 1024   K = 128   (us, predicted (compiler))")
for name, activation in [
    ("none", lambda z: z),
    ("gelu", jax.nn.gelu),
    ("silu", jax.nn.silu),
]:
    ours = functools.partial(fused, activation=activation, bm=256, bn=256)
    times = [
        compiler.compile_tpu(ours, bf16(1024, k), bf16(k, 512), bf16(512)).seconds
        for k in (1024, 128)
    ]
    print(f"{name:8} {times[0] * 1e6:9.1f} {times[1] * 1e6:9.1f}")

# %% [markdown]
# A hundredth where K is long, and nearly a tenth where it is short: the price is paid once for each number of the result, and
# the product's once for each number along K.
#
# ### A norm in front of a product
#
# XLA fuses a prologue, too. How many bytes of x pass?


# %%
def norm_then_product(x, weight, w):
    return rms_norm(x, weight).astype(w.dtype) @ w


print(compiler.program(norm_then_product, rows, weight, bf16(4096, 512)))
print(bench.bound(norm_then_product, rows, weight, bf16(4096, 512)))

# %% [markdown]
# One operation for the sums of squares, then a fusion with the rest of the norm *and* the product in it: x is read by both, so
# at least twice, and the normed x is never stored. 09.9 finds a way to read x once.
#
# ### Arrays turned round, arrays copied
#
# There are two ways more to move bytes that nobody asked for. Both are common at a kernel; XLA does the first to itself as
# well.
#
# > **relayout**: a copy of an array in another order of its axes or another tiling, made because the next program wants it
# > so.
# >
# > **defensive copy**: a copy made because a program will overwrite an array that somebody may still need.
#
# The first kernel below takes a narrow array. The second works in place: `input_output_aliases={0: 0}` says that the result
# goes where x was. How many times the array's bytes does each move?


# %%
def add_one(x, rows=4096, aliases=None):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // rows,),
        in_specs=[block],
        out_specs=block,
        input_output_aliases=aliases or {},
    )(x)


def in_place(x):
    return add_one(x, rows=64, aliases={0: 0})


def made_and_used_up(x):
    return in_place(2 * x)


def made_and_kept(x):
    made = 2 * x
    return in_place(made), made


print("narrow, by XLA:")
print(compiler.program(lambda x: x + 1, f32(262144, 64)))
print("narrow, by the kernel:")
print(compiler.program(add_one, f32(262144, 64)))
print("as many numbers in rows of 128, by the kernel:")
print(compiler.program(add_one, f32(131072, 128)))

# %%
print("in place, of an argument:")
print(compiler.program(in_place, f32(32768, 1024)))
print("in place, of a value used up:")
print(compiler.program(made_and_used_up, f32(32768, 1024)))
print("in place, of a value kept:")
print(compiler.program(made_and_kept, f32(32768, 1024)))

# %% [markdown]
# **Narrow:** XLA keeps a long argument of 64 columns on its side, so that no lane is empty. A kernel takes rows. So XLA turns
# the array in front of the kernel and back behind it, and in between every row of 64 fills 128 lanes: five times the bytes
# here, in float32. Store the same numbers in rows of 128 from the start, and the copies are gone.
#
# **In place:** an argument belongs to the caller, so XLA copies it first. A value made inside the function is copied only if
# it must still be there after the kernel, as a result is. A reader that can run before is put before. To give an argument
# away, say `jax.jit(f, donate_argnums=0)`.
#
# So `compiler.program` of the *whole* function, with the kernel in it, is worth a look before anything is compared.
#
# ### Ones
#
# The run that is timed is often the only one whose result is looked at, and ones hide nearly everything. Here a kernel reads
# the wrong columns of w. Who notices?


# %%
def wrong_columns(x, w):
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), jnp.float32),
        grid=(w.shape[1] // 128,),
        in_specs=[
            pl.BlockSpec(x.shape, lambda j: (0, 0)),
            pl.BlockSpec((w.shape[0], 128), lambda j: (0, 0)),
        ],
        out_specs=pl.BlockSpec((x.shape[0], 128), lambda j: (0, j)),
    )(x, w)


for name, make in [
    ("ones", jnp.ones),
    ("random", functools.partial(jax.random.normal, keys[0])),
]:
    a, c = make((8, 128)), make((128, 256))
    close = jnp.allclose(wrong_columns(a, c), a @ c, atol=1e-3)
    print(f"{name:7} allclose: {bool(close)}")

# %% [markdown]
# ### What the simulator leaves out
#
# What is predicted (compiler) for XLA's products held up beside published times. For XLA's elementwise and row-wise code there
# was no published time to check it with. The report says so:

# %%
report = compiler.compile_tpu(rms_norm, rows, weight)
print(text.folded(next(note for note in report.notes if "XLA's own code" in note)))
print(f"{report.seconds * 1e6:.0f} us, its bytes alone {report.hbm_seconds * 1e6:.0f} us")

# %% [markdown]
# So of this norm we may claim the bytes, 3 passes against 2, and not what the cycles of XLA's reductions may add to that.
#
# The simulator leaves out four things: copies that share the bandwidth; the time between one program and the next; what XLA's
# reductions really take; heat, and the host. **Guess for each: whom does that favour?**
#
# <details><summary>Then open this.</summary>
# Whoever copies several arrays at a time. Whoever has more programs, which is mostly XLA. The kernel, if the simulator is too
# hard on XLA's reductions. And the last two nobody in particular. It is unsure in four places, and not always in the kernel's
# favour.</details>
#
# ### The opening on a real chip
#
# `bench.measure` takes a profile or a loop on the device, and what else a timing needs: a warm-up, a copy of the arguments for
# each call in turn so that no cache knows them, the median and the spread, and a refusal of what cannot be. Without a chip it
# says so:

# %% tags=["predict"]
try:
    print(bench.measure(layer, x, w, b))
except bench.NoAccelerator as error:
    print(text.folded(str(error)))

# %% [markdown]
# With a TPU, fill in the left column. *Compiler* is predicted (compiler).

# %%
full = [jax.random.normal(k, s.shape, s.dtype) for k, s in zip(keys, sizes, strict=True)]


def measured(fn, *args):
    try:
        return f"{bench.measure(fn, *args).seconds * 1e6:.1f}"
    except bench.NoAccelerator:
        return "no TPU"


print("us                 measured  compiler")
for name, fn in [("JAX, layer", layer), ("kernel, layer", fused)]:
    predicted = compiler.compile_tpu(fn, *sizes).seconds * 1e6
    print(f"{name:18} {measured(fn, *full):>8} {predicted:9.1f}")

# %% [markdown]
# ### The 35 ms, explained
#
# Here is the guide's kernel; it called `pl.dot`, which is gone. What does today's compiler say of it?


# %%
def matmul_relu_kernel(a_ref, b_ref, c_ref):
    product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)
    c_ref[...] = jnp.maximum(product, 0)


def fused_matmul(a, b, buffers=2, limit=None):
    (m, k), n = a.shape, b.shape[1]
    block = functools.partial(pl.BlockSpec, pipeline_mode=pl.Buffered(buffers))
    return pl.pallas_call(
        matmul_relu_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), a.dtype),
        grid=(m // 128, n // 128),
        in_specs=[
            block((128, k), lambda i, j: (i, 0)),
            block((k, 128), lambda i, j: (0, j)),
        ],
        out_specs=block((128, 128), lambda i, j: (i, j)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )(a, b)


try:
    pl.dot(small, small.T)
except AttributeError as error:
    print("pl.dot:", str(error).split(".  ")[0][:80])
refused = compiler.compile_tpu(fused_matmul, wide, wide, simulate=False)
print(text.folded(f"the kernel: {refused.refusal}. {refused.error.what}"))
print(f"TensorCores of a v5e: {chips.chip('v5e').cores}")

# %% [markdown]
# Its blocks need 16.12 MiB, as you counted in lesson 5. But in those days it ran (each block had one buffer then, its author
# says), and took 35 ms. Give the kernel one buffer again, then two and the VMEM for them, and simulate a few steps of the same
# K: all 4096 are alike.

# %%
for buffers in (1, 2):
    ours = functools.partial(fused_matmul, buffers=buffers, limit=32 * 2**20)
    short, long = (
        compiler.compile_tpu(ours, f32(128, 8192), f32(8192, n)).seconds for n in (256, 512)
    )
    steps = f"4096 steps: {4096 * (long - short) / 2 * 1e3:.1f} ms, predicted (compiler)"
    print(f"{buffers} of each block, {steps}")

# %% [markdown]
# With one buffer nothing overlaps: copy, product and copy home follow each other. The simulator, which knows nothing of the
# guide's clock, comes within 3 % of it. With two buffers they overlap, and what is left is the time of the bytes (those of a,
# which stays, are not among them): nearly C of 09.3. So two things made the 35 ms, b read again and again, and waiting for it.
#
# ### The guide's layers
#
# The guide compares two layers of Keras: one that multiplies and then takes the ReLU, one that calls the kernel. On a small
# size both give the same. The guide writes its blocks by keyword, `index_map=` first, and its first kernel, an addition, is
# called with int32: both work.

# %%
import keras


class StandardDenseReLU(keras.layers.Layer):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def call(self, x):
        return keras.ops.relu(keras.ops.matmul(x, self.w))


class FusedDense(StandardDenseReLU):
    def call(self, x):
        return fused_matmul(x, self.w)


x, w = (jax.random.normal(key, (128, 128)) for key in keys[:2])
one, other = StandardDenseReLU(w)(x), FusedDense(w)(x)
print("the same, nearly:", bool(jnp.allclose(one, other, atol=1e-3)))


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add_vectors(x, y):
    block = pl.BlockSpec(index_map=lambda i: (i,), block_shape=(1024,))
    return pl.pallas_call(
        add_kernel,
        out_shape=x,
        grid=(x.shape[0] // 1024,),
        in_specs=[block] * 2,
        out_specs=block,
    )(x, y)


for verdict in judges.judge(add_vectors, jnp.add, *[jnp.arange(2048, dtype=jnp.int32)] * 2):
    print(verdict)

# %% [markdown]
# ### What else XLA does
#
# One often reads that XLA never fuses a product with a product. Here are two, with a ReLU between them. The hidden array
# would have 64 MiB.

# %%
hidden = bf16(4096, 512), bf16(512, 8192), bf16(8192, 512)
print(compiler.program(lambda x, w, v: jax.nn.relu(x @ w) @ v, *hidden))

# %% [markdown]
# It does not pass: both products, and the ReLU, are one fusion.
#
# <!-- next -->
