# %% [markdown]
# # Lesson 11: Debug, profile, autotune
#
# *60 minutes, then 60 for the exercises. What stands under "Further" is not counted, and no exercise needs it. You need
# lesson 4. You need the loop and the VMEM of lesson 5. You need the product in blocks of lesson 7. A TPU adds one thing:
# a profile of your own, of the chip.*
#
# Below is one transform, written twice. It takes 128 registers of numbers and replaces pairs of them by their sum and
# their difference, in seven rounds (a Walsh-Hadamard transform). `passes=1` loads the 128 registers, goes through the
# seven rounds, and stores the result. `passes=2` does the first three rounds for 8 registers at a time and stores them;
# then it loads them again, 16 at a time, for the other four. So it loads and stores every number twice. Run the three
# cells.

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
    """Add and subtract registers whose numbers differ in one bit, bit after bit."""
    bit = 1
    while bit < len(values):
        values = [
            values[i ^ bit] - v if i & bit else v + values[i ^ bit]
            for i, v in enumerate(values)
        ]
        bit *= 2
    return values


def transform(x, passes, steps=1):
    """Transform the registers x[0], x[1] ..., once in each grid step; their number is a power of 2."""
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
    print(f"passes={passes}, done twice: {jnp.allclose(twice, sixteen, atol=1e-5)}")


# %%
def a_step(passes, registers=128):
    """(cycles of a grid step whose block is in VMEM already, the compiler's report)."""
    x = jax.ShapeDtypeStruct((registers, 8, 128), jnp.float32)
    few, many = (
        compiler.compile_tpu(functools.partial(transform, passes=passes, steps=steps), x)
        for steps in (2, 4)
    )
    return (many.cycles - few.cycles) / 2, many


transforms = {passes: a_step(passes) for passes in (1, 2)}
cycles = sorted(cycles for cycles, _ in transforms.values())
print("cycles a step, predicted (compiler), the fewest first:", *cycles)

# %% [markdown]
# The additions and subtractions are the same, and no copy is waited for: the block stays in VMEM. One of the two takes
# three times as long as the other. **Which one, and why?** Write it down, in one sentence.
#
# After this lesson you can
# - find out why a kernel is wrong: with a print, with poison, with the simulator's log, with a race report,
# - see where a kernel's cycles go, find its spills, and say what they cost,
# - read a profile: find the gaps, and say whose figures they are,
# - find good blocks with a dozen compilations, and keep what you found,
# - write a test that fails if a bug comes back.
#
# ## First right: four tools
#
# Before a kernel is fast it has to be right. The judges of this course find the cause of many mistakes by themselves. In
# a project of your own something will be left over, and then you need tools. Here is one kernel: it adds up the blocks of
# 128 columns of each row. And here are three ways to break it.


# %%
def in_columns(x, zero_axis=1, zeroed=True, order="arbitrary", say=False):
    """The sum of the blocks of 128 columns of x: right as it stands."""

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
# The third, "parallel", gives one thing today and another tomorrow. It has to wait for its tool.
#
# ### Print
#
# `pl.debug_print` prints scalars from inside a kernel, at each step. **Predict** for "wrong axis" the four lines, "step (0, 0):
# before -> after" and so on, and underline the first one that is wrong.

# %% tags=["predict"]
_ = jax.block_until_ready(in_columns(ones, zero_axis=0, say=True))

# %% [markdown]
# Step (0, 1) begins at 0 again, and step (1, 0) does not. So the zero hangs on the wrong axis. Print what a step finds
# and what it leaves, with the numbers of the step, and look for the first line that surprises you.
#
# A print costs time, and on a chip it needs a switch: both are under *Further*.
#
# ### Poison
#
# "Not zeroed" gives NaN here. On a chip, scratch holds what was there before, which may be zeros. What would you see
# then? The simulator can play both.
#
# > **poison**: values put into memory that nobody has written, chosen so that whoever reads them notices: NaN for floats.


