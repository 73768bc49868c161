"""The answers of a notebook whose cells have lost their marks, found by the checks that stand in it.

A cell's mark is its id and nbgrader's grade_id; both are gone where cells were pasted into another notebook.
"""

import re

from course_lib.grading.graft import CourseNotebook, course_notebooks

LOST = "(lost marks)"  # a name beside those of the cells: these were found without marks
_CHECK = re.compile(r"""^\s*checks\.check\(\s*["'](\d\d\.\d+)["']""", re.M)
_HINT = re.compile(r"^\s*#?\s*checks\.hint\(")


def found(submitted: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return {name: sources} for the answers and checks of the exercises whose checks stand in the notebook.

    An answer is what stands between a check and the one before, without the cells that the course has there. {} if
    the notebook has no check of the course.
    """
    sources = [source for name, many in submitted.items() for source in many if name != LOST]
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


def defined_in(course: CourseNotebook, answer: str) -> list[str]:
    """Return the names that an answer cell defines, as it is handed out."""
    names = re.findall(r"^(?:def|class) +(\w+)|^(\w+) *=", course.source(answer), re.M)
    return [function or value for function, value in names]
