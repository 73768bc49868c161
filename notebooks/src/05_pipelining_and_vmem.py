# %% [markdown]
# # Lesson 5: Pipelining and VMEM
#
# *60 minutes, then 58 for the exercises. What stands under "Further" is not counted, and no exercise needs it. You need the
# words of lesson 2, lesson 4, and of lesson 3 the third roof. A TPU adds one thing: a cell under "Further" times on it what
# is predicted here.*
#
# Below, one kernel adds up all blocks of 64 rows of a matrix, and two calls of it differ in one digit: `pl.Buffered(n)` asks for
# n buffers for an operand. They copy the same blocks, in the same order, and compute the same. Run the three cells.

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
    """As many steps of the same work, on one block: nothing to copy after the first step."""
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
print(f"one, two: {one.cycles / two.cycles:.2f} times as long. All predicted (compiler)")

# %% [markdown]
# Lesson 3 said: at best the longer of bytes and work, at worst their sum. Here both calls take far longer than the sum,
# and a digit makes a factor of two.
#
# Lesson 3 also had a rule for a step: half of latency, bytes and work. Today you build the loop, and see where the half comes
# from, and when it is wrong. **Why is it exactly two?** Write down a guess, and a second one: what would three buffers
# do? By the middle of this lesson you compute the last two lines from the second.
#
# After this lesson you can
# - start a copy, wait for it, and find the wait that is missing or one too many,
# - write a loop in which the next block arrives while this one is worked on,
# - say how long a step takes, from a latency, its work, and how many copies are under way,
# - say when two buffers are enough, and what more of them buy,
# - count VMEM to the byte, and find the largest block that fits.
#
# ## A copy by hand
#
# So far every copy was made for you. Here is one made by hand. `memory_space=pl.ANY` leaves x and the result in HBM, so
# the kernel gets them whole, and may not read them there. It copies.
#
# > **asynchronous copy**: a copy that is started and then goes on by itself, while the core does something else.
# >
# > **DMA semaphore**: the counter by which a copy says that it has arrived. A wait takes from it
# > as much as the copy that it names will have moved.
#
# `pltpu.make_async_copy(source, target, semaphore)` describes a copy and moves nothing. `.start()` sends it off, and
# `.wait()` ends when it has arrived. A semaphore is scratch: `pltpu.SemaphoreType.DMA((2,))` is two of them.


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
# What if a line is missing? Below the first `.wait()` is left out, and then there is one too many. Which judge notices,
# and what happens on a chip? Guess both before you run the cell.


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
# The compiler takes both: it does not count waits. Without a wait the kernel reads what was in VMEM before, or half of
# it. With one too many a chip would stand still for ever. Our judges compare what is started with what is waited for, before anything runs.
#
# ## The next one while this one
#
# Now the sum of the opening, by hand. `fetch(i)` describes the copy of chunk i into buffer i mod `buffers`, so that start
# and wait name the same semaphore by construction. Read the loop with `buffers=2`: what is started before the first wait?
#
# > **prologue**: the copies that are started before the loop.
# >
# > **steady state**: the turns of a loop that are all alike: start the copy of a later chunk, wait for this one, work on it.
# >
# > **drain**: the last turns, which have nothing left to start.
#
# `x_hbm.at[pl.ds(64, 32)]` is a part of a place: 32 rows from row 64 on. Nothing is read; `x_hbm[...]` would read.
# `in_ref.at[b]` is buffer b, `in_sem.at[b]` its semaphore. `pl.loop(0, n)` runs the function below it for i = 0 to n - 1.


# %%
def by_hand(x, buffers, exps=0, rows=ROWS):
    """The sum of all chunks of so many rows; ``exps``: so many exp for each number, as work."""
    chunks = x.shape[0] // rows

    def kernel(x_hbm, o_ref, in_ref, in_sem):
        def fetch(i):
            b = jax.lax.rem(i, buffers)  # i mod buffers, for numbers that are not negative
            chunk = x_hbm.at[pl.ds(rows * i, rows)]
            return pltpu.make_async_copy(chunk, in_ref.at[b], in_sem.at[b])

        o_ref[...] = jnp.zeros_like(o_ref)
        for i in range(min(buffers - 1, chunks)):  # the prologue
            fetch(i).start()

        @pl.loop(0, chunks)
        def turn(i):
            later = i + buffers - 1

            @pl.when(later < chunks)  # in the drain there is no later one
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
# In which order do things happen? `grid.memory_uses` follows a kernel's code without running it. Here are four chunks, with
# one buffer, two and three. **Look for one thing:** how many copies are under way whenever the kernel waits?


