# %% [markdown]
# # Lesson 8: Control flow and masks
#
# *60 minutes, then 59 for the exercises. The "Further" part is optional and not counted in these times. You need lesson
# 1, lesson 4, and the units and bundles of lesson 2. You do not need a TPU.*
#
# The kernels below compute the same result in three ways: for each column of a square table, they add up the elements
# on the diagonal and above it. Nearly half of the blocks lie below the diagonal and have nothing to add. `A` works on
# all blocks, with a mask. `B` skips the work on the blocks below the diagonal, and `C` is `B` with another index map.
# Run the three cells.

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
    """Return the sums of x[N, N]'s columns down to the diagonal, in side x side blocks."""

    def kernel(x_ref, o_ref):
        j, i = pl.program_id(0), pl.program_id(1)  # the block's column and its row

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
    print(f"{name} is right: {bool(same)}")

# %%
table = f32(4096, 4096)
reports = {name: compiler.compile_tpu(call, table) for name, call in CALLS.items()}
for report in sorted(reports.values(), key=lambda report: report.seconds):
    print(f"one of the three: {report.seconds * 1e6:5.1f} us, predicted (compiler)")

# %% [markdown]
# All three kernels are right. Two of them skip nearly half of the work, and two of them take the same time. **Which one
# is fast, and why?** Write down a letter and a reason.
#
# After this lesson you can
# - say who decides a condition in a kernel: Python, the scalar unit, or each element for itself,
# - write a loop whose iterations the compiler can overlap, and read from its program whether it did,
# - mask a ragged axis: where, with which value, and when no mask is needed,
# - skip blocks together with their copies,
# - carry values from block to block, as the online softmax does.
#
# ## Who decides?
#
# `upper_sums` has three kinds of "if". `if skip_work:` belongs to Python. It runs while JAX traces the kernel, and the
# compiler never sees the branch that was not taken. `pl.when(i <= j)` is decided at every grid step, and
# `jnp.where(row <= column, ...)` is decided for every element.
#
# What happens if you use one in place of another? The three kernels below are meant to double every positive element.
# **Before you run the cell:** which of them can be compiled?


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
# Python cannot decide on a value that exists only when the kernel runs. `pl.when` can, but a branch is either taken or
# not, so its condition must be a single value and not 1024.
#
# > **scalar predicate**: one condition for a whole step, decided by the scalar unit. `pl.when` and `jax.lax.cond` take
# > one. It may depend on grid indices, on values in SMEM, and on a block that was reduced to one value, for example
# > with `jnp.any`.
#
# > **vector predicate**: one condition for each element. `jnp.where` takes one, and selects between two values that
# > have both been computed.
#
# Because both values must exist, `jnp.where` computes both sides. The next kernel needs the sine of its block in some
# of its 16 steps, and a sine takes more than a hundred VPU operations for each register. All index maps are constant,
# so nothing is copied between the steps. **Predict:** if four steps need the sine, how many times longer does a step
# take on average with `where` than with `cond`?


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


print("cycles per step, predicted (compiler)")
for how in ("where", "cond"):
    for in_steps in (0, 4, 16):
        call = functools.partial(maybe_sine, how=how, in_steps=in_steps)
        report = compiler.compile_tpu(call, f32(512, 128))
        print(f"{how:6} in {in_steps:2} of 16 steps {report.cycles / 16:8,.0f}")

# %% [markdown]
# `where` pays for the sine in every step, and `cond` only in the steps that need it. The ratio is smaller than four,
# because a step without the sine still loads and stores its block. If every step needs the sine, `cond` is the more
# expensive of the two. (`cond` returns a value, whereas `pl.when` runs a function that may write to refs. If both
# branches are small, the compiler may compute both and select: *Further*.)
#
# A scalar predicate needs a scalar. In which memory should it be kept? Each iteration of the loop below multiplies a
# register by one scalar, which is read from SMEM, read from VMEM, or computed as the sum of a register. (`unroll=8`
# asks for eight iterations side by side, as the next section explains. The code calls an iteration a turn.) **Guess**
# the order of the three.


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
    """Return the cycles that are not spent waiting for copies."""
    return report.cycles - report.time_split["DMA wait"]


