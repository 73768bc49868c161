# %% [markdown]
# # Lesson 18: Capstone
#
# *45 minutes, then 60 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 3 for the roofs, lesson 8 for values that pass from step to step, lesson 10 for `jax.custom_vjp`, and lesson 11 for the
# search over blocks. You do not need a TPU; with one, you can time your kernel.*
#
# A moving average down the rows of an array replaces each row by the mean of 16: its own and the 15 above it. Rows above
# the first count as zeros. The first cell writes it in plain JAX in two ways. On a v5e, every byte of a 4,096 x 2,048
# array in float32 can be read and written once in 82 microseconds. The second cell compiles both and prints the times
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

from course_lib import bench, compiler, text, viz
from course_lib.checks.exercise import lesson
from course_lib.checks.kinds import project

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
# One of XLA's two programs takes twice as long as the other, and both are slower than the bytes require. So there is room for a kernel.
# **Write down two guesses.** We shall write a kernel that adds 16 shifted copies of a block, and one that gets by
# with four additions. And we shall run each with blocks of 64 x 128 and of 512 x 512. Which of the two choices makes the
# larger difference, and how many microseconds does the best of the four take?
#
# This lesson takes that kernel through all stages of a project, and the exercises are projects of your own. All times
# are *predicted (compiler)*, unless a cell says something else.
#
# After this lesson you can
# - tell from two times whether an operation deserves a kernel,
# - write a contract that leaves nothing to guess,
# - say what you expect before you measure, and learn from the difference,
# - write a test that finds the bugs that people really make,
# - hand over a kernel with its proof: verdicts, a table of blocks, and two pages of report.
#
# ## Is there room?
#
# Which operations deserve a project? Compare two times. The first is a property of the operation alone:
#
# > **ideal**: the time below which no kernel can do an operation on a chip. It is the longest of three: all arguments and
# > results, each moved once at full bandwidth; all matmuls at the MXUs' peak; and all operations on single elements,
# > with every VPU slot filled.
#
# The second is the time of the program that you would replace, which for most people is XLA's. The projects of this
# lesson have stored both, because the simulator takes minutes for some of XLA's programs. The next cell draws XLA's
# time as a multiple of the ideal. Where the simulator gives no answer, XLA's program takes at least as long as its
# bytes, or it is the model's time.

# %%
projects = [task for task in lesson("18").exercises if task.project]
ratios = {}
for task in projects:
    ideal, xla = task.project.ideal.seconds(), task.project.xla_s
    if xla:
        ratios[f"{task.id} {task.defines}"] = xla / ideal
        print(
            f"{task.id} {task.defines:15} ideal {text.duration(ideal):>7}   "
            f"XLA {text.duration(xla):>7}, {task.project.xla_by}"
        )
plt.rcParams.update(viz.PLOT_STYLE)
fig, axes = plt.subplots(figsize=(7, 2.4))
axes.barh(list(ratios), list(ratios.values()))
axes.axvline(1, color="black", linewidth=1)
axes.invert_yaxis()
axes.set_xlabel("XLA's time / ideal")
viz.plot_picture(fig, "For each project, XLA's time as a multiple of the ideal")

# %% [markdown]
# What is in the gap? XLA's program for the recurrence goes through the arrays several times, that for the weights of four
# bits writes them in bfloat16 first, and that for the cross-entropy writes all logits. In each case a block could
# have stayed in VMEM. Exercise 18.9 is not in the picture, because it runs on four chips.
#
# Not every idea is a project. Two that look like one: the place of the largest element of each row, and for each row
# of x the number of the nearest row of c, which is a matmul with an argmin behind it. **Predict first:** does XLA write
# the 16,384 x 1,024 distances of the second to HBM? They would be 64 MiB.


# %% tags=["predict"]
def largest(x):
    return jnp.argmax(x, axis=1)


def nearest(x, c):
    """Return for each row of x the number of the row of c with the smallest distance."""
    products = jnp.dot(x, c.T, preferred_element_type=jnp.float32)
    return jnp.argmin(jnp.sum(c.astype(jnp.float32) ** 2, axis=1) - 2 * products, axis=1)


