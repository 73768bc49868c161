"""docs/pytorch.md: its snippets run, one after the other, print what it says; and lesson 10's own layer trains.

Skipped where PyTorch, an extra of several GB, is not installed.
"""

import io
import re
from contextlib import redirect_stdout

import pytest
from lesson_files import ROOT

from course_lib import compiler

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

# PyTorch's opinion of this Python, not ours.
pytestmark = pytest.mark.filterwarnings("ignore:Guards may run slower on Python:RuntimeWarning")
PAGE = (ROOT / "docs/pytorch.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
THERE = compiler.libtpu_version() is not None


def without_proofs(code: str) -> str:
    """Return a snippet without what asks the compiler, where there is none."""
    asks = ("proof(dense", "(forward)", "(backward)", "in proof(")
    return code if THERE else "\n".join(line for line in code.splitlines() if not any(ask in line for ask in asks))


@pytest.fixture(scope="module")
def names():
    """What the snippets define, and what they printed."""
    torch.manual_seed(0)
    found, printed = {"__name__": "page"}, io.StringIO()
    for code in SNIPPETS:
        with redirect_stdout(printed):
            exec(compile(without_proofs(code), "docs/pytorch.md", "exec"), found)
    return found | {"printed": printed.getvalue().splitlines()}


def test_its_snippets_print_what_the_page_says(names):
    said = [line for code in SNIPPETS for line in re.findall(r"print\(.*\)  +# (.*)", without_proofs(code))]
    assert len(said) == 6 + 3 * THERE and names["printed"] == said


def test_a_layer_of_lesson_10_trains_the_same_module(names):
    """The cells that define ``dense`` and what it calls, as they stand in the lesson."""
    cells, lesson = (ROOT / "notebooks/src/10_backward_kernels.py").read_text().split("# %%"), {}
    for name in ("\nROWS, COLUMNS", "\ndef grad_x(", "\ndef grad_w(", "\ndef dense_backward("):
        cell = next(cell for cell in cells if name in cell)
        exec(compile(cell.partition("\n")[2], "lesson 10", "exec"), lesson)
    dense = names["operator"]("tests::lesson_10", lesson["dense"], mode="interpreted")
    assert names["losses"](dense) == pytest.approx(names["theirs"], rel=1e-4)


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([a-z_]+\.md)\)", PAGE)
    assert links and all((ROOT / "docs" / page).exists() for page in links)
    assert "pytorch.md" in (ROOT / "docs/using_the_kernels.md").read_text()
