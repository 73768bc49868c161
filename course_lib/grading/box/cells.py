"""The selection of a notebook's own cells that must run before an answer: those that define names it may use."""

import ast

FIRST = "first-cell"  # locates the library, which the box already has
_SHOWS = {"checks", "display", "print", "viz"}  # names of calls whose only purpose is to show something


def defining(source: str) -> str:
    """Return the cell without prints, pictures, loops and try statements. It may be empty."""
    return "\n".join(ast.unparse(node) for node in ast.parse(source).body if not _only_shows(node))


def _only_shows(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        return not names or names[0] in _SHOWS
    return isinstance(node, ast.Try | ast.For)
