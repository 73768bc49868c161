"""A test that fails on a bug, and passes on the mended kernel."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_11.largest import reference, with_mistakes

RIGHT = with_mistakes()
WRONG = {
    "the maximum begins at 0": (with_mistakes(begin=0.0), "numbers below 0 show that"),
    "0 stands for the columns beyond the end": (
        with_mistakes(beyond=0.0),
        "a width that 128 does not divide shows that",
    ),
}


def tried(test):
    """The right kernel, once the test has passed it and failed the wrong ones. Raises Unfit otherwise."""
    if (error := _failure(test, RIGHT)) is not None:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise Unfit(
            f"It fails on the mended kernel: {' '.join(first[:2])[:160]}",
            "compare with jnp.max(x, axis=1, keepdims=True); the kernel returns [M, 1].",
            headline="it fails on a kernel that is right.",
        )
    if _failure(test, None) is None:
        return lambda x: None
    for name, (wrong, shows) in WRONG.items():
        error = _failure(test, wrong)
        if error is None:
            raise Unfit(
                f"It passes a kernel in which {name}.",
                f"choose the arguments so that this matters: {shows}.",
                headline="it passes a bug.",
            )
        if not isinstance(error, AssertionError):
            raise Unfit(
                f"On a kernel in which {name} it ends with {type(error).__name__}: {error!s:.100}",
                "a test fails with an AssertionError, which assert and testing.assert_kernel raise.",
            )
    return RIGHT


def _failure(test, kernel) -> Exception | None:
    """What a test raises for a kernel; None if it passes. Without a kernel a test that looks at it raises something."""
    try:
        test(kernel)
    except Exception as error:
        return error
    return None


EXERCISE = Exercise(
    id="11.7",
    title="A test that keeps it mended",
    kind="write",
    defines="test_largest",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 8, "N": 256}, {"M": 16, "N": 130}, {"M": 5, "N": 300}),
    within=(-4, -1),
    reference=reference,
    build=tried,
    judges=tuple(judges.JUDGES),
    hints=(
        "Run your test on the broken kernel of 11.2 first. Does it fail?",
        "testing.assert_kernel(largest, reference, x) asks all four judges. Which x shows both mistakes at once?",
        "Numbers below 0 throughout, and a width that 128 does not divide: -1 - jax.random.uniform(key, (8, 130)).",
    ),
    points=2,
)
