"""The notebooks: generated from their sources and nothing else, and they run as a reader would run them."""

import ast
import copy
import importlib.util
import itertools
import json
import os
import re
import shutil
import sys
import threading
from xml.etree import ElementTree

import nbformat
import pytest
from conftest import pinned
from lesson_files import LESSONS, ROOT
from sweeps import daily

from course_lib.compiler.child import gpu_service

sys.path.insert(0, str(ROOT / "tools"))

import build_notebooks
import building
from building import BuildError, answers, golf, lessons, picture, run, source, targets, widget_state

EXERCISES = sorted((ROOT / "exercises").glob("*.ipynb"))
GENERATED = [f for folder in ("notebooks", "exercises", "solutions") for f in sorted((ROOT / folder).glob("*.ipynb"))]


def out_of_date(name):
    """The generated files of a target that are not what its source builds; what nothing builds any more among them."""
    built = targets.targets()[name]()
    cycles = {file.relative_to(ROOT).as_posix() for file in cycles_files(name)}
    return sorted(cycles - set(built)) + [path for path, text in built.items() if (ROOT / path).read_text() != text]


def cycles_files(name):
    kind, _, stem = name.partition("/")
    return (ROOT / "course_lib/lessons").glob(f"lesson_{stem[:2]}/cycles_{kind}.json")


TARGETS = list(targets.targets())
SOURCES = [name for name in TARGETS if name.startswith(("notebooks/", "solutions/"))]
# `make test` executes the course map and the first lesson with its solutions, and builds every page.
EXECUTED = {"notebooks/00_start_here", f"solutions/{LESSONS[0]}"}
EXECUTED |= {name for name in TARGETS if name not in SOURCES}


@pytest.mark.parametrize("name", SOURCES)
def test_a_notebook_holds_the_cells_of_its_source(name):
    """Compare everything but the outputs, so that no notebook has to run; the test below runs them."""
    kind, stem = name.split("/")
    wanted, stored = source.read_source(ROOT / kind / f"src/{stem}.py"), nbformat.read(ROOT / f"{name}.ipynb", 4)
    if kind == "solutions":
        solutions = json.loads((ROOT / f"course_lib/lessons/lesson_{stem[:2]}/solutions.json").read_text())
        assert solutions == answers.answers_of(wanted), "run `make build`"
        blank = source.dump(answers.without_answers(wanted))
        assert (ROOT / f"exercises/{stem}.ipynb").read_text() == blank, "run `make build`"
    assert [without_outputs(cell) for cell in stored.cells] == [without_outputs(cell) for cell in wanted.cells]
    executed = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [c.execution_count for c in executed] == [
        None if "outputs-not-stored" in c.metadata.get("tags", ()) else n for n, c in enumerate(executed, 1)
    ], "run `make build`"
    assert not [cell.id for cell in executed for output in cell.outputs if output.output_type == "error"]


@pytest.mark.parametrize("name", SOURCES)
def test_every_notebook_leads_on(name):
    """To the next lesson, back, and by links that lead somewhere."""
    kind, stem = name.split("/")
    notebook = ROOT / ("notebooks" if kind == "notebooks" else "exercises") / f"{stem}.ipynb"
    texts = [cell.source for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "markdown"]
    found = [link for text in texts for link in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in link]
    assert [link for link in found if not (notebook.parent / link).exists()] == []
    last = texts[-1].splitlines()[-1]
    later = [other for other in LESSONS if other > stem]
    wanted = ["../notebooks/00_start_here.ipynb", "../docs/glossary.md"]
    wanted += [f"../notebooks/{other}.ipynb" for other in later[:1]]
    if kind == "solutions":
        wanted.append(f"../notebooks/{stem}.ipynb")
        assert f"[lesson {int(stem[:2])}](../notebooks/{stem}.ipynb)" in texts[0]
    elif stem in LESSONS:
        wanted.append(f"../exercises/{stem}.ipynb")
    assert set(re.findall(r"\]\(([^)]+)\)", last)) == set(wanted)


ASKS_TO_PREDICT = re.compile(r"\*\*(Predict|Guess)\b")


@pytest.mark.parametrize("stem", [name.removeprefix("notebooks/") for name in SOURCES if name.startswith("notebooks/")])
def test_what_a_reader_shall_predict_is_folded(stem):
    """The output below a "**Predict": it would be read before anybody has predicted anything."""
    cells = nbformat.read(ROOT / f"notebooks/{stem}.ipynb", 4).cells
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown" and ASKS_TO_PREDICT.search(cell.source):
            below = itertools.takewhile(lambda c: c.cell_type == "code", cells[number + 1 :])
            answers = [c for c in below if c.outputs]
            assert answers, f'below "{cell.source[-80:]}" no cell has an output'
            assert [c.id for c in answers if not c.metadata.get("jupyter", {}).get("outputs_hidden")] == []


