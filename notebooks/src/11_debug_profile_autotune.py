# %% [markdown]
# # Lesson 11: Debug, profile, autotune
#
# *60 minutes, then 60 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 4, the loops and the VMEM of lesson 5, and the tiled matmul of lesson 7. You do not need a TPU; with one, you can
# record a profile of the chip itself.*
#
# Below is one transform, written twice. It is the Walsh-Hadamard transform of 128 registers of values: in each of seven
# rounds it replaces pairs of registers by their sum and their difference. With `passes=1` the kernel loads all 128
# registers, runs the seven rounds, and stores the results. With `passes=2` it takes 8 registers at a time through three
# rounds and stores them, then loads these results, 16 at a time, for the other four rounds. So it loads and stores
# every value twice. Run the three cells.

# %%
# FIRST CELL

# %%
import contextlib
import functools
import io
import itertools
import json
import pathlib
import random
import re
import tempfile

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import bench, compiler, cost, datasets, grid, judges, testing, viz


def butterflies(values):
    """Add and subtract registers whose indices differ in one bit, bit by bit."""
    bit = 1
    while bit < len(values):
        values = [
            values[i ^ bit] - v if i & bit else v + values[i ^ bit]
            for i, v in enumerate(values)
        ]
        bit *= 2
    return values


def transform(x, passes, steps=1):
    """Transform the len(x) registers of x, a power of 2, once in each grid step."""
    n, few = x.shape[0], min(8, x.shape[0] // 4)

    def kernel(x_ref, o_ref):
        def one_pass(ref, groups):
            for group in groups:
                made = butterflies([ref[i] for i in group])
                for i, value in zip(group, made, strict=True):
                    o_ref[i] = value

        if passes == 1:
            one_pass(x_ref, [range(n)])
        else:
            one_pass(x_ref, [range(i, i + few) for i in range(0, n, few)])
            one_pass(o_ref, [range(i, n, few) for i in range(few)])

    stays = pl.BlockSpec(x.shape, lambda i: (0, 0, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[stays], out_specs=stays
    )(x)


sixteen = jax.random.normal(jax.random.key(0), (16, 8, 128))
for passes in (1, 2):
    twice = transform(transform(sixteen, passes), passes) / 16
    print(f"passes={passes}, twice gives x back: {jnp.allclose(twice, sixteen, atol=1e-5)}")


# %%
def a_step(passes, registers=128):
    """Return (cycles of a grid step that copies nothing, the compiler's report)."""
    x = jax.ShapeDtypeStruct((registers, 8, 128), jnp.float32)
    few, many = (
        compiler.compile_tpu(functools.partial(transform, passes=passes, steps=steps), x)
        for steps in (2, 4)
    )
    return (many.cycles - few.cycles) / 2, many


transforms = {passes: a_step(passes) for passes in (1, 2)}
cycles = sorted(cycles for cycles, _ in transforms.values())
print("cycles per step, predicted (compiler), fewest first:", *cycles)

# %% [markdown]
# Both versions do the same additions and subtractions, and neither waits for a copy, because the block stays in VMEM.
# Yet one of them takes three times as long as the other. **Which one, and why?** Write down one sentence.
#
# After this lesson you can
# - find out why a kernel is wrong, with a print, with poison, with the simulator's log and with a race report,
# - see where a kernel's cycles go, find its spills, and say what they cost,
# - read a profile: find its gaps, and say where and on what it was recorded,
# - find good blocks with a dozen compilations, and keep what you found,
# - write a test that fails if a bug comes back.
#
# ## First make it right: four tools
#
# Before you make a kernel fast, you have to make it right. The judges of this course find the cause of many mistakes,
# but in your own projects some bugs will slip past them, and for those you need tools. The kernel below splits each row
# into blocks of 128 columns and adds up these blocks. Its arguments `zero_axis`, `zeroed` and `order` can each break it
# in a different way.


# %%
def in_columns(x, zero_axis=1, zeroed=True, order="arbitrary", say=False):
    """Return the sum of the blocks of 128 columns of x; the defaults are right."""

    def kernel(x_ref, o_ref, acc_ref):
        i, j = pl.program_id(0), pl.program_id(1)
        if zeroed:

            @pl.when(pl.program_id(zero_axis) == 0)
            def zero():
                acc_ref[...] = jnp.zeros_like(acc_ref)

        before = acc_ref[0, 0]
        acc_ref[...] += x_ref[...]
        if say:
            pl.debug_print("step ({}, {}): {} -> {}", i, j, before, acc_ref[0, 0])

        @pl.when(j == pl.num_programs(1) - 1)
        def store():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), jnp.float32),
        grid=(x.shape[0] // 8, x.shape[1] // 128),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=(order, order)),
    )(x)


