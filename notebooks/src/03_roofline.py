# %% [markdown]
# # Lesson 3: The roofline
#
# *60 minutes, then 85 for the exercises. What stands under "Further" at the end is extra: 55 minutes, for today or for
# another day. You need lessons 1 and 2, pencil and paper. You need no TPU. If you have one, you can time the products yourself.*
#
# The documentation of JAX times one product on a TPU v5e: two bfloat16 matrices, 8192 by 8192 each. A kernel that works in
# blocks of 128 x 128 x 128 takes 91.8 ms. The same kernel in blocks of 512 x 1024 x 1024 takes 6.10 ms. XLA's own product
# takes 6.05 ms.
#
# If the chip did nothing but the arithmetic, it would need 5.6 ms. If it did nothing but move the bytes that the slow kernel
# moves, it would need 21 ms. The slow kernel takes 91.8.
#
# **What takes the rest?** Write down a guess. You will compute the 5.6 and the 21 yourself in a few minutes. The second half of
# the lesson finds the rest.
#
# After this lesson you can
# - say how long an operation must take on a chip, before anybody writes it,
# - say whether arithmetic or memory is in its way, and from which size on that changes,
# - say what a grid step costs beside its work, and why,
# - tell which published times cannot be true,
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
# Here is the kernel of both times; only its blocks differ. It cuts x into blocks of bm x bk and y into blocks of bk x bn. For
# each block of the result it goes along k, multiplies a block of x by a block of y, and adds. Lesson 4 is about such
# grids; today only the sizes of the blocks matter.
#
# `pl.program_id(2)` is the number of the step along the third axis of the grid, and `pl.num_programs(2)` is how many
# there are. A function under `pl.when` runs only where the condition holds: `zero` at the first step along k, `store` at
# the last. In between the sum is kept in `acc_ref`, in float32. `preferred_element_type=jnp.float32` asks `jnp.dot` for a
# float32 result. Without it `jnp.dot` asks for bfloat16, which a TPU's compiler refuses: the MXU adds up in 32 bits.
#
# > **scratch**: room in VMEM or SMEM that a kernel has for itself. What lies there stays from step to step.


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
    """x[m, k] @ y[k, n] in blocks; the reduction is the last axis of the grid."""
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
# Here is the kernel on small arrays, in blocks of 128. **Look for one thing:** which block of x meets which block of y? Press
# *Play* and watch the two numbers of each.

# %%
player = viz.grid_player(
    functools.partial(product, bm=128, bk=128, bn=128), bf16(384, 512), bf16(512, 384)
)
player.step = 23  # the step that is shown first: i = 1, j = 2, k = 3
player

# %% [markdown]
# Block (i, k) of x meets block (k, j) of y, and their product is added to block (i, j) of the result. The block of the result
# stays while k runs. The light blue blocks have been in VMEM before: for each column of the result the same row of x is copied
# in once more.
#
# Now the two kernels of the opening. How many bytes do they move?


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
# Both do the same arithmetic, and the small blocks move five times the bytes. That is one suspect, but 21 ms are not 91.8.
# Keep it in mind.
#
# These are the published times, in seconds. We did not measure them. They are the outputs of `docs/pallas/tpu/matmul.ipynb` in
# the JAX repository, by the host's clock.

# %%
PUBLISHED_SMALL = {8192: 0.091836}
PUBLISHED_LARGE = {8192: 0.0060994}
PUBLISHED_XLA = {8192: 0.0060471}

# %% [markdown]
# ## Two numbers of a chip
#
# For a first estimate two numbers are enough: the peak, how fast the MXU multiplies matrices, and the bandwidth, how fast bytes
# come from HBM.

# %%
v5e = chips.chip("v5e")
peak, bandwidth = v5e.bf16_flops, v5e.hbm_bandwidth
print(f"peak       {peak / 1e12:.0f} TFLOP/s, bfloat16")
print(f"bandwidth  {bandwidth / 1e9:.0f} GB/s between HBM and VMEM")
print(f"VMEM       {v5e.vmem_bytes / 2**20:.0f} MiB")
print(f"HBM        {v5e.hbm_bytes / 2**30:.0f} GiB")

