"""The rows of a grade: one per exercise, from the results of the cells."""

import dataclasses
import re

from course_lib import judges
from course_lib.checks.kinds import golf
from course_lib.checks.result import EXERCISE, NOT_ATTEMPTED, NOT_YET, PASSED
from course_lib.grading import lost_marks, submission
from course_lib.grading.graft import CourseNotebook, Task
from course_lib.grading.run import Ran

ERROR = "error"  # the check gave no outcome
OUTCOMES = (PASSED, NOT_YET, NOT_ATTEMPTED, ERROR)
_AS_HANDED_OUT = "the answer cell is as it was handed out."
_NOTHING_YET = "the answer computes nothing yet; it may build on an exercise that has no answer."
_LONGEST = {"verdict": 6000, "next": 1000}  # characters; a verdict fills a screen at most


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The outcome of one exercise. ``message`` is one line, ``verdict`` everything that the check said."""

    id: str
    title: str
    kind: str  # "write", "predict", ...: one of those that course_lib.checks declares
    outcome: str  # "passed", "not yet", "not attempted" or "error"
    judge: str = ""  # which judge refused it, if any
    message: str = ""
    verdict: str = ""
    next: str = ""  # what to try
    note: str = ""
    points: int
    max_points: int
    weight: float = 1.0  # a factor on its points
    unit: str = ""  # of a golf score: "bytes", "cycles" or "ns"
    score: int | None = None  # as the grader counts it, once all judges agree
    par: int | None = None
    ours: int | None = None


def rows(course: CourseNotebook, submitted: dict[str, list[str]], ran: Ran, errors: dict[str, str]) -> list[Row]:
    """Return a row for each exercise. ``errors`` is {id: a sentence} for those that ended the kernel."""
    return [_row(task, course, submitted, ran, errors) for task in course.tasks]


def _row(task: Task, course: CourseNotebook, submitted: dict, ran: Ran, errors: dict[str, str]) -> Row:
    said = _said(task, course, submitted, ran, errors)
    scored = _scored(task, said, ran) if task.golf else {}
    if name := _elsewhere(task, said["message"], course, submitted):
        said["next"] = f"move {name} into the answer cell."
    said = {key: clean(value, _LONGEST.get(key, 300)) for key, value in said.items()}
    points = task.points if said["outcome"] == PASSED else 0
    note = _note(task, course, submitted, said["message"])
    return Row(
        id=task.id, title=task.title, kind=task.kind, note=note, points=points, max_points=task.points, **said, **scored
    )


def _scored(task: Task, said: dict[str, str], ran: Ran) -> dict[str, str | int | None]:
    """Return unit, score, par and our score of a golf exercise; refuse a pass whose score differs from the grader's."""
    value = golf.announced(task.id, ran.cells.get(task.score, {}).get("printed", ""))
    if said["outcome"] == PASSED:
        says = (
            value is not None
            and value <= task.golf.par
            and f"passed: {golf.said(value, task.golf.unit)}; " in said["verdict"]
        )
        if not says:
            counted = "none" if value is None else golf.said(value, task.golf.unit)
            wrong = f"its check printed another score than its kernel has: the grader counts {counted}."
            said |= {"judge": "", "verdict": ""} | _outcome(ERROR, wrong, "leave course_lib as it is.")
    elif golf.ABOVE_PAR not in said["message"]:
        value = None  # of a kernel that a judge refused
    return {"unit": task.golf.unit, "score": value, "par": task.golf.par, "ours": golf.ours(task.id)}


def _said(task: Task, course: CourseNotebook, submitted: dict, ran: Ran, errors: dict[str, str]) -> dict[str, str]:
    """Return outcome, message and what to try next, plus judge and verdict if the check gave one."""
    answer, check = ran.cells.get(task.answer), ran.cells.get(task.check)
    if task.id in errors:
        return _outcome(ERROR, errors[task.id], _AGAIN)
    if task.answer not in submitted:
        return _gone(task, submitted)
    if answer and not answer["ok"]:
        return _outcome(NOT_YET, f"the answer cell does not run. {_failure(answer)}", _AGAIN)
    if check is None:
        return _outcome(ERROR, "it was not reached: the notebook was stopped before it.", "mend the one before it.")
    if check["ok"]:
        return _printed(task, check["printed"])
    if check["ename"] != "NotPassed" or not re.match(rf"{re.escape(task.id)} not (yet|attempted)\b", check["evalue"]):
        return _outcome(NOT_YET, f"the check could not run. {_failure(_first(task, course, ran))}", _AGAIN)
    verdict = parse(check["evalue"])
    if verdict["outcome"] == NOT_ATTEMPTED:
        verdict["message"] = _untouched(task, course, submitted)
    return verdict


def _gone(task: Task, submitted: dict) -> dict[str, str]:
    """Return what to say of an answer cell that is not among the code cells."""
    types = {name: kind for kind, _, name in (line.partition(" ") for line in submitted.get(submission.NOT_CODE, ()))}
    if task.answer not in types:
        return _outcome(NOT_ATTEMPTED, "the answer cell is missing from the notebook.", _ANEW)
    message = f"the answer cell is a {types[task.answer]} cell, and only code cells are run."
    return _outcome(NOT_ATTEMPTED, message, "make it a code cell: select it, press Esc and Y, run it, and save.")


