"""Golf: scale a matrix until its rows and columns sum to one, in few cycles."""

import math

import jax.numpy as jnp
import numpy as np

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf

ROUNDS = 6
SCORED = (256, 2048)  # 512 registers, far more than a core has: to write them in every round costs as many stores
NEAR = 1e-3  # relative, for each element
_ROUNDING = 0.05  # above it lies the error of a round left out, 0.8; below it that of approximate reciprocals


def reference(x):
    for _ in range(ROUNDS):
        x = x / jnp.sum(x, axis=1, keepdims=True)
        x = x / jnp.sum(x, axis=0, keepdims=True)
    return x


def _above_zero(*sizes: dict[str, int]) -> list[tuple]:
    return [(x / 2 + 1.25,) for (x,) in arguments(("x: f32[M,N]",), sizes, within=(-1, 1))]


def _cases() -> list[tuple]:
    """Return whole registers, because this golf is about the loop, not edges."""
    return _above_zero({"M": 16, "N": 128}, {"M": 32, "N": 256})


def _slow(m: int, n: int) -> np.ndarray:
    """Return two nearly independent parts, one with too many columns: the sixth round still changes the values."""
    many_rows, many_columns = np.arange(m)[:, None] < m // 2, np.arange(n)[None] < 3 * n // 4
    noise = np.random.default_rng(0).uniform(0.5, 2, (m, n))
    return (np.where(many_rows == many_columns, 1, 1e-3) * noise).astype(np.float32)


def _large() -> tuple:
    return (jnp.asarray(_slow(*SCORED)),)


def _twelve_rounds(balanced):
    """Demand agreement with float64, because the judges' bounds on rounding double with each division.

    At the scored size too, so that no round is left out there.
    """
    return _off_at(balanced, 64, 128) or _off_at(balanced, *SCORED)


def _off_at(balanced, m: int, n: int) -> tuple[str, str] | None:
    x = _slow(m, n)
    wanted = _divided(x, "rc" * ROUNDS)
    with chips.chip("v5e").target():
        got = np.asarray(balanced(jnp.asarray(x)), np.float64)
    off = np.abs(got / wanted - 1)
    if not off.max() < NEAR:
        place = tuple(int(n) for n in np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape))
        return (
            f"For a matrix x[{m}, {n}] that settles slowly the number at {place} is off by "
            f"{off.max():.1%} of its size after {ROUNDS} rounds; {NEAR:.1%} is allowed.{_instead(got, x)}",
            "is a reciprocal approximate? 1 / x is right to its last digits."
            if off.max() < _ROUNDING
            else "compare with reference after one round: are the rows' sums wrong first, or the columns'?",
        )
    return None


def _divided(x: np.ndarray, order: str) -> np.ndarray:
    """Return x divided by its sums in this order, in float64: "r" is for those of rows, "c" for those of columns."""
    found = x.astype(np.float64)
    for sums in order:
        found /= found.sum(axis=1 if sums == "r" else 0, keepdims=True)
    return found


def _instead(got: np.ndarray, x: np.ndarray) -> str:
    """Say which other divisions give what the answer returned; "" if none of those tried does."""
    others = {
        **{f"That is {n} rounds, and {ROUNDS} are asked for.": "rc" * n for n in (ROUNDS - 1, ROUNDS + 1)},
        "The columns are divided first, and should come second.": "cr" * ROUNDS,
        "The last division is that by the columns' sums, and it is left out.": "rc" * (ROUNDS - 1) + "r",
        "Only the rows are divided.": "r",
        "Only the columns are divided.": "c",
    }
    return next((f" {what}" for what, order in others.items() if _is(got, _divided(x, order))), "")


def _is(got: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(got / other - 1).max() < NEAR)


EXERCISE = Exercise(
    id="11.10",
    title="Golf: rows and columns that sum to one",
    kind="golf",
    defines="balanced",
    cases=_cases,
    reference=reference,
    also=(_twelve_rounds,),
    golf=Golf(unit=CYCLES, par=16_000, at=_large, floor=ROUNDS * math.prod(SCORED) // 1024),
    hints=(
        "Where do the cycles go? Each round reads the matrix, writes it, reads and writes it again: one store a "
        "bundle.",
        "After some rounds x is u[:, None] * x0 * v[None, :]. What has to be kept from round to round, and what not?",
        "Keep u and v only: u = 1 / rowsums(x0 * v), v = 1 / columnsums(x0 * u). The matrix is written once, at "
        "the end. Take "
        "parts of the rows, so that both sums of a part come from one load.",
    ),
    points=3,
)
