"""A kernel that processes its rows one by one, to repair."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import compiler, judges, text
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random

BLOCK = (512, 256)
MOST_TIMES = 1.25  # times as long as a copy, by the compiler


def _around(kernel):
    """Return a function that calls the kernel with one block."""

    def centred(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    return centred


def _copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


@functools.cache
def _cycles_of_a_copy() -> int:
    return compiler.compile_tpu(_around(_copy_kernel), jax.ShapeDtypeStruct(BLOCK, jnp.float32)).cycles


def _takes_little_longer_than_a_copy(centre_kernel):
    try:
        report = compiler.compile_tpu(_around(centre_kernel), jax.ShapeDtypeStruct(BLOCK, jnp.float32))
        copy = _cycles_of_a_copy()
    except compiler.Unavailable:
        return None
    if report.cycles is None or report.cycles <= MOST_TIMES * copy:
        return None
    most = max(report.time_split, key=report.time_split.get)
    return (
        f"For x[{BLOCK[0]}, {BLOCK[1]}] it takes {report.cycles / copy:.1f} times as long as a copy, predicted "
        f"(compiler), but it may take at most {MOST_TIMES} times as long. Most of its cycles go to {most} "
        f"({text.percent(report.time_split[most] / report.cycles)}).",
        "a register has 8 rows, and the XLU accepts a new row sum long before it returns the last one. How much of "
        "the block can one line work on?",
    )


EXERCISE = Exercise(
    id="02.8",
    title="Repair: row by row",
    kind="repair",
    defines="centre_kernel",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 64, "N": 256}, {"M": 20, "N": 300}, {"M": 5, "N": 130}),
    reference=lambda x: x - jnp.mean(x, axis=1, keepdims=True),
    build=_around,
    slips=(
        judges.Slip(
            means="the sum of each row is subtracted, and not its mean",
            value=lambda x: x - jnp.sum(x, axis=1, keepdims=True),
            next="divide the sum by the number of columns, or use jnp.mean.",
        ),
        judges.Slip(
            means="the result is the mean of each row itself, which should be subtracted from the row",
            value=lambda x: jnp.broadcast_to(jnp.mean(x, axis=1, keepdims=True), x.shape),
            next="what is x minus its mean?",
        ),
        judges.Slip(
            means="each row is also divided by its standard deviation",
            value=lambda x: jax.nn.standardize(x, axis=1, epsilon=0.0),
            next="subtract the mean, and nothing more.",
        ),
        judges.Slip(
            means="the median of each row is subtracted, and not its mean",
            value=lambda x: x - jnp.median(x, axis=1, keepdims=True),
            next="use jnp.mean, which is the sum divided by the number of columns.",
        ),
    ),
    also=(_takes_little_longer_than_a_copy,),
    also_at=lambda: [(at_random(jax.ShapeDtypeStruct(BLOCK, jnp.float32), 0),)],
    hints=(
        "How many of the 8 sublanes of a register does one row use, and how many row sums are in flight at a time?",
        "You do not need a loop, because x_ref[...] is the whole block, and jnp.mean takes an axis.",
        "Read v = x_ref[...], and store v - jnp.mean(v, axis=1, keepdims=True) in o_ref[...].",
    ),
    points=2,
)
