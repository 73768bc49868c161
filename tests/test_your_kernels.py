"""docs/your_kernels.md: its table is what the judges say of the kernels in JAX's wheel."""

import pathlib
import sys

import pytest
from conftest import pinned
from sweeps import daily

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import wheel_kernels  # noqa: E402

ROWS = {
    cells[0]: cells[1:]
    for line in wheel_kernels.PAGE.read_text().splitlines()
    if line.startswith("| ") and (cells := [cell.strip() for cell in line.split("|")[1:-1]])[0] in wheel_kernels.CASES
}
# What the page explains about some.
EXPLAINED = {
    "flash attention, causal": (),
    "splash attention, causal": ('marked "parallel"', "write block (0, 0) of m_scratch_ref", "so this is not an error"),
    "paged attention": ("off by up to 3.7 %", "rounds values to bfloat16, which has 8 bits, and then multiplies"),
}


def test_every_case_has_its_row():
    assert list(ROWS) == list(wheel_kernels.CASES)


@pinned
@pytest.mark.parametrize("name", daily("splash attention, causal", of=EXPLAINED))
def test_what_the_judges_say_is_what_the_page_says(name):
    said = wheel_kernels.verdicts(name)
    marks = ["passed" if verdict.passed else "**refused**" for verdict in said]
    assert marks == [cell for cell in ROWS[name][1:5] if cell]
    explained = " ".join(word for verdict in said for word in verdict.message.split())
    assert all(words in explained for words in EXPLAINED[name])


@pinned
@pytest.mark.sweep
@pytest.mark.parametrize("name", wheel_kernels.CASES)
def test_a_whole_row_with_its_time(name):
    assert list(wheel_kernels.row(name)[1:]) == ROWS[name]
