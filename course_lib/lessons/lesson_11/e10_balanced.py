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
    off = np.abs(got / wanted - 1)
    if not off.max() < NEAR:
        place = tuple(int(n) for n in np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape))
        return (
            f"For a matrix x[{m}, {n}] that converges slowly, the element at {place} is off by "
            f"{off.max():.1%} after {ROUNDS} rounds; {NEAR:.1%} is allowed.{_instead(got, x)}",
            "is a reciprocal approximate? Use 1 / x, which is right to its last digits."
            if off.max() < _ROUNDING
            else "compare with reference after one round: which sums are wrong first, those of rows or of columns?",
        )
    return None


def _divided(x: np.ndarray, order: str) -> np.ndarray:
    """Return x divided by its sums in this order, in float64: "r" for the sums of rows, "c" for those of columns."""
    found = x.astype(np.float64)
    for sums in order:
        found /= found.sum(axis=1 if sums == "r" else 0, keepdims=True)
    return found


# Other orders of divisions, in the order in which they are tried, and what each does wrong.
OTHERS = {
    "rc" * (ROUNDS - 1): f"it does {ROUNDS - 1} rounds, but {ROUNDS} are asked for",
    "rc" * (ROUNDS + 1): f"it does {ROUNDS + 1} rounds, but {ROUNDS} are asked for",
    "rc": f"it does 1 round, but {ROUNDS} are asked for",
    "cr" * ROUNDS: "it divides by the sums of the columns first, but those of the rows come first",
    "rc" * (ROUNDS - 1) + "r": "it leaves out the last division, which is by the sums of the columns",
    "r": "it divides only by the sums of the rows",
    "c": "it divides only by the sums of the columns",
}


def _instead(got: np.ndarray, x: np.ndarray) -> str:
    """Say which other divisions give what the answer returned; "" if none of those tried does."""
    found = next((what for order, what in OTHERS.items() if _is(got, _divided(x, order))), "")
    return f" {found[0].upper()}{found[1:]}." if found else ""


def _after(order: str, x):
    """Return x divided by its sums in this order, in JAX."""
    for sums in order:
        x = x / jnp.sum(x, axis=1 if sums == "r" else 0, keepdims=True)
    return x


def _without_the_other(x):
    """Return x0 * u * v where u and v are always the reciprocals of the sums of x0 itself."""
    return x / jnp.sum(x, axis=1, keepdims=True) / jnp.sum(x, axis=0, keepdims=True)


def _by_factors(x, reciprocal=lambda sums: 1 / sums, old_u=False, keeps=(1, 1)):
    """Return x0 * u * v with a slip: sums instead of reciprocals, the previous round's u, or a factor left out."""
    u, v = jnp.ones((len(x), 1)), jnp.ones((1, x.shape[1]))
    for _ in range(ROUNDS):
        new = reciprocal(jnp.sum(x * v, axis=1, keepdims=True))
        v = reciprocal(jnp.sum(x * (u if old_u else new), axis=0, keepdims=True))
        u = new
    return x * (u if keeps[0] else 1) * (v if keeps[1] else 1)


_SLIPS = (
    *(
        judges.Slip(means=what, value=functools.partial(_after, order), next="compare with reference, round by round.")
        for order, what in OTHERS.items()
    ),
    judges.Slip(
        means="u and v are both computed from x alone, without the other factor",
        value=_without_the_other,
        next="compute u = 1 / rowsums(x * v) with the previous v, and then v = 1 / columnsums(x * u) with the new u.",
    ),
    judges.Slip(
        means="u and v are the sums, but should be their reciprocals",
        value=functools.partial(_by_factors, reciprocal=lambda sums: sums),
        next="compute u = 1 / rowsums(x * v) and v = 1 / columnsums(x * u).",
    ),
    judges.Slip(
        means="v is computed with the u of the previous round",
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
    golf=Golf(unit=CYCLES, par=16_000, at=_large, floor=ROUNDS * math.prod(SCORED) // 1024),
    hints=(
        "Where do the cycles go? Each round of reference reads and writes the matrix twice, and a bundle has only one "
        "store.",
        "After any number of rounds, x is u[:, None] * x0 * v[None, :]. What do you have to keep from round to round?",
        "Keep only u and v: u = 1 / rowsums(x0 * v) and v = 1 / columnsums(x0 * u). Write the matrix once, at the end. "
        "Go through the rows in parts, so that both sums of a part come from one load.",
    ),
    points=3,
)
