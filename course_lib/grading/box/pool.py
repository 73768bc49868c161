"""Boxes started ahead of time, because importing JAX takes a second or two, and Keras as long again."""

from __future__ import annotations

import threading

from course_lib.grading.box.limits import STUDENT
from course_lib.grading.box.process import Process
from course_lib.grading.graft import CourseNotebook


class Boxes:
    """Fresh boxes in which nothing has run yet; ``spare`` of each kind are started ahead."""

    def __init__(self, spare: int):
        self.spare, self._waiting, self._lock = spare, {}, threading.Lock()
        self._ended = False

    def take(self, course: CourseNotebook) -> Process:
        """Return a box for a lesson's notebook. The caller must end it."""
        modules = ("keras",) if course.uses_keras else ()
        with self._lock:
            waiting = self._waiting.setdefault(modules, [])
            taken = waiting.pop(0) if waiting else self._made(modules)
            while len(waiting) < self.spare and not self._ended:
                waiting.append(self._made(modules))
        return taken

    @staticmethod
    def _made(modules: tuple[str, ...]) -> Process:
        return Process("inside", *modules, limits=STUDENT, lessons=False)

    def end(self) -> None:
        """End the boxes that nobody took."""
        with self._lock:
            self._ended = True
            for box in [box for waiting in self._waiting.values() for box in waiting]:
                box.end()
            self._waiting = {}