BROKEN = {
    "wrong axis": functools.partial(in_columns, zero_axis=0),
    "not zeroed": functools.partial(in_columns, zeroed=False),
    "parallel": functools.partial(in_columns, order="parallel"),
}
ones = jnp.ones((16, 256))
print("should be 2 and 2:", *in_columns(ones)[::8, 0])
for name in ("wrong axis", "not zeroed"):
    print(f"{name:10} gives  ", *BROKEN[name](ones)[::8, 0])

# %% [markdown]
# The result of the third bug, "parallel", depends on the order of the steps, so it has to wait for a tool that shows
# this order.
#
# ### Print
#
# `pl.debug_print` prints scalars from inside a kernel, at each step. **Predict** the four lines that "wrong axis"
# prints, each of the form "step (0, 0): before -> after", and underline the first one that is wrong.

# %% tags=["predict"]
_ = jax.block_until_ready(in_columns(ones, zero_axis=0, say=True))

# %% [markdown]
# Step (0, 1) starts from 0 again, and step (1, 0) does not, so the initialization depends on the wrong axis. Print what
# each step finds and leaves, with its grid indices, and look for the first line that surprises you.
#
# A print costs time, and on a chip you have to switch it on; *Further* shows both.
#
# ### Poison
#
# "Not zeroed" gives NaN in the simulator. On a chip, scratch contains whatever was there before, which may be zeros.
# The cell below tries both, zeros and NaN.
#
# > **poison**: values put into memory that nothing has written yet, chosen so that any use of them shows, such as NaN
# > for floats.


# %%
def simulated(fn, *args, **knobs):
    """Return what fn gives in JAX's TPU simulator with settings other than the course's."""
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(**knobs)):
        result = jax.block_until_ready(fn(*args))
    pltpu.reset_tpu_interpret_mode_state()
    return result


for memory in ("zero", "nan"):
    for rows in (8, 16):
        result = simulated(BROKEN["not zeroed"], ones[:rows], uninitialized_memory=memory)
        print(f"memory of {memory:4}  {rows:2} rows:", *result[::8, 0])

# %% [markdown]
# If memory starts as zeros, the bug is invisible for one block of rows. For two blocks it looks like a different bug,
# because the second sum continues from the first. With NaN it shows at once, so never test with zeros alone. (*Further*
# says how to ask a chip for poison.)
#
# NaN exposes garbage that reaches the result by arithmetic. But comparisons with NaN are false (except `!=`, which is
# true), so garbage behind `where(a > b, ...)` may stay hidden. Zero, a large positive or a large negative value may
# expose it, and the simulator judge tries those as well if a kernel compares.
#
# ### The simulator's log
#
# Now for "parallel". The steps along a parallel axis may run in any order, and two cores may share them. The simulator
# tells you the order if you give it a function to call at each step. **Predict:** the sum of four ones is 4. Which
# other results are possible if step (0, 0), which sets the sum to zero, does not run first?


# %% tags=["predict"]
def order_of(fn, x, **knobs):
    """Return (the grid points in the order in which they ran, an element of the result)."""
    ran = []

    def note(token, point, core):
        ran.append(tuple(int(n) for n in point))
        return token

    result = simulated(fn, x, grid_point_recorder=note, **knobs)
    return ran, result[0, 0]


eight = jnp.ones((8, 512))
for name, fn in (("arbitrary", in_columns), ("parallel", BROKEN["parallel"])):
    ran, total = order_of(fn, eight, random_seed=1)
    print(f"{name:9}", *ran, f" the sum of 4: {total}")

# %% [markdown]
# In the second run, step (0, 0) comes last, after step (0, 3) has stored the sum. The stored sum had started from
# poison, so the result is NaN. If (0, 0) runs later than another step but before (0, 3), the result is 2 or 3. The
# simulator may choose any order, because "parallel" promises that the order does not matter.
#
# ### The race report
#
# > **race**: two accesses to the same place, at least one of them a write, where nothing determines which comes first.
#
# With `detect_races=True`, the simulator keeps a logical clock for each core and each copy, and it prints a report if
# no wait orders two accesses. Below is such a report, shortened to the kind of access, the memory, the slice, the core,
# and the place in the code.

