"""The part of docs/zoo.md on kernels for GPUs: planted bugs, which are in tests/gpu_zoo.py, and who refuses each."""

import textwrap

from gpu_zoo import BUGS, GpuBug

_INTRODUCTION = """\
## On a GPU

{bugs} kernels for GPUs, each with a bug planted in it (`tests/gpu_zoo.py`), before `judges.judge_gpu`, with no GPU. It
asks three judges, *numbers* and *races* in JAX's simulator of a GPU, *compiler* by ptxas, and names the first that
refuses; of a race and the wrong numbers that come of it, the race. A kernel by `pl.pallas_call`, which goes through
Triton, is run by JAX's plain interpreter instead, and read: for blocks that reach past an array without a mask, and for
blocks that two steps of the grid write. tests/test_judges_gpu.py asks the judges again.
"""


def section() -> str:
    """With the bugs that nobody sees."""
    unseen = [f"**{bug.name}**: {bug.unseen}" for bug in BUGS if bug.caught_by is None]
    wrapped = [textwrap.fill(item, 118, initial_indent="- ", subsequent_indent="  ") for item in unseen]
    rows = ["| bug | refused by |", "|---|---|", *(f"| {bug.name} | {_refused_by(bug)} |" for bug in BUGS)]
    introduction = _INTRODUCTION.format(bugs=len(BUGS))
    return "\n".join([introduction, *rows, "", "Seen by nobody without a GPU:", "", *wrapped, ""])


def _refused_by(bug: GpuBug) -> str:
    if bug.caught_by is None:
        return "nobody"
    return bug.caught_by if isinstance(bug.caught_by, str) else " or ".join(bug.caught_by)
