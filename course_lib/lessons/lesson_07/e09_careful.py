"""A whole kernel from an empty cell: a float32 matmul built from bfloat16 ones."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import chips, cost, grid, text
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random
from course_lib.checks.matmuls import dots
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_07 import bfloat16_dots

MOST = 3e-5  # relative error, of the root of the mean squares
NARROW = 0.02  # relative error: a larger one has other causes than bfloat16, and the judges find them
COUNTS = 0.05  # a term counts n times if its factor is within this distance of n
TERMS = ("x1 @ y1", "x1 @ y2", "x2 @ y1")
LONG = 32_768  # length of an axis: a float32 block of 128 lanes by all of it takes 16 MiB


def _of_bfloat16_alone(careful):
    case = EXERCISE.arguments()[0]
    if not any(dots(careful, *case)):
        return (
            "There is no dot in it, so the matrix units have nothing to multiply.",
            "split each block into two bfloat16 parts, and multiply the parts with jnp.dot.",
        )
    what = bfloat16_dots.other_operands(careful, *case)
    return (what, "split each block into two bfloat16 parts, and multiply the parts.") if what else None


def exact_enough(careful):
    """Return ``careful`` unchanged. Raise Unfit if a term is wrong, or a sum in bfloat16; judges find the rest."""
    x, y = (jax.random.normal(jax.random.key(n), shape) for n, shape in ((0, (40, 256)), (1, (256, 130))))
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    try:
        with chips.chip("v5e").target():
            got = np.asarray(careful(x, y), np.float64)
            narrow = any(eqn.outvars[0].aval.dtype == jnp.bfloat16 for eqn in dots(careful, x, y))
    except Exception:
        return careful
    error = float(np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)))
    said = _sums_in_bfloat16() if narrow else _terms_that_count(got, x, y)
    if error > MOST and (said or error < NARROW):
        what, next = said or (
            "",
            "x is x1 + x2 and y is y1 + y2. Which of their four products are large enough to count?",
        )
        raise Unfit(
            f"For x[40, 256] @ y[256, 130] its relative error is {error:.0e}, but only {MOST:.0e} is allowed.{what}",
            next,
            headline="not accurate enough.",
        )
    return careful


def _sums_in_bfloat16() -> tuple[str, str]:
    return (
        " A dot in it returns bfloat16, so its sum keeps 8 bits.",
        "use preferred_element_type=jnp.float32 in every dot: its operands are bfloat16, but its sum must be float32.",
    )


def _terms_that_count(got: np.ndarray, x, y) -> tuple[str, str] | None:
    """Report the first term that counts more or less than once, if whole multiples of the terms make all of ``got``."""
    (x1, x2), (y1, y2) = map(_two_parts, (x, y))
    terms = np.stack([(a @ b).ravel() for a, b in ((x1, y1), (x1, y2), (x2, y1), (x2, y2))], axis=1)
    factors, *_ = np.linalg.lstsq(terms, got.ravel())
    whole = np.round(factors)
    rest = terms @ factors - got.ravel()
    if np.sqrt(np.mean(rest**2) / np.mean(got**2)) > MOST or np.abs(factors - whole)[:3].max() > COUNTS:
        return None
    for name, times in zip(TERMS, whole, strict=False):
        if times != 1:
            counts = {0.0: "is missing", 2.0: "is added twice", -1.0: "is subtracted"}
            return (
                f" The term {name} {counts.get(times, f'counts {times:.0f} times')}.",
                "x is x1 + x2 and y is y1 + y2. Their product has four terms, and three of them are large enough to "
                "count. Add each of these once. x2 is x - x1, and y2 is y - y1.",
            )
    return None


def _two_parts(array) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading bfloat16 of an array and that of the rest, in float64."""
    leading = array.astype(jnp.bfloat16)
    rest = (array - leading.astype(jnp.float32)).astype(jnp.bfloat16)
    return np.asarray(leading, np.float64), np.asarray(rest, np.float64)


def _long() -> list[tuple]:
    """Return the types of x and y with a long K, a long M and a long N.

    In VMEM rows are padded to 128 lanes, so 8 columns do: in HBM they are few bytes, which the interpreter copies.
    K is 128 or more, because the judges allow a sum of 8 products less than the term that may be left out.
    """
    sizes = (8, LONG, 8), (LONG, 128, 8), (16, 128, LONG)
    return [(jax.ShapeDtypeStruct((m, k), jnp.float32), jax.ShapeDtypeStruct((k, n), jnp.float32)) for m, k, n in sizes]


def _serves_long_sums(careful):
    """Demand that the blocks stay small along all three axes."""
    limit = chips.chip("v5e").scoped_vmem_bytes
    for x, y in _long():
        (m, k), n = x.shape, y.shape[1]
        needs = cost.vmem_bytes(grid.walk(careful, x, y))
        if needs > limit:
            return (
                f"For x[{m:,}, {k:,}] @ y[{k:,}, {n:,}] it needs {text.size(needs)} of VMEM, but a kernel may use "
                f"only {text.size(limit)}.",
                "cut the long axis too, into blocks whose size does not grow with it.",
            )
    return None


EXERCISE = Exercise(
    id="07.9",
    title="From an empty cell: a float32 matmul from bfloat16 ones",
    kind="write",
    defines="careful",
    inputs=("x: f32[M,K]", "y: f32[K,N]"),
    sizes=({"M": 32, "K": 256, "N": 256}, {"M": 40, "K": 300, "N": 70}, {"M": 5, "K": 130, "N": 130}),
    reference=lambda x, y: jnp.dot(x, y, precision="highest"),
    build=exact_enough,
    also=(_of_bfloat16_alone, _serves_long_sums),
    also_at=lambda: [tuple(at_random(type, number) for number, type in enumerate(types)) for types in _long()],
    hints=(
        "a.astype(jnp.bfloat16) keeps the leading bits of a. What is left of a when you subtract them, and how many "
        "bits of the remainder does another bfloat16 keep?",
        "First mask the float32 blocks that extend past K, then split them into x1, x2, y1 and y2. Three of the four "
        "products are large enough to count.",
        "o_ref is float32, so it can be the accumulator: o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1), each "
        "with preferred_element_type=jnp.float32.",
    ),
    points=4,
)
