"""An open project, without an answer of ours: the 64 largest elements of each row, and where they are.

Contract  x: float32[M, N] -> values: float32[M, 64] and indices: int32[M, 64], the largest first, and of equal values
          the one with the smaller index. All x are finite. M is a multiple of 8, and N of 128.
Accuracy  exact.
Ideal     x is read once, 4 M N bytes. How many comparisons selecting 64 needs depends on the algorithm, so none count.
"""

import jax
import jax.numpy as jnp
from jax import lax

from course_lib import checks, chips, judges
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

K = 64
SMALL = ((8, 1024), (16, 512), (8, 2176), (24, 128))  # M, N
LARGE = (jax.ShapeDtypeStruct((64, 32768), jnp.float32),)
IDEAL = Ideal(hbm_bytes=moved_once(LARGE, *[jax.ShapeDtypeStruct((64, K), jnp.float32)] * 2))


def reference(x):
    """Return values and indices."""
    return lax.top_k(x, K)


def cases() -> list[tuple]:
    """Return rows of different values, rows in which most values occur several times, and sorted rows."""
    made = [values.uniform(seed, *size) for seed, size in enumerate(SMALL)]
    made += [jnp.round(16 * x) for x in made[:2]]
    return [(x,) for x in [*made, jnp.sort(made[1], axis=1)]]


def _later_first(x):
    """Return indices if of equal values the one with the larger index comes first."""
    return x.shape[1] - 1 - lax.top_k(x[:, ::-1], K)[1]


def _by_size(x):
    """Return values if signs are ignored."""
    return lax.top_k(jnp.abs(x), K)[0]


SLIPS = (
    judges.Slip(
        means="of equal values the later one comes first",
        value=_later_first,
        next="compare the indices where the values are equal.",
        output=1,
    ),
    judges.Slip(
        means="the signs are ignored",
        value=_by_size,
        next="compare the values, not their absolute values.",
        output=0,
    ),
)
HINTS = (
    "Taking the maximum 64 times goes through all of x 64 times. What could one pass keep?",
    "Maxima across lanes keep the XLU busy; comparisons of whole registers are cheap. So let each lane keep the 64 "
    "largest of what it has seen, as 64 registers in order, and combine lanes at the end.",
    "A bitonic network sorts 64 registers by comparisons alone. Of two sorted lists the 64 largest are "
    "max(a[i], b[63 - i]), which six more stages put in order. Exchange an index together with its value. For the "
    "lanes, roll the lists by 64, 32, ... 1 lanes and combine them.",
)


def declare() -> None:
    """Declare it as a project of the reader's own, "own.top_64". Par is half of XLA's time."""
    stored = rival.xla("top_64")
    checks.own_project(
        "top_64",
        reference=reference,
        cases=cases,
        at=lambda: LARGE,
        par=int(stored.seconds / 2 * chips.chip("v5e").clock_hz),
        slips=SLIPS,
        hints=HINTS,
        xla=(stored.seconds, stored.by),
    )
