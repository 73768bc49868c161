"""A table of tuned blocks, stored as the text of a file, by chip, shape and dtype."""

import json

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_07.e05_blocks import in_blocks

KEY = "v5e", (256, 256, 256), "bfloat16"
BLOCKS, BETTER = (128, 256, 128), (256, 128, 128)
OTHERS = {  # further entries, each different from the first in only one respect; the shapes are permutations
    "another chip": (("v5p", (256, 256, 256), "bfloat16"), (256, 256, 256)),
    "another m": (("v5e", (512, 256, 256), "bfloat16"), (512, 128, 128)),
    "another k": (("v5e", (256, 512, 256), "bfloat16"), (128, 512, 128)),
    "another n": (("v5e", (256, 256, 512), "bfloat16"), (256, 128, 256)),
    "another dtype": (("v5e", (256, 256, 256), "float32"), (128, 128, 128)),
    "a third dtype": (("v5e", (256, 256, 256), "float16"), (128, 128, 256)),
    "the same digits": (("v5e", (2562, 56, 256), "bfloat16"), (256, 56, 256)),  # as a key without separators has them
}


def _cases() -> list[tuple]:
    sizes = ({"M": 256, "K": 256, "N": 256}, {"M": 128, "K": 256, "N": 128}, {"M": 256, "K": 256, "N": 128})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def with_table(table):
    """Return the matmul in the blocks that a table has stored. Raise Unfit if it does not store them."""
    try:
        if table("", *KEY, BLOCKS) is None and table("", *KEY) is None:
            return lambda x, y: None
    except json.JSONDecodeError:
        raise _lost('With the text "" json.loads raises an error.', "at first the text is empty: {} then.") from None
    try:
        text = _kept(table)
    except KeyError as error:
        raise _lost(
            f"It raises KeyError for {error}, which nobody has kept.", "return None then, as kept.get(key) does."
        ) from None
    blocks = table(text, *KEY)

    def product(x, y):
        return in_blocks(x, y, blocks)

    return product


def _kept(table) -> str:
    """Return the text in which the first key has BLOCKS and the others have theirs."""
    _none(table("", *KEY), "In an empty text")
    first = text = _written(table, "", KEY, BETTER)
    _same(table(text, *KEY), BETTER, "After blocks were kept, the table")
    for name, (key, blocks) in OTHERS.items():
        _none(table(text, *key), f"For {name}, {' '.join(map(str, key))},")
        text = _written(table, text, key, blocks)
    for _, (key, blocks) in OTHERS.items():
        _same(table(text, *key), blocks, f"After all were kept, {' '.join(map(str, key))}")
        _none(table(first, *key), "In the text as it was before")
    _same(table(text, *KEY), BETTER, "After more were kept, the first")
    _written(table, "", KEY, (256, 256, 128))  # another file
    _same(table(text, *KEY), BETTER, "After something was kept in another text, the first")
    text = _written(table, text, KEY, BLOCKS)
    _same(table(text, *KEY), BLOCKS, "After others were kept in its place, the first")
    return text


def _written(table, text: str, key: tuple, blocks: tuple) -> str:
    new = table(text, *key, blocks)
    if not isinstance(new, str):
        raise _lost(f"With blocks it returned {described(new)}.", "return the new text of the file: json.dumps(...).")
    try:
        json.loads(new)
    except ValueError:
        raise _lost(f"The text {new!r:.60} is no JSON.", "json.dumps a dict: others read the file, too.") from None
    return new


def _none(found, who: str) -> None:
    if found is not None:
        raise _lost(
            f"{who} it found {described(found)}: nobody has kept that.",
            "return None for what is not there; the key names the chip, all three sizes with something between them, "
            "and the dtype.",
        )


def _same(found, wanted: tuple, who: str) -> None:
    if found is None:
        raise _lost(f"{who} has None; it should have {wanted}.", "keep what was there before, and write all of it.")
    if isinstance(found, list):
        raise _lost(f"{who} has {found!r}; it should have {wanted}.", "JSON has lists only: make a tuple of it.")
    if found != wanted:
        raise _lost(f"{who} has {found!r:.60}; it should have {wanted}.", "what was kept under this key last?")


def _lost(what: str, next: str) -> Unfit:
    return Unfit(what, next, headline="it does not keep what it should.")


EXERCISE = Exercise(
    id="11.6",
    title="Keep what was found",
    kind="configure",
    defines="table",
    cases=_cases,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    build=with_table,
    achieved="your table keeps what is put there",
    hints=(
        "A dict, and JSON for its text. What is the key? JSON takes only text for keys.",
        "The key: f'{chip} {shape} {dtype}'. An empty text is no JSON: begin with {} then.",
        "kept = json.loads(text or '{}'). Without blocks: kept.get(key), as a tuple, or None. With blocks: add "
        "them, and "
        "return json.dumps(kept).",
    ),
    points=2,
)
