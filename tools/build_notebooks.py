"""Build the notebooks from their percent sources.

A cell header says answer="01.2", given="01.2" or check="01.2" for the three kinds of cell of an exercise.

    notebooks/src/NN_topic.py  ->  notebooks/NN_topic.ipynb   executed
    solutions/src/NN_topic.py  ->  solutions/NN_topic.ipynb   executed
                                   exercises/NN_topic.ipynb   answers removed, not executed
                                   course_lib/checks/solutions.json, README.md's table

Two builds give the same bytes. `--check` writes nothing and exits with 1 if anything in the tree is out of date.
"""

import argparse
import contextlib
import copy
import hashlib
import json
import os
import pathlib
import re
import sys
import time

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

from course_lib.checks.exercise import exercise

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_CELL = "# FIRST CELL"
PUBLIC = pathlib.Path("notebooks/src/public.json")  # {"repo": "owner/name", "tag": "v1"}: written by --colab
KEPT_METADATA = {"tags", "nbgrader", "deletable", "editable"}
SECONDS_PER_CELL = 120
_BEGIN = re.compile(r"^\s*### BEGIN (SOLUTION|HIDDEN TESTS)\s*$")
_END = re.compile(r"^\s*### END (SOLUTION|HIDDEN TESTS)\s*$")


class BuildError(Exception):
    """A source that cannot be built; the message names the file and the cell."""


def main() -> None:
    options = _options()
    if options.colab:
        (ROOT / PUBLIC).write_text(json.dumps({"repo": options.colab, "tag": options.tag}) + "\n")
    try:
        built = build_all(options.only)
    except BuildError as error:
        sys.exit(f"make build: {error}")
    stale = [path for path, text in built.items() if _read(ROOT / path) != text]
    if options.check:
        sys.exit("Out of date, run `make build`: " + ", ".join(stale) if stale else 0)
    for path in stale:
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(built[path])
    print(f"{len(built)} files built, {len(stale)} changed.")


def build_all(only: str = "") -> dict[str, str]:
    """{path from the repository's root: text} of every generated file whose source name contains ``only``."""
    sources = [s for s in sorted(ROOT.glob("*/src/[0-9]*.py")) if only in s.stem]
    if not sources:
        raise BuildError(f"there is no source whose name contains {only!r}.")
    built, answers = {}, {}
    for number, source in enumerate(sources):
        with _progress(number, len(sources), source):
            notebook = read_source(source)
            kind = source.parent.parent.name
            if kind == "solutions":
                built[f"exercises/{source.stem}.ipynb"] = dump(without_answers(notebook))
                answers |= answers_of(notebook)
            built[f"{kind}/{source.stem}.ipynb"] = dump(execute(notebook, source))
    if not only:
        built["course_lib/checks/solutions.json"] = json.dumps(answers, indent=1, sort_keys=True) + "\n"
        built["README.md"] = readme()
    return built


def readme() -> str:
    """README.md with its table of lessons made anew from the sources."""
    rows = ["| | lesson | exercises | in Colab |", "|---|---|---|---|"]
    public = json.loads((ROOT / PUBLIC).read_text())
    for source in sorted(ROOT.glob("notebooks/src/[0-9]*.py")):
        title = re.search(r"^# # (?:Lesson \d+: )?(.*)$", source.read_text(), re.M)[1]
        lesson = f"[{title}](notebooks/{source.stem}.ipynb)"
        has_exercises = (ROOT / "solutions/src" / source.name).exists()
        exercises = f"[exercises](exercises/{source.stem}.ipynb)" if has_exercises else ""
        rows.append(
            f"| {source.stem[:2]} | {lesson} | {exercises} | {badge(public, source) if public['repo'] else ''} |"
        )
    table = "\n".join(rows)
    text = (ROOT / "README.md").read_text()
    return re.sub(r"(<!-- lessons -->\n).*?(<!-- /lessons -->)", rf"\1{table}\n\2", text, flags=re.DOTALL)


