"""An autotuner that may query the compiler six times."""

import functools
import numbers

import jax.numpy as jnp

from course_lib import datasets, text, vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_07.e05_blocks import in_blocks
from course_lib.lessons.lesson_11 import landscapes, tuner

MOST = 6  # questions; with so few it is not enough to try the largest blocks that fit
NEAR = 1.03  # times the best of all


def _small() -> list[tuple]:
    """Return small sizes, for the judges that run a kernel; the compiler's answers for them are stored."""
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
                f"sort the choices first, and ask about the best {MOST} of them.",
                headline=f"more than {MOST} questions.",
            )
        return rows[blocks]

    found = tune(shape, ask)
    if found is None and not asked:
        return None
    if found is None:
        raise Unfit(
            f"{call} returned None after {len(asked)} question{'s' * (len(asked) != 1)}.{_refusals(rows, asked)}",
            "end with return and the fastest of the blocks that you asked about."
            if any(rows[blocks] for blocks in asked)
            else COUNT_VMEM,
            headline="it found nothing.",
        )
    found = _checked(f"{call} returned", shape, found)
    best = min(seconds for seconds in rows.values() if seconds is not None)
    if rows[found] is None:
        raise Unfit(
            f"{call} returned {found}, which the compiler refuses, because the blocks need too much VMEM.",
            "leave out the blocks for which ask returns None. Blocks that fit take 15 MiB at most: count two buffers "
            "for each, and the float32 accumulator.",
        )
    if found not in asked:
        raise Unfit(
            f"{call} returned {found} without asking about it.",
            "return the fastest of the blocks that you asked about, because a guess can be wrong.",
            headline="it did not ask.",
        )
    ratio = rows[found] / best
    if ratio > NEAR:
        why, next = _why(shape, rows, asked, found)
        said = (
            f"{call} returned {found}. With these blocks the matmul takes {text.duration(rows[found])}, "
            f"{vocabulary.COMPILER}, {ratio:.2f} times as long as with the best."
        )
        raise Unfit(f"{said} {why}", next, headline="too far from the best.")
    return found


def _checked(said: str, shape: landscapes.Shape, blocks) -> landscapes.Shape:
    """Return ``blocks`` as a tuple. Raise Unfit for blocks that the rules do not allow."""
    if not isinstance(blocks, (tuple, list)) or len(blocks) != 3:
        raise Unfit(f"{said} {described(blocks)}.", "use (bm, bk, bn), a tuple of three whole numbers.")
    if any(not isinstance(b, numbers.Integral) for b in blocks):
        raise Unfit(f"{said} {blocks!r:.60}.", "use whole numbers: // divides two of them into one, and / does not.")
    blocks = tuple(map(int, blocks))
    if blocks not in datasets.product_searches()[shape].seconds:
        raise Unfit(
            f"{said} {blocks}, which the rule does not allow for {shape}: {_broken(shape, blocks)}.",
            "make each side a power of two from 128 to 4096 that divides its axis, and an axis below 128 one block.",
        )
    return blocks


def _broken(shape: landscapes.Shape, blocks: landscapes.Shape) -> str:
    """Say which side breaks the rule, and how."""
    for name, length, side in zip("mkn", shape, blocks, strict=True):
        if length < 128 and side != length:
            return f"b{name} is {side}, but {name} is below 128, so its block has {length}"
        if length >= 128 and length % max(side, 1):
            return f"b{name} is {side}, which does not divide {name} = {length}"
        if length >= 128 and not 128 <= side <= landscapes.LONGEST:
            return f"b{name} is {side}, which is {'below 128' if side < 128 else 'above 4096'}"
    return "a side is no power of two"


def _refusals(rows: dict, asked: list) -> str:
    refused = sum(rows[blocks] is None for blocks in asked)
    return f" The compiler refused {refused} of them for their VMEM." if refused else ""


