"""docs/public_kernels.md: the page is made from its answers, and the runner imports files of other projects."""

import json
import pathlib
import re
import sys

import pytest
from conftest import pinned

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from public_kernels import __main__ as runner  # noqa: E402
from public_kernels import adapter, answers, importing, page, projects  # noqa: E402

from course_lib import judges  # noqa: E402

ENTRIES = answers.read()
ADAPTERS = {(name, a.name): a for name, project in projects.PROJECTS.items() for a in project.adapters}


def entry(**changed):
    facts = {"project": "a/b", "kernel": "copy", "commit": "0123456789abcdef", "path": "b/copy.py"}
    found = [{"judge": name, "said": "passed", "message": ""} for name in judges.JUDGES]
    facts |= {"style": "pallas_call", "arrays": "f32[8,128]", "chip": "v5e", "made": "1 May 2026", "verdicts": found}
    return facts | changed


def test_the_page_is_made_from_the_answers():
    text = page.PAGE.read_text()
    assert page.written(ENTRIES, text) == text, "the page is out of date: make public-kernels"


def test_there_are_fifty_kernels_of_eight_projects_with_an_answer_from_every_judge():
    complete = [e for e in ENTRIES if all(page.said(e, judge)["said"] for judge in judges.JUDGES)]
    assert len(complete) >= 50
    assert len({e["project"] for e in complete}) >= 8


def test_every_answer_has_its_adapter_and_describes_it():
    for e in ENTRIES:
        made = ADAPTERS[e["project"], e["kernel"]]
        assert [e[fact] for fact in ("path", "style", "arrays", "chip")] == [
            getattr(made, fact) for fact in ("path", "style", "arrays", "chip")
        ]


def test_the_page_shows_what_the_simulator_says_of_a_read_past_the_end():
    (program,) = [
        block for block in re.findall(r"```python\n(.*?)```", page.PAGE.read_text(), re.DOTALL) if "row_sums" in block
    ]
    found = {}
    exec(program, found)
    assert [(verdict.judge, verdict.passed) for verdict in found["verdicts"]] == [
        ("numbers", True),
        ("simulator", False),
    ]
    assert "The kernel read outside rows_ref: [3] of shape (3,)." in found["verdicts"][-1].message


def test_every_project_names_its_commit():
    assert all(re.fullmatch("[0-9a-f]{40}|wheel [0-9.]+", e["commit"]) for e in ENTRIES)


@pinned
def test_a_kernel_of_the_wheel_is_judged_as_the_page_says(tmp_path):
    wheel = projects.PROJECTS["jax-ml/jax (wheel)"]
    example = next(a for a in wheel.adapters if a.name == "example")
    found = runner.ask("verdicts", wheel, example, tmp_path)
    assert [(f["judge"], f["said"]) for f in found if "judge" in f] == [(name, "passed") for name in judges.JUDGES]
    assert found[-1]["least_bytes"] == 2 * 64 * 128 * 4


def test_an_answer_of_a_kernel_replaces_the_earlier_one(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "FILE", tmp_path / "answers.json")
    example = ADAPTERS["jax-ml/jax (wheel)", "example"]
    for said in ("refused", "passed"):
        answers.keep("a/b", "wheel 1", example, "verdicts", [{"judge": "numbers", "said": said, "message": ""}])
        answers.keep("a/b", "wheel 1", example, "chips", [{"chip": "v4", "takes": True, "message": ""}])
    (kept,) = json.loads(answers.FILE.read_text())
    assert kept["verdicts"][0]["said"] == "passed"
    assert kept["chips"][0]["takes"]


def test_a_row_names_what_compiles_and_the_least_time():
    chips = [{"chip": name, "takes": name != "v4", "message": ""} for name in ("v4", "v5p", "v6e", "tpu7x")]
    price = {"price": "f32[8,128]", "seconds": 2e-6, "least_bytes": 1_640_000, "flops": 0}
    cells = page.row(entry(chips=chips, verdicts=[*entry()["verdicts"], price]))
    assert cells[3:7] == ("passed",) * 4
    assert cells[7:] == ("v5e, v5p, v6e, tpu7x", "2 us", "2 us")


def test_the_reasons_of_a_refusal_are_given_once():
    same = [{"judge": name, "said": "refused", "message": "Block 0 | is <wrong>."} for name in ("numbers", "races")]
    assert "*numbers, races* refused: Block 0 \\| is &lt;wrong>." in page.refusals([entry(verdicts=same)])


def test_a_chip_that_does_not_take_a_kernel_says_why():
    chips = [{"chip": "v4", "takes": False, "message": "No int8 there."}]
    assert "*v4* compiler refused: No int8 there." in page.refusals([entry(chips=chips)])


def test_a_process_that_ended_early_is_on_the_page():
    assert "*the process* no answer in 20 minutes" in page.refusals(
        [entry(verdicts=[{"failed": "no answer in 20 minutes"}])]
    )


def test_a_file_is_imported_without_the_package_around_it(tmp_path, monkeypatch):
    package = tmp_path / "clone/src/theirs/kernels"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise ImportError('the whole project')")
    (package / "add.py").write_text(
        "import heavy\nfrom heavy.parts import wrapped, Base\n\n"
        "class Mine(Base):\n    pass\n\n@wrapped\ndef add(x):\n    return x + 1\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    importing.prepare(tmp_path / "clone", "src/theirs", ("heavy",), ())
    try:
        from theirs.kernels import add
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("theirs", "heavy")]:
            del sys.modules[name]
    assert add.add(1) == 2
    assert add.Mine.__mro__ == (add.Mine, object)


def test_a_folder_without_the_clone_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="theirs does not exist. CLONES names the folder"):
        importing.prepare(tmp_path / "clone", "src/theirs", (), ())


def test_a_style_is_one_of_those_that_the_page_explains():
    with pytest.raises(ValueError, match="style of copy: .'fancy'. is not among pallas_call"):
        adapter.Adapter(
            name="copy", path="", style="fancy", load=lambda: None, reference=abs, args=lambda: (), arrays=""
        )
    assert {style for e in ENTRIES for style in e["style"].split(", ")} <= set(adapter.STYLES)
