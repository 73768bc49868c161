# %% [markdown]
# # Start here
#
# A TPU refuses a kernel for reasons that no laptop can see. In this course yours can: the TPU's own compiler runs
# on its CPU, and so does a simulator of the chip's memory. You will write kernels, the small programs that move data
# on the chip and compute with it, in JAX Pallas, and four judges will look at each of them. No TPU is needed. If one
# is there, your kernels run on it.
#
# This page takes five minutes. It makes sure that everything works, and shows how to read what you are told.

# %%
# FIRST CELL

# %% [markdown]
# The line above says which JAX you have, whether there is a TPU, and how many of the four judges can sit on this
# machine. The doctor says it in full. What it prints depends on your machine, so run the next cell.

# %% tags=["outputs-not-stored"]
checks.doctor()

# %% [markdown]
# ## The four judges
#
# | judge | asks | needs |
# |---|---|---|
# | numbers | Are the numbers those of plain JAX? Is the arithmetic done in a kernel that leaves its inputs alone? | nothing |
# | simulator | What happens in memory that starts as garbage, in the order in which a TPU walks the grid? | nothing |
# | races | And if two cores share the work? A v5e and a v6e have one; a v4 and a v5p have two that look like one device. | nothing |
# | compiler | Would a TPU v5e take it: legal blocks, enough on-chip memory, operations it has? | Linux on x86-64 |
#
# They are asked in this order, and the first that refuses speaks. No single one of them sees every mistake; in lesson
# 1 you will watch a kernel pass three and fail the fourth.
#
# "Compiler: missing" on a Mac or an Arm machine is no fault of yours: Google publishes the compiler for Linux on
# x86-64 only. Everything else works. (Colab is such a Linux. We have not run the course there yet.)

# %% [markdown]
# ## How a check talks
#
# There are three answers: not attempted, not yet, passed. Here are the first two, from exercise 01.1, where you will
# write a kernel that adds two vectors; the third is yours to earn. First, a kernel nobody has begun. (`rehearsal` means:
# these answers are ours, so nothing is written down as yours.)

# %%
import jax
from jax.experimental import pallas as pl


def with_kernel(kernel):
    """A function of two vectors that runs the kernel on them."""
    return lambda x, y: pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
    )(x, y)


def nothing_yet(x_ref, y_ref, o_ref):
    """Write x + y into o_ref."""


with checks.rehearsal():
    checks.check("01.1", with_kernel(nothing_yet))

# %% [markdown]
# Then one that forgets `y`. Read the answer from the top: which judge, what it saw, what to try next.


# %%
def forgets_y(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...]


with checks.rehearsal():
    checks.check("01.1", with_kernel(forgets_y))

# %% [markdown]
# A wrong answer is a sentence, not a red page, and the notebook runs on. `checks.hint("01.1")` gives a first hint,
# then a second, then nearly everything. `checks.solution("01.1")` shows our answer once you have tried one of yours.

# %%
with checks.rehearsal():
    checks.hint("01.1")

# %% [markdown]
# Some exercises ask for no kernel but for a number, a choice or a line of code. They answer in the same way, and read a
# wrong number closely: forget a unit, or take thousands for 1,024s, and they say so.

# %%
with checks.rehearsal():
    checks.check("01.6", 4096)

# %% [markdown]
# ## The course
#
# What each lesson gives you, what it builds on, how long it takes and what a TPU adds. Run the cell again whenever you
# like, here or in any notebook: it shows how far you are.

# %%
checks.course_map()

# %% [markdown]
# <!-- lessons -->
#
# Read a lesson, run its cells, then open its exercises. Where a lesson asks you to predict something, the answer is folded:
# write your guess down first, then run the cell or click the three dots. More lessons are being written: where one points
# to a lesson that is not in the table, it is not here yet.
#
# A word you do not know? Every word of the course is on [one page](../docs/glossary.md), with the lesson that explains it.
#
# ## How far you are
#
# What you try, and what passed and when, is kept in `course_progress.json`, a small file in the course's folder. Nobody
# reads it but you; delete it, and you begin anew. (In Colab it lasts as long as the runtime.) A pass stays a pass,
# whatever you try afterwards. This cell has every exercise:

# %%
checks.progress()

# %% [markdown]
# ## If something is strange
#
# If a cell runs for too long: *Kernel*, *Interrupt*. Otherwise: *Kernel*, *Restart Kernel and Run All Cells*. If a restart
# is followed by `NameError: name 'checks' is not defined`, run the notebook's first code cell again.
#
# <!-- next -->
