"""Whether things drawn lie on each other: for the tests of pictures, in a browser and in files."""

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

from course_lib.viz.common import draw

Corners = list[tuple[float, float]]
_SVG = "{http://www.w3.org/2000/svg}"
_TALL = 0.62  # of the letters, as a share of the size
_WIDE = 0.93  # draw.width_of rather says too much


def apart(one: Corners, other: Corners) -> bool:
    """Whether two convex shapes do not overlap: seen along a side of one of them they do not."""
    for shape in (one, other):
        for (x0, y0), (x1, y1) in itertools.pairwise([*shape, shape[0]]):
            ours, theirs = ([x * (y1 - y0) - y * (x1 - x0) for x, y in corners] for corners in (one, other))
            if max(ours) <= min(theirs) or max(theirs) <= min(ours):
                return True
    return False


def words_on_words(svg: str) -> list[tuple[str, str]]:
    """Pairs of lines of text in an SVG of ours that cover each other."""
    found = list(_lines(ElementTree.fromstring(svg), lambda x, y: (x, y)))
    return [(a, b) for (a, one), (b, other) in itertools.combinations(found, 2) if not apart(one, other)]


def _lines(node: ElementTree.Element, place, size: float = 12.0):
    """(text, its corners) of each line below a node; ``place`` takes its coordinates to those of the picture."""
    for kind, numbers in re.findall(r"(\w+)\(([^)]*)\)", node.get("transform", "")):
        place = _MOVES[kind](place, *map(float, re.split(r"[ ,]+", numbers)))
    size = float(_said(node, "font-size", str(size)).removesuffix("px"))
    if node.tag == f"{_SVG}text":
        title = node.find(f"{_SVG}title")
        shown = "".join(node.itertext()) if title is None else title.tail
        wide = _WIDE * draw.width_of(shown, size, bool(_said(node, "font-weight", "")))
        shift = {"start": 0, "middle": wide / 2, "end": wide}[_said(node, "text-anchor", "start")]
        left, low = float(node.get("x", 0)) - shift, float(node.get("y", 0))
        right, top = left + wide, low - _TALL * size
        if shown.strip():
            yield shown, [place(x, y) for x, y in ((left, top), (right, top), (right, low), (left, low))]
    for child in node:
        yield from _lines(child, place, size)


def _said(node: ElementTree.Element, name: str, otherwise: str) -> str:
    """An attribute; matplotlib writes it into the style."""
    in_style = re.search(rf"(?:^|;)\s*{name}:\s*([^;]+)", node.get("style", ""))
    return node.get(name) or (in_style[1].strip() if in_style else otherwise)


def _moved(place, right, down=0.0):
    return lambda x, y: place(x + right, y + down)


def _turned(place, degrees, about_x=0.0, about_y=0.0):
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))

    def placed(x, y):
        right, down = x - about_x, y - about_y
        return place(about_x + right * cos - down * sin, about_y + right * sin + down * cos)

    return placed


_MOVES = {"translate": _moved, "rotate": _turned}