# %%
def story(fn, *args):
    """Starts and waits for copies of x, in the order of time, each with how many are under way."""
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
# The numbers in brackets are the copies under way at a wait: one with one buffer, two with two, three with three. With
# two buffers one chunk is waited for while the next is already on its way: the next start comes *before* the wait.
#
# Results go home in the same way, in chunks and from buffers of their own. A buffer that is on its way home must not be
# written to. So with two of them turn i waits for the copy of turn i - 2 before it fills its buffer, and behind the loop
# the last two copies are waited for. Exercise 05.7 builds that.
#
# ## How long is a turn?
#
# **Predict first.** A turn with one buffer takes some 1200 cycles, and the core is busy in about 20 of them. What does it
# take with two buffers? Three? Eight? Then the second experiment: two buffers, and more and more work in a turn. How much
# longer does a turn take for 100 cycles of work more? Write down four numbers.


# %% tags=["predict"]
def cycles_of_a_turn(fn, rows=ROWS):
    """(cycles that a further chunk costs, of 48 less 24; those in which the core is busy)."""
    few, more = (
        compiler.compile_tpu(fn, jax.ShapeDtypeStruct((n * rows, 128), jnp.float32))
        for n in (24, 48)
    )
    busy = sum(more.step.get(part, 0) for part in ("work", "scalar code"))
    return (more.cycles - few.cycles) / 24, busy


print("cycles of a turn, predicted (compiler)")
by_buffers = {}
for buffers in (1, 2, 3, 4, 8):
    turn, busy = cycles_of_a_turn(functools.partial(by_hand, buffers=buffers))
    by_buffers[buffers] = turn, busy
    print(f"{buffers} buffers: {turn:6.0f}   of it the core is busy {busy:3.0f}")

by_work = {}
for exps in (8, 16, 64, 128, 192):
    turn, busy = cycles_of_a_turn(functools.partial(by_hand, buffers=2, exps=exps))
    by_work[exps] = turn, busy
    print(f"2 buffers, {exps:3} exp: {turn:6.0f}   of it the core is busy {busy:4.0f}")

# %% [markdown]
# Two buffers: half. Three: a third. Eight: an eighth. And with two buffers 100 cycles of work more cost 50, until the
# core is busy all of the time. From there on they cost 100.
#
# Both follow from one sentence. **Follow one buffer.** It is filled, which takes a latency and some bytes. Then it is
# worked on. Then it is free, and the next copy into it starts. So each buffer goes round in latency + bytes + work, and
# serves one turn in each round. B buffers serve B turns. And the core can do one thing at a time. Let L be what a copy
# takes, c the work of a turn:
#
# > **a turn takes T = max(c, (L + c) / B).**
#
# And never less than its bytes at the full speed of HBM, which all copies share: the simulator leaves that out, a report
# puts it in. With one buffer T is L + c. That is the factor of exactly two of the opening: (L + c) / 1 against (L + c) / 2.
#
# Does it hold? First L. With one buffer a turn is L + c, so L is what a turn takes beyond c. For chunks of two sizes:


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
# Now the formula, beside all ten turns from above.


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
# Ten of ten, and only the first of them went into L. For 30 other kernels the formula is 0.9 % off in the middle, and 7.6 %
# at worst ([docs/compiler.md](../docs/compiler.md)). And the opening? c is its work line, cut into 256 turns:

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
# One often reads that with two buffers *one* is filled while the other is worked on, so that B - 1 copies hide a latency. By
# that a turn would take L with two buffers, about as much as with one. It takes half. Either may be true: it depends on
# the place of one line. Here are four places for the start of the next copy, with two buffers each time, and with enough
# work to tell L from L + c. **Guess** what each of them takes: (L + c) / 2, L, or L + c.


# %% tags=["predict"]
def placed(x, place, exps=64):
    """by_hand with two buffers; ``place``: where in a turn the next copy is started."""
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
            if place == "behind the wait":
                ahead()
            value = in_ref[jax.lax.rem(i, 2)]
            for _ in range(exps):
                value = jnp.exp(value)
            o_ref[...] += value
            if place == "behind the work":
                ahead()

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, ROWS, 128), x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)


PLACES = ("before the wait", "behind the wait", "behind the work", "waited for at once")
for place in PLACES:
    print(f"{place:19} {story(functools.partial(placed, place=place), x[: 3 * ROWS])}")
work = by_work[64][1]
print(
    f"\n(L + c) / 2 = {(L + work) / 2:.0f}, L = {L:.0f}, L + c = {L + work:.0f}; compiler:"
)
for place in PLACES:
    turn, _ = cycles_of_a_turn(functools.partial(placed, place=place))
    print(f"{place:19} {turn:5.0f} cycles a turn")