def _why(shape: landscapes.Shape, rows: dict, asked: list, found: landscapes.Shape) -> tuple[str, str]:
    """Return (why the blocks found are not good enough, what to try)."""
    times = {blocks: rows[blocks] for blocks in asked if rows[blocks] is not None}
    fastest = min(times, key=times.get)
    if rows[found] > times[fastest]:
        same = "the same sides in another order, " if sorted(found) == sorted(fastest) else ""
        return (
            f"Your tuner also asked about {same}{fastest}, which is faster.",
            "return the blocks for which ask gave the fewest seconds, as (bm, bk, bn).",
        )
    if len(asked) == 1:
        return "It asked about no other.", f"ask about {MOST} different blocks, and return the fastest of them."
    compared, next = _compared(shape, rows, found)
    return f"None of the {len(asked)} that it asked about is close enough.{_refusals(rows, asked)}{compared}", (
        COUNT_VMEM if _mostly_refused(rows, asked) else next
    )


def _mostly_refused(rows: dict, asked: list) -> bool:
    return sum(rows[blocks] is None for blocks in asked) > len(asked) // 2


def _compared(shape: landscapes.Shape, rows: dict, found: landscapes.Shape) -> tuple[str, str]:
    """Return (which cost is larger than with the best blocks, which stay unnamed, what to try); "" if none is."""
    best = min((blocks for blocks in rows if rows[blocks] is not None), key=rows.get)
    (steps, moved, ends), (its_steps, its_moved, its_ends) = _costs(shape, found), _costs(shape, best)
    more = {  # seconds more than with the best blocks, by the model of ``tuner``
        "steps": (steps - its_steps) * tuner.STEP / tuner.CLOCK,
        "moved": (moved - its_moved) / tuner.HBM,
        "ends": (ends - its_ends) / tuner.HBM,
    }
    largest = max(more, key=more.get)
    if more[largest] <= 0:
        return "", FEW
    return {
        "steps": (
            f" Your blocks take {steps} steps, the best {its_steps}, and each step costs some time.",
            "count the steps of a choice, and add a fixed cost for each, about 300 cycles, before you sort.",
        ),
        "moved": (f" Your blocks move {text.size(moved)}, the best {text.size(its_moved)}.", FEW),
        "ends": (
            f" No step hides the copies of the first and the last blocks, {text.size(ends)} with yours, "
            f"{text.size(its_ends)} with the best.",
            "add the time of these copies to that of the steps before you sort: the largest blocks are not the best.",
        ),
    }[largest]


def _costs(shape: landscapes.Shape, blocks: landscapes.Shape) -> tuple[int, int, int]:
    """Return (steps, bytes moved, bytes of the first and the last blocks) of a matmul in blocks."""
    (m, k, n), (bm, bk, bn) = shape, blocks
    steps = (m // bm) * (k // bk) * (n // bn)
    moved = 2 * (m * k * (1 if bk == k else n // bn) + k * n * (1 if (bk, bn) == (k, n) else m // bm) + m * n)
    return steps, moved, 2 * (bm * bk + bk * bn + bm * bn)


COUNT_VMEM = "count the VMEM of a choice before you ask: two buffers for each block, and the float32 accumulator."
FEW = (
    "first ask about blocks with few steps and few bytes. x is read n / bn times, or once if bk = k; y is read "
    "m / bm times, or once if bk = k and bn = n."
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
        "List all legal choices with itertools.product, keep those that fit, and sort them. Then ask about the first "
        "six, and take the fastest; ask returns None for what the compiler refuses.",
        "The blocks take 4 (bm bk + bk bn + bm bn) bytes of VMEM for two buffers of bfloat16 each, and 4 bm bn for the "
        "accumulator. Leave one of the 16 MiB for spills.",
        "This estimate is good enough to sort by: take the larger of steps times (bm bk bn / 65,536 + 300) cycles at "
        "1.5 GHz and the bytes at 819 GB/s, and add the time of the first and the last blocks' bytes, which nothing "
        "hides. x is read n / bn times, or once if bk = k, because its block stays (lesson 7); y is read m / bm "
        "times, or once if bk = k and bn = n.",
    ),
    points=4,
)