# %%
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    knobs = dict(num_cores_or_threads=2, random_seed=0, detect_races=True)
    simulated(BROKEN["parallel"], eight, **knobs)
pattern = r"(read|write) of \('(\w+)'.*?\)\[\((.*)\)\] from \((.*?)\), (.*)"
for access in sorted(set(re.findall(pattern, printed.getvalue()))):
    print("{} of {}, {}, from ({}): {}".format(*access))

# %% [markdown]
# Both lines report a write to the same eight rows of the result, one from core 0 and one from core 1; each core is
# given as (device, core). Here the pipeline does the writing, so the report can only name the call. For your own reads,
# stores and copies it names the file, the line and the function, and a copy appears with a number of its own in place
# of a core. One of the four cases in exercise 11.1 can be solved that way.
#
# ### Which judge sees which bug?
#
# The races judge runs the simulator on two cores and also compares the values. **Guess** which of the three bugs each
# of the four judges finds. How many does the compiler refuse?


# %% tags=["predict"]
def added(x):
    return x.reshape(x.shape[0], -1, 128).sum(axis=1)


ASKED = {
    "numbers": judges.numbers_judge,
    "simulator": judges.simulator_judge,
    "races": judges.races_judge,
    "compiler": judges.compiler_judge,
}
print(" " * 11, *(f"{name:10}" for name in ASKED))
for name, broken in BROKEN.items():
    said = [judge(broken, added, jnp.ones((24, 256))).passed for judge in ASKED.values()]
    print(f"{name:11}", *(f"{'passes' if passed else 'refuses':10}" for passed in said))

# %% [markdown]
# The compiler refuses none of them, because each is a legal program. The numbers judge passes "parallel", because its
# interpreter runs the steps in order.
#
# > **It proves little that a kernel compiles and is right once. Several kinds of poison, another order of the steps and
# > a race detector find bugs that depend on memory or order. Only your data finds bugs that depend on the values.**
#
# Exercise 11.2 has a kernel that passes all four judges with its author's data.
#
# ## Then make it fast: where do the cycles go?
#
# Back to the opening. A bundle has one slot for a store, three for loads, and four for the VPU. The compiler's report
# says what share of each kind of slot is filled while the core is at work. **Guess** for both programs which kind of
# slot is the fullest.

# %% tags=["predict"]
print("passes   cycles a step   filled slots: VPU   load   store   predicted (compiler)")
for passes, (cycles, report) in transforms.items():
    vpu, load, store = (report.slots[unit] for unit in ("VPU", "load", "store"))
    print(f"{passes:6} {cycles:15,.0f} {vpu:19.0%} {load:6.0%} {store:7.0%}")

# %% [markdown]
# With two passes the VPU slots are the fullest: 896 additions and subtractions, four per bundle, take at least 224
# cycles. With one pass the store slots are nearly full for almost 800 cycles, although there are only 128 results. What
# else does the program store?
#
# ## Spills, bundle by bundle
#
# A core has 64 vector registers. In every round, one pass works on 128 registers of values at once, and two passes work
# on at most 16. **Look for one thing** in the picture: what does one pass do that two passes hardly do?

# %%
codes = {
    f"passes={passes}": compiler.bundles(
        functools.partial(transform, passes=passes, steps=2),
        jax.ShapeDtypeStruct((128, 8, 128), jnp.float32),
    )
    for passes in (2, 1)
}
viz.bundle_diff(codes, in_a_step=True)

# %% [markdown]
# One pass stores and loads values for which no register was free. These are the spills of lesson 1, and the load that
# brings a spilled value back is called a *fill*. A v5e stores one register per bundle, so the 774 stores, of which 646
# are spills, take 774 of the 793 cycles. (Two passes need fewer stores than the 256 in their source code, because some
# results stay in registers for the second pass.)
#
# If spills are the cause, the difference must disappear where nothing spills, so the next cell transforms fewer
# registers. **Predict:** from how many registers on are two passes faster?

# %% tags=["predict"]
print("registers   one pass: cycles, spills   two passes: cycles, spills")
for registers in (16, 32, 64, 128):
    one, two = (a_step(passes, registers) for passes in (1, 2))
    print(
        f"{registers:9} {one[0]:18,.0f} {one[1].spills:7}",
        f"{two[0]:20,.0f} {two[1].spills:7}",
    )

