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
            1: "Its strip would have to stay where it is. Which index does b's map use, and which axis runs fastest?",
            4096: "That is how many strips are fetched. How many of them make one b?",
            8192: "That is how long it is. How many rows of blocks are there?",
            128: "That is how wide a strip is. How many rows of blocks are there?",
        },
        why="b's strip changes at every step, so each of 64 rows of blocks reads all of it.",
        proof=_reads_of_b,
        stands_above="as sizes of blocks and arrays",
    ),
    "B": Predict(
        value=17_716_740_096,
        unit="bytes",
        tolerance=0.01,
        near={
            17_448_304_640: "Almost: one matrix is missing. The result is written, too.",
            805_306_368: "That is each array once. How often is b read?",
            34_628_173_824: "That reads a as often as b. a's map uses i alone: for how many steps in a row does it "
            "stay?",
            268_435_456 * 2: "b is read more often than once.",
            4_429_185_024: "Four bytes a number, not one.",
            8_858_370_048: "Float32 has four bytes.",
        },
        why="64 times b, a once, the result once.",
        proof=guide.traffic,
    ),
    "C": Predict(
        value=21.63,
        unit="ms",
        tolerance=0.01,
        near={
            0.983: "That is each array once, at full speed. Use B.",
            5.58: "That is how long the MXU computes. Here it is about B, over the bandwidth.",
            20.15: "The bandwidth is 820 GB/s, with 10**9 bytes to a GB. Yours come in GiB.",
            21.3: "That is B without one matrix. The result is written, too.",
            35.0: "That is what the guide measured. How much of it do the bytes explain?",
        },
        why="B over 820 GB/s.",
        proof=lambda: guide.traffic() / chips.chip("v5e").hbm_bandwidth * 1e3,
    ),
    "D": Choose(
        options=CHANGES,
        right="bm = 512",
        wrong={
            "bn = 512": "Then a strip of b is wider, and there are fewer of them. How many rows of blocks still read "
            "all of b?",
            "K in blocks of 128": "It makes room in VMEM. Is a number of b then used more often before it leaves?",
            "4 buffers": "They hide a latency. The same bytes are copied.",
        },
        why="b is read once for each row of blocks, and there are 16.",
        proof=_quarters,
        next="for each change: how many rows of blocks are there, and does each of them read all of b?",
    ),
}

EXERCISE = Exercise(
    id="09.3",
    title="The 35 ms mystery: whose bytes?",
    kind="several",
    defines="mystery",
    asks=Several(
        parts=PARTS,
        why="b is read 64 times. With the products' 5.6 ms behind them: 27 of the 35 ms.",
    ),
    hints=(
        "Write down the block indices of a and b at steps (0, 0), (0, 1), (0, 2), (1, 0). Which of them change?",
        "a's strip stays while j runs, so a is read once. b's strip changes at each step: how many steps read one b? "
        "A matrix has 8192 x 8192 x 4 bytes.",
        "B is (64 + 1 + 1) matrices of 268,435,456 bytes, if A is 64. For D ask how many rows of blocks there are.",
    ),
    points=2,
)
