# %% [markdown]
# # Lesson 18: Capstone
#
# *45 minutes, then 60 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 3 for the roofs, lesson 5 for the time of a grid step, lesson 8 for values that pass from step to step, lesson 10 for
# `jax.custom_vjp`, and lesson 11 for the search over blocks. You do not need a TPU; with one, you can time your kernel.*
#
# A moving average down the rows of an array replaces each row by the mean of 16 rows: itself and the 15 above it. Rows
# above the first count as zeros. A v5e needs 82 microseconds to read a float32 array of 4,096 x 2,048 once and to write
# it once. The cells after the folded one write the average in plain JAX in two ways, compile both, and print the times
# that the compiler's simulator predicts for XLA's programs.

# %%
# FIRST CELL

# %% tags=["folded"]
import collections
import functools
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import bench, chips, compiler, roofline, text, viz

# %%
WIDTH = 16


def by_window(x):
    """Return the mean of each row and the 15 above it."""
    above = ((WIDTH - 1, 0), (0, 0))
    return lax.reduce_window(x, 0.0, lax.add, (WIDTH, 1), (1, 1), above) / WIDTH


def by_shifts(x):
    """Return the same as a sum of 16 shifted arrays."""
    rows, padded = len(x), jnp.pad(x, ((WIDTH - 1, 0), (0, 0)))
    return sum(padded[k : k + rows] for k in range(WIDTH)) / WIDTH


# %%
LARGE = (jax.ShapeDtypeStruct((4096, 2048), jnp.float32),)
for fn in (by_window, by_shifts):
    report = compiler.compile_tpu(fn, *LARGE)
    print(f"{fn.__name__:10} {text.duration(report.seconds):>7}, bound by {report.bound}")

# %% [markdown]
# One of XLA's two programs takes twice as long as the other, and both are slower than the bytes require. So there is
# room for a kernel. **Write down two guesses.** We shall write one kernel that adds 16 shifted copies of a block, and one
# that needs four additions, and run each with blocks of 64 x 128 and of 512 x 512. Which of the two choices makes the
# larger difference, and how many microseconds does the best of the four take?
#
# This lesson takes that kernel through all stages of a project, and the exercises are projects of your own. All times
# are *predicted (compiler)*, unless a cell says something else.
#
# After this lesson you can
# - tell from two times whether an operation deserves a kernel,
# - write a contract that leaves nothing to guess,
# - say what you expect before you see a result, and learn from the difference,
# - write a test that finds the bugs that people really make,
# - hand over a kernel with its proof: verdicts, a table of blocks, and a report.
#
# ## Is there room?
#
# To decide whether an operation deserves a kernel, compare two times. The first belongs to the algorithm and the chip:
#
# > **ideal**: the time that an algorithm takes on a chip if nothing ever waits. It is the longest of three: all arguments
# > and results, each moved between HBM and the core once at full bandwidth; all matmuls at the MXUs' peak; and all
# > operations on single elements, with every VPU slot filled.
#
# A better algorithm has another ideal, so take the best that you know. The second time is that of the program which you
# would replace. For most people this is XLA's, and for a fair comparison it is the best that XLA makes of any way to
# write the operation. The next cell prints both for the projects of this lesson, and draws XLA's time as a multiple of
# the ideal. They are stored, because the simulator takes minutes for some of XLA's programs. Where it gives no answer,
# the model's time is taken, or the time of the bytes that XLA's program moves, which is a lower bound.

# %%
ratios = {}
for each in checks.project_times():
    if each.xla:
        ratios[f"{each.id} {each.function}"] = each.xla / each.ideal
        times = f"ideal {text.duration(each.ideal):>7}   XLA {text.duration(each.xla):>7}"
        moved = f"moves {each.xla_bytes / 1e6:3.0f} MB, needs {each.ideal_bytes / 1e6:3.0f}"
        print(f"{each.id} {each.function:13} {times}, {each.xla_by:20}  {moved}")
