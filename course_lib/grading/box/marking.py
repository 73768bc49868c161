"""The marking of one notebook: its answers run in a box one by one, and a judge outside queries what each defined.

The two processes never see each other: this module passes their messages on as bytes.
"""

from __future__ import annotations

import time

from course_lib.grading.box import cells, values
from course_lib.grading.box.limits import JUDGE
from course_lib.grading.box.pool import Boxes
from course_lib.grading.box.process import Lost, Process
from course_lib.grading.box.verdicts import Verdicts
from course_lib.grading.graft import CourseNotebook, unmarked
from course_lib.grading.run import Ran, Stopped, stopping

# How many times the seconds of other kinds a judge may take: it compiles a project at large sizes, and runs it with
# bugs.
_LONGER = {"project": 4}


class Judge:
    """The judges' process, restarted if it is lost, and the verdicts that need not be given twice."""

    def __init__(self, seed: int, verdicts: Verdicts):
        self.seed, self.verdicts, self.process = seed, verdicts, None

    def started(self) -> Process:
        if self.process is None:
            self.process = Process("judging", str(self.seed), limits=JUDGE, lessons=True)
            try:
                self.process.started()
            except Lost as lost:
                self.end()
                raise RuntimeError(f"the judges do not start in a box ({lost.how})") from None
        return self.process

    def end(self) -> None:
        if self.process is not None:
            self.process.end()
        self.process = None


class Marking:
    """The marking of one notebook. Each request to the box, and each verdict, may take ``seconds``.

    ``only``: the exercises that are judged; None: all.
    """

    def __init__(
        self,
        course: CourseNotebook,
        answers: dict[str, str],
        judge: Judge,
        boxes: Boxes,
        seconds: float,
        only: frozenset[str] | None = None,
    ):
        self.course, self.judge, self.boxes, self.seconds, self.only = course, judge, boxes, seconds, only
        self.answers = dict(answers)
        self.records: dict[str, dict] = {}
        self.lost: dict[str, str] = {}  # exercise id -> how the box or judge was lost: "time", "died" or "flood"
        self.box: Process | None = None
        more = sum(_LONGER.get(task.kind, 1) - 1 for task in course.tasks)
        self.deadline = time.monotonic() + 60 + (10 + more) * seconds

    def marked(self) -> Ran:
        """Return a record for each answer and each check, as nbval would have made it."""
        try:
            self._start()
            while not self._all():
                self.box.end()
                self._start()
        finally:
            if self.box is not None:
                self.box.end()
        return Ran(cells=self.records, in_time=True, log="")

    def _start(self) -> None:
        """Start a box and a judge; their start-up time does not count against the answers."""
        begun = time.monotonic()
        self.box = self.boxes.take(self.course)
        self.box.started()
        self.judge.started()
        self.deadline += time.monotonic() - begun

    def _all(self) -> bool:
        """Run the cells to the end; return False if the box was lost and must be restarted without one answer."""
        by_answer = {task.answer: task for task in self.course.tasks}
        by_check = {task.check: task for task in self.course.tasks}
        for name in self.course.code_cells:
            if stopping.is_set():
                raise Stopped
            task = by_answer.get(name) or by_check.get(name)
            try:
                if task is None:
                    self._given(name)
                elif name == task.answer:
                    self._answer(task)
                elif self.only is not None and task.id not in self.only:
                    continue
                elif name not in self.records and task.id not in self.lost:
                    self._check(task)
            except Lost as lost:
                if stopping.is_set():
                    raise Stopped from None
                owner = self.course.owners.get(name)
                if owner is None and not self.records:
                    raise  # no answer has run, so the notebook is not at fault
                if owner is None or owner.id in self.lost:  # out of time, or broken by an earlier answer
                    return self._given_up(lost.how)
                self.lost[owner.id] = lost.how
                self.answers.pop(owner.answer, None)
                return False
        return True

    def _given_up(self, how: str) -> bool:
        """Give up on the rest of this notebook."""
        for task in self.course.tasks:
            if task.check not in self.records:
                self.lost.setdefault(task.id, how)
        return True

    def _until(self, times: int = 1) -> float:
        return min(time.monotonic() + times * self.seconds, self.deadline)

    def _run(self, source: str) -> list:
        said = self.box.ask(["run", source], self._until())
        try:
            return values.items(values.loads(said)) or ["nothing"]
        except values.Damaged as error:
            return ["raised", [["Error", f"its box gave no answer: {error}"]]]

    def _given(self, name: str) -> None:
        if name != cells.FIRST and (source := cells.defining(self.course.source(name))):
            self._run(source)

    def _answer(self, task) -> None:
        source = self.answers.get(task.answer, "" if task.id in self.lost else self.course.source(task.answer))
        said = self._run(unmarked(source))
        error = ("", "") if said[0] == "ok" else _error(said)
        self.records[task.answer] = _record(task.answer, ok=said[0] == "ok", ename=error[0], evalue=error[1])

    def _check(self, task) -> None:
        """Let the judge query the box, and record its verdict as a check would have printed it."""
        if not self.records[task.answer]["ok"]:
            self.records[task.check] = _record(task.check, ok=False, ename="NameError", evalue="its answer did not run")
            return
        try:
            text, outcome, score = self.judge.verdicts.of(task.id, self._ask, lambda ask: self._judged(task, ask))
        except values.Damaged as error:
            text, outcome, score = f"{task.id} not yet: it could not be read.\n{error}", "not yet", ""
        passed = outcome == "passed"
        name = "NameError" if outcome == "error" else "NotPassed"
        self.records[task.check] = _record(
            task.check, ok=passed, ename="" if passed else name,
            evalue="" if passed else text.removeprefix("NameError: "), printed=text if passed else "",
        )  # fmt: skip
        if score:
            self.records[task.score] = _record(task.score, ok=True, printed=score)

    def _ask(self, request: bytes) -> bytes:
        return self.box.ask(request, self._until())

    def _judged(self, task, ask) -> list:
        begun = time.monotonic()
        judge = self.judge.started()  # restarted if it was lost
        self.deadline += time.monotonic() - begun
        until = self._until(_LONGER.get(task.kind, 1))
        try:
            judge.send(["judge", task.id], until)
            while True:
                kind, *parts = values.loads(judge.receive(until))
                if kind == "said":
                    return parts
                judge.send(ask(values.dumps(parts[0])), until)
        except BaseException:  # the judge is in the middle of a request, or running something endless
            self.judge.end()
            raise


def _record(cell: str, *, ok: bool, ename: str = "", evalue: str = "", printed: str = "") -> dict:
    return {"cell": cell, "ok": ok, "ename": ename, "evalue": evalue, "lost": "", "printed": printed, "problem": ""}


def _error(said: list) -> tuple[str, str]:
    """Return class and text of the exception that a cell raised."""
    try:
        name, text = said[1][-1]
        return str(name)[:100], str(text)[:4000]
    except (LookupError, TypeError, ValueError):
        return "Error", "it said nothing of it"
