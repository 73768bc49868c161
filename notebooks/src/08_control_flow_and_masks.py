# %% [markdown]
# # Lesson 8: Control flow and masks
#
# *60 minutes, then 59 for the exercises. What stands under "Further" is not counted, and no exercise needs it. You need
# lesson 1, lesson 4, and of lesson 2 the units and the bundles. A TPU adds one thing: what lies past the end of an array
# there is whatever was left. It may look like good numbers, and it may be NaN. The simulator first puts NaN there (the largest
# integer among integers), and other values where NaN could not show a mistake.*
#
# Below is one sum, made in three ways: of each column of a square table, the numbers on the diagonal and above it. Nearly
# half of the blocks lie below the diagonal and have nothing to add. `A` works on all of them, with a mask. `B` skips the
# work on those below. `C` is `B` with another index map. Run the three cells.

# %%
# FIRST CELL

# %%
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, cost, grid, judges, viz


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def upper_sums(x, skip_work, stay_at_diagonal, side=512):
    """Of each column of x[N, N] the sum down to the diagonal, in blocks of side x side."""

    def kernel(x_ref, o_ref):
        j, i = pl.program_id(0), pl.program_id(1)  # the block's column, and its row

        @pl.when(i == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        def add():
            row = side * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
            column = side * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
            above = jnp.where(row <= column, x_ref[...], 0)
            o_ref[...] += jnp.sum(above, axis=0, keepdims=True)

        if skip_work:
            pl.when(i <= j)(add)
        else:
            add()

    def block_of_x(j, i):
        return (jnp.minimum(i, j), j) if stay_at_diagonal else (i, j)

    blocks = x.shape[0] // side
    return pl.pallas_call(
        kernel,
        out_shape=f32(1, x.shape[1]),
        grid=(blocks, blocks),
        in_specs=[pl.BlockSpec((side, side), block_of_x)],
        out_specs=pl.BlockSpec((1, side), lambda j, i: (0, j)),
    )(x)


CALLS = {
    "A": functools.partial(upper_sums, skip_work=False, stay_at_diagonal=False),
    "B": functools.partial(upper_sums, skip_work=True, stay_at_diagonal=False),
    "C": functools.partial(upper_sums, skip_work=True, stay_at_diagonal=True),
}
small = jax.random.normal(jax.random.key(0), (384, 384))
for name, call in CALLS.items():
    sums = call(small, side=128)
    same = jnp.allclose(sums, jnp.triu(small).sum(axis=0), atol=1e-4)
    print(f"{name}: right: {bool(same)}")

# %%
table = f32(4096, 4096)
reports = {name: compiler.compile_tpu(call, table) for name, call in CALLS.items()}
for report in sorted(reports.values(), key=lambda report: report.seconds):
    print(f"one of the three: {report.seconds * 1e6:5.1f} us, predicted (compiler)")

# %% [markdown]
# All three are right, two of them skip nearly half of the work, and two of them take the same time. **Which one is fast,
# and why?** Write down a letter and a reason.
#
# After this lesson you can
# - say who decides in a kernel: Python, the scalar unit, or every element by itself,
# - write a loop that the compiler can fill, and read off its program whether it did,
# - mask a ragged axis: where, with what number, and when it needs no mask,
# - skip blocks, and their copies too,
# - carry something from block to block, an online softmax among it.
#
# ## Who decides?
#
# There are three kinds of "if" in `upper_sums`. `if skip_work:` is Python's. It runs while JAX traces the kernel, and
# the compiler never hears of the branch that was not taken. `pl.when(i <= j)` is decided at every grid step. And
# `jnp.where(row <= column, ...)` is decided for every element.
#
# What if one is used for another? Below are three kernels that double what is positive. **Before you run the cell:** which
# of them can be compiled?


# %% tags=["predict"]
def with_python_if(x_ref, o_ref):
    if x_ref[0, 0] > 0:
        o_ref[...] = 2 * x_ref[...]


def when_of_a_block(x_ref, o_ref):
    @pl.when(x_ref[...] > 0)
    def double():
        o_ref[...] = 2 * x_ref[...]


def where_of_a_block(x_ref, o_ref):
    o_ref[...] = jnp.where(x_ref[...] > 0, 2 * x_ref[...], x_ref[...])


for kernel in (with_python_if, when_of_a_block, where_of_a_block):
    report = compiler.compile_tpu(
        pl.pallas_call(kernel, out_shape=f32(8, 128)), f32(8, 128), simulate=False
    )
    print(f"{kernel.__name__}: {'compiles' if report.ok else report.error}\n")

# %% [markdown]
# Python cannot know a number that is there only when the kernel runs. And a branch is taken or not: it wants one answer, not
# 1024.
#
# > **scalar predicate**: one condition for a whole step, decided by the scalar unit: `pl.when` and `jax.lax.cond` take it.
# > It may depend on grid indices, on numbers in SMEM, and on a block that was reduced to one number, with `jnp.any` say.
#
# > **vector predicate**: a condition for every element. `jnp.where` takes it, and chooses between two values that are both
# > there.
#
# Both are there: so `where` computes both sides. Below a sine is wanted for 512 rows, in four of sixteen steps; a sine is
# more than a hundred operations of the VPU for each register. All blocks stay where they are, so nothing is copied in between. **Predict:** how many
# times longer does a step take with `where`, on average, than with `cond`?


# %% tags=["predict"]
def maybe_sine(x, how, in_steps):
    def kernel(x_ref, o_ref):
        x, wanted = x_ref[...], pl.program_id(0) < in_steps
        if how == "where":
            o_ref[...] = jnp.where(wanted, jnp.sin(x), x)
        else:
            o_ref[...] = jax.lax.cond(wanted, lambda: jnp.sin(x), lambda: x)

    stays = pl.BlockSpec(x.shape, lambda i: (0, 0))
    return pl.pallas_call(
        kernel, out_shape=x, grid=(16,), in_specs=[stays], out_specs=stays
    )(x)


print("cycles of a step, predicted (compiler)")
for how in ("where", "cond"):
    for in_steps in (0, 4, 16):
        call = functools.partial(maybe_sine, how=how, in_steps=in_steps)
        report = compiler.compile_tpu(call, f32(512, 128))
        print(f"{how:6} in {in_steps:2} of 16 steps {report.cycles / 16:8,.0f}")

# %% [markdown]
# `where` pays for the sine in every step, `cond` in those that want it. It is not four times, since a step without the sine
# still reads its block and writes it. And where every step wants it, `cond` is the dearer one. (`cond` returns a value;
# `pl.when` writes to refs, or not. If both branches are small, the compiler may compute both and select: *Further*.)
#
# A scalar predicate wants a scalar. Where should that number lie? Below one number is read in each turn of a
# loop, and multiplied with a register. **Guess** the order of the three.


# %% tags=["predict"]
IN_SMEM, IN_VMEM = (pl.BlockSpec(memory_space=m) for m in (pltpu.SMEM, pltpu.VMEM))


def times_a_number(s, x, where, unroll):
    def kernel(s_ref, v_ref, x_ref, o_ref):
        def turn(i, carry):
            if where == "SMEM":
                number = s_ref[i]
            elif where == "VMEM":
                number = v_ref[i, 0, 0]
            else:
                number = jnp.sum(v_ref[i])
            o_ref[i] = x_ref[i] * number
            return carry

        jax.lax.fori_loop(0, x.shape[0], turn, 0, unroll=unroll)

    specs = [IN_SMEM, IN_VMEM, IN_VMEM]
    return pl.pallas_call(kernel, out_shape=x, in_specs=specs)(s, x, x)


def work(report):
    """Cycles without waiting for copies."""
    return report.cycles - report.time_split["DMA wait"]


def one_more(fn, argument):
    """Cycles for one more turn: of 128 instead of 64. ``argument(n)`` are the arguments for n turns."""
    some, more = (compiler.compile_tpu(fn, *argument(n)) for n in (64, 128))
    return (work(more) - work(some)) / 64


print("cycles of a turn, predicted (compiler)      unroll=1   unroll=8")
for where in ("SMEM", "VMEM", "a sum over VMEM"):
    found = [
        one_more(
            functools.partial(times_a_number, where=where, unroll=unroll),
            lambda n: (f32(n), f32(n, 8, 128)),
        )
        for unroll in (1, 8)
    ]
    print(f"{where:40} {found[0]:10.0f} {found[1]:10.0f}")

# %% [markdown]
# From VMEM to the scalar unit is a long way, by a vector register (in the program: `vld`, `vpush`, `spop`). A number that is
# computed from a vector is further away still. The way is a wait: eight turns written out side by side, which is
# `unroll=8`, hide most of it. So: lengths, counters and switches into SMEM, with
# `pl.BlockSpec(memory_space=pltpu.SMEM)`.
#
# ## Loops
#
# **Predict:** how many bundles has the program of a loop with 8 turns, and how many with 512?


# %% tags=["predict"]
def turns(x, body, unroll=1):
    """o[i] = body(x[i]), a register in each turn."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            o_ref[i] = body(x_ref[i])
            return carry

        jax.lax.fori_loop(0, x.shape[0], turn, 0, unroll=unroll)

    return pl.pallas_call(kernel, out_shape=x)(x)


def with_while(x):
    def kernel(x_ref, o_ref):
        def go_on(i):
            return i < x.shape[0]

        def turn(i):
            o_ref[i] = x_ref[i] + 1
            return i + 1

        jax.lax.while_loop(go_on, turn, 0)

    return pl.pallas_call(kernel, out_shape=x)(x)


def plus_one(v):
    return v + 1


print("for_loop is in jax.lax:", hasattr(jax.lax, "for_loop"))
for n in (8, 64, 512):
    report = compiler.compile_tpu(functools.partial(turns, body=plus_one), f32(n, 8, 128))
    print(f"fori_loop, {n:3} turns: {report.bundles} bundles")
report = compiler.compile_tpu(with_while, f32(512, 8, 128))
print(f"while_loop, 512 turns: {report.bundles} bundles")

# %% [markdown]
# The program is the same for 8 turns and for 512: a loop is a loop. JAX's page on
# [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) says otherwise: loops "get fully unrolled
# during the compilation", so keep them short. It has aged. It names `for_loop`, which `jax.lax` has not; `while_loop`,
# which it does not name, works. Writing the turns out is now yours to ask for.
#
# > **unroll**: to write several turns of a loop one after another in the program. `fori_loop(..., unroll=8)` asks for eight.
#
# What is it good for? Here are three loops. The first adds 1 to each register. The second takes eight exponentials in a row of
# each. The third carries a register from turn to turn: half of what was carried, plus the next. **For each: does unroll=8
# help, and about how many times?**


# %%
def eight_exps(v):
    for _ in range(8):
        v = jnp.exp(v)
    return v


def carried(x, unroll=1):
    """Half of the old one plus the next, from register to register; the last is the result."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            return 0.5 * carry + x_ref[i]

        first = jnp.zeros(o_ref.shape, o_ref.dtype)
        o_ref[...] = jax.lax.fori_loop(0, x.shape[0], turn, first, unroll=unroll)

    return pl.pallas_call(kernel, out_shape=f32(8, 128))(x)


def registers(n):
    return (f32(n, 8, 128),)


LOOPS = {
    "plus 1": functools.partial(turns, body=plus_one),
    "eight exps": functools.partial(turns, body=eight_exps),
    "carried": carried,
}
UNROLLS = (1, 2, 4, 8)
print("cycles of a turn, predicted (compiler)")
print("unroll      " + "".join(f"{unroll:8}" for unroll in UNROLLS))
for name, loop in LOOPS.items():
    found = [
        one_more(functools.partial(loop, unroll=unroll), registers) for unroll in UNROLLS
    ]
    print(f"{name:12}" + "".join(f"{cycles:8.1f}" for cycles in found))

# %% [markdown]
# The exponentials gain most, more than seven times. The carried loop gains nothing at all. (So it is with libtpu 0.0.48, which
# comes with the course; 0.0.50 unrolls such loops, too, and the one of exercise 08.8 then takes 6 % fewer cycles.) Below is the body of the second
# loop. Choose an unroll. **Look for one thing:** how many columns of the EUP, which makes exponentials, are filled at 1, and
# how many at 8?

# %%
loops = {
    unroll: functools.partial(turns, body=eight_exps, unroll=unroll) for unroll in UNROLLS
}
viz.unroll_viewer(
    {unroll: compiler.bundles(loop, f32(64, 8, 128)) for unroll, loop in loops.items()},
    cycles={unroll: one_more(loop, registers) for unroll, loop in loops.items()},
)

# %% [markdown]
# At 1 each exponential waits for the one before it, and next to nothing else is there to be done. (A bundle can wait, so a
# turn takes more cycles than it has bundles.) Turns do not overlap by themselves: the next begins when this one is done.
# Written out, eight chains stand in one piece of program, and fill each other's gaps.
#
# > **chain**: operations that each wait for the one before.
#
# And why does the carried loop gain nothing? Two things may be to blame: it is a chain from its first turn to its last, and
# it carries. Below are two loops with one of them each. In the first the chain goes through VMEM, and nothing is carried.
# The second takes the eight exponentials, no turn waits for another, and a whole number is carried beside them. **Which of
# the two does unroll=8 help?**


# %% tags=["predict"]
def chain_in_vmem(x, unroll):
    def kernel(x_ref, o_ref):
        def turn(i, carry):
            o_ref[...] = 0.5 * o_ref[...] + x_ref[i]
            return carry

        o_ref[...] = jnp.zeros_like(o_ref)
        jax.lax.fori_loop(0, x.shape[0], turn, 0, unroll=unroll)

    return pl.pallas_call(kernel, out_shape=f32(8, 128))(x)


def carries_a_number(x, unroll):
    def kernel(x_ref, o_ref):
        def turn(i, number):
            o_ref[i] = eight_exps(x_ref[i])
            return number + 3

        number = jax.lax.fori_loop(0, x.shape[0], turn, 0, unroll=unroll)
        o_ref[0] += number.astype(jnp.float32)

    return pl.pallas_call(kernel, out_shape=x)(x)


print("cycles of a turn, predicted (compiler)")
for loop in (chain_in_vmem, carries_a_number):
    for unroll in (1, 8):
        call = functools.partial(loop, unroll=unroll)
        bundles = compiler.compile_tpu(call, f32(64, 8, 128)).bundles
        found = one_more(call, registers)
        print(f"{loop.__name__:16} unroll={unroll}: {found:5.1f}   {bundles} bundles")

# %% [markdown]
# The chain is unrolled, and the loop that carries is not. **Under `jax.jit` the compiler ignores `unroll` on a loop whose carry
# changes from turn to turn.** (A carry that is returned as it came, as in `turns`, does not count.) Its program is the same to the bundle (unless you ask for all turns:
# *Further*). `jax.export` writes the turns out before the compiler sees the loop. So take several in a turn yourself: write
# them out. Below, registers are added up, 1, 4 or 8 in a turn, in one sum or in
# several that grow side by side; and then the eight exponentials of each register. **Predict** for four in a turn: how many
# times faster with one sum, and with four?


# %% tags=["predict"]
def in_turns(x, of_each, in_a_turn, sums=1):
    """of_each(register), added up: ``in_a_turn`` registers in each turn, in so many sums."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            carry = list(carry)
            for k in range(in_a_turn):
                carry[k % sums] += of_each(x_ref[in_a_turn * i + k])
            return tuple(carry)

        zeros = (jnp.zeros(o_ref.shape, o_ref.dtype),) * sums
        o_ref[...] = sum(jax.lax.fori_loop(0, x.shape[0] // in_a_turn, turn, zeros))

    return pl.pallas_call(kernel, out_shape=f32(8, 128))(x)


def itself(v):
    return v


print("cycles for each register, predicted (compiler)")
for of_each, in_a_turn, sums in (
    (itself, 1, 1),
    (itself, 4, 1),
    (itself, 4, 4),
    (itself, 8, 8),
    (eight_exps, 1, 1),
    (eight_exps, 8, 1),
):
    call = functools.partial(in_turns, of_each=of_each, in_a_turn=in_a_turn, sums=sums)
    cycles = one_more(call, registers)
    print(f"{of_each.__name__:10} {in_a_turn} in a turn, sums: {sums}   {cycles:5.1f}")

# %% [markdown]
# Most of a turn's seven cycles are the loop's own. Four registers share them, and what is left is the chain; several sums
# take that away too. The exponentials need one sum only, for they do not wait for it. Without a loop the chain stands alone:
# below the same additions are written out in a straight line, and the difference of two lengths is divided by their number.


# %%
def written_out(x, length, sums):
    def kernel(x_ref, o_ref):
        parts = [x_ref[k] for k in range(sums)]
        for k in range(sums, length):
            parts[k % sums] += x_ref[k]
        o_ref[...] = sum(parts[1:], parts[0])

    return pl.pallas_call(kernel, out_shape=f32(8, 128))(x)


for sums in (1, 2, 4):
    short, long = (
        compiler.compile_tpu(
            functools.partial(written_out, length=length, sums=sums), f32(96, 8, 128)
        ).cycles
        for length in (32, 96)  # of the same 96 registers, so that the copies are the same
    )
    print(f"sums: {sums}   {(long - short) / 64:.1f} cycles for each addition")

# %% [markdown]
# An addition takes two cycles, and in a single sum each has to wait for the one before it. Additions of different sums can
# begin in the same cycle:

# %%
viz.chains(8, sums=(1, 4), latency=2)

# %% [markdown]
# > **Unroll loops that carry nothing. In a loop that carries, write several turns out yourself; if they wait for each other,
# > carry several things.**
#
# (A bound may come from SMEM, as in `fori_loop(0, n_ref[0], ...)`. Then JAX refuses `unroll`: it must know how often.)
#
# ## One long block
#
# The same page recommends "to try to squeeze as many computationally expensive operations into a single basic block as
# possible".
#
# > **basic block**: a piece of program without a branch in it. Within one the compiler is free to reorder.
#
# Below, registers are each divided by the sums of their rows. Once all in a row, once under one `pl.when`, once each with a
# mask, once each under a `pl.when` of its own. The conditions depend on numbers in SMEM, which the compiler's simulator does
# not know; the report counts as if all of them held. **Predict:** how many times dearer than a mask is a condition each?


# %% tags=["predict"]
def pieces(s, x, how, make):
    def kernel(s_ref, x_ref, o_ref):
        def piece(i):
            o_ref[i] = make(x_ref[i])

        def all_of_them():
            for i in range(x.shape[0]):
                piece(i)

        if how == "no condition":
            all_of_them()
        elif how == "one condition":
            pl.when(s_ref[0] == 0)(all_of_them)
        elif how == "a mask each":
            for i in range(x.shape[0]):
                o_ref[i] = jnp.where(s_ref[i] == 0, make(x_ref[i]), x_ref[i])
        else:
            for i in range(x.shape[0]):
                pl.when(s_ref[i] == 0)(functools.partial(piece, i))

    return pl.pallas_call(kernel, out_shape=x, in_specs=[IN_SMEM, IN_VMEM])(s, x)


def integers(n):
    return jax.ShapeDtypeStruct((n,), jnp.int32)


def one_more_piece(how, make):
    """Cycles for one more register, of 16 instead of 8."""
    call = functools.partial(pieces, how=how, make=make)
    some, more = (compiler.compile_tpu(call, integers(n), f32(n, 8, 128)) for n in (8, 16))
    return (work(more) - work(some)) / 8


def over_sum_of_row(v):
    return v / jnp.sum(v, axis=1, keepdims=True)


print("cycles for one more register, predicted (compiler)")
for how in ("no condition", "one condition", "a mask each", "a condition each"):
    print(f"{how:17} {one_more_piece(how, over_sum_of_row):6.1f}")

# %% [markdown]
# One condition costs nothing to speak of, and a mask little. A condition each cuts the program into pieces, and what one
# piece waits for no other can fill. What does it wait for? Sums of columns need no XLU. And v + 1 needs nearly nothing.


# %%
def over_sum_of_column(v):
    return v / jnp.sum(v, axis=0, keepdims=True)


print("cycles for one more register, predicted (compiler)")
for make in (over_sum_of_row, over_sum_of_column, plus_one):
    print(
        f"{make.__name__:18}, a condition each {one_more_piece('a condition each', make):4.0f}"
    )
print(f"{'plus_one':18}, no condition     {one_more_piece('no condition', plus_one):4.0f}")

# %% [markdown]
# Without the XLU a piece costs less than a third. Without a sum it costs 12, which is nearly all the branch's own. So most of
# it was waiting, for the XLU above all. **Few branches, around much work. If every register must decide by itself, use a
# mask.** *A good place for a break.*
#
# ## Which axis needs a mask?
#
# Lesson 4 said: choose with `jnp.where`, do not multiply. But where? The picture shows a table of 20 x 300 in blocks of 8 x
# 128. Choose a block, and switch on a mask for the rows, for the columns, or for both. **Look for two things:** which blocks
# need no mask at all, and what the condition reads in the block at the lower right.

# %%
viz.mask_painter(shape=(20, 300), block=(8, 128), step=(2, 2))

# %% [markdown]
# `broadcasted_iota(jnp.int32, shape, axis)` counts along one axis of the block. With the block's place it counts along the
# whole array, and a comparison makes the mask. (The blocks that need none are those that hang over nowhere.) Now the same
# table, 20 x 300 in blocks of 8 x 128, is summed along one axis: once with no mask, once with a mask for the axis that is
# summed, and for no other. **How many of the four are right?**


# %% tags=["predict"]
def ragged_sum(x, axis, masked, block=(8, 128)):
    """The sum of x along an axis, which is the last of the grid."""
    kept = 1 - axis

    def kernel(x_ref, o_ref):
        step = pl.program_id(1)

        @pl.when(step == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        value = x_ref[...]
        if masked:
            count = jax.lax.broadcasted_iota(jnp.int32, value.shape, axis)
            value = jnp.where(block[axis] * step + count < x.shape[axis], value, 0)
        o_ref[...] += jnp.sum(value, axis=axis, keepdims=True)

    def place(k, step):
        return (step, k) if axis == 0 else (k, step)

    def of_sum(shape):
        return tuple(1 if a == axis else shape[a] for a in (0, 1))

    return pl.pallas_call(
        kernel,
        out_shape=f32(*of_sum(x.shape)),
        grid=(pl.cdiv(x.shape[kept], block[kept]), pl.cdiv(x.shape[axis], block[axis])),
        in_specs=[pl.BlockSpec(block, place)],
        out_specs=pl.BlockSpec(of_sum(block), lambda k, step: place(k, 0)),
    )(x)


ragged = jax.random.normal(jax.random.key(1), (20, 300))
for axis in (0, 1):
    for masked in (False, True):
        call = functools.partial(ragged_sum, axis=axis, masked=masked)
        reference = functools.partial(jnp.sum, axis=axis, keepdims=True)
        verdict = judges.judge(call, reference, ragged)[-1]
        says = "all four judges pass" if verdict.passed else f"refused by {verdict.judge}"
        print(f"sum along axis {axis}, {'masked' if masked else 'no mask':8} {says}")

# %% [markdown]
# Two: those with a mask. The table hangs over along both axes, and one mask is enough.
#
# > **An axis needs a mask if what lies past its end can reach an element that is kept: in a sum or a maximum over it, in a
# > product along it, in `jnp.any`, in a shift that brings the tail forward. What reaches only elements past the end is
# > dropped when the block goes home.**
#
# ## With what number, and when?
#
# Now the largest number of each column, for a table whose numbers are all negative. Its last block hangs over. Four kernels:
# a mask after the maximum; a mask before it with 0; before it with -inf; none. **Which are right?**


# %% tags=["predict"]
def column_maxima(x, mask):
    rows = x.shape[0]

    def kernel(x_ref, o_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def begin():
            o_ref[...] = jnp.full(o_ref.shape, -jnp.inf, o_ref.dtype)

        value = x_ref[...]
        own = 8 * i + jax.lax.broadcasted_iota(jnp.int32, value.shape, 0) < rows
        if mask == "before, with 0":
            value = jnp.where(own, value, 0)
        elif mask == "before, with -inf":
            value = jnp.where(own, value, -jnp.inf)
        largest = jnp.max(value, axis=0, keepdims=True)
        if mask == "after":
            largest = jnp.where(own[:1], largest, -jnp.inf)
        o_ref[...] = jnp.maximum(o_ref[...], largest)

    return pl.pallas_call(
        kernel,
        out_shape=f32(1, x.shape[1]),
        grid=(x.shape[1] // 128, pl.cdiv(rows, 8)),
        in_specs=[pl.BlockSpec((8, 128), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 128), lambda j, i: (0, j)),
    )(x)


def column_maxima_in_jax(x):
    return x.max(axis=0, keepdims=True)


below_zero = -1 - jax.random.uniform(jax.random.key(2), (20, 256))
for mask in ("none", "after", "before, with 0", "before, with -inf"):
    call = functools.partial(column_maxima, mask=mask)
    verdict = judges.judge(call, column_maxima_in_jax, below_zero)[-1]
    found = call(below_zero)[0, 0]
    says = "all four judges pass" if verdict.passed else f"refused by {verdict.judge}"
    print(f"{mask:18} first column: {found:5.2f}   {says}")

# %% [markdown]
# After the maximum it is too late: garbage and numbers are one number by then. And 0 is larger than all of these.
#
# > **neutral element**: the number that changes nothing: 0 for a sum, 1 for a product, -inf for a maximum, inf for a minimum.
#
# > **Mask before the first operation that mixes, with the neutral element of that operation. Before the next one that mixes,
# > look again: is what was masked still neutral?**
#
# A mask costs a comparison and a choice for each register. Should only the last step pay, under a `pl.when`? **Guess** what
# it saves in a sum over rows of 8092 numbers, in 16 blocks.


# %% tags=["predict"]
def row_sums(x, mask, stays, wide=512):
    rows, columns = x.shape
    last = pl.cdiv(columns, wide) - 1

    def kernel(x_ref, o_ref):
        j = pl.program_id(0)

        @pl.when(j == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        def add():
            o_ref[...] += jnp.sum(x_ref[...], axis=1, keepdims=True)

        def add_inside():
            column = wide * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
            value = jnp.where(column < columns, x_ref[...], 0)
            o_ref[...] += jnp.sum(value, axis=1, keepdims=True)

        if mask == "in the last step":
            pl.when(j == last)(add_inside)
            pl.when(j < last)(add)
        else:
            add_inside() if mask == "in every step" else add()

    return pl.pallas_call(
        kernel,
        out_shape=f32(rows, 1),
        grid=(last + 1,),
        in_specs=[pl.BlockSpec((rows, wide), lambda j: (0, 0 if stays else j))],
        out_specs=pl.BlockSpec((rows, 1), lambda j: (0, 0)),
    )(x)


print("cycles, predicted (compiler)   16 copies   one copy, a wrong sum")
for mask in ("in no step, wrong", "in every step", "in the last step"):
    found = [
        compiler.compile_tpu(
            functools.partial(row_sums, mask=mask, stays=stays), f32(64, 8092)
        )
        for stays in (False, True)
    ]
    print(f"{mask:28} {found[0].cycles:11,} {found[1].cycles:23,}")

# %% [markdown]
# Next to nothing. Do the copies hide it? Without them, in the last column, the mask takes nine cycles more in each of the 16
# steps, or 3 %. Mask in every step, until a report tells you otherwise.
#
# ## Skip the work, and the copies
#
# Back to the opening. There are two things to skip, so there are four kernels: `A`, `B`, `C`, and the one with the map of `C`
# that works on every block all the same. (It is right: the mask goes by the step's place, not the block's, and lets nothing
# through.) With pencil: **how many blocks of x does each of the four copy?** There are 64 steps.

# %%
CALLS["D"] = functools.partial(upper_sums, skip_work=False, stay_at_diagonal=True)
reports["D"] = compiler.compile_tpu(CALLS["D"], table)
print("   skips           copies of x    HBM MiB     us, predicted (compiler)")
for name, skips in (("A", "nothing"), ("B", "work"), ("D", "copies"), ("C", "both")):
    (of_x, _), report = cost.traffic(grid.walk(CALLS[name], table)), reports[name]
    print(
        f"{name}  {skips:14} {of_x.copies:8} {report.hbm_bytes / 2**20:14.0f}",
        f"{report.seconds * 1e6:6.1f}   binds: {report.bound}",
    )

# %% [markdown]
# With all copies HBM makes the time, and the work that `B` skips was hidden behind them. With the copies skipped work shows:
# `D` takes 6 % more than `C`. So skip copies first, then work.
#
# > **`pl.when` skips work. The pipeline copies what the index map says, step after step, whether the body reads it or not.**
#
# The map of `C` says `jnp.minimum(i, j)`: below the diagonal it stays at the diagonal's block. A block whose index does not
# change is not copied again. The steps are still there, all 64.
# In the player, go to the steps below the diagonal: **what moves?** (Nothing of x. At a column's last step its sums go home.)

# %%
viz.grid_player(functools.partial(CALLS["C"], side=128), f32(384, 384))

# %% [markdown]
# Such a map must stay at a block that is needed anyhow: the one of the step before, or the next one that some step needs.
# `jnp.where(i <= j, i, 0)` goes back to block 0, and that is a copy. (What to skip was known from the grid here. If the data decide, the map has to see them before
# the kernel runs: lesson 12.)
#
# ## A carry
#
# The grid of one core is a loop, and scratch is not touched between its steps. So a step can leave something for the next.
# Below, each row has the row above it subtracted. The first row of a block needs the last of the block above, which has left
# VMEM: so it is kept. Rows are ragged, and there are three columns of blocks. **Two questions:** does the tail need a
# mask? And what must happen when the next column begins?


# %%
def differences(x, columns_first=True, semantics=None):
    """Each row minus the one above it; the first minus nothing."""
    down = 1 if columns_first else 0  # the axis of the grid that goes down the rows

    def kernel(x_ref, o_ref, above_ref):
        @pl.when(pl.program_id(down) == 0)
        def nothing_above():
            above_ref[...] = jnp.zeros_like(above_ref)

        value = x_ref[...]
        row = jax.lax.broadcasted_iota(jnp.int32, value.shape, 0)
        above = jnp.where(row == 0, above_ref[...], pltpu.roll(value, 1, 0))
        o_ref[...] = value - above
        above_ref[...] = value[-1:]

    steps = (x.shape[1] // 128, pl.cdiv(x.shape[0], 8))
    place = (lambda j, i: (i, j)) if columns_first else (lambda i, j: (i, j))
    block = pl.BlockSpec((8, 128), place)
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=steps if columns_first else steps[::-1],
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pltpu.VMEM((1, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x)


def differences_in_jax(x):
    return x - jnp.pad(x, ((1, 0), (0, 0)))[:-1]


walk_down = jax.random.normal(jax.random.key(3), (20, 384))
for says, call in (
    ("down each column of blocks", differences),
    ("along the rows first", functools.partial(differences, columns_first=False)),
    (
        "down, marked parallel",
        functools.partial(differences, semantics=("parallel", "parallel")),
    ),
    (
        "down, only the columns marked parallel",
        functools.partial(differences, semantics=("parallel", "arbitrary")),
    ),
):
    verdict = judges.judge(call, differences_in_jax, walk_down)[-1]
    print(f"{says}: {'all four judges pass' if verdict.passed else verdict}\n")

# %% [markdown]
# No mask: what hangs over is the last rows. Only rows below would read them, and those are dropped too. (`roll` brings the
# last row round to row 0, where the carry replaces it.) The carry is reset where a column begins. Along the rows first, the
# carry holds the neighbour's rows. And it is legal only along an axis that one core walks in order: two cores would each
# have a scratch of its own. The columns may be shared out.
#
# > **carry**: what a step leaves for the next, in scratch or in an output block that stays. Say when it begins, and mark its
# > axis "arbitrary". Put that axis last, or keep one carry for each index of the axes inside it.
#
# ## Two passes to one
#
# The last carry is the finest. A softmax needs the sum of exp(x - largest), and the largest is known when all has been read.
# So x is read twice: for the largest, and for the sum. Below is log(sum(exp(x))) of each column that way, with a grid of
# (columns, 2, rows). **What binds, the core or HBM?**


# %% tags=["predict"]
def two_reads(x, rows=512):
    def kernel(x_ref, o_ref, max_ref, sum_ref):
        second, i = pl.program_id(1), pl.program_id(2)

        @pl.when((second == 0) & (i == 0))
        def begin():
            max_ref[...] = jnp.full(max_ref.shape, -jnp.inf, max_ref.dtype)
            sum_ref[...] = jnp.zeros_like(sum_ref)

        @pl.when(second == 0)
        def look_for_the_largest():
            largest = jnp.max(x_ref[...], axis=0, keepdims=True)
            max_ref[...] = jnp.maximum(max_ref[...], largest)

        @pl.when(second == 1)
        def add():
            e = jnp.exp(x_ref[...] - max_ref[...])
            sum_ref[...] += jnp.sum(e, axis=0, keepdims=True)

        @pl.when((second == 1) & (i == pl.num_programs(2) - 1))
        def store():
            o_ref[...] = max_ref[...] + jnp.log(sum_ref[...])

    return pl.pallas_call(
        kernel,
        out_shape=f32(1, x.shape[1]),
        grid=(x.shape[1] // 512, 2, x.shape[0] // rows),
        in_specs=[pl.BlockSpec((rows, 512), lambda j, second, i: (i, j))],
        out_specs=pl.BlockSpec((1, 512), lambda j, second, i: (0, j)),
        scratch_shapes=[pltpu.VMEM((1, 512), jnp.float32)] * 2,
    )(x)


report = compiler.compile_tpu(two_reads, table)
print(f"x is {table.size * 4 / 2**20:.0f} MiB; moved: {report.hbm_bytes / 2**20:.0f} MiB")
print(f"{report.seconds * 1e6:.0f} us, predicted (compiler); binds: {report.bound}")

# %% [markdown]
# Twice x, and HBM binds. Can the sum be had in the first pass, when the largest is not known yet? Take the largest *so
# far*. When a larger one comes, every exponential that was added has been too large by the same factor, exp(new - old). So
# the whole sum can be set right with one product. Below in plain JAX, for one column in four blocks. **Predict:** what is
# the sum after the second block, [2, 90]?

# %% tags=["predict"]
column = jnp.array([1.0, 3.0, 2.0, 90.0, 89.0, 5.0, 95.0, 94.0])
largest, total = -jnp.inf, 0.0
for block in column.reshape(4, 2):
    larger = jnp.maximum(largest, block.max())
    total = total * jnp.exp(largest - larger) + jnp.exp(block - larger).sum()
    largest = larger
    print(f"after {block}: largest {largest:4.0f}, sum {total:.4f}")
print(f"two passes:          largest {column.max():4.0f}, sum", end=" ")
print(f"{jnp.exp(column - column.max()).sum():.4f}")

# %% [markdown]
# In the end it is the same. After [2, 90] it is 1: all that came before is too small to count. (The first factor is
# exp(-inf) = 0, so the beginning needs no special case, unless the whole first block is -inf: -inf - (-inf) is NaN. A kernel
# that can meet such a block subtracts 0 for as long as the maximum is -inf, as 08.9 does.)
#
# > **online softmax**: maximum and sum of exponentials in one pass: when the maximum grows, the sum is multiplied by exp(old
# > maximum - new maximum).
#
# Both numbers are carries. In 08.6 you make the kernel of it, with one read of x. Attention is this with one more carry, the
# weighted sum of values: 08.9, and lesson 13.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel should do nothing in steps whose number in SMEM is 0. <code>if</code>, <code>pl.when</code> or
# <code>jnp.where</code>? What does it not save?</summary>
# <code>pl.when</code>: one answer for the step. It does not save the step's copies.</details>
#
# <details><summary>2. A loop of 100 turns carries a sum and adds one register a turn. What does <code>unroll=4</code> do, and what
# would help?</summary>
# Nothing: it carries. Four registers in a turn would help (7.0 to 3.0 cycles each), and four sums (2.0) or eight
# (1.0).</details>
#
# <details><summary>3. The minimum of each row of x[M, N], in blocks of (8, 128); M and N are ragged. Which masks?</summary>
# One, along the columns, with inf, before the minimum. The rows stay by themselves.</details>
#
# <details><summary>4. Grid (4, 4), map <code>lambda j, i: (jnp.maximum(i, j), j)</code>. How many copies of blocks?</summary>
# Column j has its blocks from j down: 4 + 3 + 2 + 1 = 10.</details>
#
# <details><summary>5. The largest so far is 10 and the sum 3. A block comes with the numbers 12 and 12. What is the sum
# now?</summary>
# 3 exp(-2) + 2, about 2.41.</details>

# %% [markdown]
# Questions 4 and 5, for those who like to see it:


# %%
def lower(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:1]

    return pl.pallas_call(
        kernel,
        out_shape=f32(1, 512),
        grid=(4, 4),
        in_specs=[pl.BlockSpec((128, 128), lambda j, i: (jnp.maximum(i, j), j))],
        out_specs=pl.BlockSpec((1, 128), lambda j, i: (0, j)),
    )(x)


print(cost.traffic(grid.walk(lower, f32(512, 512)))[0].copies)
print(f"{3 * np.exp(10 - 12) + 2 * np.exp(0):.2f}")

# %% [markdown]
# ## Now you
#
# Open [the exercises of lesson 8](../exercises/08_control_flow_and_masks.ipynb). If you have time for one only, take 08.6.

# %% [markdown]
# ## Further
#
# Branches that are none, a loop whose end the data decide, all turns written out, and work that is worth skipping.
#
# ### Branches that are none
#
# If both branches of a `cond` are small, the compiler may compute both and select. Then the program has no branch. How small is
# small? **Guess** for an addition, a division and a sine, on 1, 4, 16 and 64 registers.


# %% tags=["predict"]
def maybe(op, s, x):
    def kernel(s_ref, x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jax.lax.cond(s_ref[0] == 1, lambda: op(x), lambda: x)

    return pl.pallas_call(kernel, out_shape=x, in_specs=[IN_SMEM, IN_VMEM])(s, x)


OPS = {"addition": lambda x: x + 1, "division": lambda x: 1 / x, "sine": jnp.sin}
print("registers                1         4        16        64")
for chip in ("v5e", "v6e"):
    for name, op in OPS.items():
        print(f"{chip} {name:10}", end="")
        for registers in (1, 4, 16, 64):
            asked = functools.partial(maybe, op), integers(1), f32(8 * registers, 128)
            report = compiler.compile_tpu(*asked, chip=chip, simulate=False)
            words = [each for bundle in report.listing for each in bundle.instructions]
            found = any("sbr.rel" in each for each in words)
            print(f"{'branch' if found else 'both':>10}", end="")
        print()

# %% [markdown]
# Length decides: the compiler computes both branches if they are short, up to some dozens of bundles. The limit depends on the
# operation and the chip, so if it matters, look for `sbr.rel` in the program.
#
# ### A loop whose end the data decide
#
# A bound may come from SMEM. The program is a loop as before. The report counts such a loop as well as it can, and says so.


# %%
def first_few(n, x):
    def kernel(n_ref, x_ref, o_ref):
        def turn(i, carry):
            o_ref[i] = x_ref[i] + 1
            return carry

        jax.lax.fori_loop(0, n_ref[0], turn, 0)

    return pl.pallas_call(kernel, out_shape=x, in_specs=[IN_SMEM, IN_VMEM])(n, x)


report = compiler.compile_tpu(first_few, integers(1), f32(64, 8, 128))
print(f"{report.bundles} bundles")
for note in report.notes:
    print(note)

# %% [markdown]
# ### All turns written out
#
# `unroll=64` of 64 turns leaves no loop at all. That the compiler cannot decline, since JAX itself writes the turns out: even
# the carried loop becomes straight. The same helps a long one: below, the last loop goes round a loop of eight turns, all of
# which are written out. **Guess** what a register costs in each.


# %% tags=["predict"]
def eight_in_a_turn(x):
    """``carried``, with an inner loop that JAX writes out."""

    def kernel(x_ref, o_ref):
        def turn(i, carry):
            def inner(k, carry):
                return 0.5 * carry + x_ref[8 * i + k]

            return jax.lax.fori_loop(0, 8, inner, carry, unroll=True)

        first = jnp.zeros(o_ref.shape, o_ref.dtype)
        o_ref[...] = jax.lax.fori_loop(0, x.shape[0] // 8, turn, first)

    return pl.pallas_call(kernel, out_shape=f32(8, 128))(x)


for name, loop in {
    "unroll=1": carried,
    "unroll=64": functools.partial(carried, unroll=64),
    "eight in a turn": eight_in_a_turn,
}.items():
    report = compiler.compile_tpu(loop, f32(64, 8, 128))
    print(
        f"{name:15}: {report.bundles:3} bundles, {work(report) / 64:4.1f} cycles "
        "for each register, predicted (compiler)"
    )

# %% [markdown]
# The turns' own overhead is gone, or shared. The chain is left, a product and a sum for each register.
#
# ### Work that is worth skipping
#
# In the opening work was free, since copies took longer. Put a sine before the sum, which takes longer than the copy of its
# block. **Predict:** what is saved by skipping copies, and what by skipping work?


# %% tags=["predict"]
def upper_sines(x, skip_work, copies, side=256):
    def kernel(x_ref, o_ref):
        j, i = pl.program_id(0), pl.program_id(1)

        @pl.when(i == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        def add():
            row = side * i + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
            column = side * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
            above = jnp.where(row <= column, jnp.sin(x_ref[...]), 0)
            o_ref[...] += jnp.sum(above, axis=0, keepdims=True)

        pl.when(i <= j)(add) if skip_work else add()

    def block_of_x(j, i):
        return {"all": (i, j), "needed": (jnp.minimum(i, j), j), "one": (0, 0)}[copies]

    blocks = x.shape[0] // side
    return pl.pallas_call(
        kernel,
        out_shape=f32(1, x.shape[1]),
        grid=(blocks, blocks),
        in_specs=[pl.BlockSpec((side, side), block_of_x)],
        out_specs=pl.BlockSpec((1, side), lambda j, i: (0, j)),
    )(x)


print("us, predicted (compiler)   work on all blocks   on those needed")
for copies in ("all", "needed", "one"):
    found = [
        compiler.compile_tpu(
            functools.partial(upper_sines, skip_work=skip, copies=copies), f32(1024, 1024)
        )
        for skip in (False, True)
    ]
    print(f"copies {copies:8}", "".join(f"{r.seconds * 1e6:20.1f}" for r in found))

# %% [markdown]
# Now it is the work that counts: 10 of 16 blocks have some. And the copies that are not needed cost nothing while all
# blocks are worked on. Why is not 6 sixteenths of the time saved? Because a step with nothing to do has nothing to hide a
# copy behind. In the last row there is but one copy (and a wrong result), and then 10 sixteenths of the time are left. Ask the
# report what binds before you skip anything.
#
# ### One maximum per row
#
# In the log-sum-exp above each column had its own maximum, so the statistics of 512 columns filled whole registers. Attention
# reduces the other way: each row holds the scores of one query, and the reduction runs along the lanes. A block of bq
# queries then has bq maxima, and a kernel can keep them in two shapes. As (bq, 1) they use one lane of each register, and
# before the next block of scores can be compared with them, the XLU has to broadcast that lane to the other 127. As
# (bq, 128) every lane holds the maximum of its row, so the statistics combine with the scores register by register. Below
# is attention to given scores in both shapes. The scores are read from HBM here, which attention does not do, so we leave
# out the cycles that wait for copies. **Predict:** which shape needs more VMEM, and which more cycles?


# %% tags=["predict"]
def attend(s, v, lanes, bq=256, bk=512):
    def kernel(s_ref, v_ref, o_ref, max_ref, sum_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def begin():
            max_ref[...] = jnp.full(max_ref.shape, -jnp.inf, max_ref.dtype)
            sum_ref[...] = jnp.zeros_like(sum_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        old = max_ref[...]
        new = jnp.maximum(old, jnp.max(s_ref[...], axis=1, keepdims=True))
        e = jnp.exp(s_ref[...] - (new if lanes == 1 else jnp.tile(new, (1, bk // 128))))
        shrink = jnp.exp(old - new)
        weighted = jnp.dot(
            e.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
        )
        sum_ref[...] = sum_ref[...] * shrink + jnp.sum(e, axis=1, keepdims=True)
        acc_ref[...] = acc_ref[...] * shrink + weighted
        max_ref[...] = new

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def store():
            o_ref[...] = acc_ref[...] / sum_ref[...]

    statistics = pltpu.VMEM((bq, lanes), jnp.float32)
    return pl.pallas_call(
        kernel,
        out_shape=f32(s.shape[0], 128),
        grid=(s.shape[0] // bq, s.shape[1] // bk),
        in_specs=[
            pl.BlockSpec((bq, bk), lambda i, j: (i, j)),
            pl.BlockSpec((bk, 128), lambda i, j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((bq, 128), lambda i, j: (i, 0)),
        scratch_shapes=[statistics, statistics, pltpu.VMEM((bq, 128), jnp.float32)],
    )(s, v)


values = jax.ShapeDtypeStruct((4096, 128), jnp.bfloat16)
for lanes in (1, 128):
    report = compiler.compile_tpu(
        functools.partial(attend, lanes=lanes), f32(1024, 4096), values
    )
    kept = sum(part.bytes for part in report.vmem if part.name in ("max_ref", "sum_ref"))
    work = (report.cycles - report.time_split["DMA wait"]) / report.steps
    print(f"(256, {lanes:3}): {kept >> 10} KiB, {work:.0f} cycles a step,", end=" ")
    print(f"{report.slots['XLU']:.0%} of the XLU's slots filled, {report.spills} spills")

# %% [markdown]
# Both shapes take the same VMEM, because a (256, 1) array is padded to 128 lanes anyway. The narrow one costs more cycles
# (predicted by the compiler):
# it fills more of the XLU's slots, and it spills more. So the library's `flash_attention` keeps its statistics as (bq, 128).
# The exponentials are rounded to bfloat16 before they are multiplied with v, which is what
# the MXU takes, and their sum is computed from the unrounded ones. (08.9 asks for full float32, so that it can be checked to
# the last digits.)
#
# > **statistic per row**: keep it in all 128 lanes. It takes no more VMEM than one lane does, and needs no broadcast.
#
# <!-- next -->