# %% [markdown]
# Started before the wait, a turn takes (L + c) / 2. Started behind the wait, it takes L. Waited for at once, nothing is ever
# under way while the core works: L + c, and **the turn has doubled**. All four have the same buffers and the same bytes.
#
# And the third? By its place it should take L + c as well. The compiler may move a start past work that it does not touch:

# %%
report = compiler.compile_tpu(functools.partial(placed, place="behind the work"), tall)
body = [" ".join(bundle.instructions) for bundle in report.listing if bundle.depth]
started = max(n for n, told in enumerate(body) if "dma.hbm_to_vmem" in told)
last_exp = max(n for n, told in enumerate(body) if "vpow" in told)
print(
    f"bundle {started} of the turn's {len(body)} starts the copy, {last_exp} has the last exp"
)

# %% [markdown]
# It has pulled the start up, past the last of the work. A start can be moved, a wait holds everything.
#
# So what counts is what goes on **while the core works**.
#
# - The next start comes before the wait: a buffer is asked for again as soon as its work is done.
#   **T = max(c, (L + c) / B)**.
# - It comes behind the wait: one buffer is always the one being worked on, and the other B - 1 copies have whole turns to
#   arrive. **T = max(c, L / (B - 1))**. That is the B - 1 that one reads of.
# - Nothing is under way while the core works: **T = L + c**, however many buffers there are.
#
# ## The same as a picture
#
# The loop is simple enough to be played with a clock. **Look for one thing:** in the lower three pictures, when does the
# bar of copy 2 begin?


# %%
def timeline(turns, latency, work, under_way):
    """(asked, arrived, begun, done) of each chunk: a copy is asked for when there is room for it."""
    clock, asked, events = 0.0, [0.0] * under_way, []
    for i in range(turns):
        begun = max(clock, asked[i] + latency)
        clock = begun + work
        events.append((asked[i], asked[i] + latency, begun, clock))
        asked.append(clock)  # the buffer is free: chunk i + under_way may come
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
draw(panels[0], "one under way", L, 250, 1)
draw(panels[1], "two under way", L, 250, 2)
draw(panels[2], "two under way, more work", L, 1300, 2)
draw(panels[3], "four under way", L, 250, 4)
panels[3].set_xlabel("cycles; pale: copies on their way; dark: the core at work")
viz.plot_picture(
    fig,
    "With one copy under way the core works a sixth of the time. With two it still waits, "
    "unless its work is as long as a copy. With four it waits less.",
)

# %% [markdown]
# Copy 2 begins when the work on chunk 0 is done, and with four buffers at once. The white gaps in the lane of the core are
# bubbles. In the third picture they are gone after the first: there the work is longer than a copy, and two buffers are
# enough.
#
# > **bubble**: a time in which the core waits for a copy.
#
# Here is the kernel of the opening to play with. Its times are our model's, with the latency of the compiler. **Task:** set
# the buffers to 1 and back to 2, and watch the length of a step. Then leave two buffers, and raise the work until no bubble
# is left. How many cycles does it take? The formula knows: that is where c = (L + c) / 2.

# %%
viz.pipeline_chart(functools.partial(added_up, buffers=2), tall)

# %% [markdown]
# As many as a copy takes: from c = L on the core is always busy.
#
# ## The loop that `pallas_call` makes
#
# Nobody writes this loop for a plain kernel. `pallas_call` makes it from your BlockSpecs, for each operand whose block
# moves: it asks for the blocks of the next step, waits for those of this one, runs the kernel, sends the results of this
# step off, and waits for those of the step before. How do they compare?


# %%
def in_chunks(x, rows, buffers):
    """The sum of all chunks of so many rows; emit_pipeline makes the loop."""

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
# All three are one loop. `pallas_call` stops at two buffers. `emit_pipeline` is the same machine inside your kernel, for
# arrays that the kernel has been given whole: there you choose the buffers of each input, and may do things before, behind
# and between pipelines. `add_kernel` is the same in both: inside `emit_pipeline`, too, `pl.program_id(0)` is the step.
#
# What is written back has two buffers as well, and with JAX 0.11 never more. A write is answered sooner than a read. So a step that reads
# and writes takes at least the longest of c, (L of the read + c) / B and (L of the write + c) / 2. The first table under
# *Further* has all of these.
#
# ## When are two buffers enough?
#
# Go back to a kernel that does little: `added_up`. Its work is far shorter than a latency, so two buffers cannot hide it.
# Two things help: more copies under way, or longer copies. Here are both, for 32 MiB. The dashed line is what the bytes
# take at the full speed of HBM. **Guess first:** with two buffers, from how large a block on do the bytes decide?

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
    "on, with two only from large ones.",
)

