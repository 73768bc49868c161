"""The throughput of the vector units compared with the matrix units, and what it means for a softmax."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

SLOTS = 4  # VPU operations that a v5e issues per cycle, each on a whole register
OPERATIONS = 9  # VPU operations per score of a softmax, as the exercise counts them


def _mxu_a_cycle() -> int:
    """Return the FLOPs per cycle of all MXUs of a v5e: each cell multiplies and adds."""
    chip = chips.chip("v5e")
    return 2 * chip.mxus * chip.mxu_size**2


def _vpu_a_cycle() -> int:
    chip = chips.chip("v5e")
    return SLOTS * chip.sublanes * chip.lanes


def _operations_where_both_take_as_long(width: int) -> float:
    """Return the VPU operations per score that take as long as its 4 K FLOPs on the MXU."""
    return 4 * width / _mxu_a_cycle() * _vpu_a_cycle()


def _slower_unit(width: int) -> str:
    """Return the slower unit; a head narrower than an MXU takes as long as one that fills it (a test compiles both)."""
    filled = max(width, chips.chip("v5e").mxu_size)
    of_mxu, of_vpu = 4 * filled / _mxu_a_cycle(), OPERATIONS / _vpu_a_cycle()
    return "the MXU" if of_mxu > of_vpu else "the VPU"


QUESTIONS = {
    "share": Predict(
        value=3.125,
        unit="%",
        tolerance=0.01,
        near={
            0.78125: "That lets the VPU do one operation a cycle. How many slots does a bundle have for it?",
            6.25: "An operation of the VPU is one FLOP for each number of a register; a cell of an MXU does two.",
            12.5: "That is all of the VPU against one MXU. There are four.",
            1.5625: "That is half of it. Has the VPU all its slots, and a cell of an MXU two FLOPs a cycle?",
            3200: "That is how many times the VPU's the rate of the MXUs is. Asked is the share: turn it round.",
            32: "That is how many times the VPU's the rate of the MXUs is. Asked is the share: turn it round.",
            0.390625: "An operation of the VPU is on a whole register, and there are four slots.",
        },
        next="write down for each unit what it does in one cycle, in FLOPs, and divide.",
        why="4,096 FLOPs a cycle against 131,072.",
        proof=lambda: 100 * _vpu_a_cycle() / _mxu_a_cycle(),
    ),
    "operations": Predict(
        value=16,
        unit="",
        tolerance=0.01,
        near={
            8: "That is right if the two products have 2 K FLOPs a score together. They have 4 K.",
            4: "That is K FLOPs a score. There are two products, with a multiplication and an addition each.",
            64: "That is for one MXU. There are four.",
            32: "That is twice too many. A cell of an MXU does two FLOPs in a cycle, a multiplication and an addition.",
            512: "That is the FLOPs of the products. The two units do not do equally many in a cycle.",
        },
        next="write down for each unit how many cycles one score takes it, and make the two equal.",
        why="there the vector work takes as long as the products.",
        proof=lambda: _operations_where_both_take_as_long(128),
        stands_above="16 is a number of registers, of rows and of much else.",
    ),
    "K = 32": Choose(
        options=("the MXU", "the VPU", "HBM"),
        right="the MXU",
        wrong={
            "the VPU": "So it would be if the products took a quarter of the time of K = 128. But of the 128 rows of "
            "cells of an MXU a head of width 32 fills 32, and the others stand empty.",
            "HBM": "The scores are made in VMEM and used up there; a head's bytes are few beside T * T scores.",
        },
        why="a head of 32 takes the products as long as one of 128, and there 9 operations are fewer than 16.",
        proof=lambda: _slower_unit(32),
        next="ask how long the products take with K = 128, and whether a narrower head makes them faster.",
    ),
}

EXERCISE = Exercise(
    id="02.3",
    title="Predict: the matrix units against the vector units",
    kind="several",
    defines="units",
    asks=Several(parts=QUESTIONS, why="few FLOPs can be most of the time."),
    hints=(
        "Count for one cycle, and leave the clock out: all units have the same. An MXU has 128 x 128 cells.",
        "MXU: 4 units of 128 * 128 cells, a multiplication and an addition in each. VPU: 4 slots of 8 * 128 numbers.",
        "operations: 4 * 128 / 131,072 cycles on the one side, n / 4,096 on the other. With K = 32, is the MXU faster?",
    ),
    points=2,
)
