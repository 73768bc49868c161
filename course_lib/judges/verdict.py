"""The verdict of one judge."""

import dataclasses
from typing import NamedTuple

from course_lib import compiler, errors, text
from course_lib.judges.block_map import BlockMap


class Complaint(NamedTuple):
    """What is wrong, and one thing to try."""

    what: str
    next: str = ""
    blocks: BlockMap | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of one judge. ``passed`` is None if the judge could not run, and ``message`` says why."""

    judge: str
    passed: bool | None
    message: str = ""
    next: str = ""  # one thing to try
    reason: str = ""  # the error's row in the table of errors, if it has one
    ran: bool = True  # False: the function could not be traced, so there was nothing to judge
    raised: bool = False  # whether the kernel raised an error while it ran
    blocks: BlockMap | None = None  # where the output is wrong, if its values are
    report: compiler.Report | None = None  # from the compiler judge

    def __str__(self) -> str:
        said = {True: "passed", False: "refused", None: "skipped"}[self.passed]
        words = f"{self.judge}: {said}" + (f". {self.message}" if self.message else "")
        words = text.folded(words + (f"\nNext: {self.next}" if self.next else ""))
        return f"{words}\n{self.blocks}" if self.blocks else words


def refused(judge: str, explanation: errors.Explanation, ran: bool = True) -> Verdict:
    """Make the refusal of a function that raised an error."""
    return Verdict(
        judge=judge, passed=False, message=explanation.what, next=explanation.next, reason=explanation.name, ran=ran
    )


def skipped(judge: str, why: str, next: str = "") -> Verdict:
    """Make the verdict of a judge that cannot run the kernel."""
    return Verdict(judge=judge, passed=None, message=why, next=next)


def complained(judge: str, complaint: Complaint, report: compiler.Report | None = None) -> Verdict:
    return Verdict(
        judge=judge,
        passed=False,
        message=complaint.what,
        next=complaint.next,
        blocks=complaint.blocks,
        report=report,
    )
