"""Copy in, compute, copy out, waiting for each copy."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments


def _whole_tiles() -> list[tuple]:
    """Return sizes in whole tiles, because the compiler refuses a manual copy of part of one."""
    return arguments(("x: f32[M,N]",), ({"M": 16, "N": 256}, {"M": 8, "N": 128}, {"M": 40, "N": 384}))


EXERCISE = Exercise(
    id="05.1",
    title="Copy, work, copy",
    kind="write",
    defines="squares_kernel",
    judged="squares",
    cases=_whole_tiles,
    reference=lambda x: x * x,
    slips=(
        judges.Slip(
            means="the numbers are doubled, as in the lesson, and their squares are asked for",
            value=lambda x: 2 * x,
            next="multiply the block by itself.",
        ),
    ),
    hints=(
        "Four lines move things: a copy in is started and waited for, and a copy out as well. Where does the work "
        "stand?",
        "pltpu.make_async_copy(source, target, sem.at[0]) describes a copy. Keep it in a variable: .start() and "
        ".wait() are called on it.",
        "In: make_async_copy(x_hbm, buffer_ref, sem.at[0]). Then buffer_ref[...] = buffer_ref[...] * buffer_ref[...]. "
        "Out: make_async_copy(buffer_ref, o_hbm, sem.at[1]).",
    ),
    points=1,
)
