"""What a learner reads when something failed, and the width of the lines it is printed in."""

import dataclasses
import textwrap

WRITTEN = ("01", "03", "04")  # lessons a reader can turn to; a test compares with notebooks/


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """``what`` happened, ``cure``: the next thing to try, ``lesson``: where it is taught ("" if nowhere yet)."""

    name: str  # the row of the table, "" if none fits
    what: str
    cure: str = ""
    lesson: str = ""

    @property
    def advice(self) -> str:
        """The cure, and the lesson that teaches it if it is written."""
        return self.cure + (f" (lesson {self.lesson})" if self.lesson in WRITTEN else "")

    def __str__(self) -> str:
        return folded(self.what + (f"\nNext: {self.advice}" if self.cure else ""))


def folded(text: str) -> str:
    """``text`` in lines of at most 94 characters: JupyterLab would break longer ones in mid-word."""
    return "\n".join(textwrap.fill(line, 94, subsequent_indent=_indent(line)) for line in text.splitlines())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
