"""The common parts of the HTML reports: one file without scripts, fit for print, with all text escaped."""

import html

from course_lib.grading.rows import ERROR, NOT_ATTEMPTED, NOT_YET, PASSED, clean

# No scripts, forms or external pictures, even if some text should slip through as markup.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

# Each outcome has a word, a sign, a border and a colour (Okabe and Ito's, darkened for text).
SIGNS = {PASSED: "✓", NOT_YET: "✗", NOT_ATTEMPTED: "○", ERROR: "!"}
_CLASSES = {PASSED: "passed", NOT_YET: "not-yet", NOT_ATTEMPTED: "not-attempted", ERROR: "error"}

_STYLE = """
:root { color-scheme: light }
body { font: 15px/1.45 system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif;
  color: #1f2933; background: #ffffff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: 1.05rem; margin: 0 }
p { margin: .4rem 0; overflow-wrap: anywhere }
pre { font: 13px/1.4 ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  background: #f5f7f9; padding: .6rem .8rem; margin: .5rem 0; white-space: pre-wrap; overflow-wrap: anywhere }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; width: 100% }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-top: 1px solid #c9d1d9; vertical-align: top;
  overflow-wrap: anywhere }
.name { min-width: 15rem }
td.whole { white-space: nowrap }
th { font-weight: 600; border-top: 0; overflow-wrap: normal }
td p { margin: .1rem 0 }
.number { text-align: right; font-variant-numeric: tabular-nums }
td.number { white-space: nowrap }
.muted { color: #56616d; font-size: 13px }
section { border: 1px solid #c9d1d9; border-left: 6px solid #56616d; padding: .7rem 1rem; margin: 1rem 0 }
section.passed { border-left-color: #009e73 }
section.not-yet { border-left-color: #d55e00; border-left-style: double }
section.not-attempted { border-left-color: #9aa5b1; border-left-style: dotted }
section.error { border-left-color: #1f2933; border-left-style: dashed }
.outcome { white-space: nowrap; font-weight: 600 }
.outcome.passed { color: #00694d }
.outcome.not-yet { color: #a34700 }
.outcome.not-attempted { color: #56616d }
pre, td, p, h1, h2 { unicode-bidi: isolate }
@media print {
  body { margin: 0; max-width: none; font-size: 11pt; print-color-adjust: exact; -webkit-print-color-adjust: exact }
  pre { font-size: 9pt }
  h2, tr { break-inside: avoid; break-after: avoid }
  a { color: inherit; text-decoration: none }
}
"""


def page(title: str, body: str) -> str:
    """Return a whole document. ``title`` is text, ``body`` markup."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def text(value: object, limit: int = 10_000) -> str:
    """Return any text as markup that shows it: cleaned, cut and escaped, quotes too."""
    return html.escape(clean(str(value), limit))


def style_of(outcome: str) -> str:
    """Return the CSS class for an outcome."""
    return _CLASSES[outcome]


def outcome(value: str) -> str:
    """Return an outcome as a sign, a word and a colour."""
    return f'<span class="outcome {style_of(value)}">{SIGNS[value]} {value}</span>'


def table(head: tuple[str, ...], rows: list[tuple[str, ...]], columns: dict[int, str]) -> str:
    """Return a table of markup. ``columns`` is {number of a column: its class}."""

    def cells(tag: str, row: tuple[str, ...]) -> str:
        starts = [f'{tag} class="{columns[n]}"' if n in columns else tag for n in range(len(row))]
        return "".join(f"<{start}>{cell}</{tag}>" for start, cell in zip(starts, row, strict=True))

    lines = [f"<tr>{cells('td', row)}</tr>" for row in rows]
    return (
        f"<table>\n<thead><tr>{cells('th', head)}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"
    )
