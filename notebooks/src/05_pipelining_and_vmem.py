# %% [markdown]
# # Lesson 5: Pipelining and VMEM
#
# *60 minutes, then 58 for the exercises. The "Further" part is optional and not counted in these times. You need the
# terms of lesson 2, the third roof of lesson 3, and lesson 4. You do not need a TPU; with one, a cell under "Further"
# measures what is only predicted here.*
#
# The kernel below adds up all blocks of 64 rows of a matrix. Two calls of it differ in one digit, the n in
# `pl.Buffered(n)`, the number of buffers for the input. Both copy the same blocks in the same order and return the same
# result. Run the three cells.

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
# Lesson 3 said that a kernel takes at best the time of its bytes or of its work, whichever is longer, and at worst
# their sum. Both calls take far longer than the sum, and one digit changes the time by a factor of two.
#
# Lesson 3 also gave a rule for a step with two buffers: it takes half of the sum of latency, bytes and work. Here you
# build the loop, and see where the half comes from and when the rule is wrong. **Why is the factor exactly two?** Write
# down a guess, and then a second one: what would three buffers do? By the middle of the lesson you can compute both
# times.
#
# After this lesson you can
# - start a copy, wait for it, and find a wait that is missing or superfluous,
# - write a loop that fetches the next block while it works on this one,
# - compute the time of a step from the latency, the work, and the number of copies in flight,
# - say when two buffers are enough, and what you gain from more,
# - count VMEM to the byte, and find the largest block that fits.
#
# ## A copy by hand
#
# So far, `pallas_call` has made every copy for you; the next kernel makes its own. `memory_space=pl.ANY` leaves x and
# the result in HBM, where the kernel may copy but not read them.
#
# > **asynchronous copy**: a copy that runs by itself once it has been started, while the core does something else.
# >
# > **DMA semaphore**: a counter that a copy raises by its size when it has arrived. A wait for that copy lasts until
# > the counter has reached this size, and then subtracts it.
#
# `pltpu.make_async_copy(source, target, semaphore)` only describes a copy. `.start()` starts it, and `.wait()` returns
# when it has arrived. Semaphores are scratch: `pltpu.SemaphoreType.DMA((2,))` allocates two, of which `sem.at[0]` is
# the first.


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
# What if a kernel never waits for its copy, like the first version below, or waits twice, like the second? Before you
# run the cell, guess for each version which judge notices the mistake, and what would happen on a chip.


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
# The compiler accepts both versions, because it does not count waits. On a chip, the first would read whatever was in
# VMEM before, or a block that has only partly arrived, and the second would hang forever. Our judges compare the copies
# that are started with those that are waited for, before anything runs.
#
# ## Fetch the next chunk while working on this one
#
# The next kernel computes the sum of the opening, but makes its own copies. Its function `fetch(i)` describes the copy
# of chunk i into buffer i mod `buffers`. Both the start and the wait call `fetch`, so they always name the same
# semaphore.
#
# > **prologue**: the copies that are started before the loop.
# >
# > **steady state**: the iterations of a loop that are all alike. Each starts the copy of a later chunk, waits for its
# > own chunk, and works on it.
# >
# > **drain**: the last iterations, which have no copy left to start.
#
# `x_hbm.at[pl.ds(64, 32)]` refers to 32 rows of an array, beginning with row 64, without reading them. Likewise,
# `in_ref.at[b]` is buffer b and `in_sem.at[b]` its semaphore. `pl.loop(0, n)` runs the function below it, here `turn`,
# n times, with i = 0, 1 and so on; each run is one iteration.


# %%
def by_hand(x, buffers, exps=0, rows=ROWS):
    """Return the sum of all chunks of ``rows`` rows; apply exp ``exps`` times as work."""
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

            @pl.when(later < chunks)  # there is no later chunk in the drain
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
# In which order do starts and waits happen? `grid.memory_uses` follows a kernel's code without running it, and the next
# cell lists what it finds for four chunks, with one, two and three buffers. A copy is *in flight* from its start until
# it has been waited for. **Look for one thing:** how many copies are in flight at each wait (the number in brackets)?


