"""What an exercise demands, as data. The declarations are in ``lessons``: a folder per lesson, a file per exercise."""

import dataclasses
import functools
import importlib
import pathlib
from collections.abc import Callable

from course_lib import errors
from course_lib.checks import declaration, inputs
from course_lib.checks.kinds.golf import Golf
from course_lib.checks.kinds.project import Project
from course_lib.judges import JUDGES, Budget, Gradient, Mesh, Probe, Slip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise; docs/exercises.md describes every field. A declaration that contradicts itself raises ValueError.

    Kinds "write", "configure", "repair", "golf", "project" are judged. ``inputs`` and ``sizes``, or ``cases``, make the
    arguments: concrete arrays, the same at every call, of which the first set goes to every judge. ``build`` turns what
    the learner defined into the function that is judged. ``also`` holds demands beyond the judges': each takes what the
    learner defined and returns None or (what is wrong, what to try). The other kinds state their question in ``asks``.
    """

    id: str  # "LL.N", or "own.NAME" for a project of the reader's own
    title: str
    kind: str  # a key of kinds.RESULTS: "write", "predict", "compute" ...
    defines: str  # the name the learner's cell defines
    hints: tuple[str, ...]
    points: int

    inputs: tuple[str, ...] = ()  # "x: f32[M,N]"; T stands for each of ``dtypes``
    sizes: tuple[dict[str, int], ...] = ()  # {"M": 16, "N": 256}; three or more, some of them odd
    dtypes: tuple[str, ...] = ()
    within: tuple[float, float] | None = None  # the interval of the values; None: integers, and -1 to 1
    cases: Callable[[], list[tuple]] | None = None  # replaces the four fields above
    reference: Callable | None = None
    build: Callable = lambda defined: defined
    judged: str = ""  # the name passed to check, if it differs from ``defines``
    judges: tuple[str, ...] = tuple(JUDGES)  # a budget and an attached chip are further judges
    chips: tuple[str, ...] = ("v5e",)  # for the compiler
    mesh: Mesh | None = None  # of what one device of several does: judge_chips decides then, and asks all its judges
    engine: str = ""  # "sparse_core" or "gpu": judge_sparse_core or judge_gpu decides then, for each of ``chips``
    budget: Budget | None = None
    also: tuple[Callable, ...] = ()
    also_at: Callable[[], list[tuple]] | None = None  # the arguments that ``also`` looks at: their numbers count too
    achieved: str | Callable = ""  # what a pass shows beyond the judges; or a function of what the learner defined
    golf: Golf | None = None  # the unit of the score, and par; of a project, too
    project: Project | None = None  # the work, the bytes and the rival of the scored arguments
    probes: tuple[Probe, ...] = ()  # what scratch must hold after a step, for verdicts on wrong values
    slips: tuple[Slip, ...] = ()  # what likely mistakes would return, for verdicts on wrong values
    gradient: Gradient | None = None  # judged too, once the function itself is right
    advise: Callable | None = None  # engine only: verdict -> what to try, where its own words do not fit; "" keeps them
    arithmetic_around: bool = False  # whether more than shapes may change around the kernel

    listing: str = ""  # code to read, which checks.listing shows
    asks: object = None  # a Predict, Choose, Find, Explain, Compute or Several

    def __post_init__(self) -> None:
        if problem := declaration.problem(self):
            raise ValueError(f"exercise {self.id!r}: {problem}")

    def arguments(self) -> list[tuple]:
        """Return the argument tuples that the judges get."""
        if self.cases is not None:
            return self.cases()
        return inputs.arguments(self.inputs, self.sizes, self.dtypes, self.within)


OWN: dict[str, Exercise] = {}  # the reader's own projects, declared in this process by checks.own_project


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson that has exercises; ``title`` is that of its notebook."""

    number: str  # "03"
    title: str
    gives: str  # what the reader can do afterwards: "write a kernel, and ..."
    needs: tuple[int, ...]  # the lessons it builds on
    hardware: str  # what a TPU or a GPU adds
    exercises: tuple[Exercise, ...]


def exercise(id: str) -> Exercise:
    """Return the exercise called ``id``. Raise ValueError that lists its lesson's ids, or the lessons there are."""
    if not isinstance(id, str):
        first = next(iter(exercises()))
        raise ValueError(
            f'The first argument is the number of an exercise, as text: check("{first}", ...). It was {id!r:.60}.'
        )
    if id in OWN:
        return OWN[id]
    number = id.partition(".")[0].strip().zfill(2)
    if number == "own":
        name = id.partition(".")[2]
        raise ValueError(
            f"There is no project {id!r:.60} in this kernel: declare it first, checks.own_project({name!r}, ...)."
        )
    if number not in errors.WRITTEN:
        there = ", ".join(errors.WRITTEN)
        raise ValueError(f"There is no exercise {id!r:.60}. The lessons with exercises are {there}.")
    known = {task.id: task for task in lesson(number).exercises}
    if id not in known:
        raise ValueError(f"There is no exercise {id!r:.60}. Lesson {int(number)} has {', '.join(known)}.")
    return known[id]


def exercises() -> dict[str, Exercise]:
    """Return every exercise of the course by id, in order."""
    return {task.id: task for lesson in lessons() for task in lesson.exercises}


def lessons() -> tuple[Lesson, ...]:
    """Return the lessons that have exercises, in order."""
    return tuple(map(lesson, errors.WRITTEN))


@functools.cache
def lesson(number: str) -> Lesson:
    """Load the lesson called ``number`` from its folder.

    Its fields come from ``__init__.py``, its exercises from ``EXERCISE`` in each of the files e01_*.py, e02_*.py, ...
    Raises ValueError for a package that leaves a field out, a need that is not an earlier lesson, and a file whose
    exercise has another number, or none.
    """
    package = importlib.import_module(f"course_lib.lessons.lesson_{number}")
    said = {name.lower(): getattr(package, name, None) for name in ("TITLE", "GIVES", "NEEDS", "HARDWARE")}
    if left_out := [name.upper() for name, value in said.items() if value is None]:
        raise ValueError(f"lesson_{number}/__init__.py does not say {left_out[0]}; lesson_01 shows how.")
    if wrong := [need for need in said["needs"] if need >= int(number) or f"{need:02}" not in errors.WRITTEN]:
        raise ValueError(f"lesson_{number}: NEEDS has {wrong[0]!r}, which is no lesson before this one.")
    found: dict[int, Exercise] = {}
    for file in pathlib.Path(package.__file__).parent.glob("e[0-9][0-9]_*.py"):
        task = getattr(importlib.import_module(f"{package.__name__}.{file.stem}"), "EXERCISE", None)
        place = int(file.stem[1:3])
        if not isinstance(task, Exercise) or task.id != f"{number}.{place}":
            raise ValueError(f"{file.name}: EXERCISE is {task!r:.40}; by the file's name it is {number}.{place}.")
        if place in found:
            raise ValueError(f"lesson_{number} has two files for {task.id}; one of them is {file.name}.")
        found[place] = task
    return Lesson(number=number, **said, exercises=tuple(found[place] for place in sorted(found)))
