"""What the vector units can do against the matrix units, and what that means for a softmax."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

SLOTS = 4  # VPU operations that a v5e issues in a cycle, each on a whole register
OPERATIONS = 9  # of the VPU, for one score of a softmax, as the exercise has it


def _mxu_a_cycle() -> int:
    """FLOPs of all MXUs of a v5e in a cycle: each multiplies and adds in every cell."""
    chip = chips.chip("v5e")
    return 2 * chip.mxus * chip.mxu_size**2


def _vpu_a_cycle() -> int:
    chip = chips.chip("v5e")
    return SLOTS * chip.sublanes * chip.lanes


def _width_where_both_take_as_long() -> float:
    """K, for which the 4 K FLOPs of a score on the MXU take as long as its operations on the VPU."""
    return OPERATIONS / _vpu_a_cycle() * _mxu_a_cycle() / 4


def _slower_unit(width: int) -> str:
    of_mxu, of_vpu = 4 * width / _mxu_a_cycle(), OPERATIONS / _vpu_a_cycle()
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
            0.390625: "An operation of the VPU is on a whole register, and there are four slots.",
        },
        why="4,096 FLOPs a cycle against 131,072.",
        proof=lambda: 100 * _vpu_a_cycle() / _mxu_a_cycle(),
    ),
    "width": Predict(
        value=72,
        unit="",
        tolerance=0.01,
        near={
            144: "That is right if the two products have 2 K FLOPs a score together. They have 4 K.",
            288: "That is K FLOPs a score. There are two products, with a multiplication and an addition each.",
            8: "That is for one operation a score. There are nine.",
            2.25: "Is that 9 over 4? The two units do not do equally many FLOPs in a cycle.",
        },
        why="there the vector work takes as long as the products.",
        proof=_width_where_both_take_as_long,
    ),
    "K = 32": Choose(
        options=("the MXU", "the VPU", "HBM"),
        right="the VPU",
        wrong={
            "the MXU": "It has 4 * 32 FLOPs for a score, at 131,072 a cycle. How long does the other unit need?",
            "HBM": "The scores are made in VMEM and used up there; a head's bytes are few beside T * T scores.",
        },
        why="the products are done before the softmax is.",
        proof=lambda: _slower_unit(32),
        next="work out the time of each unit for one score.",
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
        "width: 4 K / 131,072 cycles on the one side, 9 / 4,096 on the other. Which K makes them equal? And below it?",
    ),
    points=2,
)
