"""docs/glossary.md: every word where a lesson defines it, read off the lessons' sources.

A definition is a box in a text cell, one word a line, where the word first stands:

    # > **lane**: one of the 128 columns of a vector register.
"""

import re

from building import ROOT, BuildError, relative

PATH = "docs/glossary.md"
_CELL = re.compile(r"^# %% \[markdown\].*\n((?:#.*\n?)*)", re.M)
_LINE = re.compile(r"\*\*([^*]+)\*\*(?: \(([^)]+)\))?: (.+)")
_HEAD = """\
# Words

{count} words of this course, each in the sentence that defines it, with the lesson where it stands. `make build` makes
this page from the boxes in the lessons: edit it there.

| word | what it is | lesson |
|---|---|---|
"""


def page() -> str:
    """The whole page. Raises BuildError where two lessons define one word, or a box is not understood."""
    rows, seen = [], {}
    for source in sorted(ROOT.glob("notebooks/src/[0-9]*.py")):
        for word, meaning in definitions(source.read_text(), relative(source)):
            if word.lower() in seen:
                first = seen[word.lower()]
                raise BuildError(f"{relative(source)} defines {word!r} again: it stands in {first} already.")
            seen[word.lower()] = relative(source)
            link = f"[{source.stem[:2]}](../notebooks/{source.stem}.ipynb)"
            rows.append((word.lower(), f"| {word} | {meaning} | {link} |\n"))
    return _HEAD.format(count=len(rows)) + "".join(row for _, row in sorted(rows))


def definitions(text: str, name: str) -> list[tuple[str, str]]:
    """(word, what it is) of each definition in a percent source, in order. A box without one is a quotation.

    Raises BuildError for a box that begins with a word in bold and a colon but has another line that is none.
    """
    found = []
    for cell in _CELL.findall(text):
        for box in _boxes(cell):
            defined = [_LINE.fullmatch(line) for line in box]
            if not any(defined):
                continue
            if not all(defined):
                wrong = next(line for line, match in zip(box, defined, strict=True) if match is None)
                raise BuildError(f"{name}: {wrong!r} is no definition. Say **word**: what it is.")
            found += [(match[1] + (f" ({match[2]})" if match[2] else ""), match[3]) for match in defined]
    return found


def _boxes(cell: str) -> list[list[str]]:
    """The quotations of a text cell as lists of lines; a line that does not begin a word goes on with the last one."""
    boxes, last = [], ""
    for line in cell.splitlines():
        quoted = re.fullmatch(r"# > ?(.*)", line)
        if quoted is None:
            last = ""
            continue
        words = quoted[1].rstrip().removesuffix("  ").strip()
        if not last:
            boxes.append([])
        last = line
        if words.startswith("**") or not boxes[-1]:
            boxes[-1].append(words)
        elif words:
            boxes[-1][-1] += f" {words}"
    return boxes
