"""The page of words, made from the boxes in which lessons define them."""

import sys

import pytest
from lesson_files import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import building
from building import BuildError, glossary, links

BOX = """\
# %% [markdown]
# A vector register holds 8 rows.
#
# > **lane**: one of the 128 columns of a vector register,
# > as wide as a number of 32 bits.
# >
# > **sublane**: one of its 8 rows.
#
# > A quotation defines nothing.

# %%
x = 1
# > **code**: not a text cell.
"""


def test_a_box_holds_a_word_and_its_meaning_on_one_line_or_more():
    assert glossary.definitions(BOX, "here") == [
        ("lane", "one of the 128 columns of a vector register, as wide as a number of 32 bits."),
        ("sublane", "one of its 8 rows."),
    ]


def test_a_rule_in_a_box_is_no_definition():
    rule = "# %% [markdown]\n# > **All steps of a block must be consecutive**, whether they write to it or not.\n"
    assert glossary.definitions(rule, "here") == []


def test_half_a_definition_is_refused():
    wrong = "# %% [markdown]\n# > **lane**: a column.\n# >\n# > **sublane** is a row.\n"
    with pytest.raises(BuildError, match=r"here: '\*\*sublane\*\* is a row.' is no definition"):
        glossary.definitions(wrong, "here")


def test_a_word_is_defined_once(tmp_path, monkeypatch):
    (tmp_path / "notebooks/src").mkdir(parents=True)
    for name in ("01_a.py", "02_b.py"):
        (tmp_path / "notebooks/src" / name).write_text("# %% [markdown]\n# > **Lane**: a column.\n")
    monkeypatch.setattr(glossary, "ROOT", tmp_path)
    monkeypatch.setattr("building.ROOT", tmp_path)
    with pytest.raises(BuildError, match=r"02_b.py defines 'Lane' again: it stands in notebooks/src/01_a.py already"):
        glossary.page()


def test_the_page_has_the_words_in_order_with_their_lessons():
    rows = [line for line in glossary.page().splitlines() if line.startswith("| ") and "](../notebooks/" in line]
    words = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert len(words) >= 10
    assert words == sorted(words, key=str.lower)


def test_words_of_earlier_lessons_lead_to_the_glossary_where_a_lesson_first_uses_them(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "ROOT", tmp_path)
    for name, word in (("01_a", "index map"), ("02_b", "tile"), ("03_c", "later")):
        (tmp_path / f"{name}.py").write_text(f"# %% [markdown]\n# > **{word}**: what it is.\n")
    opening, text = links.to_glossary(["An index map.", TEXT], tmp_path / "02_b.py")
    assert opening == "An index map." and text == LINKED


TEXT = """\
# An index map
`index map`, **index map**, [index map](x.md), a sub-index map, <details>index map</details>

    index map

Two index maps and an index map; later, a tile.

> **tile**: part of a register."""
LINKED = TEXT.replace("Two index maps", "Two [index maps](../docs/glossary.md)").replace(
    "**tile**", "**[tile](../docs/glossary.md)**"
)
