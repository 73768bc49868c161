"""Of a notebook's own cells, what must run before an answer: whatever defines names that the answer may use."""

import ast

FIRST = "first-cell"  # finds the library, which is there
_SHOWS = {"checks", "display", "print", "viz"}  # what is called for what it shows


def defining(source: str) -> str:
    """The cell without what only shows something: prints and pictures, loops and trials. It may be empty."""
    return "\n".join(ast.unparse(node) for node in ast.parse(source).body if not _only_shows(node))


def _only_shows(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        return not names or names[0] in _SHOWS
    return isinstance(node, ast.Try | ast.For)
