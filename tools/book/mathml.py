"""Formulas as MathML, which browsers draw without a library: the small part of TeX that the lessons use."""

import re
from html import escape

from book import BookError

_TOKEN = re.compile(r"\\text\{[^{}]*\}|\\(?:begin|end)\{\w+\}|\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S", re.DOTALL)
_SYMBOLS = {
    r"\alpha": "<mi>α</mi>",
    r"\beta": "<mi>β</mi>",
    r"\delta": "<mi>δ</mi>",
    r"\ell": "<mi>ℓ</mi>",
    r"\cdot": "<mo>⋅</mo>",
    r"\exp": "<mi>exp</mi>",
    r"\ge": "<mo>≥</mo>",
    r"\le": "<mo>≤</mo>",
    r"\log": "<mi>log</mi>",
    r"\max": "<mi>max</mi>",
    r"\min": "<mi>min</mi>",
    r"\odot": "<mo>⊙</mo>",
    r"\partial": "<mo>∂</mo>",
    r"\sum": "<mo>∑</mo>",
    r"\times": "<mo>×</mo>",
    r"\to": "<mo>→</mo>",
    r"\top": "<mo>⊤</mo>",
    r"\,": '<mspace width="0.17em"/>',
    r"\ ": '<mspace width="0.33em"/>',
    r"\quad": '<mspace width="1em"/>',
    "-": "<mo>−</mo>",
}
_BEGIN, _END = r"\begin{aligned}", r"\end{aligned}"
_STYLES = (r"\textstyle", r"\displaystyle")  # indices stand beside their sign either way


def mathml(tex: str, display: bool) -> str:
    """Return a formula as a <math> element; ``display`` gives it a line of its own.

    Raises BookError for a command that the table above lacks, or for braces that do not match.
    """
    tokens = _TOKEN.findall(tex)[::-1]  # the next one is at the end
    try:
        drawn = _row(tokens)
    except IndexError:
        raise BookError(f"the formula {tex!r} ends too early: is there a brace without its partner?") from None
    if tokens:
        raise BookError(f"the formula {tex!r} has {tokens[-1]!r} without its partner.")
    block = ' display="block"' if display else ""
    return f"<math{block}>{drawn}</math>"


def _row(tokens: list[str], *ends: str) -> str:
    """Take tokens up to one of ``ends``, which stays, or to the last; return what they draw as one element."""
    parts = []
    while tokens and tokens[-1] not in (*ends, "}", _END):
        parts.append(_with_indices(tokens))
    return "<mrow>" + "".join(parts) + "</mrow>"


def _with_indices(tokens: list[str]) -> str:
    base, low, high = _atom(tokens), "", ""
    while tokens and tokens[-1] in ("_", "^"):
        if tokens.pop() == "_":
            low = _atom(tokens)
        else:
            high = _atom(tokens)
    if low and high:
        return f"<msubsup>{base}{low}{high}</msubsup>"
    if low:
        return f"<msub>{base}{low}</msub>"
    return f"<msup>{base}{high}</msup>" if high else base


def _atom(tokens: list[str]) -> str:
    token = tokens.pop()
    if token == "{":
        inside = _row(tokens)
        tokens.pop()
        return inside
    if token in _STYLES:
        return ""
    if token in _SYMBOLS:
        return _SYMBOLS[token]
    if token == r"\frac":
        return f"<mfrac>{_atom(tokens)}{_atom(tokens)}</mfrac>"
    if token == r"\sqrt":
        return f"<msqrt>{_atom(tokens)}</msqrt>"
    if token == _BEGIN:
        return _aligned(tokens)
    if token.startswith(r"\text{"):
        return f"<mtext>{escape(token[6:-1])}</mtext>"
    if token.startswith("\\"):
        raise BookError(f"the book does not know the TeX command {token}: add it to tools/book/mathml.py.")
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    return f"<mi>{token}</mi>" if token.isalpha() else f"<mo>{escape(token)}</mo>"


def _aligned(tokens: list[str]) -> str:
    """Draw lines of columns, which align to the right and to the left in turns."""
    lines = [[_row(tokens, "&", r"\\")]]
    while (end := tokens.pop()) != _END:
        if end == r"\\":
            lines.append([])
        lines[-1].append(_row(tokens, "&", r"\\"))
    sides = ("right", "left")
    cells = [
        "".join(_cell(cell, sides[n % 2], apart=n % 2 == 0 and n) for n, cell in enumerate(line)) for line in lines
    ]
    return "<mtable>" + "".join(f"<mtr>{line}</mtr>" for line in cells) + "</mtable>"


def _cell(inside: str, side: str, apart: bool) -> str:
    """Draw a cell of a table; those that begin a new pair of columns stand apart from the pair before."""
    left = "2em" if apart else "0"
    return f'<mtd style="text-align: {side}; padding: 0.2em 0 0.2em {left}">{inside}</mtd>'