_AGAIN = "choose Restart Kernel and Run All Cells: it happens again there, and says in which line."
_ANEW = "take a new copy of the exercises, and put your answers into it."


def _outcome(outcome: str, message: str, next: str) -> dict[str, str]:
    return {"outcome": outcome, "message": message, "next": next}


def _printed(task: Task, printed: str) -> dict[str, str]:
    """Return the pass that a check printed. Only the very last line counts, so an answer cannot fake it."""
    line = printed.rstrip().rpartition("\n")[2]
    if re.match(rf"{re.escape(task.id)} {PASSED}\b", line):
        return parse(line)
    said = "ended in something else than a pass" if line else "gave no verdict"
    return _outcome(ERROR, f"the check ran and {said}.", "let the answer print nothing, and leave checks as it is.")


def _first(task: Task, course: CourseNotebook, ran: Ran) -> dict:
    """Return the first cell of an exercise that failed; at least its check has."""
    cells = (ran.cells[n] for n, owner in course.owners.items() if owner == task and n in ran.cells)
    return next(cell for cell in cells if not cell["ok"])


def parse(verdict: str) -> dict[str, str]:
    """Return outcome, judge, message, verdict and next from the text that a check printed or raised."""
    first, _, rest = verdict.strip().partition("\n")
    outcome, ending = re.match(rf"\S+ ({PASSED}|{NOT_YET}|{NOT_ATTEMPTED})[.:]?(.*)", first).groups()
    reason, _, next = f"\n{rest}".partition("\nNext: ")
    judge = re.search(rf"\bthe ({'|'.join(judges.NAMES)})(?: judge)? (?:refused|could not run) it", ending)
    message = " ".join(filter(None, (ending.strip(), _first_sentence(reason))))
    return {
        "outcome": outcome,
        "judge": judge[1] if judge else EXERCISE if outcome == NOT_YET else "",
        "message": message,
        "verdict": verdict.strip(),
        "next": " ".join(next.split()),
    }


def _first_sentence(text: str) -> str:
    text = " ".join(text.split())
    found = re.match(r".+?[.!?](?=\s+[A-Z]|$)", text)
    return found[0] if found else text


def _failure(cell: dict) -> str:
    """Return the exception of a cell in one line, without the kernel's name for the cell's file."""
    text = f"{cell['ename']}: {cell['evalue']}" if cell["ename"] else cell["problem"]
    text = re.sub(r"\((?:[^()]*\.py|<[^>]*>), line (\d+)\)", r"(line \1)", text)
    return text.strip().partition("\n")[0].rstrip(".:") + "."


def _elsewhere(task: Task, message: str, course: CourseNotebook, submitted: dict) -> str:
    """Return the name that an answer lacks, or has left as it was, but an ungraded cell defines; "" without one."""
    missing = re.search(r"(?:NameError: name '|The name )(\w+)'? is not defined", message)
    untouched = message in (_AS_HANDED_OUT, _NOTHING_YET)
    wanted = [missing[1]] if missing else lost_marks.defined_in(course, task.answer) if untouched else []
    known = {*course.code_cells, submission.NOT_CODE, lost_marks.RESTORED}
    others = "\n".join(t for name, texts in submitted.items() if name not in known for t in texts)
    defines = r"\b(?:def|class|import|as) +{0}\b|^{0}\b.*="
    return next((name for name in wanted if re.search(defines.format(name), others, re.M)), "")


def _untouched(task: Task, course: CourseNotebook, submitted: dict) -> str:
    if "\n".join(submitted[task.answer]).strip() == course.source(task.answer).strip():
        return _AS_HANDED_OUT
    return _NOTHING_YET


def _note(task: Task, course: CourseNotebook, submitted: dict, message: str) -> str:
    notes = []
    if lost_marks.LOST in submitted and message != _AS_HANDED_OUT:
        notes.append("its cells have lost their marks; the answer was found by its check")
    if task.answer in submitted.get(lost_marks.RESTORED, ()):
        notes.append("its cell has lost its mark; the answer was found by the name that it defines")
    magic = _DEFINES_NOTHING.search("\n".join(submitted.get(task.answer, ())))
    if magic and magic[1] not in message:
        notes.append(f"its answer is under {magic[1]}, which defines nothing for the check; take that line out")
    if name := _elsewhere(task, message, course, submitted):
        notes.append(f"{name} is defined in another cell; only the answer cells are graded")
    if len(submitted.get(task.answer, ())) > 1:
        notes.append("its answer stands in several cells; they were joined")
    if task.check not in submitted:
        notes.append("its check cell was missing; the course's own was used")
    elif any(text.strip() != course.source(task.check).strip() for text in submitted[task.check]):
        notes.append("its check cell was changed; the course's own was used")
    return "; ".join(notes)


# Cell magics that run a cell as another program, or throw away what it defines.
_DEFINES_NOTHING = re.compile(r"\A\s*(%%(?!time\b|capture\b|prun\b)\w+)")
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)


def clean(text: str, limit: int = 300) -> str:
    """Return text from a submission, fit for a terminal, XML and a page: printable, and not too long.

    Removed are escape sequences, control characters, and the marks that change the direction of writing.
    """
    cut = text[: 4 * limit]
    cut = _ESCAPE.sub("", cut).expandtabs(4)
    cut = "".join(c for c in cut if c == "\n" or c.isprintable())
    return cut if len(text) <= 4 * limit and len(cut) <= limit else cut[: limit - 4] + " ..."
