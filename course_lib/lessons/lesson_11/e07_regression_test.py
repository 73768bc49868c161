"""The data for a test that fails on a bug and passes on the repaired kernel."""

import inspect

import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_11.largest import reference, with_mistakes

MOST = 10_000  # elements, because a test runs often
RIGHT = with_mistakes()
WRONG = {
    "the maximum starts at 0": (with_mistakes(begin=0.0), "which rows have a largest value below 0?"),
    "0 replaces the columns past the end": (
        with_mistakes(beyond=0.0),
        "for which widths are there columns past the end?",
    ),
}


def tried(data):
    """Return the right kernel if a test with this data passes it and fails the wrong ones. Raise Unfit otherwise."""
    if needed := [p.name for p in inspect.signature(data).parameters.values() if p.default is p.empty]:
        raise Unfit(
            f"data needs arguments ({', '.join(needed)}), but the test calls data().",
            "take none, and create the key or the generator inside the function, with a fixed seed.",
            headline="the test cannot use it.",
        )
    x = data()
    if x is None:
        return lambda x: None
    if getattr(x, "dtype", None) != np.float32 or np.ndim(x) != 2:
        raise Unfit(
            f"data() returned {described(x)}.", "return a float32 array x[M, N].", headline="the test cannot use it."
        )
    if not np.size(x):
        raise Unfit(
            f"data() returned {described(x)}, which has no elements, so no row has a largest value.",
            "use at least one row and one column.",
            headline="the test cannot use it.",
        )
    if np.size(x) > MOST:
        raise Unfit(
            f"data() has {np.size(x):,} values; {MOST:,} are enough.", "use fewer rows, because a test runs often."
        )
    if not np.array_equal(x, data(), equal_nan=True):
        raise Unfit(
            "data() returns other values each time.",
            "use a fixed key or seed, because a test must do the same in every run.",
            headline="the test changes from run to run.",
        )
    _asked(
        RIGHT,
        x,
        passes=True,
        what="the repaired kernel",
        next="use finite values, because the test compares with jnp.max.",
    )
    for name, (wrong, next) in WRONG.items():
        _asked(wrong, x, passes=False, what=f"a kernel in which {name}", next=next)
    return RIGHT


def _asked(kernel, x, *, passes: bool, what: str, next: str) -> None:
    """Raise Unfit if the numbers judge, which assert_kernel asks first, does not decide as expected on a kernel."""
    if judges.numbers_judge(kernel, reference, x).passed == passes:
        return
    if passes:
        raise Unfit(f"With this data the test fails {what}.", next, headline="it fails a kernel that is right.")
    raise Unfit(f"With this data the test passes {what}.", next, headline="it passes a bug.")


EXERCISE = Exercise(
    id="11.7",
    title="A test that keeps it mended",
    kind="configure",
    defines="data",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 8, "N": 128}, {"M": 5, "N": 130}, {"M": 8, "N": 3}),  # small, because the judged kernel is ours, RIGHT
    within=(-4, -1),
    reference=reference,
    build=tried,
    achieved="your data exposes both bugs",
    hints=(
        "Find the two mistakes of broken in 11.2, and run the test on it first. Does it fail?",
        "One x has to expose both mistakes, each of them alone. Which values expose one, and which widths the other?",
        "Use only values below 0, and a width that 128 does not divide: -1 - jax.random.uniform(key, (8, 130)).",
    ),
    points=2,
)
