"""What every widget has without a browser: a legible still, styles within its own root, numbers worded by units.js.

What it does in a browser is in tests/browser/test_every_widget.py.
"""

import re

import pytest
from shapes import words_on_words
from test_layers_viz import VIZ
from viz_samples import overflowing, parsed
from viz_widgets import WIDGETS

from course_lib import viz
from course_lib.viz.common.widget import Widget

UNITS = (VIZ / "common/units.js").read_text()
FOLDERS = sorted(path.parent.name for path in VIZ.glob("*/*.css"))
EXPORTED = [getattr(viz, name) for name in viz.__all__]
CLASSES = [each for each in EXPORTED if isinstance(each, type) and issubclass(each, Widget)]


def test_every_widget_is_among_them():
    made = [kind.make() for kind in WIDGETS.values()]
    assert [kind for kind in CLASSES if not any(isinstance(widget, kind) for widget in made)] == []
    assert len(CLASSES) == len(FOLDERS) == len({kind.root for kind in WIDGETS.values()})


@pytest.mark.parametrize("name", WIDGETS)
def test_where_no_browser_runs_there_is_a_still_and_words(name):
    bundle, _ = WIDGETS[name].make()._repr_mimebundle_()
    svg = bundle["image/svg+xml"]
    assert "application/vnd.jupyter.widget-view+json" in bundle and bundle["text/plain"].strip()
    assert parsed(svg) is not None
    assert overflowing(svg) == [] == words_on_words(svg)


def rules(name):
    """The selectors of a style sheet, those within @media and @container too."""
    text = re.sub(r"/\*.*?\*/", "", (VIZ / name / f"{name}.css").read_text(), flags=re.DOTALL)
    found = [part.strip() for part in re.findall(r"([^{}]+)\{", text)]
    return [each.strip() for part in found if not part.startswith("@") for each in re.split(r",(?![^(]*\))", part)]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_rule_begins_at_the_root_of_its_widget(name):
    (root,) = re.findall(r'rootOf\(el, "([\w-]+)"\)', (VIZ / name / f"{name}.js").read_text())
    assert root in {kind.root for kind in WIDGETS.values()} and rules(name)
    assert [rule for rule in rules(name) if not re.match(rf"\.{root}(?![\w-])", rule)] == []


@pytest.mark.parametrize("root", sorted({kind.root for kind in WIDGETS.values()}))
def test_no_widget_uses_the_root_of_another_within_itself(root):
    scripts = [path.read_text() for path in VIZ.rglob("*.js")]
    assert sum(len(re.findall(rf"""["' ]{root}["' ]""", text)) for text in scripts) == 1


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_no_widget_writes_numbers_by_itself(kind):
    """Units.js does, or Python, which has worded everything for those that have no units.js."""
    own = str(kind._esm).replace(UNITS, "")
    assert [word for word in ("KiB", "toFixed", "toPrecision", "toLocaleString", "1e-6") if word in own] == []
