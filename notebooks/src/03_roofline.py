# %% [markdown]
# # Lesson 3: The roofline
#
# *60 minutes, then 85 for the exercises. The "Further" part at the end is optional: 55 minutes, for today or for
# another day. You need lessons 1 and 2, pencil and paper. You do not need a TPU; with one, you can time the matmuls
# yourself.*
#
# The JAX documentation times one matmul on a TPU v5e: two bfloat16 matrices of 8192 x 8192. A kernel that works in
# blocks of 128 x 128 x 128 takes 91.8 ms. The same kernel with blocks of 512 x 1024 x 1024 takes 6.10 ms, and XLA's own
# matmul takes 6.05 ms.
#
# If the chip did nothing but the arithmetic, it would need 5.6 ms; if it did nothing but move the slow kernel's bytes,
# 21 ms. The kernel takes 91.8 ms, more than three times as long as both together.
#
# **Where does the rest of the time go?** Write down a guess. In a few minutes you will compute the 5.6 ms and the 21 ms
# yourself, and the second half of the lesson finds the rest.
#
# After this lesson you can
# - compute how long an operation must take on a chip, before anybody writes it,
# - say whether arithmetic or memory limits it, and from which size on that changes,
# - say what a grid step costs in addition to its work, and why,
# - recognize published times that cannot be true,
# - decide whether a kernel is worth writing.

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

from course_lib import bench, chips, compiler, cost, grid, roofline, text, viz

# %% [markdown]
# ## The kernel, and what it moves
#
# Here is the kernel behind the first two times; its two runs differ only in their block sizes. The kernel cuts x into
# blocks of bm x bk, and y into blocks of bk x bn. For each block of the result it goes along k, multiplies a block of x
# by a block of y, and adds the product to an accumulator. Lesson 4 explains such grids; today only the block sizes
# matter.
#
# `pl.program_id(2)` is the index of the current step along the third axis of the grid, and `pl.num_programs(2)` is the
# number of steps along that axis. `pl.when` runs the function below it only where its condition holds, so `zero` runs
# at the first step along k, and `store` at the last. In between, the accumulator stays in `acc_ref`, in float32.
# `preferred_element_type=jnp.float32` asks `jnp.dot` for a float32 result. Without it `jnp.dot` asks for a bfloat16
# result, which the TPU's compiler refuses because the MXU accumulates in 32 bits.
#
# > **scratch**: memory in VMEM or SMEM that a kernel has for itself. Its contents stay from step to step.


# %%
def product_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def product(x, y, bm, bk, bn):
    """Return x[m, k] @ y[k, n], computed in blocks; the last grid axis runs along k."""
    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        product_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


