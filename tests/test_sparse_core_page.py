"""docs/sparse_core.md: its snippets run, one after the other, and print what the page says."""

import os
import pathlib
import re
import subprocess
import sys

from conftest import needs_libtpu

from course_lib import chips

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/sparse_core.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = re.findall(r"```\n(.*?)```", re.sub(r"```python.*?```", "", PAGE, flags=re.DOTALL), re.DOTALL)


def words(text):
    """The text without the numbers of lines, registers and addresses: another version has others."""
    return re.sub(r"(line |\bs|0x)[0-9a-f]+\b", r"\1", " ".join(text.split()))


@needs_libtpu
def test_its_snippets_run_and_print_what_the_page_says(tmp_path):
    (file := tmp_path / "page.py").write_text("\n".join(SNIPPETS))
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    out = subprocess.run([sys.executable, file], capture_output=True, text=True, env=env)
    assert out.returncode == 0, out.stderr[-3000:]
    bundle, verdict = PRINTED
    assert words(bundle) in words(out.stdout) and words(verdict) in words(out.stdout), out.stdout


def test_the_figures_of_break_even_follow_from_the_chips():
    """(2 c + 1) sums for c SparseCores; 128 parts of a sum, each of the rows that a chip's memory holds."""
    v6e, v5p = chips.sparse_cores("v6e"), chips.sparse_cores("v5p")
    assert f"n = {2 * v6e.cores + 1} N" in PAGE and f"n = {2 * v5p.cores + 1} N" in PAGE.replace("\n  ", " ")
    assert {chips.sparse_cores(chip).granule_bytes for chip in ("v6e", "v5p", "tpu7x")} == {32}
    assert f"{128 * 4608:,} rows on a v6e" in PAGE and "v6e holds 4,608 rows" in PAGE
