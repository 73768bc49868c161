"""Strokes that the pictures share: text that fits its room, boxes, hatches, and the white card around them.

A picture is SVG text. It brings its own white card and uses presentation attributes only, because notebooks are read in
dark themes, on paper, and on sites that strip styles. The colours are those of Okabe and Ito, which colour-blind
readers can tell apart, and a hatch or a word always repeats what a colour says.
"""

import base64
import itertools
import math
import re
from typing import NamedTuple

WIDTH = 720  # pixels of a card
PAD = 18
INNER = WIDTH - 2 * PAD

INK, MUTED, LINE, TRACK, PAPER = "#1f2933", "#56616d", "#c9d1d9", "#e9edf2", "#ffffff"
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
    "#9aa5b1",
)
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

# Letter widths as shares of the font size, from DejaVu Sans, the widest of the usual fonts.
_WIDE, _NARROW = set("mwMW@%&+<>="), set("iljtfrI.,:;'|!()[]{}/ -\"")


class Panel(NamedTuple):
    """Part of a picture, ``INNER`` pixels wide, drawn from (0, 0) downwards."""

    body: str
    height: float


def escape(text: object) -> str:
    """Escape text for XML and HTML, content and attributes; characters that XML cannot hold become "?"."""
    text = re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", str(text))
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(raw, safe)
    return text


def width_of(text: str, size: float = 12, bold: bool = False) -> float:
    """Estimate the pixels that ``text`` takes, on the high side."""
    em = sum(_em(letter) for letter in text)
    return em * size * (1.1 if bold else 1)


def _em(letter: str) -> float:
    if ord(letter) > 0x2E7F:  # ideographs are square
        return 1
    if letter in _WIDE:
        return 0.98
    if letter in _NARROW:
        return 0.4
    return 0.72 if letter.isupper() else 0.64


def shortened(text: str, room: float, size: float = 12, bold: bool = False) -> str:
    """Cut ``text`` to fit ``room`` pixels, with an ellipsis; return "" if not even that fits."""
    text = " ".join(str(text).split())
    if width_of(text, size, bold) <= room:
        return text
    while text and width_of(text + "…", size, bold) > room:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


def wrapped(text: str, room: float, size: float = 12, bold: bool = False) -> list[str]:
    """Wrap ``text`` into lines that fit ``room`` pixels; a word too long for a line is shortened."""
    lines = [""]
    for word in str(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, size, bold) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return [shortened(line, room, size, bold) for line in lines]


def label(
    x: float,
    y: float,
    text: object,
    room: float = INNER,
    *,
    size: float = 12,
    bold: bool = False,
    fill: str = INK,
    anchor: str = "start",
    halo: bool = False,
) -> str:
    """Draw a line of text with its baseline at ``y``; the tooltip has what does not fit. ``halo``: a white outline."""
    shown = shortened(str(text), room, size, bold)
    if not shown:
        return ""
    tooltip = f"<title>{escape(text)}</title>" if shown.endswith("…") else ""
    weight = ' font-weight="600"' if bold else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    clear = f' stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="{fill}"{weight}{where}{clear}>'
        f"{tooltip}{escape(shown)}</text>"
    )


def paragraph(text: str, *, size: float = 12, bold: bool = False, fill: str = INK, room: float = INNER) -> Panel:
    """Draw text wrapped to ``room`` pixels."""
    step = round(1.45 * size)
    lines = wrapped(text, room, size, bold)
    body = "".join(
        label(0, size + n * step, line, room, size=size, bold=bold, fill=fill) for n, line in enumerate(lines)
    )
    return Panel(body, step * len(lines))


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    *,
    stroke: str = "",
    title: str = "",
    radius: float = 0,
    opacity: float = 1,
) -> str:
    """Draw a rectangle; ``title`` is its tooltip."""
    edge = f' stroke="{stroke}"' if stroke else ""
    corners = f' rx="{number(radius)}"' if radius else ""
    pale = f' fill-opacity="{opacity}"' if opacity < 1 else ""
    head = f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" fill="{fill}"'
    return f"{head}{edge}{corners}{pale}" + (f"><title>{escape(title)}</title></rect>" if title else "/>")


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = LINE, *, width: float = 1, dash: str = "") -> str:
    """Draw a straight line."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" stroke="{stroke}" '
        f'stroke-width="{number(width)}"{dashes}/>'
    )


def hatch(x: float, y: float, width: float, height: float, stroke: str = PAPER, gap: float = 8, lean: int = 1) -> str:
    """Draw slanted strokes over a box, so that it differs from a plain one by more than colour."""
    strokes = []
    start = -height
    while start < width:
        # the stroke from (start, height) to (start + height, 0), clipped to the box
        left, right = max(0, start), min(width, start + height)
        low, high = height - (left - start), height - (right - start)
        if lean < 0:
            low, high = height - low, height - high
        strokes.append(f"M{number(x + left)} {number(y + low)}L{number(x + right)} {number(y + high)}")
        start += gap
    return f'<path d="{"".join(strokes)}" stroke="{stroke}" stroke-width="1.3" stroke-opacity="0.75" fill="none"/>'


def stride(span: float, most: int) -> float:
    """Return the distance between ticks: 1, 2 or 5 times a power of ten, so that ``most`` of them fit into ``span``."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(n * power for n in (1, 2, 5, 10) if span / (n * power) <= most)


