"""A widget with the body of a loop, bundle by bundle, for several values of ``unroll``."""

from collections.abc import Mapping

from course_lib import text, vocabulary
from course_lib.compiler import Code
from course_lib.viz.bundle_viewer import bundle_data
from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.common import draw

_NAME, _LANE = 70, 24  # pixels: width of a unit's name, height of a lane
_BAR, _ROW = 300, 24
_SHADES = ("#eef1f5", "#c6dcec", "#86b7da", "#3d8dc4", draw.BLUE)  # for 0 to 4 quarters of a unit's slots
_APART = 5  # pixels from which a bundle has a gap beside it


def unroll_viewer(codes: Mapping[int, Code], cycles: Mapping[int, float] | None = None) -> Choices:
    """Show the body of the busiest loop for each value of ``unroll``, on one scale, with the cycles of an iteration.

    ``codes``: unroll -> what ``compiler.bundles`` returns for it; ``cycles``: unroll -> cycles of one iteration of the
    source loop, *predicted (compiler)*. The reader chooses in the browser; nothing is compiled or run here. Raises
    ValueError if there is no code, if a program has no loop, or if cycles belong to none of the codes.
    """
    if not isinstance(codes, Mapping) or not codes:
        raise ValueError(f"unroll_viewer: codes={codes!r} is nothing to show. Give {{1: compiler.bundles(f, x), ...}}.")
    for unroll, code in codes.items():
        if code.busiest is None:
            raise ValueError(f"unroll_viewer: the program for unroll={unroll} has no loop. Leave it out.")
    cycles = cycles or {}
    for unroll in cycles:
        if unroll not in codes:
            raise ValueError(f"unroll_viewer: cycles[{unroll!r}] belongs to no code. codes has {_listed(codes)}.")
    unrolls = list(codes)
    shown = [bundle_data.data(code) for code in codes.values()]
    units = _units(shown)
    longest = max(map(_length, shown))

    def state(number: int) -> State:
        data = shown[number]
        lanes = [_lane(data, unit, longest) for unit in units]
        bars = _cycle_bars(unrolls, cycles, number) if cycles else []
        words = said(unrolls[number], data, units, cycles.get(unrolls[number]))
        head = draw.heading("The loop's body, a bundle in each column", "darker: more of the unit's slots in use")
        return State(draw.stacked([head, *lanes, *bars], gap=1), words)

    options, last = tuple(map(str, unrolls)), len(unrolls) - 1
    return Choices(f"The loop of {shown[0]['name']}, unrolled", [Group("unroll", options)], state, [0], [[0], [last]])


def _listed(codes: Mapping[int, Code]) -> str:
    return ", ".join(map(str, codes))


def _units(shown: list[dict]) -> list[str]:
    """List the units that any of the bodies uses, in the order of the first program that has them."""
    units = []
    for data in shown:
        first, last, _ = data["loops"][data["busiest"]]
        for column, unit in enumerate(data["units"]):
            if unit not in units and any(bundle_data.use(data, row, column) for row in range(first, last + 1)):
                units.append(unit)
    return units


def _length(data: dict) -> int:
    first, last, _ = data["loops"][data["busiest"]]
    return last - first + 1


def said(unroll: int, data: dict, units: list[str], cycles: float | None) -> str:
    """Describe a body in a sentence or two."""
    first, last, turns = data["loops"][data["busiest"]]
    bundles = _length(data)
    makes = "" if turns is None else f", run {text.counted(turns, 'time')}"
    words = f"unroll={unroll}: a body of {text.counted(bundles, 'bundle')}{makes}"
    words += f", {bundles / unroll:.1f} for each iteration of the source. " if unroll > 1 else ". "
    shares = dict(zip(data["units"], bundle_data.loop_uses(data, first, last), strict=True))
    words += "Slots used: " + ", ".join(f"{unit} {text.percent(shares.get(unit, 0))}" for unit in units) + "."
    if cycles is not None:
        words += f" {cycles:.1f} cycles an iteration, {vocabulary.COMPILER}."
    return words


def _lane(data: dict, unit: str, longest: int) -> draw.Panel:
    """Draw one unit through the body."""
    first, last, _ = data["loops"][data["busiest"]]
    wide = (draw.INNER - _NAME) / longest
    gap = 0.8 if wide >= _APART else 0
    parts = [draw.label(0, 17, unit, _NAME - 6, size=14, bold=True)]
    for row in range(first, last + 1):
        column = data["units"].index(unit) if unit in data["units"] else None
        use = 0 if column is None else filled(data, row, column)
        left = _NAME + (row - first) * wide
        parts.append(draw.box(left, 2, wide - gap, _LANE - 4, _SHADES[use]))
    return draw.Panel("".join(parts), _LANE)


def filled(data: dict, row: int, column: int) -> int:
    """Return the quarters of a unit's slots in use, as ``said`` counts them: without what only starts here."""
    uses, offered = data["rows"][row][0][column], data["offered"][column]
    return min(4, -(-4 * uses // offered)) if offered else bundle_data.use(data, row, column)


def _cycle_bars(unrolls: list[int], cycles: Mapping[int, float], chosen: int) -> list[draw.Panel]:
    most = max(cycles.values())
    rows = [draw.Panel("", 6), draw.heading("Cycles of an iteration of the source", vocabulary.COMPILER)]
    for number, unroll in enumerate(unrolls):
        here, name = number == chosen, f"unroll={unroll}"
        body = draw.label(0, 17, name, 90, size=14, bold=here)
        if unroll in cycles:
            fill = draw.BLUE if here else draw.GREY
            body += draw.box(96, 4, max(1, _BAR * cycles[unroll] / most), _ROW - 8, fill)
            body += draw.label(96 + _BAR + 60, 17, f"{cycles[unroll]:.1f}", 60, size=14, bold=here, anchor="end")
        rows.append(draw.Panel(body, _ROW))
    return rows
