"""The progress through the course as a table: each lesson with its bar, each exercise with its outcome."""

from html import escape

from course_lib.viz.common import draw

_TRACK = "#e9edf2"
_WIDTHS = (44, 244, 148, 48, 84, 56)  # pixels of a table's columns: one lesson's stand below another's


def html(panel) -> str:
    """Return the tables of a ``checks.panel.Panel``, folded but for that of the lesson the reader is at."""
    card = (
        f"background: {draw.PAPER}; color: {draw.INK}; border: 1px solid {draw.LINE}; border-radius: 6px; "
        f"padding: 18px; max-width: 684px; font-family: {draw.SANS}; font-size: 13px"
    )
    body = "".join(_lesson_as_html(lesson, lesson is panel.current) for lesson in panel.lessons)
    head = f'<div style="font-weight: 600">{panel.summary}</div>'
    foot = f'<div style="color: {draw.MUTED}; margin-top: 10px">{panel.kept}</div>'
    return draw.in_a_card(head + body + foot, card)


def _lesson_as_html(lesson, unfolded: bool) -> str:
    share = round(100 * lesson.points / lesson.max_points)
    bar = (
        f'<span style="display: inline-block; background: {_TRACK}; border-radius: 4px; height: 8px; width: 160px">'
        f'<span style="display: block; background: {draw.BLUE}; border-radius: 4px; height: 8px; width: {share}%">'
        "</span></span>"
    )
    title = f'<span style="display: inline-block; width: 272px; font-weight: 600">{lesson.number} '
    head = f"{title}{escape(lesson.title)}</span>{bar} &nbsp; {lesson.points} of {lesson.max_points} points"
    rows = "".join(_row_as_html(cells, passed) for cells, passed in lesson.table)
    table = f"table-layout: fixed; border-collapse: collapse; width: {sum(_WIDTHS)}px; color: {draw.INK}"
    return (
        f'<details{" open" * unfolded} style="margin-top: 8px"><summary style="cursor: pointer">{head}</summary>'
        f'<table style="{table}; margin: 4px 0 0 16px; font-size: 12px">{rows}</table></details>'
    )


def _row_as_html(cells: list[str], passed: bool) -> str:
    style = f"text-align: left; padding: 3px 8px 3px 0; border-top: 1px solid {_TRACK}; color: {draw.INK}"
    mark = "✓ " if passed else ""
    shown = [escape(mark + cell if n == 2 else cell) for n, cell in enumerate(cells)]
    columns = zip(_WIDTHS, shown, strict=True)
    return (
        f'<tr style="background: {draw.PAPER}">'
        + "".join(f'<td style="{style}; width: {width}px">{cell}</td>' for width, cell in columns)
        + "</tr>"
    )