def one_more(fn, argument):
    """Return the cycles of one more iteration: the mean over 64, from 64 to 128.

    ``argument(n)`` returns the arguments for n iterations.
    """
    some, more = (compiler.compile_tpu(fn, *argument(n)) for n in (64, 128))
    return (work(more) - work(some)) / 64


print("cycles per iteration, predicted (compiler)  unroll=1   unroll=8")
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
# A value in VMEM takes a long time to reach the scalar unit, because it has to pass through a vector register (in the
# program: `vld`, `vpush`, `spop`). The sum of a register takes longer still. Most of this time is waiting, and eight
# iterations side by side hide most of the wait. Keep lengths, counters and switches in SMEM, with
# `pl.BlockSpec(memory_space=pltpu.SMEM)`.
#
# ## Loops
#
# **Predict:** how many bundles does the program of a loop with 8 iterations have, and how many with 512?


# %% tags=["predict"]
def turns(x, body, unroll=1):
    """Compute o[i] = body(x[i]), one register in each iteration."""

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
    print(f"fori_loop, {n:3} iterations: {report.bundles} bundles")
report = compiler.compile_tpu(with_while, f32(512, 8, 128))
print(f"while_loop, 512 iterations: {report.bundles} bundles")

# %% [markdown]
# The program is the same for 8 iterations and for 512, so a loop stays a loop. JAX's page on
# [writing TPU kernels](https://docs.jax.dev/en/latest/pallas/tpu/details.html) says that loops "get fully unrolled
# during the compilation" and should therefore be short, but this is out of date. The page also lists `for_loop`, which
# `jax.lax` no longer has, and omits `while_loop`, which works. Today you have to ask for unrolling.
#
# > **unroll**: to write several iterations of a loop one after another in the program. `fori_loop(..., unroll=8)` asks
# > for eight.
#
# What is unrolling good for? The cell below compares three loops. The first adds 1 to each register. The second applies
# eight exponentials to each register, one after another. The third carries a register from one iteration to the next:
# it halves the carry and adds the next register. **For each loop:** does `unroll=8` help, and by about what factor?


# %%
def eight_exps(v):
    for _ in range(8):
        v = jnp.exp(v)
    return v


def carried(x, unroll=1):
    """Return the last carry; each is half of the one before plus the next register."""

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
print("cycles per iteration, predicted (compiler)")
print("unroll      " + "".join(f"{unroll:8}" for unroll in UNROLLS))
for name, loop in LOOPS.items():
    found = [
        one_more(functools.partial(loop, unroll=unroll), registers) for unroll in UNROLLS
    ]
    print(f"{name:12}" + "".join(f"{cycles:8.1f}" for cycles in found))

# %% [markdown]
# The exponentials gain most, more than a factor of seven, and the carried loop gains nothing at all. The viewer below
# shows the body of the second loop for the `unroll` that you choose. **Look for one thing:** how much of the EUP's row
# is filled at 1, and how much at 8? (The EUP computes the exponentials.)

# %%
loops = {
    unroll: functools.partial(turns, body=eight_exps, unroll=unroll) for unroll in UNROLLS
}
viz.unroll_viewer(
    {unroll: compiler.bundles(loop, f32(64, 8, 128)) for unroll, loop in loops.items()},
    cycles={unroll: one_more(loop, registers) for unroll, loop in loops.items()},
)

# %% [markdown]
# With `unroll=1`, each exponential waits for the one before it, and the units have next to nothing else to do in the
# meantime. (A bundle can wait, so an iteration takes more cycles than it has bundles.) Iterations do not overlap by
# themselves, because the next one begins only when this one has ended.
#
# > **chain**: operations of which each needs the result of the one before.
#
# With `unroll=8`, eight chains stand side by side in the program, and the work of one fills the gaps of the others.
#
# Why does the carried loop gain nothing? **Under `jax.jit` the compiler ignores `unroll` on a loop whose carry changes
# from iteration to iteration, unless you ask for all iterations.** (*Further* shows that the cause is the carry and not
# the chain. A carry that is returned unchanged, as in `turns`, does not count.)
#
# So in a loop that carries, write several iterations out yourself. The first four loops below add up registers: 1, 4 or
# 8 in each iteration, in one sum or in several. The last two add up the eight exponentials of each register.
# **Predict** for four registers in an iteration: how many times faster does the loop become with one sum, and with
# four?


