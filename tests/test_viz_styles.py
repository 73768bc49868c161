"""The styles of several widgets on one page: each stays within its own root."""

import pathlib
import re

import pytest

VIZ = pathlib.Path(__file__).parent.parent / "course_lib/viz"
ROOTS = {
    "grid_player": "course-player",
    "roof_plot": "course-roofs",
    "vmem_table": "course-vmem-table",
    "bundle_viewer": "course-bundles",
    "systolic_stepper": "course-systolic",
    "memory_ladder": "course-ladder",
    "pipeline_chart": "course-pipeline",
    "flow_player": "course-flows",
    "precision_explorer": "course-precision",
    "choices": "course-pick",
    "tile_painter": "course-tiles",
    "cost_bars": "course-costs",
}


def rules(name):
    """The selectors of a style sheet, those within @media and @container too."""
    text = re.sub(r"/\*.*?\*/", "", (VIZ / name / f"{name}.css").read_text(), flags=re.DOTALL)
    found = [part.strip() for part in re.findall(r"([^{}]+)\{", text)]
    return [each.strip() for part in found if not part.startswith("@") for each in re.split(r",(?![^(]*\))", part)]


@pytest.mark.parametrize("name, root", ROOTS.items())
def test_every_rule_begins_at_the_root_of_its_widget(name, root):
    assert rules(name), "no rules found"
    assert [rule for rule in rules(name) if not re.match(rf"\.{root}(?![\w-])", rule)] == []


@pytest.mark.parametrize("root", ROOTS.values())
def test_no_widget_uses_the_root_of_another_within_itself(root):
    scripts = [text for path in VIZ.rglob("*.js") for text in [path.read_text()]]
    assert sum(len(re.findall(rf"""["' ]{root}["' ]""", text)) for text in scripts) == 1
