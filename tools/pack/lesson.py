"""A lesson in parts, and its exercises, as slides and handouts need them."""

import ast
import dataclasses
import re
import textwrap
from collections.abc import Iterator

import nbformat
from book.text import blocks
from building import ROOT

from pack import EXERCISE, PackError

OPENING, QUESTIONS = "The opening", "Five questions"
_END = "Now you"  # the exercises follow, and what a lesson has beyond its plan
_FOLD = re.compile(r"<details><summary>(.*?)</summary>\s*(.*?)\s*</details>", re.S)
_HEADING = re.compile(rf"^## ({EXERCISE.pattern}) (.+)$", re.M)
_DEFINES = re.compile(r"> \*\*[^*]+\*\*:")
_ASKS = re.compile(r"\*\*(Predict|Guess)|\?\*\*|\?$|[Ww]rite down|[Bb]efore you run")
_LINES = 30  # of a kernel that can be read from the last row


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of text: the kind of its Markdown, "question", "rule", "word" or "fold", and its source."""

    kind: str
    source: str


@dataclasses.dataclass
class Part:
    """What stands between two headings, or from a text behind code to the next: blocks, then code cells."""

    heading: str
    blocks: list[Block] = dataclasses.field(default_factory=list)
    cells: list[nbformat.NotebookNode] = dataclasses.field(default_factory=list)
    begins: bool = False  # with a heading

    @property
    def text(self) -> str:
        return "\n".join(block.source for block in self.blocks)

    @property
    def asks(self) -> bool:
        return any(block.kind == "question" for block in self.blocks)


@dataclasses.dataclass(frozen=True)
class Exercise:
    """The task of an exercise: its title without the number, its line of difficulty and minutes, and the text."""

    title: str
    takes: str
    text: str


def parts(notebook: nbformat.NotebookNode) -> list[Part]:
    """Return the parts of a lesson up to its exercises; the first one has its title and what comes with it."""
    found = [Part(OPENING, begins=True)]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found[-1].cells.append(cell)
            continue
        if found[-1].cells:
            found.append(Part(found[-1].heading))
        for kind, source in blocks(cell.source):
            if kind == "heading" and not source.startswith("# "):
                heading = source.lstrip("# ")
                if heading == _END:
                    return found
                found.append(Part(heading, begins=True))
            else:
                found[-1].blocks.append(Block(_kind(kind, source), source))
    return found


def title(notebook: nbformat.NotebookNode) -> tuple[str, str]:
    """Return the title of a lesson, and the sentence about its minutes."""
    first, second, *_ = blocks(next(cell.source for cell in notebook.cells if cell.cell_type == "markdown"))
    return first[1].lstrip("# "), re.split(r"(?<=\.)\s", second[1].strip("*"))[0]


def exercises(stem: str) -> dict[str, Exercise]:
    """Return the exercises of a lesson by id. Raise PackError if one has no line of difficulty."""
    source = f"exercises/{stem}.ipynb"
    found = {}
    for cell in nbformat.read(ROOT / source, 4).cells:
        if cell.cell_type == "markdown" and (heading := _HEADING.search(cell.source)):
            takes = re.search(r"^\*((?:Difficulty|No points).+?)\*$", cell.source, re.M)
            if takes is None:
                example = "*Difficulty 2 of 5. 8 minutes, 14 lines.*"
                raise PackError(f"{source}: {heading[1]} needs a line such as {example}, which says how long it takes.")
            found[heading[1]] = Exercise(heading[2], takes[1], cell.source[takes.end() :].strip())
    return found


def fold(source: str) -> tuple[str, str]:
    """Return the question and the answer of a <details>. Raise PackError if it has another form."""
    if (found := _FOLD.search(source)) is None:
        raise PackError(f"this fold is not <details><summary>question</summary>answer</details>: {source[:80]!r}")
    return found[1], found[2]


def is_predicted(cell: nbformat.NotebookNode) -> bool:
    """Whether the output of a cell is to be predicted."""
    return bool(cell.metadata.get("jupyter", {}).get("outputs_hidden"))


def is_folded(cell: nbformat.NotebookNode) -> bool:
    """Whether the source of a cell is hidden."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def kernels(cell: nbformat.NotebookNode) -> str:
    """Return the source of the kernels that a cell defines, if a room can read it; else ""."""
    texts = [textwrap.dedent(text) for text in _kernels(cell.source)]
    code = "\n\n\n".join(texts)
    return code if code.count("\n") < _LINES else ""


def _kernels(source: str) -> Iterator[str]:
    inside = 0  # the last line of a kernel that holds others
    for node in sorted(_functions(ast.parse(source)), key=lambda node: node.lineno):
        is_kernel = any(argument.arg.endswith("_ref") for argument in node.args.args)
        if is_kernel and node.lineno > inside:
            inside = node.end_lineno
            yield "\n".join(source.split("\n")[node.lineno - 1 : node.end_lineno])


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _kind(kind: str, source: str) -> str:
    if kind == "blockquote":
        return "word" if _DEFINES.match(re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", source)) else "rule"
    if kind == "html_block" and "<details>" in source:
        return "fold"
    if kind == "paragraph" and _ASKS.search(source):
        return "question"
    return kind
