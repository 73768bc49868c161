"""Exercise 17.4: what its verdicts tell a learner to try shows the instruction."""

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from lesson_files import code_cells, names_before, span

from course_lib import compiler
from course_lib.lessons.lesson_17 import e04_instructions as asked

STEM = "17_other_engines"
GIVEN = next(cell.source for cell in code_cells("solutions/src", STEM) if cell.metadata.get("given") == "17.4")


def bundles(source):
    """How many bundles of the listing of the kernel in ``source`` have each instruction."""
    exec(source, names := dict(names_before(STEM, span(STEM, "17.4")[0])))
    numbers, table = jax.ShapeDtypeStruct((1024,), jnp.int32), jax.ShapeDtypeStruct((512, 128), jnp.float32)
    listing = compiler.sparse_core_listing(names["tallied"], table, numbers, numbers, chip=asked.CHIP)
    return {name: len(listing.find(name)) for name in asked.OPTIONS}


@needs_libtpu
@pytest.mark.parametrize("line", asked.RIGHT)
def test_without_a_line_one_instruction_occurs_less_often(line):
    lines, whole = GIVEN.split("\n"), bundles(GIVEN)
    new = asked.IN_ITS_PLACE[line]
    changed = [old.partition(old.strip())[0] + new if old.endswith(f"# {line}") else old for old in lines]
    without = bundles("\n".join(changed))
    assert changed != lines
    assert [name for name in asked.OPTIONS if without[name] < whole[name]] == [asked.RIGHT[line]]
    assert (new or f"{line} out") in asked.EXERCISE.asks.parts[line].next
