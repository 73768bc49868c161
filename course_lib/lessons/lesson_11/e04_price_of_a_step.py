"""The cost of a step, fitted to published times; what the fit predicts, and what it cannot distinguish."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

# Measured by others: seconds of a bfloat16 matmul N x N x N in blocks of 128 on a v5e, printed in JAX's documentation
# (docs/pallas/tpu/matmul.ipynb); docs/measured.csv has them with their source.
PUBLISHED = {1024: 0.00029767, 4096: 0.0117715, 8192: 0.0918358}


def steps(n: int) -> int:
    """Return the number of grid steps, with blocks of 128 along all three axes."""
    return (n // 128) ** 3


def fitted() -> tuple[float, float]:
    """Return (seconds per step, seconds per call) of a straight line through the first two published times."""
    each = (PUBLISHED[4096] - PUBLISHED[1024]) / (steps(4096) - steps(1024))
    return each, PUBLISHED[1024] - each * steps(1024)


def _predicted_ms() -> float:
    each, call = fitted()
    return 1e3 * (call + each * steps(8192))


def _told_apart() -> str:
    """Simulate two machines, one that waits and one that works, and check that both give the published times."""
    each, call = fitted()
    work = 0.1e-6  # seconds; with two buffers, half of copy plus work is one step, so the copy takes the rest
    waits = {n: call + steps(n) * max(work, (2 * each - work + work) / 2) for n in PUBLISHED}
    works = {n: call + steps(n) * max(each, (0 + each) / 2) for n in PUBLISHED}
    return "neither" if all(abs(waits[n] / works[n] - 1) < 0.01 for n in PUBLISHED) else "latency"


def _cycles_of_a_step(moves: int) -> float:
    """Return the cycles per step of a blocked matmul, predicted (compiler); with ``moves`` 0 the blocks stay put."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def product(x, y):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((1024, 1024), jnp.float32),
            grid=(8, 8, 8),
            in_specs=[
                pl.BlockSpec((128, 128), lambda i, j, k: (moves * i, moves * k)),
                pl.BlockSpec((128, 128), lambda i, j, k: (moves * k, moves * j)),
            ],
            out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        )(x, y)

    square = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    return compiler.compile_tpu(product, square, square).cycles / 512


@functools.cache
def _experiment() -> str:
    """Check that copies are most of a step, by keeping the blocks fixed so that the copies disappear."""
    return "blocks that stay" if _cycles_of_a_step(0) < 0.6 * _cycles_of_a_step(1) else "none"


# Microseconds of a step and milliseconds of a call and of N = 8192, as likely mistakes give them.
FIRST, SECOND = PUBLISHED[1024], PUBLISHED[4096]
STEP, CALL = fitted()
NO_CALL_A = "That is a time divided by its steps. What does this time include besides the steps?"
CUBED = "Count the steps again: the grid has three axes of N / 128."
MORE_STEPS = "Twice the size takes more than twice the steps."

PARTS = {
    "A": Predict(
        value=0.35571,
        unit="us",
        tolerance=0.005,
        near={
            1e6 * FIRST / steps(1024): NO_CALL_A,
            1e6 * SECOND / steps(4096): f"{NO_CALL_A} If you did subtract that, give a third digit.",
            1e6 * (SECOND - FIRST) / steps(4096): "You take the difference of the times. Which steps does it contain?",
            **dict.fromkeys((1e6 * (SECOND - FIRST) / (32**n - 8**n) for n in (1, 2)), CUBED),
            1e6 * (SECOND - FIRST) / (64**3 - 16**3): "The blocks are 128 wide. You counted those of 64.",
            1e6 * (SECOND - FIRST) / (16**3 - 4**3): "The blocks are 128 wide. You counted those of 256.",
            1e6 * (SECOND - FIRST) / (4096 - 1024): "You divide by the difference of the sizes, but a grid has "
            "(N / 128)^3 steps.",
            1e6 * (SECOND - FIRST): "That is the difference of the two times. How many steps does it contain?",
        },
        why="it is the slope of a line through both times.",
        proof=lambda: fitted()[0] * 1e6,
        next="divide the difference of the two times by the difference of their numbers of steps.",
    ),
    "B": Predict(
        value=0.11555,
        unit="ms",
        tolerance=0.05,
        near={
            1e3 * FIRST: "That is the whole first time, and it includes its 512 steps.",
            1e3 * SECOND: "That is the whole second time, and it includes its 32,768 steps.",
            1e3 * steps(1024) * STEP: "That is what the 512 steps of the first time cost. What is left of it?",
            1e3 * (FIRST - 64 * STEP): CUBED,
            1e3 * (SECOND - steps(1024) * STEP): "You subtract the steps of one time from the other time.",
            1e3 * (FIRST + SECOND) / 2: "That is the mean of the two times, and it includes their steps.",
        },
        why="it is what is left of the first time without its steps.",
        proof=lambda: fitted()[1] * 1e3,
        next="subtract the cost of its 512 steps from the first time.",
    ),
    "C": Predict(
        value=93.4,
        unit="ms",
        tolerance=0.005,
        near={
            8e3 * SECOND: "That is 8 times the second time. It has 8 times the steps, but how many calls?",
            1e3 * PUBLISHED[8192]: "That is what the page measured. Which time follows from A and B?",
            4e3 * SECOND: "A matrix of twice the size has four times the elements. How many times the steps does it "
            "take?",
            2e3 * SECOND: MORE_STEPS,
            1e3 * (SECOND + (SECOND - FIRST) / (4096 - 1024) * 4096): "You extend a line over N. The time grows with "
            "the steps, and these with N^3.",
            16e3 * SECOND: "You took 16 times the second time. The grid has three axes, each twice as long.",
            512e3 * FIRST: "That is 512 times the first time. It has 512 times the steps, but how many calls?",
        },
        why="JAX's page measured 91.8 ms, 1.7 % less.",
        proof=_predicted_ms,
        next="add the time of one call to that of (8192 / 128)^3 steps.",
    ),
    "D": Choose(
        options=("latency", "work", "neither"),
        right="neither",
        wrong={
            "latency": "The compiler's simulator says so, but with a latency of its own. Do these times prove it?",
            "work": "A core that is busy for the whole step fits these times. Does a core that waits for half of a "
            "long copy fit them less well?",
        },
        why="each of the three times has both causes in all of its steps.",
        proof=_told_apart,
        next="write down two machines that both give A, one with short copies and much work, one with the opposite.",
    ),
    "E": Choose(
        options=("more sizes", "blocks that stay", "float32", "a longer axis"),
        right="blocks that stay",
        wrong={
            "more sizes": "A fourth time would lie on the same line, and both machines predict it equally well.",
            "float32": "Then copies take longer and matmuls cost more, both at once.",
            "a longer axis": "That gives more steps like the others, and their number does not tell what is in one.",
        },
        why="without the copies, only the work is left.",
        proof=_experiment,
    ),
}

EXERCISE = Exercise(
    id="11.4",
    title="The price of a step, and what it cannot tell",
    kind="several",
    defines="fit",
    asks=Several(parts=PARTS, why="the page measured 91.8 ms for N = 8192, near the line, which shows no cause."),
    hints=(
        "The time is that of a call plus the number of steps times that of a step, so two times give two unknowns. How "
        "many steps does a matmul of size N take in blocks of 128?",
        "A: divide the difference of the times by the difference of the steps. B: subtract the steps of one of the "
        "times from it. D: each step has both causes. Is one of them missing in any of the three times?",
        "C: there are (8192 / 128)^3 steps. E: which of the four experiments removes one of the two causes and leaves "
        "the other as it was?",
    ),
    points=3,
)