plt.rcParams.update(viz.PLOT_STYLE)
fig, axes = plt.subplots(figsize=(7, 2.4))
axes.barh(list(ratios), list(ratios.values()))
axes.axvline(1, color="black", linewidth=1)
axes.invert_yaxis()
axes.text(1.05, -0.55, "ideal", fontsize=9)
for row, ratio in enumerate(ratios.values()):
    axes.text(ratio + 0.05, row, f"{ratio:.1f}", va="center", fontsize=9)
axes.set_xlabel("XLA's time / ideal")
viz.plot_picture(fig, "For each project, XLA's time as a multiple of the ideal")

# %% [markdown]
# What fills the gap? The last columns have what XLA's program moves, and what it would have to. In 18.6 the difference
# is what the weights take in bfloat16, written and read once each: 2 x 4,096 x 14,336 x 2 bytes, or 235 MB. In 18.8 it is
# the logits in float32, again written and read: 2 x 2,048 x 32,768 x 4 bytes, or 537 MB. A kernel can keep a block of
# either in VMEM. Exercise 18.9 is not in the picture, because it runs on four chips.
#
# Two ideas look like projects but are none: the argmax of each row, and for each row of x the nearest row of c, which is
# a matmul followed by an argmin. **Predict first:** does XLA write the 16,384 x 1,024 distances of the second to HBM?
# They would take 64 MiB.


# %% tags=["predict"]
def largest(x):
    return jnp.argmax(x, axis=1)


def nearest(x, c):
    """Return for each row of x the number of the row of c with the smallest distance."""
    products = jnp.dot(x, c.T, preferred_element_type=jnp.float32)
    return jnp.argmin(jnp.sum(c.astype(jnp.float32) ** 2, axis=1) - 2 * products, axis=1)


rows = jax.ShapeDtypeStruct((8192, 2048), jnp.float32)
x, c = (jax.ShapeDtypeStruct((n, 256), jnp.bfloat16) for n in (16384, 1024))
for fn, args in ((largest, (rows,)), (nearest, (x, c))):
    ideal, report = bench.bound(fn, *args), compiler.compile_tpu(fn, *args)
    times = (
        f"ideal {text.duration(ideal.seconds):>7}   XLA {text.duration(report.seconds):>7}"
    )
    moved = (
        f"{report.hbm_bytes / 2**20:.1f} MiB moved, {ideal.hbm_bytes / 2**20:.1f} needed"
    )
    print(
        f"{fn.__name__:8} {times}   {moved}   {report.vmem_bytes / 2**20:.1f} MiB of VMEM"
    )

# %% [markdown]
# For `largest`, XLA reaches the ideal. For `nearest` it is 13 percent above, and it moves little more than the arguments:
# the distances are neither in HBM nor in VMEM, of which the program takes 1.5 MiB. It computes the argmin from the
# matmul's results as they arrive. A perfect kernel would save 6 of 49 microseconds, and it would be yours to maintain. So
# ask this question before you write a line. The answer took two compilations.
#
# ## The contract
#
# What exactly shall the kernel compute? "A moving average" does not say what happens to the first 15 rows, which dtypes
# are allowed, or which sizes.
#
# > **contract**: what a function promises: the shapes and dtypes of its arguments and results, the sizes it takes, what
# > happens at the ends, how accurate it is, and whether it has a gradient.
#
# For the moving average: x is float32[T, N], and so is the result. T and N may be any sizes. Rows above the first count
# as zeros. Sums are in float32. `checks.own_project` turns a contract into a project with stages and judges. It needs the
# reference, small arguments for the judges, and the shapes of the large ones that are scored. Choose small arguments
# that expose mistakes: sizes that are not multiples of a block, fewer rows than the window, several blocks in both
# directions.


