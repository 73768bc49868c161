"""Verdicts, hints and the doctor in a notebook: cards with a coloured edge, a sign, and a line for each part.

They suit light and dark pages: the text has the page's colour, and the tint is transparent. Elsewhere text is printed.
"""

import re
from collections.abc import Iterable
from html import escape

from course_lib import environment

GREEN, AMBER, BLUE, GREY = "#2e8b57", "#c77700", "#3b7dd8", "#8a94a0"
SIGNS = {"passed": ("✓", GREEN), "not yet": ("○", AMBER), "not attempted": ("…", GREY)}
_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_CODE = re.compile(r"checks\.\w+\([^()]*\)")
_INDEX = re.compile(r"\(\d+(, \d+)+\)")
# The first sentence of a message says where; what follows says why.
_FIRST_SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z0-9(\"])")


def shown(html: str, plain: str) -> None:
    """Show ``html`` in a notebook, with ``plain`` beside it for readers that draw nothing; print ``plain`` elsewhere.

    Under a grader it is printed too, because that is what a grader reads.
    """
    if not environment.in_a_notebook() or environment.under_a_grader():
        print(plain)
        return
    from IPython.display import display

    display({"text/html": html, "text/plain": plain}, raw=True)


def verdict(said) -> str:
    """Return the card of a ``checks.result.Result``: outcome and judge, place, cause, and what next."""
    sign, colour = SIGNS[said.outcome]
    first = f"<b>{escape(said.id)} {said.outcome}</b>" + (f": {_words(said.headline)}" if said.headline else ".")
    lines = [_words(line) for line in parts_of(said.message)]
    if said.next:
        lines.append(f"<b>Next:</b> {_words(said.next)}")
    if said.hint:
        lines.append(f'<span style="opacity: 0.75">{_words(said.hint)}</span>')
    return card(sign, colour, first, lines)


def parts_of(message: str) -> list[str]:
    """Return the parts of a message that stand on lines of their own: the first sentence, and the rest."""
    if not message:
        return []
    first, *rest = message.split("\n", 1)
    return [*_FIRST_SENTENCE.split(first, maxsplit=1), *rest]


def hint(id: str, number: int, count: int, words: str) -> str:
    """Return the card of a hint."""
    return card("?", BLUE, f"<b>{escape(id)}, hint {number} of {count}</b>", [_words(words)])


def rows(title: str, found: Iterable[tuple[str, str, bool | None]], last: str) -> str:
    """Return a card with a table of (name, words, whether it works; None if that is no question) and a last line."""
    found = list(found)
    all_well = all(works is not False for _, _, works in found)
    marks = {True: f'<span style="color: {GREEN}">✓</span>', False: f'<span style="color: {AMBER}">○</span>', None: ""}
    cell = "text-align: left; vertical-align: top; padding: 1px 10px 1px 0; border: 0"
    body = "".join(
        f'<tr style="background: none"><td style="{cell}">{marks[works]}</td><td style="{cell}">{escape(name)}</td>'
        f'<td style="{cell}">{_words(words)}</td></tr>'
        for name, words, works in found
    )
    style = "border-collapse: collapse; margin: 4px 0; font-size: inherit; color: inherit"
    table = f'<table style="{style}">{body}</table>'
    sign, colour = ("✓", GREEN) if all_well else ("○", AMBER)
    return card(sign, colour, f"<b>{escape(title)}</b>", [table, _words(last)])


def card(sign: str, colour: str, first: str, lines: Iterable[str]) -> str:
    """Return a card of HTML lines."""
    style = (
        f"border-left: 4px solid {colour}; background: {colour}1f; border-radius: 3px; padding: 7px 12px; "
        f"max-width: 760px; font-family: {_SANS}; font-size: 14px; line-height: 1.45; color: inherit"
    )
    mark = f'<span aria-hidden="true" style="color: {colour}; font-weight: 700">{sign}</span>'
    body = "".join(f'<div style="margin-top: 3px; white-space: pre-wrap">{line}</div>' for line in lines)
    return f'<div class="course-verdict" style="{style}"><div>{mark} {first}</div>{body}</div>'


def _words(text: str) -> str:
    """Return text as HTML, with calls of ``checks`` as code; no line ends inside an index such as (0, 1)."""
    text = _INDEX.sub(lambda found: found[0].replace(" ", "\u00a0"), text)
    code = '<code style="font-size: 13px; background: none; padding: 0; color: inherit">{}</code>'
    found, end = [], 0
    for call in _CODE.finditer(text):
        found += [escape(text[end : call.start()]), code.format(escape(call[0]))]
        end = call.end()
    return "".join([*found, escape(text[end:])])