def bf16(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


# %% [markdown]
# Below, the kernel runs on small arrays, in blocks of 128. **Look for one thing:** which block of x is multiplied by
# which block of y? Press *Play* and watch the two indices of each block.

# %%
player = viz.grid_player(
    functools.partial(product, bm=128, bk=128, bn=128), bf16(384, 512), bf16(512, 384)
)
player.step = 23  # show this step first: i = 1, j = 2, k = 3
player

# %% [markdown]
# Block (i, k) of x is multiplied by block (k, j) of y, and the product is added to block (i, j) of the result. The
# result block stays in VMEM while k runs. The light blue blocks have been in VMEM before, because every result block of
# row i needs all blocks of x in row i.
#
# Now take the two kernels of the opening. How many bytes does each of them move?


# %%
def in_small_blocks(x, y):
    return product(x, y, 128, 128, 128)


def in_large_blocks(x, y):
    return product(x, y, 512, 1024, 1024)


x = y = bf16(8192, 8192)
for fn in (in_small_blocks, in_large_blocks):
    walk = grid.walk(fn, x, y)
    print(f"{fn.__name__}: {walk.calls[0].steps:,} steps, {cost.hbm_bytes(walk):,} bytes")

# %% [markdown]
# Both kernels do the same arithmetic, but the one with small blocks moves five times as many bytes. The bytes are a
# first suspect, although they explain only 21 ms of the 91.8 ms.
#
# The next cell holds the published times, in seconds. We did not measure them: they are the outputs of
# `docs/pallas/tpu/matmul.ipynb` in the JAX repository, timed by the host's clock.

# %%
PUBLISHED_SMALL = {8192: 0.091836}
PUBLISHED_LARGE = {8192: 0.0060994}
PUBLISHED_XLA = {8192: 0.0060471}

# %% [markdown]
# ## Two numbers of a chip
#
# A first estimate needs two numbers: the peak, which is how fast the MXU multiplies matrices, and the bandwidth, which
# is how fast bytes come from HBM.

# %%
v5e = chips.chip("v5e")
peak, bandwidth = v5e.bf16_flops, v5e.hbm_bandwidth
print(f"peak       {peak / 1e12:.0f} TFLOP/s, bfloat16")
print(f"bandwidth  {bandwidth / 1e9:.0f} GB/s between HBM and VMEM")
print(f"VMEM       {v5e.vmem_bytes / 2**20:.0f} MiB")
print(f"HBM        {v5e.hbm_bytes / 2**30:.0f} GiB")

# %% [markdown]
# The numbers come from a table inside JAX. Google's page on the v5e gives 197 TFLOP/s and 819 GB/s, which JAX rounds to
# 820. Mind the units: GB is 10^9 bytes, GiB is 2^30 bytes, and 1 Mi of anything is 2^20 of it.
#
# An amount divided by a rate is a time. The lesson needs no other mathematics.

# %%
flops = cost.flops(grid.walk(in_small_blocks, x, y)).mxu
for fn in (in_small_blocks, in_large_blocks):
    moved = cost.hbm_bytes(grid.walk(fn, x, y))
    print(
        f"{fn.__name__}: arithmetic {flops / peak * 1e3:.1f} ms, bytes {moved / bandwidth * 1e3:.1f} ms"
    )

# %% [markdown]
# These are the 5.6 ms and the 21 ms of the opening, and neither is close to 91.8 ms.
#
# ### The peak of vector work
#
# The peak above belongs to the MXU. How much of it is left for a program that only adds and multiplies vectors? Such a
# program runs on the VPU, which does four operations a cycle on a v5e, each on 8 x 128 elements (lesson 2).

# %%
OPERATIONS = 4
vector_peak = OPERATIONS * v5e.sublanes * v5e.lanes * v5e.clock_hz
print(f"clock: {v5e.clock_hz / 1e9:.3f} GHz")
print(f"VPU: {vector_peak / 1e12:.1f} TFLOP/s, {vector_peak / peak:.0%} of the peak")

# %% [markdown]
# The JAX team's article "Pallas: Custom Kernels in JAX" (November 2025) advises readers to expect at most 10 to 20 % of
# the peak from work that is not mostly matmuls. For float32 vector work on this chip even that is generous. Scalar
# work, which handles one value at a time, is slower still.
#
# ## How long must an operation take, at least?
#
# The simplest example is the addition of two float32 vectors of 32 Mi elements. It takes 32 Mi additions, and three
# vectors move between HBM and VMEM. Which takes longer, the additions or the bytes, and by how much? Guess, then run
# the cell.

# %% tags=["predict"]
numbers = 32 * 2**20
additions, moved = numbers, 3 * numbers * 4
print(f"arithmetic {additions / vector_peak * 1e6:6.1f} us")
print(f"bytes      {moved / bandwidth * 1e6:6.1f} us")

summand = jax.ShapeDtypeStruct((numbers,), jnp.float32)
report = compiler.compile_tpu(jnp.add, summand, summand)
print(f"predicted (compiler): {report.seconds * 1e6:.0f} us, {report.hbm_bytes:,} bytes")

# %% [markdown]
# The compiler's time equals that of the bytes, because its report takes the longer of the cycles and the bytes at full
# bandwidth. No kernel, however clever, can make this addition faster. In bfloat16 it would move half as many bytes.
# (Its arithmetic would take longer, because the VPU of a v5e first widens both vectors to float32, but the bytes would
# still take the longest.)
#
# This addition is **memory-bound**, and the arithmetic units are idle nearly all of the time. The opposite,
# **compute-bound** work, is preferable, because it keeps the expensive part of the chip busy. Our reports call it
# *bound by compute*. For memory-bound work they name the memory: *bound by HBM*.
#
# > **memory-bound**: limited by memory; moving the bytes takes longer than the arithmetic.
# >
# > **compute-bound**: limited by arithmetic, which takes longer than moving the bytes.
#
# ### The larger of the two, or their sum?
#
# A good kernel fetches the next block and writes the previous one *while* it computes the current one. The two times
# then overlap, so the kernel takes as long as the longer one: max(compute, memory). If nothing overlaps, it takes their
# sum.
#
# We use the larger of the two, because no kernel can beat it and the sum is at most twice as long. So overlapping
# arithmetic with copies gains at most a factor of two. (Waiting is a third kind of time, and comes later.) For the
# addition the overlap gains next to nothing:

# %%
compute, memory = additions / vector_peak, moved / bandwidth
print(f"max {max(compute, memory) * 1e6:.0f} us, sum {(compute + memory) * 1e6:.0f} us")

# %% [markdown]
# ## Arithmetic intensity
#
# Compute takes longer than memory if FLOPs / peak > bytes / bandwidth. Collect what belongs to the program on the left
# side, and what belongs to the chip on the right:
#
# $$\frac{\text{FLOPs}}{\text{bytes}} > \frac{\text{peak}}{\text{bandwidth}}$$
#
# > **arithmetic intensity**: the FLOPs that a program does for each byte it moves.
# >
# > **ridge point**: the arithmetic intensity above which a matmul on the MXU takes longer for its arithmetic than for
# > its bytes: peak divided by bandwidth. Vector work has a lower peak of its own, and so a lower ridge point.
#
# The next cell prints the intensities of three programs, and the ridge point of a v5e.

# %%
vector, square = bf16(numbers), bf16(4096, 4096)
for name, fn, arg in [
    ("add", jnp.add, vector),
    ("dot product", jnp.dot, vector),
    ("matmul, 4096", jnp.dot, square),
]:
    print(f"{name:21} {roofline.intensity(fn, arg, arg):8.2f} FLOPs/byte")
print(f"ridge point of a v5e  {roofline.ridge_point(chip='v5e'):8.2f} FLOPs/byte")

# %% [markdown]
# The addition does one operation for every six bytes, and the dot product about two for every four. Both lie far below
# the ridge point, and the matmul lies far above it.
#
# ## The roofs
#
# The plot below draws FLOP/s against intensity, both on log axes. To the left of the ridge point, memory allows
# intensity x bandwidth, which is a slope. To the right of it the MXU allows its peak, which is a flat roof. No point
# can lie above either.
#
# > **roof**: the most FLOP/s that one part of a chip allows, whatever the other parts do.
# >
# > **roofline**: the lowest of the roofs at each arithmetic intensity; also, an estimate made with it.
#
# **Task.** The point is a matmul of N x N matrices, each of them copied once. Drag it to the dotted line, or use the
# arrow keys: there the slope meets the flat roof. Which N is that? Write it down; the next section derives it.

# %%
viz.roof_plot(m=256, k=256, n=256, blocks=None)

# %% [markdown]
# ## How large must a matmul be?
#
# A matmul of N x N matrices in bfloat16 does 2 N^3 FLOPs, because each of the N^2 results is a sum of N products. It
# moves 6 N^2 bytes: three matrices, with two bytes per element. So its intensity grows with N:
#
# $$\frac{2 N^3\ \text{FLOPs}}{6 N^2\ \text{bytes}} = \frac{N}{3}\ \text{FLOPs per byte}$$

# %%
ridge = roofline.ridge_point(chip="v5e")
for n in (256, 512, 720, 721, 1024):
    compute, memory = 2 * n**3 / peak, 6 * n**2 / bandwidth
    bound = "compute" if compute > memory else "HBM"
    print(f"N = {n:5}: {n / 3:5.1f} FLOPs/byte against {ridge:.1f}, bound by {bound}")

# %% [markdown]
# So on a v5e the matmul is compute-bound for N > 720, because N / 3 has to exceed 240.
#
# In float32 an element has four bytes. Unless you ask for more precision, it is rounded to bfloat16 for the MXU, so the
# FLOPs take as long as before. The bytes take twice as long, which makes the intensity N / 6. In int8 the peak doubles,
# but the result is int32, so the matmul moves 6 N^2 bytes again.


# %%
def crossover(dtype, chip="v5e"):
    bytes_of_three = {"bfloat16": 2 + 2 + 2, "float32": 4 + 4 + 4, "int8": 1 + 1 + 4}
    return roofline.ridge_point(chip=chip, dtype=dtype) * bytes_of_three[dtype] / 2


for dtype in ("bfloat16", "float32", "int8"):
    print(f"v5e, {dtype:8}: compute-bound from N = {crossover(dtype):.0f}")

print("\nbfloat16  cores  TFLOP/s   GB/s   ridge   compute-bound from N =")
for name in chips.NAMES:
    c = chips.chip(name)
    row = f"{name:8} {c.tensor_cores:6} {c.chip_flops / 1e12:8.0f} {c.chip_bandwidth / 1e9:6.0f}"
    print(
        f"{row} {roofline.ridge_point(chip=name):7.0f} {crossover('bfloat16', chip=name):8.0f}"
    )

# %% [markdown]
# A faster chip is not easier to keep busy. A v6e has nearly five times the peak of a v5e but only twice the bandwidth,
# so it needs matmuls that are more than twice as large.
#
# The table describes whole chips, with the numbers that JAX has. The ridge point is the same for one core and for its
# chip.
#
# ### And in blocks?
#
# Matrices of 8192 x 8192 do not fit into VMEM, and a kernel that works in blocks moves more than 6 N^2 bytes. Which
# sizes have to be large then? For one step along k, the kernel fetches bm x bk elements of x and bk x bn elements of y,
# and does 2 bm bk bn FLOPs. In bfloat16 that makes
#
# 2 bm bk bn / (2 bm bk + 2 bk bn) = bm bn / (bm + bn) FLOPs per byte.
#
# The result adds a few bytes, which this formula leaves out. The size bk cancels, so only bm and bn have to be large.
# Square blocks of side b have an intensity of b / 2, and reach the ridge point at b = 480. Does the formula agree with
# the copies that `grid.walk` lists?

# %%
for bm, bk, bn in [(128, 128, 128), (512, 512, 512), (512, 1024, 512), (512, 1024, 1024)]:
    blocked = functools.partial(product, bm=bm, bk=bk, bn=bn)
    counted = flops / cost.hbm_bytes(grid.walk(blocked, x, y))
    by_hand = bm * bn / (bm + bn)
    print(
        f"{bm:4} x{bk:5} x{bn:5}: by hand {by_hand:3.0f}, counted {counted:3.0f} FLOPs/byte"
    )

# %% [markdown]
# Blocks of 128 lie on the slope, because they reach only 64 of the 240 FLOPs per byte. That is why the bytes of the
# slow kernel take 21 ms. Blocks of 512 are just past the ridge point. bk makes no difference to the bytes, as long as
# it is smaller than k.

# %% [markdown]
# ## The third roof
#
# Now to the 91.8 ms. The JAX notebook times blocks of 128 for three sizes of matrices. The three runs have very
# different numbers of grid steps, but perhaps every step takes the same time. The clock was on the host, so each time
# includes about 0.11 ms for the call, which is our library's estimate from published times of small matmuls. The next
# cell subtracts the call and divides the rest by the number of steps. Is the result the same for all three sizes?

# %%
PUBLISHED_SMALL |= {1024: 0.0002977, 4096: 0.011772}
small = bf16(1024, 1024)
arithmetic = 2 * 128**3 / peak
for n in sorted(PUBLISHED_SMALL):
    count = (n // 128) ** 3
    each = (PUBLISHED_SMALL[n] - roofline.DISPATCH_S) / count
    print(
        f"N = {n}: {PUBLISHED_SMALL[n] * 1e3:6.2f} ms, {count:7,} steps, {each * 1e6:.3f} us each"
    )
bytes_of_a_step = 2 * 2 * 128 * 128
print(f"a host call:      {roofline.DISPATCH_S * 1e3:8.2f} ms, subtracted from each time\n")
for part, seconds in [
    ("a step at N = 8192", each),
    ("its arithmetic", arithmetic),
    ("the rest of it", each - arithmetic),
]:
    print(f"{part:22} {seconds * 1e6:6.3f} us, {seconds * v5e.clock_hz:4.0f} cycles")
print(f"its bytes alone        {bytes_of_a_step / bandwidth * 1e6:6.3f} us")

# %% [markdown]
# Whether there are 512 steps or 262,144, one step takes nearly the same time: a third of a microsecond more than its
# arithmetic. The slow kernel has a quarter of a million steps, and these steps take the rest of its time. Was that your
# guess?
#
# But what happens in this third of a microsecond? The arithmetic takes only a sixteenth of the step, so it is not to
# blame. There are three suspects.
#
# - **The bytes.** A step copies 64 KiB, which takes 0.08 us at full bandwidth. That is a quarter of the time that we
#   want to explain.
# - **The core.** In each step it computes which blocks come next, starts their copies, and runs the loop over the grid.
# - **The latency of the copies.** Even the shortest copy has one (lesson 2), in addition to the time of its bytes.
#
# The published times cannot separate the last two suspects, because every step of every published run copies. The
# compiler's simulator can, because there we can remove the copies or request them earlier.
#
# > **buffer**: room in VMEM for one block of an operand. Pallas gives an operand two buffers if its blocks move, so
# > that the next block can arrive while the current one is worked on, and one buffer otherwise.
#
# **Predict first.** In the simulator a step of this kernel takes about 750 cycles. (On the chip it took 526; we return
# to the difference below.) How many cycles will a step take in the simulator
#
# 1. if all index maps return (0, 0)? The kernel then has as many steps as before, but nothing to copy after the first
#    one.
# 2. if each operand has four buffers instead of two? Each block is then requested three steps ahead instead of one.
#
# If the core is to blame, the answer is about 750 both times. If the latency is to blame, a step takes far less. Write
# down two numbers. You need not read all of the next cell: it has the same kernel, changed in these two ways.


# %% tags=["predict"]
def without_copies(x, y):
    """Run the same steps on one block, which stays in VMEM."""
    one = pl.BlockSpec((128, 128), lambda i, j, k: (0, 0))
    return pl.pallas_call(
        product_kernel,
        out_shape=bf16(128, 128),
        grid=(8, 8, 8),
        in_specs=[one, one],
        out_specs=one,
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )(x, y)


def with_buffers(x, y, buffers):
    """Read the same blocks ``buffers - 1`` steps ahead. Lesson 5 explains emit_pipeline."""

    def kernel(x_hbm, y_hbm, o_hbm, acc_ref):
        ahead = pl.Buffered(buffers)
        pltpu.emit_pipeline(
            functools.partial(product_kernel, acc_ref=acc_ref),
            grid=(8, 8, 8),
            in_specs=[
                pl.BlockSpec((128, 128), lambda i, j, k: (i, k), pipeline_mode=ahead),
                pl.BlockSpec((128, 128), lambda i, j, k: (k, j), pipeline_mode=ahead),
            ],
            out_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, j))],
        )(x_hbm, y_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=bf16(1024, 1024),
        in_specs=[anywhere, anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )(x, y)


suspects = {"unchanged": in_small_blocks, "without copies": without_copies}
for buffers in (2, 3, 4, 6):
    suspects[f"{buffers} buffers"] = functools.partial(with_buffers, buffers=buffers)
steps = {name: compiler.compile_tpu(fn, small, small).step for name, fn in suspects.items()}
print("cycles a step, predicted (compiler): all   work   scalar code   waiting for copies")
for name, step in steps.items():
    row = "".join(
        f"{cycles:{w}.0f}" for cycles, w in zip(step.values(), (7, 14, 21), strict=True)
    )
    print(f"{name:34}{sum(step.values()):6.0f}{row}")

# %% [markdown]
# Without copies, two thirds of the step are gone, and with four buffers, half of it. What disappears is the waiting,
# which falls from 445 cycles to 3 and to 45. The core's part, in the columns *work* and *scalar code*, changes far
# less; without copies it shrinks, because there are no copies to start. So **by the compiler's simulator, the latency
# of the copies is to blame.** The published times fit this result but do not prove it.
#
# Why is it not enough to request a block one step ahead? A block is requested at the beginning of one step, and the
# work on it is done at the end of the next. So two steps have to cover its latency, its bytes and its work. Here *work*
# means both of the core's columns together.
#
# **A step takes (latency + bytes + work) / 2 with two buffers, and / 4 with four,**
#
# but never less than its work, and never less than its bytes at full bandwidth. In the simulator a copy has a latency
# of 1142 cycles, and the two copies of a step run at the same time. *Further* checks the rule against the table.
#
# The chart shows the first steps with two buffers. **Look for one thing:** when is the copy for step 3 requested, and
# when does the work on it begin?

# %%
viz.pipeline_chart(in_small_blocks, small, small)

# %% [markdown]
# One step after its request, the block for step 3 is still on its way, so the core waits.
#
# ## From a step to a roof
#
# A step took 526 cycles on the chip, and it takes 750 in the simulator. The published times fit a shorter latency than
# the 1142 cycles that the simulator assumes. Our model uses the shorter latency, which *Further* derives. It is a fit
# and not a measurement.
#
# Now suppose that the arithmetic and the bytes take no time. What remains of a step is its price, which is 0.30 us of
# the 0.35 us. So with two buffers, the FLOP/s of a kernel that fetches new blocks at every step are at most the FLOPs
# of one step divided by this price.
#
# > **price of a step**: the time of a grid step that fetches a new block, if its arithmetic and its bytes took no time:
# > half of the sum of the latency and of what the core does besides the arithmetic.

# %%
fitted = roofline.FITTED["v5e"]
print(f"price of a step: {fitted.step_s * 1e6:.2f} us")
for bm, bk, bn in [(128, 128, 128), (256, 256, 256), (512, 1024, 1024)]:
    most = 2 * bm * bk * bn / fitted.step_s
    print(
        f"{bm:4} x{bk:5} x{bn:5}: at most {most / 1e12:5.0f} TFLOP/s, {most / peak:5.0%} of the peak"
    )

# %% [markdown]
# With two buffers, blocks of 128 that move at every step are stuck at 7 % of the peak, whatever the size of the
# matrices. For the large blocks this roof lies far above the others.
#
# **Task.** The plot starts with blocks of 128. The third roof is dashed, and the point is stuck under it. Set bk to
# 1024, then bn to 1024, then bm to 512. The diamonds mark the two published times, and the point ends up at the upper
# one. One of the three changes moves the point straight up. Which one is it, and what stops the point there?


# %%
def published(name, fn, seconds):
    p = roofline.predict(fn, x, y)
    return viz.Point(
        name=name,
        flops=p.flops,
        hbm_bytes=p.hbm_bytes,
        seconds=seconds,
        measured_by="the JAX documentation",
    )


viz.roof_plot(
    m=8192,
    k=8192,
    n=8192,
    blocks=(128, 128, 128),
    published=[
        published("small, published", in_small_blocks, PUBLISHED_SMALL[8192]),
        published("large, published", in_large_blocks, PUBLISHED_LARGE[8192]),
    ],
)

# %% [markdown]
# The change of bk moves the point straight up. The intensity does not depend on bk, but a larger bk means fewer steps,
# so it lifts only the third roof. The point then stops at the slope. Larger bm and bn move fewer bytes, so they shift
# the point to the right.
#
# The times under the plot are the model's. In the model, copies reach 89 % of the bandwidth, which is a fit to the
# published times and is drawn as the dotted line beside the slope. That is why the bytes of the slow kernel take 23.7
# ms there, instead of the 21.1 ms of the data sheet.
#
# ## Is this timing possible?
#
# A guide to writing kernels publishes two times for a float32 matmul of 8192: 35.039 ms for its kernel, and 7.811 ms
# for the layer that the kernel was meant to replace. Later a pull request to the guide reports 2.240 ms. Are these
# times possible on a v5e? The guide is "Define a Custom TPU/GPU Kernel" on keras.io, December 2025, and the pull
# request is number 2284 of keras-io.

# %%
f32 = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
least = bench.bound(jnp.dot, f32, f32)
print(least)
print(f"35.039 / 7.811 = {35.039 / 7.811:.1f}")
print(f"2.240 ms is {least.flops / 2.240e-3 / 1e12:.0f} TFLOP/s")

# %% [markdown]
# The guide's kernel is slower than the layer it replaces, which is possible, but 2.240 ms is not. `bench`, the part of
# our library that times kernels, refuses such a time before it prints it.

# %%
try:
    bench.refuse_the_impossible("the fast kernel", 2.240e-3, least)
except bench.Impossible as error:
    print(text.folded(str(error)))

# %% [markdown]
# So compare every time that you measure with the roofline. A time that is too good is not good news: either nobody
# waited for the result, or it was never computed.
#
# ## When is a kernel worth writing?
#
# A profiler says that an operation uses 1 % of the chip's peak. Is that bad? Ask first how much of the peak the
# operation could use at all.

# %%
for name, fn, args in [
    ("add, float32", jnp.add, [jax.ShapeDtypeStruct((2**24,), jnp.float32)] * 2),
    ("matmul, B = 8", jnp.dot, [bf16(8, 8192), bf16(8192, 8192)]),
    ("matmul, 8192", jnp.dot, [x, y]),
]:
    best = min(1, roofline.intensity(fn, *args) / ridge)
    print(f"{name:15} at best {best:7.2%} of the peak")

# %% [markdown]
# An addition that uses 0.03 % of the peak may be perfect, so this share alone says little. Look instead at the gap
# between the time that the operation takes and the time that it must take. The next cell prints both for the matmuls of
# the opening.

# %%
must = bench.bound(jnp.dot, x, y).seconds
for name, takes in [
    ("XLA", PUBLISHED_XLA[8192]),
    ("large blocks", PUBLISHED_LARGE[8192]),
    ("blocks of 128", PUBLISHED_SMALL[8192]),
]:
    print(
        f"{name:13} must take {must * 1e3:.1f} ms, takes {takes / must:5.2f} times as long: "
        f"{must / takes:.1%} of the peak"
    )

# %% [markdown]
# - **No gap.** No kernel for this operation will be faster. Move fewer bytes instead: by fusion (lesson 9), with a
#   narrower dtype, or with another algorithm.
# - **A gap.** Ask what takes the time: bytes that move twice, vector work, or grid steps. A kernel can often reduce
#   these where XLA does not know how.
# - **XLA is at the roof already**, as for this matmul. Then leave the operation to XLA.
#
# > **fusion**: several operations in one kernel, so that the results passed from one to the next never go through HBM.
#
# ## Five questions
#
# Answer each question before you open it.
#
# <details><summary>1. "A v5e does 197 TFLOPs." What is wrong with that sentence?</summary>
# TFLOPs are an amount of work, not a rate. A v5e does 197 TFLOP/s at best, with bfloat16 matmuls.</details>
#
# <details><summary>2. Is a float32 matmul of 1024 x 1024 matrices memory-bound or compute-bound on a v5e?</summary>
# By this estimate it is memory-bound, because it does 1024 / 6 = 171 FLOPs per byte and needs 240. It is compute-bound
# from N = 1441 on.</details>
#
# <details><summary>3. You double all three block sizes of a blocked matmul. What happens to its bytes, its steps and
# its VMEM?</summary>
# It moves about half the bytes, takes an eighth of the steps, and needs four times the VMEM.</details>
#
# <details><summary>4. A kernel with blocks of 128 takes 750 cycles a step, most of them waiting for copies. You double
# the bandwidth of the memory at the same latency. How much do you gain?</summary>
# You gain little, because the wait is mostly latency and the bytes are the small part of it. Larger blocks help, and so
# do more buffers.</details>
#
# <details><summary>5. A kernel takes ten times its roofline. Name five suspects.</summary>
# Suspect too many grid steps (the blocks are too small), bytes that are fetched again and again, work on the VPU,
# copies that nothing hides, and a clock that timed the host.</details>

# %% [markdown]
# The next cell checks the answers to questions 2 and 3.

# %%
f32_1024 = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
intensity = roofline.intensity(jnp.dot, f32_1024, f32_1024)
print(f"{intensity:.0f} FLOPs/byte; crossover at N = {crossover('float32'):.0f}")
for b in (256, 512):
    walk = grid.walk(functools.partial(product, bm=b, bk=b, bn=b), x, y)
    moved, vmem = cost.hbm_bytes(walk) / 1e9, cost.vmem_bytes(walk) / 2**20
    print(
        f"blocks of {b}: {moved:.1f} GB, {walk.calls[0].steps:6,} steps, {vmem:.0f} MiB of VMEM"
    )

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 3](../exercises/03_roofline.ipynb). The first one asks how long a sum must take. Only
# 03.6 needs something from the part below: the section "Between chips".