# %% [markdown]
# The numbers come from a table inside JAX. Google's page on the v5e prints 197 TFLOP/s and 819 GB/s; JAX rounds to 820. Mind
# the letters: GB is 10^9 bytes and GiB is 2^30, and 1 Mi of anything is 2^20 of it.
#
# Amount divided by rate is time. That is all the mathematics of this lesson.

# %%
flops = cost.flops(grid.walk(in_small_blocks, x, y)).mxu
for fn in (in_small_blocks, in_large_blocks):
    moved = cost.hbm_bytes(grid.walk(fn, x, y))
    print(
        f"{fn.__name__}: arithmetic {flops / peak * 1e3:.1f} ms, bytes {moved / bandwidth * 1e3:.1f} ms"
    )

# %% [markdown]
# There are the 5.6 and the 21. Neither is 91.8.
#
# ### Is the peak everybody's?
#
# No. It belongs to the MXU. What is left for a program that only adds and multiplies vectors? The VPU of a v5e does four
# operations a cycle, each on 8 x 128 numbers (lesson 2).

# %%
OPERATIONS = 4
vector_peak = OPERATIONS * v5e.sublanes * v5e.lanes * v5e.clock_hz
print(f"clock: {v5e.clock_hz / 1e9:.3f} GHz")
print(f"VPU: {vector_peak / 1e12:.1f} TFLOP/s, {vector_peak / peak:.0%} of the peak")

# %% [markdown]
# The JAX team's article "Pallas: Custom Kernels in JAX" of November 2025 advises to expect at most 10 to 20 % of the peak from
# work that is not mostly matrix products. For vector work in float32 on this chip even that is generous. Scalar work, one
# number at a time, is slower still.
#
# ## How long must it take, at least?
#
# Take the simplest thing there is: adding two float32 vectors of 32 Mi numbers. That is 32 Mi additions, and three vectors that
# pass between HBM and VMEM. Which takes longer? By how much? Guess, then run.

# %% tags=["predict"]
numbers = 32 * 2**20
additions, moved = numbers, 3 * numbers * 4
print(f"arithmetic {additions / vector_peak * 1e6:6.1f} us")
print(f"bytes      {moved / bandwidth * 1e6:6.1f} us")

summand = jax.ShapeDtypeStruct((numbers,), jnp.float32)
report = compiler.compile_tpu(jnp.add, summand, summand)
print(f"predicted (compiler): {report.seconds * 1e6:.0f} us, {report.hbm_bytes:,} bytes")

# %% [markdown]
# The compiler's time is that of the bytes: its report takes the longer of the cycles and the bytes at full speed. No
# cleverness can make this addition faster. In bfloat16 it would move half as many bytes. (The additions would take longer:
# the VPU of a v5e widens both vectors to float32 first. The bytes would still rule.)
#
# It is **memory-bound**, and the arithmetic units are idle nearly all of the time. One prefers the opposite,
# **compute-bound**, because then the expensive part of the chip is at work. Our reports name the memory that is meant:
# *bound by HBM*, *bound by compute*.
#
# > **memory-bound**: what takes longer for its bytes than for its arithmetic.
# >
# > **compute-bound**: what takes longer for its arithmetic than for its bytes.
#
# ### The larger of the two, or their sum?
#
# A good kernel fetches the next block and writes the last one *while* it computes the current one. Then the two times overlap,
# and the whole takes as long as the longer one: max(compute, memory). If nothing overlaps, it takes their sum.
#
# We take the larger. No kernel beats it, and the sum is at most twice as long. So overlapping arithmetic with bytes earns at
# most a factor of two. (Waiting is a third thing, and comes later.) For the addition it earns next to nothing:

# %%
compute, memory = additions / vector_peak, moved / bandwidth
print(f"max {max(compute, memory) * 1e6:.0f} us, sum {(compute + memory) * 1e6:.0f} us")

