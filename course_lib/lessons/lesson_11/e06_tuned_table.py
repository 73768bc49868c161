"""A table that stores tuned blocks by chip, shape and dtype as the text of a file."""

import builtins
import json
from unittest import mock

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
    "other sizes with the same digits": (("v5e", (2562, 56, 256), "bfloat16"), (256, 56, 256)),
}


def _cases() -> list[tuple]:
    sizes = ({"M": 256, "K": 256, "N": 256}, {"M": 128, "K": 256, "N": 128}, {"M": 256, "K": 256, "N": 128})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def with_table(table):
    """Return the matmul in the blocks that ``table`` stores. Raise Unfit if it does not store them."""
    try:
        table("", *KEY, BLOCKS)
    except json.JSONDecodeError:
        raise _lost(
            'json.loads raises an error for the text "".', "the text is empty at first: start from {} then."
        ) from None
    try:
        text = _kept(table)
    except KeyError as error:
        raise _lost(
            f"The table raises KeyError for {error}, which was never stored.",
            "return None if the key is missing, as kept.get(key) does.",
        ) from None
    blocks = table(text, *KEY)

    def product(x, y):
        return in_blocks(x, y, blocks)

    return product


def _kept(table) -> str:
    """Return the text in which the first key has BLOCKS and the others have theirs."""
    if table("", *KEY) == BLOCKS:
        raise _lost(
            f"The table returned {BLOCKS} for an empty text. They were stored in another text, so it keeps its entries "
            "outside the text as well.",
            "read the entries from text in every call: json.loads(text or '{}').",
        )
    _none(table("", *KEY), "For an empty text,")
    first = text = _written(table, "", KEY, BETTER)
    _same(table(text, *KEY), BETTER, "After its blocks were stored, the first key")
    with mock.patch.object(builtins, "hash", lambda value: len(repr(value))):
        if table(text, *KEY) is None:
            raise _lost(
                "hash() of a text is another number in each run of Python, so a later run does not find these blocks.",
                "use the text itself as the key: f'{chip} {shape} {dtype}'.",
            )
    for name, (key, blocks) in OTHERS.items():
        _none(table(text, *key), f"For {name}, {' '.join(map(str, key))},")
        text = _written(table, text, key, blocks)
    for _, (key, blocks) in OTHERS.items():
        _same(table(text, *key), blocks, f"After all were stored, {' '.join(map(str, key))}")
        _none(table(first, *key), "For the text as it was before,")
    _same(table(text, *KEY), BETTER, "After more were stored, the first key")
    _written(table, "", KEY, (256, 256, 128))  # another file
    _same(table(text, *KEY), BETTER, "After something was stored in another text, the first key")
    text = _written(table, text, KEY, BLOCKS)
    _same(table(text, *KEY), BLOCKS, "After other blocks were stored in their place, the first key")
    return text


def _written(table, text: str, key: tuple, blocks: tuple) -> str:
    new = table(text, *key, blocks)
    if not isinstance(new, str):
        raise _lost(
            f"With blocks, the table returned {described(new)}.", "return the new text of the file: json.dumps(...)."
        )
    try:
        json.loads(new)
    except ValueError:
        raise _lost(
            f"The text {new!r:.60} is not JSON.", "return json.dumps of a dict, because others read the file, too."
        ) from None
    if new == "null":
        raise _lost(
            "With blocks, the table returned the text 'null': json.dumps was given None.",
            "call json.dumps on the dict itself; kept.update(...) changes the dict and returns None.",
        )
    return new


def _none(found, who: str) -> None:
    if isinstance(found, str):
        raise _lost(
            f"{who} the table returned {described(found)}, although no blocks were given.",
            "without blocks, look the key up, and return its blocks as a tuple, or None.",
        )
    if found is not None:
        stored = {BETTER: KEY} | {blocks: key for key, blocks in OTHERS.values()}
        owner = stored.get(tuple(found)) if isinstance(found, tuple | list) else None
        belongs = f", the blocks of {' '.join(map(str, owner))}" if owner else ""
        raise _lost(
            f"{who} the table returned {found!r:.60}{belongs}, although nothing was stored there.",
            "return None for a key that is not in the text. The key needs the chip, the dtype and all three sizes in "
            "their order, with something between them.",
        )


def _same(found, wanted: tuple, who: str) -> None:
    if found is None:
        raise _lost(
            f"{who} gives None; it should give {wanted}.", "keep the entries that were there before, and write all."
        )
    if isinstance(found, list):
        raise _lost(f"{who} gives {found!r}; it should give {wanted}.", "JSON has only lists, so make a tuple of it.")
    if isinstance(found, str):
        raise _lost(
            f"{who} gives the text {found!r:.60}; it should give the tuple {wanted}.",
            "store the blocks as they are, because JSON keeps a list of numbers, and make a tuple of that list.",
        )
    if found != wanted:
        raise _lost(
            f"{who} gives {found!r:.60}; it should give {wanted}.", "return what was last stored under this key."
        )


def _lost(what: str, next: str) -> Unfit:
    return Unfit(what, next, headline="it does not store what it should.")


EXERCISE = Exercise(
    id="11.6",
    title="Keep what was found",
    kind="configure",
    defines="table",
    cases=_cases,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    build=with_table,
    achieved="your table keeps its entries",
    hints=(
        "Use a dict, and JSON for its text. What is the key? JSON allows only text as keys.",
        "Use f'{chip} {shape} {dtype}' as the key. An empty text is not JSON, so start from {} then.",
        "Start with kept = json.loads(text or '{}'). Without blocks, return kept[key] as a tuple, or None. With "
        "blocks, add them to kept and return json.dumps(kept).",
    ),
    points=2,
)
