"""Projects that a reader declares: the same stages, judges and report as those of lesson 18, for any contract."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

import jax

from course_lib import chips, judges, text, vocabulary
from course_lib.checks.exercise import OWN, Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.checks.kinds.project import BY_BYTES, Ideal, Project, moved_once
from course_lib.checks.stages import rival

PREFIX = "own."
OPEN = ("stencil", "top_64")
FEWEST = 3  # sizes
PAR = 1.25  # times the ideal, where no par is given
HINTS = (
    "The simulator and the races judge say which step wrote a wrong block. Begin with the smallest arrays for which it "
    "is wrong.",
    'The report says what binds: checks.report("{id}"). If most cycles wait for copies, try fewer and larger blocks. '
    "If it is bound by HBM, find the array that moves more than once.",
    "Lesson 6 has the price of each operation, lesson 5 that of a grid step, and lesson 11 a search over blocks.",
)


def own_project(
    name: str,
    *,
    reference: Callable,
    cases: Callable[[], list[tuple]],
    at: Callable[[], tuple],
    flops: int = 0,
    vector_ops: int = 0,
    par: int | None = None,
    chip: str = "v5e",
    gradient: judges.Gradient | None = None,
    slips: tuple[judges.Slip, ...] = (),
    hints: tuple[str, ...] = (),
    written_for_xla: Callable | None = None,
    xla: tuple[float, str] | None = None,
) -> None:
    """Declare a project of your own: "own.NAME" in ``predict``, ``check``, ``planted``, ``tuned`` and ``report``.

    ``name`` is that of your function. ``cases`` returns the argument tuples that the judges see: small arrays, of three
    sizes or more, some of them odd. ``at`` returns the arguments that are priced, as ``jax.ShapeDtypeStruct``s. The
    ideal is the longest of three times: ``flops`` of matmuls and ``vector_ops`` on single elements at the chip's peak,
    and the bytes of these arguments and of the result, each moved once. ``par`` is the most cycles that pass; without
    it, a quarter more than the ideal. ``written_for_xla`` computes the same as ``reference``, where XLA compiles that
    badly. ``xla`` is (seconds, whose figure) if they are known, because asking the simulator may take a minute. A
    second declaration of the same name replaces the first, but what has been recorded stays.

    Prints the ideal, par, and the time of XLA's program. Raises ValueError for a declaration that contradicts itself.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name is {name!r:.60}; it is the name of your function, as text.")
    if chips.chip(chip).clock_hz is None:
        known = ", ".join(each for each in chips.NAMES if chips.chip(each).clock_hz)
        raise ValueError(f"chip is {chip!r}, whose clock is not known, so cycles are no time there; take {known}.")
    args, made = _called("at", at), _called("cases", cases)
    if not isinstance(made, list) or len(made) < FEWEST or not all(isinstance(case, tuple) for case in made):
        what = f"{len(made)} of them" if isinstance(made, list) else f"{made!r:.60}"
        raise ValueError(
            f"cases returns {what}; it returns a list of {FEWEST} argument tuples or more, as in [(x,), ...]."
        )
    if len({str([(a.shape, a.dtype) for a in jax.tree.leaves(case)]) for case in made}) < FEWEST:
        raise ValueError(f"cases has arrays of fewer than {FEWEST} sizes; a kernel may be right for one size alone.")
    if not isinstance(args, tuple) or not jax.tree.leaves(args):
        raise ValueError(f"at returns {args!r:.60}; it returns the tuple of scored arguments, as in (x,).")
    _fits(reference, args, "at")
    for case in made:
        _fits(reference, case, "cases")
    ideal = Ideal(flops=flops, vector_ops=vector_ops, hbm_bytes=moved_once(args, jax.eval_shape(reference, *args)))
    par = math.ceil(PAR * ideal.cycles(chip)) if par is None else par
    seconds, by = xla or rival.time_of(written_for_xla or reference, args, chip)
    id = PREFIX + name
    OWN[id] = Exercise(
        id=id, title=name, kind="project", defines=name, points=1, reference=reference, cases=cases, chips=(chip,),
        gradient=gradient, slips=slips, hints=hints or tuple(hint.replace("{id}", id) for hint in HINTS),
        golf=Golf(unit=CYCLES, par=par, at=at), project=Project(ideal=ideal, xla_s=seconds, xla_by=by),
    )  # fmt: skip
    print(text.folded(" ".join(_said(id, ideal, par, seconds, by, chip))))


def _called(name: str, given: Callable) -> object:
    """Return what an argument returns that is a function without arguments."""
    if not callable(given):
        raise ValueError(f"{name} is {given!r:.60}; it is a function without arguments: {name}=lambda: ...")
    try:
        return given()
    except Exception as error:
        raise ValueError(f"{name}() raises {type(error).__name__}: {error}"[:300]) from error


def _fits(reference: Callable, args: tuple, whose: str) -> None:
    """Raise ValueError unless the reference takes the arguments and returns arrays."""
    shapes = ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in jax.tree.leaves(args))
    try:
        results = jax.tree.leaves(jax.eval_shape(reference, *args))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:200]
        raise ValueError(f"reference cannot be called with the arguments of {whose}, {shapes}: {said}") from error
    if not results:
        raise ValueError(f"reference returns no array for the arguments of {whose}, {shapes}.")


def open_project(name: str) -> None:
    """Declare a project of lesson 18 to which the course has no answer, "stencil" or "top_64", as one of your own.

    Raises ValueError for another name.
    """
    if name not in OPEN:
        raise ValueError(f"name is {name!r:.60}; the open projects are {' and '.join(map(repr, OPEN))}.")
    importlib.import_module(f"course_lib.lessons.lesson_18.open_{name}").declare()


def _said(id: str, ideal: Ideal, par: int, seconds: float | None, by: str, chip: str) -> list[str]:
    """Return what a declaration prints."""
    best, most = text.duration(ideal.seconds(chip)), text.duration(par / chips.chip(chip).clock_hz)
    said = [f"{id} on a {chip}: the ideal is {best}, {vocabulary.bound_by(ideal.bound(chip))}; par is {most}."]
    if seconds is None:
        return [*said, "XLA's time is not known, because the TPU's compiler is not on this machine."]
    least = "at least " if by == BY_BYTES else ""
    return [*said, f"XLA takes {least}{text.duration(seconds)}, {by}."]