# %%
def cases():
    """Return random arrays, of sizes that suit no block."""
    sizes = ((136, 384), (200, 256), (100, 130), (7, 128))
    made = [
        np.random.default_rng(seed).uniform(-1, 1, size) for seed, size in enumerate(sizes)
    ]
    return [(jnp.asarray(x, jnp.float32),) for x in made]


checks.own_project(
    "moving_average",
    reference=by_window,
    cases=cases,
    at=lambda: LARGE,
    vector_ops=5 * 4096 * 2048,  # four additions and a multiplication for each element
    written_for_xla=by_shifts,  # the better of the two: an honest rival
)

# %% [markdown]
# In all checks of this notebook, the project is called `own.moving_average`. Its par is a quarter above the ideal. The
# rival is the faster of XLA's two programs. It is tempting to compare with the slow one, but whoever reads your report
# will ask.
#
# ## The prediction
#
# How long will your first version take, and what will bind it? You have written down a guess, and now the project keeps
# it. A wrong prediction costs nothing. Its distance from the result shows which of your ideas about the machine needs
# mending.
#
# The next cell has a prediction of ours: somewhat slower than the bytes. Change it to yours. The record keeps it with a
# hash, and no check of the kernel runs before there is one. What binds is `"HBM"`, `"core"` or `"waiting for copies"`.

# %%
moving_average_prediction = ("100 us", "HBM")
checks.predict("own.moving_average", moving_average_prediction)

# %% [markdown]
# ## The first version
#
# The mean of the first rows of a block needs the last 15 rows of the block above. The grid runs down the rows of one
# block of columns, and then down those of the next, so these rows can wait in scratch, as the carry in lesson 8 did. We
# keep 16 rows instead of 15, so that the block begins on a register boundary of 8 rows.
#
# The block sizes are keyword arguments with defaults. Everything that you will want to tune later should be.


# %%
def shifts_kernel(x_ref, o_ref, above_ref):
    @pl.when(pl.program_id(1) == 0)
    def begin():
        above_ref[...] = jnp.zeros_like(above_ref)

    size = x_ref.shape[0]
    rows = jnp.concatenate([above_ref[...], x_ref[...]])
    total = sum(rows[WIDTH - k : WIDTH - k + size] for k in range(WIDTH))
    o_ref[...] = total / WIDTH
    above_ref[...] = x_ref[-WIDTH:]


def in_blocks(kernel, x, bt, bc):
    """Run a kernel on blocks of bt x bc, column of blocks by column of blocks."""
    block = pl.BlockSpec((bt, bc), lambda j, i: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(pl.cdiv(x.shape[1], bc), pl.cdiv(x.shape[0], bt)),
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pltpu.VMEM((WIDTH, bc), x.dtype)],
    )(x)


def first_version(x, bt=64, bc=128):
    return in_blocks(shifts_kernel, x, bt, bc)


checks.check("own.moving_average", first_version)

# %% [markdown]
# The judges agree that the kernel is right, at all four sizes of `cases`. It is also slower than both of XLA's programs,
# and the verdict says where the cycles go: most of them wait for copies. We could have known. Lesson 5 has the time of a
# grid step whose copies are small, and the model of `roofline` knows it, too:

# %%
print(
    text.folded(
        str(roofline.predict(first_version, *LARGE)).partition(", of which")[0] + "."
    )
)

# %% [markdown]
# The model expects 362 us where the simulator says 455, because it assumes the shorter latency that published times
# fit ([lesson 5](05_pipelining_and_vmem.ipynb)). Both say that the grid steps cost far more than the bytes, and our 100 us
# did not. The player shows the order of the steps on a small array: down the rows first.

# %%
viz.grid_player(first_version, jax.ShapeDtypeStruct((192, 256), jnp.float32))

# %% [markdown]
# ## Tuning
#
# There are two ideas for a faster version: larger blocks, and less arithmetic. Sums of 2, 4, 8 and 16 rows take four
# additions instead of 15, because each sum is the previous one plus the same sum shifted down. `pltpu.roll` shifts the
# rows, and those that wrap around land in the first 15 rows, which we do not store.