# %% [markdown]
# With 16 registers nothing spills, and both versions take the same time. With 32, one pass spills three values and
# takes two cycles longer. From 64 on it is much slower than two passes, because it spills far more than they do.
#
# ## Does a spill always cost time?
#
# You know the softmax below from lesson 2. A grid step gets a block of 512 rows and works on `turn` rows per loop
# iteration. More rows per iteration need more registers: 32 rows of 1024 columns fill 32 of the 64, and 64 rows fill
# all of them. The cell tries seven values of `turn`, and the slowest kernel takes nearly three times as long as the
# fastest. **Predict:** is the slowest the one that spills most?


# %% tags=["predict"]
def softmax(x, turn, rows=512):
    def kernel(x_ref, o_ref):
        @pl.loop(0, rows // turn)
        def some_rows(n):
            these = pl.ds(pl.multiple_of(turn * n, turn), turn)
            x = x_ref[these, :]
            raised = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
            o_ref[these, :] = raised / jnp.sum(raised, axis=1, keepdims=True)

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    grid = (x.shape[0] // rows,)
    return pl.pallas_call(
        kernel, out_shape=x, grid=grid, in_specs=[block], out_specs=block
    )(x)


TURNS = (8, 16, 32, 64, 128, 256, 512)
table = jax.ShapeDtypeStruct((2048, 1024), jnp.float32)
reports = {
    turn: compiler.compile_tpu(functools.partial(softmax, turn=turn), table)
    for turn in TURNS
}
print("turn      us   HBM alone   core alone   spills   VMEM KiB   predicted (compiler)")
for turn, report in reports.items():
    print(
        f"{turn:4} {report.seconds * 1e6:7.1f} {report.hbm_seconds * 1e6:11.1f}",
        f"{report.core_seconds * 1e6:12.1f} {report.spills:8} {report.vmem_bytes / 1024:10,.0f}",
    )

# %% [markdown]
# No, the slowest kernel has no spills. It works on eight rows at a time and waits for the XLU, as in lesson 2. The
# kernel with 516 spills needs the least core time: its spills take store slots, but a fifth of those is still empty, as
# `reports[512].slots["store"]` shows. Overall, five of the seven take the same time, because HBM binds.
#
# > **Ask what binds before you remove a spill. While copies bind, a spill costs no time. Otherwise it takes a store
# > slot, and its fill takes a load slot; if stores bind on a v5e, each spill costs a cycle.**
#
# Spills always take VMEM, as the last column shows. The next cell tries wider rows, with 256 of them per grid step.

# %%
wide = jax.ShapeDtypeStruct((2048, 3584), jnp.float32)
print("turn   counted MiB   the compiler's MiB   spills")
for turn in (256, 32, 8):
    fn = functools.partial(softmax, turn=turn, rows=256)
    counted = cost.vmem_bytes(grid.walk(fn, wide)) / 2**20
    report = compiler.compile_tpu(fn, wide)
    if report.ok:
        print(
            f"{turn:4} {counted:11.1f} {report.vmem_bytes / 2**20:17.2f} {report.spills:12}"
        )
    else:
        print(f"{turn:4} {counted:11.1f}   {report.error.what}")

# %% [markdown]
# The blocks take 14 MiB in each case. With all rows in one iteration, the spills take more than 3 MiB on top of that,
# and the compiler refuses the kernel, because a kernel gets only 16 MiB unless it asks for more.
#
# So which of the seven softmaxes would you ship? We would ship `turn=64`. Its 33 spills take only 80 KiB of VMEM, and
# its core has time to spare, because it needs 17.3 us of the 20.5 that the bytes take. With `turn=32` nothing spills,
# but the core needs 20.4 of those 20.5 us, so it binds as soon as it is a little slower than predicted.
#
# ## Read a profile
#
# A program runs many kernels, and a host has to supply their data, so find out first what holds the program up. The
# Keras guide "Define a Custom TPU/GPU Kernel" advises you to look at a profile of your model and see if there are "idle
# gaps caused by computation or memory transfer bottlenecks".
#
# > **profile**: a record of a run that says what ran when, on which device and thread.
#
# `jax.profiler.start_trace(folder)` begins a profile and `stop_trace()` ends it; in Keras the TensorBoard callback does
# this (*Further*). Below is a profile of three training steps of a small dense model. It was **measured, on a CPU**,
# because we had no TPU to record on, and another recording would show other times. You read the profile of a TPU in the
# same way.
#
# A *lane* of a profile is one row of the picture, here a thread; it has nothing to do with the lanes of lesson 2. A
# *gap* is a time in which nothing runs in a lane. **Find the gaps** in the lanes called XLA, and see what the lane
# above them does meanwhile.

# %%
traces = {
    name: json.loads(datasets.trace_file(f"keras_fit_{name}").read_text())
    for name in ("waiting", "ready")
}
viz.trace_lanes(traces["waiting"])

# %% [markdown]
# The picture shows where to look, but an argument needs figures. For what share of the time was any XLA thread at work,
# and how long was the longest gap?

# %%
for name, trace in traces.items():
    found = bench.gaps(trace, lanes="XLA")
    print(
        f"{name:7} {found.whole_ms:5.0f} ms, XLA busy {found.busy_ms / found.whole_ms:.0%},",
        f"longest gap {max(found.idle)[0]:.0f} ms,",
        f"loading took {bench.took(trace, 'load a batch'):.0f} ms",
    )

# %% [markdown]
# In the first recording the loader sleeps before each batch, and the longest gap, 21 ms, is about as long as one of the
# three loads, which took 60 ms together. The second has the same model and a loader that does not sleep, and the long
# gaps are gone, which confirms the cause. So these gaps have a third cause, beside the two in the guide, and no kernel
# would have made them shorter.
#
# The longest gap of the second recording is its first load, and we have not looked into why that load takes longer than
# the others. Other gaps last about a millisecond (`found.idle` lists them); the recording kept only steps and loads
# from the host, so it cannot show their cause.
#
# > **A gap shows that the device waits. The other lanes may show what it waits for; if none does, record more.**
#
# Look also for an operation that takes long and uses little of the chip. It may already be as fast as it can be: the
# roofline of lesson 3 gives the least time that it needs, and a kernel can save only the time beyond that. And if an
# operation takes 5 % of a step, a kernel for it can save at most 5 %.
#
# ## A search with twelve questions
#
# Lesson 7 chose the blocks (bm, bk, bn) of a matmul by reasoning, and under *Further* it let `bench.autotune` rank four
# choices. To choose among all of them, first count them. Our rule allows each side to be a power of two from 128 to
# 4096 that divides its axis, and makes an axis shorter than 128 one block. **Guess** how many choices that allows for
# 2048 x 2048 x 2048, and how many of them fit into 16 MiB.
#
# > **search space**: all choices that are legal, before anything is known about how fast they are.
# >
# > **autotuner**: a program that looks for the fastest choice in a search space, and tries as few choices as it can.


# %% tags=["predict"]
def legal(shape):
    """Return every (bm, bk, bn) that the rule allows."""

    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    return list(itertools.product(*map(sides, shape)))


def vmem(bm, bk, bn):
    """Return the bytes of the blocks: two buffers each, and the float32 accumulator."""
    return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn


shape = (2048, 2048, 2048)
fitting = [blocks for blocks in legal(shape) if vmem(*blocks) <= 16 * 2**20]
print(f"{len(legal(shape))} legal, {len(fitting)} of them fit by the count of lesson 7")

# %% [markdown]
# Each question to the compiler takes a second or two; on a chip it would take a compilation and a run. We have asked
# about every choice for six matmuls and stored the answers in `datasets.product_searches`. The cell below asks about
# one of them again, so that you can trust the rest, and draws the map of all choices. (Its kernel is that of lesson 7,
# so you need not read it again.) **Look for one thing:** how many squares are within 10 % of the best?


# %%
def product(x, y, bm, bk, bn):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, depth // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


search = datasets.product_searches()[shape]
found = min(
    (b for b in search.seconds if search.seconds[b] is not None), key=search.seconds.get
)
square = jax.ShapeDtypeStruct(shape[:2], jnp.bfloat16)
again = compiler.compile_tpu(
    functools.partial(product, bm=found[0], bk=found[1], bn=found[2]), square, square
)
kept = search.seconds[found] * 1e6
print(f"{found}: stored {kept:.1f} us, asked again {again.seconds * 1e6:.1f} us")
near = [b for b in fitting if (search.seconds[b] or 1) <= 1.1 * search.seconds[found]]
refused = [b for b in fitting if search.seconds[b] is None]
print(
    f"{len(near)} are within 10 %; of those that fit by count, {len(refused)} are refused"
)
viz.search_map(search.seconds, asked=search.ours)

# %% [markdown]
# The dark squares are a plateau. Smaller blocks need more steps and move more bytes, and the largest blocks do not fit.
# So you need not find the best square, as long as you stay on the plateau. Four choices that fit by the count of lesson
# 7 are refused all the same (see `refused`), because spills take room, too. If you leave a MiB free, you avoid three of
# the four, but a tuner must be ready for a refusal.
#
# The rings show the twelve choices that our autotuner asked about. It drops those that do not fit into 15 MiB,
# estimates the times of the others from bytes and steps, and asks about the twelve with the shortest estimates.
#
# Does it need the estimates? Compare it with three simpler rules: twelve choices at random (the median and the worst of
# 101 draws), the twelve largest, and the twelve largest of those that fit into 15 MiB. **Predict** which of these rules
# does as well as ours. In the output, the figure after each shape counts its legal choices. (We chose these six matmuls
# after a first set on which all rules did equally well, so they prove nothing in general.)

# %% tags=["predict"]
print("the best found, as a multiple of the best there is: predicted (compiler)")
print(" " * 26, "random: median, worst   largest   largest that fit   ours")
for shape, search in list(datasets.product_searches().items())[:6]:
    choices = sorted(search.seconds, key=lambda b: -b[0] * b[1] * b[2])
    draws = [random.Random(n).sample(choices, 12) for n in range(101)]
    scores = sorted(search.times_best(draw) or 99 for draw in draws)
    fit = [blocks for blocks in choices if vmem(*blocks) <= 15 * 2**20]
    rivals = (choices[:12], fit[:12], search.ours)
    largest, fitting, ours = (f"{search.times_best(rival) or 0:.2f}" for rival in rivals)
    print(
        f"{' x '.join(map(str, shape)):19} {len(choices):6} {scores[50]:15.2f} {scores[-1]:7.2f}",
        f"{largest if float(largest) else 'none':>9} {fitting:>18} {ours:>6}",
    )

# %% [markdown]
# For the first matmul the compiler refuses all of the twelve largest, so **the one thing that you have to count is
# VMEM.** The twelve largest that fit do as well as our autotuner for all six matmuls, so with twelve questions the
# estimates gain nothing. With fewer questions they may, and exercise 11.5 gives you six. Random choices are often good,
# because the plateau is wide, but the worst draw is far off it.
#
# ## Keep what you found
#
# Instead of repeating a search each time your program starts, store its result. The key has to name everything on which
# the result depends: the kernel, the chip, the shape, the dtype, and the VMEM limit if you set one. (Our file is for
# one kernel with the usual limit, so its key omits both.) Store which compiler found the blocks, too, because another
# libtpu may prefer others. The Keras guide begins by installing the latest libtpu; do that before a search and not
# after it.

# %%
table_file = pathlib.Path(tempfile.mkdtemp()) / "tuned.json"
key = "v5e 2048x2048x2048 bfloat16"
table_file.write_text(json.dumps({key: {"blocks": found, "by": search.versions}}))
again = json.loads(table_file.read_text())[key]
print(again)
print(
    "the same blocks:",
    tuple(again["blocks"]) == found,
    "| without tuple():",
    again["blocks"] == found,
)

# %% [markdown]
# JSON has no tuples, so they come back as lists, which matters in a dict key or a comparison with `==`.
#
# A kernel also has to stay right. Somebody who cleans up the code later may bring an old bug back, and a test that
# would catch it costs four lines. `testing.assert_kernel` asks the four judges, and it works in any project
# ([docs/your_kernels.md](../docs/your_kernels.md)).
#
# > **regression test**: a test that fails on a bug that was once fixed, so that it cannot come back unseen.
#
# **Which arguments does such a test need?** Any arguments expose "not zeroed". The cell below tests "wrong axis" with
# two shapes. **Predict** which shape lets the bug pass.


# %% tags=["predict"]
def passes(fn, x):
    try:
        testing.assert_kernel(fn, added, x)
    except AssertionError as error:
        return "fails: " + str(error).splitlines()[1][:60]
    return "passes"


for shape in ((8, 128), (24, 256)):
    x = jax.random.normal(jax.random.key(0), shape)
    print(shape, "the mended kernel", passes(in_columns, x))
    print(shape, "wrong axis       ", passes(BROKEN["wrong axis"], x))

# %% [markdown]
# With (8, 128) the grid has only one step, whose indices are both 0, so even the wrong axis gives the right condition.
# **A regression test must fail on the bug and pass on the fixed kernel**, so run it on the broken kernel first.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel is right on your machine, in a simulator whose memory is zero, and wrong on every second
# run on a chip. What do you try first?</summary>
# Try poison, and then two cores with a race detector. Both ask whether the result depends on something that nobody
# promised.</details>
#
# <details><summary>2. A report says 200 spills. What do you look at before you do anything?</summary>
# Look at what binds: if HBM or copies bind, the spills cost no time, and if stores do, each costs a cycle on a v5e.
# Then look at VMEM, because the spills take a part of it.</details>
#
# <details><summary>3. In a profile the device is idle half of the time. Will a faster kernel help?</summary>
# It will not close the gap, so find out what the device waits for: a loader, a dispatch, another chip. If loading and
# computing alternate, a faster kernel shortens the rest. If the loader works meanwhile and is the slower of the two,
# the gap grows by what you save.</details>
#
# <details><summary>4. Of 100 choices you may ask about 12. Which ones?</summary>
# Ask about the largest of those that fit, or about those with the shortest times in a model of bytes and steps, which
# may pay off if you have fewer questions. The model must find the plateau, not the best choice on it.</details>
#
# <details><summary>5. When is a tuned table out of date?</summary>
# Its blocks are for one kernel, chip, shape, dtype and VMEM limit, which its key has to name. Another compiler may
# prefer others, so the table should name the compiler as well.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 11](../exercises/11_debug_profile_autotune.ipynb). The first one gives you four bugs and
# no verdicts.
#
# ## Further
#
# No exercise needs what follows.
#
# ### From your lines to bundles
#
# JAX traces your kernel to a jaxpr, which reads and writes references and operates on arrays of any shape. Pallas
# lowers the jaxpr to Mosaic, a dialect of MLIR. Then libtpu cuts the vectors into registers, lowers the program to LLO,
# which has one line per instruction, and packs the instructions into bundles. The cell shows the two ends, the jaxpr
# and a bundle; Mosaic and LLO lie between them.

# %%
small = jax.ShapeDtypeStruct((64, 128), jnp.float32)


def doubled(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    return pl.pallas_call(kernel, out_shape=x)(x)


code = compiler.bundles(doubled, small)
busy = max(code.bundles, key=lambda bundle: len(bundle.operations))
jaxpr = jax.make_jaxpr(doubled)(small).pretty_print(use_color=False)
print("jaxpr:", *re.findall(r"^.*(?:<-|mul).*$", jaxpr, re.M), sep="\n")
print("bundle:", *(operation.text for operation in busy.operations), sep="\n  ")

# %% [markdown]
# Here are a spill and a fill from the one-pass transform:

# %%
spilled = [
    (number, operation.text)
    for number, bundle in enumerate(codes["passes=1"].bundles)
    for operation in bundle.operations
    if "spill" in operation.text
]
for number, words in (spilled[0], next(found for found in spilled if "vld" in found[1])):
    print(f"bundle {number}: {words}")

# %% [markdown]
# ### Where the roofline is wrong
#
# The JAX team's article warns that a roofline takes the peak for granted. This course has shown three reasons why a
# kernel may not reach the peak: pipeline bubbles, units that are not full, and latency. You cannot see a fourth here: a
# chip that gets too hot or draws too much power lowers its clock. What would that do to a prediction?

# %%
print("clock   turn 8   turn 512   us, predicted (model)")
for clock in (1.0, 0.9, 0.7):
    us = [
        1e6 * max(reports[turn].core_seconds / clock, reports[turn].hbm_seconds)
        for turn in (8, 512)
    ]
    print(f"{clock:5.0%} {us[0]:8.1f} {us[1]:10.1f}")

# %% [markdown]
# This is arithmetic on the compiler's figures. If the core binds, the time grows as the clock falls. (The core's waits
# for copies grow, too, if they are counted in cycles.) If HBM binds, the time does not change until the core becomes
# the slower of the two. So if a kernel is slower in a long run than in a short one, suspect the clock before your code.
#
# ### A profile in Keras
#
# `keras.callbacks.TensorBoard(folder, profile_batch=(2, 4))` profiles three batches, if TensorFlow and TensorBoard are
# installed. Without them a callback of ten lines will do; ours is in `tools/record_traces.py`.
#
# ### What a kernel is worth
#
# A kernel speeds up only its share of a step. The table shows how much of the whole step you save.

# %%
print("share of the step   kernel 1.1x as fast   2x   5x")
for share in (0.05, 0.2, 0.5):
    won = [1 - (1 - share + share / faster) for faster in (1.1, 2, 5)]
    print(f"{share:17.0%} {won[0]:21.1%} {won[1]:5.0%} {won[2]:4.0%}   of the step saved")

# %% [markdown]
# Most of the time what XLA makes is good enough. But a few percent of a large bill can be worth the work, and compilers
# lag behind the best kernels, because they solve the general case (the article again).
#
# ### Inside one kernel
#
# A TPU's profile has lanes for the programs of each core and for their operations. It shows a Pallas kernel as a single
# bar, without what happens inside. The cell below shows the inside of a kernel in the same format. The times are
# **predicted (model)**: they follow the loop of lesson 5 with the compiler's latency and work, and nothing was
# measured. **Look for** how much of the core's lane is *bubble*.

# %%
in_steps = functools.partial(softmax, turn=32, rows=128)
lanes = viz.predicted_trace(in_steps, table)
viz.trace_lanes(lanes)

# %%
file = pathlib.Path(tempfile.mkdtemp()) / "softmax.trace.json"
file.write_text(json.dumps(lanes))
print(
    f"{file.name}: {len(lanes['traceEvents'])} events; open it in https://ui.perfetto.dev"
)

# %% [markdown]
# ### What a print costs
#
# A print is a part of the program, so it takes bundles.

# %%
for say in (False, True):
    report = compiler.compile_tpu(functools.partial(in_columns, say=say), ones)
    print(f"with the print: {say!s:5}  {report.bundles} bundles")

# %% [markdown]
# On a TPU, `debug_print` takes 32-bit scalars or one vector, and the lines go to a log. To see them, JAX's own tests
# (pull request 39148) compile the function with `compiler_options={"xla_tpu_enable_log_recorder": "true"}`. We have no
# chip to try it on.
#
# You can also ask a chip for poison: `with pl.enable_poison_buffers(True):` fills what `pl.run_scoped` allocates
# ([docs/judges.md](../docs/judges.md) says what it leaves out).
#
# ### Costs kept in a test
#
# A test can also guard what a kernel costs: the fixture `kernel_costs` compares the costs with those in a file beside
# the test. The cell shows how this works: it keeps the costs of `turn=32`, and then somebody changes `turn` to 8.

# %%
costs_file = pathlib.Path(tempfile.mkdtemp()) / "kernel_costs.json"
for turn, update in ((32, True), (32, False), (8, False)):
    costs = testing.KeptCosts(costs_file, "test_softmax", update=update)
    report = compiler.compile_tpu(functools.partial(softmax, turn=turn), table)
    said = costs.complaint(testing.Costs.of(report))
    print(f"turn {turn:2}:", said.splitlines()[0] if said else "unchanged")

# %% [markdown]
# ### A profile of your own
#
# On a TPU this cell profiles the softmax and prints the chip's own times for each run. Elsewhere it says what is
# missing.


# %%
try:
    print(bench.measure(functools.partial(softmax, turn=32), jnp.ones((2048, 1024))))
except bench.NoAccelerator:
    print("no TPU here: nothing was measured")

# %% [markdown]
# ### A TPU's profile
#
# We ship no profile of a TPU. The repository of the profiler, xprof (`openxla/xprof` on GitHub, Apache-2.0), has demos
# in `demo/plugins/profile` and a smaller recording of TPUs in `xprof/convert/test_xplanes`; we have opened neither.
# `jax.profiler.ProfileData.from_file(path)` opens such a file, in which planes are devices and lines are lanes.
#
# ### Checks inside a kernel
#
# On a TPU, `pl.debug_check(condition, message)` stops a kernel if the condition is false, provided that
# `pl.enable_debug_checks(True)` is set. In the simulator it does nothing, whatever the condition:


# %%
def checked(x):
    def kernel(x_ref, o_ref):
        pl.debug_check(jnp.all(x_ref[...] > 0), "a value that is not positive")
        o_ref[...] = jnp.log(x_ref[...])

    return pl.pallas_call(kernel, out_shape=x)(x)


with pl.enable_debug_checks(True):
    print("nothing stopped it:", checked(-jnp.ones((8, 128)))[0, 0])

# %% [markdown]
# <!-- next -->