# %% [markdown]
# ## Further
#
# This part has six sections for readers who want more. They cover many users at once, the latency that fits the
# published times, whom to believe if the model, the compiler and a clock disagree, what goes wrong if all FLOPs are
# counted alike, how long it takes to bring a matrix to all chips, and where a roofline misleads.
#
# ### More than 240 rows at a time
#
# A model that answers one user multiplies a vector by a matrix of weights. With B users, the operation becomes x[B, D]
# @ w[D, F]. If D and F are large, nearly all of the bytes are weights: 2 D F bytes for 2 B D F FLOPs. So the intensity
# is about B.
#
# **Predict first.** Let D = F = 2048. How much longer do four times as many rows take: 256 instead of 64, and 1024
# instead of 256? Write down two factors.

# %% tags=["predict"]
D = 2048
batches = (16, 32, 64, 128, 256, 512, 1024)
us = {}
for b in batches:
    us[b] = compiler.compile_tpu(jnp.dot, bf16(b, D), bf16(D, D)).seconds * 1e6
print(f"256 rows take {us[256] / us[64]:.1f} times as long as 64,")
print(f"1024 rows {us[1024] / us[256]:.1f} times as long as 256: predicted (compiler)")
weights = D * D
by_bytes = (weights + 2 * 256 * D) / (weights + 2 * 64 * D)
print(f"256 rows against 64 by their bytes alone: {by_bytes:.1f} times")