# %% tags=["predict"]
def in_turns(x, of_each, in_a_turn, sums=1):
    """Add up of_each(register), with ``in_a_turn`` registers an iteration, in ``sums`` sums."""

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


print("cycles per register, predicted (compiler)")
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
    print(f"{of_each.__name__:10} {in_a_turn} an iteration, sums: {sums}   {cycles:5.1f}")

# %% [markdown]
# Most of the seven cycles are overhead of the loop itself, which four registers share. What then remains is the chain
# of additions, and several sums break it into shorter chains. The exponentials need only one sum, because no
# exponential waits for it. The next cell shows the chain alone: it writes the same additions out without a loop, and
# computes the cost of one more addition from two lengths.


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
        for length in (32, 96)  # both take the same 96 registers, so the copies are equal
    )
    print(f"sums: {sums}   {(long - short) / 64:.1f} cycles for each addition")

# %% [markdown]
# An addition takes two cycles, and in a single sum each addition has to wait for the one before it. Additions of
# different sums can begin in the same cycle, as the picture shows.

# %%
viz.chains(8, sums=(1, 4), latency=2)

# %% [markdown]
# > **Unroll loops that carry nothing. In a loop that carries, write several iterations out yourself; if they wait for
# > each other, carry several values.**
#
# (The bound of a loop may come from SMEM, as in `fori_loop(0, n_ref[0], ...)`. Then JAX refuses `unroll`, because it
# must know the number of iterations.)
#
# ## One long basic block
#
# JAX's page also recommends "to try to squeeze as many computationally expensive operations into a single basic block
# as possible".
#
# > **basic block**: a stretch of the program without a branch in it. Within it, the compiler is free to reorder
# > instructions.
#
# The next cell divides each of several registers by the sums of its rows, in four ways: without a condition, all under
# one `pl.when`, each with a mask, and each under a `pl.when` of its own. The conditions depend on values in SMEM that
# the compiler's simulator does not know, so the report assumes that every condition is true. **Predict:** how many
# times more expensive is a condition for each register than a mask?


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
    """Return the cycles of one more register: the mean over 8, from 8 to 16."""
    call = functools.partial(pieces, how=how, make=make)
    some, more = (compiler.compile_tpu(call, integers(n), f32(n, 8, 128)) for n in (8, 16))
    return (work(more) - work(some)) / 8


def over_sum_of_row(v):
    return v / jnp.sum(v, axis=1, keepdims=True)


print("cycles for one more register, predicted (compiler)")
for how in ("no condition", "one condition", "a mask each", "a condition each"):
    print(f"{how:17} {one_more_piece(how, over_sum_of_row):6.1f}")

# %% [markdown]
# One condition around all the work costs practically nothing, and a mask costs little. A condition for each register
# cuts the program into pieces, and while one piece waits, instructions of another cannot fill the gap. (*Further* shows
# what the pieces wait for.) **Use few branches, each around much work. If every register must decide for itself, use a
# mask.** *This is a good place for a break.*
#
# ## Which axis needs a mask?
#
# Lesson 4 said to mask with `jnp.where`, and not by multiplying. But along which axes does a block need a mask? Past
# the end of an array lies whatever was left in memory, which may look like valid values; the simulator first puts NaN
# there. The picture shows a table of 20 x 300 in blocks of 8 x 128. Choose a block, and switch on a mask for the rows,
# for the columns, or for both. **Look for two things:** which blocks need no mask at all, and what the condition says
# for the block at the lower right.

# %%
viz.mask_painter(shape=(20, 300), block=(8, 128), step=(2, 2))

# %% [markdown]
# `broadcasted_iota(jnp.int32, shape, axis)` gives every element its index along one axis of the block. Adding the block
# index times the block size turns this into the index in the whole array, and a comparison with the length of the axis
# gives the mask. Blocks that lie inside the array need none. The next cell sums this table along each of its two axes,
# first without a mask and then with a mask for the summed axis only. **How many of the four sums are right?**