# %%
def doubling_kernel(x_ref, o_ref, above_ref):
    @pl.when(pl.program_id(1) == 0)
    def begin():
        above_ref[...] = jnp.zeros_like(above_ref)

    total = jnp.concatenate([above_ref[...], x_ref[...]])
    for by in (1, 2, 4, 8):
        total += pltpu.roll(total, by, 0)
    o_ref[...] = total[WIDTH:] / WIDTH
    above_ref[...] = x_ref[-WIDTH:]


def second_version(x, bt=64, bc=128):
    return in_blocks(doubling_kernel, x, bt, bc)


# %% [markdown]
# **Predict first** which of the two ideas matters more. For each kernel and each block, the cell prints the time, and
# how much of it the core works rather than waits for copies.

# %% tags=["predict"]
BLOCKS = ((64, 128), (128, 256), (256, 512), (512, 512), (256, 2048))
KERNELS = {"15 additions": first_version, "4 additions": second_version}
times, working = {}, {}
for name, fn in KERNELS.items():
    in_each = [functools.partial(fn, bt=bt, bc=bc) for bt, bc in BLOCKS]
    reports = [compiler.compile_tpu(each, *LARGE) for each in in_each]
    times[name] = [report.seconds * 1e6 for report in reports]
    waiting = [r.time_split["DMA wait"] / r.cycles for r in reports]
    cycles = [r.cycles * (1 - share) for r, share in zip(reports, waiting, strict=True)]
    working[name] = [n / chips.chip("v5e").clock_hz * 1e6 for n in cycles]
print("             15 additions              4 additions")
for (bt, bc), *row in zip(BLOCKS, *times.values(), *working.values(), strict=True):
    one, other, works, works_less = row
    print(
        f"{bt:4} x {bc:5} {one:6.1f} us, works {works:6.1f} {other:10.1f} us, works {works_less:6.1f}"
    )

fig, axes = plt.subplots(figsize=(7, 2.8))
labels = [f"{bt} x {bc}" for bt, bc in BLOCKS]
for name, color, marker in zip(times, ("tab:blue", "tab:orange"), "os", strict=True):
    axes.plot(labels, times[name], color=color, marker=marker, label=name)
    axes.plot(
        labels, working[name], color=color, linestyle=":", label=f"{name}, core works"
    )
axes.axhline(bench.bound(by_window, *LARGE).seconds * 1e6, color="black", linewidth=1)
axes.set_ylim(0)
axes.set_xlabel("block")
axes.set_ylabel("us")
axes.legend(fontsize=8)
viz.plot_picture(
    fig,
    "The time of both kernels, and the core's work in it, by block; the line is the ideal",
)

# %% [markdown]
# The block size makes a difference of more than five times. A third of the arithmetic makes a difference of 4 percent in
# the smallest blocks, where the core waits anyway. From 256 x 512 on it makes none: the copies bind both kernels, and no
# time is below that of the bytes. (The simulator gives each of several copies the full bandwidth. Where the bytes take
# longer than its cycles, the library reports the time of the bytes.) That answers the guess at the top, and it is the
# usual order of things: first find out what binds, then change that.
#
# Are four additions useless, then? No: in blocks of 256 x 512 the core works a third as long, which matters as soon as
# something else is fused with the average. Of the blocks that reach the ideal we take the smallest, because it needs the
# least VMEM. Lesson 11 has a search that would choose for us.


# %%
def moving_average(x, bt=256, bc=512):
    """Return the mean of each row and the 15 above it; rows above the first count as zeros."""
    return in_blocks(doubling_kernel, x, bt, bc)


checks.check("own.moving_average", moving_average)