# %% [markdown]
# ## Arithmetic intensity
#
# Compute takes longer than memory if FLOPs / peak > bytes / bandwidth. Put what belongs to the program on one side and what
# belongs to the chip on the other:
#
# FLOPs / bytes > peak / bandwidth
#
# The left side is a property of the program, the right side one of the chip.
#
# > **arithmetic intensity**: the FLOPs that a program does for each byte it moves.
# >
# > **ridge point**: the arithmetic intensity from which on a product on the MXU takes longer for its arithmetic than for
# > its bytes: peak over bandwidth. Vector work has a peak of its own, and a lower ridge.
#
# Here are three programs.

# %%
vector, square = bf16(numbers), bf16(4096, 4096)
for name, fn, arg in [
    ("add", jnp.add, vector),
    ("dot product", jnp.dot, vector),
    ("matrix product, 4096", jnp.dot, square),
]:
    print(f"{name:21} {roofline.intensity(fn, arg, arg):8.2f} FLOPs/byte")
print(f"ridge point of a v5e  {roofline.ridge_point(chip='v5e'):8.2f} FLOPs/byte")

# %% [markdown]
# Adding does one operation for six bytes, a dot product about two for four. Both lie far below the ridge, and the matrix product
# far above it.
#
# ## The roofs
#
# Draw FLOP/s against intensity, both on log axes. Left of the ridge memory allows intensity x bandwidth, a slope. Right of it
# the MXU allows the peak, a flat roof. No point can be above.
#
# > **roof**: the most FLOP/s that one part of a chip allows, whatever the other parts do.
# >
# > **roofline**: the lowest of the roofs at each arithmetic intensity; also an estimate made with it.
#
# **Task.** The point is a product of N x N matrices, each of them copied once. Drag it, or use the arrow keys, to the dotted line:
# there the slope meets the flat roof. Which N is it? Write it down; the next section derives it.

# %%
viz.roof_plot(m=256, k=256, n=256, blocks=None)

# %% [markdown]
# ## How large must a product be?
#
# A product of N x N matrices in bfloat16 does 2 N^3 FLOPs: N^2 results, each a sum of N products. It moves 6 N^2 bytes: three
# matrices, two bytes a number. The intensity is N / 3.

# %%
ridge = roofline.ridge_point(chip="v5e")
for n in (256, 512, 720, 721, 1024):
    compute, memory = 2 * n**3 / peak, 6 * n**2 / bandwidth
    bound = "compute" if compute > memory else "HBM"
    print(f"N = {n:5}: {n / 3:5.1f} FLOPs/byte against {ridge:.1f}, bound by {bound}")

# %% [markdown]
# So N > 720 on a v5e, because N / 3 > 240.
#
# In float32 a number has four bytes. The MXU gets it rounded to bfloat16 unless you ask for more, so the FLOPs take as long as
# before. The bytes take twice as long, and the intensity is N / 6. In int8 the peak doubles, and the result is int32: 6 N^2 bytes
# again.


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
# A faster chip is not an easier one. A v6e has nearly five times the peak of a v5e and only twice the bandwidth, so it asks for
# products more than twice as large.
#
# The table has whole chips, as JAX knows them. The ridge is the same for one core and for its chip. Google's page on the v5p says
# 2765 GB/s, where JAX has 2460; by that page its ridge is 166.
#
# ### And in blocks?
#
# Matrices of 8192 do not fit into VMEM, and a kernel that works in blocks moves more than 6 N^2 bytes. What has to be large then?
# For one step along k it fetches bm x bk numbers of x and bk x bn of y, and does 2 bm bk bn FLOPs. In bfloat16 that is
#
# 2 bm bk bn / (2 bm bk + 2 bk bn) = bm bn / (bm + bn) FLOPs per byte.
#
# The result adds a little to the bytes. bk cancels, and square blocks of side b have an intensity of b / 2: they need 480. Does
# the list of copies agree?