# %%
def simulated(fn, *args, **knobs):
    """What fn returns in JAX's TPU simulator with other settings than the course's."""
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(**knobs)):
        result = jax.block_until_ready(fn(*args))
    pltpu.reset_tpu_interpret_mode_state()
    return result


for memory in ("zero", "nan"):
    for rows in (8, 16):
        result = simulated(BROKEN["not zeroed"], ones[:rows], uninitialized_memory=memory)
        print(f"memory of {memory:4}  {rows:2} rows:", *result[::8, 0])

# %% [markdown]
# With zeros and one block of rows the bug does not exist; with two it is another bug. With poison it is there at once. So
# never test with zeros alone. (A chip can be asked for poison, too: *Further*.)
#
# NaN finds what reaches the result by arithmetic. A comparison with NaN is false (`!=` is true), so a bug behind `where(a
# > b, ...)` hides: 0, a large positive and a large negative number may show it. The simulator judge tries those, too,
# where a kernel compares.
#
# ### The simulator's log
#
# Now "parallel". An axis marked so may run in any order, and on two cores. The simulator tells in which order it ran:
# give it a function to call at each step. **Predict:** the sum of four ones is 4. Which numbers can come out if step 0,
# which sets it to zero, comes at another time?


# %% tags=["predict"]
def order_of(fn, x, **knobs):
    """(the grid points in the order in which they ran, what came out)."""
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
# In another order step (0, 0), which sets the sum to zero, comes late, and step (0, 3), which stores, comes too soon.
# What was stored had begun in poison: NaN. Another order gives another number. That is allowed: "parallel" is a promise
# that the order does not matter.
#
# ### The race report
#
# > **race**: two accesses to one place, at least one of them a write, with nothing that says which comes first.
#
# With `detect_races=True` the simulator keeps a clock for each core and each copy, and prints a report for two accesses
# that no wait puts in order. Here is such a report, in short: which access, to which part, from whom, and from which
# place in the code.

# %%
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    knobs = dict(num_cores_or_threads=2, random_seed=0, detect_races=True)
    simulated(BROKEN["parallel"], eight, **knobs)
pattern = r"(read|write) of \('(\w+)'.*?\)\[\((.*)\)\] from \((.*?)\), (.*)"
for access in sorted(set(re.findall(pattern, printed.getvalue()))):
    print("{} of {}, {}, from ({}): {}".format(*access))

# %% [markdown]
# Two cores, (0, 0) and (0, 1), write the same eight rows of the result. Here it is the pipeline that writes, so the place
# is only the call. For a read, a store or a copy of your own the report names file, line and function, and a copy has a
# number of its own in place of the core's. One of the four cases of exercise 11.1 is found that way.
#
# ### Who sees what?
#
# Three bugs, four judges. The races judge runs the simulator on two cores, and compares the numbers as well. **Guess**
# which judges pass which bug. How many does the compiler see?


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
# The compiler sees none: each of the three is a legal program.
#
# > **A kernel that compiles, and is right once, has shown little. Poison of several kinds, another order and a race detector
# > find what depends on memory or order. What depends on the numbers only your data finds.**
#
# Exercise 11.2 has a kernel that all four judges pass, with the data of its author.
#
# ## Then fast: where do the cycles go?
#
# Back to the opening. A bundle has a slot for a store, three for loads, and four for the VPU. A report says how many of
# them are filled while the core is at work. **Guess** for both programs: which kind of slot is the fullest?

# %% tags=["predict"]
print("passes   cycles a step   filled slots: VPU   load   store   predicted (compiler)")
for passes, (cycles, report) in transforms.items():
    vpu, load, store = (report.slots[unit] for unit in ("VPU", "load", "store"))
    print(f"{passes:6} {cycles:15,.0f} {vpu:19.0%} {load:6.0%} {store:7.0%}")

