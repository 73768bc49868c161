"""One aspect of the three machines as SVG and in words: the marked lines of each kernel, and what they compile to."""

from typing import NamedTuple

from course_lib.viz.common import draw

_SIZE, _CODE, _ROW, _INDENT = 14, 12, 18, 44
_MARKED, _PROGRAM = "#fdf3d8", "#f4f6f8"


class Shown(NamedTuple):
    """What a picture shows: traits of the widget, and one of its aspects."""

    title: str
    engines: list[dict]
    aspect: dict
    note: str


def still(shown: Shown) -> str:
    """Draw one aspect as a card, one machine below the other."""
    panels = [draw.paragraph(f"{shown.title}: {shown.aspect['name']}", size=16, bold=True)]
    for engine, cell in zip(shown.engines, shown.aspect["cells"], strict=True):
        panels.append(draw.paragraph(engine["name"], size=15, bold=True))
        panels.append(draw.paragraph(cell["says"], size=_SIZE))
        if cell["marks"]:
            panels.append(draw.paragraph(engine["file"], size=_CODE, fill=draw.MUTED))
            panels.append(_code(marked(engine, cell), _MARKED))
        if cell["program"]:
            panels.append(draw.paragraph(cell["heading"], size=_CODE, fill=draw.MUTED))
            panels.append(_code([("", line) for line in cell["program"]], _PROGRAM))
    panels.append(draw.paragraph(shown.note, size=_CODE, fill=draw.MUTED))
    return draw.card(draw.stacked(panels, gap=6), shown.title, as_text(shown))


def as_text(shown: Shown) -> str:
    """Return the same as lines of text."""
    lines = [f"{shown.title}: {shown.aspect['name']}"]
    for engine, cell in zip(shown.engines, shown.aspect["cells"], strict=True):
        lines += ["", f"{engine['name']}: {cell['says']}"]
        lines += [f"{number:>5}  {text}" for number, text in marked(engine, cell)]
        lines += [f"{cell['heading']}:", *(f"       {line}" for line in cell["program"])] if cell["program"] else []
    return "\n".join([*lines, "", shown.note])


def marked(engine: dict, cell: dict) -> list[tuple[int, str]]:
    """Return the marked lines of a kernel, in the order of its file, without their indentation."""
    return [(number, text.strip()) for number, text in engine["lines"] if number in cell["marks"]]


def _code(lines: list[tuple[int | str, str]], fill: str) -> draw.Panel:
    body = draw.box(0, 0, draw.INNER, _ROW * len(lines) + 4, fill)
    for row, (number, text) in enumerate(lines):
        left = _INDENT if number else 8
        if number:
            body += draw.label(_INDENT - 10, _ROW * row + 15, number, size=_CODE, fill=draw.MUTED, anchor="end")
        body += draw.label(left, _ROW * row + 15, text, draw.INNER - left - 6, size=_CODE)
    return draw.Panel(body, _ROW * len(lines) + 4)
