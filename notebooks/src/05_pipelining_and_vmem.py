# %% [markdown]
# # Lesson 5: Pipelining and VMEM
#
# *60 minutes, then 58 for the exercises. The "Further" part is optional and not counted in these times. You need the
# terms of lesson 2, the third roof of lesson 3, and lesson 4. You do not need a TPU; with one, a cell under "Further"
# measures what is only predicted here.*
#
# The kernel below adds up all blocks of 64 rows of a matrix. Two calls of it differ in one digit, the n of
# `pl.Buffered(n)`, which requests n buffers for an operand. Both copy the same blocks in the same order and return the
# same result. Run the three cells.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import bench, chips, compiler, cost, grid, judges, roofline, viz

ROWS = 64


def add_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def added_up(x, buffers):
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[
            pl.BlockSpec((ROWS, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
        ],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i: (0, 0)),
    )(x)


x = jax.random.normal(jax.random.key(0), (8 * ROWS, 128))
same = (added_up(x, buffers=1) == added_up(x, buffers=2)).all()
print("the same result, to the last bit:", bool(same))


# %%
def stays(x):
    """Do the same work on a single block, so that nothing is copied after the first step."""
    block = pl.BlockSpec((ROWS, 128), lambda i: (0, 0))
    out = jax.ShapeDtypeStruct((ROWS, 128), x.dtype)
    return pl.pallas_call(
        add_kernel,
        out_shape=out,
        grid=(x.shape[0] // ROWS,),
        in_specs=[block],
        out_specs=block,
    )(x)


tall = jax.ShapeDtypeStruct((256 * ROWS, 128), jnp.float32)
one, two = (
    compiler.compile_tpu(functools.partial(added_up, buffers=b), tall) for b in (1, 2)
)
print(f"the bytes alone, at full speed: {one.hbm_seconds * 1e6:6.1f} us")
work = compiler.compile_tpu(stays, tall)
print(f"the work alone, nothing copied: {work.core_seconds * 1e6:6.1f} us")
print(f"added_up with two buffers:      {two.seconds * 1e6:6.1f} us")
print(f"added_up with one:              {one.seconds * 1e6:6.1f} us")
print(f"one buffer: {one.cycles / two.cycles:.2f} times as long. All predicted (compiler)")

# %% [markdown]
# Lesson 3 said that a kernel takes at best the longer of bytes and work, and at worst their sum. Both calls take far
# longer than the sum, and one digit changes the time by a factor of two.
#
# Lesson 3 also gave a rule for a step with two buffers: it takes half of latency, bytes and work together. Here you
# build the loop, and see where the half comes from and when the rule is wrong. **Why is the factor exactly two?** Write
# down a guess, and then a second one: what would three buffers do? By the middle of this lesson you can compute both
# times of `added_up` from the line above them.
#
# After this lesson you can
# - start a copy, wait for it, and find a wait that is missing or superfluous,
# - write a loop that fetches the next block while it works on this one,
# - compute the time of a step from the latency, the work, and the number of copies in flight,
# - say when two buffers are enough, and what more buffers gain,
# - count VMEM to the byte, and find the largest block that fits.
#
# ## A copy by hand
#
# So far, `pallas_call` has made every copy for you; the next kernel makes its own. `memory_space=pl.ANY` leaves x and
# the result in HBM, so the kernel gets the whole arrays, which it may copy but not read.
#
# > **asynchronous copy**: a copy that runs by itself once it has been started, while the core does something else.
# >
# > **DMA semaphore**: the counter by which a copy signals that it has arrived. A wait subtracts from it as much as the
# > copy that it names moves.
#
# `pltpu.make_async_copy(source, target, semaphore)` describes a copy and moves nothing. `.start()` starts the copy, and
# `.wait()` returns when it has arrived. Semaphores are scratch: `pltpu.SemaphoreType.DMA((2,))` allocates two of them.


# %%
def doubled_by_hand(x):
    def kernel(x_hbm, o_hbm, buffer_ref, sem):
        arriving = pltpu.make_async_copy(x_hbm, buffer_ref, sem.at[0])
        arriving.start()
        arriving.wait()
        buffer_ref[...] = 2 * buffer_ref[...]
        leaving = pltpu.make_async_copy(buffer_ref, o_hbm, sem.at[1])
        leaving.start()
        leaving.wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)


def double(x):
    return 2 * x


for verdict in judges.judge(doubled_by_hand, double, x):
    print(verdict)

# %% [markdown]
# What if a line is missing? The first version below does not wait for its copy, and the second waits twice. Before you
# run the cell, guess which judge notices, and what would happen on a chip.


# %% tags=["predict"]
def doubled_with(waits):
    def doubled(x):
        def kernel(x_hbm, o_ref, buffer_ref, sem):
            arriving = pltpu.make_async_copy(x_hbm, buffer_ref, sem)
            arriving.start()
            for _ in range(waits):
                arriving.wait()
            o_ref[...] = 2 * buffer_ref[...]

        return pl.pallas_call(
            kernel,
            out_shape=x,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
        )(x)

    return doubled


for waits in (0, 2):
    verdict = judges.judge(doubled_with(waits), double, x)[-1]
    print(f"waits: {waits}\n{verdict}")
    compiles = compiler.compile_tpu(doubled_with(waits), x, simulate=False).ok
    print("compiles for a v5e:", compiles, "\n")

