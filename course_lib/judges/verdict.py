"""What one judge says."""

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
    """What one judge says. ``passed`` is None where the judge could not run, and ``message`` says why."""

    judge: str
    passed: bool | None
    message: str = ""
    next: str = ""  # one thing to try
    reason: str = ""  # of what failed with an error that is known: the name of its row in the table of errors
    ran: bool = True  # False: it could not even be traced, so there was nothing to judge
    blocks: BlockMap | None = None  # where the output is wrong, if it is the numbers that are wrong
    report: compiler.Report | None = None  # the compiler judge's

    def __str__(self) -> str:
        said = {True: "passed", False: "refused", None: "skipped"}[self.passed]
        words = f"{self.judge}: {said}" + (f". {self.message}" if self.message else "")
        words = text.folded(words + (f"\nNext: {self.next}" if self.next else ""))
        return f"{words}\n{self.blocks}" if self.blocks else words


def refused(judge: str, explanation: errors.Explanation, ran: bool = True) -> Verdict:
    """The refusal of something that failed with an error."""
    return Verdict(
        judge=judge, passed=False, message=explanation.what, next=explanation.next, reason=explanation.name, ran=ran
    )


def complained(judge: str, complaint: Complaint, report: compiler.Report | None = None) -> Verdict:
    return Verdict(
        judge=judge,
        passed=False,
        message=complaint.what,
        next=complaint.next,
        blocks=complaint.blocks,
        report=report,
    )
