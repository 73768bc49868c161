"""An autotuner that may query the compiler six times."""

import functools

import jax.numpy as jnp

from course_lib import datasets, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_07.e05_blocks import in_blocks
from course_lib.lessons.lesson_11 import landscapes

MOST = 6  # queries: trying the six largest blocks that fit is not enough
NEAR = 1.03  # times the best of all


def _small() -> list[tuple]:
    """Return sizes whose compiler answers are stored, for the judges that run a kernel."""
    sizes = tuple(dict(zip("MKN", shape, strict=True)) for shape in landscapes.SMALL)
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def with_tuner(tune):
    """Return the matmul in the blocks that ``tune`` finds. Raise Unfit if it breaks a rule or finds too little."""
    if _search(tune, landscapes.SMALL[0]) is None:
        return lambda x, y: None
    for shape in landscapes.SHAPES:
        _search(tune, shape)
    found = functools.cache(lambda shape: _search(tune, shape))

    def product(x, y):
        return in_blocks(x, y, found((*x.shape, y.shape[1])))

    return product


def _search(tune, shape: landscapes.Shape):
    """Return what ``tune`` finds for a shape; None if it returns nothing and asks nothing."""
    rows, asked = datasets.product_searches()[shape].seconds, []
    call = f"tune({shape}, ask)"

    def ask(blocks) -> float | None:
        blocks = _checked(f"{call} asks about", shape, blocks)
        if blocks not in asked:
            asked.append(blocks)
        if len(asked) > MOST:
            raise Unfit(
                f"{call} asks about {MOST + 1} different blocks.",
                f"sort before you ask, and ask about the first {MOST}.",
                headline=f"more than {MOST} questions.",
            )
        return rows[blocks]

    found = tune(shape, ask)
    if found is None and not asked:
        return None
    if found is None:
        raise Unfit(
            f"{call} returned None, after {len(asked)} questions.{_refusals(rows, asked)}",
            _next(rows, asked),
            headline="it found nothing.",
        )
    found = _checked(f"{call} returned", shape, found)
    best = min(seconds for seconds in rows.values() if seconds is not None)
    if rows[found] is None:
        raise Unfit(
            f"{call} returned {found}, which the compiler refuses: too much VMEM.", "None is no time: leave it out."
        )
    if found not in asked:
        raise Unfit(
            f"{call} returned {found}, and has not asked about it.",
            "return the fastest of those that you asked about: a guess is not an answer.",
            headline="it did not ask.",
        )
    ratio = rows[found] / best
    if ratio > NEAR:
        said = (
            f"{call} returned {found}: {text.duration(rows[found])}, {vocabulary.COMPILER}, {ratio:.2f} times the best."
        )
        raise Unfit(f"{said} {_why(rows, asked, found)}", _next(rows, asked), headline="too far from the best.")
    return found


def _checked(said: str, shape: landscapes.Shape, blocks) -> landscapes.Shape:
    """Return ``blocks`` as a tuple. Raise Unfit for blocks that the rules do not allow."""
    if not isinstance(blocks, (tuple, list)) or len(blocks) != 3 or any(type(b) is not int for b in blocks):
        raise Unfit(f"{said} {described(blocks)}.", "blocks are (bm, bk, bn), three whole numbers.")
    blocks = tuple(blocks)
    if blocks not in datasets.product_searches()[shape].seconds:
        raise Unfit(
            f"{said} {blocks}, which the rule does not allow for {shape}.",
            "each side is a power of two from 128 to 4096 that divides its axis; an axis below 128 is one block.",
        )
    return blocks


def _refusals(rows: dict, asked: list) -> str:
    refused = sum(rows[blocks] is None for blocks in asked)
    return f" {refused} of them were refused for their VMEM." if refused else ""


def _why(rows: dict, asked: list, found: landscapes.Shape) -> str:
    times = {blocks: rows[blocks] for blocks in asked if rows[blocks] is not None}
    if times and rows[found] > min(times.values()):
        return f"Among those it asked about is {min(times, key=times.get)}, which is faster."
    return f"It asked about {len(asked)}, none of them near.{_refusals(rows, asked)}"


def _next(rows: dict, asked: list) -> str:
    if sum(rows[blocks] is None for blocks in asked) > len(asked) // 2:
        return "count the VMEM of a choice before you ask: two buffers for each block, and the sum in float32."
    return (
        "put those first that have few steps and few bytes: x is read n / bn times, or once where bk = k; y is read "
        "m / bm times, or once where bk = k and bn = n."
    )


EXERCISE = Exercise(
    id="11.5",
    title="An autotuner with six questions",
    kind="configure",
    defines="tune",
    cases=_small,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    build=with_tuner,
    achieved="your tuner finds fast blocks",
    hints=(
        "Three parts: all legal choices (itertools.product), those that fit, and an order. Then ask, and take the "
        "fastest "
        "that is not None: ask gives None for what the compiler refuses.",
        "VMEM in bytes: 4 (bm bk + bk bn + bm bn) for two buffers of bfloat16, and 4 bm bn for the sum. Leave a "
        "MiB of the "
        "16 for spills.",
        "A guess that is good enough: the larger of steps times (bm bk bn / 65,536 + 300) cycles at 1.5 GHz and "
        "the bytes at 819 GB/s; and on top the first and last blocks' bytes, which nothing hides. The bytes: x is read "
        "n / bn times, or once where bk = k (its block stays, lesson 7); y m / bm times, or once where bk = k and "
        "bn = n.",
    ),
    points=4,
)
