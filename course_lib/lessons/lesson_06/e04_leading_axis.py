"""The same sums over another axis, in a small fraction of the cycles."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, at_random
from course_lib.judges import Slip
from course_lib.lessons.lesson_06 import core
from course_lib.lessons.lesson_06.energy import energies, slow

POINTS = jax.ShapeDtypeStruct((2048, 16), jnp.float32)
TIMES_FEWER = 5


def _points() -> list[tuple]:
    """Return multiples of 128 points, because this exercise is about their layout, not edges."""
    return arguments(("x: f32[T,16]",), ({"T": 256}, {"T": 1024}, {"T": 640}), within=(-2, 2))


EXERCISE = Exercise(
    id="06.4",
    title="The same sums, another axis",
    kind="write",
    defines="energy",
    cases=_points,
    reference=energies,
    slips=(
        Slip(
            means="the array is reshaped but not transposed, so the 16 values of a point still lie side by side",
            value=lambda x: jnp.sum((x * x).reshape(16, -1), axis=0),
            next="transpose first, x.T, and then reshape.",
        ),
        Slip(
            means="the values are summed without being squared",
            value=lambda x: jnp.sum(x, axis=1),
            next="square before you sum.",
        ),
        Slip(
            means="the sum is squared, and not each value",
            value=lambda x: jnp.sum(x, axis=1) ** 2,
            next="square before you sum.",
        ),
    ),
    also=(
        core.at_most(
            lambda: core.cycles_once(slow, POINTS) // TIMES_FEWER,
            "For x[2048, 16] the core takes {mine} cycles, predicted (compiler), not counting waits for copies. It may "
            "take {most}, a fifth of what slow_energy takes.",
            "look along which axis the 16 values of a point lie when the kernel sums them. Pass an array in which they "
            "do not lie along the lanes, in one block or few. What happens outside the kernel does not count.",
            POINTS,
        ),
    ),
    also_at=lambda: [(at_random(POINTS, 0, (-2, 2)),)],
    achieved=core.won("slow_energy takes", lambda: core.cycles_once(slow, POINTS), POINTS),
    hints=(
        "Only the layout of the array is wrong. A transpose outside the kernel may put the 16 values along any axis.",
        "x.T is (16, T), and its columns are summed over the sublanes, by the VPU. As (16, T / 128, 128) they are "
        "summed over a leading axis, which adds registers to registers.",
        "In the kernel, set v = x_ref[...] and o_ref[...] = jnp.sum(v * v, axis=0). Pass it x.T.reshape(16, T // 128, "
        "128), and reshape its result from (T // 128, 128) to (T,).",
    ),
    points=2,
)