# %%
for bm, bk, bn in [(128, 128, 128), (512, 512, 512), (512, 1024, 512), (512, 1024, 1024)]:
    blocked = functools.partial(product, bm=bm, bk=bk, bn=bn)
    counted = flops / cost.hbm_bytes(grid.walk(blocked, x, y))
    by_hand = bm * bn / (bm + bn)
    print(
        f"{bm:4} x{bk:5} x{bn:5}: by hand {by_hand:3.0f}, counted {counted:3.0f} FLOPs/byte"
    )

# %% [markdown]
# Blocks of 128 are on the slope: 64 of 240. That is why the bytes of the slow kernel take 21 ms. Blocks of 512 are just past the
# ridge, and bk makes no difference to the bytes, as long as it is shorter than k.

# %% [markdown]
# ## The third roof
#
# Now the 91.8 ms. For blocks of 128 the notebook has times of three sizes of matrix. These differ in many things; try the
# number of grid steps. The clock stood on the host, where a call costs about 0.11 ms: our library's estimate, from published
# times of small products. Take that off, divide the rest by the steps, and see whether it is the same each time.

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
print(f"the host's part:  {roofline.DISPATCH_S * 1e3:8.2f} ms of each time, taken off\n")
for part, seconds in [
    ("a step, by the largest", each),
    ("of it, arithmetic", arithmetic),
    ("without it", each - arithmetic),
]:
    print(f"{part:22} {seconds * 1e6:6.3f} us, {seconds * v5e.clock_hz:4.0f} cycles")
print(f"its bytes alone        {bytes_of_a_step / bandwidth * 1e6:6.3f} us")

# %% [markdown]
# From 512 steps to 262,144 a step takes nearly the same time: a third of a microsecond more than its arithmetic. There were
# a quarter of a million steps. That is what takes the rest. Was it your guess?
#
# But a third of a microsecond of *what*? The arithmetic is done in a sixteenth of the step. There are three suspects.
#
# - **The bytes.** A step copies 64 KiB. At full speed that takes 0.08 us, a quarter of what we look for.
# - **The core.** At each step it works out the next blocks, starts their copies, goes round a loop.
# - **The copies.** Not their bytes, but their latency, which even the shortest copy has.
#
# The published times cannot tell the last two apart: in each of them every step copies. The compiler's simulator can, for there
# one of the two can be taken away.
#
# > **buffer**: room in VMEM for one block of an operand. Pallas gives an operand two if its blocks move, so that the next
# > block can arrive while this one is worked on, and otherwise one.
#
# **Predict first.** In the simulator a step of this kernel takes about 750 cycles. On the chip it took 526; why they differ
# you will see. What will a step take
#
# 1. if all index maps return (0, 0)? Then there are as many steps, and nothing to copy after the first;
# 2. if the blocks come with four buffers in place of two? Then they are asked for three steps ahead, and not one.
#
# If the core is guilty, about 750 both times. If the copies are, far less. Write down two numbers. You need not read all
# of the next cell: it is the same kernel, changed in these two ways.


# %% tags=["predict"]
def without_copies(x, y):
    """The same steps on one block, which stays."""
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
    """The same blocks, read ``buffers - 1`` steps ahead. Lesson 5 explains emit_pipeline."""

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


suspects = {"as it was": in_small_blocks, "without copies": without_copies}
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
# Take the copies away, and two thirds of the step are gone. Ask for them earlier, and half of it is gone. What vanishes is
# the waiting: from 445 cycles to 3, and to 45. The core's part, the two columns before it, changes far less: without copies
# it need not start them. So **by the compiler's simulator the latency of the copies is guilty.** The published times fit, and do
# not prove it.
#
# Why does asking one step ahead not hide it? Follow one block. It is asked for at the beginning of a step. Its work is
# done at the end of the next step. So it has two steps for three things: its latency, its bytes, its work. By work we mean
# both columns of the core together.
#
# **a step takes (latency + bytes + work) / 2 with two buffers, / 4 with four,**
#
# and never less than its work, nor less than its bytes at full speed. Try it on the table. In the simulator a copy has a
# latency of 1142 cycles, and both copies of a step run at once.