rows = jax.ShapeDtypeStruct((8192, 2048), jnp.float32)
x, c = (jax.ShapeDtypeStruct((n, 256), jnp.bfloat16) for n in (16384, 1024))
for fn, args, flops in ((largest, (rows,), 0), (nearest, (x, c), 2 * 16384 * 256 * 1024)):
    moved = project.moved_once(args, jax.eval_shape(fn, *args))
    ideal = project.Ideal(flops=flops, hbm_bytes=moved).seconds()
    report = compiler.compile_tpu(fn, *args)
    print(
        f"{fn.__name__:8} ideal {text.duration(ideal):>7}   XLA {text.duration(report.seconds):>7}"
        f"   {report.hbm_bytes / 2**20:5.1f} MiB moved, {moved / 2**20:.1f} needed"
    )

# %% [markdown]
# XLA is within a few percent of the ideal for the one, and within an eighth for the other: it computes the argmin as the
# matmul's results come out of the MXUs. A kernel would win nothing here, and it would be yours to maintain. So ask this
# question before you write a line. The answer took two compilations.
#
# ## The contract
#
# What exactly shall the kernel compute? A sentence such as "a moving average" leaves the first 15 rows, the dtypes and
# the sizes to the imagination of whoever calls it.
#
# > **contract**: what a function promises: the shapes and dtypes of its arguments and results, the sizes it takes, what
# > happens at the ends, how accurate it is, and whether it has a gradient.
#
# For the moving average: x is float32[T, N], and so is the result. T and N may be any sizes. Rows above the first count
# as zeros. Sums are in float32. `checks.own_project` turns a contract into a project with stages and judges. It needs the
# reference, small arguments for the judges, and the large ones that count. Choose the small ones so that they break
# things: sizes that are no multiple of a block, fewer rows than the window, several blocks in both directions.


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
    vector_ops=16 * 4096 * 2048,  # 15 additions and a multiplication for each element
    written_for_xla=by_shifts,  # the better of the two: an honest rival
)

# %% [markdown]
# The project is called `own.moving_average` from now on, in all checks of this notebook. Its par is a quarter above the
# ideal. The rival is the faster of XLA's two programs. It is tempting to compare with the slow one, and people who read
# your report will ask.
#
# ## The prediction
#
# How long will your first version take, and what will bind it? You have written your guess down already, and now the
# project keeps it. A prediction cannot be wrong in a way that costs you anything. Afterwards the difference between it
# and the result shows which of your ideas about the machine needs mending.
#
# The next cell has ours, so change it to yours. The record keeps it with a hash, and nothing is judged before it.

# %%
moving_average_prediction = ("100 us", "HBM")
checks.predict("own.moving_average", moving_average_prediction)

# %% [markdown]
# ## The first version
#
# The mean of the first rows of a block needs the last 15 rows of the block above. The grid runs over blocks of columns,
# and for each of them down the rows, so those rows can wait in scratch, as the carry in lesson 8 did. We keep 16, which
# is a multiple of 8.
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
# The judges agree that the kernel is right, at all sizes. It is also slower than both of XLA's programs, and the verdict
# says where the cycles go. Before you change anything, ask for the cause. Most cycles wait for copies: a block of 64 x
# 128 elements has 32 KiB, and lesson 5 showed that a copy takes a thousand cycles before its first byte arrives.
#
# ## Tuning
#
# There are two ideas for a faster version: larger blocks, and less arithmetic. Sums of 2, 4, 8 and 16 rows take four
# additions instead of 15, because each sum is built from two of the sums before it. `pltpu.roll` moves rows down, and
# what it brings round from the end lands in the first 15 rows, which are not stored.


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
# **Predict first** which of the two ideas matters more. The picture has a line for each kernel, over the size of the
# block.

# %% tags=["predict"]
BLOCKS = ((64, 128), (128, 256), (256, 512), (256, 1024), (512, 512), (256, 2048))
times = {}
for name, fn in (("15 additions", first_version), ("4 additions", second_version)):
    in_each = [functools.partial(fn, bt=bt, bc=bc) for bt, bc in BLOCKS]
    reports = [compiler.compile_tpu(each, *LARGE) for each in in_each]
    times[name] = [report.seconds * 1e6 for report in reports]
