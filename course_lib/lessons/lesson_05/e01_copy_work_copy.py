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
            means="the elements are doubled, as in the lesson, but the exercise asks for their squares",
            value=lambda x: 2 * x,
            next="multiply the block by itself.",
        ),
    ),
    hints=(
        "The copy in has to be started and waited for, and so does the copy out. Where among these four lines does the "
        "work go?",
        "pltpu.make_async_copy(source, target, sem.at[0]) describes a copy. Keep it in a variable, because you call "
        "both .start() and .wait() on it.",
        "The copy in is make_async_copy(x_hbm, buffer_ref, sem.at[0]), and the copy out is "
        "make_async_copy(buffer_ref, o_hbm, sem.at[1]). Between them goes "
        "buffer_ref[...] = buffer_ref[...] * buffer_ref[...].",
    ),
    points=1,
)