# %%
latency = roofline.LATENCY_CYCLES["v5e"][0]
one_copy = bytes_of_a_step / 2 / (bandwidth / v5e.clock_hz)  # cycles of its bytes
print(f"latency {latency} cycles, bytes {one_copy:.0f}")
print("cycles a step   work   by the rule   predicted (compiler)")
for buffers in (2, 3, 4, 6):
    step = steps[f"{buffers} buffers"]
    work = step["work"] + step["scalar code"]
    rule = max(work, (latency + one_copy + work) / buffers)
    print(f"{buffers} buffers {work:10.0f} {rule:10.0f} {sum(step.values()):16.0f}")

# %% [markdown]
# With six buffers only the work is left. Fewer do not hide the latency. Here are the first steps, with two. **Look for one
# thing:** when is the copy for step 3 asked for, and when does its work begin?

# %%
viz.pipeline_chart(in_small_blocks, small, small)

# %% [markdown]
# A step after it was asked for the block is still on its way, and the core waits.
#
# ## From a step to a roof
#
# On the chip a step took 526 cycles, and in the simulator 750. To the published times a shorter latency fits than the
# simulator's 1142 cycles: *Further* fits it. That is a fit and no measurement, and our model takes it.
#
# Let arithmetic and bytes take no time. What is left of a step is its price: 0.30 us of the 0.35. No
# kernel that fetches new blocks at every step, with two buffers, does more FLOP/s than the FLOPs of one step over that
# price.
#
# > **price of a step**: what a grid step that fetches a new block takes if neither its arithmetic nor its bytes take
# > time: half of the latency and of what the core does beside the arithmetic.

# %%
fitted = roofline.FITTED["v5e"]
print(f"price of a step: {fitted.step_s * 1e6:.2f} us")
for bm, bk, bn in [(128, 128, 128), (256, 256, 256), (512, 1024, 1024)]:
    most = 2 * bm * bk * bn / fitted.step_s
    print(
        f"{bm:4} x{bk:5} x{bn:5}: at most {most / 1e12:5.0f} TFLOP/s, {most / peak:5.0%} of the peak"
    )

# %% [markdown]
# With two buffers, blocks of 128 that move at every step are stuck at 7 % of the peak, at any size of matrix. For the
# large ones this roof is far above the others.
#
# **Task.** The plot begins with blocks of 128. The third roof is dashed, and the point is stuck under it. Set bk to 1024, then bn
# to 1024, then bm to 512. The diamonds are the two published times, and the point ends in the upper one. One of the three changes
# moves it straight up. Which, and what stops it there?


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
# It is bk, which cancels from the intensity. It makes the steps fewer, and so lifts the third roof alone. Then the slope is in
# the way, and larger bm and bn, which move fewer bytes, bring the point to the right.
#
# The times under the plot are the model's. In it copies reach 89 % of the bandwidth, a fit to the published times: that is the
# dotted line beside the slope. So the bytes of the slow kernel take 23.7 ms there, and not the 21.1 of the data sheet.
#
# ## Is this timing possible?
#
# A guide to writing kernels publishes 35.039 ms for its kernel and 7.811 ms for the layer it was to replace, for a float32
# product of 8192. Later a pull request to the guide reports 2.240 ms. What does a v5e say to that? The guide is "Define a
# Custom TPU/GPU Kernel" on keras.io, December 2025, and the pull request is number 2284 of keras-io.

# %%
f32 = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
least = bench.bound(jnp.dot, f32, f32)
print(least)
print(f"35.039 / 7.811 = {35.039 / 7.811:.1f}")
print(f"2.240 ms is {least.flops / 2.240e-3 / 1e12:.0f} TFLOP/s")

# %% [markdown]
# The guide's kernel is slower than what it replaces, and that can be. The 2.240 ms cannot. `bench`, the part of our library
# that times kernels, refuses such a time before it prints it.

# %%
try:
    bench.refuse_the_impossible("the fast kernel", 2.240e-3, least)
except bench.Impossible as error:
    print(text.folded(str(error)))