print("block        15 additions   4 additions")
for (bt, bc), one, other in zip(BLOCKS, *times.values(), strict=True):
    print(f"{bt:4} x {bc:5} {one:12.1f} us {other:10.1f} us")

fig, axes = plt.subplots(figsize=(7, 2.8))
ideal = project.Ideal(hbm_bytes=project.moved_once(LARGE, LARGE))
kib = [bt * bc * 4 / 1024 for bt, bc in BLOCKS]
for (name, values), marker in zip(times.items(), "os", strict=True):
    axes.plot(kib, values, marker=marker, label=name)
axes.axhline(ideal.seconds() * 1e6, color="black", linewidth=1)
axes.set_xscale("log", base=2)
axes.set_ylim(0)
axes.set_xlabel("KiB of a block")
axes.set_ylabel("us")
axes.legend()
viz.plot_picture(
    fig, "The time of both kernels over the size of a block; the line is the ideal"
)

# %% [markdown]
# The block size makes a difference of more than five times, and a quarter of the arithmetic makes almost none, because
# the core waits anyway. From 256 x 512 on, both kernels are bound by HBM, and no idea about arithmetic can help any
# more. That is the answer to the guess at the top, and the usual order of things: first find out what binds, then
# change that. Four additions are not useless. They leave the core idle for two thirds of the time, which matters as
# soon as something is fused with the average.
#
# Is the simulator right about HBM? It has no contention in its model, so the library never predicts less than the bytes
# at full bandwidth. Where HBM binds, expect a chip to be slower than the prediction by some percent.


# %%
def moving_average(x, bt=256, bc=512):
    """Return the mean of each row and the 15 above it; rows above the first count as zeros."""
    return in_blocks(doubling_kernel, x, bt, bc)


checks.check("own.moving_average", moving_average)

# %% [markdown]
# ## A test that finds bugs
#
# The kernel is right, and the check still asks for something. You will change the kernel again in half a year, and
# then only your own test looks at it. Does that test find mistakes? There is a way to know: make some.
#
# > **planted bug**: a mistake that is made on purpose, one at a time, to see whether a test notices. A test that passes
# > for a planted bug has a gap.
#
# `checks.planted` rewrites your kernel as a likely slip would have written it, and calls your test with the result. It only
# plants what changes the result for some arguments that the contract allows. **Predict first:** how many of three
# bugs does the test below find?


# %% tags=["predict"]
def test_ones(fn):
    """The mean of ones is one."""
    x = jnp.ones((256, 256), jnp.float32)
    np.testing.assert_allclose(fn(x)[WIDTH:], x[WIDTH:], rtol=1e-5)


checks.planted("own.moving_average", moving_average, test_ones)

# %% [markdown]
# Ones are a poor choice, because every row and every column is like every other. The test also has one block only, and
# looks away from the rows where a window begins. A better one has values that differ everywhere, several blocks in both
# directions, and a size that fits none of them. And it computes the right values in another way than the kernel.


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
# Which blocks shall a caller use, on which chip, for which shape? The answer from a search is lost if it stands in nobody's
# file. The table is the file: it has the blocks by chip and by the shape of the first argument, and the check compiles
# each entry. Lesson 11 has the search that would fill a larger one.

# %%
moving_average_table = {("v5e", (4096, 2048)): {"bt": 256, "bc": 512}}
checks.tuned("own.moving_average", moving_average, moving_average_table)

# %%
checks.check("own.moving_average", moving_average)