# %% [markdown]
# (These are the first of the six sizes tried.) What counts is the bytes under way, divided by the time of one copy. Eight
# small blocks do it as well as two large ones, in less VMEM.
#
# So two are enough if the work is longer than a copy, or if the blocks are large. **This is
# the third roof of lesson 3**: with two buffers and small blocks a step costs half a latency, however little it moves and computes.
# More buffers lower it, up to a dozen or so: *Further* has the table. Larger blocks get out from under it.
#
# To published times a shorter latency fits than the simulator's, 0.49 us in place of 0.76 (lesson 3). Then the sizes in the
# picture shrink in the same proportion.
#
# ## VMEM to the byte
#
# Buffers are VMEM, and VMEM ends. How much does a kernel take? For each operand: the block, padded to whole tiles, times its
# buffers. Two buffers if the block moves. One if map and grid show that it cannot move, if the grid has one step, or if you ask for it with
# `pl.Buffered(1)`. Then scratch, once. Then the spills.
#
# A published guide (*Define a Custom TPU/GPU Kernel*, Keras) takes strips of 128 rows and of 128 columns of float32
# matrices of 8192, and has one block of 128 x 128 out. **Compute it before you run the cell**, in MiB, with pencil and paper.


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
    asked = "not asked for" if limit is None else f"{limit:,}"
    print(f"limit {asked:13}  {'compiles' if report.ok else 'refused'}")

# %% [markdown]
# An eighth of a MiB too much: the two buffers of the output. Here the count is exact. With a limit of one byte less the compiler
# refuses, with that limit it takes the kernel.
#
# A kernel gets 16 of a v5e's 128 MiB unless it asks for more: `vmem_limit_bytes` is a promise to the compiler that so much
# is free. How much can one ask for? And what do buffers cost that are not needed? In the first line below `a_ref`, which
# moves at every 64th step only, has one buffer.


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
# `pl.Buffered(1)` on a block that seldom moves saves its second buffer, and costs one wait in 64 steps. Above 128 MiB, which
# is all there is, you silently get 128.
#
# Here is the same table to play with, for matrices of 4096. **Task:** give the strips of a 384 rows, and the blocks
# of the output 384 rows too. Does it fit? Which of the sizes would you change to make it fit?

# %%
viz.vmem_table(guide, *[jax.ShapeDtypeStruct((4096, 4096), jnp.float32)] * 2)

# %% [markdown]
# 16.375 MiB: it does not. With 256 rows it does, or with one buffer for a.
#
# Two things surprise people. **Padding:** scratch of (64, 1) takes whole rows of 128 lanes. **Spills:** what finds no
# register lies in VMEM too, under the same limit, and nobody counts it before the compiler does.


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
# <details><summary>1. A copy takes 1200 cycles, the work on a block 400. How long is a step with one buffer, with two, with
# four, with eight?</summary>
# 1600, 800, 400, 400. With four the core is busy all of the time.</details>
#
# <details><summary>2. You make the work of a step half as long, and the kernel is hardly faster. What do you look at?</summary>
# At the waiting: with two buffers a cycle of work below the latency costs half a cycle. More copies under way, or larger
# blocks.</details>
#
# <details><summary>3. A loop has two buffers, and starts each copy right before it waits for it. What is the second buffer good
# for?</summary>
# Nothing. At each wait one copy is under way, and nothing while the core works.</details>
#
# <details><summary>4. A kernel with three float32 operands in blocks of (512, 1024), all of which move, two in and one out. How
# much VMEM?</summary>
# 2 MiB a block, two buffers, three operands: 12 MiB, and what spills.</details>
#
# <details><summary>5. The compiler says 100 us, and the bytes of the kernel take 150 us at full speed. Which is it?</summary>
# 150 us at least. The simulator does not know that copies share the HBM.</details>

# %% [markdown]
# Question 1, for those who like to see it:

# %%
print([turn_by_formula(1200, 400, buffers) for buffers in (1, 2, 4, 8)])

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 5](../exercises/05_pipelining_and_vmem.ipynb). The first one is a copy, some work, a copy.
#
# ## Further
#
# No exercise needs what follows.
#
# ### On a real chip: latency or issue?
#
# All of the above is the compiler's word. The published times of lesson 3 cannot tell whether a step of 0.35 us is half a
# long latency or a busy core. Four kernels can, and nobody has published them. They read and write, only read, only write, and
# copy nothing. If latency is guilty, the fourth is nearly free, and the third is much shorter than the second. If the core is
# guilty, all four take about the same. If you have a TPU, you will be the first to fill in the
# left column. *Compiler* is predicted (compiler), beside it is the formula.