# %% [markdown]
# Whoever holds a clock should hold a roofline beside it. A time that is too good is not good news: the result was not
# waited for, or not computed.
#
# ## When is a kernel worth writing?
#
# A profiler says that an operation uses 1 % of the chip's peak. Is that bad? Ask first what it could use.

# %%
for name, fn, args in [
    ("add, float32", jnp.add, [jax.ShapeDtypeStruct((2**24,), jnp.float32)] * 2),
    ("product, B = 8", jnp.dot, [bf16(8, 8192), bf16(8192, 8192)]),
    ("product, 8192", jnp.dot, [x, y]),
]:
    best = min(1, roofline.intensity(fn, *args) / ridge)
    print(f"{name:15} at best {best:7.2%} of the peak")

# %% [markdown]
# An addition that uses 0.03 % of the peak may be perfect, so the usage tells little. Rather look at the gap between the
# time it takes and the time it must take. For the products of the opening:

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
# - **No gap.** No kernel for this operation will be faster. Move fewer bytes instead: by fusion (lesson 9), by a narrower dtype,
#   by another algorithm.
# - **A gap.** Ask which roof is in the way: bytes that are moved twice, vector work, steps. A kernel can remove those, and XLA may
#   not know how.
# - **XLA is at the roof already**, as for this product. Then leave it to XLA.
#
# > **fusion**: several operations in one kernel, so that what one hands to the next never passes through HBM.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A v5e does 197 TFLOPs. What is wrong with that sentence?</summary>
# TFLOPs is an amount. It does 197 TFLOP/s, at best, with bfloat16 matrix products.</details>
#
# <details><summary>2. A float32 product of 1024 on a v5e: memory- or compute-bound?</summary>
# Memory-bound, in this model: 1024 / 6 = 171 FLOPs per byte, and 240 are needed. From N = 1441 on it is
# compute-bound.</details>
#
# <details><summary>3. You double all three block sizes of a blocked product. What happens to its bytes, its steps, its
# VMEM?</summary>
# About half the bytes, an eighth of the steps, four times the VMEM.</details>
#
# <details><summary>4. A kernel with blocks of 128 takes 750 cycles a step, and most of it is waiting for copies. You make the
# memory twice as fast, at the same latency. How much is won?</summary>
# Little. The wait is mostly latency, and the bytes are the small part of it. Larger blocks help, and so do more
# buffers.</details>
#
# <details><summary>5. A kernel takes ten times its roofline. Name five suspects.</summary>
# Grid steps (too small blocks), bytes fetched again and again, work on the VPU, copies that nothing hides, and a clock that
# timed the host.</details>

# %% [markdown]
# Questions 2 and 3, for those who like to see it:

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
# Open [the exercises of lesson 3](../exercises/03_roofline.ipynb). The first asks how long a sum must take. Only 03.6 needs
# something from below: the section "Between chips".

# %% [markdown]
# ## Further
#
# Six sections for those who want more: many users at once, the latency that fits the published times, whom to believe if
# the model, the compiler and a clock disagree, what happens if all FLOPs are counted alike, how long it takes to bring a
# matrix to all chips, and where a roofline misleads.
#
# ### More than 240 rows at a time
#
# A model that answers one user multiplies a vector by a matrix of weights. With B users it is x[B, D] @ w[D, F]. If D and F are
# large, nearly all of the bytes are weights: 2 D F of them, for 2 B D F FLOPs. The intensity is about B.
#
# **Predict first.** D = F = 2048. How much longer do 256 rows take than 64, four times as many? And 1024 than 256? Write down
# two factors.

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
# Four times the rows, twice, and two answers. Here is what lies between: the compiler's times as points, our model's as a line.
# Look for the bend.

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
# Left of the ridge the weights take the time, and further rows are nearly free. Not quite: 256 rows bring bytes of x and
# of the result as well, which is most of their 1.3. Right of it each row costs its arithmetic. That is why whoever
# serves a model collects requests until there are a few hundred. The dotted line lies beyond 240 because it counts the
# bytes of x and of the result too. With `D = 4096` it is nearer: change it, and run both cells again.
#
# ### A latency that fits
#
# How long is the latency on the chip? Less than the simulator's 1142 cycles, which are 0.76 us: that is why it makes a step 750
# cycles long, and not 526. Our model takes the core's part from the compiler, and fits the latency to the published times.
# That is a fit and no measurement: a shorter latency and a slower core would do as well.

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
print(f"half of all: {step * 1e6:.2f} us; of {count:,} steps {count * step * 1e3:.1f} ms;")
print(f"published {PUBLISHED_SMALL[8192] * 1e3:.1f} ms")
free = (sum(parts.values()) - parts["bytes"]) / 2
print(f"if the bytes took no time at all: {count * free * 1e3:.0f} ms")

