"""docs/many_chips.md: its snippets run, one after the other, in a process that has eight CPU devices."""

import os
import pathlib
import re
import subprocess
import sys

from conftest import needs_libtpu

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/many_chips.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(snippets: list[str]) -> str:
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    out = subprocess.run([sys.executable, "-c", "\n".join(snippets)], capture_output=True, text=True, env=env)
    assert out.returncode == 0, out.stderr[-3000:]
    return out.stdout


def test_both_ways_to_cut_the_model_have_its_gradients():
    assert "assert_allclose" in SNIPPETS[-2] and "compile_chips" not in "".join(SNIPPETS[:-1])
    assert run(SNIPPETS[:-1]) == ""


@needs_libtpu
def test_the_compiler_counts_what_the_page_says():
    said = re.findall(r"print\(.*\)  +# (.*)", SNIPPETS[-1])
    assert len(said) == 2 and run(SNIPPETS).splitlines() == said