def test_a_folded_output_stays_with_its_folded_source(tree):
    (tree / "notebooks/src/90_new.py").write_text(
        '# %% tags=["predict"]\n1 + 1\n\n# %% tags=["folded", "predict"]\n2\n\n# %% tags=["outputs-not-stored"]\n3\n'
    )
    read = source.read_source(tree / "notebooks/src/90_new.py")
    folds = [cell.metadata.get("jupyter", {}) for cell in read.cells]
    assert folds == [{"outputs_hidden": True}, {"source_hidden": True, "outputs_hidden": True}, {}]
    executed = run.execute(read, tree / "notebooks/src/90_new.py")[0].cells
    assert [(cell.execution_count, len(cell.outputs)) for cell in executed] == [(1, 1), (2, 1), (None, 0)]


def without_outputs(cell):
    return {name: part for name, part in cell.items() if name not in ("outputs", "execution_count")}


def why_not_built_here(name):
    """What keeps this machine from the outputs that are stored; "" if nothing does."""
    kind, _, stem = name.partition("/")
    text = (ROOT / kind / f"src/{stem}.py").read_text() if name in SOURCES else ""
    if "compiler.compile_gpu(" in text and gpu_service.versions() is None:
        return gpu_service.missing()
    if "import torch\n" in text and importlib.util.find_spec("torch"):
        return "its stored outputs are those of a machine without PyTorch."
    return ""


@pinned
@pytest.mark.parametrize("name", daily(*EXECUTED, of=TARGETS))
def test_what_is_generated_is_what_its_source_builds(name, monkeypatch):
    """Every kernel is compiled; the cycles of parts of large grids are those that come with the course."""
    if why := why_not_built_here(name):
        pytest.skip(why)
    monkeypatch.setenv("COURSE_SHIPPED", "1")
    assert out_of_date(name) == [], "run `make build`"


@pinned
@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in targets.targets() if any(cycles_files(name))])
def test_the_simulator_still_says_what_comes_with_the_course(name, monkeypatch):
    monkeypatch.setenv("COURSE_SHIPPED", "0")
    assert out_of_date(name) == [], "run `make build`"


