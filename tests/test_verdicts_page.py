"""docs/verdicts.md is what the judges say today."""

import pathlib
import sys

from conftest import pinned

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import verdicts  # noqa: E402


@pinned
def test_the_page_of_verdicts_is_up_to_date():
    page = verdicts.page()
    assert (ROOT / "docs/verdicts.md").read_text() == page, "run `python tools/verdicts.py --write`"
    assert page.count("refused. ") == len(verdicts.MOST_COMMON) == 10
    assert max(map(len, page.splitlines())) < 130
