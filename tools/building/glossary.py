"""docs/glossary.md: every term where a lesson defines it, extracted from the lessons' sources.

A definition is a line of a quoted box in a text cell, where the term first occurs:

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
    """Return the whole page. Raise BuildError if two lessons define the same term, or a box cannot be parsed."""
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
    """Return (term, definition) pairs of a percent source, in order. A box without any is an ordinary quotation.

    Raises BuildError for a box that begins with a term in bold and a colon but has another line that does not.
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
    """Return the quotations of a text cell as lists of lines; a line that begins no term continues the previous one."""
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
