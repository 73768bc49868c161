"""The map of the course: a row for each lesson, and curves on the left to the lessons that build on it."""

from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

_RAIL = 92  # x of the dots; curves to later lessons bulge to the left
_TEXT = _RAIL + 22
_RIGHT = 150  # width of the column with minutes and points
_BAR = 130
_GAP = 18  # between two lessons
_LINE = 17
_NOTE = "Each line of text says what you can do afterwards. A curve joins a lesson to those that build on it."


def picture(course) -> Picture:
    """Draw a ``checks.course_map.CourseMap``."""
    rows = [_row(stop, stop is course.next_stop) for stop in course.stops]
    tops = [sum(row.height + _GAP for row in rows[:n]) for n in range(len(rows))]
    dots = {int(stop.lesson.number): top + 10 for stop, top in zip(course.stops, tops, strict=True)}
    lines = "".join(_line(dots[need], dots[int(stop.lesson.number)]) for stop in course.stops for need in stop.needs)
    marks = "".join(_dot(stop, dots[int(stop.lesson.number)]) for stop in course.stops)
    body = "".join(draw.moved(row, 0, top) for row, top in zip(rows, tops, strict=True))
    drawn = draw.Panel(lines + marks + body, tops[-1] + rows[-1].height)
    head = draw.paragraph(course.summary, size=14, bold=True)
    note = draw.paragraph(_NOTE, fill=draw.MUTED)
    svg = draw.card(draw.stacked([head, note, drawn], gap=8), "The lessons of the course", str(course))
    return Picture(svg=svg, text=str(course), html=draw.image(svg, str(course)) + _doors(course.stops))


def _doors(stops) -> str:
    """Return a line of HTML with a link to each lesson: in the picture itself nothing can be clicked."""
    doors = [
        f'<a href="{stop.notebook}">{int(stop.lesson.number)} {draw.escape(stop.lesson.title)}</a>'
        for stop in stops
        if stop.notebook
    ]
    return f"<p>Open a lesson: {', '.join(doors)}.</p>" if doors else ""


def _row(stop, is_next: bool) -> draw.Panel:
    """Draw a lesson: title, what it gives, what hardware adds, and on the right minutes and points."""
    room = draw.INNER - _TEXT - _RIGHT - 16
    title = f"{stop.lesson.number}  {stop.lesson.title}"
    body = draw.label(_TEXT, 15, title, room, size=15, bold=True)
    if is_next:
        body += draw.label(_TEXT + draw.width_of(title, 15, True) + 12, 15, "next", size=12, bold=True, fill=draw.RED)
    lines = [(line, draw.INK) for line in draw.wrapped(stop.lesson.gives, room)]
    lines += [(line, draw.MUTED) for line in draw.wrapped(f"On a TPU: {stop.lesson.hardware}", room)]
    for n, (line, fill) in enumerate(lines):
        body += draw.label(_TEXT, 35 + n * _LINE, line, room, fill=fill)
    left, share = draw.INNER - _RIGHT, stop.progress.points / max(stop.progress.max_points, 1)
    body += draw.label(left, 15, stop.time, _RIGHT)
    body += draw.box(left, 25, _BAR, 8, draw.TRACK, radius=4)
    if share:
        body += draw.box(left, 25, max(8, _BAR * share), 8, draw.BLUE, radius=4)
    body += draw.label(left, 50, stop.points, _RIGHT, fill=draw.MUTED)
    return draw.Panel(body, max(52, 25 + _LINE * len(lines)))


def _line(top: float, bottom: float) -> str:
    """Draw a curve down from one dot to another; the farther apart they are, the wider it swings."""
    bulge = min(_RAIL + 20, 0.19 * (bottom - top))
    path = f"M{_RAIL} {draw.number(top)}C{draw.number(_RAIL - bulge)} {draw.number(top)} "
    path += f"{draw.number(_RAIL - bulge)} {draw.number(bottom)} {_RAIL} {draw.number(bottom)}"
    return f'<path d="{path}" stroke="{draw.GREY}" stroke-width="2" fill="none"/>'


def _dot(stop, y: float) -> str:
    """Draw a dot: dark if every point is earned, lighter if some are."""
    passed, points = stop.progress.points, stop.progress.max_points
    fill = draw.BLUE if passed and passed == points else draw.SKY if passed else draw.PAPER
    return f'<circle cx="{_RAIL}" cy="{draw.number(y)}" r="7" fill="{fill}" stroke="{draw.INK}" stroke-width="1.5"/>'
