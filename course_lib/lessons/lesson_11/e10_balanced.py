"""Golf: scale a matrix until its rows and columns sum to one, in few cycles."""

import functools
import math

import jax.numpy as jnp
import numpy as np

from course_lib import chips, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf

ROUNDS = 6
SCORED = (256, 2048)  # 512 registers, far more than a core has, so each round that writes the matrix needs 512 stores
NEAR = 1e-3  # relative, for each element
_ROUNDING = 0.05  # leaving out a round gives a larger error, 0.8; approximate reciprocals give a smaller one


def reference(x):
    for _ in range(ROUNDS):
        x = x / jnp.sum(x, axis=1, keepdims=True)
        x = x / jnp.sum(x, axis=0, keepdims=True)
    return x


def _above_zero(*sizes: dict[str, int]) -> list[tuple]:
    return [(x / 2 + 1.25,) for (x,) in arguments(("x: f32[M,N]",), sizes, within=(-1, 1))]


def _cases() -> list[tuple]:
    """Return sizes that fill whole registers, because this golf is about the loop and not about edges."""
    return _above_zero({"M": 16, "N": 128}, {"M": 32, "N": 256})


def _slow(m: int, n: int) -> np.ndarray:
    """Return a matrix of two nearly independent parts, which converges so slowly that the sixth round matters."""
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
    off, found = np.abs(got / wanted - 1), ""
    if not off.max() < NEAR:
        place = tuple(int(n) for n in np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape))
        found = _instead(got, x)
        size = "NaN" if np.isnan(off.max()) else f"off by {off.max():.2%}"
        return (
            f"For a matrix x[{m}, {n}] that converges slowly, the element at {place} is {size} after {ROUNDS} rounds; "
            f"an error of {NEAR:.1%} is allowed.{found}",
            _try(off.max(), found),
        )
    return None


def _try(off: float, found: str) -> str:
    """Say what to do about an error of this relative size; ``found`` says what causes it, or is ""."""
    if np.isnan(off):
        return "go through all rows: look for a loop that ends early, and for scratch that is not written everywhere."
    if off < _ROUNDING:
        return "is a reciprocal approximate, or a value rounded to bfloat16? Use 1 / x, and float32 throughout."
    if "rounds" in found or "1 round" in found:
        return (
            f"count the rounds: each divides once by the sums of the rows and once by those of the columns, {ROUNDS} "
            "times in all, and starts from what the previous round left."
        )
    if "only" in found and "elements" in found:
        return "set the sums of the columns to zero at the start of each round, and add every part of the rows to them."
    return "compare with reference after one round: which sums are wrong first, those of rows or of columns?"


def _divided(x: np.ndarray, order: str) -> np.ndarray:
    """Return x divided by its sums in this order, in float64: "r" for the sums of rows, "c" for those of columns."""
    found = x.astype(np.float64)
    for sums in order:
        found /= found.sum(axis=1 if sums == "r" else 0, keepdims=True)
    return found


# Other orders of divisions, in the order in which they are tried, and what each does wrong.
OTHERS = {
    **{
        "rc" * n: f"it does {n} round{'s' * (n > 1)}, but {ROUNDS} are asked for"
        for n in range(1, 2 * ROUNDS + 1)
        if n != ROUNDS
    },
    "cr" * ROUNDS: "it divides by the sums of the columns first, but those of the rows come first",
    "rc" * (ROUNDS - 1) + "r": "it leaves out the last division, which is by the sums of the columns",
    "r": "it divides only by the sums of the rows",
    "c": "it divides only by the sums of the columns",
}


def _instead(got: np.ndarray, x: np.ndarray) -> str:
    """Say which other divisions give what the answer returned; "" if none of those tried does."""
    found = next((what for order, what in OTHERS.items() if _is(got, _divided(x, order))), "")
    parts = [slice(start, start + n) for n in _PARTS for start in (len(x) - n, 0) if n < len(x)]
    if not found and (part := next((p for p in parts if _is(got, _of_a_part(x, p))), None)):
        found = (
            f"its sums of the columns add up only {part.stop - part.start} elements each, those of rows "
            f"{part.start} to {part.stop - 1}"
        )
    return f" {found[0].upper()}{found[1:]}." if found else ""


_PARTS = (8, 16, 32, 64, 128)  # rows that the columns may be summed over, if a sum keeps only its last or first part


def _of_a_part(x: np.ndarray, part: slice) -> np.ndarray:
    """Return x after all rounds in which the columns are summed over a part of the rows alone."""
    found = x.astype(np.float64)
    for _ in range(ROUNDS):
        found /= found.sum(axis=1, keepdims=True)
        found /= found[part].sum(axis=0, keepdims=True)
    return found


