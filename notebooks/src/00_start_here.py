# %% [markdown]
# # Start here
#
# A TPU refuses some kernels for reasons that you normally cannot see on a laptop. In this course you can, because your
# laptop runs the TPU's own compiler and a simulator of the chip's memory. A kernel is a small program that moves data
# on the chip and computes with it. You will write kernels in JAX Pallas, and four judges will examine each of them. You
# do not need a TPU, but if there is one, your kernels run on it.
#
# In five minutes, this page makes sure that everything works and shows you how to read the result of a check.

# %%
# FIRST CELL

# %% [markdown]
# The line above says which JAX you have, whether there is a TPU, and how many of the four judges work on this machine.
# The next cell gives the details, which depend on your machine and appear when you run it.

# %% tags=["outputs-not-stored"]
checks.doctor()

# %% [markdown]
# ## The four judges
#
# | judge | asks | needs |
# |---|---|---|
# | numbers | Does the result agree with plain JAX? Does a kernel compute it, and does that kernel leave its inputs unchanged? | nothing |
# | simulator | What happens if memory starts as garbage and the steps of the grid run in a TPU's order? | nothing |
# | races | What happens if two cores share the work? A v5e and a v6e have one core; a v4 and a v5p have two, which JAX shows as one device. | nothing |
# | compiler | Would a TPU v5e accept the kernel: are its blocks legal, is there enough on-chip memory, does the chip have its operations? | Linux on x86-64 |
#
# The judges examine a kernel in this order, and the first one that refuses it gives its reason. No single judge sees
# every mistake: in lesson 1, which explains grids and blocks, you will watch a kernel pass three judges and fail the
# fourth.
#
# If you read "Compiler: missing" on a Mac or an Arm machine, you have done nothing wrong. Google publishes the compiler
# for Linux on x86-64 only, and everything else works without it. (Colab is such a Linux, but we have not run the course
# there yet.)

# %% [markdown]
# ## How to read a check
#
# A check gives one of three answers: not attempted, not yet, or passed. The next two cells show the first two answers
# for exercise 01.1, which asks for a kernel that adds two vectors, and the third is yours to earn. In the first of
# these cells, the kernel is still empty. Both checks run inside `checks.rehearsal()`, so they are not recorded as your
# attempts.

# %%
import jax
from jax.experimental import pallas as pl


def with_kernel(kernel):
    """Return a function of two vectors that runs the kernel on them."""
    return lambda x, y: pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
    )(x, y)


def nothing_yet(x_ref, y_ref, o_ref):
    """Write x + y into o_ref."""


with checks.rehearsal():
    checks.check("01.1", with_kernel(nothing_yet))

# %% [markdown]
# The next kernel forgets `y`. Read the answer from the top: it says first which judge refused the kernel, then what
# that judge saw, and finally what to try next.


# %%
def forgets_y(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...]


with checks.rehearsal():
    checks.check("01.1", with_kernel(forgets_y))

# %% [markdown]
# A wrong answer produces an explanation instead of a red traceback, and the notebook runs on. The first call of
# `checks.hint("01.1")` gives a hint, the second gives more help, and the third almost tells you the answer. Once you
# have tried an answer of your own, `checks.solution("01.1")` shows ours.

# %%
with checks.rehearsal():
    checks.hint("01.1")

# %% [markdown]
# Some exercises ask not for a kernel but for a number, a choice or a line of code. Their checks answer in the same way,
# and they recognize common slips: if you forget the unit, or mistake KB for KiB, the answer says so.

# %%
with checks.rehearsal():
    checks.check("01.6", 4096)

# %% [markdown]
# ## The course
#
# The map below shows what each lesson teaches you, what it builds on, how many minutes the lesson and its exercises
# take, and what a TPU adds. Run `checks.course_map()` whenever you like, here or in any other notebook, to see how far
# you are.

# %%
checks.course_map()

# %% [markdown]
# <!-- lessons -->
#
# Read a lesson and run its cells, and then open its exercises. Where a lesson asks you to predict something, the answer
# is folded, so write down your guess first, and then run the cell or click the three dots.
#
# Unsure about a term? The [glossary](../docs/glossary.md) lists every term of the course, with the lesson that explains
# it.
#
# ## How far you are
#
# The small file `course_progress.json` in the course's folder records what you have tried and what you have passed, and
# when. Nobody reads it but you, and if you delete it, you start again from zero. (In Colab it lasts as long as the
# runtime.) Once an exercise has passed, it stays passed, whatever you try afterwards. The next cell lists every
# exercise:

# %%
checks.progress()

# %% [markdown]
# ## If something goes wrong
#
# If a cell runs for too long, choose *Kernel* and *Interrupt*. If anything else goes wrong, choose *Kernel* and
# *Restart Kernel and Run All Cells*. If you read `NameError: name 'checks' is not defined` after a restart, run the
# notebook's first code cell again.
#
# <!-- next -->