# %% [markdown]
# Both times the number of rows grows by a factor of four, yet the two answers differ. The plot shows the sizes in
# between, with the compiler's times as points and our model's times as a line. Look for the bend.

# %%
rows = range(16, 1025, 16)
model = [roofline.predict(jnp.dot, bf16(b, D), bf16(D, D)).seconds * 1e6 for b in rows]
at_ridge = ridge * D / (D - 2 * ridge)

plt.rcParams.update(viz.PLOT_STYLE)
fig, axes = plt.subplots()
axes.loglog(rows, model, label="predicted (model)")
axes.loglog(us.keys(), us.values(), "o", label="predicted (compiler)")
axes.axvline(at_ridge, color="gray", linestyle=":", label=f"ridge, B = {at_ridge:.0f}")
axes.set(title=f"x[B, {D}] @ w[{D}, {D}] on a v5e", xlabel="B, rows", ylabel="us")
axes.set_xticks(batches, labels=batches)
axes.set_yticks([10, 20, 50], labels=[10, 20, 50])
axes.minorticks_off()
axes.legend()
viz.plot_picture(
    fig, "Up to B = 128 the time hardly grows. From 512 on it doubles when B doubles."
)

# %% [markdown]
# To the left of the ridge point the bytes of the weights take longest, so additional rows are nearly free. They are not
# entirely free: 256 rows also move more bytes of x and of the result, which explains most of the factor of 1.3. To the
# right of the ridge point each row costs its arithmetic. That is why a server collects requests until it has a few
# hundred. The dotted line lies beyond 240 because it counts the bytes of x and of the result too. With `D = 4096` it
# moves closer to 240: change D, and run both cells again.
#
# ### A latency that fits
#
# For the simulator, whose latency we know, the rule for a step can be checked. The next cell compares it with the table
# of the third roof.

