"""What a class is graded with: waiting judges and boxes, earlier verdicts, and secret inputs."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator

from course_lib.grading.box.marking import Judge, Marking
from course_lib.grading.box.pool import Boxes
from course_lib.grading.box.verdicts import Verdicts
from course_lib.grading.graft import CourseNotebook
from course_lib.grading.rows import Row, rows

_LOST = {
    "time": "it ran for more than {seconds:g} s and was stopped.",
    "died": "the Python process ended while this ran (os._exit, or out of memory).",
    "flood": "it sent more out of its box than anybody reads.",
}


class Grader:
    """The judges (``jobs``) and boxes for a class. ``seed`` makes its inputs, and is drawn once all answers are in."""

    def __init__(self, jobs: int, seed: int):
        self.boxes, verdicts = Boxes(spare=1), Verdicts()
        self.verdicts = verdicts
        self._judges: queue.Queue[Judge] = queue.Queue()
        for _ in range(jobs):
            self._judges.put(Judge(seed, verdicts))

    def rows(
        self,
        course: CourseNotebook,
        submitted: dict[str, list[str]],
        cell_timeout: float,
        only: frozenset[str] | None = None,
    ) -> list[Row]:
        """Return the rows of one notebook, in the form that ``grade`` expects.

        All answers run, but only the exercises in ``only`` are judged and have a row; None: all.
        """
        given = {task.answer: submitted.get(task.answer) for task in course.tasks}
        answers = {name: "\n\n".join(sources) for name, sources in given.items() if sources}
        with self._judge() as judge:
            marking = Marking(course, answers, judge, self.boxes, cell_timeout, only)
            ran = marking.marked()
        errors = {id: _LOST[how].format(seconds=cell_timeout) for id, how in marking.lost.items()}
        found = rows(course, submitted, ran, errors)
        return found if only is None else [row for row in found if row.id in only]

    @contextlib.contextmanager
    def _judge(self) -> Iterator[Judge]:
        judge = self._judges.get()
        try:
            yield judge
        finally:
            self._judges.put(judge)

    def end(self) -> None:
        """End every process."""
        self.boxes.end()
        while not self._judges.empty():
            self._judges.get().end()