# %% [markdown]
# The last line clears the bytes: were they free, the kernel would still take seven eighths of its time.
#
# ### Three opinions on a time
#
# Back to the products. Three of them, on a v5e, in bfloat16. Write your guesses into the cell, in milliseconds, before you
# run the one below it. You know the peak, the bandwidth, and what a step takes. The clock stood on the host.

# %%
guesses = {  # milliseconds
    "4096, blocks of 128": None,
    "4096, large blocks": None,
    "1024, XLA": None,
}

# %% [markdown]
# *Model* is predicted (model), by `roofline.predict`. *Compiler* is predicted (compiler). *Published* was measured, by the
# authors of the notebook in the JAX repository. Their clock had the host's 0.11 ms in it, so we add that to both predictions.

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
print("\nIn brackets: the prediction over what was measured.")

# %% [markdown]
# Within a factor of 1.5 is good. The model does well, but its constants were fitted on these very times. A fairer test is
# timings that it had not seen: `print` a prediction, and it says how far off it was on those. The compiler's simulator was
# not fitted on these times by us. It is close for large blocks, and nearly 40 % too long for blocks of 128, because
# its copies have a longer latency. `roofline.opinions`, which asked both for this table, says why wherever the two are more
# than a tenth apart. It compares them without the host's part.

# %%
for name, both in opinions.items():
    print(text.folded(f"{name}: {both.remark or 'they agree.'}\n"))

# %% [markdown]
# Look at the product of 1024, too. Nine tenths of its time is the host, which starts each call and waits for it. A clock around
# a small function measures Python.
#
# Do you have a TPU? Then measure. Without one this cell says so.

# %%
a = jax.random.normal(jax.random.key(0), (4096, 4096), jnp.bfloat16)
try:
    print(bench.measure(jnp.dot, a, a))
except bench.NoAccelerator as error:
    print(text.folded(str(error)))

# %% [markdown]
# A step takes the largest of three: its work, its bytes, and half of latency, bytes and work together. Which of them is it in
# larger blocks?

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
# The largest of a row is what its step takes. With blocks of 128 it takes three times as long as its work, with 512 a tenth
# longer. In the last row it is at work all the time. A kernel takes the sum of its steps, and the first copy and the last write,
# which have nothing to hide behind. That is what `roofline.predict` computes.
#
# ### Self-attention: not all FLOPs are alike
#
# One head of attention, without scaling, is softmax(Q K^T) V, where Q, K and V have T rows of K numbers. It has two products of
# 2 T^2 K FLOPs each, and a softmax of T x T scores: exp, sum, divide, 3 T^2. Together that is 4 T^2 K + 3 T^2.

# %%
T, K = 2048, 128
products, softmax = 4 * T**2 * K, 3 * T**2
print(f"all at the peak: {(products + softmax) / peak * 1e6:.1f} us at least")
print(f"the softmax has {softmax / (products + softmax):.1%} of the FLOPs")
print(f"if the VPU did all of it, it would take {softmax / vector_peak * 1e6:.1f} us")