# %%
latency = roofline.LATENCY_CYCLES["v5e"][0]
one_copy = bytes_of_a_step / 2 / (bandwidth / v5e.clock_hz)  # cycles for its bytes
print(f"latency {latency} cycles, bytes {one_copy:.0f}")
print("cycles a step   work   by the rule   predicted (compiler)")
for buffers in (2, 3, 4, 6):
    step = steps[f"{buffers} buffers"]
    work = step["work"] + step["scalar code"]
    rule = max(work, (latency + one_copy + work) / buffers)
    print(f"{buffers} buffers {work:10.0f} {rule:10.0f} {sum(step.values()):16.0f}")

# %% [markdown]
# With six buffers only the work is left, and with fewer the latency is not fully hidden.
#
# How long is the latency on the chip? The published times fit one that is shorter than the simulator's 1142 cycles,
# which are 0.76 us. That would explain why a step takes 750 cycles in the simulator and not 526. Our model takes the
# core's part of a step from the compiler, and fits the latency to the published times. This is a fit, not a
# measurement: a shorter latency and a slower core would fit as well.

# %%
parts = {
    "latency": fitted.read_s,
    "bytes": bytes_of_a_step / (fitted.hbm * bandwidth),
    "core, beside arithmetic": fitted.issue_s,
    "arithmetic": arithmetic / fitted.mxu,
}
for name, seconds in parts.items():
    print(f"{name:25} {seconds * 1e6:.2f} us")