def _after(order: str, x):
    """Return x divided by its sums in this order, in JAX."""
    for sums in order:
        x = x / jnp.sum(x, axis=1 if sums == "r" else 0, keepdims=True)
    return x


def _without_the_other(x):
    """Return x0 * u * v where u and v are always the reciprocals of the sums of x0 itself."""
    return x / jnp.sum(x, axis=1, keepdims=True) / jnp.sum(x, axis=0, keepdims=True)


def _by_factors(x, reciprocal=lambda sums: 1 / sums, old_u=False, keeps=(1, 1), adds=0):
    """Return x0 * u * v with a slip.

    Sums instead of reciprocals, the previous round's u, a factor left out, or sums of columns that start at ``adds``
    times v.
    """
    u, v = jnp.ones((len(x), 1)), jnp.ones((1, x.shape[1]))
    for _ in range(ROUNDS):
        new = reciprocal(jnp.sum(x * v, axis=1, keepdims=True))
        v = reciprocal(adds * v + jnp.sum(x * (u if old_u else new), axis=0, keepdims=True))
        u = new
    return x * (u if keeps[0] else 1) * (v if keeps[1] else 1)


def _by_first_sums(x):
    """Return x after all rounds, each of which divides by the sums of x itself."""
    rows, columns = jnp.sum(x, axis=1, keepdims=True), jnp.sum(x, axis=0, keepdims=True)
    for _ in range(ROUNDS):
        x = x / rows / columns
    return x


_SLIPS = (
    *(  # what ends with the rows cannot be told apart where a matrix converges at once
        judges.Slip(
            means="at the end the rows sum to one, but the columns should",
            value=value,
            next="end each round with the division by the sums of the columns, each summed from zero over all rows.",
        )
        for value in (functools.partial(_after, "cr" * ROUNDS), functools.partial(_by_factors, adds=1))
    ),
    judges.Slip(
        means="it divides only by the sums of the columns",
        value=functools.partial(_after, "c"),
        next="divide by the sums of the rows first, then by those of the columns, in each round.",
    ),
    judges.Slip(
        means="every round divides by the sums of x as it was at the beginning",
        value=_by_first_sums,
        next="sum what the previous division left, because the sums change with each of them.",
    ),
    judges.Slip(
        means="the sums of the rows and of the columns are both those of x itself",
        value=_without_the_other,
        next="sum the columns after the rows are divided: v = 1 / columnsums(x * u), with the u of the same round.",
    ),
    judges.Slip(
        means="it multiplies by the sums, but should multiply by their reciprocals",
        value=functools.partial(_by_factors, reciprocal=lambda sums: sums),
        next="divide by the sums. With factors: u = 1 / rowsums(x * v) and v = 1 / columnsums(x * u).",
    ),
    judges.Slip(
        means="the columns are summed before the rows are divided (v is computed with the previous u)",
        value=functools.partial(_by_factors, old_u=True),
        next="sum the columns after the rows are divided: v = 1 / columnsums(x * u) with the new u.",
    ),
    judges.Slip(
        means="v is left out of the result",
        value=functools.partial(_by_factors, keeps=(1, 0)),
        next="multiply x by both factors at the end: x * u * v.",
    ),
    judges.Slip(
        means="u is left out of the result",
        value=functools.partial(_by_factors, keeps=(0, 1)),
        next="multiply x by both factors at the end: x * u * v.",
    ),
    judges.Slip(
        means="it divides by the sum of all elements instead of the sums of rows and columns",
        value=lambda x: x / jnp.sum(x),
        next="pass keepdims=True and an axis: axis=1 sums each row, axis=0 each column.",
    ),
)


def _is(got: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(got / other - 1).max() < NEAR)


EXERCISE = Exercise(
    id="11.10",
    title="Golf: rows and columns that sum to one",
    kind="golf",
    defines="balanced",
    cases=_cases,
    reference=reference,
    slips=_SLIPS,
    also=(_twelve_rounds,),
    golf=Golf(
        unit=CYCLES,
        par=16_000,
        at=_large,
        floor=ROUNDS * math.prod(SCORED) // 1024,
        next="count how often a round loads and stores the whole matrix. One load of large parts can do, and no store.",
    ),
    hints=(
        "Where do the cycles go? Each round of reference reads and writes the matrix twice, and a bundle has only one "
        "store.",
        "After any number of rounds, x is u[:, None] * x0 * v[None, :]. What do you have to keep from round to round?",
        "Keep only u and v: u = 1 / rowsums(x0 * v) and v = 1 / columnsums(x0 * u). Write the matrix once, at the end. "
        "Go through the rows in parts, so that both sums of a part come from one load.",
    ),
    points=3,
)
