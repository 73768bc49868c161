"""The class summary as a page, with a way to each notebook's feedback."""

import urllib.parse

from course_lib.grading import summary
from course_lib.grading.grade import Grade, percentage
from course_lib.grading.page import SIGNS, page, table, text
from course_lib.grading.rows import OUTCOMES


def class_page(grades: list[Grade]) -> str:
    """A self-contained page: every notebook, and every exercise with what stopped most."""
    body = ["<h1>Grades</h1>"]
    body += [f"<p>{text(line)}</p>" for line in summary.headline(grades)]
    body += [_exercises(summary.tallies(grades)), _notebooks(grades)]
    return page("Grades", "\n".join(body))


def _exercises(tallies: list[summary.Tally]) -> str:
    rows = [
        (
            f"{text(t.id)} {text(t.title)}{_sentence(*t.sentence)}",
            *(str(t.counts[name]) for name in OUTCOMES),
            f"{text(t.judge[0])} ({t.judge[1]})" if t.judge[0] else "",
        )
        for t in tallies
    ]
    head = ("exercise", *(f"{SIGNS[name]} {name}" for name in OUTCOMES), "refused most by")
    return table(head, rows, {0: "name", 5: "whole"} | dict.fromkeys((1, 2, 3, 4), "number"))


def _sentence(sentence: str, count: int) -> str:
    return f'<p class="muted">{count} × {text(sentence)}</p>' if count else ""


def _notebooks(grades: list[Grade]) -> str:
    rows = [
        (
            f'<a href="{_address(grade.file)}">{text(grade.file)}</a>',
            text(grade.lesson),
            f"{grade.points} of {grade.max_points}" if grade.rows else "",
            percentage(grade.percent),
            f"not graded: {text(grade.error)}" if grade.error else _signs(grade),
        )
        for grade in grades
    ]
    return table(
        ("notebook", "lesson", "points", "percent", "exercises"),
        rows,
        {0: "name", 1: "whole", 2: "number", 3: "number"},
    )


def _address(file: str) -> str:
    """Where the feedback lies, from the summary; a colon in a name makes it no address of another kind."""
    return "./" + urllib.parse.quote(file.removesuffix(".ipynb") + ".html")


def _signs(grade: Grade) -> str:
    return " ".join(f'<span title="{text(row.id)} {row.outcome}">{SIGNS[row.outcome]}</span>' for row in grade.rows)