step = sum(parts.values()) / 2
count = grid.walk(in_small_blocks, x, y).calls[0].steps
print(f"half of the sum: {step * 1e6:.2f} us; {count:,} steps: {count * step * 1e3:.1f} ms")
print(f"published: {PUBLISHED_SMALL[8192] * 1e3:.1f} ms")
free = (sum(parts.values()) - parts["bytes"]) / 2
print(f"if the bytes took no time at all: {count * free * 1e3:.0f} ms")

# %% [markdown]
# The last line shows that the bytes are not to blame: if they took no time at all, the kernel would still take seven
# eighths of its time.
#
# ### Three opinions on a time
#
# Back to the matmuls: the next cell names three of them, on a v5e, in bfloat16. Write your guesses into it, in
# milliseconds, before you run the cell below. You know the peak, the bandwidth, and what a step takes. The published
# times come from the host's clock.

# %%
guesses = {  # milliseconds
    "4096, blocks of 128": None,
    "4096, large blocks": None,
    "1024, XLA": None,
}

# %% [markdown]
# *Model* is predicted (model), by `roofline.predict`, and *compiler* is predicted (compiler). *Published* was measured
# by the authors of the notebook in the JAX repository. Their clock includes the host's 0.11 ms, so we add it to both
# predictions.

# %% tags=["predict"]
PUBLISHED_LARGE |= {1024: 0.0001271, 4096: 0.0008891}
PUBLISHED_XLA |= {1024: 0.0001194, 4096: 0.0008273}

large = bf16(4096, 4096)
trials = {
    "4096, blocks of 128": (in_small_blocks, large, PUBLISHED_SMALL[4096]),
    "4096, large blocks": (in_large_blocks, large, PUBLISHED_LARGE[4096]),
    "1024, XLA": (jnp.dot, small, PUBLISHED_XLA[1024]),
}
opinions = {}
print("milliseconds                 yours  model         compiler      published")
for name, (fn, arg, published_s) in trials.items():
    guess = guesses[name]
    yours = f"{guess:6} ({guess / 1e3 / published_s:.2f})" if guess else "-"
    row = f"{name:20} {yours:>13}"
    both = opinions[name] = roofline.opinions(fn, arg, arg)
    for seconds in (both.model.wall_s, both.compiler.seconds + roofline.DISPATCH_S):
        row += f"{seconds * 1e3:7.2f} ({seconds / published_s:.2f})"
    print(f"{row} {published_s * 1e3:9.2f}")
print("\nIn parentheses: the prediction, or the guess, divided by the published time.")

# %% [markdown]
# A prediction within a factor of 1.5 is good. The model does well, but its constants were fitted to these very times. A
# fairer test uses timings that the fit has not seen: if you `print` a prediction, it says how far off the model was on
# those. We did not fit the compiler's simulator to these times. It is close for large blocks, and nearly 40 % too long
# for blocks of 128, because its copies have a longer latency. Both predictions come from `roofline.opinions`, which
# also says why they differ if they are more than a tenth apart. It compares them without the host's part.

# %%
for name, both in opinions.items():
    print(text.folded(f"{name}: {both.remark or 'they agree.'}\n"))

# %% [markdown]
# Look at the matmul of 1024, too. Nine tenths of its time is spent on the host, which starts each call and waits for
# it. A clock around a small function measures Python.
#
# If you have a TPU, the next cell measures a matmul on it. Otherwise the cell says that there is none.

# %%
a = jax.random.normal(jax.random.key(0), (4096, 4096), jnp.bfloat16)
try:
    print(bench.measure(jnp.dot, a, a))