# %% [markdown]
# The compiler accepts both versions, because it does not count waits. Without the wait, the kernel reads whatever was
# in VMEM before, or a block that has only partly arrived. With one wait too many, a chip would hang forever. Our judges
# compare the copies that are started with those that are waited for, before anything runs.
#
# ## Fetch the next chunk while working on this one
#
# Here is the sum of the opening by hand. `fetch(i)` describes the copy of chunk i into buffer i mod `buffers`. Since
# both the start and the wait call it, they cannot name different semaphores. Read the loop with `buffers=2`: which
# copies are started before the first wait?
#
# > **prologue**: the copies that are started before the loop.
# >
# > **steady state**: the iterations of a loop that are all alike: start the copy of a later chunk, wait for this one,
# > work on it.
# >
# > **drain**: the last iterations, which have no copy left to start.
#
# `x_hbm.at[pl.ds(64, 32)]` refers to a part of an array, here 32 rows from row 64 on, without reading it. Likewise,
# `in_ref.at[b]` is buffer b and `in_sem.at[b]` its semaphore. `pl.loop(0, n)` runs the function below it for i = 0 to
# n - 1. Here that function is `turn`, one iteration of the loop.


# %%
def by_hand(x, buffers, exps=0, rows=ROWS):
    """Return the sum of all chunks of ``rows`` rows; ``exps`` exp per element are the work."""
    chunks = x.shape[0] // rows

    def kernel(x_hbm, o_ref, in_ref, in_sem):
        def fetch(i):
            b = jax.lax.rem(i, buffers)  # i mod buffers, since i is not negative
            chunk = x_hbm.at[pl.ds(rows * i, rows)]
            return pltpu.make_async_copy(chunk, in_ref.at[b], in_sem.at[b])

        o_ref[...] = jnp.zeros_like(o_ref)
        for i in range(min(buffers - 1, chunks)):  # the prologue
            fetch(i).start()

        @pl.loop(0, chunks)
        def turn(i):
            later = i + buffers - 1

            @pl.when(later < chunks)  # in the drain there is no later chunk
            def ahead():
                fetch(later).start()

            fetch(i).wait()
            value = in_ref[jax.lax.rem(i, buffers)]
            for _ in range(exps):
                value = jnp.exp(value)
            o_ref[...] += value

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[
            pltpu.VMEM((buffers, rows, 128), x.dtype),
            pltpu.SemaphoreType.DMA((buffers,)),
        ],
    )(x)


def added_up_in_jax(x):
    return x.reshape(-1, ROWS, 128).sum(axis=0)


for verdict in judges.judge(functools.partial(by_hand, buffers=2), added_up_in_jax, x):
    print(verdict)

# %% [markdown]
# In which order do starts and waits happen? `grid.memory_uses` follows a kernel's code without running it. The next
# cell lists them for four chunks, with one, two and three buffers. A copy is *in flight* from its start until it has
# been waited for. **Look for one thing:** how many copies are in flight whenever the kernel waits?


# %%
def story(fn, *args):
    """Return the starts and waits for copies of x in order, each wait with those in flight."""
    counts, words = {"start": 0, "wait": 0}, []
    for use in grid.memory_uses(grid.walk(fn, *args).calls[0]):
        if use.source == "x_hbm":
            words.append(f"{use.kind} {counts[use.kind]}")
            if use.kind == "wait":
                words[-1] += f" [{counts['start'] - counts['wait']}]"
            counts[use.kind] += 1
    return ", ".join(words)


four = x[: 4 * ROWS]
for buffers in (1, 2, 3):
    print(f"{buffers}: {story(functools.partial(by_hand, buffers=buffers), four)}")

# %% [markdown]
# The numbers in brackets are the copies in flight at each wait: one with one buffer, two with two and three with three,
# until the drain has fewer left. With two buffers, the next start comes *before* the wait, so the next chunk is already
# on its way while the kernel waits for this one.
#
# Results are written back in the same way, in chunks and from buffers of their own. While the copy out of a buffer is
# in flight, the kernel must not write to that buffer. So with two buffers, iteration i waits for the copy of iteration
# i - 2 before it fills its buffer, and the last two copies are waited for after the loop. Exercise 05.7 builds that.
#
# ## How long does an iteration take?
#
# **Predict first.** An iteration with one buffer takes some 1200 cycles, and the core is busy for about 20 of them. How
# long does it take with two buffers, with three, and with eight? Then the cell keeps two buffers and adds more and more
# work. How much longer does an iteration take for 100 more cycles of work? Write down four numbers.


# %% tags=["predict"]
def cycles_of_a_turn(fn, rows=ROWS):
    """Return the cycles of an iteration, from 24 and 48 chunks, and the core's part of them."""
    few, more = (
        compiler.compile_tpu(fn, jax.ShapeDtypeStruct((n * rows, 128), jnp.float32))
        for n in (24, 48)
    )
    busy = sum(more.step.get(part, 0) for part in ("work", "scalar code"))
    return (more.cycles - few.cycles) / 24, busy


print("cycles of an iteration, predicted (compiler)")
by_buffers = {}
for buffers in (1, 2, 3, 4, 8):
    turn, busy = cycles_of_a_turn(functools.partial(by_hand, buffers=buffers))
    by_buffers[buffers] = turn, busy
    print(f"{buffers} buffers: {turn:6.0f}   the core is busy for {busy:3.0f}")

