"""The pages a visitor opens first: their links and calls lead somewhere, and the verdict is the one in the picture."""

import html
import importlib
import re

import pytest
from lesson_files import ROOT

PAGES = ("README.md", "docs/README.md", "CONTRIBUTING.md", "CHANGELOG.md")
INDEX = (ROOT / "docs/README.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text())
    files = [link for link in links if not link.startswith("https://")]
    assert [link for link in files if not ((ROOT / page).parent / link).exists()] == []
    assert files or page == "CHANGELOG.md"


def test_the_index_has_every_page_of_the_documentation():
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in INDEX} == set()


def test_every_call_of_the_index_exists():
    calls = set(re.findall(r"`((?:checks|judges|compiler|roofline|bench|viz)\.\w+)(?=[`(])", INDEX))
    assert {"judges.judge", "viz.roof_plot"} <= calls
    for call in calls:
        module, _, name = call.partition(".")
        assert callable(getattr(importlib.import_module(f"course_lib.{module}"), name, None)), call


def test_the_verdict_below_the_picture_is_the_one_in_it():
    """`make build` draws the picture anew: after it, copy what the check says now into README.md."""
    in_text = " ".join(re.search(r"as text:\n\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1].split())
    picture = re.findall(r"<text[^>]*>([^<]*)</text>", (ROOT / "docs/learner.svg").read_text())
    assert in_text in " ".join(html.unescape(" ".join(picture)).split())