# %%
def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def steps_that(reads, writes, steps=4096):
    """``steps`` steps on blocks of (8, 128); blocks that are not to be copied stay where they are."""
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
# A step that reads and writes waits twice. If one of the waits is much the longer, only that one counts, as the formula has
# it. What if they are about equal? And can there be too many buffers? The first lines below copy blocks of 64 rows. The others only
# read them.


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


print("predicted (compiler)      formula  compiler  of it the core is busy")
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
# With four buffers the two waits of the copying kernel are about equal, and a step takes an eighth more than the formula, which is
# close wherever one of them is the longer.
#
# The core's own part grows with the buffers. From about 16 on it is all of the step: 32 take longer than 16.
#
# ### 528,049 cycles, and 982 us
#
# Lesson 1's report on 64 Mi additions said 528,049 cycles, which are 351 us, and also 982 us, and told you why both are
# right. Here you can see it: one copy of a MiB, then two, four, eight at once.


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
# The simulator lets every copy run at full speed, however many there are: eight MiB cost it as much as one. It knows
# latencies, not that the copies share one memory. So its cycles are what the core would need if each copy had the HBM to itself, and the
# bytes over the bandwidth are what HBM needs. A report says the longer of the two. For lesson 1 that is 982 us: three large blocks are under way
# at once there, which no HBM brings at that speed.
#
# ### The article's program
#
# With `pl.kernel` a whole kernel looks like a function of arrays. This is the program with which the JAX team's article
# "Pallas: Custom Kernels in JAX" ends, as printed there except for three things. Today `out_shape=` is `out_type=`, the mesh is
# called `TensorCoreMesh`, and the three sizes are arguments here. A mesh says on which cores the kernel runs: here on one.


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
# The article prints no time. It says that with well chosen blocks a kernel as simple as this can reach 90 % and more. Is the
# rest waiting for copies? Read the line *a step*: 4096 is cut into steps whose work is longer than their copies, and next to
# nothing is waited for. Two buffers are enough here. What is left over is scalar code, and a body that is longer than its
# products. (The simulator again lets copies share nothing; a chart of this kernel by our model, in which they share the
# HBM, shows some waiting.)
#
# Then the article checks: `np.testing.assert_allclose(kernel_result, reference, atol=1e-4)`. We run it with all of K, and
# one block of the result in place of 64, which takes this machine a second. `target()` says which TPU is meant where there
# is none. And we allow 1e-3: how far apart are two neighbouring float32 numbers of the size of these sums?

# %%
a = jax.random.normal(jax.random.key(0), (512, 4096), jnp.bfloat16)
b = jax.random.normal(jax.random.key(1), (4096, 512), jnp.bfloat16)
reference = jnp.dot(a, b, preferred_element_type=jnp.float32)
with chips.chip("v5e").target():
    kernel_result = article(512, 512, 4096)(a, b)
np.testing.assert_allclose(kernel_result, reference, atol=1e-3)
print("assert_allclose is content")
print(f"neighbours are {np.spacing(jnp.abs(reference).max()):.1e} apart at the largest sum")

# %% [markdown]
# So 1e-4 is three such steps, for sums of 4096 products that two programs add up in different orders. To miss it by one is the
# order of a sum, and no mistake.
#
# ### Revisited blocks and buffers
#
# Lesson 4 said that an output which is left and come back to finds what the visit before last has left. Now you can see
# why: an output has two buffers, which take turns from visit to visit, and nothing is ever copied *in*. With `pl.Buffered(1)`
# a visit finds what the last one left. Here is JAX's own pipeline in the simulator, with three blocks that hold 1, 2 and 4.
# Each is visited twice. **Guess first** what comes out with one buffer, and with two.


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
        print(f"{buffers} of the output: {sums[::8, 0]}")
print(f"asked for:       {2 * blocks[::8, 0]}")

# %% [markdown]
# ### Other chips, other latencies
#
# The compiler has other latencies for other chips. How many bytes must be under way, at least, so that HBM does not
# wait? Multiply the latency by the bandwidth. Large blocks need more: the time of their own bytes comes on top.

# %%
print("chip    read, ns   bytes that HBM could bring meanwhile")
for name in roofline.LATENCY_CYCLES:
    seconds = roofline.latency(1.0, chip=name)["read_s"]
    meanwhile = seconds * chips.chip(name).program_bandwidth
    print(f"{name:7} {seconds * 1e9:8.0f}   {meanwhile / 1024:6.0f} KiB")

# %% [markdown]
# <!-- next -->
