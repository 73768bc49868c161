"""The answers of a notebook whose cells have lost their marks, found by the checks that stand in it.

A cell's mark is its id and nbgrader's grade_id; both are gone where cells were pasted into another notebook.
"""

import re

from course_lib.grading import submission
from course_lib.grading.graft import CourseNotebook, course_notebooks

RESTORED = "(restored)"  # a name beside those of the cells: it lists the answers that ``restored`` has found
LOST = "(lost marks)"  # a name beside those of the cells: these were found without marks
_BESIDE = (LOST, RESTORED, submission.NOT_CODE)
_CHECK = re.compile(r"""^\s*checks\.check\(\s*["'](\d\d\.\d+)["']""", re.M)
_HINT = re.compile(r"^\s*#?\s*checks\.hint\(")


def found(submitted: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return {name: sources} for the answers and checks of the exercises whose checks stand in the notebook.

    An answer is what stands between a check and the one before, without the cells that the course has there. {} if
    the notebook has no check of the course.
    """
    sources = [source for name, many in submitted.items() for source in many if name not in _BESIDE]
    checks = {match[1]: n for n, source in enumerate(sources) if (match := _CHECK.search(source))}
    course = max(course_notebooks(), key=lambda course: sum(task.id in checks for task in course.tasks))
    ours = {course.source(name).strip() for name in course.code_cells}
    answers: dict[str, list[str]] = {}
    for task in course.tasks:
        if task.id not in checks:
            continue
        begin = max((n + 1 for n in checks.values() if n < checks[task.id]), default=0)
        between = sources[begin : checks[task.id]]
        its = [source for source in between if source.strip() not in ours and not _HINT.match(source)]
        answers[task.answer] = its or [course.source(task.answer)]
        answers[task.check] = [sources[checks[task.id]]]
    return answers | {LOST: []} if answers else {}


def restored(course: CourseNotebook, submitted: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the submission with the answers that stand in cells without a mark, where the marked cell is gone.

    Such a cell is told by the names that it defines. What was found is listed under RESTORED.
    """
    known = {*_BESIDE, *course.code_cells}
    others = [source for name, sources in submitted.items() if name not in known for source in sources]
    not_code = [line.partition(" ")[2] for line in submitted.get(submission.NOT_CODE, ())]
    found = {}
    for task in course.tasks:
        names = defined_in(course, task.answer)
        if task.answer not in submitted and task.answer not in not_code:
            its = [source for source in others if any(defines(source, name) for name in names)]
            found |= {task.answer: its} if its else {}
    return submitted | found | {RESTORED: list(found)} if found else submitted


def defines(source: str, name: str) -> bool:
    """Whether a cell defines a name as a function, a class, or a variable."""
    return re.search(rf"^(?:def|class) +{name}\b|^{name}\b[^=\n]*=(?!=)", source, re.M) is not None


def defined_in(course: CourseNotebook, answer: str) -> list[str]:
    """Return the names that an answer cell defines, as it is handed out."""
    names = re.findall(r"^(?:def|class) +(\w+)|^(\w+) *=", course.source(answer), re.M)
    return [function or value for function, value in names]
