"""The class summary as an HTML page, with a link to each notebook's feedback."""

import urllib.parse

from course_lib.grading import summary
from course_lib.grading.grade import Grade, percentage
from course_lib.grading.page import SIGNS, page, table, text
from course_lib.grading.rows import OUTCOMES


def class_page(grades: list[Grade]) -> str:
    """Return a self-contained page: every notebook, and every exercise with its most frequent refusal."""
    body = ["<h1>Grades</h1>"]
    body += [f"<p>{text(line)}</p>" for line in summary.headline(grades)]
    tallies = summary.tallies(grades)
    body += [_exercises(tallies), _notebooks(grades)]
    if golf := [tally for tally in tallies if tally.golf]:
        body += ["<h2>Golf: the fewer, the better</h2>", _scores(grades, golf)]
    return page("Grades", "\n".join(body))


def _exercises(tallies: list[summary.Tally]) -> str:
    rows = [
        (
            f"{text(t.id)} {text(t.title)}{_golf(t)}{_sentence(*t.sentence)}",
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


def _golf(tally: summary.Tally) -> str:
    return f'<p class="muted">{text(tally.golf)}</p>' if tally.golf else ""


def _scores(grades: list[Grade], tallies: list[summary.Tally]) -> str:
    """Return a column per golf exercise: par, our score, then every notebook with a score; the class's best is bold."""
    head = ("", *(f"{text(t.id)}, {text(t.golf.unit)}" for t in tallies))
    rows = [(name, *(_number(getattr(t.golf, name)) for t in tallies)) for name in ("par", "ours")]
    for grade in grades:
        scores = {row.id: row.score for row in grade.rows if row.score is not None}
        if scores.keys() & {t.id for t in tallies}:
            rows.append((text(grade.file), *(_score(scores.get(t.id), t.golf.best) for t in tallies)))
    return table(head, rows, {0: "name"} | dict.fromkeys(range(1, len(head)), "number"))


def _score(value: int | None, best: int | None) -> str:
    return f"<strong>best {value:,}</strong>" if value is not None and value == best else _number(value)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _address(file: str) -> str:
    """Return the feedback's address relative to the summary; "./" keeps a colon in a name from making a scheme."""
    return "./" + urllib.parse.quote(file.removesuffix(".ipynb") + ".html")


def _signs(grade: Grade) -> str:
    return " ".join(f'<span title="{text(row.id)} {row.outcome}">{SIGNS[row.outcome]}</span>' for row in grade.rows)