by_work = {}
for exps in (8, 16, 64, 128, 192):
    turn, busy = cycles_of_a_turn(functools.partial(by_hand, buffers=2, exps=exps))
    by_work[exps] = turn, busy
    print(f"2 buffers, {exps:3} exp: {turn:6.0f}   the core is busy for {busy:4.0f}")

# %% [markdown]
# Two buffers take half of the time, three a third, and eight an eighth. With two buffers, 100 more cycles of work cost
# only 50 until the core is busy all the time, and 100 from then on.
#
# Both results follow from one argument. **Follow one buffer.** A copy fills it, which takes a latency and the time of
# its bytes. Then the core works on it, and when that is done, the next copy into it starts. So a round takes
# latency + bytes + work, and in each round a buffer serves one iteration, so B buffers serve B. But the core works on
# one chunk at a time, so an iteration takes at least as long as its work. Let L be the time of a copy, latency and
# bytes together, and c the cycles in which the core is busy:
#
# > **An iteration takes T = max(c, (L + c) / B).**
#
# T is also never less than the time of the bytes at the full speed of HBM, which all copies share. The simulator leaves
# this limit out, and a report puts it back in. With one buffer, T is L + c. That is the factor of exactly two in the
# opening: (L + c) / 1 against (L + c) / 2.
#
# Does the formula hold? With one buffer an iteration takes L + c, so the next cell subtracts c to get L. Chunks of two
# sizes separate the latency from the bytes.


# %%
def latency_of(rows):
    one_buffer = functools.partial(by_hand, buffers=1, rows=rows)
    turn, busy = cycles_of_a_turn(one_buffer, rows)
    return turn - busy


small, large = latency_of(64), latency_of(1024)
RATE = (1024 - 64) * 128 * 4 / (large - small)  # bytes a cycle, of one copy alone
READ = small - 64 * 128 * 4 / RATE
print(f"L is {READ:.0f} cycles and one for each {RATE:.0f} bytes, predicted (compiler)")

# %% [markdown]
# Now compare the formula with all ten rows from above.


# %%
def turn_by_formula(latency, work, buffers):
    return max(work, (latency + work) / buffers)


L = READ + ROWS * 128 * 4 / RATE
rows = [(f"{b} buffers", b, *by_buffers[b]) for b in by_buffers]
rows += [(f"2 buffers, {exps} exp", 2, *by_work[exps]) for exps in by_work]
for name, buffers, turn, busy in rows:
    formula = turn_by_formula(L, busy, buffers)
    print(
        f"{name:18} formula {formula:5.0f}, compiler {turn:5.0f}, {formula / turn - 1:+.1%}"
    )

# %% [markdown]
# The formula agrees with the compiler in all ten rows, although only the first of them was used to find L. For 30 other
# kernels, its error is 0.9 % in the median and 7.6 % at worst ([docs/compiler.md](../docs/compiler.md)). For the
# opening, c is the time of the work alone, divided by the 256 steps.

# %%
clock = chips.chip("v5e").clock_hz
c = work.core_seconds * clock / 256
print(f"c = {c:.0f} cycles, L = {L:.0f}")
for buffers, report in ((2, two), (1, one)):
    us = 256 * turn_by_formula(L, c, buffers) / clock * 1e6
    print(
        f"buffers: {buffers}, formula {us:5.1f} us, predicted (compiler) {report.seconds * 1e6:5.1f}"
    )

# %% [markdown]
# ### Why B and not B - 1?
#
# One often reads that with two buffers, *one* is filled while the other is worked on, so that B - 1 copies hide the
# latency. By that rule, an iteration with two buffers would take L, about as much as with one, but it takes half.
# Either can be true, depending on the place of one line. The next cell starts the next copy at four different places,
# always with two buffers and with enough work to tell L from L + c. **Guess** what each of them takes: (L + c) / 2, L,
# or L + c.


# %% tags=["predict"]
def placed(x, place, exps=64):
    """Return the sum, with two buffers; ``place`` says where the next copy is started."""
    chunks = x.shape[0] // ROWS

    def kernel(x_hbm, o_ref, in_ref, in_sem):
        def fetch(i):
            b = jax.lax.rem(i, 2)
            chunk = x_hbm.at[pl.ds(ROWS * i, ROWS)]
            return pltpu.make_async_copy(chunk, in_ref.at[b], in_sem.at[b])

        o_ref[...] = jnp.zeros_like(o_ref)
        fetch(0).start()
        if place == "waited for at once":
            fetch(0).wait()

        @pl.loop(0, chunks)
        def turn(i):
            def ahead():
                @pl.when(i + 1 < chunks)
                def start():
                    fetch(i + 1).start()
                    if place == "waited for at once":
                        fetch(i + 1).wait()

            if place in ("before the wait", "waited for at once"):
                ahead()
            if place != "waited for at once":
                fetch(i).wait()
            if place == "after the wait":
                ahead()
            value = in_ref[jax.lax.rem(i, 2)]
            for _ in range(exps):
                value = jnp.exp(value)
            o_ref[...] += value
            if place == "after the work":
                ahead()

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, ROWS, 128), x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)


PLACES = ("before the wait", "after the wait", "after the work", "waited for at once")
for place in PLACES:
    print(f"{place:19} {story(functools.partial(placed, place=place), x[: 3 * ROWS])}")
work = by_work[64][1]
print(
    f"\n(L + c) / 2 = {(L + work) / 2:.0f}, L = {L:.0f}, L + c = {L + work:.0f}; compiler:"
)
for place in PLACES:
    turn, _ = cycles_of_a_turn(functools.partial(placed, place=place))
    print(f"{place:19} {turn:5.0f} cycles an iteration")