except bench.NoAccelerator as error:
    print(text.folded(str(error)))

# %% [markdown]
# In the model, a step takes the largest of three times: its work, its bytes, and half of latency, bytes and work
# together. Which of the three is the largest with larger blocks?

# %%
print("us, a step          work   (latency + bytes + work) / 2   bytes")
for bm, bk, bn in [(128, 128, 128), (256, 256, 256), (512, 512, 512), (512, 1024, 1024)]:
    work = 2 * bm * bk * bn / peak / fitted.mxu + fitted.issue_s
    copies = 2 * (bm * bk + bk * bn) / bandwidth / fitted.hbm
    waiting = (fitted.read_s + copies + work) / 2
    print(
        f"{bm:4} x{bk:5} x{bn:5} {work * 1e6:6.2f} {waiting * 1e6:22.2f} {copies * 1e6:15.2f}"
    )

# %% [markdown]
# Each step takes the largest time of its row. With blocks of 128 a step takes three times as long as its work, and with
# blocks of 512 it takes a tenth longer. In the last row the core works all the time. A kernel takes the sum of its
# steps, plus the first copy and the last write, which have nothing to hide behind. `roofline.predict` computes this
# sum.
#
# ### Self-attention: not all FLOPs are alike
#
# One head of attention, without scaling, is softmax(Q K^T) V, where Q, K and V have T rows of K elements. It has two
# matmuls of 2 T^2 K FLOPs each. The softmax of the T x T scores takes an exp, an addition and a division for each
# score, which makes 3 T^2 FLOPs. The total is 4 T^2 K + 3 T^2.

# %%
T, K = 2048, 128
products, softmax = 4 * T**2 * K, 3 * T**2
print(f"all at the peak: {(products + softmax) / peak * 1e6:.1f} us at least")
print(f"the softmax has {softmax / (products + softmax):.1%} of the FLOPs")
print(f"if the VPU did all of it, it would take {softmax / vector_peak * 1e6:.1f} us")

# %% [markdown]
# Does the softmax take 0.6 % of the time, too? Let the compiler predict the kernel with the softmax and without it. The
# kernel first finds the maximum of each row and subtracts it, so that no exp is too large. *Slots* in the output are
# places for instructions. The share of a unit's slots that are filled says how much of the program is work for that
# unit; it does not include waiting.


# %%
def times_v(weights, v_ref):
    v = v_ref[...]
    return jnp.dot(weights.astype(v.dtype), v, preferred_element_type=jnp.float32)


def attention_kernel(q_ref, k_ref, v_ref, o_ref):
    scores = jnp.dot(q_ref[...], k_ref[...].T, preferred_element_type=jnp.float32)
    weights = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    o_ref[...] = times_v(weights, v_ref).astype(o_ref.dtype)


def products_kernel(q_ref, k_ref, v_ref, o_ref):
    scores = jnp.dot(q_ref[...], k_ref[...].T, preferred_element_type=jnp.float32)
    o_ref[...] = times_v(scores, v_ref).astype(o_ref.dtype)


def over_queries(kernel):
    rows = pl.BlockSpec((256, K), lambda i: (i, 0))
    everything = pl.BlockSpec((T, K), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=bf16(T, K),
        grid=(T // 256,),
        in_specs=[rows, everything, everything],
        out_specs=rows,
    )


q = bf16(T, K)
with_softmax = compiler.compile_tpu(over_queries(attention_kernel), q, q, q)
without = compiler.compile_tpu(over_queries(products_kernel), q, q, q)
for name, report in [("with", with_softmax), ("without", without)]:
    slots = ", ".join(f"{unit} {report.slots[unit]:.0%}" for unit in ("MXU", "VPU"))
    program = f"{report.bundles:,} bundles, {report.spills:,} spills"
    print(f"{name:>8} softmax: {report.cycles:,} cycles, {program}, slots {slots}")
print(f"the softmax: {1 - without.cycles / with_softmax.cycles:.0%} of the cycles")
print("all of it predicted (compiler)")

models = [
    roofline.predict(over_queries(k), q, q, q) for k in (attention_kernel, products_kernel)
]
print("predicted (model), us:", *(f"{model.seconds * 1e6:.1f}" for model in models))

# %% [markdown]
# The softmax has less than one percent of the FLOPs, but it takes a fifth of the time. The formula counts an exp like a
# multiplication in the MXU, although the MXU does thirty times as many operations per second as the VPU. So count each
# unit of the chip separately: here, 2 us of vector work and 11 us of matmuls.
#
# In this kernel the two times come closer to adding up than to overlapping. The softmax adds half as many bundles again
# to the program, and it doubles the spills. Our own model takes the longer of the two times, so it sees no difference
# at all.
#
# A mask and grouped queries change the count. With a causal mask, query t needs only the keys 0 to t. That leaves half
# of the pairs, and half of the FLOPs if a kernel skips the rest. With grouped queries, several heads share one K and V,
# so the kernel moves fewer bytes for the same FLOPs. Exercise 03.5 counts both.
#
# ### Between chips
#
# When a model is too large for one chip, each chip holds a shard of every matrix, which is an equal part of it. Before
# a matmul, each chip may need the whole matrix. How long does it take at least to fetch the rest?
#
# > **all-gather**: an operation between chips: at first each of n chips has one of n equal shards of an array, and at
# > the end every chip has all of them.
# >
# > **network-bound**: limited by the network; moving the bytes between chips takes longer than anything on a chip.
#
# A chip lacks (n - 1) / n of the S bytes, and all of these have to come through its own links. For large n the time is
# close to S divided by the bandwidth into one chip. The JAX team's article gives 1600 Gbit/s for a v5e. Google's page
# today gives 400 GB/s for both directions together, of which half comes in. The book "How to Scale Your Model" gives 45
# GB/s for one link in one direction, and a v5e has four links.

# %%
ici = 1600e9 / 8
link = 45e9
print(f"network into a chip: {ici / 1e9:.0f} GB/s; four links: {4 * link / 1e9:.0f} GB/s")
print(f"HBM is {bandwidth / ici:.1f} times as fast")

weights = 2 * 8192 * 8192
print(f"\nall-gather of {weights / 2**20:.0f} MiB, at least, in us:")
for n in (4, 16, 256):
    print(f"  {n:3} chips: {weights * (n - 1) / n / ici * 1e6:4.0f}")
print(f"  the whole matrix over the bandwidth: {weights / ici * 1e6:.0f}")

# %% [markdown]
# From 16 chips on, the number of chips hardly matters, as long as the bytes are what takes the time. Use the HBM
# bandwidth in estimates for one chip, and the network bandwidth in estimates between chips. A program for which the
# network takes longest is **network-bound**.
#
# This bound assumes that all four links are at work. The chips of a v5e form a torus, in which rows and columns of
# chips are closed to rings if they are long enough. The picture shows a row that is closed and one that is not. **Look
# for one thing:** how many links bring bytes to the blue chip?

# %%
ARROW = {"arrowstyle": "-|>", "lw": 2.5, "color": "C1", "shrinkA": 5, "shrinkB": 5}
ring = [(math.sin(math.pi * n / 8), math.cos(math.pi * n / 8)) for n in range(16)]
line = [(n, 0) for n in range(6)]
fig, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.7))
for axes, chips_at, title in [(left, ring, "a ring of 16"), (right, line, "a line of 6")]:
    closed = chips_at + chips_at[:1] if chips_at is ring else chips_at
    axes.plot(*np.transpose(closed), color="gray", zorder=1)
    axes.scatter(*np.transpose(chips_at), s=90, color="white", edgecolors="gray", zorder=2)
    axes.scatter(*chips_at[0], s=90, color="C0", zorder=2)
    for neighbour in [chips_at[1]] + ([ring[-1]] if chips_at is ring else []):
        axes.annotate("", chips_at[0], neighbour, arrowprops=ARROW, zorder=3)
    axes.set_title(title)
    axes.set_aspect("equal", "datalim")
    axes.margins(0.15)
    axes.axis("off")
