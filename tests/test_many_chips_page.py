"""docs/many_chips.md: its snippets run, one after the other, in a process that has eight CPU devices."""

import os
import pathlib
import re
import subprocess
import sys

from course_lib import compiler

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/many_chips.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_its_snippets_run_and_print_what_the_page_says():
    """Both models have the gradients of the plain one; the last snippet asks the compiler, where there is one."""
    *plain, last = SNIPPETS
    assert "assert_allclose" in plain[-1] and "compile_chips" not in "".join(plain)
    there = compiler.libtpu_version() is not None
    said = re.findall(r"print\(.*\)  +# (.*)", last) if there else []
    assert len(said) == 2 * there
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "COURSE_BUILD": "1"}  # time to compile
    code = "\n".join(SNIPPETS if there else plain)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert out.returncode == 0, out.stderr[-3000:]
    assert out.stdout.splitlines() == said
