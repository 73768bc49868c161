"""FLOPs per byte of HBM traffic that each of five chips can do."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

TWO_CORES = "That divides the peak of the whole chip by the bandwidth of one of its two cores, or the other way round."
UPSIDE_DOWN = "That is upside down: bytes for each FLOP. The question asks for the FLOPs for each byte."
OF_INT8 = "That is the ratio with the peak of int8, but this question is about bfloat16."
PUBLISHED = "That uses the figures of Google's page. This course takes JAX's, which chips.chip(name) has."
ON_GOOGLES_PAGE = {"v4": 275e12 / 1200e9, "v5p": 459e12 / 2765e9}  # only where the two sources differ by more than 1 %
RATE_OVER_RATE = "write peak and bandwidth with their units, and divide FLOP/s by bytes/s."
HALF_FOR_INT8 = (
    "That is half of the ratio for bfloat16, but with int8 the peak is twice as high, and the bandwidth is the same."
)
OF_BF16 = "That is the ratio with the peak of bfloat16, but this question is about int8."


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
        why="it is the peak divided by the bandwidth.",
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
    asks=Several(parts=BALANCES, why="the two newest chips need the most FLOPs per byte, and int8 doubles the need."),
    hints=(
        "FLOP/s divided by bytes/s is FLOPs per byte. Which two fields of chips.chip(name) have these units?",
        "c.bf16_flops and c.hbm_bandwidth both belong to one core, and so does c.int8_ops.",
        "for name in chips.NAMES: c = chips.chip(name); flops_per_byte[name] = c.bf16_flops / c.hbm_bandwidth. Then do "
        'the same for flops_per_byte["v5e, int8"], with c.int8_ops.',
    ),
    points=1,
)