viz.plot_picture(fig, "Two links lead into a chip of a ring, one into the end of a line.")

# %% [markdown]
# A tiny array has another limit. By the same book's chapter on sharding, a hop to the neighbor takes about 1 us,
# however little it carries. In a ring of 16 chips, the farthest one is 8 hops away. Bytes and hops overlap, so again
# the larger time counts.

# %%
hop = 1e-6
for size in (4 * 2**10, 4 * 2**20):
    by_bytes, by_hops = size * 15 / 16 / (2 * link), 8 * hop
    bound = "hops" if by_hops > by_bytes else "bytes"
    print(
        f"{size // 2**10:5} KiB on a ring of 16: {max(by_bytes, by_hops) * 1e6:5.1f} us, {bound}"
    )

# %% [markdown]
# ### Where the roofline goes wrong
#
# A roofline is an estimate: it says what cannot be beaten, not what will happen. One of its blind spots you have
# already seen, the latency of copies. Here are five more.
#
# **Work for the VPU.** The next kernel computes a polynomial of degree 65 for each of 1 Mi elements. That takes 128
# operations for 8 bytes, or 16 FLOPs per byte, which lies far to the left of 240. Is the kernel memory-bound?


# %%
def polynomial_kernel(x_ref, o_ref):
    x = x_ref[...]
    value = x
    for _ in range(64):
        value = value * x + 1
    o_ref[...] = value


block = pl.BlockSpec((128, 1024), lambda i: (i, 0))
table = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
polynomial = pl.pallas_call(
    polynomial_kernel, out_shape=table, grid=(8,), in_specs=[block], out_specs=block
)
work = 128 * table.size
report = compiler.compile_tpu(polynomial, table)
print(f"bytes                 {report.hbm_bytes / bandwidth * 1e6:3.0f} us")
print(f"FLOPs at the peak     {work / peak * 1e6:3.0f} us")
print(f"FLOPs on the VPU      {work / vector_peak * 1e6:3.0f} us")
print(f"predicted (compiler)  {report.seconds * 1e6:3.0f} us")
print(f"that is {work / report.seconds / peak:.1%} of the peak")

# %% [markdown]
# It is not, because its roof is that of the VPU, at 3 % of the height of the MXU's. The compiler agrees, because its
# bundles have four slots for vector operations.
#
# **An MXU that is not full.** The MXU holds a square of 128 x 128 weights, so a right operand with 64 columns fills
# half of it. To see this effect rather than the copies, we let x stay in VMEM, multiply it by 64 matrices y in turn,
# and add up the results.


# %%
def sum_kernel(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[0], preferred_element_type=jnp.float32)


for columns in (64, 128, 256):
    call = pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((1024, columns), jnp.float32),
        grid=(64,),
        in_specs=[
            pl.BlockSpec((1024, 1024), lambda i: (0, 0)),
            pl.BlockSpec((1, 1024, columns), lambda i: (i, 0, 0)),
        ],
        out_specs=pl.BlockSpec((1024, columns), lambda i: (0, 0)),
    )
    report = compiler.compile_tpu(call, bf16(1024, 1024), bf16(64, 1024, columns))
    # The report also has what XLA does to y before the kernel; count the kernel alone.
    (kernel,) = [op for op in report.ops if op.kind == "kernel"]
    waiting = report.time_split["DMA wait"] / report.cycles
    print(
        f"{columns:3} columns: {2 * 1024**2 * columns / 1e6:3.0f} MFLOPs and "
        f"{kernel.cycles / 64:,.0f} cycles a step, waiting for copies {waiting:.0%}"
    )

# %% [markdown]
# The kernel hardly waits for copies. From 256 columns to 128, half of the work takes about half of the time. From 128
# to 64, half of the work saves only a sixteenth of the time.
#
# **Bubbles.** Nothing overlaps with the first copy or with the last write, which matters if there are few steps. The
# matmul of 1024 in large blocks has two steps, and the model calls *overhead* all that it takes beyond the longer of
# arithmetic and copies:

# %%
print(roofline.predict(in_large_blocks, small, small))

# %% [markdown]
# **Heat.** A chip that gets too hot slows down, and only a measurement tells you so.
#
# **A cache.** GPUs have a second cache, L2, between cores and HBM. Their kernels use blocks of 128 or so, because a
# core's own memory is small. By the rule for blocks, such a kernel has 64 FLOPs per byte and is memory-bound. Yet it
# may be compute-bound, because blocks that another core has just fetched come from L2 and not from HBM. A TPU copies
# exactly what the grid says, because it has no such cache.
#
# <!-- next -->
