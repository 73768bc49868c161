"""What stops the evaluation of a kernel: a fault of the kernel, or something that this library cannot evaluate."""

from course_lib.judges.verdict import Complaint


class Fault(Exception):
    """A kernel that a chip may run differently from what its author expects: ``complaint`` says what and why."""

    def __init__(self, what: str, next: str):
        super().__init__(what)
        self.complaint = Complaint(what, next)


class NotEvaluated(Exception):
    """A kernel that uses what the evaluator does not have. The message says what, and what to do."""