# %% tags=["predict"]
def ragged_sum(x, axis, masked, block=(8, 128)):
    """Return the sum of x along ``axis``, which is the last axis of the grid."""
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
# Two are right: those with a mask. The last blocks overhang along both axes, and still one mask is enough.
#
# > **An axis needs a mask if what lies past its end can reach an element that is kept: in a sum or a maximum over the
# > axis, in a dot product along it, in `jnp.any`, or in a shift that moves the tail forward. Garbage that reaches only
# > elements past the end does no harm, because those are dropped when the block is written back.**
#
# ## Mask with which value, and when?
#
# The next kernels compute the largest element of each column, for a table whose elements are all negative and whose
# last block overhangs. One masks after the maximum, one before it with 0, one before it with -inf, and one not at all.
# **Which are right?**


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
# Masking after the maximum is too late, because garbage and valid elements have become one value by then. A mask
# with 0 fails because 0 is larger than every element of this table.
#
# > **neutral element**: the value that changes nothing: 0 for a sum, 1 for a product, -inf for a maximum, inf for a
# > minimum.
#
# > **Mask before the first operation that mixes elements, with the neutral element of that operation. Before the next
# > operation that mixes, check again: is the value in the masked places still neutral?**
#
# Mask in every step: a mask costs only a comparison and a select for each register. (*Further* compares this with a
# mask in the last step only.)
#
# ## Skip the work, and the copies
#
# The opening left one kernel out: `D`, which has the index map of `C` but works in every step. (`D` is right too. Its
# mask uses the indices of the step, so below the diagonal it lets nothing through, whichever block is in VMEM.) Work
# out with a pencil: **how many blocks of x does each of the four copy?** There are 64 steps.

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
# If every block is copied, HBM determines the time, and the work that `B` skips was hidden behind the copies anyway. If
# the copies are skipped, the work shows: `D` takes 6 % more time than `C`. So skip copies first, then work.
#
# > **`pl.when` skips work. The pipeline copies what the index map says, step after step, whether the body reads it or
# > not.**
#
# The map of `C` returns the row `jnp.minimum(i, j)`, so below the diagonal it stays at the block on the diagonal. A
# block whose index does not change is not copied again, but the grid still has all its 64 steps. In the player, go to
# the steps below the diagonal: **what moves?** (No block of x moves. At the last step of a column its sums are written
# back.)

# %%
viz.grid_player(functools.partial(CALLS["C"], side=128), f32(384, 384))

# %% [markdown]
# In a step without work, the map should return a block that costs no extra copy: the block of the step before, or the
# next block that some step needs. `jnp.where(i <= j, i, 0)` goes back to block 0 instead, which costs a copy. (Here the
# grid alone determined what to skip. If the data determine it, the map has to see them before the kernel runs, as
# lesson 12 shows.)
#
# ## A carry
#
# On one core the grid is a loop, and nothing touches scratch between the steps, so a step can leave something there for
# the next one. The kernel below subtracts from each row the row above it. The first row of a block needs the last row
# of the block above, which is no longer in VMEM, so the kernel keeps that row in scratch. The row axis is ragged, and
# there are three columns of blocks. **Two questions:** does the tail need a mask, and what must happen when the next
# column begins?


