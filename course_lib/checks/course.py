"""A map of the course: what each lesson gives, what it builds on, its minutes, and the learner's progress."""

import dataclasses
import importlib.resources
import json
import pathlib

from course_lib import text
from course_lib.checks.exercise import Lesson, lesson
from course_lib.checks.panel import LessonProgress, progress

_BAR = 10  # characters
_NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stop:
    """A lesson on the map."""

    lesson: Lesson
    progress: LessonProgress
    minutes: int | None  # of the lesson; None if its first cell does not say
    exercise_minutes: int | None
    notebook: str  # the address of the lesson, from any folder beside its own; "" outside a clone
    needs: tuple[int, ...]  # direct prerequisites only: lessons that those build on are left out

    @property
    def time(self) -> str:
        return f"{self.minutes} + {self.exercise_minutes} minutes" if self.minutes else ""

    @property
    def points(self) -> str:
        return f"{self.progress.points} of {self.progress.max_points} points"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CourseMap:
    """All lessons, in order. ``print`` gives text; a notebook cell shows the picture."""

    stops: tuple[Stop, ...]

    @property
    def summary(self) -> str:
        hours = sum((stop.minutes or 0) + (stop.exercise_minutes or 0) for stop in self.stops) / 60
        started = [stop for stop in self.stops if stop.progress.passed]
        first = self.next_stop
        after = f"Next: lesson {int(first.lesson.number)}." if first else "All are done."
        begun = f"You have begun {len(started)} of them. " if started else ""
        return f"{text.counted(len(self.stops), 'lesson')}, {hours:.0f} hours with all exercises. {begun}{after}"

    @property
    def next_stop(self) -> Stop | None:
        """The first lesson with less than half of its points; None if there is none."""
        short = (stop for stop in self.stops if 2 * stop.progress.points < stop.progress.max_points)
        return next(short, None)

    def __str__(self) -> str:
        return _as_text(self)

    __repr__ = __str__

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        from course_lib.viz.pictures import course_map

        return course_map.picture(self)._repr_mimebundle_()


def course_map() -> CourseMap:
    """Return the map of the written lessons: what each gives and needs, its minutes, what a TPU adds, your points."""
    panel = progress()
    return CourseMap(stops=tuple(_stop(one) for one in panel.lessons))


def _stop(one: LessonProgress) -> Stop:
    of = lesson(one.number)
    file = importlib.resources.files(f"course_lib.lessons.lesson_{one.number}").joinpath("minutes.json")
    minutes = json.loads(file.read_text()) if file.is_file() else {}
    return Stop(
        lesson=of,
        progress=one,
        minutes=minutes.get("lesson"),
        exercise_minutes=minutes.get("exercises"),
        notebook=next((f"../notebooks/{file.name}" for file in _NOTEBOOKS.glob(f"{one.number}_*.ipynb")), ""),
        needs=tuple(need for need in of.needs if not any(need in _before(other) for other in of.needs)),
    )


def _before(number: int) -> set[int]:
    """Return all direct and indirect prerequisites of lesson ``number``."""
    needs = lesson(f"{number:02}").needs
    return set(needs).union(*map(_before, needs))


def _as_text(course: CourseMap) -> str:
    lines = [course.summary]
    for stop in course.stops:
        share = stop.progress.points / max(stop.progress.max_points, 1)
        bar = "█" * round(_BAR * share) + "·" * (_BAR - round(_BAR * share))
        lines += ["", f"{stop.lesson.number}  {stop.lesson.title:<32.32}  {stop.time:<18}  {bar}  {stop.points}"]
        needs = ", ".join(map(str, stop.needs)) or "page 00"
        lines += [text.folded(f"    You can then {stop.lesson.gives}")]
        lines += [text.folded(f"    Builds on {needs}. On a TPU: {stop.lesson.hardware}")]
    return "\n".join(lines)