# %% [markdown]
# If the copy is started before the wait, an iteration takes (L + c) / 2, and if it is started after the wait, L. If
# each copy is waited for at once, nothing is in flight while the core works, so an iteration takes L + c, and **its
# time has doubled**. All four versions have the same buffers and the same bytes.
#
# By its place in the code, the third version should take L + c as well. It takes less, because the compiler may move a
# start past work that does not touch its buffer:

# %%
report = compiler.compile_tpu(functools.partial(placed, place="after the work"), tall)
body = [" ".join(bundle.instructions) for bundle in report.listing if bundle.depth]
started = max(n for n, told in enumerate(body) if "dma.hbm_to_vmem" in told)
last_exp = max(n for n, told in enumerate(body) if "vpow" in told)
print(
    f"bundle {started} of {len(body)} starts the copy, bundle {last_exp} has the last exp"
)

# %% [markdown]
# The compiler has moved the start up, ahead of the last part of the work. It can move a start, but it moves nothing
# across a wait.
#
# So what counts is which copies are in flight **while the core works**.
#
# - If the next start comes before the wait, a buffer is refilled as soon as the work on it is done, and **T = max(c,
#   (L + c) / B)**.
# - If the next start comes after the wait, one buffer is always the one being worked on, and the copies into the other
#   B - 1 have whole iterations to arrive. Then **T = max(c, L / (B - 1))**, the B - 1 that one reads about.
# - If nothing is in flight while the core works, **T = L + c**, however many buffers there are.
#
# ## The loop as a timeline
#
# The loop is simple enough to be simulated with a clock. **Look for one thing:** in the lower three panels, when does
# the bar of copy 2 begin?


# %%
def timeline(turns, latency, work, under_way):
    """Return when each chunk is requested, arrives, is begun and is done."""
    clock, asked, events = 0.0, [0.0] * under_way, []
    for i in range(turns):
        begun = max(clock, asked[i] + latency)
        clock = begun + work
        events.append((asked[i], asked[i] + latency, begun, clock))
        asked.append(clock)  # the buffer is free for chunk i + under_way
    return events


def draw(axes, title, latency, work, under_way, turns=6):
    events = timeline(turns, latency, work, under_way)
    for i, (asked, _, begun, _) in enumerate(events):
        lane = 1 + i % under_way
        axes.broken_barh(
            [(asked, latency)], (lane + 0.1, 0.8), color=f"C{i % 2}", alpha=0.45
        )
        axes.text(asked + latency / 2, lane + 0.5, i, ha="center", va="center")
        axes.broken_barh([(begun, work)], (0.1, 0.8), color=f"C{i % 2}")
    lanes = ["core", *(f"buffer {b}" for b in range(under_way))]
    axes.set(title=title, yticks=[n + 0.5 for n in range(len(lanes))], yticklabels=lanes)
    axes.set(xlim=(0, 9000))
    axes.grid(axis="y", visible=False)


plt.rcParams.update(viz.PLOT_STYLE)
fig, panels = plt.subplots(4, 1, figsize=(6.6, 6.8), sharex=True)
draw(panels[0], "one copy in flight", L, 250, 1)
draw(panels[1], "two copies in flight", L, 250, 2)
draw(panels[2], "two copies in flight, more work", L, 1300, 2)
draw(panels[3], "four copies in flight", L, 250, 4)
panels[3].set_xlabel("cycles; pale: copies in flight; dark: the core at work")
viz.plot_picture(
    fig,
    "With one copy in flight, the core works a sixth of the time. With two it still waits, "
    "unless its work takes as long as a copy. With four it waits less.",
)

# %% [markdown]
# With two copies in flight, copy 2 begins when the work on chunk 0 is done. With four, it begins at once. The white
# gaps in the lane of the core are bubbles. In the third panel there are none after the first: the work takes longer
# than a copy, so two buffers are enough.
#
# > **bubble**: a time in which the core waits for a copy.
#
# The next chart plays the kernel of the opening. Its times are predicted (model), with the compiler's latency.
# **Task:** set the buffers to 1 and back to 2, and watch the length of a step. Then leave two buffers, and raise the
# work until no bubble is left. How many cycles of work does that take? By the formula, the last bubble closes when
# c = (L + c) / 2.

# %%
viz.pipeline_chart(functools.partial(added_up, buffers=2), tall)

# %% [markdown]
# It takes as many cycles as a copy: from c = L on, the core is always busy.
#
# ## The loop that `pallas_call` makes
#
# For a plain kernel you do not write this loop, because `pallas_call` makes it from your BlockSpecs. At each step, for
# every operand whose block moves, it starts the copies for the next step and waits for those of this one. Then it runs
# the kernel, starts writing the results back, and waits for the write-backs of the step before. Is it as fast as our
# loop?


