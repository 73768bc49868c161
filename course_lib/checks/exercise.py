"""What an exercise demands, as data. The declarations are in ``lesson_NN.py``, one file a lesson."""

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable

import course_lib.checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise.

    ``cases`` makes argument tuples (concrete arrays, the same at every call); the first is the one that goes to
    every judge. ``build`` turns what the learner defined into the function that is judged. ``also`` are demands
    that no judge makes: each takes what the learner defined and returns None or (what is wrong, what to try).
    """

    id: str  # "LL.N"
    title: str
    defines: str  # the name the learner's cell defines
    cases: Callable[[], list[tuple]]
    reference: Callable
    build: Callable = lambda defined: defined
    also: tuple[Callable, ...] = ()
    hints: tuple[str, ...]
    points: int


def exercise(id: str) -> Exercise:
    """The exercise called ``id``. Raises ValueError, with the ids there are."""
    known = exercises()
    if id not in known:
        raise ValueError(
            f'There is no exercise {id!r}. There are: {", ".join(known)}. Try check("{next(iter(known))}", ...).'
        )
    return known[id]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Every exercise of the course by id, in order."""
    modules = sorted(m.name for m in pkgutil.iter_modules(course_lib.checks.__path__) if m.name.startswith("lesson_"))
    found = [e for name in modules for e in importlib.import_module(f"course_lib.checks.{name}").EXERCISES]
    return {e.id: e for e in found}
