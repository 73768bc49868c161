"""The HBM traffic of the published kernel that is 4.5 times slower than the layer it replaces."""

import functools

from course_lib import chips, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_09 import guide

CHANGES = ("bm = 512", "bn = 512", "K in blocks of 128", "4 buffers")


def _reads_of_b() -> float:
    call = grid.walk(guide.strips, guide.SQUARE, guide.SQUARE).calls[0]
    b = next(operand for operand in call.operands if operand.name == "b_ref")
    return sum(b.fetched) * 128 / guide.SIZE


def _quarters() -> str:
    """Return the change that leaves about a quarter of the bytes. Blocks along K and more buffers change nothing."""
    before = guide.traffic()
    changed = {
        "bm = 512": guide.traffic(functools.partial(guide.strips, bm=512)),
        "bn = 512": guide.traffic(functools.partial(guide.strips, bn=512)),
    }
    return next(name for name, moved in changed.items() if moved < before / 3)


PARTS = {
    "A": Predict(
        value=64,
        unit="",
        near={
            1: "For that, b's block would have to stay. Which index does b's map use, and which axis runs fastest?",
            4096: "That is how many blocks of b are fetched. How many of them make all of b?",
            8192: "That is the length of b. How many rows of blocks does the result have?",
            128: "That is the width of a block of b. How many rows of blocks does the result have?",
        },
        why="b's block changes at every step, so each of the 64 rows of blocks reads all of b.",
        proof=_reads_of_b,
        stands_above="as sizes of blocks and arrays",
    ),
    "B": Predict(
        value=17_716_740_096,
        unit="bytes",
        tolerance=0.01,
        near={
            17_448_304_640: "Almost, but one matrix is missing. The result is written, too.",
            805_306_368: "That counts each array once. How often is b read?",
            34_628_173_824: "That reads a as often as b, but a's map uses only i. For how many consecutive steps does "
            "its block stay?",
            268_435_456 * 2: "That counts two matrices once each, but b is read more than once.",
            4_429_185_024: "That takes one byte for each element, but a float32 has four.",
            8_858_370_048: "That takes two bytes for each element, but a float32 has four.",
        },
        why="b moves 64 times, a once, and the result once.",
        proof=guide.traffic,
    ),
    "C": Predict(
        value=21.63,
        unit="ms",
        tolerance=0.01,
        near={
            0.983: "That is the time of each array once. Use your answer to B.",
            5.58: "That is how long the MXU computes. This question is about the bytes of B, divided by the bandwidth.",
            20.15: "The bandwidth is 820 GB/s, and a GB has 10**9 bytes. Your bytes are in GiB.",
            21.3: "That is the time of B without one matrix. The result is written, too.",
            35.0: "That is what the guide measured. How much of it do the bytes explain?",
        },
        why="it is B divided by 820 GB/s.",
        proof=lambda: guide.traffic() / chips.chip("v5e").hbm_bandwidth * 1e3,
    ),
    "D": Choose(
        options=CHANGES,
        right="bm = 512",
        wrong={
            "bn = 512": "Then the blocks of b are wider, and there are fewer of them. How many rows of blocks still "
            "read all of b?",
            "K in blocks of 128": "That makes room in VMEM. Is an element of b then used more often before it leaves?",
            "4 buffers": "More buffers hide latency, but the same bytes are copied.",
        },
        why="b is read once for each row of blocks, and only 16 rows remain.",
        proof=_quarters,
        next="for each change, work out how many rows of blocks there are, and whether each of them reads all of b.",
    ),
}

EXERCISE = Exercise(
    id="09.3",
    title="The 35 ms mystery: whose bytes?",
    kind="several",
    defines="mystery",
    asks=Several(
        parts=PARTS,
        why="the bytes, and then the matmul's 5.6 ms, explain 27 of the 35 ms.",
    ),
    hints=(
        "Write down the block indices of a and b at steps (0, 0), (0, 1), (0, 2), (1, 0). Which of them change?",
        "a's block stays while j runs, so a is read once. b's block changes at each step, so how many steps read all "
        "of b? A matrix has 8192 x 8192 x 4 bytes.",
        "If A is 64, then B is (64 + 1 + 1) matrices of 268,435,456 bytes. For D, count the rows of blocks that each "
        "change leaves.",
    ),
    points=2,
)
