"""The matrix of bugs and judges: as a table for a terminal, and as docs/zoo.md."""

import itertools
import textwrap

import jax

from course_lib import compiler
from zoo import chips_page, gpu_page, sparse_page
from zoo.bug import Bug
from zoo.examine import BARE, COLUMNS, Cell

Rows = list[dict[str, Cell]]

_INTRODUCTION = """\
# The bug zoo

{bugs} kernels, each with one bug planted in it: the mistakes that people make, small enough to run in a moment. They
live in `tests/zoo`, one file for each kind. Each was shown to the four judges of `course_lib.judges`, and each judge
was asked alone. In the course they go in the order of the columns and stop at the first that refuses, so what a
learner reads comes from the leftmost; its answer is in **bold**.

| word | of a judge | of `interpret=True` |
|---|---|---|
| refuses | it says no, and what is wrong | |
| - | it sees nothing wrong | |
| passes | | the result is the reference's, by `np.allclose(rtol=1e-2)` |
| wrong | | the result is another one |
| raises | | there is no result, but an error of JAX's own |
| hangs, crashes | no answer within {limit:g} s; the process died | the same |

The last column is what most tests of kernels do: run with `interpret=True`, and compare. Where it says "passes", such a
test would have let the bug through.

Everything below was computed by `python tools/bug_zoo.py --write`, with jax {jax} and libtpu {libtpu}, and no TPU.
`make zoo` prints it. tests/test_zoo.py computes it again, and asks of every refusal that it names the cause in words.
"""

_HOW_TO_ADD = """\
## Adding a bug

Write the wrong kernel into the file of its kind in `tests/zoo`, as a learner would write it, and add a `Bug` to the
file's `BUGS`:

- `fn` and `reference` take the same `args`; the reference is in jnp, in the precision that is asked for. Small arrays:
  all five answers together should take about a second. With `gradient=True` the gradient of `fn` is what is judged.
- `caught_by` is the first judge, from the left, that refuses it.
- `says` is a regular expression for what a learner should read: the cause, in terms of blocks, refs and grid steps. "is
  nan" is a symptom, not a cause. Where the judge's sentence falls short, mend the judge.
- If nobody can see the bug without a chip, `caught_by` is None and `undetectable` says why.

Then `python tools/bug_zoo.py --write` and `make test`.
"""


def table(bugs: tuple[Bug, ...], rows: Rows) -> str:
    """The matrix in aligned columns, with a line for each kind, and the totals."""
    width = 2 + max(len(bug.name) for bug in bugs)
    lines = [_line("", COLUMNS, width)]
    for kind, group in _by_kind(bugs, rows):
        lines += ["", kind]
        lines += [_line("  " + bug.name, [row[c].word for c in COLUMNS], width) for bug, row in group]
    lines += ["", *(f"{column}: {total}" for column, total in _totals(rows).items())]
    return "\n".join(lines)


def _line(name: str, words, width: int) -> str:
    return f"{name:{width}}  " + " ".join(f"{word:<9}" for word in words).rstrip()


def page(bugs: tuple[Bug, ...], rows: Rows, limit_s: float) -> str:
    """The whole of docs/zoo.md."""
    versions = {"jax": jax.__version__, "libtpu": compiler.libtpu_version()}
    parts = [
        _INTRODUCTION.format(bugs=len(bugs), limit=limit_s, **versions),
        "## Totals\n\n| column | of all " + str(len(bugs)) + " |\n|---|---|\n" + _totals_rows(rows),
        "## Seen by nobody\n\n" + _undetectable(bugs),
        "## The matrix\n\n" + "\n".join(_section(kind, group) for kind, group in _by_kind(bugs, rows)),
        gpu_page.section(),
        chips_page.section(),
        sparse_page.section(),
        _HOW_TO_ADD,
    ]
    return "\n".join(parts)


def _totals_rows(rows: Rows) -> str:
    return "".join(f"| {_header(column)} | {total} |\n" for column, total in _totals(rows).items())


def _totals(rows: Rows) -> dict[str, str]:
    """For each column how many, in words."""
    first = [_first(row) for row in rows]
    totals = {}
    for judge in COLUMNS[:-1]:
        refused = [row for row in rows if row[judge].word == "refuses"]
        alone = sum(all(row[j].word != "refuses" for j in COLUMNS[:-1] if j != judge) for row in refused)
        totals[judge] = f"refuses {len(refused)}; is the first to refuse {first.count(judge)}, the only one {alone}"
    words = sorted({row[BARE].word for row in rows})
    totals[BARE] = ", ".join(f"{word} {sum(row[BARE].word == word for row in rows)}" for word in words)
    return totals


def _first(row: dict[str, Cell]) -> str | None:
    return next((judge for judge in COLUMNS[:-1] if row[judge].word == "refuses"), None)


def _undetectable(bugs: tuple[Bug, ...]) -> str:
    items = [f"**{bug.name}** ({bug.kind}): {bug.undetectable}" for bug in bugs if bug.caught_by is None]
    wrapped = [textwrap.fill(item, 118, initial_indent="- ", subsequent_indent="  ") for item in items]
    return "\n".join(wrapped or ["Every bug is refused by a judge."]) + "\n"


def _section(kind: str, group: list[tuple[Bug, dict[str, Cell]]]) -> str:
    file = kind.replace(" ", "_") + ".py"
    lines = [
        f"### {kind[0].upper() + kind[1:]} ([{file}](../tests/zoo/{file}))\n",
        "| bug | " + " | ".join(map(_header, COLUMNS)) + " |",
    ]
    lines.append("|---" * (1 + len(COLUMNS)) + "|")
    lines += [row_line(bug, row) for bug, row in group]
    return "\n".join(lines) + "\n"


def row_line(bug: Bug, row: dict[str, Cell]) -> str:
    """The line of one bug in the matrix: the first judge that refuses it in bold."""
    first = _first(row)
    cells = [f"**{row[c].word}**" if c == first else row[c].word for c in COLUMNS]
    return f"| {bug.name} | " + " | ".join(cells) + " |"


def written_row(text: str, bug: Bug) -> dict[str, Cell]:
    """What the page says of a bug, without the sentences. Raises StopIteration where it has no line."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {bug.name} | "))
    words = line.removeprefix(f"| {bug.name} | ").removesuffix(" |").split(" | ")
    return {column: Cell(word.strip("*")) for column, word in zip(COLUMNS, words, strict=True)}


def _header(column: str) -> str:
    return f"`{column}`" if column == BARE else column


def _by_kind(bugs: tuple[Bug, ...], rows: Rows) -> list[tuple[str, list[tuple[Bug, dict[str, Cell]]]]]:
    pairs = zip(bugs, rows, strict=True)
    return [(kind, list(group)) for kind, group in itertools.groupby(pairs, key=lambda pair: pair[0].kind)]
