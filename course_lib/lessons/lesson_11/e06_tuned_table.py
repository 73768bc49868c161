"""A table of tuned blocks in a file, by chip, shape and dtype."""

import json
import pathlib
import tempfile

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_07.e05_blocks import in_blocks

SHAPE, BLOCKS = (256, 256, 256), (128, 256, 128)
OTHERS = {  # what is kept besides, each apart from the first in one thing only
    "another chip": ("v6e", SHAPE, "bfloat16", (256, 256, 256)),
    "another shape": ("v5e", (256, 256, 512), "bfloat16", (256, 128, 256)),
    "another dtype": ("v5e", SHAPE, "float32", (128, 128, 128)),
}


def _cases() -> list[tuple]:
    sizes = ({"M": 256, "K": 256, "N": 256}, {"M": 128, "K": 256, "N": 128}, {"M": 256, "K": 256, "N": 128})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def with_table(Table):
    """The product in blocks that a table of this class has kept. Raises Unfit where it does not keep them."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tuned.json"
        _keeps_apart(Table, file)
        blocks = Table(file).get("v5e", SHAPE, "bfloat16")

    def product(x, y):
        return in_blocks(x, y, blocks)

    return product


def _keeps_apart(Table, file: pathlib.Path) -> None:
    table = Table(file)
    if (there := table.get("v5e", SHAPE, "bfloat16")) is not None:
        raise _lost(f"With no file there get returned {described(there)}.", "return None for what nobody has kept.")
    table.put("v5e", SHAPE, "bfloat16", BLOCKS)
    if not file.exists():
        raise _lost("After put there is no file.", "write the file in put: a program may end at any time.")
    again = Table(file)
    _same(again.get("v5e", SHAPE, "bfloat16"), BLOCKS, "A new Table of the same file")
    for name, (chip, shape, dtype, blocks) in OTHERS.items():
        if (there := again.get(chip, shape, dtype)) is not None:
            raise _lost(
                f"For {name}, {chip} {shape} {dtype}, get returned {described(there)}: nobody has kept that.",
                "the key names the chip, the shape and the dtype.",
            )
        again.put(chip, shape, dtype, blocks)
    last = Table(file)
    for _, (chip, shape, dtype, blocks) in OTHERS.items():
        _same(last.get(chip, shape, dtype), blocks, f"After four puts get({chip!r}, {shape}, {dtype!r})")
    _same(last.get("v5e", SHAPE, "bfloat16"), BLOCKS, "After three more puts the first")
    last.put("v5e", SHAPE, "bfloat16", (256, 128, 128))
    _same(
        Table(file).get("v5e", list(SHAPE), jnp.bfloat16),
        (256, 128, 128),
        "After a better one is put, and asked as jnp.bfloat16,",
    )
    try:
        json.loads(file.read_text("utf-8"))
    except ValueError:
        raise _lost("The file is no JSON.", "json.dumps what you keep: others read it, too.") from None
    last.put("v5e", SHAPE, "bfloat16", BLOCKS)


def _lost(what: str, next: str) -> Unfit:
    return Unfit(what, next, headline="it does not keep what it should.")


def _same(found, wanted: tuple, who: str) -> None:
    if found is None:
        raise _lost(
            f"{who} has None; it should have {wanted}.", "read the file in get, or in __init__; keep what was there."
        )
    if not isinstance(found, tuple):
        raise _lost(f"{who} has {found!r}; it should have {wanted}.", "JSON has lists only: make a tuple of it.")
    if found != wanted:
        raise _lost(f"{who} has {found}; it should have {wanted}.", "what was put under this key last?")


EXERCISE = Exercise(
    id="11.6",
    title="Keep what was found",
    kind="configure",
    defines="Table",
    cases=_cases,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    build=with_table,
    hints=(
        "A dict, and a file that holds it as JSON. What is the key? JSON takes only text for keys.",
        "The key: f'{chip} {shape} {dtype}', with tuple(shape), and jnp.dtype(dtype).name. get returns None for "
        "what is not there.",
        "put: read what is there, {} if there is no file; add; write all of it. get: tuple(...) of the list that "
        "JSON gives "
        "back.",
    ),
    points=2,
)