# %%
def differences(x, columns_first=True, semantics=None):
    """Return each row minus the one above it; the first row stays as it is."""
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
# The tail needs no mask. The rows past the end are the last ones, so only rows further down would read them, and those
# are dropped too. (`roll` moves the last row of a block to row 0, where the carry replaces it.) When the next column of
# blocks begins, the carry must be reset. In a grid that goes along the rows first, the carry holds a row of the
# neighboring column instead. One core must walk the axis of a carry in order, because two cores would each have a
# scratch of their own. The axis of the columns may still be divided between cores.
#
# > **carry**: a value that a step leaves for the next one, in scratch or in an output block that stays. Initialize it
# > where it begins, and mark its axis "arbitrary". Put that axis last, or keep a separate carry for each index of the
# > axes after it.
#
# ## Two passes to one
#
# The last carry of this lesson saves a pass over the data. A softmax needs the sum of exp(x - largest), and the largest
# element is known only after all of x has been read. So x is read twice, once for the maximum and once for the sum. The
# kernel below computes log(sum(exp(x))) of each column this way, with a grid of (columns, 2, rows). **What binds, the
# core or HBM?**


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
# The kernel moves twice the bytes of x, and HBM binds. Can the sum be computed in the first pass, when the maximum is
# not known yet? Take the largest element *so far*. When a larger one comes, every exponential added so far is too large
# by the same factor, exp(new - old), so a single multiplication corrects the whole sum. The next cell does this in
# plain JAX, for one column in four blocks. **Predict:** what is the sum after the second block, [2, 90]?

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
# At the end the sum is the same as with two passes. After [2, 90] the sum is 1, because everything before 90 is too
# small to count. (The first factor is exp(-inf) = 0, so the first block needs no special case, unless all of it is
# -inf: then -inf - (-inf) is NaN. A kernel that can meet such a block subtracts 0 for as long as the maximum is -inf,
# as 08.9 does.)
#
# > **online softmax**: maximum and sum of exponentials in one pass. When the maximum grows, the sum is multiplied by
# > exp(old maximum - new maximum).
#
# Both values are carries. In exercise 08.6 you turn this into a kernel that reads x once. Attention adds one more
# carry, the weighted sum of values, in exercise 08.9 and in lesson 13.
#
# ## Five questions
#
# Answer each before you open it.
#
# <details><summary>1. A kernel should do nothing in the steps whose value in SMEM is 0. Does it use <code>if</code>,
# <code>pl.when</code> or <code>jnp.where</code>, and what does that not save?</summary> <code>pl.when</code>, because
# there is one answer for the step. It does not save the step's copies.</details>
#
# <details><summary>2. A loop of 100 iterations carries a sum and adds one register in each. What does
# <code>unroll=4</code> do, and what would help?</summary> It does nothing, because the loop carries a sum. Four
# registers in an iteration would help (3.0 cycles for each instead of 7.0). Four sums for them would help more (2.0),
# and eight registers in eight sums would help most (1.0).</details>
#
# <details><summary>3. The minimum of each row of x[M, N], in blocks of (8, 128); M and N are ragged. Which masks does
# it need?</summary> One, along the columns, with inf, before the minimum. Nothing mixes the rows.</details>
#
# <details><summary>4. The grid is (4, 4), and the index map is <code>lambda j, i: (jnp.maximum(i, j), j)</code>. How
# many blocks are copied?</summary> Column j needs its blocks from row j down: 4 + 3 + 2 + 1 = 10.</details>
#
# <details><summary>5. The largest element so far is 10 and the sum is 3. A block comes with the elements 12 and 12.
# What is the sum now?</summary> It is 3 exp(-2) + 2, about 2.41.</details>

# %% [markdown]
# The next cell computes the answers to questions 4 and 5.


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
# Open [the exercises of lesson 8](../exercises/08_control_flow_and_masks.ipynb). If you have time for only one, take
# 08.6.

# %% [markdown]
# ## Further
#
# No exercise needs what follows.
#
# ### The carry or the chain?
#
# There are two possible reasons why `unroll` did not help the carried loop: it is one chain from its first iteration to
# its last, and it carries a value. Each of the loops below has only one of these properties. In the first, the chain
# goes through VMEM and nothing is carried. In the second, no iteration waits for another, but an integer is carried
# beside the eight exponentials. **Which of the two does `unroll=8` help?**


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


print("cycles per iteration, predicted (compiler)")
for loop in (chain_in_vmem, carries_a_number):
    for unroll in (1, 8):
        call = functools.partial(loop, unroll=unroll)
        bundles = compiler.compile_tpu(call, f32(64, 8, 128)).bundles
        found = one_more(call, registers)
        print(f"{loop.__name__:16} unroll={unroll}: {found:5.1f}   {bundles} bundles")

