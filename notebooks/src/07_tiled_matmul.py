# %% [markdown]
# # Lesson 7: Tiled matmul
#
# *60 minutes, then 60 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 1, lesson 4, and the buffers and VMEM of lesson 5; lesson 3 helps with the roofs. You do not need a TPU; with one, you
# can see how accurate a float32 matmul in one pass really is.*
#
# Below is one kernel, a tiled matmul whose blocks are `bm` x `bk` and `bk` x `bn`, and three choices of `bm`, `bk` and
# `bn`. Each choice splits a matmul of 4096 x 4096 matrices into 512 steps with the same amount of work. Run the three
# cells.

# %%
# FIRST CELL

# %%
# You know this kernel from lesson 4; only CUTS, at the end, is new.
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import bench, chips, compiler, cost, grid, judges, viz


def in_scratch_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def product(x, y, bm, bk, bn, limit=None):
    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        in_scratch_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )(x, y)


def product_in_jax(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


CUTS = {"A": (1024, 1024, 128), "B": (1024, 128, 1024), "C": (512, 512, 512)}
for name, (bm, bk, bn) in CUTS.items():
    steps = (4096 // bm) * (4096 // bk) * (4096 // bn)
    print(f"{name}: {steps} steps of {bm * bk * bn:,} multiply-adds each")

# %%
square = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)


def compiled(bm, bk, bn, limit=None, fn=product):
    call = functools.partial(fn, bm=bm, bk=bk, bn=bn, limit=limit)
    return compiler.compile_tpu(call, square, square, time_limit_s=60)


reports = {name: compiled(*blocks) for name, blocks in CUTS.items()}
xla = compiler.compile_tpu(product_in_jax, square, square, time_limit_s=60)
for report in sorted(reports.values(), key=lambda report: report.seconds):
    print(f"one of the three: {report.seconds * 1e6:6.0f} us, predicted (compiler)")
print(f"XLA's own matmul:  {xla.seconds * 1e6:5.0f} us, predicted (compiler)")

# %% [markdown]
# One of the three takes nearly twice as long as the others. **Which one is it, and which of the three block sizes must
# not be small?** Write down a letter and a block size. XLA's own matmul is faster than all three. Can this kernel catch
# up if you give it other block sizes?
#
# After this lesson you can
# - say whether a matmul should accumulate in its output or in scratch,
# - choose blocks by their bytes, their steps and the VMEM that they take,
# - handle a matmul whose three axes are all ragged,
# - multiply operands that are stored transposed,
# - say how accurate a float32 matmul is.
#
# ## K as an axis of the grid
#
# If a block held all of K, it would grow with K. So K is cut into blocks as well, and becomes the last axis of the
# grid. Below is the same matmul, but it accumulates in `o_ref`. **Predict** three counts for the grid (3, 2, 3): how
# often is `o_ref` set to zero, how often is a partial product added to it, and how often is a block of it written back
# to HBM? Then press *Play*. The line below VMEM counts the partial products that `o_ref` already holds.


# %% tags=["predict"]
def in_output_kernel(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] += product.astype(o_ref.dtype)


def in_output(x, y, bm, bk, bn, out=jnp.float32, limit=None):
    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        in_output_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), out),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )(x, y)


x = jax.random.normal(jax.random.key(0), (48, 384), jnp.bfloat16)
y = jax.random.normal(jax.random.key(1), (384, 256), jnp.bfloat16)
in_small_blocks = functools.partial(in_output, bm=16, bk=128, bn=128)
viz.grid_player(in_small_blocks, x, y)

# %% tags=["predict"]
for row in cost.traffic(grid.walk(in_small_blocks, x, y)):
    print(f"{row.name} {row.copies} copies {row.direction}")

# %% [markdown]
# `o_ref` is set to zero 6 times, and 6 blocks are written back, one for each output block. A partial product is added
# 18 times, once in each step. While k runs, the output block stays in VMEM and the sum stays with it, which is why k is
# the last axis.
#
# ## Where the sum belongs
#
# The output above is float32. A bfloat16 keeps only 8 binary digits, so a bfloat16 `o_ref` would round the sum at every
# step. The kernel of the opening avoids this: it accumulates in a float32 scratch and rounds once, at the end. Lesson 4
# compared the two kernels over 32 steps. **How far apart are their errors if all of K is a single step?** And how does
# each error change as K is cut into more steps? Sketch two curves.

# %% tags=["predict"]
deep_x = jax.random.normal(jax.random.key(2), (16, 4096), jnp.bfloat16)
deep_y = jax.random.normal(jax.random.key(3), (4096, 128), jnp.bfloat16)
exact = np.asarray(deep_x, np.float64) @ np.asarray(deep_y, np.float64)


def relative_error(result, exact):
    difference = np.asarray(result, np.float64) - exact
    return np.sqrt(np.mean(difference**2) / np.mean(exact**2))