# %% [markdown]
# Two passes fill the slots of the VPU best: 896 additions and subtractions, four a bundle, take 224 cycles. In one pass
# almost every bundle has a store, for almost 800 cycles, and there are only 128 results. What else does it store?
#
# ## Spills, bundle by bundle
#
# There are 64 registers. One pass holds 128 values in every round, and two passes hold 16 at most. **Look for one thing**
# in their programs: what does one pass have that two passes have not?

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
# Stores and loads of values that found no free register. They are the spills of lesson 1; the load that brings a spill
# back is a *fill*. (*Further* shows one of each.) A v5e stores one register a bundle, so 774 stores, 646 of them spills,
# take 774 of the 793 cycles. (Two passes have fewer stores than their source: some results of the first stay in registers
# for the second.)
#
# If spills are the reason, then the difference must go where nothing spills. Give the transform fewer registers.
# **Predict:** from which number on are two passes the faster way?

# %% tags=["predict"]
print("registers   one pass: cycles, spills   two passes: cycles, spills")
for registers in (16, 32, 64, 128):
    one, two = (a_step(passes, registers) for passes in (1, 2))
    print(
        f"{registers:9} {one[0]:18,.0f} {one[1].spills:7}",
        f"{two[0]:20,.0f} {two[1].spills:7}",
    )

# %% [markdown]
# With 16 registers nothing spills, and both ways take the same time. With 32 one pass spills three values, and takes two
# cycles longer. From 64 on it pays for every spill.
#
# ## Is a spill always a price?
#
# You know this softmax from lesson 2: a grid step has 512 rows, and works on `turn` of them at a time. More rows a turn
# need more registers: 32 rows of 1024 columns fill 32 of them, and 64 rows fill all. **Predict:** here are seven choices
# of `turn`. The slowest takes nearly three times as long as the fastest. Is it the one that spills most?


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
# No: the slow one has no spills. It waits for the XLU, eight rows at a time (lesson 2). The one with 516 spills has the
# fastest core: a fifth of its store slots is still empty. And in time five of the seven are equal, for the bytes bind. So
# **ask what binds before you remove a spill. While copies bind, a spill costs no time. Otherwise it takes a slot for a
# store and its fill one for a load; where stores bind on a v5e, each costs a cycle.** (A v6e stores two registers a
# cycle.) What spills always take is VMEM: look at the last column. Here are wider rows, 256 at a step.

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
# The blocks take 14 MiB each time. All rows at once are refused: the spills are what is too much for the 16 MiB that a
# kernel gets unless it asks for more.
#
# So which of the seven to ship? I would ship 64. Its 33 spills cost 80 KiB, and its core has room: 17 us of the 20.5 that
# the bytes take. 32 has no spill and stands at the edge, with 20.4 of 20.5, in a model that knows no other user of the
# memory.
#
# ## Read a profile
#
# So far one kernel. A program has many, and a host that feeds them. Is a kernel the thing to work on at all? A guide of
# Keras says: look at a profile of your model, and see if there are "idle gaps caused by computation or memory transfer
# bottlenecks".
#
# > **profile**: a record of a run: what ran when, on which device and thread.
#
# `jax.profiler.start_trace(folder)` begins one and `stop_trace()` ends it; in Keras the TensorBoard callback does that
# (*Further*). Below are three training steps of a small dense model. Whose figures are they? **Measured, on a CPU**. No
# TPU was there to be recorded, and this is one of several recordings, which differ. Reading is the same. A *lane* of a
# profile is one row of the picture, here a thread; it is not the lane of lesson 2. A *gap* is a time in which a lane has
# nothing. **Find the gaps** of the lanes called XLA, and what the lane above does meanwhile.

# %%
traces = {
    name: json.loads(datasets.trace_file(f"keras_fit_{name}").read_text())
    for name in ("waiting", "ready")
}
viz.trace_lanes(traces["waiting"])

# %% [markdown]
# A picture for the eye, a sum for the argument: what share of the time was any XLA thread at work, and what was the
# longest gap?

