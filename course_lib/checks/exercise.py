"""What an exercise demands, as data. The declarations are in ``lessons``, a folder for each lesson."""

import dataclasses
import functools
import importlib
from collections.abc import Callable

from course_lib import errors
from course_lib.checks import declaration, inputs
from course_lib.judges import JUDGES, Budget


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise; docs/exercises.md describes every field. A declaration that contradicts itself is a ValueError.

    Kinds "write", "configure" and "repair" are judged: ``inputs`` and ``sizes``, or ``cases``, make the arguments
    (concrete arrays, the same at every call; the first goes to every judge), ``build`` turns what the learner
    defined into the function that is judged, and ``also`` are demands that no judge makes: each takes what the
    learner defined and returns None or (what is wrong, what to try). The other kinds say in ``asks`` what they ask.
    """

    id: str  # "LL.N"
    title: str
    kind: str  # a key of kinds.RESULTS: "write", "predict", "compute" ...
    defines: str  # the name the learner's cell defines
    hints: tuple[str, ...]
    points: int

    inputs: tuple[str, ...] = ()  # "x: f32[M,N]"; T for a dtype out of ``dtypes``
    sizes: tuple[dict[str, int], ...] = ()  # {"M": 16, "N": 256}, three or more of them, odd ones too
    dtypes: tuple[str, ...] = ()
    within: tuple[float, float] | None = None  # the values lie in this interval; None: integers, and -1 to 1
    cases: Callable[[], list[tuple]] | None = None  # in place of the four above
    reference: Callable | None = None
    build: Callable = lambda defined: defined
    judged: str = ""  # the name that is handed to check, where it is not what the learner defines
    judges: tuple[str, ...] = tuple(JUDGES)  # a budget, and a chip where there is one, are judges more
    chips: tuple[str, ...] = ("v5e",)  # for the compiler
    budget: Budget | None = None
    also: tuple[Callable, ...] = ()

    listing: str = ""  # code to read, which checks.listing shows
    asks: object = None  # a Predict, Choose, Find, Explain, Compute or Several

    def __post_init__(self) -> None:
        if problem := declaration.problem(self):
            raise ValueError(f"exercise {self.id!r}: {problem}")

    def arguments(self) -> list[tuple]:
        """The argument tuples that the judges get."""
        if self.cases is not None:
            return self.cases()
        return inputs.arguments(self.inputs, self.sizes, self.dtypes, self.within)


def exercise(id: str) -> Exercise:
    """The exercise called ``id``. Raises ValueError, with the ids there are."""
    known = exercises()
    if not isinstance(id, str):
        raise ValueError(
            f'The first argument is the number of an exercise, as text: check("{next(iter(known))}", ...). It was '
            f"{id!r:.60}."
        )
    if id not in known:
        raise ValueError(
            f'There is no exercise {id!r}. There are: {", ".join(known)}. Try check("{next(iter(known))}", ...).'
        )
    return known[id]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Every exercise of the course by id, in order."""
    found = [e for lesson in _lessons().values() for e in lesson.EXERCISES]
    assert len({e.id for e in found}) == len(found), "two exercises have one id"
    return {e.id: e for e in found}


def lessons() -> dict[str, str]:
    """The lessons that have exercises: number -> title, in order."""
    return {number: lesson.TITLE for number, lesson in _lessons().items()}


@functools.cache
def _lessons() -> dict:
    return {number: importlib.import_module(f"course_lib.lessons.lesson_{number}") for number in errors.WRITTEN}