# %%
def story(fn, *args):
    """Return the starts and waits for copies of x in order; [n]: n copies are in flight."""
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
# At each wait, as many copies are in flight as there are buffers, until fewer copies are left in the drain. With two
# buffers, each iteration starts the next copy *before* its wait, so the next chunk is already on its way while the
# kernel waits for this one.
#
# Results are written back in the same way, from buffers of their own. The kernel must not write to such a buffer while
# the copy out of it is in flight. So with two buffers, iteration i waits for the write-back of iteration i - 2 before
# it fills the same buffer again, and after the loop the kernel waits for the last two (exercise 05.7).
#
# ## How long does an iteration take?
#
# **Predict first.** An iteration with one buffer takes about 1200 cycles, and the core is busy for about 20 of them.
# How long does it take with two buffers, with three, and with eight? Then the cell keeps two buffers and adds more and
# more work. By how much do 100 added cycles of work lengthen an iteration? Write down four answers.


# %% tags=["predict"]
def cycles_of_a_turn(fn, rows=ROWS):
    """Return the cycles of an iteration and the core's part, from 24 and 48 chunks."""
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
# Two buffers take about half of the time, three a third, and eight an eighth. With two buffers, 100 more cycles of work
# cost only 50 until the core is busy all the time, and 100 from then on.
#
# To see why, **follow one buffer**. A copy fills it, which takes a latency and the time of its bytes. Then the core
# works on it, and when that is done, the next copy into it starts. Such a round takes latency + bytes + work. Each of
# the B buffers serves one iteration per round, so an iteration takes 1/B of a round. But the core works on one chunk at
# a time, so an iteration also takes at least as long as its work. Let L be the time of a copy, latency and bytes
# together, and c the cycles for which the core is busy in an iteration:
#
# > **An iteration takes T = max(c, (L + c) / B).**
#
# T is also never less than the time of the bytes at the full speed of HBM, which all copies share. The simulator
# ignores this limit, but a report applies it. With one buffer T is L + c, and with two it is half of that, hence the
# factor of two in the opening.
#
# Does the formula hold? The next cell finds L by subtracting c from an iteration with one buffer. It does so for chunks
# of two sizes, which differ in bytes but not in latency.


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
# The latency is close to lesson 3's 1142 cycles. Now compare the formula with all ten rows from above.


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
# Lesson 4 said that the next block is copied into one buffer while a step works on the block in the other. That
# suggests that only B - 1 copies hide the latency, and that an iteration with two buffers takes L. Above, it took half
# of that. Whether B or B - 1 is right depends on the place of one line. The next cell starts the next copy at three
# different places, and in a fourth version waits for it at once. You need to read only `turn`. **Guess** what each
# version takes: (L + c) / 2, L, or L + c.


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
# If the next copy is started before the wait, an iteration takes (L + c) / 2, and if it is started after the wait, an
# iteration takes L. If each copy is waited for at once, nothing is in flight while the core works, so an iteration
# takes L + c, and with the same buffers and bytes **its time has doubled**. (The last three orders look alike because
# the list leaves out the work.)
#
# Judging by its code, the third version should take L + c as well. It takes less, because the compiler may move a start
# ahead of work that does not touch the buffer of its copy:

# %%
report = compiler.compile_tpu(functools.partial(placed, place="after the work"), tall)
body = [" ".join(bundle.instructions) for bundle in report.listing if bundle.depth]
started = max(n for n, told in enumerate(body) if "dma.hbm_to_vmem" in told)
last_exp = max(n for n, told in enumerate(body) if "vpow" in told)
print(
    f"bundle {started} of {len(body)} starts the copy, bundle {last_exp} has the last exp"
)

# %% [markdown]
# The compiler has moved the start up, ahead of the last part of the work. In the second version it has not moved the
# start across the wait, or an iteration would take less than L.
#
# So what counts is which copies are in flight **while the core waits and while it works**.
#
# - If the next start comes before the wait, a buffer is refilled as soon as the work on it is done, and
#   **T = max(c, (L + c) / B)**.
# - If the next start comes after the wait, each copy has B - 1 iterations to arrive, so **T = max(c, L / (B - 1))**.
# - If nothing is in flight while the core works, **T = L + c**, however many buffers there are.
#
# ## The loop as a timeline
#
# The next cell computes when each copy and each piece of work begins and ends, and draws this for four cases (you need
# not read `draw`). **Look for one thing:** in the lower three panels, when does the bar of copy 2 begin?


