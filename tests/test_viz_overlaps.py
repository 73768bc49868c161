"""No words lie on other words, in any picture that is stored in a notebook or drawn for a page."""

import base64
import re

import nbformat
import pytest
from lesson_files import ROOT
from shapes import apart, words_on_words

STORED = [
    path for folder in ("notebooks", "solutions", "exercises") for path in sorted((ROOT / folder).glob("*.ipynb"))
]


def pictures(path):
    """(id of the cell, SVG) of each picture of ours in a notebook; those of matplotlib have no text, but shapes."""
    for cell in nbformat.read(path, 4).cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            inline = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", data.get("text/html", ""))
            yield from ((cell.id, base64.b64decode(one).decode()) for one in inline)
            if "image/svg+xml" in data:
                yield cell.id, data["image/svg+xml"]


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_words_lie_on_others_in_a_stored_picture(path):
    covered = [(cell, pair) for cell, svg in pictures(path) for pair in words_on_words(svg)]
    assert covered == []


def test_there_are_pictures_to_look_at():
    assert sum(len(list(pictures(path))) for path in STORED) > 12
    assert words_on_words((ROOT / "docs/learner.svg").read_text()) == []


def test_words_on_others_are_seen_turned_or_moved():
    line = '<text x="{x}" y="{y}" font-size="12"{more}>{words}</text>'
    picture = '<svg xmlns="http://www.w3.org/2000/svg"><g transform="translate(10 20)">{}</g>{}</svg>'
    moved, plain = line.format(x=0, y=0, more="", words="moved"), line.format(x=12, y=22, more="", words="plain")
    assert words_on_words(picture.format(moved, plain)) == [("moved", "plain")]
    assert words_on_words(picture.format(moved, line.format(x=12, y=40, more="", words="lower"))) == []
    turned = f'<g transform="translate(20 40) rotate(-90)">{line.format(x=0, y=0, more="", words="upwards")}</g>'
    assert words_on_words(picture.format(turned, plain)) == [("upwards", "plain")]


def test_shapes_that_overlap_are_not_apart():
    square = [(0, 0), (2, 0), (2, 2), (0, 2)]
    turned = [(3, 1), (4, 2), (3, 3), (2, 2)]
    assert apart(square, turned)
    assert not apart(square, [(x - 0.6, y - 0.6) for x, y in turned])
