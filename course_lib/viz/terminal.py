"""Pictures of block characters, for terminals; no line is longer than 94 characters."""

COLUMNS = 94  # JupyterLab breaks longer lines in mid-word
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = 30) -> str:
    """``share`` of 1 as a bar of ``width`` characters, in eighths of a character; what is there always shows."""
    eighths = round(8 * width * min(max(share, 0), 1))
    if share > 0:
        eighths = max(eighths, 1)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width, "·")


def table(rows: list[list[str]], right: frozenset[int] | set[int] = frozenset(), room: int = COLUMNS) -> list[str]:
    """Rows of cells as lines with straight columns; columns in ``right`` are flush right; no line exceeds ``room``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, range(len(row)), strict=True)
        line = "  ".join(cell.rjust(w) if n in right else cell.ljust(w) for cell, w, n in cells)
        lines.append(cut(line.rstrip(), room))
    return lines


def cut(line: str, room: int = COLUMNS) -> str:
    """``line``, or as much of it as fits and an ellipsis."""
    return line if len(line) <= room else line[: room - 1] + "…"
