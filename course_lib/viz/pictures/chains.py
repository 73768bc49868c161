"""Additions over time: in one sum each waits for the one before it, in several sums they overlap."""

from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

_NAME, _HIGH, _GAP = 84, 24, 6  # pixels


def chains(additions: int = 8, sums: tuple[int, ...] = (1, 4), latency: int = 2) -> Picture:
    """Draw when each of ``additions`` can begin, in so many ``sums``, if one takes ``latency`` cycles.

    In one sum an addition begins when the one before it is done; additions of different sums begin together, as the
    VPU has several slots. Raises ValueError for numbers below 1, and for more sums than additions.
    """
    if min(additions, latency, *sums) < 1 or max(sums) > additions:
        raise ValueError(
            f"chains: additions={additions}, sums={sums}, latency={latency}: each must be 1 or more, and sums at most "
            "as many as additions. Try chains(8, (1, 4))."
        )
    cycle = (draw.INNER - _NAME) / (additions * latency)
    panels, words = [], []
    for count in sums:
        begins = _begins(additions, count, latency)
        took = max(begins) + latency
        what = "one sum" if count == 1 else f"{count} sums"
        says = f"{additions} additions in {took} cycles"
        panels.append(draw.heading(what, says))
        panels.append(draw.Panel(_lanes(begins, count, latency, cycle), (_HIGH + _GAP) * count))
        words.append(f"{what}: {says}; they begin in cycles {', '.join(map(str, begins))}")
    foot = draw.paragraph(
        f"A box is one addition, which takes {latency} cycles; its number is the register's.", size=13
    )
    text = "\n".join(words)
    return Picture(svg=draw.card(draw.stacked([*panels, foot], gap=6), "Chains", text), text=text)


def _begins(additions: int, sums: int, latency: int) -> list[int]:
    """Return the cycle in which each addition begins; number k goes into sum k % sums."""
    return [number // sums * latency for number in range(additions)]


def _lanes(begins: list[int], sums: int, latency: int, cycle: float) -> str:
    lanes = range(sums)
    body = "".join(draw.label(0, lane * (_HIGH + _GAP) + 16, f"sum {lane}", _NAME - 8, size=13) for lane in lanes)
    for number, begin in enumerate(begins):
        left, top = _NAME + begin * cycle, number % sums * (_HIGH + _GAP)
        body += draw.box(left + 1, top, latency * cycle - 2, _HIGH, draw.SKY, stroke=draw.INK)
        body += draw.label(left + latency * cycle / 2, top + 16, f"x[{number}]", latency * cycle, anchor="middle")
    return body