def read_source(source: pathlib.Path) -> nbformat.NotebookNode:
    """The notebook of a percent source: stable cell ids, the common first cell, no stray metadata."""
    notebook = jupytext.read(source)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    public = json.loads((ROOT / PUBLIC).read_text())
    seen = set()
    for number, cell in enumerate(notebook.cells):
        cell.source = cell.source.strip("\n")  # ruff sets empty lines before a decorator
        if cell.source == FIRST_CELL:
            cell.source = first_cell(public)
            name = "first-cell"
        else:
            name = hashlib.sha1(f"{number}:{cell.source}".encode()).hexdigest()[:8]
            _expand_exercise(cell)
            name = cell.metadata.get("nbgrader", {}).get("grade_id", name)
        if name in seen:
            raise BuildError(f"{_relative(source)}: two cells are called {name}.")
        seen.add(name)
        cell["id"] = name
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
        if name == "first-cell":  # folded away in JupyterLab and in Colab: readers run it, few read it
            cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    if public["repo"]:
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(badge(public, source), id="colab-badge"))
    _check_regions(notebook, source)
    return notebook


def _expand_exercise(cell: nbformat.NotebookNode) -> None:
    """answer="01.2", given="01.2" and check="01.2" in a cell's header become nbgrader's metadata."""
    for kind, suffix in (("answer", ""), ("given", "-given"), ("check", "-check")):
        if id := cell.metadata.pop(kind, None):
            is_check = kind == "check"
            cell.metadata["nbgrader"] = {
                "grade": is_check,
                "grade_id": id.replace(".", "-") + suffix,
                "locked": kind != "answer",
                "schema_version": 3,
                "solution": kind == "answer",
            } | ({"points": exercise(id).points} if is_check else {})


def first_cell(public: dict) -> str:
    """The cell every notebook starts with, with the versions of requirements.txt and the public address in it."""
    text = (ROOT / "notebooks/src/first_cell.py").read_text().rstrip("\n")
    # With their markers: there is no libtpu for a Mac, say.
    pins = re.findall(
        r"^((?:jax|jaxlib|libtpu)==.+?)\s*$", (ROOT / "requirements.txt").read_text().replace('"', "'"), re.M
    )
    source = f"git+https://github.com/{public['repo']}@{public['tag']}" if public["repo"] else ""
    places = {
        '"COURSE_SOURCE", ""': f'"COURSE_SOURCE", "{source}"',
        "PINS = []": f"PINS = {json.dumps(pins, indent=4)}",
    }
    for place, value in places.items():
        assert text.count(place) == 1, f"first_cell.py has no place for {place}"
        text = text.replace(place, value)
    return text


def badge(public: dict, source: pathlib.Path) -> str:
    """Markdown: a badge that opens the notebook of ``source`` in Colab."""
    folder = "notebooks" if source.parent.parent.name == "notebooks" else "exercises"
    colab = "https://colab.research.google.com"
    link = f"{colab}/github/{public['repo']}/blob/{public['tag']}/{folder}/{source.stem}.ipynb"
    return f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({link})"