# %% [markdown]
# ## Into a model
#
# A layer that trains needs the gradient. The gradient of a moving average is a moving average in which each row takes
# its own cotangent and the 15 *below* it. The shortest way turns the cotangent upside down, averages, and turns the
# result back.


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
# compiler's note says. A kernel whose index maps run from the last block up needs no flips at all. Exercise 18.5 needs one
# for its gradient.
#
# ## The report
#
# What do you hand over? Two pages: what was promised, how fast it is beside the prediction, the ideal and XLA, what
# binds it, what was tried, which bugs the test finds, and which blocks to use. `checks.report` makes them
# from the record of everything above, shows them, and saves them as a file that you can print. Run the next cell for
# yours; the one after it prints ours as text, without its dates.

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
# The report says how far our prediction was off. We expected that a first version would come close to the bytes, and
# it waited for copies for most of its time instead.
#
# ## Now you
#
# Do 18.1 to 18.3, which are short, and then take a project. Which one? That depends on what you want to practice:
#
# | project | practice | minutes |
# |---|---|---|
# | 18.4 int8 with a scale for each row | reading once what XLA reads twice | 34 |
# | 18.5 linear recurrence | a carry down the rows, and its gradient from the last row up | 60 |
# | 18.6 weights of four bits | decoding: few rows, many weights, unpacked in VMEM | 60 |
# | 18.7 decoding with latent attention | online softmax over a cache, prefetched lengths | 75 |
# | 18.8 linear layer and cross-entropy | logits that never reach HBM, forward and backward | 120 |
# | 18.9 collective matmul | copies between four chips behind matmuls | 90 |
#
# Two more are open: a stencil of sixteen steps, and the 64 largest elements of each row. We have no answer to
# these. And the best project is your own: an operation that your model spends time in, and for which the two
# times at the beginning of this lesson are far apart.
#
# `checks.golf()` prints your scores beside par and ours. An instructor can make a page of the scores of a class, with
# `make leaderboard`: a notebook takes part only if it says so ([grading](../docs/grading.md#the-leaderboard)).
#
# ## Questions
#
# **1.** A kernel takes 20 us, XLA 24 us, and the ideal is 19 us. Would you keep it?
#
# <details><summary>Answer</summary>
#
# It gains a sixth, and nothing is left to gain. If your model spends a percent of its time there, the step becomes 0.2
# percent faster, for code that somebody has to maintain. Look for an operation with a larger gap, or a larger share.
#
# </details>
#
# **2.** The prediction was 100 us, and the result is 455 us. What do you do first?
#
# <details><summary>Answer</summary>
#
# Ask what binds. Here it was waiting for copies, which larger blocks cure. Less arithmetic would have changed
# nothing.
#
# </details>
#
# **3.** Why is XLA's faster program the rival, and not the plain one?
#
# <details><summary>Answer</summary>
#
# Because whoever decides between your kernel and XLA will try that one, too. A speed-up over a program that nobody
# would use says nothing.
#
# </details>
#
# **4.** Your test passes for a kernel whose index map is wrong. What is likely to be wrong with its data?
#
# <details><summary>Answer</summary>
#
# Blocks that are alike: all ones, a constant, or one block only. Values that differ everywhere show where each of them
# went.
#
# </details>
#
# **5.** What does the report prove about the chip?
#
# <details><summary>Answer</summary>
#
# That the compiler for it accepts the kernel, and what its simulator predicts. It proves no time: that takes the chip
# itself.
#
# </details>
#
# ## Further
#
# ### On a chip
#
# With a TPU, the next cell times the kernel and XLA's program in turns. Without one, it prints that there is none.

# %% tags=["outputs-not-stored"]
if jax.default_backend() == "tpu":
    x = jnp.ones(LARGE[0].shape, LARGE[0].dtype)
    for name, fn in (("kernel", moving_average), ("XLA", jax.jit(by_shifts))):
        print(name, bench.time(fn, x))
else:
    print("There is no TPU here, so nothing is measured.")

# %% [markdown]
# ### Other people's kernels
#
# What do the judges say about kernels that real projects use? We put 70 of nine public projects before them;
# [the page](../docs/public_kernels.md) names each with its source and its verdicts.

# %%
kernels = json.loads(pathlib.Path("../docs/public_kernels.json").read_text())
for judge in ("numbers", "simulator", "races", "compiler"):
    said = [
        v["said"] for each in kernels for v in each["verdicts"] if v.get("judge") == judge
    ]
    print(f"{judge:10} {dict(collections.Counter(said))}")

# %% [markdown]
# <!-- next -->
