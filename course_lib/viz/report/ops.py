"""The kernels and fusions of a compiled program, with their costs, in the order they run."""

from collections.abc import Sequence

from course_lib import text, vocabulary
from course_lib.compiler.report import Op
from course_lib.viz.common import draw

_ROW, _NAME, _BAR, _MOST = 20, 190, 150, 12


def panel(ops: Sequence[Op]) -> draw.Panel:
    """Draw a row for each op: name and kind, a bar for its share, cycles, HBM bytes."""
    shown, total = _shown(ops), sum(map(_weight, ops))
    rows = [_row(op, _weight(op) / total if total else 0) for op in shown]
    left_out = _left_out(ops, shown)
    tail = [draw.paragraph(left_out, fill=draw.MUTED)] if left_out else []
    note = f"share of the {_measure(ops)}, {vocabulary.COMPILER}" if total else ""
    return draw.stacked([draw.heading(f"{len(ops)} kernels and fusions", note), *rows, *tail])


def _name(op: Op) -> str:
    return op.name if op.kind in op.name else f"{op.name} ({op.kind})"


def _weight(op: Op) -> float:
    return (op.cycles or 0) if op.seconds is None else op.seconds


def _measure(ops: Sequence[Op]) -> str:
    return "cycles" if all(op.seconds is None for op in ops) else "time"


def _shown(ops: Sequence[Op]) -> list[Op]:
    """Choose the largest ops, in the order they run."""
    largest = sorted(range(len(ops)), key=lambda n: -_weight(ops[n]))[:_MOST]
    return [ops[n] for n in sorted(largest)]


def _left_out(ops: Sequence[Op], shown: Sequence[Op]) -> str:
    rest = len(ops) - len(shown)
    return f"{text.counted(rest, 'smaller one')} not shown." if rest else ""


def _figures(op: Op) -> list[str]:
    return [
        "no cycles" if op.cycles is None else f"{text.count(op.cycles)} cycles",
        "HBM not counted" if op.hbm_bytes is None else text.size(op.hbm_bytes),
    ]


def _row(op: Op, share: float) -> draw.Panel:
    cycles, hbm = _figures(op)
    bar = draw.box(_NAME, 3, max(_BAR * share, 1), 13, draw.BLUE) if share else ""
    return draw.Panel(
        draw.label(0, 14, _name(op), _NAME - 10)
        + draw.box(_NAME, 3, _BAR, 13, draw.TRACK)
        + bar
        + draw.label(_NAME + _BAR + 46, 14, text.percent(share) if share else "", 44, bold=True, anchor="end")
        + draw.label(_NAME + _BAR + 186, 14, cycles, 136, anchor="end")
        + draw.label(draw.INNER, 14, hbm, 150, fill=draw.MUTED, anchor="end"),
        _ROW,
    )