# %% [markdown]
# ## A test that finds bugs
#
# The kernel is right, and the check still asks for something. You will change the kernel again in half a year, and then
# only your own test looks at it. Does that test find mistakes? There is a way to know: make some.
#
# > **planted bug**: a mistake that is made on purpose, one at a time, to see whether a test notices. A test that passes
# > for a planted bug has a gap.
#
# `checks.planted` puts one typical mistake into your kernel and runs your test, and then the next. It only plants
# mistakes that change the result for some arguments that the contract allows. In this kernel, it plants three: the
# scratch is not cleared at first, a row is shifted by one too many, and the division by 16 is left out. **Predict
# first:** which of them does the test below find?


# %% tags=["predict"]
def test_ones(fn):
    """The mean of ones is one."""
    x = jnp.ones((256, 256), jnp.float32)
    np.testing.assert_allclose(fn(x)[WIDTH:], x[WIDTH:], rtol=1e-5)


checks.planted("own.moving_average", moving_average, test_ones)

# %% [markdown]
# Ones are a poor choice, because every row and every column is like every other. The test also fills one block only, and
# skips the first rows, which are the only ones that an uninitialized scratch makes wrong. A better test has values that
# differ everywhere, several blocks in both directions, and a size that fits none of them. And it computes the right
# values in another way than the kernel does.


# %%
def test_moving_average(fn):
    """Check several blocks of rows and columns, none of the last ones full, against a running sum."""
    x = np.sin(np.arange(700 * 1100.0).reshape(700, 1100) ** 1.5).astype(np.float32)
    sums = np.concatenate([np.zeros((WIDTH, 1100)), np.cumsum(x, axis=0, dtype=np.float64)])
    np.testing.assert_allclose(fn(x), (sums[WIDTH:] - sums[:-WIDTH]) / WIDTH, atol=1e-5)


checks.planted("own.moving_average", moving_average, test_moving_average)

# %% [markdown]
# In your own repository, the same test runs under pytest, and `testing.assert_kernel` puts the kernel before the four
# judges there, without a TPU: [your kernels](../docs/your_kernels.md) shows how.
#
# ## The table
#
# Which blocks shall a caller use, on which chip, for which shape? Store what you found in a table, keyed by chip and by
# the shape of the first argument. The check compiles each entry. It does not change the defaults of your function: a
# caller looks the blocks up.

# %%
moving_average_table = {("v5e", (4096, 2048)): {"bt": 256, "bc": 512}}
checks.tuned("own.moving_average", moving_average, moving_average_table)

# %%
checks.check("own.moving_average", moving_average)

# %% [markdown]
# ## Into a model
#
# A layer that trains needs the gradient. The gradient of a moving average is a moving average in which each row takes
# its own cotangent and the 15 *below* it. The shortest way reverses the rows of the cotangent, averages, and reverses
# the rows of the result.


# %%
@jax.custom_vjp
def averaged(x):
    return moving_average(x)


averaged.defvjp(
    lambda x: (averaged(x), None),
    lambda _, g: (jnp.flip(moving_average(jnp.flip(g, axis=0)), axis=0),),
)


def gradient(fn, x, g):
    return jax.vjp(fn, x)[1](g)[0]


(x,), (g,) = cases()[0], cases()[0]
difference = gradient(averaged, x, g) - gradient(by_window, x, g)
print(f"largest difference from the reference: {jnp.abs(difference).max():.0e}")
report = compiler.compile_tpu(
    functools.partial(gradient, averaged), *LARGE * 2, simulate=False
)
print(text.folded(" ".join(report.notes[1:])))

# %% [markdown]
# The two flips are operations of XLA. They would write two arrays to HBM, but at this size XLA keeps both in VMEM, as the
# compiler's note says: a kernel may use 16 MiB of it, but the chip has 128. A kernel that runs from the last block up, and
# looks down inside each block, needs no flips. Exercise 18.5 needs one for its gradient.
#
# ## The report
#
# What do you hand over? A report: what was promised, how fast it is beside the prediction, the ideal and XLA, what binds
# it, what was tried, which bugs the test finds, and which blocks to use. `checks.report` makes it from the record of
# everything above, shows it, and saves it as a file of two sheets to print. Run the next cell for yours; the one after it
# prints ours as text, without its dates.

