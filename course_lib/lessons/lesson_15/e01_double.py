"""A kernel that doubles a vector."""

from course_lib.checks.exercise import Exercise

EXERCISE = Exercise(
    id="15.1",
    title="Double a vector",
    kind="write",
    defines="double_kernel",
    judged="double",
    inputs=("x: f32[N]",),
    sizes=({"N": 4096}, {"N": 1000}, {"N": 8}),
    reference=lambda x: 2 * x,
    hints=(
        "x_ref is a place in memory. x_ref[...] reads all of it as a value you can compute with.",
        "o_ref[...] = value writes a value to the output.",
        "One line does it: o_ref[...] = 2 * x_ref[...]",
    ),
    points=1,
)
