"""The summary at the end of a test run."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import types

import pytest
import seconds

TESTS = pathlib.Path(__file__).parent


def report(nodeid, duration, when="call", keywords=()):
    return types.SimpleNamespace(nodeid=nodeid, duration=duration, when=when, keywords=keywords)


@pytest.mark.parametrize(
    "nodeid, part",
    [
        ("tests/test_viz_draw.py::test_a[x/y]", "viz"),
        ("tests/test_grid.py::test_b", "grid"),
        ("tests/browser/test_lab.py::test_c", "browser"),
    ],
)
def test_part_of(nodeid, part):
    assert seconds.part_of(nodeid) == part


def test_set_up_counts_as_time_and_not_as_a_test():
    reports = [
        report("tests/test_a.py::t", 2, "setup"),
        report("tests/test_a.py::t", 3),
        report("tests/test_b.py::t", 9),
    ]
    assert seconds.by_part(reports) == [("b", 9, 1), ("a", 5, 1)]


def test_short_parts_share_a_line():
    reports = [report("tests/test_a.py::t", 0.4), report("tests/test_b.py::t", 0.3), report("tests/test_c.py::t", 4.2)]
    assert [line.split() for line in seconds.lines(reports)] == [
        ["4", "s", "1", "tests", "c"],
        ["1", "s", "2", "tests", "the", "rest"],
        ["5", "s", "3", "tests", "all,", "over", "the", "workers"],
    ]


def test_a_part_over_its_budget_and_the_sum_have_a_line_each_and_sweeps_do_not_count(tmp_path):
    budgets = tmp_path / "budgets.toml"
    budgets.write_text('[seconds]\nall = 20\na = 10\n"any other part" = 5\n')
    reports = [report("tests/test_a.py::t", 9), report("tests/test_a.py::s", 90, keywords=("sweep",))]
    assert seconds.over(reports, budgets) == []
    reports += [report("tests/test_a.py::u", 9), report("tests/test_b.py::t", 6)]
    assert [line.partition(",")[0] for line in seconds.over(reports, budgets)] == ["all: 24 s", "a: 18 s", "b: 6 s"]


def test_every_budget_is_of_a_part():
    budgets = tomllib.loads((TESTS / "budgets.toml").read_text())["seconds"]
    parts = {seconds.part_of(f"tests/{path.relative_to(TESTS)}::t") for path in TESTS.rglob("test_*.py")}
    assert budgets.keys() - {"all", "any other part"} <= parts


@pytest.mark.parametrize("options, status", [(["--hold-budgets"], 1), ([], 0)])
def test_over_budget_fails_where_budgets_are_held_and_is_a_warning_elsewhere(tmp_path, options, status):
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(TESTS.parent / "requirements.txt", tmp_path)
    for name in ("conftest.py", "seconds.py", "sweeps.py"):
        shutil.copy(TESTS / name, tests / name)
    (tests / "budgets.toml").write_text('[seconds]\nall = 60\n"any other part" = 0\n')
    (tests / "test_part.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('n', range(400))\ndef test_passes(n):\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-p", "no:cacheprovider", *options, tests]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment | {"PYTHONPATH": str(TESTS.parent)}, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "400 passed" in done.stdout
    assert re.search(r"part: \d+ s, and its budget in tests/budgets.toml is 0 s", done.stdout)
    assert "all: " not in done.stdout