# %% tags=["outputs-not-stored"]
checks.report("own.moving_average")

# %%
printed = str(checks.report("own.moving_average"))
print(
    re.sub(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        "(date)",
        re.sub(r"\b[0-9a-f]{12}\b", "(hash)", printed),
    )
)

# %% [markdown]
# The report compares the prediction with the best version, which is 1.2 times faster than we expected. Under *What was
# tried* stands the first version, which was 4.6 times slower: we had forgotten the grid steps. That line is the one to
# learn from.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel takes 20 us, XLA 24 us, and the ideal is 19 us. Would you keep it?</summary> It gains a
# sixth, and nothing is left to gain. If your model spends a percent of its time there, the step becomes 0.2 percent
# faster, for code that somebody has to maintain. Look for an operation with a larger gap, or a larger share.</details>
#
# <details><summary>2. The prediction was 100 us, and the result is 455 us. What do you do first?</summary> Ask what
# binds. Here it was waiting for copies, which larger blocks cure. Less arithmetic changed 4 percent.</details>
#
# <details><summary>3. Why is XLA's faster program the rival, and not the plain one?</summary> Because whoever decides
# between your kernel and XLA will try that one, too. A speed-up over a program that nobody would use says
# nothing.</details>
#
# <details><summary>4. Your test passes for a kernel whose index map is wrong. What is likely to be wrong with its
# data?</summary> The values are probably the same everywhere, or they fill one block only. Values that differ
# everywhere show where each of them went.</details>
#
# <details><summary>5. What does the report prove about the chip?</summary> That the compiler for it accepts the kernel,
# and what its simulator predicts. It proves no time: that takes the chip itself.</details>

# %% [markdown]
# ## Now you
#
# Do 18.1 to 18.3, which are short, and then take a project. Which one? That depends on what you want to practice:
#
# | project | practice | needs lessons | minutes |
# |---|---|---|---|
# | 18.4 int8 with a scale for each row | whole rows in a block, results of two shapes | 6, 8 | 34 |
# | 18.5 linear recurrence | a carry down the rows, and its gradient from the last row up | 8, 10 | 60 |
# | 18.6 weights of four bits | decoding: few rows, many weights, unpacked in VMEM | 7, 9 | 60 |
# | 18.7 decoding with latent attention | online softmax over a cache, prefetched lengths | 12, 13 | 75 |
# | 18.8 linear layer and cross-entropy | logits that never reach HBM, forward and backward | 8, 10 | 120 |
# | 18.9 collective matmul | copies between four chips behind matmuls | 16 | 90 |
#
# What if you do not reach par? Look at the report first: what binds is what to change. If it is HBM, and every array
# moves once, you are done. If it is the core, compare its work with the ideal, and ask the hints. Two evenings without
# progress are a good reason to stop and to write down what you tried.
#
# Two more are open: a stencil of sixteen steps, and the 64 largest elements of each row. We have no answer to
# these. And the best project is your own: an operation that your model spends time in, and for which the two
# times at the beginning of this lesson are far apart.
#
# `checks.golf()` prints your scores beside par and ours. An instructor can make a page of the scores of a class, with
# `make leaderboard`: a notebook takes part only if it says so ([grading](../docs/grading.md#the-leaderboard)).
#
# ## Further
#
# ### On a chip
#
# With a TPU, the next cell times the kernel and XLA's program. Without one, it prints that there is none.

# %% tags=["outputs-not-stored"]
if jax.default_backend() == "tpu":
    x = jnp.ones(LARGE[0].shape, LARGE[0].dtype)
    for name, fn in (("kernel", moving_average), ("XLA", jax.jit(by_shifts))):
        print(name, bench.measure(fn, x))
else:
    print("There is no TPU here, so nothing is measured.")