# %% [markdown]
# The compiler unrolls the chain but not the loop that carries, whose program stays the same to the last bundle. This
# holds for libtpu 0.0.48, which comes with the course. Version 0.0.50 unrolls such loops too, and the one in exercise
# 08.8 then takes 6 % fewer cycles. `jax.export` writes the iterations out before the compiler sees the loop.
#
# ### What does a piece wait for?
#
# In "One long basic block", what did a piece under its own condition wait for? The next cell changes the work: sums of
# columns do not need the XLU, and v + 1 needs nearly nothing.


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
# Without the XLU a piece costs less than a third as much. Without any sum it costs 12 cycles, nearly all of which
# belong to the branch itself. So most of the cost was waiting, above all for the XLU.
#
# ### A mask in the last step only
#
# Only the last block overhangs. Should only the last step pay for the mask, under a `pl.when`? **Guess** how much this
# saves in a sum over rows of 8092 elements, in 16 blocks.


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
# It saves next to nothing. Is this only because the copies hide the mask? In the last column of the table, where x is
# copied only once, the mask adds nine cycles to each of the 16 steps, or 3 %.
#
# ### Branches that become a select
#
# If both branches of a `cond` are small, the compiler may compute both and select, and then the program has no branch.
# How small must they be? **Guess** for an addition, a division and a sine, on 1, 4, 16 and 64 registers.


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
# The length of the branches decides: the compiler computes both if they are short. The limit depends on the operation
# and the chip, so if it matters, look for `sbr.rel` in the program.
#
# ### A loop whose end depends on the data
#
# The bound of a loop may come from SMEM, and the program is still a loop. The report then cannot know the number of
# iterations, and a note says what it assumed.


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
# ### All iterations unrolled
#
# With 64 iterations, `unroll=64` leaves no loop at all. The compiler cannot ignore this request, because JAX itself
# writes the iterations out, so even the carried loop becomes straight-line code. In a long loop, write out a part: the
# last variant below keeps the outer loop and has an inner loop of eight iterations, all written out. **Guess** how many
# cycles a register costs in each of the three.


# %% tags=["predict"]
def eight_in_a_turn(x):
    """Compute ``carried`` with an inner loop that JAX writes out."""

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
    "8 an iteration": eight_in_a_turn,
}.items():
    report = compiler.compile_tpu(loop, f32(64, 8, 128))
    print(
        f"{name:15}: {report.bundles:3} bundles, {work(report) / 64:4.1f} cycles "
        "for each register, predicted (compiler)"
    )

# %% [markdown]
# The overhead of the iterations is gone, or shared by eight registers. The chain remains, with a multiplication and an
# addition for each register.
#
# ### Work that is worth skipping
#
# In the opening the work was free, because the copies took longer. The next kernel takes a sine before it adds, so the
# work on a block takes longer than its copy. **Predict:** how much does skipping copies save, and how much does
# skipping work?


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
# Only 10 of the 16 blocks have work. If all blocks are worked on, skipping copies saves nothing, because the work hides
# them. Skipping the work of six blocks does not save six sixteenths of the time, because a step without work has
# nothing to hide a copy behind. In the last row, with one copy (and a wrong result), skipping the work does leave about
# 10 sixteenths of the time. Ask the report what binds before you skip anything.
#
# ### One maximum per row
#
# In the log-sum-exp above each column had its own maximum, so the statistics of 512 columns filled whole registers.
# Attention reduces the other way: each row holds the scores of one query, and the reduction runs along the lanes. A
# block of bq queries then has bq maxima, and a kernel can keep them in two shapes. As (bq, 1) they use one lane of each
# register, and before the next block of scores can be compared with them, the XLU has to broadcast that lane to the
# other 127. As (bq, 128) every lane holds the maximum of its row, so the statistics combine with the scores register by
# register.
#
# The cell below computes attention from given scores in both shapes. Real attention does not read its scores from HBM,
# so we leave out the cycles that wait for copies. **Predict:** which shape needs more VMEM, and which needs more
# cycles?


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
# Both shapes take the same VMEM, because a (256, 1) array is padded to 128 lanes anyway. The narrow one costs more
# cycles (predicted by the compiler), because it fills more of the XLU's slots and spills more. So the library's
# `flash_attention` keeps its statistics as (bq, 128). The exponentials are rounded to bfloat16 before they are
# multiplied with v, because the MXU takes bfloat16, and their sum is computed from the unrounded ones. (08.9 asks for
# full float32, so that it can be checked to the last digits.)
#
# > **statistic per row**: one value for each row, such as a maximum or a sum. Keep it in all 128 lanes, which takes no
# > more VMEM than one lane does, and needs no broadcast.
#
# <!-- next -->