# %%
for name, trace in traces.items():
    found = bench.gaps(trace, lanes="XLA")
    print(
        f"{name:7} {found.whole_ms:5.0f} ms, XLA busy {found.busy_ms / found.whole_ms:.0%},",
        f"longest gap {max(found.idle)[0]:.0f} ms,",
        f"loading took {bench.took(trace, 'load a batch'):.0f} ms",
    )

# %% [markdown]
# In the first the loader sleeps before each batch, and the gaps are as long as that. The second is the same model with a
# loader that does not sleep: the experiment that takes the cause away. So here is a third cause beside the two of the
# guide, and a kernel would not have made these gaps shorter. In the second, gaps of about a millisecond are left, and no
# lane that was kept says why: of the host only steps and loads are. Its longest is the first load; we have not looked why
# that one takes longer.
#
# > **A gap says that the device waits. For whom, the other lanes may say. If none does, record more.**
#
# The other thing one looks for is an operation that takes long and uses little of the chip. That may be as good as it
# gets. The roofline of lesson 3 says how long it has to take; only the distance to that can be won. And of an operation
# that takes 5 % of a step at most 5 % can be won.
#
# ## A search with twelve questions
#
# Now blocks. Lesson 7 chose (bm, bk, bn) for a product by reasoning, and its *Further* let `bench.autotune` rank four
# choices. How does one choose among all? First count them. A rule: each side a power of two from 128 to 4096 that divides
# its axis, and a short axis whole. **Guess** how many that makes for 2048 x 2048 x 2048, and how many of them fit into 16
# MiB.
#
# > **search space**: all choices that are legal, before anything is known of how fast they are.
# >
# > **autotuner**: a program that looks for the fastest choice of a search space, and asks as little as it can.


# %% tags=["predict"]
def legal(shape):
    """Every (bm, bk, bn) that the rule allows."""

    def sides(length):
        return [2**e for e in range(7, 13) if length % 2**e == 0] or [length]

    return list(itertools.product(*map(sides, shape)))


def vmem(bm, bk, bn):
    """Bytes: two buffers for each bfloat16 block, and the float32 sum (lesson 7)."""
    return 4 * (bm * bk + bk * bn + bm * bn) + 4 * bm * bn


shape = (2048, 2048, 2048)
fitting = [blocks for blocks in legal(shape) if vmem(*blocks) <= 16 * 2**20]
print(f"{len(legal(shape))} legal, {len(fitting)} of them fit by the count of lesson 7")

# %% [markdown]
# Each question to the compiler takes a second or two; on a chip it would be a compilation and a run. We have asked all of
# them, for six products, and kept the answers: `datasets.product_searches`. One is asked again now, so that you can trust
# the rest; the kernel is that of lesson 7, and need not be read again. Then the map of all. **Look for one thing:** how
# many squares are within 10 % of the best?


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
print(f"{found}: kept {kept:.1f} us, asked again {again.seconds * 1e6:.1f} us")
near = [b for b in fitting if (search.seconds[b] or 1) <= 1.1 * search.seconds[found]]
refused = [b for b in fitting if search.seconds[b] is None]
print(
    f"{len(near)} are within 10 %; of those that fit by the count {len(refused)} are refused"
)
viz.search_map(search.seconds, asked=search.ours)

