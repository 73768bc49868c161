"""FLOPs per byte of HBM traffic that each of five chips can do."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

TWO_CORES = "That is the peak of the whole chip over the bandwidth of one of its two cores, or the other way round."
UPSIDE_DOWN = "That is upside down: bytes for each FLOP. Asked is how many FLOPs there are for each byte."
OF_INT8 = "That is the ratio with the peak of int8. This question is about bfloat16."
PUBLISHED = "That is with the figures of Google's page. This course takes JAX's, which chips.chip(name) has."
ON_GOOGLES_PAGE = {"v4": 275e12 / 1200e9, "v5p": 459e12 / 2765e9}  # where the two differ by more than 1 %
RATE_OVER_RATE = "write peak and bandwidth with their units, and divide: FLOP/s over bytes/s."
HALF_FOR_INT8 = (
    "That is half of the ratio for bfloat16. For int8 the peak is twice as high, and the bandwidth is the same."
)
OF_BF16 = "That is the ratio with the peak of bfloat16. This question is about int8."


def _balance(name: str) -> float:
    return chips.chip(name).bf16_flops / chips.chip(name).hbm_bandwidth


def _of_bf16(name: str) -> Predict:
    """Return the question for one chip. Known mistakes: two cores for one, int8 for bfloat16, the inverse ratio."""
    ratio, chip = _balance(name), chips.chip(name)
    near = {1 / ratio: UPSIDE_DOWN}
    if name in ON_GOOGLES_PAGE:
        near[ON_GOOGLES_PAGE[name]] = PUBLISHED
    if chip.tensor_cores == 2:
        near |= {2 * ratio: TWO_CORES, ratio / 2: TWO_CORES}
    elif chip.int8_ops:
        near[chip.int8_ops / chip.hbm_bandwidth] = OF_INT8
    return Predict(
        value=ratio,
        unit="",
        tolerance=0.01,
        near=near,
        why="peak over bandwidth.",
        next=RATE_OVER_RATE,
        proof=lambda: chip.chip_flops / chip.chip_bandwidth,
    )


BALANCES = {name: _of_bf16(name) for name in chips.NAMES}
BALANCES["v5e, int8"] = Predict(
    value=chips.chip("v5e").int8_ops / chips.chip("v5e").hbm_bandwidth,
    unit="",
    tolerance=0.01,
    near={_balance("v5e"): OF_BF16, _balance("v5e") / 2: HALF_FOR_INT8},
    why="int8 has twice the peak.",
    next=RATE_OVER_RATE,
    proof=lambda: 2 * _balance("v5e"),
)

EXERCISE = Exercise(
    id="02.1",
    title="Compare five chips",
    kind="several",
    defines="flops_per_byte",
    asks=Several(parts=BALANCES, why="the two newest ask for the most FLOPs a byte, and int8 for twice as many."),
    hints=(
        "FLOP/s over bytes/s is FLOPs per byte. Which two fields of chips.chip(name) are those?",
        "c.bf16_flops and c.hbm_bandwidth belong to one core both, and c.int8_ops too.",
        "for name in chips.NAMES: c = chips.chip(name); flops_per_byte[name] = c.bf16_flops / c.hbm_bandwidth. Then "
        'flops_per_byte["v5e, int8"], with c.int8_ops.',
    ),
    points=1,
)
