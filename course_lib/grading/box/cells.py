"""Of a notebook's own cells, what must run before an answer: whatever defines names that the answer may use."""

import ast

FIRST = "first-cell"  # finds the library, which is there


def defining(source: str) -> str:
    """The cell without what shows something: calls, loops and trials at its top level. It may be empty."""
    shows = ast.Expr | ast.Try | ast.For
    return "\n".join(ast.unparse(node) for node in ast.parse(source).body if not isinstance(node, shows))
