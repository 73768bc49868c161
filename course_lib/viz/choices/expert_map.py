"""A map of the tiles of rows that experts share, and how many rows are multiplied for them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.common import draw

MOST_TILES, MOST_EXPERTS, MOST_VISITS = 64, 16, 6  # the last: in one tile
_TITLE = "Tiles of rows and their experts"
_FILL = ("#cfe3f1", "#fdf3d8", "#d3ece3", "#f6dccf", "#ecdceb", "#dff0fa")
_SIZE, _ROW, _NAMES = 14, 24, 200  # pixels: of letters, of a row, of what stands left of the bars


class Visit(NamedTuple):
    """A tile and an expert that has rows in it."""

    tile: int
    expert: int


def expert_map(
    sizes: Mapping[str, Sequence[int]], tiles: Sequence[int] = (128, 256, 512), *, at: Sequence[int] = (0, 0)
) -> Choices:
    """Draw which experts meet in which tile of rows, if rows are sorted by expert, and count the rows multiplied.

    ``sizes``: name -> how many rows each expert has, with one sum for all names; ``tiles``: how many rows a tile may
    have; the reader chooses a name and a tile; ``at``: the numbers of those shown first. A kernel multiplies a whole
    tile for each expert that has rows in it. Raises ValueError if there are no sizes, if they are negative or have
    different sums, for tiles that do not divide the sum, and for more than 64 tiles, 16 experts, or 6 experts in one
    tile.
    """
    names, rows = _checked(sizes, tiles)
    if len(at) != 2 or not (at[0] in range(len(names)) and at[1] in range(len(tiles))):
        raise ValueError(
            f"expert_map: at={at!r} names no map, but must be two numbers, below {len(names)} and {len(tiles)}."
        )
    groups = [Group("sizes", tuple(names)), Group("tile", tuple(f"{tile:,}" for tile in tiles))]

    def state(name: int, tile: int) -> State:
        each = list(sizes[names[name]])
        return State(_drawn(each, tiles[tile]), _said(each, tiles[tile]))

    return Choices(f"{_TITLE}, {rows:,} rows", groups, state, list(at))


def _checked(sizes: Mapping[str, Sequence[int]], tiles: Sequence[int]) -> tuple[list[str], int]:
    """Return the names, and how many rows there are."""
    if not isinstance(sizes, Mapping) or not sizes:
        raise ValueError(f"expert_map: sizes={sizes!r} is not a dict of names and sizes, as {{'even': [512] * 8}}.")
    for name, each in sizes.items():
        if not 0 < len(each) <= MOST_EXPERTS or not all(isinstance(n, int) and n >= 0 for n in each) or not sum(each):
            raise ValueError(
                f"expert_map: sizes[{name!r}]={list(each)} must be 1 to {MOST_EXPERTS} integers, none below 0 and "
                "not all 0."
            )
    sums = {name: sum(each) for name, each in sizes.items()}
    rows = next(iter(sums.values()))
    if len(set(sums.values())) > 1:
        raise ValueError(f"expert_map: the sizes have the sums {sums}, but must all have one.")
    for tile in tiles:
        if not (type(tile) is int and tile > 0) or rows % tile or rows // tile > MOST_TILES:
            raise ValueError(
                f"expert_map: tiles holds {tile!r}, but each must divide {rows:,} rows into at most {MOST_TILES} tiles."
            )
        for name, each in sizes.items():
            met = [visit.tile for visit in visits(each, tile)]
            if max(map(met.count, met)) > MOST_VISITS:
                raise ValueError(
                    f"expert_map: in sizes[{name!r}], more than {MOST_VISITS} experts meet in a tile of {tile}; "
                    "try smaller tiles."
                )
    return list(sizes), rows


def visits(sizes: Sequence[int], tile: int) -> list[Visit]:
    """Return each tile with each expert that has rows in it, in the order of the rows."""
    found, begin = [], 0
    for expert, size in enumerate(sizes):
        if size:
            found += [Visit(n, expert) for n in range(begin // tile, (begin + size - 1) // tile + 1)]
        begin += size
    return found


def _said(sizes: Sequence[int], tile: int) -> str:
    rows, count, padded = sum(sizes), len(visits(sizes, tile)), len(sizes) * max(sizes)
    return (
        f"In tiles of {tile:,} rows there are {count} visits, so {count * tile:,} rows are multiplied, "
        f"{count * tile / rows:.2f} times as many as there are. With every expert padded to the largest, which has "
        f"{max(sizes):,} rows, {padded:,} would be multiplied, {padded / rows:.2f} times as many."
    )


def _drawn(sizes: Sequence[int], tile: int) -> draw.Panel:
    rows = sum(sizes)
    scale = draw.INNER / rows
    what = "Rows sorted by expert. Below, each tile stands once for every expert with rows in it."
    says = draw.paragraph(what, size=_SIZE, fill=draw.MUTED)
    return draw.stacked([says, _strip(sizes, scale), _visits(sizes, tile, scale), _bars(sizes, tile)], gap=8)


def _name(expert: int) -> str:
    return "ABCDEFGHIJKLMNOP"[expert]


def _cell(x: float, y: float, width: float, expert: int, title: str) -> str:
    body = draw.box(x, y, width, _ROW - 2, _FILL[expert % len(_FILL)], stroke=draw.MUTED, title=title)
    if draw.width_of(_name(expert), _SIZE) + 2 > width:
        return body
    return body + draw.label(x + width / 2, y + _ROW / 2 + 4, _name(expert), size=_SIZE, anchor="middle")


def _strip(sizes: Sequence[int], scale: float) -> draw.Panel:
    body, begin = "", 0
    for expert, size in enumerate(sizes):
        if size:
            body += _cell(begin * scale, 0, size * scale, expert, f"expert {_name(expert)}: {size:,} rows")
        begin += size
    return draw.Panel(body, _ROW)


def _visits(sizes: Sequence[int], tile: int, scale: float) -> draw.Panel:
    body, depth = "", dict[int, int]()
    for visit in visits(sizes, tile):
        row = depth[visit.tile] = depth.get(visit.tile, -1) + 1
        title = f"tile {visit.tile}, expert {_name(visit.expert)}"
        body += _cell(visit.tile * tile * scale, row * _ROW, tile * scale, visit.expert, title)
    return draw.Panel(body, _ROW * (1 + max(depth.values())))


def _bars(sizes: Sequence[int], tile: int) -> draw.Panel:
    """Draw how many rows there are, are multiplied in visits, and would be if all experts were padded."""
    rows, count, padded = sum(sizes), len(visits(sizes, tile)), len(sizes) * max(sizes)
    kinds = (("rows", rows), (f"in {count} visits", count * tile), ("padded to the largest", padded))
    room = draw.INNER - _NAMES - 160
    scale, body = room / max(number for _, number in kinds), ""
    for n, (name, number) in enumerate(kinds):
        top = n * _ROW
        body += draw.label(0, top + 17, name, _NAMES, size=_SIZE)
        body += draw.box(_NAMES, top + 3, rows * scale, _ROW - 6, draw.BLUE)
        body += draw.box(
            _NAMES + rows * scale, top + 3, (number - rows) * scale, _ROW - 6, draw.TRACK, stroke=draw.MUTED
        )
        if number > rows:
            body += draw.hatch(_NAMES + rows * scale, top + 3, (number - rows) * scale, _ROW - 6, draw.RED)
        words = f"{number:,}, {number / rows:.2f} times"
        body += draw.label(_NAMES + number * scale + 8, top + 17, words, size=_SIZE)
    return draw.Panel(body, 3 * _ROW)
