"""The docstring of every function in course_lib begins with a verb in the imperative, or with "Whether"."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "course_lib"
VERBS = """
    accept accumulate add align allocate allow announce answer append apply ask assemble assign attach average
    begin bind broadcast build
    call cast change chart check choose clear close collect combine commit compare compile compress compute
    convert copy count cover create cut
    declare decorate define delete demand describe differentiate dispatch display divide do draw drop dump
    encode end enter escape estimate evaluate explain export extract extrapolate
    fail fetch fill filter find fit flatten fold follow forget format
    gather generate get give go grade group
    handle hold
    import initialize inline insert install interpret iterate
    join judge
    keep kill
    label launch leave let lift list load lock look lower
    make map mark match measure merge move multiply
    name normalize note number
    open order
    pack pad parse partition pass permute pick place plan plant plot predict prefetch prepare pretend print produce
    project protect prove provide put
    quantize quote
    raise read rebuild record reduce refuse register reject release remember remove rename render
    reorder repeat replace report require reserve reset reshape resolve restore return reverse reword
    rewrite rotate round run
    sample save say scale scan scatter score search select send serve set shift shorten show silence simulate
    skip sort split spread stack start step stop store subtract suggest sum switch
    take tell test time trace transfer transform translate transpose try turn
    undo unpack update use
    validate verify visit
    wait walk warn watch wrap write
    yield
""".split()  # in alphabetical order
NOT_VERBS = re.compile(
    r"an?|the|this|th[eo]se|that|its|our|wh.*|how|of|in|on|at|for|from|with|as|each|every|all|.*(ing|ed|[^s]s)"
)
NO_OBJECT = ("of", "is", "are")  # "Count of …" and "Name is …" begin with nouns
PROPERTIES = ("property", "cached_property")  # these name what they hold


def part_of(file: pathlib.Path) -> str:
    """Return the package or top-level file of course_lib that ``file`` belongs to."""
    return file.relative_to(LIBRARY).parts[0]


PARTS = sorted({part_of(file) for file in LIBRARY.rglob("*.py")})


def summaries(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and first line of each docstring of a function or method, except those of properties."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (said := ast.get_docstring(node)) is None:
            continue
        if not any(ast.unparse(decorator).rpartition(".")[2] in PROPERTIES for decorator in node.decorator_list):
            yield node.lineno, said.partition("\n")[0]


def is_imperative(summary: str) -> bool:
    """Whether a summary begins with one of VERBS, in upper case, and its object, or with "Whether"."""
    first, _, rest = summary.partition(" ")
    if first == "Whether":
        return bool(rest)
    return first[:1].isupper() and first.rstrip(".,").lower() in VERBS and rest.partition(" ")[0] not in NO_OBJECT


def wrong(part: str) -> list[str]:
    """Return "file:line: summary" for each docstring of a part that begins with something else."""
    files = [file for file in sorted(LIBRARY.rglob("*.py")) if part_of(file) == part]
    return [
        f"{file.relative_to(LIBRARY)}:{line}: {summary}"
        for file in files
        for line, summary in summaries(file.read_text())
        if not is_imperative(summary)
    ]


@pytest.mark.parametrize("part", PARTS)
def test_docstrings_of_functions_begin_with_a_verb(part):
    found = wrong(part)
    assert not found, 'Begin with a verb in the imperative (VERBS has those in use) or "Whether":\n' + "\n".join(found)


def test_the_verbs_are_verbs_in_order():
    assert VERBS == sorted(set(VERBS))
    assert not [verb for verb in VERBS if NOT_VERBS.fullmatch(verb)]


@pytest.mark.parametrize("summary", ["Return the blocks of x.", "Whether x is zero.", "Stop.", "Count the steps."])
def test_an_imperative_is_accepted(summary):
    assert is_imperative(summary)


@pytest.mark.parametrize(
    "summary", ["The blocks of x.", "Returns the blocks.", "return it.", "Count of steps.", "Whether", "", "(m, k, n)."]
)
def test_anything_else_is_refused(summary):
    assert not is_imperative(summary)


def test_functions_anywhere_are_found_and_properties_left_out():
    source = '''
class Chip:
    @property
    def size(self):
        """Bytes."""

    @functools.cached_property
    def text(self):
        """Words."""

    def method(self):
        """Nouns
        of a method."""
        async def inner():
            """Nouns of a function inside."""
'''
    assert list(summaries(source)) == [(11, "Nouns"), (14, "Nouns of a function inside.")]