# %% [markdown]
# A plateau in the middle, and a slope on each side: small blocks pay for their steps and bytes, and the largest do not
# fit. So one need not find the summit; it is enough to stay off the slopes. Some that fit by the count are refused all
# the same, because spills take room, too. Who leaves a MiB avoids most of these, and a tuner must be ready for a refusal.
# Rings show the twelve that ours asked about: it counts VMEM, guesses each time from bytes and steps, and asks about the
# best twelve of its guesses.
#
# What of that does it need? Three rivals: twelve at random (the median of 101 draws, and the worst of them), the twelve
# largest, and the twelve largest of those that fit into 15 MiB. **Predict** who comes out as ours does. (We chose these
# six products after a first set had been too easy to tell anybody apart; they are a choice, and no proof.)

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
# Of the first product the twelve largest are refused, every one. So **what has to be counted is VMEM.** Of what fits, the
# twelve largest do as well as our guess, on all six: with twelve questions the guess has not earned its place. With fewer
# questions it may: exercise 11.5 gives you six. Chance is often good, since the plateau is wide, and sometimes bad.
#
# ## Keep it
#
# A search that is run at each start is a nuisance. So keep what was found, under everything that it depends on: which
# kernel, the chip, the shape, the dtype, and the limit of VMEM if you set one. Here a file has one kernel, with the usual
# limit. And keep who said so: another libtpu may say something else. A guide of Keras begins with the latest libtpu; here
# is one reason to do that before a search and not after.

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
# JSON has no tuples: they come back as lists, and a dict key, or an `==`, notices.
#
# And keep it right. A bug that was found once will be made again, by whoever tidies up. A test that would have found it
# costs four lines. `testing.assert_kernel` asks the four judges; it works in any project
# ([docs/your_kernels.md](../docs/your_kernels.md)).
#
# > **regression test**: a test that fails on a bug that was mended once, so that it cannot come back unseen.
#
# **Which arguments?** For "not zeroed" anything will do. Which of these two shapes is no test for "wrong axis"?


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
# Both have to be seen: **a regression test must fail on the bug, and pass on the mended kernel.** Run it on the broken
# one first.

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel is right on your machine, in a simulator whose memory is zero, and wrong on every second run on a chip. What
# do you try first?</summary>
# Poison. Then two cores with a race detector. Both ask the same thing: does the result depend on something that nobody
# promised?</details>
#
# <details><summary>2. A report says 200 spills. What do you look at before you do anything?</summary>
# At what binds. If the bytes or the copies do, the spills cost no time; if stores do, each costs a cycle on a v5e. And at
# VMEM, of which they take a part.</details>
#
# <details><summary>3. In a profile the device is idle half of the time. Will a faster kernel help?</summary>
# Not the gap: find out whom it waits for, a loader, a dispatch, another chip. If loading and computing take turns, a
# faster kernel shortens the rest. If the loader works meanwhile and is the slower, the gap grows by what you
# save.</details>
#
# <details><summary>4. Of 100 choices you may ask about 12. Which ones?</summary>
# Of those that fit, the largest. (Or those that a model of bytes and steps likes best: that pays where you may ask less.)
# It must be right about the slopes, not about the summit.</details>
#
# <details><summary>5. When is a tuned table out of date?</summary>
# With another kernel, chip, shape, dtype or limit of VMEM, which its key has to name; and with another compiler, which it
# should name too.</details>

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 11](../exercises/11_debug_profile_autotune.ipynb). The first one is four bugs and no
# words.
#
# ## Further
#
# No exercise needs what follows.
#
# ### From your lines to bundles
#
# JAX traces your kernel to a jaxpr: reads and writes of references, and operations on arrays of any shape. Pallas writes
# that down in Mosaic, a dialect of MLIR. libtpu cuts its vectors into registers, lowers them to LLO, one line an
# instruction, and packs the instructions into bundles. Here are the two ends. (Mosaic and LLO lie between them.)

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
# And a spill and a fill, out of the transform in one pass:

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
# The JAX team's article warns that a roofline takes the peak for granted. Pipelining bubbles, units that are not full,
# latency: this course has shown all three. A fourth you cannot see here: a chip that gets too hot or draws too much power
# lowers its clock. What would that do to a prediction?

# %%
print("clock   turn 8   turn 512   us, predicted (model)")
for clock in (1.0, 0.9, 0.7):
    us = [
        1e6 * max(reports[turn].core_seconds / clock, reports[turn].hbm_seconds)
        for turn in (8, 512)
    ]
    print(f"{clock:5.0%} {us[0]:8.1f} {us[1]:10.1f}")

# %% [markdown]
# This is arithmetic on the compiler's figures: what the core binds grows as the clock falls, the waits for copies in it
# included, if they count in cycles. What HBM binds does not, until the core is the slower. If a kernel is slower in a
# long run than in a short one, suspect the clock before your code.
#
# ### A profile in Keras
#
# `keras.callbacks.TensorBoard(folder, profile_batch=(2, 4))` profiles three batches, if TensorFlow and TensorBoard are installed.
# Without them a callback of ten lines will do; ours stands in `tools/record_traces.py`.
#
# ### What a kernel is worth