# %% [markdown]
# ### The whole course in twelve questions
#
# Answer each before you open it. The lesson in brackets has the answer at length.
#
# <details><summary>1. A kernel's grid is (4, 8), and the index map of x is <code>lambda i, j: (i, 0)</code>. How often
# is a block of x copied? (Lessons 1, 4)</summary> Four times. The steps run in order with j fastest, so the index
# changes only when i does, and a block whose index stays the same is not copied again.</details>
#
# <details><summary>2. Why is a sum over the lanes of a register more expensive than a sum over its sublanes, and a sum
# over a leading axis the cheapest? (Lessons 2, 6)</summary> A leading axis adds whole registers on the VPU. Within a
# register, rows are rotated and added a few times. Across lanes the values have to go through the XLU.</details>
#
# <details><summary>3. A v5e multiplies two 512 x 512 matrices in bfloat16 that lie in HBM. What binds? (Lesson
# 3)</summary> HBM. The intensity is N / 3, about 171 FLOPs per byte, and the ridge point of a v5e is 240.</details>
#
# <details><summary>4. A kernel has 1,000 steps, each copies 4 KiB, and it takes 700 us. Which change would you try
# first? (Lesson 5)</summary> Larger blocks. The time of such a step is that of its copies' latency, whatever their
# size, so fewer steps take less time.</details>
#
# <details><summary>5. Why does the grid of a tiled matmul end with the axis of K? (Lesson 7)</summary> Because then all
# steps of one output block come one after another, and the accumulator in VMEM has to hold one block only.</details>
#
# <details><summary>6. A mask sets the elements past the end to 0, before a maximum. What is wrong? (Lesson 8)</summary>
# All values may be negative, and then 0 wins. The neutral element of a maximum is minus infinity.</details>
#
# <details><summary>7. Your fused layer saves the output of its ReLU for the backward pass. Why is that enough? (Lessons
# 9, 10)</summary> The derivative of the ReLU is 1 where the output is above 0, so the input is not needed.</details>
#
# <details><summary>8. An index map reads <code>order_ref[i + 1]</code> at every step, also at the last one. What
# happens? (Lesson 12)</summary> It reads past the end of the prefetched list. On a chip, that is whatever the SMEM
# holds there, and the copy may leave the array. Clamp the index.</details>
#
# <details><summary>9. Online softmax meets a larger maximum in a later block. What has to happen to the sum and to the
# accumulator? (Lesson 13)</summary> Both are multiplied by the exponential of the old maximum minus the new one, before
# the block's own terms are added.</details>
#
# <details><summary>10. Why do paged attention and grouped matmul need scalar prefetch? (Lessons 14, 15)</summary> Which
# block a step needs stands in a table that is known only at run time, and its copy starts before the step. So the index
# map has to read the table in advance.</details>
#
# <details><summary>11. Every device sends to its right neighbor and gets the right values in each run. Why may a judge
# still refuse the kernel? (Lesson 16)</summary> Because nothing may order two of its events: a neighbor that is a step
# ahead can overwrite a buffer that is still being read. That it did not happen says nothing about the next
# run.</details>
#
# <details><summary>12. Can a TPU kernel with scratch that passes from step to step run through Triton on a GPU? (Lesson
# 17)</summary> No. On a GPU the steps of the grid are thread blocks, which run in any order and at the same
# time.</details>
#
# ### Other people's kernels
#
# What do the judges say about kernels that real projects use? We put 70 of nine public projects before them;
# [this list](../docs/public_kernels.md) names each with its source and its verdicts. A judge skips what JAX's simulator
# cannot run, and the two kernels that were refused round differently from their references.

# %%
kernels = json.loads(pathlib.Path("../docs/public_kernels.json").read_text())
for judge in ("numbers", "simulator", "races", "compiler"):
    said = [
        v["said"] for each in kernels for v in each["verdicts"] if v.get("judge") == judge
    ]
    print(f"{judge:10} {dict(collections.Counter(said))}")

# %% [markdown]
# <!-- next -->