# %%
def in_chunks(x, rows, buffers):
    """Return the sum of all chunks of ``rows`` rows; emit_pipeline makes the loop."""

    def kernel(x_hbm, o_hbm):
        pltpu.emit_pipeline(
            add_kernel,
            grid=(x.shape[0] // rows,),
            in_specs=[
                pl.BlockSpec(
                    (rows, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers)
                )
            ],
            out_specs=[pl.BlockSpec((rows, 128), lambda i: (0, 0))],
        )(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    out = jax.ShapeDtypeStruct((rows, 128), x.dtype)
    return pl.pallas_call(kernel, out_shape=out, in_specs=[anywhere], out_specs=anywhere)(x)


piped = functools.partial(in_chunks, rows=ROWS)
for name, fn in [("by hand", by_hand), ("pallas_call", added_up), ("emit_pipeline", piped)]:
    turn, _ = cycles_of_a_turn(functools.partial(fn, buffers=2))
    print(f"{name:14} {turn:4.0f} cycles a step with two buffers, predicted (compiler)")
print(compiler.compile_tpu(functools.partial(added_up, buffers=3), tall).error)
turn, _ = cycles_of_a_turn(functools.partial(piped, buffers=4))
print(f"emit_pipeline  {turn:4.0f} cycles a step with four")

# %% [markdown]
# All three are the same loop. `pallas_call` stops at two buffers, while `emit_pipeline` builds the same pipeline inside
# your kernel, for arrays that the kernel gets whole. There you choose the buffers of each input, and the kernel can do
# other things before, after and between pipelines. `add_kernel` is the same in both, because inside `emit_pipeline`,
# too, `pl.program_id(0)` is the step.
#
# Outputs have two buffers as well, never more with JAX 0.11, and a write has a shorter latency than a read. So a step
# that reads and writes takes at least the longest of c, (L of the read + c) / B and (L of the write + c) / 2. The first
# table under *Further* compares the three.
#
# ## When are two buffers enough?
#
# The work of `added_up` is far shorter than a latency, so two buffers cannot hide the latency. More copies in flight
# would help, and so would larger copies. The next cell tries both on 32 MiB, beside a dashed line for the bytes at full
# speed. **Guess first:** with two buffers, how large must a block be before the bytes alone decide the time?

# %% tags=["predict"]
long = jax.ShapeDtypeStruct((65536, 128), jnp.float32)
floor = compiler.compile_tpu(
    functools.partial(in_chunks, rows=64, buffers=2), long
).hbm_seconds
sizes = (64, 256, 512, 1024, 1280, 2048)
fig, axes = plt.subplots()
for buffers in (2, 4, 8):
    calls = [functools.partial(in_chunks, rows=rows, buffers=buffers) for rows in sizes]
    us = [compiler.compile_tpu(call, long).seconds * 1e6 for call in calls]
    kib = [rows * 128 * 4 / 1024 for rows in sizes]
    axes.loglog(kib, us, "o-", label=f"{buffers} buffers")
    enough = next(size for size, time in zip(kib, us, strict=True) if time < 1.1e6 * floor)
    print(f"{buffers} buffers: within 10 % of the bytes from blocks of {enough:.0f} KiB on")
axes.axhline(floor * 1e6, color="gray", linestyle="--", label="the bytes alone")
axes.set(title="32 MiB, added up on a v5e, predicted (compiler)", xlabel="KiB", ylabel="us")
axes.set_xticks(doublings := [32, 128, 256, 512, 1024], labels=doublings)
axes.set_yticks([50, 100, 200, 400], labels=[50, 100, 200, 400])
axes.minorticks_off()
axes.legend()
viz.plot_picture(
    fig,
    "Each line falls to the dashed one and stays there: with eight buffers from small blocks "
    "on, with two buffers only from large ones.",
)

# %% [markdown]
# (These are the smallest of the six sizes tried that come so close.) What counts is the number of bytes in flight,
# divided by the time of one copy. Eight small blocks do as well as two large ones, and they take less VMEM.
#
# So two buffers are enough if the work takes longer than a copy, or if the blocks are large. Otherwise you meet **the
# third roof of lesson 3**: with two buffers and small blocks, a step costs half a latency, however little it moves and
# computes. More buffers lower this price, up to a dozen or so, as a table under *Further* shows. Larger blocks avoid
# it.
#
# The published times fit a shorter latency than the simulator assumes, 0.49 us instead of 0.76 us (lesson 3). With that
# latency, the block sizes in the plot shrink in the same proportion.
#
# ## VMEM to the byte
#
# Buffers take VMEM, which is limited. How much does a kernel need? Each operand takes its block, padded to whole tiles,
# times the number of its buffers. It has two buffers if its block moves. It has one if its index map and the grid show
# that the block cannot move, if the grid has only one step, or if you request one with `pl.Buffered(1)`. Scratch counts
# once, and spills come on top.
#
# A published guide (*Define a Custom TPU/GPU Kernel*, Keras) multiplies float32 matrices of 8192 x 8192. It takes
# strips of 128 rows of a and of 128 columns of b, and output blocks of 128 x 128. **Compute its VMEM in MiB before you
# run the cell**, with pencil and paper.


# %%
def guide(a, b, limit=None):
    def kernel(a_ref, b_ref, o_ref):
        product = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = jnp.maximum(product, 0)

    (m, k), n = a.shape, b.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        grid=(m // 128, n // 128),
        in_specs=[
            pl.BlockSpec((128, k), lambda i, j: (i, 0)),
            pl.BlockSpec((k, 128), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
    )(a, b)


wide = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
for piece in cost.vmem(grid.walk(guide, wide, wide)):
    block = f"{piece.shape[0]} x {piece.shape[1]}"
    print(
        f"{piece.name}: {piece.buffers} x {block:10} of {piece.dtype}: {piece.bytes:10,} bytes"
    )
need = cost.vmem_bytes(grid.walk(guide, wide, wide))
print(f"{need:,} bytes are {need / 2**20} MiB")
for limit in (None, need - 1, need):
    report = compiler.compile_tpu(
        functools.partial(guide, limit=limit), wide, wide, simulate=False
    )
    asked = "not requested" if limit is None else f"{limit:,}"
    print(f"limit {asked:13}  {'compiles' if report.ok else 'refused'}")

# %% [markdown]
# The kernel needs an eighth of a MiB too much, the two buffers of its output. Here the count is exact: the compiler
# accepts the kernel with a limit of as many bytes, and refuses it with one less.
#
# A kernel gets 16 of a v5e's 128 MiB unless it requests more. With `vmem_limit_bytes` you promise the compiler that so
# much is free. How much can you request, and what do unnecessary buffers cost? In the first line below, `a_ref` has one
# buffer, because its block moves only at every 64th step.


# %%
def guide_with(a_buffers):
    def call(a, b):
        def kernel(a_ref, b_ref, o_ref):
            o_ref[...] = jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

        (m, k), n = a.shape, b.shape[1]
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
            grid=(m // 128, n // 128),
            in_specs=[
                pl.BlockSpec(
                    (128, k), lambda i, j: (i, 0), pipeline_mode=pl.Buffered(a_buffers)
                ),
                pl.BlockSpec((k, 128), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
        )(a, b)

    return call


def vmem_of(fn, *args):
    report = compiler.compile_tpu(fn, *args, simulate=False)
    need = f"{report.vmem_bytes / 2**20:.3f} of {report.vmem_limit / 2**20:.3f} MiB"
    return f"{need}, {'compiles' if report.ok else 'refused'}"


print("one buffer for a:    ", vmem_of(guide_with(1), wide, wide))
for mib in (17, 128, 200):
    asking = functools.partial(guide, limit=mib * 2**20)
    print(f"a limit of {mib:3} MiB:  ", vmem_of(asking, wide, wide))

# %% [markdown]
# `pl.Buffered(1)` on a block that seldom moves saves its second buffer, at the price of one wait in 64 steps. A limit
# above 128 MiB, which is all that the chip has, silently becomes 128 MiB.
#
# The same table is interactive below, for matrices of 4096. **Task:** give the strips of a 384 rows, and the blocks of
# the output 384 rows too. Does that fit? Which of the sizes would you change to make it fit?

# %%
viz.vmem_table(guide, *[jax.ShapeDtypeStruct((4096, 4096), jnp.float32)] * 2)

# %% [markdown]
# That needs 16.375 MiB and does not fit. With 256 rows it does, or with one buffer for a.
#
# Two things surprise people. **Padding:** scratch of shape (64, 1) takes whole rows of 128 lanes. **Spills:** values
# that find no register are kept in VMEM too, under the same limit, and nobody can count them before the compiler does.


# %%
def softmax_kernel(x_ref, o_ref, largest_ref):
    largest_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)
    raised = jnp.exp(x_ref[...] - largest_ref[...])
    o_ref[...] = raised / jnp.sum(raised, axis=1, keepdims=True)


def softmax(x):
    block = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        softmax_kernel,
        out_shape=x,
        grid=(x.shape[0] // 64,),
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)],
    )(x)


table = jax.ShapeDtypeStruct((512, 2048), jnp.float32)
print(f"counted: {cost.vmem_bytes(grid.walk(softmax, table)):,} bytes")
report = compiler.compile_tpu(softmax, table, simulate=False)
for piece in report.vmem:
    print(f"{piece.name or piece.purpose:12} {piece.bytes:9,} bytes, {piece.purpose}")
print(f"compiler: {report.vmem_bytes:,} bytes")

# %% [markdown]
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A copy takes 1200 cycles, and the work on a block takes 400. How long is a step with one buffer,
# with two, with four and with eight?</summary>
# It takes 1600, 800, 400 and 400 cycles. From four buffers on, the core is busy all the time.</details>
#
# <details><summary>2. You make the work of a step half as long, and the kernel is hardly faster. What do you look
# at?</summary>
# Look at the waiting. With two buffers, a cycle of work costs only half a cycle as long as the work is shorter than a
# copy. Then more copies in flight or larger blocks help.</details>
#
# <details><summary>3. A loop has two buffers, and starts each copy right before it waits for it. What does the second
# buffer gain?</summary>
# It gains nothing. At each wait one copy is in flight, and while the core works there is none.</details>
#
# <details><summary>4. A kernel has three float32 operands in blocks of (512, 1024), two inputs and one output, and all
# of them move. How much VMEM does it need?</summary>
# A block takes 2 MiB, so three operands with two buffers each take 12 MiB, plus the spills.</details>
#
# <details><summary>5. The compiler says 100 us, and the bytes of the kernel take 150 us at full speed. Which time is
# right?</summary>
# The kernel takes at least 150 us, because the simulator does not know that copies share the HBM.</details>

# %% [markdown]
# The formula answers question 1:

# %%
print([turn_by_formula(1200, 400, buffers) for buffers in (1, 2, 4, 8)])

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 5](../exercises/05_pipelining_and_vmem.ipynb). The first one copies a matrix in, works
# on it, and copies it out.
#
# ## Further
#
# No exercise needs what follows.
#
# ### On a real chip: latency or issue?
#
# We have measured none of the times above. The published times of lesson 3 cannot tell whether a step of 0.35 us is
# half of a long latency or a busy core. Four kernels can, and nobody has published their times: one reads and writes,
# one only reads, one only writes, and one copies nothing. If the latency is to blame, the fourth is nearly free, and
# the third is much faster than the second. If the core is to blame, all four take about the same time. With a TPU, you
# can be the first to fill in the left column. The columns *compiler* are predicted (compiler), and the last one is the
# formula.


# %%
def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def steps_that(reads, writes, steps=4096):
    """Return a call on blocks of (8, 128); a block that is not copied has a fixed index."""
    block = {
        moves: pl.BlockSpec((8, 128), lambda i, m=moves: (m * i, 0)) for moves in (0, 1)
    }

    def call(x):
        rows = 8 * steps if writes else 8
        return pl.pallas_call(
            copy_kernel,
            out_shape=jax.ShapeDtypeStruct((rows, 128), jnp.float32),
            grid=(steps,),
            in_specs=[block[reads]],
            out_specs=block[writes],
        )(x)

    return call


def measured(fn, x):
    try:
        return f"{np.median(bench.measure(fn, x).times) / 4096 * 1e6:.3f}"
    except bench.NoAccelerator:
        return "no TPU"


small_blocks = jnp.zeros((8 * 4096, 128))
print("                       us a step        cycles a step")
print("                   measured  compiler  compiler  formula")
read, write = roofline.LATENCY_CYCLES["v5e"]
for name, reads, writes in [
    ("reads and writes", 1, 1),
    ("only reads", 1, 0),
    ("only writes", 0, 1),
    ("copies nothing", 0, 0),
]:
    fn = steps_that(reads, writes)
    report = compiler.compile_tpu(fn, small_blocks)
    us, cycles = report.seconds / 4096 * 1e6, report.cycles / 4096
    busy = report.step["work"] + report.step["scalar code"]
    moved = [
        latency + 4096 / RATE
        for latency, moves in ((read, reads), (write, writes))
        if moves
    ]
    formula = max([busy] + [turn_by_formula(copy, busy, 2) for copy in moved])
    print(
        f"{name:18} {measured(fn, small_blocks):>8} {us:9.3f} {cycles:9.0f} {formula:8.0f}"
    )

# %% [markdown]
# ### Two waits in one step, and more buffers than help
#
# A step that reads and writes waits twice. If one of the two waits is much longer than the other, only that one counts,
# as the formula says. What if they are about equal? And can there be too many buffers? The first lines below copy
# blocks of 64 rows; the others only read them.


# %%
def copied(x, buffers):
    def kernel(x_hbm, o_hbm):
        block = (ROWS, 128), lambda i: (i, 0)
        pltpu.emit_pipeline(
            copy_kernel,
            grid=(x.shape[0] // ROWS,),
            in_specs=[pl.BlockSpec(*block, pipeline_mode=pl.Buffered(buffers))],
            out_specs=[pl.BlockSpec(*block)],
        )(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel, out_shape=x, in_specs=[anywhere], out_specs=anywhere)(x)


print("predicted (compiler)      formula  compiler  the core is busy for")
for name, fn, several in [
    ("copies", copied, (2, 3, 4, 8)),
    ("reads", piped, (8, 16, 24, 32)),
]:
    for buffers in several:
        turn, busy = cycles_of_a_turn(functools.partial(fn, buffers=buffers))
        formula = turn_by_formula(L, busy, buffers)
        if fn is copied:
            formula = max(formula, turn_by_formula(write + ROWS * 128 * 4 / RATE, busy, 2))
        print(f"{name:7}{buffers:3} buffers {formula:14.0f} {turn:9.0f} {busy:9.0f}")

# %% [markdown]
# With four buffers, the two waits of the copying kernel are about equal, and a step takes an eighth longer than the
# formula says. Wherever one of the waits is longer, the formula is close.
#
# The core's own part grows with the number of buffers. From about 16 buffers on it is the whole step, so 32 buffers
# take longer than 16.
#
# ### 528,049 cycles, and 982 us
#
# Lesson 1's report on 64 Mi additions said 528,049 cycles, or 351 us, and also 982 us, and told you why both are right.
# The next cell shows the reason with one copy of a MiB, then with two, four and eight at once.


# %%
def at_once(copies):
    def kernel(x_hbm, o_ref, buffer_ref, sem):
        under_way = [
            pltpu.make_async_copy(x_hbm.at[i], buffer_ref.at[i], sem.at[i])
            for i in range(copies)
        ]
        for copy in under_way:
            copy.start()
        for copy in under_way:
            copy.wait()
        o_ref[...] = buffer_ref[copies - 1, :8]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[
            pltpu.VMEM((copies, 2048, 128), jnp.float32),
            pltpu.SemaphoreType.DMA((copies,)),
        ],
    )


for copies in (1, 2, 4, 8):
    report = compiler.compile_tpu(
        at_once(copies), jax.ShapeDtypeStruct((copies, 2048, 128), jnp.float32)
    )
    print(
        f"{copies} at once: {report.cycles:,} cycles are {report.core_seconds * 1e6:5.2f} us; "
        f"the bytes alone {report.hbm_seconds * 1e6:5.2f} us"
    )

# %% [markdown]
# The simulator lets every copy run at full speed, however many there are, so eight MiB take it as long as one. It knows
# latencies, but not that the copies share one memory. So its cycles are what the core would need if each copy had the
# HBM to itself, and the bytes divided by the bandwidth are what HBM needs. A report gives the longer of the two. For
# lesson 1 that is 982 us, because three large blocks are in flight at once there, and no HBM moves them at that speed.
#
# ### The article's program
#
# With `pl.kernel`, a whole kernel looks like a function of arrays. The JAX team's article "Pallas: Custom Kernels in
# JAX" ends with the program below. It is as printed there, except that `out_shape=` is now `out_type=`, the mesh is now
# `TensorCoreMesh`, and the three sizes are arguments. A mesh says on which cores the kernel runs, here on one.


# %%
def article(M, N, K):
    @pl.kernel(
        out_type=jax.ShapeDtypeStruct((M, N), jnp.float32),
        mesh=pltpu.TensorCoreMesh(axis_name="x", num_cores=1),
    )
    def matmul_kernel(x_hbm_ref, y_hbm_ref, out_hbm_ref):
        def pipeline_body(x_vmem_ref, y_vmem_ref, out_vmem_ref):
            @pl.when(pl.program_id(2) == 0)
            def _():
                out_vmem_ref[...] = jnp.zeros_like(out_vmem_ref)

            out_vmem_ref[...] += jnp.dot(
                x_vmem_ref[...], y_vmem_ref[...], preferred_element_type=jnp.float32
            )

        pltpu.emit_pipeline(
            pipeline_body,
            in_specs=[
                pl.BlockSpec((512, 512), lambda i, j, k: (i, k)),
                pl.BlockSpec((512, 512), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((512, 512), lambda i, j, k: (i, j)),
            grid=(M // 512, N // 512, K // 512),
        )(x_hbm_ref, y_hbm_ref, out_hbm_ref)

    return matmul_kernel


square = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)
report = compiler.compile_tpu(article(4096, 4096, 4096), square, square)
print(report)
peak_s = 2 * 4096**3 / chips.chip("v5e").bf16_flops
print(f"that is {peak_s / report.seconds:.0%} of the peak, predicted (compiler)")

# %% [markdown]
# The article prints no time. It says that with well-chosen blocks, a kernel as simple as this can reach 90 % and more
# of the chip. Is the rest spent waiting for copies? Hardly any of it is, by the line *a step*: the work of a step takes
# longer than its copies, so two buffers are enough. What is left over is scalar code, and a body that is longer than
# its matmuls. (The simulator again lets copies share nothing. A chart of this kernel by our model, in which they share
# the HBM, shows some waiting.)
#
# Then the article checks the result: `np.testing.assert_allclose(kernel_result, reference, atol=1e-4)`. We run this
# check with all of K and one block of the result instead of 64, which takes this machine a second. `target()` names the
# TPU that is meant when there is none. And we allow 1e-3: how far apart are two neighboring float32 values of the size
# of these sums?

# %%
a = jax.random.normal(jax.random.key(0), (512, 4096), jnp.bfloat16)
b = jax.random.normal(jax.random.key(1), (4096, 512), jnp.bfloat16)
reference = jnp.dot(a, b, preferred_element_type=jnp.float32)
with chips.chip("v5e").target():
    kernel_result = article(512, 512, 4096)(a, b)
np.testing.assert_allclose(kernel_result, reference, atol=1e-3)
print("assert_allclose passes")
print(f"neighbours are {np.spacing(jnp.abs(reference).max()):.1e} apart at the largest sum")

# %% [markdown]
# So 1e-4 is about three such distances, for sums of 4096 products that two programs add up in different orders. A
# result that exceeds the tolerance by one more differs in the order of its sum, and is not wrong.
#
# ### Revisited blocks and buffers
#
# Lesson 4 said that when the grid returns to an output block that it has left, the kernel finds there what the visit
# before last left. Now you can see why: an output has two buffers, which alternate from visit to visit, and nothing is
# ever copied *in*. With `pl.Buffered(1)`, a visit finds what the previous visit left. The next cell runs JAX's own
# pipeline in the simulator, on three blocks that hold 1, 2 and 4, and visits each of them twice. **Guess first** what
# comes out with one buffer, and with two.


# %% tags=["predict"]
def visited_twice(buffers):
    def add(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    def kernel(x_hbm, o_hbm):
        pltpu.emit_pipeline(
            add,
            grid=(2, 3),
            in_specs=[pl.BlockSpec((8, 128), lambda r, i: (i, 0))],
            out_specs=[
                pl.BlockSpec(
                    (8, 128), lambda r, i: (i, 0), pipeline_mode=pl.Buffered(buffers)
                )
            ],
        )(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((24, 128), jnp.float32),
        in_specs=[anywhere],
        out_specs=anywhere,
    )


blocks = jnp.repeat(jnp.array([1.0, 2.0, 4.0]), 8)[:, None] * jnp.ones((1, 128))
with chips.chip("v5e").target():
    for buffers in (1, 2):
        sums = visited_twice(buffers)(blocks)
        print(f"{buffers} for the output: {sums[::8, 0]}")
print(f"expected:         {2 * blocks[::8, 0]}")

# %% [markdown]
# ### Other chips, other latencies
#
# The compiler assumes other latencies for other chips. How many bytes must be in flight, at least, so that HBM does not
# idle? Multiply the latency by the bandwidth. Large blocks need more, because the time of their own bytes comes on top.

# %%
print("chip    read, ns   bytes that HBM could move meanwhile")
for name in roofline.LATENCY_CYCLES:
    seconds = roofline.latency(1.0, chip=name)["read_s"]
    meanwhile = seconds * chips.chip(name).program_bandwidth
    print(f"{name:7} {seconds * 1e9:8.0f}   {meanwhile / 1024:6.0f} KiB")

# %% [markdown]
# <!-- next -->
