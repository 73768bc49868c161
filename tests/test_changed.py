"""Which tests a change affects."""

import subprocess

import changed
import pytest


@pytest.mark.parametrize(
    "file, first, among",
    [
        ("course_lib/grid/trace.py", "tests/test_grid.py", "tests/test_judges.py"),
        ("course_lib/kernels/norm/kernel.py", "tests/test_kernels_portable.py", "tests/test_norm.py"),
        ("course_lib/viz/roof_plot/roof_plot.js", "tests/browser/test_roof_plot.py", "tests/test_viz.py"),
        ("docs/zoo.md", "tests/test_zoo.py", "tests/test_verdicts_page.py"),
        ("tests/fairness/copies.py", "tests/test_fairness.py", "tests/test_fairness_random.py"),
        ("tests/colab/colab_pins.txt", "tests/colab/test_colab.py", "tests/colab/test_colab.py"),
        ("solutions/mutants/07_tiled_matmul.py", "tests/lessons/test_07_golf.py", "tests/test_mutants.py"),
    ],
)
def test_affected(file, first, among):
    found = changed.affected([file])
    assert first == found[0] and among in found


def test_what_starts_processes_comes_after_what_imports_the_change():
    found = changed.affected(["course_lib/kernels/norm/kernel.py"])
    assert found.index("tests/test_norm.py") < found.index("tests/test_grading.py")
    assert "tests/test_zoo.py" not in changed.affected(["docs/jupyter.md"])


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    for name in ("kept", "committed", "edited", "deleted"):
        (tmp_path / name).write_text("before")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Before")
    git(tmp_path, "checkout", "-qb", "branch")
    return tmp_path


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test", *arguments], cwd=folder, check=True)


def test_a_change_is_what_is_committed_since_and_what_is_not_committed_yet(repository):
    assert changed.changed("main") == []
    (repository / "committed").write_text("after")
    git(repository, "commit", "-qam", "After")
    (repository / "edited").write_text("after")
    (repository / "new").touch()
    (repository / "deleted").unlink()
    assert sorted(changed.changed("main")) == ["committed", "deleted", "edited", "new"]


def test_a_base_that_is_no_commit_is_named(repository):
    with pytest.raises(SystemExit, match="'nowhere' is no commit of this repository"):
        changed.changed("nowhere")


def test_the_pins_affect_everything(monkeypatch, capsys):
    monkeypatch.setattr(changed, "changed", lambda base: ["docs/zoo.md", "requirements.txt"])
    changed.main("main")
    assert capsys.readouterr().out == "tests\n"
