"""A map of the blocks of attention scores: which need a mask, which need none, and which a kernel can skip."""

import itertools
from collections.abc import Sequence

from course_lib.viz.choices.block_kinds import FULL, PARTIAL, SKIPPED, Scores, kinds, left, said
from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

MOST_BLOCKS = 16  # along one axis
_FILL = {FULL: "#cfe3f1", PARTIAL: "#fdf3d8", SKIPPED: draw.PAPER}
_MEANS = {FULL: "needs no mask", PARTIAL: "needs a mask", SKIPPED: "no matmul, no copy"}
_TITLE = "Blocks of the scores"
_GRID, _LEFT, _LARGEST, _SIZE = 416, 26, 40, 14  # pixels: of the whole grid, to its left, of a block, of letters
_ENTRY, _ROOM = 44, 170  # pixels of the legend: height of an entry, width of its words


def block_map(
    queries: int,
    keys: int,
    bq: int,
    bk: int,
    *,
    causal: bool = False,
    window: int | None = None,
    segments: Sequence[int] | None = None,
) -> Choices | Picture:
    """Draw the scores of attention in blocks of ``bq`` queries x ``bk`` keys: full, partial or skipped.

    In a full block every score counts, in a partial one some do, and in a skipped one none. The reader chooses among
    the masks that the arguments allow; without any there is nothing to choose, and the result is a picture. ``causal``:
    a query sees its own key and those before it; ``window``: how many keys it sees at most, its own the last;
    ``segments``: the lengths of documents packed in one row, each of which sees only itself. Raises ValueError for
    sizes that are not positive integers, for more than 16 blocks along an axis, and for masks that do not fit.
    """
    for name, size in (("queries", queries), ("keys", keys), ("bq", bq), ("bk", bk), ("window", window)):
        if not (type(size) is int and size > 0 or name == "window" and size is None):
            raise ValueError(f"block_map: {name}={size!r} is not a size: it must be an integer above 0.")
    for name, block, of, length in (("bq", bq, "queries", queries), ("bk", bk, "keys", keys)):
        if -(-length // block) > MOST_BLOCKS:
            raise ValueError(
                f"block_map: {name}={block} cuts {length:,} {of} into {-(-length // block):,} blocks, but there is "
                f"room for {MOST_BLOCKS}; take a larger {name}."
            )
    packed = _packed(segments, keys)
    if queries != keys and (causal or window or packed):
        raise ValueError(
            f"block_map: queries={queries} and keys={keys} differ, but must be equal for causal, window and segments, "
            "which compare positions."
        )
    masks = ["none", *(["causal"] if causal else []), *(["window"] if window else [])]
    groups = [Group("mask", tuple(masks))] if len(masks) > 1 else []
    groups += [Group("segments", ("off", "on"))] if packed else []
    scores = Scores(queries, keys, bq, bk, window, packed)

    def state(*numbers: int) -> State:
        chosen = dict(zip((group.name for group in groups), numbers, strict=True))
        mask, apart = masks[chosen.get("mask", 0)], bool(chosen.get("segments"))
        return State(_drawn(scores, kinds(scores, mask, apart)), said(scores, mask, apart))

    if not groups:
        panel, caption = state()
        whole = [draw.paragraph(_TITLE, size=16, bold=True), panel, draw.paragraph(caption, size=_SIZE)]
        return Picture(svg=draw.card(draw.stacked(whole, gap=8), _TITLE, caption), text=caption)
    return Choices(_TITLE, groups, state, [len(group.options) - 1 for group in groups])


def _packed(segments: Sequence[int] | None, keys: int) -> tuple[int, ...]:
    if segments is None:
        return ()
    lengths = tuple(segments) if isinstance(segments, list | tuple) else ()
    if not lengths or not all(type(n) is int and n > 0 for n in lengths) or sum(lengths) != keys:
        raise ValueError(
            f"block_map: segments={segments!r} is not a tuple of documents: it must hold lengths above 0 that "
            f"sum to keys={keys}."
        )
    return lengths


def _drawn(scores: Scores, found: list[list[str]]) -> draw.Panel:
    """Draw the blocks, and beside them what each kind means and how many there are."""
    side = min(_LARGEST, _GRID / max(len(found), len(found[0])))
    sizes = f"A row is a block of {scores.bq:,} queries, a column is a block of {scores.bk:,} keys."
    body = "".join(_index(_LEFT + (j + 0.5) * side, 13, j) for j in range(len(found[0])))
    for i, row in enumerate(found):
        body += _index(_LEFT / 2, 20 + (i + 0.5) * side + 5, i)
        body += "".join(_block(_LEFT + j * side, 20 + i * side, side, kind) for j, kind in enumerate(row))
    legend = draw.moved(_legend(list(itertools.chain(*found))), _LEFT + side * len(found[0]) + 30, 20)
    grid = draw.Panel(body + legend, max(24 + side * len(found), 20 + 4 * _ENTRY))
    return draw.stacked([draw.paragraph(sizes, size=_SIZE, fill=draw.MUTED), grid], gap=6)


def _index(x: float, y: float, number: int) -> str:
    return draw.label(x, y, number, size=13, fill=draw.MUTED, anchor="middle")


def _block(x: float, y: float, side: float, kind: str) -> str:
    body = draw.box(x, y, side, side, _FILL[kind], stroke=draw.MUTED)
    if kind == PARTIAL:
        body += draw.hatch(x, y, side, side, draw.RED, gap=10)
    letter = kind[0].upper()
    fill = draw.MUTED if kind == SKIPPED else draw.INK
    middle = x + side / 2, y + side / 2 + 5
    return body + draw.label(
        *middle, letter, size=_SIZE, bold=kind == FULL, fill=fill, anchor="middle", halo=kind == PARTIAL
    )


def _legend(found: list[str]) -> draw.Panel:
    body = ""
    for number, (kind, means) in enumerate(_MEANS.items()):
        top = number * _ENTRY
        body += _block(0, top, 26, kind)
        body += draw.label(36, top + 11, f"{found.count(kind)} {kind}", _ROOM, size=_SIZE, bold=True)
        body += draw.label(36, top + 28, means, _ROOM, size=_SIZE, fill=draw.MUTED)
    body += draw.label(36, 3 * _ENTRY + 11, f"{left(found)} left", _ROOM, size=_SIZE, bold=True)
    body += draw.label(36, 3 * _ENTRY + 28, "of the matmuls", _ROOM, size=_SIZE, fill=draw.MUTED)
    return draw.Panel(body, 4 * _ENTRY)