# %%
print("share of the step   kernel 1.1x as fast   2x   5x")
for share in (0.05, 0.2, 0.5):
    won = [1 - (1 - share + share / faster) for faster in (1.1, 2, 5)]
    print(f"{share:17.0%} {won[0]:21.1%} {won[1]:5.0%} {won[2]:4.0%}   of the step saved")

# %% [markdown]
# Most of the time what XLA makes is good enough. But a few percent of a large bill can be worth the work, and
# compilers lag behind what the best kernels do, since they solve the general case.
#
# ### Inside one kernel
#
# A TPU's profile has lanes for each core: its programs, their operations, a Pallas kernel as one bar. What happens inside
# the bar it does not show. Here is a kernel's inside in the same format: **predicted (model)**, the loop of lesson 5 with
# the compiler's latency and work. Nothing of it was measured. **Look** how much of the lane of the core is empty.

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
# A print is a part of the program.

# %%
for say in (False, True):
    report = compiler.compile_tpu(functools.partial(in_columns, say=say), ones)
    print(f"with the print: {say!s:5}  {report.bundles} bundles")

# %% [markdown]
# On a TPU it takes scalars of 32 bits, or one vector. The lines go to a log. JAX's own tests (pull request 39148) compile
# the function with `compiler_options={"xla_tpu_enable_log_recorder": "true"}` to see them. We have no chip to try it.
#
# A chip can be asked for poison: `with pl.enable_poison_buffers(True):` fills what `pl.run_scoped` allocates
# ([docs/judges.md](../docs/judges.md) says what it leaves out).
#
# ### Costs that are kept
#
# What a kernel costs can be kept in a test: `kernel_costs` does it, from a file beside the test. Here is what that looks
# like from inside: the costs of `turn=32` are kept, and somebody makes it 8.

# %%
costs_file = pathlib.Path(tempfile.mkdtemp()) / "kernel_costs.json"
for turn, update in ((32, True), (32, False), (8, False)):
    costs = testing.KeptCosts(costs_file, "test_softmax", update=update)
    report = compiler.compile_tpu(functools.partial(softmax, turn=turn), table)
    said = costs.complaint(testing.Costs.of(report))
    print(f"turn {turn:2}:", said.splitlines()[0] if said else "as it was")

# %% [markdown]
# ### A profile of your own
#
# On a TPU this cell profiles the softmax, and prints the chip's own times of each run. Elsewhere it says what is missing.


# %%
try:
    print(bench.measure(functools.partial(softmax, turn=32), jnp.ones((2048, 1024))))
except bench.NoAccelerator:
    print("no TPU here: nothing was measured")

# %% [markdown]
# ### A TPU's profile
#
# We ship none. The repository of xprof, the profiler's own (`openxla/xprof` on GitHub, Apache-2.0), has demos in
# `demo/plugins/profile`, and a smaller recording of TPUs in `xprof/convert/test_xplanes`. We have opened neither.
# `jax.profiler.ProfileData.from_file(path)` opens such a file: planes are devices, lines are lanes.
#
# ### Checks inside a kernel
#
# `pl.debug_check(condition, message)` stops a kernel, with `pl.enable_debug_checks(True)`: on a TPU. In the simulator it says
# nothing, whatever the condition:


# %%
def checked(x):
    def kernel(x_ref, o_ref):
        pl.debug_check(jnp.all(x_ref[...] > 0), "a number that is not positive")
        o_ref[...] = jnp.log(x_ref[...])

    return pl.pallas_call(kernel, out_shape=x)(x)


with pl.enable_debug_checks(True):
    print("nothing stopped it:", checked(-jnp.ones((8, 128)))[0, 0])

# %% [markdown]
# <!-- next -->
