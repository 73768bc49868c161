"""docs/using_the_kernels.md: its snippets run, one after the other, as a reader would paste them."""

import pathlib
import re

import pytest
from conftest import needs_libtpu

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/using_the_kernels.md").read_text()
NEEDS_LIBTPU = ("compiler.compile_tpu", "bench.autotune")


@pytest.fixture(scope="module")
def names():
    """What the snippets define, all but those that need the TPU's compiler."""
    found = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        if not any(word in code for word in NEEDS_LIBTPU):
            exec(compile(code, "docs/using_the_kernels.md", "exec"), found)
    return found


def test_they_compute_what_the_page_says(names):
    assert names["total"].shape == () and abs(float(names["total"]) - 128) < 1e-3  # softmax of 128 columns
    assert names["losses"] == sorted(names["losses"], reverse=True)
    assert len(names["rows"]) == 32 and names["y"].shape == (20, 8)
    assert abs(float(names["whole"]) - 1) < 1e-3  # an RMSNorm has mean square 1


def test_the_artifact_for_a_tpu_has_the_kernels_in_it(names):
    assert names["exported"].mlir_module().count("tpu_custom_call") == 3


@needs_libtpu
def test_what_asks_the_compiler(names, capsys):
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        if any(word in code for word in NEEDS_LIBTPU):
            exec(compile(code, "docs/using_the_kernels.md", "exec"), names)
    assert names["report"].ok and sum(op.kind == "kernel" for op in names["report"].ops) == 3
    assert names["tuned"].best in names["candidates"]
    assert capsys.readouterr().out.count("predicted (compiler)") == 2


def test_links_lead_somewhere():
    headings = {
        page: {re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines()}
        for page in ("kernels.md", "compiler.md")
        for text in [(ROOT / "docs" / page).read_text()]
    }
    links = re.findall(r"\]\(([a-z_]+\.md)(?:#([a-z0-9-]+))?\)", PAGE)
    assert links and all(not part or part in headings[page] for page, part in links)
    assert "docs/using_the_kernels.md" in (ROOT / "README.md").read_text()
    assert "using_the_kernels.md" in (ROOT / "docs/kernels.md").read_text()
