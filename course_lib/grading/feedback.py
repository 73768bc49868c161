"""The HTML page about one notebook that a student gets back."""

from collections import Counter

from course_lib.grading.grade import Grade, versions
from course_lib.grading.page import outcome, page, style_of, table, text
from course_lib.grading.rows import OUTCOMES, Row


def feedback(grade: Grade) -> str:
    """Return a self-contained page: the totals, then each exercise with its whole verdict and what to try next."""
    parts = [f"<h1>{text(grade.file)}</h1>"]
    if grade.error:
        parts.append(f"<p>Not graded: {text(grade.error)}</p>")
    else:
        parts += [f"<p><strong>{text(grade.result)}</strong>. {_counts(grade)}</p>", _overview(grade)]
        parts += [_exercise(row) for row in grade.rows]
    if grade.note:
        parts.insert(1, f'<p class="muted">Note: {text(grade.note)}.</p>')
    said = ", ".join(f"{name} {version}" for name, version in versions().items())
    parts.append(f'<p class="muted">Graded with {text(said)}.</p>')
    return page(f"{grade.file}: {grade.error and 'not graded' or grade.result}", "\n".join(parts))


def _counts(grade: Grade) -> str:
    counts = Counter(row.outcome for row in grade.rows)
    return ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]) + "."


def _overview(grade: Grade) -> str:
    rows = [
        (text(row.id), text(row.title), text(row.kind), outcome(row.outcome), _points(row), f"{row.weight:g}")
        for row in grade.rows
    ]
    return table(
        ("", "exercise", "kind", "outcome", "points", "weight"),
        rows,
        {0: "whole", 2: "whole", 4: "number", 5: "number"},
    )


def _score(row: Row) -> str:
    """Return the golf score as the grader counted it; "" if there is none."""
    if row.score is None:
        return ""
    ours = "" if row.ours is None else f", ours {row.ours:,}"
    return f"; score {row.score:,} {row.unit}, par {row.par:,}{ours}"


def _points(row: Row) -> str:
    return f"{row.points} of {row.max_points}" if row.max_points else "none"


def _exercise(row: Row) -> str:
    said = row.verdict.partition("\nNext: ")[0]
    in_it = row.message in " ".join(said.split())
    if said == f"{row.id} {row.outcome}.":  # the message says why
        said = ""
    parts = [
        f'<section class="{style_of(row.outcome)}">',
        f"<h2>{text(row.id)} {text(row.title)}: {outcome(row.outcome)}</h2>",
        f'<p class="muted">{text(row.kind)}; points: {_points(row)}; weight {row.weight:g}{_score(row)}</p>',
        f"<pre>{text(said)}</pre>" if said else "",
        "" if in_it else f"<p>{text(row.message[:1].upper() + row.message[1:])}</p>",
        f"<p><strong>Next:</strong> {text(row.next)}</p>" if row.next else "",
        f'<p class="muted">Note: {text(row.note)}.</p>' if row.note else "",
        "</section>",
    ]
    return "\n".join(filter(None, parts))