plt.rcParams.update(viz.PLOT_STYLE)
steps = (1, 2, 8, 32)
fig, axes = plt.subplots()
for name, kernel in (
    ("the sum in a bfloat16 o_ref", functools.partial(in_output, out=jnp.bfloat16)),
    ("the sum in a float32 scratch", product),
):
    calls = [functools.partial(kernel, bm=16, bk=4096 // n, bn=128) for n in steps]
    found = [relative_error(call(deep_x, deep_y), exact) for call in calls]
    axes.plot(steps, [100 * error for error in found], "o-", label=name)
    print(f"{name:29} {found[0]:.2%} in 1 step, {found[-1]:.2%} in 32")
axes.set_xscale("log", base=2)
axes.set(xlabel="steps over K = 4096", ylabel="relative error, %")
axes.set_xticks(steps, labels=steps)
axes.set_ylim(bottom=0)
axes.legend()
viz.plot_picture(
    fig,
    "The line of the bfloat16 o_ref rises with the steps, because each step rounds the sum; "
    "the line of the float32 scratch is flat.",
)

# %% [markdown]
# With a single step, both kernels round once and are equally accurate. So the extra error comes from rounding the sum
# at every step, and not from the partial products.
#
# > **Accumulate in `o_ref` if the output has the dtype of the sum. If the output is narrower, accumulate in a scratch
# > that has the dtype of the sum, and write `o_ref` once, in the last step.**
#
# ## Which of the three block sizes?
#
# Now back to the opening. All steps do the same amount of work, so compare what they copy. Both input maps use k, the
# last axis, which means that every step copies a block of x and a block of y. **With a pencil,** work out for `A` how
# often all of x is copied, and how often all of y. The table below lists both counts, the MiB that follow from them,
# the MiB in the compiler's report, and the time that HBM needs for them.


# %%
def times_copied(m, n, bm, bn):
    """Return how often all of x, and all of y, is copied while K is cut into blocks."""
    return n // bn, m // bm


print("             x times  y times  MiB by rule     MiB in report     time in HBM")
for name, (bm, bk, bn) in CUTS.items():
    x_times, y_times = times_copied(4096, 4096, bm, bn)
    mib = 32 * (x_times + y_times + 1)
    report = reports[name]
    print(
        f"{name} {bm:4} {bk:4} {bn:4} {x_times:4} {y_times:8} {mib:12}",
        f"{report.hbm_bytes / 2**20:17.0f} {report.hbm_seconds * 1e6:11.0f} us",
    )
for name, report in reports.items():
    print(
        f"{name}: {report.seconds * 1e6:5.0f} us, predicted (compiler); binds: {report.bound}"
    )

# %% [markdown]
# > **While K is cut, all of x is copied N / bn times and all of y M / bm times. The block size bk appears in neither
# > count.**
#
# `A` has bn = 128, so it copies x 32 times and waits for HBM. `B` has an equally small bk = 128, which adds no bytes.
#
# An experiment can confirm the rule. If either bk or bn is doubled, `A` takes half as many steps, each with twice the
# work. **What does the rule predict for each of the two changes?**

# %% tags=["predict"]
print("predicted (compiler)")
for name, report in (
    ("A, (1024, 1024, 128)", reports["A"]),
    ("bk twice, (1024, 2048, 128)", compiled(1024, 2048, 128)),
    ("bn twice, (1024, 1024, 256)", compiled(1024, 1024, 256)),
):
    print(f"{name:28} {report.hbm_bytes / 2**20:5.0f} MiB {report.seconds * 1e6:6.0f} us")

# %% [markdown]
# Doubling bk changes nothing, while doubling bn nearly halves the time. So `A` is slow because of its bytes, not
# because of its number of steps.
#
# ## What a step costs besides its matmul
#
# `B` and `C` copy less than HBM could deliver in their time, yet they are far slower than the matrix units allow. A v5e
# has four MXUs of 128 x 128, which together do 65,536 multiply-adds per cycle. At that rate, a step of `C` would take
# 2048 cycles. It takes some 300 more, which we call the overhead of the step. **Predict** the overhead with half of
# `C`'s bk and with twice its bk: is it half and twice as large, or about the same?

# %% tags=["predict"]
print("cycles of a step, predicted (compiler)")
print("       bm    bk    bn   MXUs alone    all              overhead   steps")
by_depth = {256: compiled(512, 256, 512), 512: reports["C"], 1024: compiled(512, 1024, 512)}
for name, bm, bk, bn, report in (
    ("", 512, 256, 512, by_depth[256]),
    ("C", 512, 512, 512, reports["C"]),
    ("", 512, 1024, 512, by_depth[1024]),
    ("B", 1024, 128, 1024, reports["B"]),
):
    steps = 4096**3 // (bm * bk * bn)
    alone, whole = bm * bk * bn / 65536, report.cycles / steps
    print(
        f"{name:3} {bm:5} {bk:5} {bn:5} {alone:12.0f} {whole:6.0f} {whole - alone:21.0f}",
        f"{steps:7}",
    )

# %% [markdown]
# The overhead of a step is 300 to 500 cycles, and a short step has as much of it as a long one. In lesson 3, with
# blocks of 128, a step waited for its copies. Here copies explain only a small part of the overhead: *Further* shows
# that most of it remains when no new block is copied. So take fewer steps by making bk longer, which adds no bytes but
# takes more VMEM.
#
# `B` is not the fastest, although it copies the least. Copies that are hidden behind the matmul take no extra time, so
# copying less gains nothing, and a step of `B` takes some 50 cycles more than one of `C`. (*Further* tests whether the
# larger accumulator of `B` is the reason.)
#
# ## Room
#
# A kernel needs two buffers for each operand and for the output, and it needs the accumulator. Together these take
# **2 (bm bk + bk bn + bm bn) times the bytes of an element, plus 4 bm bn.** For bfloat16 and blocks of 1024 along all
# axes, **how much is that?** Does it fit into 16 MiB? Write down a number, and a yes or a no. You can change the sizes
# in the table; the compiler has the last word in the cell below it.

# %% tags=["predict"]
in_large_blocks = functools.partial(product, bm=1024, bk=1024, bn=1024)
viz.vmem_table(in_large_blocks, square, square)

# %% tags=["predict"]
report = compiler.compile_tpu(in_large_blocks, square, square, simulate=False)
print(f"counted: {cost.vmem_bytes(grid.walk(in_large_blocks, square, square)) / 2**20} MiB")
print(report.error)

# %% [markdown]
# By this count the blocks fit exactly, to the last byte, but the compiler refuses them, because it needs some VMEM for
# itself. You can leave some VMEM free, or ask for more: with `vmem_limit_bytes=64 * 2**20`, the blocks may be longer.
# The longest possible bk is K itself, which puts **all of K in one block** and leaves one step along k. **Predict,**
# for bm = bn = 512: how often is x copied now?

# %% tags=["predict"]
MIB = 2**20
whole_k = compiled(512, 4096, 512, limit=64 * MIB)
print(
    "  bm    bk    bn  steps   HBM MiB   VMEM MiB     us     cycles, predicted (compiler)"
)
for (bm, bk, bn), report in (
    ((512, 512, 512), reports["C"]),
    ((512, 1024, 512), by_depth[1024]),
    ((512, 4096, 512), whole_k),
):
    steps = (4096 // bm) * (4096 // bk) * (4096 // bn)
    print(
        f"{bm:4} {bk:5} {bn:5} {steps:6} {report.hbm_bytes / MIB:9.0f}",
        f"{report.vmem_bytes / MIB:10.2f} {report.seconds * 1e6:6.0f} {report.cycles:10,}",
    )
print(
    f"{'XLA (bytes at least)':22} {xla.hbm_bytes / MIB:10.0f} {xla.seconds * 1e6:17.0f}",
    f"{xla.cycles:10,}",
)

# %% [markdown]
# With all of K in one block, x is copied only once: its block index now changes only with i, so the block stays in VMEM
# while j runs. There are also few steps. As a result, (512, 4096, 512) is a little faster than XLA's own matmul. (The
# report counts every array of XLA's matmul once, because it does not know the blocks that XLA chose.) The course's
# library, `course_lib/kernels/matmul`, came to the same choice by a search.
#
# This is not a rule for all shapes. At K = 65,536, strips of x and of y that are 512 wide would take 256 MiB, with two
# buffers each.
#
# **This answers the opening.** The slow choice is `A`, and the block size that must not be small is bn. While K is cut,
# bm and bn decide the bytes, bk decides only the number of steps, and VMEM limits all three. With better blocks, the
# kernel of the opening catches up with XLA. *A good place for a break.*
#
# Three topics remain. This matmul does not raise them, but your next one may: ragged sizes, transposed operands, and
# float32.
#
# ## Ragged on all three axes
#
# If a block extends past the end of M or N, its step computes rows or columns of the output that do not exist, and
# these are dropped. If it extends past the end of K, the garbage there is *added to the sum*. Lesson 4 masked such
# elements with `jnp.where`. In the kernels below, `left` is how much of K is left at this step, so a K of 300 in blocks
# of 128 gives 300, then 172, then 44. **Which of four kernels are right:** the one without a mask, the one that masks
# x, the one that masks y, or the one that masks both?


# %%
def within(block, axis, left):
    """Return the block with zeros from index ``left`` of an axis on."""
    place = jax.lax.broadcasted_iota(jnp.int32, block.shape, axis)
    return jnp.where(place < left, block, jnp.zeros_like(block))


# This is product() for ragged sizes; masks names the operands whose blocks are masked.
def ragged_product(x, y, masks):
    (m, depth), n = x.shape, y.shape[1]
    bm, bk, bn = 32, 128, 128

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        left = depth - bk * pl.program_id(2)
        x, y = x_ref[...], y_ref[...]
        if "x" in masks:
            x = within(x, 1, left)
        if "y" in masks:
            y = within(y, 0, left)
        acc_ref[...] += jnp.dot(x, y, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(depth, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


ragged_x = jax.random.normal(jax.random.key(4), (40, 300), jnp.bfloat16)
ragged_y = jax.random.normal(jax.random.key(5), (300, 200), jnp.bfloat16)
for masks in ("", "x", "y", "xy"):
    call = functools.partial(ragged_product, masks=masks)
    verdict = judges.judge(call, product_in_jax, ragged_x, ragged_y)[-1]
    says = (
        "all four judges pass"
        if verdict.passed
        else f"refused by the {verdict.judge} judge"
    )
    print(f"masked: {' and '.join(masks) or 'nothing':8} {says}")

# %% [markdown]
# Only the kernel that masks both is right. Past the end of an array there may be anything, NaN included, and zero times
# NaN is NaN. So a masked x does not protect the sum from garbage in y.
#
# ## Transposed operands
#
# A backward pass needs matmuls such as `x @ y.T` and `x.T @ y`. If y is transposed before the kernel, XLA may do that
# in a separate operation, which copies y in HBM. Inside the kernel, you can write `y_ref[...].T`, or name the axes to
# sum over:
#
# > **dot_general**: a matmul that names its contracted axes, over which it multiplies and sums. In
# > `jax.lax.dot_general(x, y, axes)`, `axes` is a pair: the contracted axes (of x, of y), then the batch axes (of x, of
# > y). The plain matmul has no batch axes: `(((1,), (0,)), ((), ()))`.
#
# **Which axes does `x @ y.T` contract, and which does `x.T @ y`?** The result has the remaining axes of x first, and
# then those of y.

# %% tags=["predict"]
x, y = jnp.ones((2, 3)), jnp.ones((4, 3))
last = jax.lax.dot_general(x, y, (((1,), (1,)), ((), ())))
print(
    f"contract the last axes:  {x.shape} and {y.shape} make {last.shape}, as x @ y.T does"
)
x, y = jnp.ones((3, 2)), jnp.ones((3, 4))
first = jax.lax.dot_general(x, y, (((0,), (0,)), ((), ())))
print(
    f"contract the first axes: {x.shape} and {y.shape} make {first.shape}, as x.T @ y does"
)

# %% [markdown]
# In a kernel, a transposed operand costs at most a few percent, as *Further* shows. Take care with the index maps: for
# `x @ y.T`, the columns of the output belong to the first axis of y.
#
# ## How accurate is a float32 matmul?
#
# The matrix units of a v5e multiply bfloat16 values and add in float32. JAX's page on
# [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) says of 32-bit operands that they "will
# be rounded to bfloat16 unless float32 precision is requested". You request it in the dot, with `precision="high"` or
# `"highest"`. How can a bfloat16 unit be more accurate? Each float32 value is split into its leading bits and the
# remainder, and both are stored as bfloat16. With two parts per operand there are four products, and `"high"` leaves
# out the one that is too small to matter. With three parts there are nine, of which `"highest"` computes six.
#
# > **pass**: one bfloat16 matmul on the matrix units. A float32 matmul takes one, three or six passes.
#
# A kernel must be as precise as its reference. If neither names a precision, a chip rounds both in the same way. But if
# the reference says `"highest"`, or sums without a matmul, a kernel that names no precision is wrong on a chip, and the
# checks of this course refuse it.
#
# Below, the passes are spelled out in plain JAX. One bfloat16 keeps 8 binary digits, so two parts keep 16. **Predict**
# roughly the relative error of one pass, and that of three. Do the errors rise with K? The second cell adds the cycles
# that each choice takes, predicted (compiler).


# %% tags=["predict"]
def parts(a, count):
    """Return ``count`` bfloat16 values, held in float32, whose sum is nearly a."""
    found = []
    for _ in range(count):
        found.append(a.astype(jnp.bfloat16).astype(jnp.float32))
        a = a - found[-1]
    return found


def in_order(x, y):
    """Return x @ y, added up in tiles that are 128 deep, as the MXU is.

    Products of bfloat16 values are exact in float32, so only the order of the sum decides its
    last digits. This order is the same on every CPU.
    """
    tiles = 0
    for k in range(128):
        tiles += x[:, k::128].T[:, :, None] * y[k::128, None, :]
    return sum(tiles)


def in_passes(x, y, passes):
    """Return x @ y as 1, 3 or 6 matmuls of bfloat16 parts; the smallest are added first."""
    count = {1: 1, 3: 2, 6: 3}[passes]
    xs, ys = parts(x, count), parts(y, count)
    pairs = [(i, j) for i in range(count) for j in range(count) if i + j < count]
    return sum(in_order(xs[i], ys[j]) for i, j in sorted(pairs, key=sum, reverse=True))


def error_at(depth, passes, dtype):
    x = jax.random.normal(jax.random.key(6), (64, depth), dtype).astype(jnp.float32)
    y = jax.random.normal(jax.random.key(7), (depth, 64), dtype).astype(jnp.float32)
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    error = relative_error(in_passes(x, y, passes), exact)
    return float(f"{error:.0e}")


LEVELS = {
    "bf16 operands": (1, jnp.bfloat16, None),
    "f32, one pass": (1, jnp.float32, None),
    "f32, three passes": (3, jnp.float32, "high"),
    "f32, six passes": (6, jnp.float32, "highest"),
}
depths = (128, 1024, 8192)
error_curves = {
    name: {depth: error_at(depth, passes, dtype) for depth in depths}
    for name, (passes, dtype, _) in LEVELS.items()
}
for name, curve in error_curves.items():
    print(
        f"{name:18} relative error {curve[128]:.0e} at K = 128, {curve[8192]:.0e} at 8192"
    )


# %% tags=["predict"]
def dot_at(precision):
    """Return a kernel of 64 steps that each multiply the same blocks, 512 x 512 x 512."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(
            x_ref[...], y_ref[...], precision=precision, preferred_element_type=jnp.float32
        )

    stays = pl.BlockSpec((512, 512), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((512, 512), jnp.float32),
        grid=(64,),
        in_specs=[stays, stays],
        out_specs=stays,
    )


by_level = {}
for name, (_, dtype, precision) in LEVELS.items():
    factor = jax.ShapeDtypeStruct((512, 512), dtype)
    by_level[name] = compiler.compile_tpu(
        dot_at(precision), factor, factor, time_limit_s=60
    )
cycles = {name: round(report.cycles / 64) for name, report in by_level.items()}
viz.precision_explorer(error_curves, cycles=cycles)

# %% [markdown]
# In one pass, the error comes from rounding the operands; operands that *are* bfloat16 lose nothing when they are
# multiplied. Three passes are 500 times more accurate than one, and six are as accurate as float32 itself. They take
# nearly three times and more than five times as long. The errors of one pass and of three do not rise with K: if the
# signs are random, the sums grow as fast as their errors do.
#
# JAX's page says that one pass rounds to bfloat16. You cannot see this in the program, because the rounding happens
# inside the unit, and the judges and the simulator on your machine multiply in float32. **A kernel that needs more than
# three digits of float32 must ask for that precision.** Otherwise it is right on your machine and wrong on a chip.
#
# ## Five questions
#
# Answer each question before you open its answer.
#
# <details><summary>1. A bfloat16 matmul of 2048 x 8192 x 1024 (M, K, N) has the blocks bm = 512, bk = 1024, bn = 256.
# How often is all of x copied, and how often all of y? How many MiB is that for y?</summary>
# x is copied 1024 / 256 = 4 times, and y 2048 / 512 = 4 times. For y that is 4 times 16 MiB.</details>
#
# <details><summary>2. How much VMEM do these blocks need, with a float32 scratch and a bfloat16 output?</summary>
# The buffers take 2 (512 x 1024 + 1024 x 256 + 512 x 256) x 2 bytes = 3.5 MiB, and the accumulator takes 0.5 MiB. That
# makes 4 MiB, plus what the compiler needs for itself.</details>
#
# <details><summary>3. The output is float32, and a bias is to be added at the end. Where do you accumulate?</summary>
# In <code>o_ref</code>, because it has the dtype of the sum. In the last step, you add the bias to it as
# well.</details>
#
# <details><summary>4. K = 1000 and bk = 256. A colleague masks only x, because zero times anything is zero. What is
# missing?</summary>
# The mask of y is missing. Past its end there may be NaN, and zero times NaN is NaN.</details>
#
# <details><summary>5. A float32 matmul agrees with NumPy to six digits under every judge, but only to three on a chip.
# Why?</summary>
# On the chip it runs in one pass, in which the matrix units round to bfloat16, while the interpreters multiply in
# float32. Ask for <code>precision="highest"</code>, which costs six passes.</details>

# %% [markdown]
# The next cell computes the answers to questions 1 and 2.

# %%
x, y = (jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in ((2048, 8192), (8192, 1024)))
walk = grid.walk(functools.partial(product, bm=512, bk=1024, bn=256), x, y)
for row in cost.traffic(walk):
    print(f"{row.name:6} {row.bytes / MIB:4.0f} MiB")
print(f"VMEM {cost.vmem_bytes(walk) / MIB} MiB")

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 7](../exercises/07_tiled_matmul.ipynb). The first one is a matmul with few rows.
#
# ## Further
#
# No exercise needs what follows.
#
# ### One block
#
# The simplest matmul has no grid: both matrices and the result are in VMEM, each as one block. **Predict, with a
# pencil,** which of the sizes N = 256, 512, 1024, 2048 and 4096 fit, if three bfloat16 matrices of N x N share 16 MiB
# of VMEM. And by what factor does the *program* grow when N doubles?


# %% tags=["predict"]
def one_block(x, y):
    def kernel(x_ref, y_ref, o_ref):
        product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = product.astype(o_ref.dtype)

    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
    )(x, y)


def square_of(n):
    return jax.ShapeDtypeStruct((n, n), jnp.bfloat16)


print("   N   MiB counted   bundles of program")
for n in (256, 512, 1024, 2048, 4096):
    operands = square_of(n), square_of(n)
    counted = cost.vmem_bytes(grid.walk(one_block, *operands)) / 2**20
    words = f"{n:4} {counted:13.3f}"
    if n <= 1024:
        report = compiler.compile_tpu(one_block, *operands, simulate=False)
        words += f" {report.bundles:20,}"
    print(words)

# %% [markdown]
# N = 2048 does not fit into 16 MiB. You could ask for more with `vmem_limit_bytes` (lesson 5), because a v5e has 128
# MiB. N = 4096 needs 96 MiB, plus what the compiler needs for itself. Two reasons not to do this remain.
#
# - The program is written out in full, so it grows about eightfold whenever N doubles, as the work does. At N = 4096 it
#   would have a million bundles.
# - Nothing hides the copies. All of x and y must arrive before the matmul can begin, and the result leaves only after
#   the matmul ends.
#
# ### Where does the overhead of a step come from?
#
# One candidate is the accumulator, which is loaded, added to and stored at every step. To test it, let each partial
# product overwrite the one before. The other candidate is the copies. To test them, use index maps that do not move.
# (Both kernels return wrong results, but their steps multiply blocks of the same size.) **Predict:** a step of `C` has
# an overhead of 300 cycles. How many of these disappear with the accumulation, and how many with the copies? And are
# the steps of `B` more expensive because its accumulator is four times as large?


# %% tags=["predict"]
def overwriting_kernel(x_ref, y_ref, o_ref, acc_ref):  # = in place of +=
    acc_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


# This is product() with another kernel, or with index maps that stand still.
def varied(x, y, bm, bk, bn, limit=None, kernel=in_scratch_kernel, moves=1):
    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i * moves, k * moves)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k * moves, j * moves)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


overwriting = functools.partial(varied, kernel=overwriting_kernel)
standing_still = functools.partial(varied, moves=0)
print("overhead of a step in cycles, predicted (compiler)")
print("    as it is   overwritten   standing still")
for name in "BC":
    took = [
        report.cycles / 512 - 2048
        for report in (
            reports[name],
            compiled(*CUTS[name], fn=overwriting),
            compiled(*CUTS[name], fn=standing_still),
        )
    ]
    print(f"{name} {took[0]:9.0f} {took[1]:13.0f} {took[2]:16.0f}")

# %% [markdown]
# Most of the overhead remains in both experiments, and the larger accumulator of `B` costs next to nothing.
# Accumulation uses other units than the matmul does, and runs at the same time. So the remedy is not a cheaper
# accumulator but fewer steps.
#
# ### Does scratch cost more?
#
# Compare two matmuls of 4096 with blocks of 512. One returns float32 and accumulates in `o_ref`; the other returns
# bfloat16 and accumulates in scratch. **Guess** before you run the cell: which is faster, which moves more bytes, and
# which takes more VMEM?

# %% tags=["predict"]
print("                              us    HBM MiB   VMEM MiB   predicted (compiler)")
for name, report in (
    ("o_ref, float32 out", compiled(512, 512, 512, fn=in_output)),
    ("scratch, bfloat16 out", reports["C"]),
):
    print(
        f"{name:24} {report.seconds * 1e6:7.0f} {report.hbm_bytes / 2**20:9.0f}",
        f"{report.vmem_bytes / 2**20:10.2f}",
    )

# %% [markdown]
# They take nearly the same time and VMEM. The float32 output has 32 MiB more to move. The scratch adds a block in VMEM,
# but then the output's two buffers are half as large. So the choice is a matter of accuracy, not of cost.
#
# ### Under the roofs
#
# The picture places all of these kernels under the roofs of lesson 3. **Look for one thing:** which of them touches a
# roof, and which roof is it?

# %%
chip = chips.chip("v5e")
flops = 2 * 4096**3
points = {**reports, "all of K": whole_k, "XLA (bytes at least)": xla}
fig, axes = plt.subplots()
bend = chip.bf16_flops / chip.hbm_bandwidth
roof = np.array([80.0, bend, 2000.0])
height = np.minimum(chip.bf16_flops, roof * chip.hbm_bandwidth) / 1e12
axes.loglog(roof, height, color="gray", label="the roofs of a v5e")
for mark, (name, report) in zip("osD^v", points.items(), strict=True):
    place = flops / report.hbm_bytes, flops / report.seconds / 1e12
    axes.plot(*place, mark, label=name)
    print(
        f"{name:20} {place[0]:5.0f} FLOPs/byte {place[1]:4.0f} TFLOP/s, predicted (compiler)"
    )
axes.legend(loc="lower right")
axes.set(xlabel="FLOPs/byte", ylabel="TFLOP/s, predicted (compiler)", ylim=(60, 240))
axes.set_xticks([100, 200, 500, 1000], labels=[100, 200, 500, 1000])
axes.set_yticks([75, 100, 150, 200], labels=[75, 100, 150, 200])
axes.minorticks_off()
viz.plot_picture(
    fig,
    "A lies on the slope, the HBM roof. The others lie below the flat roof because of the "
    "overhead of their steps: B and C well below it, all of K and XLA close to it.",
)

# %% [markdown]
# ### In which dtype does a dot return its result?
#
# `preferred_element_type` names the dtype in which `jnp.dot` accumulates and returns its result. A matrix unit
# accumulates in 32 bits. What happens if you do not name it? **For each row, guess** what the compiler says, and what
# plain JAX on this machine returns for the sum of 256 products of 10 and 10.


# %% tags=["predict"]
def dot_of(dtype, preferred):
    def kernel(x_ref, y_ref, o_ref):
        product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=preferred)
        o_ref[...] = product.astype(o_ref.dtype)

    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((256, 256), jnp.int32))
    tens = jnp.full((256, 256), 10, dtype)
    return (
        compiler.compile_tpu(call, tens, tens, simulate=False),
        jnp.dot(tens, tens, preferred_element_type=preferred)[0, 0],
    )


for dtype, preferred in (
    (jnp.bfloat16, None),
    (jnp.bfloat16, jnp.float32),
    (jnp.int8, None),
    (jnp.int8, jnp.int32),
):
    report, ten_tens = dot_of(dtype, preferred)
    names = [jnp.dtype(d).name if d else "not named" for d in (dtype, preferred)]
    says = "compiles" if report.ok else "refused"
    print(
        f"{names[0]:9} {names[1]:10} {says:9} 256 * 100 = {ten_tens}, as {ten_tens.dtype}"
    )

# %% [markdown]
# If you do not name a dtype, the result has the dtype of the operands. The sum 25,600 does not fit into the eight bits
# of int8, and on a CPU you get it modulo 256 without any warning. The TPU's compiler refuses both dots that name no
# dtype. **Always name it: float32 for floats, int32 for int8.**
#
# ### int8
#
# An int8 matmul accumulates in int32 and is exact. How many cycles does one of 512 x 512 x 512 take?


# %%
def int8_dot():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)

    stays = pl.BlockSpec((512, 512), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((512, 512), jnp.int32),
        grid=(64,),
        in_specs=[stays, stays],
        out_specs=stays,
    )


factor = jax.ShapeDtypeStruct((512, 512), jnp.int8)
report = compiler.compile_tpu(int8_dot(), factor, factor)
print(
    f"int8: {report.cycles / 64:,.0f} cycles, bfloat16: {cycles['bf16 operands']:,}",
    end=" ",
)
print("(predicted (compiler))")
print(f"the data sheet says {chip.int8_ops / chip.bf16_flops:.1f} times as many operations")

# %% [markdown]
# On a v5e, an int8 matmul takes about half as long as a bfloat16 one, but not every TPU multiplies int8 faster. The
# scale of the values, for example one factor per column, is kept outside the matmul; lesson 9 shows how.
#
# ### What a transposed operand costs
#
# There are three ways to write `x @ y.T`: use `y.T` before the kernel, `y_ref[...].T` inside it, or `dot_general`.
# **Guess** which of them costs how much more than a plain matmul.


# %% tags=["predict"]
def strips(kernel, x_axis, y_axis):
    """Return a matmul in blocks of 512.

    The rows of the result belong to axis ``x_axis`` of x, its columns to axis ``y_axis`` of y.
    """

    def call(x, y):
        m, n = x.shape[x_axis], y.shape[y_axis]
        x_block = (512, x.shape[1]) if x_axis == 0 else (x.shape[0], 512)
        y_block = (y.shape[0], 512) if y_axis == 1 else (512, y.shape[1])
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
            grid=(m // 512, n // 512),
            in_specs=[
                pl.BlockSpec(x_block, lambda i, j: (i, 0) if x_axis == 0 else (0, i)),
                pl.BlockSpec(y_block, lambda i, j: (0, j) if y_axis == 1 else (j, 0)),
            ],
            out_specs=pl.BlockSpec((512, 512), lambda i, j: (i, j)),
        )(x, y)

    return call


def plain_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def turned_inside_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...].T, preferred_element_type=jnp.float32)


def last_axes_kernel(x_ref, y_ref, o_ref):
    axes = (((1,), (1,)), ((), ()))  # the last axes of x and y; no batch axes
    o_ref[...] = jax.lax.dot_general(
        x_ref[...], y_ref[...], axes, preferred_element_type=jnp.float32
    )


def first_axes_kernel(x_ref, y_ref, o_ref):
    axes = (((0,), (0,)), ((), ()))
    o_ref[...] = jax.lax.dot_general(
        x_ref[...], y_ref[...], axes, preferred_element_type=jnp.float32
    )


matrix = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
plain = strips(plain_kernel, 0, 1)
for name, call in (
    ("x @ y", plain),
    ("x @ y.T, before the kernel", lambda x, y: plain(x, y.T)),
    ("x @ y.T, inside", strips(turned_inside_kernel, 0, 0)),
    ("x @ y.T, dot_general", strips(last_axes_kernel, 0, 0)),
    ("x.T @ y, dot_general", strips(first_axes_kernel, 1, 1)),
):
    report = compiler.compile_tpu(call, matrix, matrix)
    others = ", ".join(f"{op.kind} {op.cycles:,}" for op in report.ops if op.cycles)
    print(f"{name:27} {report.cycles:6,} cycles, predicted (compiler): {others}")
    told = [told for bundle in report.listing for told in bundle.instructions]
    pushed = sum("vmatpush" in each and ".xpose" in each for each in told)
    before = sum("vxpose" in each for each in told)
    print(f"{'':27} transposed by the push: {pushed} instructions, before it: {before}")
    for note in report.notes:
        if "lie in VMEM" in note:
            print(f"{'':27} the report's note: {note.partition(':')[0]}")

# %% [markdown]
# If y is transposed before the kernel, the transpose is a copy here, in an operation of its own. (The kernel after it
# is faster, because XLA keeps operands as small as these in VMEM, as the note says.) Inside the kernel, neither `.T`
# nor `dot_general` needs a copy. For `x @ y.T`, y is transposed as it is pushed into the matrix unit, which costs next
# to nothing. For `x.T @ y`, separate instructions transpose x beforehand, which costs a few percent. The two ways to
# write `x @ y.T` inside the kernel take exactly the same number of cycles.

# %% [markdown]
# ### Passes in the program
#
# You can count the one, three and six passes in the compiled program. One `vmatmul` multiplies a register, which holds
# 8 rows of float32, or 16 of bfloat16.

# %%
for name, report in by_level.items():
    rows = sum(
        (16 if "bf16" in told else 8)
        for bundle in report.listing
        for told in bundle.instructions
        if "vmatmul" in told
    )
    print(
        f"{name:18} {rows // 8192:2} times the rows of one matmul; {cycles[name]:6,} cycles"
    )

# %% [markdown]
# ### Blocks by search
#
# The rules of this lesson suggest candidates, and the compiler decides between them. `bench.autotune` compiles each one
# and ranks them by time. Here are some for a shape in which K dominates, 512 x 8192 x 2048. **Guess the order** before
# you run the cell.

# %% tags=["predict"]
rows, columns = (
    jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((512, 8192), (8192, 2048))
)


def product_in(x, y, *, blocks):
    return product(x, y, *blocks)


choices = [
    (256, 512, 512),
    (512, 512, 512),
    (512, 2048, 512),
    (512, 256, 2048),
]
print(bench.autotune(product_in, rows, columns, candidates=choices))

# %% [markdown]
# The best ones have all of M in one block, so that y, the large operand, is copied only once. Among these, fewer steps
# are faster.
#
# ### The article's program beside `pallas_call`
#
# Lesson 5 has the program from the JAX team's article, which uses `pl.kernel` and `emit_pipeline` with blocks of 512,
# and accumulates in the output. Below, the same pipeline runs beside a `pallas_call` with the same body and blocks.
# Which is faster?


# %%
def article(x, y):
    (m, depth), n = x.shape, y.shape[1]

    @pl.kernel(
        out_type=jax.ShapeDtypeStruct((m, n), jnp.float32),
        mesh=pltpu.TensorCoreMesh(axis_name="x", num_cores=1),
    )
    def kernel(x_hbm, y_hbm, o_hbm):
        pltpu.emit_pipeline(
            in_output_kernel,
            in_specs=[
                pl.BlockSpec((512, 512), lambda i, j, k: (i, k)),
                pl.BlockSpec((512, 512), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((512, 512), lambda i, j, k: (i, j)),
            grid=(m // 512, n // 512, depth // 512),
        )(x_hbm, y_hbm, o_hbm)

    return kernel(x, y)


peak_us = flops / chip.bf16_flops * 1e6
for name, report in (
    ("pl.kernel, emit_pipeline", compiler.compile_tpu(article, square, square)),
    ("pallas_call", compiled(512, 512, 512, fn=in_output)),
):
    us = report.seconds * 1e6
    print(f"{name:25} {us:4.0f} us, {peak_us / us:.0%} of the peak, predicted (compiler)")

# %% [markdown]
# The article says that a kernel as simple as this reaches 90 % and more with well-chosen blocks. With 512 along all
# axes, neither form quite reaches that; with all of K in one block, you have seen 97 %.
#
# ### On a chip
#
# Here are all three precisions, in a kernel that runs on this machine. Without a TPU, you see the accuracy of float32
# three times. On a TPU, the errors should be those of the picture above, according to JAX's page and to the computation
# with parts. Nobody has run this cell on a TPU yet, so you may be the first.


# %%
def float32_product(precision):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=precision)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))


wide = jax.random.normal(jax.random.key(8), (128, 1024))
tall = jax.random.normal(jax.random.key(9), (1024, 128))
exact = np.asarray(wide, np.float64) @ np.asarray(tall, np.float64)
for precision in (None, "high", "highest"):
    error = relative_error(float32_product(precision)(wide, tall), exact)
    print(f"{precision!s:8}", f"{error:.0e}" if error > 1e-6 else "as good as float32")

# %% [markdown]
# ### A precision from outside
#
# JAX's page also says that the lowering takes `jax.default_matmul_precision` into account. Does this setting reach into
# a kernel that names no precision?

# %%
factor = jax.ShapeDtypeStruct((512, 512), jnp.float32)
for level in ("bfloat16", "float32"):
    with jax.default_matmul_precision(level):
        report = compiler.compile_tpu(dot_at(None), factor, factor, time_limit_s=60)
    print(f"{level:8} {report.cycles / 64:7,.0f} cycles, predicted (compiler)")

# %% [markdown]
# It does. So the same kernel may be five times more expensive in somebody else's program. (With such a setting, a
# bfloat16 kernel that names no precision is refused.) Where the digits matter, write the precision into the kernel.
#
# <!-- next -->
