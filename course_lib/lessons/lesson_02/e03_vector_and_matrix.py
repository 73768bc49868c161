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
            0.78125: "That lets the VPU do one operation per cycle. How many slots does a bundle have for it?",
            6.25: "An operation of the VPU is one FLOP for each element of a register, but a cell of an MXU does two.",
            12.5: "That compares all of the VPU with one MXU, but there are four.",
            1.5625: "That is half of it. Does the VPU have all its slots, and a cell of an MXU two FLOPs per cycle?",
            3200: "That is how many times faster the MXUs are. The question asks for the share, so turn it around.",
            32: "That is how many times faster the MXUs are. The question asks for the share, so turn it around.",
            0.390625: "An operation of the VPU works on a whole register, and a bundle has four slots for it.",
        },
        next="write down for each unit how many FLOPs it does in one cycle, and divide.",
        why="the VPU does 4,096 FLOPs per cycle, and the MXUs do 131,072.",
        proof=lambda: 100 * _vpu_a_cycle() / _mxu_a_cycle(),
    ),
    "operations": Predict(
        value=16,
        unit="",
        tolerance=0.01,
        near={
            8: "That is right if the two matmuls do 2 K FLOPs per score together, but they do 4 K.",
            4: "That is K FLOPs per score, but there are two matmuls, with a multiplication and an addition each.",
            64: "That is right for one MXU, but there are four.",
            32: "That is twice too many. A cell of an MXU does two FLOPs per cycle, a multiplication and an addition.",
            512: "That is how many FLOPs the matmuls do, but the two units do not do equally many per cycle.",
        },
        next="write down for each unit how many cycles it takes for one score, and make the two equal.",
        why="then the vector work takes as long as the matmuls.",
        proof=lambda: _operations_where_both_take_as_long(128),
        stands_above="16 is a number of registers, of rows and of much else.",
    ),
    "K = 32": Choose(
        options=("the MXU", "the VPU", "HBM"),
        right="the MXU",
        wrong={
            "the VPU": "That would be so if the matmuls took a quarter of the time of K = 128. But a head of width 32 "
            "fills only 32 of the 128 rows of cells of an MXU, and the others stand empty.",
            "HBM": "The scores are made in VMEM and used up there, and a head has few bytes beside its T * T scores.",
        },
        why="the matmuls take as long for a head of 32 as for one of 128, and 9 operations are fewer than 16.",
        proof=lambda: _slower_unit(32),
        next="ask how long the matmuls take with K = 128, and whether a narrower head makes them faster.",
    ),
}

EXERCISE = Exercise(
    id="02.3",
    title="Predict: the matrix units against the vector units",
    kind="several",
    defines="units",
    asks=Several(parts=QUESTIONS, why="a few FLOPs can take most of the time."),
    hints=(
        "Count for one cycle, and leave out the clock, which is the same for all units. An MXU has 128 x 128 cells.",
        "MXU: 4 units of 128 * 128 cells, a multiplication and an addition in each. VPU: 4 slots of 8 * 128 elements.",
        "operations: 4 * 128 / 131,072 cycles must equal n / 4,096 cycles. K = 32: does that make the MXU any faster?",
    ),
    points=2,
)
