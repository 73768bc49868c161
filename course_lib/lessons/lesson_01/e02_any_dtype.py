"""A kernel that adds arrays of any dtype and any rank."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_01.vectors import VECTORS


def _of_any_rank() -> list[tuple]:
    """Return matrices and vectors, in two lists because typed inputs have a single rank."""
    matrices = ("x: T[M,N]", "y: T[M,N]"), ({"M": 16, "N": 256}, {"M": 5, "N": 130}), ("f32", "int32", "bf16")
    return arguments(*matrices) + arguments(VECTORS, ({"N": 1000},))


EXERCISE = Exercise(
    id="01.2",
    title="Any dtype, any shape",
    kind="write",
    defines="add_any",
    cases=_of_any_rank,
    reference=lambda x, y: x + y,
    hints=(
        "pl.pallas_call(kernel, out_shape=...) returns a function, so call that function with x and y.",
        "out_shape promises the shape and the dtype of the result. Both are those of x.",
        "Write the promise as jax.ShapeDtypeStruct(x.shape, x.dtype).",
    ),
    points=1,
)