# %%
def timeline(turns, latency, work, under_way):
    """Return four times for each chunk: requested, arrived, work begun, work done."""
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
# With two copies in flight, copy 2 begins when the work on chunk 0 is done; with four, it begins at once.
#
# > **bubble**: a time in which the core waits for a copy.
#
# The white gaps in the lane of the core are bubbles. The third panel has none after the first, because the work takes
# longer than a copy, so two buffers are enough there.
#
# The next chart is such a timeline of the opening's kernel, predicted (model) with the compiler's latency. **Task:**
# set the buffers to 1 and back to 2, and watch the length of a step. Then leave two buffers, and raise the work until
# no bubble is left. How many cycles of work does that take?

# %%
viz.pipeline_chart(functools.partial(added_up, buffers=2), tall)

# %% [markdown]
# By the formula, the last bubble closes when c = (L + c) / 2, so the work must take as long as a copy, c = L.
#
# ## The loop that `pallas_call` makes
#
# For a plain kernel, `pallas_call` makes this loop from your BlockSpecs, so you do not write it. At each step, for
# every input whose block moves, it starts the copy for the next step and waits for the copy of this one. Then it runs
# the kernel, starts writing the results back, and waits for the write-backs of the step before. `pltpu.emit_pipeline`
# builds the same loop inside your kernel, for arrays in HBM. Are both as fast as ours?


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
# All three are the same loop. `pallas_call` stops at two buffers, while `emit_pipeline` lets you choose the number for
# each input, and lets the kernel do other things between pipelines. `add_kernel` is the same in both, because
# `pl.program_id(0)` is the step inside `emit_pipeline`, too.
#
# Outputs have two buffers as well, and JAX 0.11 refuses more. A write has a shorter latency than a read, so a step that
# does both takes at least the longest of c, (L of the read + c) / B and (L of the write + c) / 2. The first table under
# *Further* compares this rule with the compiler.
#
# ## When are two buffers enough?
#
# The work of `added_up` is far shorter than a latency, so two buffers cannot hide it. More copies in flight would help,
# as would larger ones. The next cell, which you need not read, tries both on 32 MiB with blocks of six sizes. The
# dashed line is the time of the bytes at full speed. **Guess first:** with two buffers, how large must a block be
# before the bytes alone decide the time?

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
# What counts is the number of bytes in flight, divided by the time of one copy. Eight small blocks do as well as two
# large ones, and they take less VMEM.
#
# So two buffers are enough if the work takes longer than a copy, or if the blocks are large. Otherwise you meet **the
# third roof of lesson 3**: with two buffers and small blocks, a step costs half a latency, however little it moves and
# computes. Larger blocks avoid this price, and more buffers lower it up to a point, as the second table under *Further*
# shows.
#
# The published times fit a latency of 0.49 us instead of the simulator's 0.76 us (lesson 3). With this latency, the
# block sizes in the plot would shrink in the same proportion.
#
# ## VMEM to the byte
#
# How much of the VMEM does a kernel need? Each operand takes the size of its block, padded to whole tiles, times the
# number of its buffers. That number is two if the block moves. It is one if the index map and the grid show that the
# block cannot move, if the grid has only one step, or if you write `pl.Buffered(1)`. Scratch counts once, and spills
# come on top.
#
# A published guide (*Define a Custom TPU/GPU Kernel*, Keras) multiplies float32 matrices of 8192 x 8192. Each step
# takes a strip of 128 rows of `a` and one of 128 columns of `b`, and writes a block of 128 x 128. **Compute its VMEM in
# MiB before you run the cell**, on paper.


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
# The kernel needs an eighth of a MiB too much, which is what the two buffers of its output take. Here the count is
# exact: the compiler accepts the kernel with a limit of this many bytes, and refuses it with one byte less.
#
# A kernel gets 16 of a v5e's 128 MiB unless it requests more. With `vmem_limit_bytes` you promise the compiler that so
# much is free. The next cell first gives `a_ref` a single buffer, because its block moves only at every 64th step, and
# then tries three limits on `guide` itself.


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
# above the chip's 128 MiB silently becomes 128 MiB.
#
# The table below counts the same kernel for matrices of 4096, and you can change its sizes. **Task:** set the strips of
# `a` to 384 rows, and the output blocks too. Does that fit, and if not, what would you change?

# %%
viz.vmem_table(guide, *[jax.ShapeDtypeStruct((4096, 4096), jnp.float32)] * 2)

