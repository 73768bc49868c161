"""Numbers and lines as a reader sees them: exact units, digits that do not vary by machine, 94 columns."""

import math
import textwrap
from collections.abc import Container, Sequence

NOT_KNOWN = "not known"


def count(n: int | None) -> str:
    """Return a whole number with thousands separators: 2,340."""
    return NOT_KNOWN if n is None else f"{n:,}"


def counted(n: int, thing: str) -> str:
    """Return a number of things in words: "no spills", "1 spill", "2 spills"."""
    return f"{n:,} {thing}" if n == 1 else f"{f'{n:,}' if n else 'no'} {thing}s"


def size(n: float | None) -> str:
    """Return a number of bytes in units of 1,024: 16.36 MiB."""
    if n is None:
        return NOT_KNOWN
    if n < 1024:
        return "1 byte" if n == 1 else f"{n:.0f} bytes"
    return _scaled(n, (("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40)), digits=4, full=1024)


def duration(seconds: float | None) -> str:
    """Return a time in the unit that fits: 15.6 us."""
    if seconds is None:
        return NOT_KNOWN
    if abs(seconds) < 1e-12:  # far less than a cycle
        return "0 ns"
    return _scaled(seconds, (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1)), digits=3, full=1000)


def flop_rate(flops_per_second: float | None) -> str:
    """Return a compute rate: 197 TFLOP/s."""
    return NOT_KNOWN if flops_per_second is None else _rate(flops_per_second, "FLOP/s")


def byte_rate(bytes_per_second: float | None) -> str:
    """Return a traffic rate in units of 1,000: 820 GB/s."""
    return NOT_KNOWN if bytes_per_second is None else _rate(bytes_per_second, "B/s")


def intensity(flops_per_byte: float | None) -> str:
    """Return an arithmetic intensity: 240 FLOPs/byte."""
    return NOT_KNOWN if flops_per_byte is None else f"{significant(flops_per_byte, 3)} FLOPs/byte"


def percent(share: float | None) -> str:
    """Return a share of 1 in whole percent; a positive share that would round to zero becomes "<1 %"."""
    if share is None:
        return NOT_KNOWN
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def compared(value: float | None, other: float | None, more: str = "more", less: str = "fewer") -> str:
    """Compare ``value`` with ``other`` in words: "1.9 times fewer", "4 % more", "the same"."""
    if value is None or other is None:
        return NOT_KNOWN
    if not value or not other:
        return "the same" if value == other else "none" if not value else "against none"
    ratio, word = (value / other, more) if value > other else (other / value, less)
    if ratio < 1.005:
        return "the same"
    if ratio < 1.095:
        return f"{percent(abs(value / other - 1))} {word}"
    return f"{significant(ratio, 2)} times {word}"


def significant(value: float, digits: int) -> str:
    """Return ``value`` with ``digits`` significant digits and no exponent; digits before the point are never cut."""
    if not value:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(value: float, unit: str) -> str:
    """Return a count in units of 1,000: "137.4 GFLOPs"."""
    return _in_thousands(value, unit, digits=4)


def _rate(value: float, unit: str) -> str:
    return _in_thousands(value, unit, digits=3)


def _in_thousands(value: float, unit: str, digits: int) -> str:
    scales = [(prefix + unit, 1000**n) for n, prefix in enumerate(("", "k", "M", "G", "T", "P", "E"))]
    return _scaled(value, scales, digits=digits, full=1000)


def _scaled(value: float, units: Sequence[tuple[str, float]], digits: int, full: int) -> str:
    """Return ``value`` in the first unit whose printed value stays below ``full``, or in the last unit."""
    texts = [(significant(value / scale, digits), unit) for unit, scale in units]
    text, unit = next((t for t in texts if float(t[0].replace(",", "")) < full), texts[-1])
    return f"{text} {unit}"


COLUMNS = 94  # JupyterLab breaks longer lines in the middle of a word
_LEAST = 20  # columns reserved for folded words, however long the text before them is


def folded(text: str) -> str:
    """Return ``text`` in lines of at most ``COLUMNS`` characters; a folded line keeps the indent of its first part."""
    return "\n".join(textwrap.fill(line, COLUMNS, subsequent_indent=_indent(line)) for line in text.splitlines())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def table(
    rows: Sequence[Sequence[str]], right: Container[int] = (), indent: str = "", gives_way: int | None = None
) -> list[str]:
    """Return rows of cells as aligned lines of at most ``COLUMNS`` characters; columns in ``right`` are right-aligned.

    A row may have fewer cells than others; its last cell then takes the rest of the line. A last cell that is too long
    is folded under itself. If there is too little room, the cells of column ``gives_way`` are cut.
    """
    if not rows:
        return []
    columns = max(map(len, rows))
    straight = [[row[n] for row in rows if n < len(row) - (len(row) < columns)] for n in range(columns)]
    widths = [max(map(len, column), default=0) for column in straight]
    if gives_way is not None:
        over = len(indent) + sum(widths) + 2 * (columns - 1) - COLUMNS
        widths[gives_way] -= max(0, min(over, widths[gives_way] - 1))
    lines = []
    for row in rows:
        *before, last = (cut(cell, widths[n]) if n == gives_way else cell for n, cell in enumerate(row))
        head = indent + "".join(
            f"{cell.rjust(width) if n in right else cell.ljust(width)}  "
            for n, (cell, width) in enumerate(zip(before, widths, strict=False))
        )
        if len(row) == columns and columns - 1 in right:
            lines.append(f"{head}{last.rjust(widths[-1])}".rstrip())
            continue
        room = max(COLUMNS, len(head) + _LEAST)
        folds = textwrap.wrap(last, room, initial_indent=head, subsequent_indent=" " * len(head))
        lines += [line.rstrip() for line in folds or [head]]
    return lines


def cut(line: str, room: int = COLUMNS) -> str:
    """Return ``line``, cut to ``room`` characters with an ellipsis if it is longer."""
    return line if len(line) <= room else line[: room - 1] + "…"
