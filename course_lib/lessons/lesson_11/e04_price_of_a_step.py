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
    work = 0.1e-6  # seconds; the copy is so long that half of copy plus work is a step
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


PARTS = {
    "A": Predict(
        value=0.35571,
        unit="us",
        tolerance=0.02,
        near={
            0.58138: "That is the first time divided by its steps. What else is in it, besides steps?",
            22.8: "(N / 128)^2 is the number of blocks of the result. How many steps has each?",
            0.0445: "Count the steps: three axes of N / 128.",
            233.7: "That divides by the difference of the sizes. A grid has (N / 128)^3 steps.",
        },
        why="the slope of a line through both.",
        proof=lambda: fitted()[0] * 1e6,
    ),
    "B": Predict(
        value=0.11555,
        unit="ms",
        tolerance=0.05,
        near={
            0.29767: "That is all of the first time. Its 512 steps are in it.",
        },
        why="what is left of the first when its steps are taken off.",
        proof=lambda: fitted()[1] * 1e3,
    ),
    "C": Predict(
        value=93.4,
        unit="ms",
        tolerance=0.05,
        near={
            47.1: "Twice the size has four times the numbers. And how many times the steps?",
            23.5: "Twice the size is more than twice the steps.",
            188.3: "16 times? Three axes, each twice as long.",
        },
        why="JAX's page measured 91.8 ms: 1.7 % less.",
        proof=_predicted_ms,
    ),
    "D": Choose(
        options=("latency", "work", "neither"),
        right="neither",
        wrong={
            "latency": "The compiler's simulator says so, with a latency of its own. Do these three times say so?",
            "work": "A core that is busy for all of a step fits. Does a core that waits for half a long copy fit "
            "less well?",
        },
        why="each of the three copies in all of its steps, with two buffers.",
        proof=_told_apart,
        next="write down two machines, one with a short copy and much work, one with the opposite, that both give A.",
    ),
    "E": Choose(
        options=("more sizes", "blocks that stay", "float32", "a longer axis"),
        right="blocks that stay",
        wrong={
            "more sizes": "A fourth point on the same line. Both machines predict it equally well.",
            "float32": "Then copies are longer and products dearer, both at once.",
            "a longer axis": "More steps, each like the others. Their number does not tell what is in one.",
        },
        why="without copies only the work is left.",
        proof=_experiment,
    ),
}

EXERCISE = Exercise(
    id="11.4",
    title="The price of a step, and what it cannot tell",
    kind="several",
    defines="fit",
    asks=Several(parts=PARTS, why="a line through two times; a third near it; and no cause."),
    hints=(
        "Time = a call + steps times a step: two times, two unknowns. How many steps has a product of N in blocks "
        "of 128?",
        "A: the difference of the times over the difference of the steps. B: take the steps of one off its time. "
        "D: two "
        "causes are in each step. Is there one of the three times in which one of them is missing?",
        "C: (8192 / 128)^3 steps. E: in which of the four kernels is one of the two causes gone, and the other as "
        "before?",
    ),
    points=3,
)
