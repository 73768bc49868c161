"""Code with its words in colours; book.css says which."""

from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_FORMATTER = HtmlFormatter(nowrap=True)


def code(text: str, language: str = "python") -> str:
    """Return a <pre> of ``text``, coloured if Pygments knows the language."""
    try:
        inside = highlight(text, get_lexer_by_name(language, stripnl=False), _FORMATTER) if language else escape(text)
    except ClassNotFound:
        inside = escape(text)
    return f'<pre class="code"><code>{inside.rstrip("\n")}</code></pre>'