# %% [markdown]
# Does the softmax take 0.6 % of the time? Let the compiler predict the kernel with it and without. The kernel finds the
# maximum of each row first and subtracts it, so that no exp is too large. The *slots* in the output are places for
# instructions: how many of a unit's slots are filled says how full the program is of its work; waiting is not in it.


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
# Less than one percent of the FLOPs, a fifth of the time. The formula counts an exp and a multiplication in the MXU alike, and the MXU
# does thirty times as many a second as the VPU. Count each unit of the chip by itself: 2 us of vector work, 11 us of products.
#
# Here the two add up more nearly than they overlap. The program grows by half as many bundles again, and has twice the
# spills. Our own model takes the longer of the two and sees no difference at all.
#
# Two things change the count. With a causal mask query t needs keys 0 to t only: half of the pairs, and half of the FLOPs if a
# kernel skips the rest. With grouped queries several heads share one K and V: fewer bytes, as many FLOPs. Exercise 03.5 counts
# both.
#
# ### Between chips
#
# When a model is too large for one chip, each chip holds a shard of every matrix, an equal part. Before a product each chip may
# need the whole matrix. How long must it take to bring it?
#
# > **all-gather**: at first every chip has one of n equal shards of an array, at the end every chip has all of them.
# >
# > **network-bound**: what takes longer for the bytes between chips than for anything on a chip.
#
# A chip lacks (n - 1) / n of the S bytes, and all of them have to come through its own links. For large n that is close to S over
# the bandwidth into one chip. The JAX team's article gives 1600 Gbit/s for a v5e. Google's page has it today as 400 GB/s in both
# directions together, half of which comes in. The book "How to Scale Your Model" gives 45 GB/s for one link and one direction,
# and a v5e has four links.

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
# From 16 chips on their number hardly matters, as long as the bytes decide. HBM bandwidth belongs in estimates on a chip, network
# bandwidth in estimates between chips. Where the network takes longest, a program is **network-bound**.
#
# This is the bound with all four links at work. The chips of a v5e form a torus: rows and columns, each closed to a ring where it
# is long enough. Here are both kinds of row. **Look for one thing:** how many links bring bytes to the blue chip?

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
# A tiny array has another limit. A hop to the neighbour takes about 1 us, however little it carries, by the same book's chapter on
# sharding. In a ring of 16 the farthest chip is 8 hops away. Bytes and hops overlap, so again the larger counts.

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
# It is an estimate. It says what cannot be beaten, not what will happen. You have seen one blind spot, latency. Here are more.
#
# **Work for the VPU.** A polynomial of degree 65, for each of 1 Mi numbers: 128 operations for 8 bytes, 16 FLOPs per byte. Left
# of 240, so memory-bound?


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
# Its roof is the VPU's, at 3 % of the height. The compiler agrees: its bundles have four places for vector operations.
#
# **An MXU that is not full.** It holds a square of 128 x 128 numbers. A right operand with 64 columns fills half of it. To see
# that and not the copies, let x stay in VMEM, and multiply it by 64 matrices y in turn, all added up.


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
    (kernel,) = [op for op in report.ops if op.kind == "kernel"]  # XLA turns y around it
    waiting = report.time_split["DMA wait"] / report.cycles
    print(
        f"{columns:3} columns: {2 * 1024**2 * columns / 1e6:3.0f} MFLOPs and "
        f"{kernel.cycles / 64:,.0f} cycles a step, waiting for copies {waiting:.0%}"
    )

# %% [markdown]
# Hardly any of it is waiting for copies. From 256 columns to 128 half of the work takes about half of the time. From 128 to 64
# half of the work saves a sixteenth.
#
# **Bubbles.** Nothing overlaps with the first copy, nor with the last write. With few steps that shows. For the product of 1024 in
# large blocks, which has two steps, the model calls *overhead* all that is beyond the longer of arithmetic and copies:

# %%
print(roofline.predict(in_large_blocks, small, small))

# %% [markdown]
# **Heat.** A chip that gets too hot slows down; only a measurement tells.
#
# **A cache.** On a GPU a second cache, L2, stands between the cores and the HBM. Blocks there are small, 128 or so, because a
# core's own memory is small. By the rule for blocks such a kernel has 64 FLOPs per byte and is memory-bound. Yet it may be
# compute-bound, because blocks that another core has just fetched come from L2 and not from HBM. A TPU has no such cache: what is
# copied is what the grid says.
#
# <!-- next -->
