"""The part of docs/zoo.md on kernels on SparseCores: how many mistakes were planted, and where their table is."""

from sparse_mistakes import MISTAKES

_SECTION = """\
## On SparseCores

{mistakes} mistakes, planted in four kernels for SparseCores (`tests/sparse_kernels.py`), before
`judges.judge_sparse_core`, which asks *protocol*, *numbers* and *compiler*. Their table is in
[sparse_core.md](sparse_core.md#a-judge), with what a comparison of values and the compiler see of each. {unseen} of
the {mistakes} have right values and no complaint from the compiler.
"""


def section() -> str:
    unseen = sum(m.values == "right" and m.compiles for m in MISTAKES)
    return _SECTION.format(mistakes=len(MISTAKES), unseen=unseen)
