# %% [markdown]
# # Start here
#
# A TPU refuses some kernels for reasons that no laptop can normally see. In this course your laptop sees them, because
# it runs the TPU's own compiler and a simulator of the chip's memory. You will write kernels in JAX Pallas, small
# programs that move data on the chip and compute with it, and four judges will examine each of them. You do not need a
# TPU, but if there is one, your kernels run on it.
#
# This page takes five minutes. It makes sure that everything works, and it shows you how to read the answer of a check.

# %%
# FIRST CELL

# %% [markdown]
# The line above says which JAX you have, whether there is a TPU, and how many of the four judges work on this machine.
# `checks.doctor()` gives the details, which depend on your machine, so run the next cell.

# %% tags=["outputs-not-stored"]
checks.doctor()

# %% [markdown]
# ## The four judges
#
# | judge | asks | needs |
# |---|---|---|
# | numbers | Are the numbers those of plain JAX? Is the arithmetic done in a kernel that leaves its inputs alone? | nothing |
# | simulator | What happens if memory starts as garbage and the grid runs in a TPU's order? | nothing |
# | races | What happens if two cores share the work? A v5e and a v6e have one core; a v4 and a v5p have two that look like one device. | nothing |
# | compiler | Would a TPU v5e accept the kernel: are its blocks legal, is there enough on-chip memory, does the chip have its operations? | Linux on x86-64 |
#
# The judges are asked in this order, and the first one that refuses gives its reason. No single judge sees every
# mistake, and in lesson 1 you will watch a kernel pass three of them and fail the fourth.
#
# If you read "Compiler: missing" on a Mac or an Arm machine, nothing is wrong with your setup, because Google publishes
# the compiler for Linux on x86-64 only. Everything else works. (Colab is such a Linux, but we have not run the course
# there yet.)

# %% [markdown]
# ## How a check talks
#
# A check has three answers: not attempted, not yet, and passed. Below are the first two, from exercise 01.1, in which
# you will write a kernel that adds two vectors, and the third is yours to earn. The first kernel is one that nobody has
# begun. (`rehearsal` says that these answers are ours, so that nothing is recorded as yours.)

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
# The next kernel forgets `y`. Read the answer from the top, because it says first which judge refused the kernel, then
# what that judge saw, and last what to try next.


# %%
def forgets_y(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...]


with checks.rehearsal():
    checks.check("01.1", with_kernel(forgets_y))

# %% [markdown]
# A wrong answer gets a sentence, not a red page, and the notebook runs on. `checks.hint("01.1")` gives a first hint,
# then a second, and then nearly everything. Once you have tried an answer of your own, `checks.solution("01.1")` shows
# ours.

# %%
with checks.rehearsal():
    checks.hint("01.1")

# %% [markdown]
# Some exercises ask not for a kernel but for a number, a choice or a line of code. Their checks answer in the same way
# and look closely at a wrong number. If you forget the unit, or mistake KB for KiB, they say so.

# %%
with checks.rehearsal():
    checks.check("01.6", 4096)

# %% [markdown]
# ## The course
#
# The map below shows what each lesson gives you, what it builds on, how long it takes and what a TPU adds. Run
# `checks.course_map()` whenever you like, here or in any other notebook, to see how far you are.

# %%
checks.course_map()

# %% [markdown]
# <!-- lessons -->
#
# Read a lesson, run its cells, and then open its exercises. Where a lesson asks you to predict something, the answer is
# folded, so write down your guess first, and then run the cell or click the three dots. More lessons are being written,
# so a lesson may point to one that is not in the table yet.
#
# Unsure about a term? The [glossary](../docs/glossary.md) has every term of the course, with the lesson that explains
# it.
#
# ## How far you are
#
# `course_progress.json`, a small file in the course's folder, records what you try, and what passed and when. Nobody
# reads it but you, and if you delete it, you start from zero. (In Colab it lasts as long as the runtime.) A pass stays
# a pass, whatever you try afterwards. The next cell lists every exercise:

# %%
checks.progress()

# %% [markdown]
# ## If something is strange
#
# If a cell runs for too long, choose *Kernel* and *Interrupt*. If anything else is strange, choose *Kernel* and
# *Restart Kernel and Run All Cells*. If a restart is followed by `NameError: name 'checks' is not defined`, run the
# notebook's first code cell again.
#
# <!-- next -->