def test_everything_generated_has_a_target():
    names = set(targets.targets())
    assert {f"{f.parent.name}/{f.stem}".replace("exercises/", "solutions/") for f in GENERATED} <= names
    assert {"README.md", "docs/learner.svg"} <= names


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder with what every build needs, which the build takes for the repository's root."""
    for name in ("notebooks/src/first_cell.py", "notebooks/src/public.json", "requirements.txt", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("solutions/src", "exercises", "course_lib/lessons/lesson_90"):
        (tmp_path / folder).mkdir(parents=True)
    for module in (building, answers, lessons, picture, run, source, targets, widget_state, build_notebooks):
        if hasattr(module, "ROOT"):
            monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path


def test_a_widgets_still_shrinks_with_the_page():
    """Pages show a bare SVG at its full width. An <img> may be told to shrink."""
    view, svg = "application/vnd.jupyter.widget-view+json", '<svg width="720" height="50" viewBox="0 0 720 50"></svg>'
    data = {view: {"model_id": "1"}, "image/svg+xml": svg, "text/plain": "a <still>"}
    output = nbformat.v4.new_output("display_data", data)
    stored = run._stable(output, nbformat.v4.new_code_cell(""), ROOT / "notebooks/src/99_x.py").data
    assert view not in stored and stored["image/svg+xml"] == svg
    assert (
        stored["text/html"].startswith('<div class="course-card"')
        and "max-width: 100%; height: auto" in stored["text/html"]
    )
    assert 'alt="a &lt;still&gt;"' in stored["text/html"]
    plain = run._stable(
        nbformat.v4.new_output("display_data", {"image/svg+xml": svg}), nbformat.v4.new_code_cell(""), ROOT
    )
    assert set(plain.data) == {"image/svg+xml"}, "a Picture brings its own"


@pytest.fixture
def build(monkeypatch, capsys):
    """The command, in this process: what it prints, and after that the message it ends with, if it ends with one."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["build_notebooks.py", *arguments])
        try:
            build_notebooks.main()
        except SystemExit as ended:
            captured = capsys.readouterr()
            return captured.out + (f"{captured.err}{ended.code}" if ended.code else "")
        return capsys.readouterr().out

    return command


@pytest.mark.parametrize(
    "lines, says",
    [
        ("# %%\nx = 1\n\n# %%\nx / 0\n", r"90_bad.py, cell \w{8}: ZeroDivisionError: division by zero"),
        ("# %%\nimport sys\nprint('noise', file=sys.stderr)\n", "writes to stderr: noise"),
        ("# %%\n### BEGIN SOLUTION\nx = 1\n", "1 BEGIN marks, 0 END marks"),
        ("# %%\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n", "a solution outside a solution cell"),
        ("# %%\nimport os\nprint(os.getcwd())\n", "prints a path of this machine"),
        ('# %% check="01.1"\nx = 1\n\n# %% check="01.1"\nx = 2\n', "two cells are called 01-1-check"),
    ],
)
def test_a_source_that_fails_says_which_cell(tree, build, lines, says):
    (tree / "notebooks/src/90_bad.py").write_text(lines)
    said = build("--only", "90_bad")
    assert said.startswith("make build: ") and re.search(says, said), said


def test_a_cell_that_takes_too_long_is_named(tree, build, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_PER_CELL", 2)
    (tree / "notebooks/src/90_slow.py").write_text("# %%\nimport time\ntime.sleep(60)\n")
    assert re.search(r"90_slow.py, cell \w{8}: it takes longer than 2 s", build("--only", "90_slow"))


def test_a_stale_notebook_is_found(tree, build):
    (tree / "notebooks/src/90_new.py").write_text("# %%\n1 + 1\n")
    assert build("--only", "90_new") == "1 files built, 1 changed.\n"
    assert build("--only", "90_new", "--check") == ""
    (tree / "notebooks/src/90_new.py").write_text("# %%\n1 + 2\n")
    said = build("--only", "90_new", "--check")
    assert said.endswith("Out of date, run `make build`: notebooks/90_new.ipynb")


def test_what_belongs_to_a_lesson_is_built_with_it_and_nothing_else(tree, build):
    exercises = '# %% answer="90.1"\nx = None\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n'
    (tree / "solutions/src/90_new.py").write_text(exercises)
    (tree / "notebooks/src/90_new.py").write_text(
        "# %% [markdown]\n# # Lesson 90: New\n#\n# *5 minutes, then 7 for the exercises.*\n\n# %%\n1 + 1\n"
    )
    (tree / "notebooks/src/91_other.py").write_text("# %%\n1 / 0\n")
    before = {file for file in tree.rglob("*") if file.is_file()}
    assert build("--only", "90") == "5 files built, 5 changed.\n"
    made = {file.relative_to(tree).as_posix() for file in tree.rglob("*") if file.is_file() and file not in before}
    notebooks = {f"{folder}/90_new.ipynb" for folder in ("notebooks", "exercises", "solutions")}
    about = {f"course_lib/lessons/lesson_90/{name}.json" for name in ("minutes", "solutions")}
    assert made == notebooks | about | {"build/book_state/90_new.json"}
    assert json.loads((tree / "course_lib/lessons/lesson_90/minutes.json").read_text()) == {"lesson": 5, "exercises": 7}
    assert json.loads((tree / "course_lib/lessons/lesson_90/solutions.json").read_text()) == {"90.1": "x = None\nx = 1"}
    (blank,) = nbformat.read(tree / "exercises/90_new.ipynb", 4).cells
    assert blank.source == "x = None"


def test_the_tables_are_told_of_a_new_lesson(tree, build):
    lesson = tree / "notebooks/src/90_new.py"
    lesson.write_text("# %% [markdown]\n# # Lesson 90: New\n#\n# *5 minutes, then 7 for the exercises.*\n")
    (tree / "notebooks/src/00_start.py").write_text("# %% [markdown]\n# # Start\n#\n# <!-- lessons -->\n")
    assert build("--only", "README") and build("--only", "00_start")
    assert "| 90 | [New](notebooks/90_new.ipynb) | 5, exercises 7 |  |\n" in (tree / "README.md").read_text()
    (cell,) = nbformat.read(tree / "notebooks/00_start.ipynb", 4).cells
    assert cell.source.splitlines()[4:] == ["| 90 | [New](90_new.ipynb) | 5, exercises 7 |  |"]
    lesson.write_text("# %% [markdown]\n# No title\n")
    assert "notebooks/src/90_new.py has no title" in build("--only", "README")


def test_a_name_that_nothing_has(tree, build):
    assert "there is nothing to build whose name contains 'nonsense'" in build("--only", "nonsense")


def test_many_are_built_at_a_time_and_told_in_order(monkeypatch, capsys):
    """Each of two waits for the other: one after another they would wait for ever."""
    meeting = threading.Barrier(2, timeout=60)
    made = {name: lambda name=name: {name: str(meeting.wait() is not None)} for name in ("one", "two")}
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(targets, "targets", lambda: made)
    assert targets.build() == {"one": "True", "two": "True"}
    assert re.fullmatch(r"one: [\d.]+ s\ntwo: [\d.]+ s\n", capsys.readouterr().err)


def test_one_that_fails_ends_the_build(monkeypatch):
    def fails():
        raise BuildError("a source that cannot be built.")

    monkeypatch.setattr(targets, "targets", lambda: {"one": dict, "two": fails, "three": dict})
    with pytest.raises(BuildError, match="a source that cannot be built"):
        targets.build()


def test_the_picture_holds_the_still_and_every_word_of_the_verdict():
    drawn = picture.svg('<svg width="100" height="50"><g/></svg>', "01.1 not yet: 1 < 2.\nNext: " + "word " * 40)
    assert '<svg width="100" height="50"><g/></svg>' in drawn and "1 &lt; 2." in drawn and drawn.count("word") == 40
    ElementTree.fromstring(drawn)


def test_the_public_address_is_baked_into_every_notebook(tree, build):
    (tree / "notebooks/src/90_new.py").write_text("# %% [markdown]\n# # Title\n")
    assert build("--only", "90_new", "--colab", "owner/name", "--tag", "v1") == "1 files built, 1 changed.\n"
    badge = nbformat.read(tree / "notebooks/90_new.ipynb", 4).cells[0].source
    assert "/github/owner/name/blob/v1/notebooks/90_new.ipynb" in badge
    build("--only", "README")
    assert "[Title](notebooks/90_new.ipynb) |  |  | [![Open in Colab]" in (tree / "README.md").read_text()
    assert "is not of the form owner/name" in build("--colab", "not an address")


@pytest.mark.parametrize("file", GENERATED, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_notebook_is_tidy(file):
    text = file.read_text()
    assert len(text) < 500_000
    assert str(ROOT) not in text and "/home/" not in text
    notebook = json.loads(text)
    nbformat.validate(notebook)
    assert not any("execution" in c["metadata"] for c in notebook["cells"])
    first = next(c for c in notebook["cells"] if c["cell_type"] == "code")
    assert first["id"] == "first-cell"


@pytest.mark.parametrize("file", EXERCISES, ids=lambda f: f.stem)
def test_solving_only_ever_adds_lines(file):
    """Every cell of the exercise is its solution with lines left out, and no others differ."""
    exercise, solution = nbformat.read(file, 4), nbformat.read(ROOT / "solutions" / file.name, 4)
    assert [c.id for c in exercise.cells] == [c.id for c in solution.cells]
    changed = 0
    for before, after in zip(exercise.cells, solution.cells, strict=True):
        lines = iter(after.source.split("\n"))
        assert all(line in lines for line in before.source.split("\n")), before.id
        changed += before.source != after.source
        if before.source != after.source:
            assert before.metadata["nbgrader"]["solution"]
    assert changed == sum(c.metadata.get("nbgrader", {}).get("solution", False) for c in exercise.cells) > 0


@pytest.mark.parametrize("file", EXERCISES, ids=lambda f: f.stem)
def test_every_cell_of_an_untouched_exercise_is_python(file):
    for cell in nbformat.read(file, 4).cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
            assert "BEGIN" not in cell.source and "END SOLUTION" not in cell.source


def test_the_doctor_hides_what_depends_on_the_machine():
    cells = nbformat.read(ROOT / "notebooks/00_start_here.ipynb", 4).cells
    doctor = next(c for c in cells if c.source == "checks.doctor()")
    assert doctor.outputs == []


def test_our_scores_are_counted_while_the_notebook_runs_and_leave_no_cell():
    checks = [
        nbformat.v4.new_code_cell(f'checks.check("{id}", f)', id=f"{n}") for n, id in enumerate(("01.1", "01.11"))
    ]
    notebook = nbformat.v4.new_notebook(cells=checks)
    counting = golf.with_scores(notebook)
    assert [cell.id for cell in counting.cells] == ["0", "1", "01-11-score"] and len(notebook.cells) == 2
    for n, cell in enumerate(counting.cells, 1):
        cell.execution_count = n
    for printed, scores in (("01.11 score: 12\n", {"01.11": 12}), ("01.11 score: none. No kernel.\n", None)):
        counting.cells[2].outputs = [nbformat.v4.new_output("stream", text=printed)]
        if scores is None:
            with pytest.raises(BuildError, match="01.11: our own answer has no score. 01.11 score: none. No kernel."):
                golf.without_scores(counting)
        else:
            left, found = golf.without_scores(copy.deepcopy(counting))
            assert (found, len(left.cells)) == (scores, 2)
