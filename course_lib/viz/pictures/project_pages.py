"""The report on a project as two pages of HTML: bars for the times, and tables."""

from html import escape

from course_lib.viz.common import draw

_COLOURS = {"your kernel": draw.BLUE}  # the others are grey
_GREY = "#9aa5b1"
_BAR = 300  # pixels of the longest bar
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_PRINTED = """
body { margin: 2rem auto; max-width: 50rem; background: #ffffff }
.sheet { break-after: page }
.sheet:last-child { break-after: auto }
@media print { body { margin: 0; max-width: none; print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""


def html(pages) -> str:
    """Return the pages of a ``checks.stages.pages.Pages``, one below the other."""
    card = (
        f"background: {draw.PAPER}; color: {draw.INK}; border: 1px solid {draw.LINE}; border-radius: 6px; "
        f"padding: 18px; max-width: 760px; font-family: {draw.SANS}; font-size: 13px"
    )
    return draw.in_a_card(_first(pages) + _second(pages), card)


def document(pages) -> str:
    """Return the pages as a document of their own, without scripts."""
    body = f"color: {draw.INK}; font-family: {draw.SANS}; font-size: 13px"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(f"{pages.id} {pages.title}")}</title>
<style>{_PRINTED}</style>
</head>
<body style="{body}">
{_first(pages)}
{_second(pages)}
</body>
</html>
"""


def _first(pages) -> str:
    contract = "".join(f'<p style="white-space: pre-wrap; margin: 6px 0">{escape(line)}</p>' for line in pages.contract)
    binds = "".join(f'<p style="margin: 4px 0">{escape(line)}</p>' for line in pages.binds)
    title = f'<h1 style="font-size: 17px; margin: 0 0 8px">{escape(f"{pages.id} {pages.title}")}</h1>'
    return f'<div class="sheet">{title}{contract}{_heading("Predicted and reached")}{_times(pages)}{binds}</div>'


def _second(pages) -> str:
    tables = "".join(_heading(title) + (_table(rows) if rows else "<p>none yet</p>") for title, rows in pages.tables)
    kept = "".join(f'<p style="color: {draw.MUTED}; margin: 4px 0">{escape(line)}</p>' for line in pages.kept)
    return f'<div class="sheet">{tables}{kept}</div>'


def _heading(words: str) -> str:
    return f'<h2 style="font-size: 14px; margin: 16px 0 6px">{escape(words)}</h2>'


def _times(pages) -> str:
    """Return a row with a bar for each time; the bars have one scale."""
    longest = max((value for _, value in pages.seconds), default=1.0)
    rows = []
    for (who, seconds), (_, *words) in zip(pages.seconds, pages.times, strict=True):
        width, colour = max(1, round(_BAR * seconds / longest)), _COLOURS.get(who, _GREY)
        bar = f'<span style="display: inline-block; width: {width}px; height: 9px; background: {colour}"></span>'
        rows.append([escape(who), bar, *map(escape, words)])
    return _rows(rows)


def _table(rows) -> str:
    return _rows([list(map(escape, row)) for row in rows])


def _rows(rows: list[list[str]]) -> str:
    """Return a table of cells that are markup already."""
    style = f"text-align: left; vertical-align: top; padding: 3px 10px 3px 0; border-top: 1px solid {draw.LINE}"
    lines = ("".join(f'<td style="{style}">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f'<tr style="background: none">{line}</tr>' for line in lines)
    return f'<table style="border-collapse: collapse; font-size: 12px; color: {draw.INK}">{body}</table>'
