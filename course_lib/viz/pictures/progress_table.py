"""The progress through the course as a table: each lesson with its bar, each exercise with its outcome."""

from html import escape

from course_lib.viz.common import draw

_TRACK = "#e9edf2"


def html(panel) -> str:
    """Return the table of a ``checks.panel.Panel``."""
    card = (
        f"background: {draw.PAPER}; color: {draw.INK}; border: 1px solid {draw.LINE}; border-radius: 6px; "
        f"padding: 18px; max-width: 684px; font-family: {draw.SANS}; font-size: 13px"
    )
    body = "".join(map(_lesson_as_html, panel.lessons))
    return (
        f'<div style="{card}"><div style="font-weight: 600">{panel.summary}</div>'
        # JupyterLab's own style would give every column the same width.
        f'<table style="table-layout: auto; border-collapse: collapse; width: 100%; color: {draw.INK}; margin: 0; '
        f'font-size: 12px">{body}'
        f'</table><div style="color: {draw.MUTED}; margin-top: 10px">{panel.kept}</div></div>'
    )


def _lesson_as_html(lesson) -> str:
    share = round(100 * lesson.points / lesson.max_points)
    bar = (
        f'<div style="background: {_TRACK}; border-radius: 4px; height: 8px; width: 160px; margin-bottom: 3px">'
        f'<div style="background: {draw.BLUE}; border-radius: 4px; height: 8px; width: {share}%"></div></div>'
    )
    head = (
        f'<tr style="background: {draw.PAPER}"><th colspan="3" style="text-align: left; padding: 12px 6px 4px 0">'
        f"{lesson.number} {escape(lesson.title)}</th>"
        f'<th colspan="3" style="text-align: left; padding: 12px 6px 4px 0; font-weight: 400">{bar}'
        f"{lesson.points} of {lesson.max_points} points</th></tr>"
    )
    return head + "".join(_row_as_html(cells, passed) for cells, passed in lesson.table)


def _row_as_html(cells: list[str], passed: bool) -> str:
    style = f"text-align: left; padding: 3px 8px 3px 0; border-top: 1px solid {_TRACK}; color: {draw.INK}"
    mark = "✓ " if passed else ""
    shown = [escape(mark + cell if n == 2 else cell) for n, cell in enumerate(cells)]
    return f'<tr style="background: {draw.PAPER}">' + "".join(f'<td style="{style}">{c}</td>' for c in shown) + "</tr>"