def heading(text: str, note: str = "") -> Panel:
    """Draw the name of a panel, and beside it what its figures mean."""
    room = width_of(text, 13, True) + 10
    return Panel(
        label(0, 13, text, size=13, bold=True)
        + (label(room, 13, note, INNER - room, size=12, fill=MUTED) if note else ""),
        24,
    )


def stacked(panels: list[Panel], gap: float = 0) -> Panel:
    """Stack panels from top to bottom."""
    bodies, top = [], 0.0
    for n, panel in enumerate(panels):
        top += gap if n else 0
        bodies.append(moved(panel, 0, top))
        top += panel.height
    return Panel("".join(bodies), top)


def moved(panel: Panel, x: float, y: float) -> str:
    """Draw a panel at (x, y)."""
    return f'<g transform="translate({number(x)} {number(y)})">{panel.body}</g>'


def card(panel: Panel, title: str, description: str) -> str:
    """Put a panel on a white card with an edge: a whole picture, with a title and description for screen readers."""
    height = panel.height + 2 * PAD
    edge = (
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{number(height - 1)}" rx="6" fill="{PAPER}" '
        f'stroke="{LINE}"/>'
    )
    return _picture(WIDTH, height, edge + moved(panel, PAD, PAD), title, description)


def sheet(panel: Panel, title: str, description: str, width: float = INNER) -> str:
    """Make a whole picture without an edge, for a card that HTML draws."""
    paper = f'<rect width="{number(width)}" height="{number(panel.height)}" fill="{PAPER}"/>'
    return _picture(width, panel.height, paper + panel.body, title, description)


def _picture(width: float, height: float, body: str, title: str, description: str) -> str:
    wide, high = number(width), number(height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'role="img" font-family="{SANS}"><title>{escape(title)}</title><desc>{escape(description)}</desc>{body}</svg>'
    )


# The class of what is drawn on a white card, and the rule that makes it a dark one in JupyterLab's dark theme: black
# becomes white, and red stays red. A picture in an <img> cannot see the theme itself, and a card within a card is
# turned with it. Where a page has no such theme, or strips style sheets, a card stays white.
CARD = "course-card"
DARK = f'[data-jp-theme-light="false"] .{CARD}:not(.{CARD} .{CARD}) {{ filter: invert(0.9) hue-rotate(180deg); }}'


def in_a_card(body: str, style: str = "") -> str:
    """Wrap HTML in a card; ``style`` is its CSS."""
    how = f' style="{style}"' if style else ""
    return f'<div class="{CARD}"{how}><style>{DARK}</style>{body}</div>'


def image(svg: str, alternative: str) -> str:
    """Wrap a picture in HTML tags, because inline SVG does not survive in a notebook that is not trusted."""
    data = base64.b64encode(svg.encode()).decode()
    width, height = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg).groups()
    return in_a_card(
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alternative)}" width="{width}" height="{height}" '
        'style="max-width: 100%; height: auto; display: block"/>'
    )


def number(value: float) -> str:
    """Format a coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def columns(total: float, shares: list[float]) -> list[tuple[float, float]]:
    """Split ``total`` in proportion to ``shares``: (left, width) of each."""
    whole = sum(shares) or 1
    edges = [0, *itertools.accumulate(total * share / whole for share in shares)]
    return [(left, right - left) for left, right in itertools.pairwise(edges)]
