"""Grade a notebook, or every notebook in a folder.

The answers run in a closed box (Linux, with bubblewrap) and are judged outside it. Without a box, or with --unboxed,
they run on this machine, as you: do that only with notebooks you trust. docs/grading.md explains the rows of the
report.
"""

import argparse
import concurrent.futures
import errno
import os
import pathlib
import signal
import sys
import threading

from course_lib.grading import alike, grade_files, gradebooks, run, summary
from course_lib.grading.box import pipes
from course_lib.grading.class_page import class_page
from course_lib.grading.folder import CLASS_FILES, find, renamed
from course_lib.grading.grade import Grade, grade
from course_lib.grading.graft import course_notebooks
from course_lib.grading.progress import Progress
from course_lib.grading.weights import BadWeights
from course_lib.grading.weights import read as read_weights

MAX_JOBS = 4


def main(prog: str = "pallas-grade") -> int:
    """Run the command; return 0 if every exercise of every notebook passed, 1 if not, 2 if there is none.

    Return 130 if the run was interrupted. ``prog`` is how it was started, for the help and the errors.
    """
    options = _options(prog)
    try:
        course_notebooks()
        notebooks = find(options.notebook, options.out)
        weights = _weights(options.weights)
    except (FileNotFoundError, BadWeights) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    without = _no_box(options)
    if without and options.boxed:
        print(f"{prog}: {without}", file=sys.stderr)
        return 2
    boxed = not (without or options.unboxed)
    print(_BOXED if boxed else _TRUSTS.format(why=f" {without}" if without else ""), file=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, which a shell may have made us ignore
    try:
        grades = _in_boxes(notebooks, weights, options) if boxed else _grade_all(notebooks, weights, options)
    except OSError as error:  # from writing our own files
        again = " run it again once there is room." if error.errno in _FULL else ""
        print(f"\n{prog}: {error}. What is done is kept{':' if again else '.'}{again}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{prog}: stopped.", file=sys.stderr)
        return 130
    if options.notebook.is_dir():
        grades = _with_doubles(grades, options.out)
        print(f"\n{summary.text(grades)}")
        for sentence in gradebooks.left_out(grades):
            print(f"\n{sentence}")
        same = alike.found(notebooks)
        if same:
            print(f"\n{alike.text(same)}")
        _write_summary(grades, same, options.out)
    print(f"Reports are in {options.out}/", file=sys.stderr)
    return 0 if all(graded.passed for graded in grades) else 1


_BOXED = "Each notebook runs in a closed box of its own, and is judged outside it."
_TRUSTS = (
    "NOT IN A BOX.{why} The answers run on this machine, as you, in the process that checks them: they can read your "
    "files, and forge their marks. Grade only what you trust."
)


def _no_box(options: argparse.Namespace) -> str:
    """Return why there is no closed box here; "" if there is one, or none is wanted."""
    if options.unboxed:
        return ""
    from course_lib.grading.box import bwrap

    return bwrap.problem()


def _in_boxes(notebooks: dict[str, pathlib.Path], weights: dict, options: argparse.Namespace) -> list[Grade]:
    """Grade in closed boxes, and reuse the records of an earlier run that was killed."""
    from course_lib.grading.box.grader import Grader
    from course_lib.grading.box.records import Records

    records = Records(options.out, f"{options.cell_timeout} {sorted(weights.items())}")
    grader = Grader(options.jobs, records.seed)
    try:
        grades = _grade_all(notebooks, weights, options, grader.rows, records)
    finally:
        grader.end()
    records.done()
    return grades


def _weights(path: pathlib.Path | None) -> dict[str, float]:
    if path is None:
        return {}
    from course_lib.checks.exercise import exercises  # here, because it imports JAX, and --help need not wait for that

    return read_weights(path, list(exercises()))


def _write_summary(grades: list[Grade], same: list[alike.Alike], out: pathlib.Path) -> None:
    texts = {
        "summary": summary.as_csv(grades),
        "exercises": summary.exercises_csv(grades),
        "canvas": gradebooks.canvas_csv(grades),
        "moodle": gradebooks.moodle_csv(grades),
        "alike": alike.as_csv(same),
        "page": class_page(grades),
    }
    for what, text in texts.items():
        name = _free(out, CLASS_FILES[what])
        (out / name).write_text(text, encoding="utf-8")
        if name != CLASS_FILES[what]:
            print(f"{out}/{CLASS_FILES[what]} is a folder, so that report is called {name}.", file=sys.stderr)


def _with_doubles(grades: list[Grade], out: pathlib.Path) -> list[Grade]:
    """Note which of a student's notebooks of one lesson counts, in their reports too."""
    noted = summary.with_doubles_noted(grades)
    for before, after in zip(grades, noted, strict=True):
        if after != before:
            _written(after, out)
    return noted


def _free(out: pathlib.Path, name: str) -> str:
    """Return the name of a report of the class; a number is added if there is a folder of that name."""
    stem, ending = os.path.splitext(name)
    number = 1
    while (out / name).is_dir():
        number += 1
        name = f"{stem} ({number}){ending}"
    return name


def _written(graded: Grade, out: pathlib.Path) -> Grade:
    """Write the reports of a grade and return it; one that says why if they cannot be written under their name."""
    try:
        grade_files.write(graded, out)
    except OSError as error:
        if error.errno not in _NAMES:
            raise
        why = f"its reports cannot be written in {out}: {error.strerror}. Give the file another name."
        return Grade(file=graded.file, error=why)
    return graded


_FULL = (errno.ENOSPC, errno.EDQUOT)
_NAMES = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


def _grade_all(
    notebooks: dict[str, pathlib.Path], weights: dict, options: argparse.Namespace, rows_of=None, records=None
) -> list[Grade]:
    """Grade in parallel, and write each grade as it is done; print and return them in order."""
    options.out.mkdir(parents=True, exist_ok=True)
    done, writing, progress = 0, threading.Lock(), Progress(len(notebooks))
    notes = renamed(notebooks, options.notebook)

    def one(item: tuple[str, pathlib.Path]) -> Grade:
        nonlocal done
        name, path = item
        try:
            graded = records and records.find(name, path)
            if not graded:
                graded = grade(path, name=name, cell_timeout=options.cell_timeout, weights=weights, rows_of=rows_of)
                if records:
                    records.keep(graded, path)
        except run.Stopped:
            raise
        except Exception as error:  # a bug of ours must not cost the other notebooks their grades
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            graded = Grade(file=name, error=f"the grader failed on it. {type(error).__name__}: {error}")
        with writing:
            done += 1
            graded = _written(graded.noted(notes.get(name, "")), options.out)
            if len(notebooks) > 1:
                result = "not graded" if graded.error else graded.result
                print(f"{progress(done)} {graded.file}: {result}, {graded.seconds:.0f} s", file=sys.stderr)
        return graded

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            grades = []
            for graded in pool.map(one, notebooks.items()):
                print(grade_files.table(graded), flush=True)
                grades.append(graded)
            return grades
        except (KeyboardInterrupt, OSError):
            run.stopping.set()
            pipes.stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _options(prog: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebook", type=pathlib.Path, metavar="NB", help="a notebook, or a folder of notebooks")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("grades"), help="folder for the reports")
    parser.add_argument("--weights", type=pathlib.Path, metavar="FILE", help="CSV lines: an exercise, its weight")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--boxed", action="store_true", help="in closed boxes, or not at all")
    how.add_argument("--unboxed", action="store_true", help="on this machine, as you: for notebooks you trust")
    parser.add_argument("--cell-timeout", type=_positive(float), default=60.0, metavar="SECONDS")
    parser.add_argument("--jobs", type=_positive(int), default=min(os.cpu_count() or 1, MAX_JOBS), metavar="N")
    return parser.parse_args()


def _positive(kind):
    def convert(text: str):
        value = kind(text)
        if not 0 < value < 100_000:
            raise ValueError
        return value

    convert.__name__ = f"positive {'number' if kind is float else 'integer'}"
    return convert


if __name__ == "__main__":
    sys.exit(main(prog="make grade"))  # whose recipe this is; its ARGS are our options