def without_answers(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy with the lines between BEGIN and END removed, marks included: solving only ever adds lines."""
    stripped = copy.deepcopy(notebook)
    for cell in stripped.cells:
        cell.source = "\n".join(_outside_regions(cell.source)).rstrip()
        if "nbgrader" in cell.metadata:
            cell.metadata["deletable"] = False
            if not cell.metadata["nbgrader"]["solution"]:
                cell.metadata["editable"] = False
    return stripped


def answers_of(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Our answers by exercise id ("01.2" from the cell "01-2"), without the marks."""
    return {
        cell.metadata["nbgrader"]["grade_id"].replace("-", "."): "\n".join(
            line for line in cell.source.split("\n") if not (_BEGIN.match(line) or _END.match(line))
        )
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def _outside_regions(text: str) -> list[str]:
    kept, inside = [], False
    for line in text.split("\n"):
        if _BEGIN.match(line):
            inside = True
        elif _END.match(line):
            inside = False
        elif not inside:
            kept.append(line)
    return kept


def _check_regions(notebook: nbformat.NotebookNode, source: pathlib.Path) -> None:
    for cell in notebook.cells:
        begins = sum(bool(_BEGIN.match(line)) for line in cell.source.split("\n"))
        ends = sum(bool(_END.match(line)) for line in cell.source.split("\n"))
        where = f"{_relative(source)}, cell {cell.id}"
        if begins != ends:
            raise BuildError(f"{where}: {begins} BEGIN marks, {ends} END marks.")
        if "### BEGIN SOLUTION" in cell.source and not cell.metadata.get("nbgrader", {}).get("solution"):
            raise BuildError(f"{where}: a solution outside a solution cell would be lost in grading.")


def execute(notebook: nbformat.NotebookNode, source: pathlib.Path) -> nbformat.NotebookNode:
    """A copy with outputs, as a reader without a TPU gets them. Raises BuildError with the cell that failed."""
    executed = copy.deepcopy(notebook)
    folder = source.parent.parent
    client = NotebookClient(
        executed,
        timeout=SECONDS_PER_CELL,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        config=Config(KernelManager={"transport_encryption": "auto"}),  # else each kernel warns that it has none
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        cell = next((c for c in executed.cells if c.cell_type == "code" and _failed(c)), None)
        name = cell.id if cell is not None else "?"
        raise BuildError(f"{_relative(source)}, cell {name}: {_last_line(error)}") from None
    for cell in executed.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [_stable(output, cell, source) for output in _joined(cell.outputs)]
            if "outputs-not-stored" in cell.metadata.get("tags", ()):  # they depend on the reader's machine
                cell.outputs = []
    executed.metadata["language_info"] = {"name": "python"}
    executed.metadata.pop("widgets", None)
    return executed


def _failed(cell) -> bool:
    return cell.execution_count is None or any(o.output_type == "error" for o in cell.outputs)


def _joined(outputs: list) -> list:
    """Neighbouring pieces of one stream as one: where a stream is cut depends on the machine's mood."""
    joined: list = []
    for output in outputs:
        if joined and output.output_type == "stream" == joined[-1].output_type and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _stable(output, cell, source: pathlib.Path):
    where = f"{_relative(source)}, cell {cell.id}"
    if output.output_type == "stream" and output.name == "stderr":
        raise BuildError(f"{where} writes to stderr: {output.text.strip()[:200]}")
    if str(ROOT) in json.dumps(output):
        raise BuildError(f"{where} prints a path of this machine.")
    if output.output_type in ("display_data", "execute_result"):
        output.data.pop("application/vnd.jupyter.widget-view+json", None)  # its model dies with the kernel
    return output


def dump(notebook: nbformat.NotebookNode) -> str:
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


@contextlib.contextmanager
def _progress(number: int, total: int, source: pathlib.Path):
    started, bar = time.monotonic(), f"[{'#' * number}{'.' * (total - number)}]"
    on_terminal = sys.stderr.isatty()
    if on_terminal:
        print(f"\r{bar} {_relative(source)} ...", end="\033[K", file=sys.stderr, flush=True)
    yield
    if on_terminal:
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{_relative(source)}: {time.monotonic() - started:.1f} s", file=sys.stderr)


def _relative(source: pathlib.Path) -> str:
    return source.relative_to(ROOT).as_posix()


def _read(path: pathlib.Path) -> str | None:
    return path.read_text() if path.exists() else None


def _last_line(error: Exception) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return text.splitlines()[-1] if text else type(error).__name__


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the tree, write nothing")
    parser.add_argument("--only", default="", metavar="TEXT", help="only sources whose name contains TEXT")
    parser.add_argument("--colab", default="", metavar="OWNER/NAME", help="bake this public address into the notebooks")
    parser.add_argument("--tag", default="main", help="the tag or branch that goes with --colab")
    options = parser.parse_args()
    if options.colab and not re.fullmatch(r"[\w.-]+/[\w.-]+", options.colab):
        parser.error(f"--colab {options.colab!r} is not of the form owner/name")
    return options


if __name__ == "__main__":
    for name in (
        "COURSE_GRADING",
        "COURSE_SOURCE",
        "NBGRADER_EXECUTION",
        "PYTEST_CURRENT_TEST",
    ):  # they would change what the cells print
        os.environ.pop(name, None)
    os.environ["COURSE_PROGRESS"] = "0"  # what takes long on this machine is no output of the notebook
    os.environ["COURSE_RECORD"] = "0"  # and our answers are nobody's progress
    main()