# %% [markdown]
# That needs 16.375 MiB and does not fit. With 256 rows it does, or with one buffer for `a`.
#
# Two parts are easily overlooked. **Padding:** scratch of shape (64, 1) takes whole rows of 128 lanes. **Spills:**
# values for which no register is free are kept in VMEM too, under the same limit, and only the compiler can count them.


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
# The compiler's total is our count plus the spill slots.
#
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
# Look at how long the core waits. With two buffers, a cycle less of work saves only half a cycle if the work is shorter
# than a copy. In that case more copies in flight or larger blocks help.</details>
#
# <details><summary>3. A loop has two buffers, but starts each copy right before the wait for it. What does the second
# buffer bring?</summary>
# It brings nothing, because one copy is in flight at each wait, and none while the core works.</details>
#
# <details><summary>4. A kernel has two inputs and one output, all float32 in blocks of (512, 1024), and all of them
# move. How much VMEM does it need?</summary>
# A block takes 2 MiB, so three operands with two buffers each take 12 MiB, plus the spills.</details>
#
# <details><summary>5. The simulator's cycles take 100 us, and the kernel's bytes take 150 us at full speed. Which time
# is right?</summary>
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
# half of a long latency or the time of a busy core. Four kernels can: one reads and writes, one only reads, one only
# writes, and one copies nothing. If the latency is to blame, the fourth is nearly free, and the third is much faster
# than the second. If the core is to blame, all four take about the same time. We know of no published times for them,
# so with a TPU you may be the first to fill in the left column. The columns *compiler* are predicted (compiler), and
# the last is the formula.


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
# The compiler's columns blame the latency, because the kernel that copies nothing is nearly free.
#
# ### Two waits in one step, and more buffers than help
#
# A step that reads and writes waits twice. If one of the two waits is much longer than the other, only that one counts,
# as the formula says. What if they are about equal? And can there be too many buffers? In the next table, four lines
# copy blocks of 64 rows, and four only read them.


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
# The core's own part grows with the number of buffers. From about 16 buffers on it is nearly the whole step, so 32
# buffers take longer than 16.
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
# The simulator lets every copy run at full speed, however many there are, so eight copies take it about as long as one.
# It knows latencies, but not that the copies share one memory. So its cycles are what the core would need if each copy
# had the HBM to itself, and the bytes divided by the bandwidth are what HBM needs. A report gives the longer of the
# two. For lesson 1 that is 982 us, because three large blocks are in flight at once there, and no HBM moves them at
# that speed.
#
# ### The article's program
#
# With `pl.kernel`, a whole kernel looks like a function of arrays. The JAX team's article "Pallas: Custom Kernels in
# JAX" ends with the program below. It is as printed there, except that `out_shape=` is now `out_type=`, the mesh is now
# `TensorCoreMesh`, and the three sizes are arguments. A mesh says on which cores the kernel runs, which is one core
# here.


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
# The article prints no time, but it says that with well-chosen blocks, a kernel as simple as this can reach 90 % and
# more of the chip. Does this program spend the rest of its time waiting for copies? By the line *a step* it hardly
# waits, because the work of a step takes longer than its copies, so two buffers are enough. The rest is scalar code,
# and a body that takes longer than its matmuls.
#
# Then the article checks the result: `np.testing.assert_allclose(kernel_result, reference, atol=1e-4)`. We run this
# check with all of K and one block of the result instead of 64, which takes about a second. `target()` tells Pallas
# which TPU to assume when there is none. To see why we allow 1e-3, ask how far apart two neighboring float32 values of
# the size of these sums are.

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
# So 1e-4 is only about three such distances, for sums of 4096 products that two programs add up in different orders. A
# result that is off by a fourth distance may differ only in the order of its sum, and need not be wrong.
#
# ### Revisited blocks and buffers
#
# Lesson 4 said that when the grid returns to an output block that it has left, the kernel finds there what the visit
# before the previous one left. Now you can see why: an output has two buffers, which alternate from visit to visit, and
# nothing is ever copied *in*. With `pl.Buffered(1)`, a visit finds what the previous visit left. The next cell runs
# JAX's own pipeline in the simulator, on three blocks that hold 1, 2 and 4, and visits each of them twice. **Guess
# first** what comes out with one buffer, and with two.


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
# Each second visit adds 1, 2 or 4 to what it finds, which is 4, 5 and 7 with one buffer, and 2, 4 and 3 with two.
#
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
