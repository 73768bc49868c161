"""Code with some of its words in colours; book.css says which."""

import itertools
from html import escape

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

# Of the many kinds of token, those that get a colour: elements for the others would double the weight of a page.
_COLOURED = {
    "k": (Keyword, Operator.Word),
    "s": (String,),
    "c": (Comment,),
    "m": (Number, Name.Decorator),
    "b": (Name.Builtin, Name.Function, Name.Class, Name.Exception),
}


def code(text: str, language: str = "python") -> str:
    """Return a <pre> of ``text``, coloured if Pygments knows the language."""
    return f'<pre class="code"><code>{_coloured(text.rstrip("\n"), language)}</code></pre>'


def _coloured(text: str, language: str) -> str:
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(text, quote=False)
    parts = []
    for name, tokens in itertools.groupby(lexer.get_tokens(text), key=lambda token: _class_of(token[0])):
        words = escape("".join(word for _, word in tokens), quote=False)
        parts.append(f'<span class="{name}">{words}</span>' if name else words)
    return "".join(parts)


def _class_of(kind) -> str:
    return next((name for name, kinds in _COLOURED.items() if any(kind in each for each in kinds)), "")
