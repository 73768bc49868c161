"""The choice of mistakes: only those that change a result which the judges look at, each of another kind."""

from __future__ import annotations

from typing import NamedTuple

from course_lib import compat, judges
from course_lib.checks.planting.catalogue import KINDS, mistakes_in
from course_lib.checks.planting.kernel import spread
from course_lib.checks.planting.mistake import Mistake, Place
from course_lib.checks.planting.stand_in import planted
from course_lib.judges.running.interpreted import Traced
from course_lib.judges.tolerance.expected import right

_TRIED = 4  # mistakes of one kind: if none of these shows, the others hardly will
_Runs = dict[tuple[Place | None, int], Traced]


class Shown(NamedTuple):
    """A mistake, and the first of the judged arguments with which it shows."""

    mistake: Mistake
    trial: judges.Trial


def chosen(trials: list[judges.Trial], wanted: int = 3) -> list[Shown]:
    """Return up to ``wanted`` mistakes that can be made in the traced function and show.

    They are of different kinds, as far as there are enough kinds. A kernel that is wrong as it is has none:
    ``shown_by(trials, None)`` says with which arguments. Raises what tracing the function raises.
    """
    known: dict[Place, Mistake] = {}
    for trial in trials:
        if trial.like is None:
            known |= {
                mistake.place: mistake for mistake in mistakes_in(trial.traced.jaxpr) if mistake.place not in known
            }
    found: list[Shown] = []
    untried: list[Mistake] = []
    for kind in KINDS:
        of_kind = [known[place] for place in sorted(known) if place.kind == kind]
        of_kind = of_kind if len(of_kind) <= _TRIED else spread(of_kind, _TRIED)
        first, rest = _first_shown(trials, of_kind)
        found, untried = found + first, untried + rest
        if len(found) == wanted:
            return found
    while untried and len(found) < wanted:
        more, untried = _first_shown(trials, untried)
        found += more
    return found


def _first_shown(trials: list[judges.Trial], mistakes: list[Mistake]) -> tuple[list[Shown], list[Mistake]]:
    """Return the first mistake that shows, in a list, and those after it; two empty lists if none does."""
    for number, mistake in enumerate(mistakes):
        if (trial := shown_by(trials, mistake.place)) is not None:
            return [Shown(mistake, trial)], mistakes[number + 1 :]
    return [], []


def shown_by(trials: list[judges.Trial], place: Place | None) -> judges.Trial | None:
    """Return the first trial whose result is wrong with the mistake at ``place``; None if all are right.

    A kernel that raises in the simulator is wrong. ``place`` None: the kernel as it is.
    """
    runs: _Runs = {}
    return next((trial for trial in trials if _is_wrong(trial, place, runs)), None)


def _is_wrong(trial: judges.Trial, place: Place | None, runs: _Runs) -> bool:
    key = place, id(trial.traced)
    if key not in runs:
        jaxpr = planted(trial.traced.jaxpr, place)
        if place is not None and jaxpr is trial.traced.jaxpr:
            return False  # this trace has no such place
        runs[key] = Traced(jaxpr, trial.traced.result)
    try:
        results = runs[key].run(compat.interpret_params(random_seed=0), trial.args)
    except Exception:
        return True
    return any(not right(got, want).all() for got, want in zip(results, trial.wanted, strict=True))
