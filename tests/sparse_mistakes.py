"""Right kernels of sparse_kernels, and mistakes planted in them, with what is seen of each on every chip.

The table of docs/sparse_core.md is made of this, and test_judges_sparse_core asks for each answer again.
"""

from typing import NamedTuple

CHIPS = "v6e", "v5p", "tpu7x"
RIGHT = (
    "gathered", "scattered", "counted", "added", "summed",
    "sparse_core.gather_rows", "sparse_core.scatter_add", "sparse_core.histogram",
)  # fmt: skip
ORDER = "nothing orders the two"


class Mistake(NamedTuple):
    """What is seen of a mistake, alike on all chips."""

    kernel: str
    name: str
    judge: str  # of judge_sparse_core, that refuses it
    says: str
    values: str  # of a run in NumPy that checks nothing: "right", "wrong" or "hangs"
    compiles: bool = True


MISTAKES = (
    Mistake("gathered", "an index outside", "protocol", "table_hbm has 512 rows. The index is entry", "right"),
    Mistake("gathered", "divided among the subcores of one core", "protocol", "core 1, subcore 0) at line", "wrong"),
    Mistake("gathered", "the last shares overlap", "protocol", ORDER, "right"),
    Mistake("gathered", "both halves on one semaphore", "protocol", "2 copies share its semaphore", "right"),
    Mistake("gathered", "the list is overwritten", "protocol", "writes indices_ref[:] before the copy", "right"),
    Mistake("gathered", "the second half is not awaited", "protocol", "before the copy into it, started", "right"),
    Mistake("gathered", "the output is not awaited", "protocol", "ends before the copy from rows_ref", "right"),
    Mistake("gathered", "waits twice", "protocol", "no copy is under way there", "hangs"),
    Mistake("gathered", "a promise that does not hold", "protocol", "is a multiple of", "right"),
    Mistake("gathered", "the first half twice", "numbers", "belongs at [0, 0]", "wrong"),
    Mistake("gathered", "64 columns", "compiler", "rows of 64 columns by an index", "right", compiles=False),
    Mistake("gathered", "rows of bfloat16", "compiler", "fewer than 32 bits", "right", compiles=False),
    Mistake("gathered", "more rows than VMEM holds", "compiler", "words of SparseCore memory", "right", compiles=False),
    Mistake("scattered", "no barrier behind the zeros", "protocol", "plsc.subcore_barrier() between", "wrong"),
    Mistake("scattered", "no barrier behind the sum", "protocol", "plsc.subcore_barrier() between", "wrong"),
    Mistake("scattered", "a barrier for some", "protocol", "has ended without coming to it", "hangs"),
    Mistake("scattered", "without add", "protocol", "nothing says which of them stays", "wrong"),
    Mistake("scattered", "rows straight into HBM", "protocol", "nothing says which of them stays", "wrong"),
    Mistake("scattered", "the sum is not set to zero", "numbers", "Nothing has written this memory", "wrong"),
    Mistake("scattered", "the sum of one core", "numbers", "The output at [", "wrong"),
    Mistake("counted", "a bin that does not exist", "protocol", "which has 128 elements", "right"),
    Mistake("counted", "equal lanes add at once", "protocol", "plsc.scan_count", "right"),
    Mistake("counted", "all write one row", "protocol", "give each subcore rows of its own", "wrong"),
    Mistake("counted", "the counts are not set to zero", "numbers", "Each wrong element is too small", "wrong"),
    Mistake("counted", "one step too few", "numbers", "it should be", "wrong"),
    Mistake("added", "a pipeline over one axis", "protocol", "core 1, subcore 0)", "right"),
)


def table() -> str:
    """The table of docs/sparse_core.md. An answer that is the same on all chips stands once."""
    rows = [
        f"| {m.kernel} | {m.name} | {m.values} | {'-' if m.compiles else 'refuses'} | {m.judge} |" for m in MISTAKES
    ]
    head = ["| kernel | mistake | values alone | compiler | refused by |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])
