"""A window of a matrix, whose position is an argument."""

import jax

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_12.lists import int32


def _cases() -> list[tuple]:
    starts = {(512, 512): (128, 256), (64, 384): (0, 128), (320, 128): (256, 0), (128, 256): (64, 128)}
    return [
        (x, int32(*start))
        for (m, n), start in starts.items()
        for (x,) in arguments(("x: f32[M,N]",), ({"M": m, "N": n},))
    ]


def _window(x, start):
    return jax.lax.dynamic_slice(x, (start[0], start[1]), (64, 128))


EXERCISE = Exercise(
    id="12.3",
    title="A window into a matrix",
    kind="write",
    defines="window",
    cases=_cases,
    reference=_window,
    arithmetic_around=True,
    budget=judges.Budget(hbm_bytes=lambda x, start: 2 * 64 * 128 * 4 + cost.stored_bytes(start)),
    slips=(
        judges.Slip(
            means="the row and the column of start are exchanged",
            value=lambda x, start: _window(x, (start[1] // 64 * 64, start[0] // 128 * 128)),
            next="start[0] is a row, and the first number that the index map returns belongs to axis 0.",
        ),
        judges.Slip(
            means="the index map divides both numbers by 128",
            value=lambda x, start: _window(x, (start[0] // 128 * 64, start[1])),
            next="divide by the sizes of a block, 64 rows and 128 columns.",
        ),
        judges.Slip(
            means="the index map divides both numbers by 64",
            value=lambda x, start: _window(x, (start[0], start[1] // 64 * 128)),
            next="divide by the sizes of a block, 64 rows and 128 columns.",
        ),
    ),
    hints=(
        "Prefetch start: set num_scalar_prefetch=1, and make start the first argument of the call. The grid needs "
        "only one step.",
        "An index map returns block numbers, but start holds element numbers. How many rows and columns has a block?",
        "For blocks of (64, 128), the index map of x is lambda i, start_ref: (start_ref[0] // 64, start_ref[1] // "
        "128). The kernel copies its block.",
    ),
    points=2,
)
