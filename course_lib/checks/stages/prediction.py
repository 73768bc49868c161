"""The first stage: a time and what will bind it, written down before any result is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib import environment, text, vocabulary
from course_lib.checks import quantity
from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed
from course_lib.checks.stages import log, names
from course_lib.checks.unfit import described

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

# What a compiled program can be bound by, and other words for the same.
BOUNDS = (vocabulary.HBM, vocabulary.CORE, vocabulary.WAITING)
_SAME = {
    vocabulary.COMPUTE: vocabulary.CORE, "mxu": vocabulary.CORE, "vpu": vocabulary.CORE, "memory": vocabulary.HBM,
    vocabulary.STEPS: vocabulary.WAITING, "waiting": vocabulary.WAITING, "copies": vocabulary.WAITING,
}  # fmt: skip
_TIME = quantity.unit("us")


def result(task: Exercise, prediction: object) -> Result:
    """Record a prediction, unless it is the last one again. It is never judged; the report shows how close it was."""
    id = f"{task.id} prediction"
    if is_empty(prediction):
        return not_attempted(id, f'write {names.prediction(task)} = ("12 us", "HBM"), with your time and what binds')
    if not isinstance(prediction, tuple | list) or len(prediction) != 2:
        what = f"{names.prediction(task)} is {described(prediction)}."
        return not_yet(id, "it is not a pair.", what, 'write a time and what binds, as in ("12 us", "HBM").')
    time, bound = prediction
    try:
        given = quantity.parse(time, _TIME)
    except quantity.NotAQuantity as error:
        return not_yet(id, "its time cannot be read.", str(error), error.next)
    if given.unit.measures != "time" or given.value <= 0:
        return not_yet(id, "its time is none.", _no_time(time, given), 'write a time, as in "12 us".')
    word = _bound(bound)
    if word is None:
        there = ", ".join(map(repr, BOUNDS))
        return not_yet(id, "what binds is not known.", f"You wrote {bound!r:.60}.", f"write one of {there}.")
    said = {"seconds": given.value, "bound": word}
    before = log.last(task.id, log.PREDICTED)
    hash = before.hash if before and before.said == said else log.add(task.id, log.PREDICTED, said)
    counted = log.first_prediction(task.id)
    compared = environment.under_nbval() or environment.building()  # the hash is another one every time
    kept = f"{text.duration(given.value)}, {vocabulary.bound_by(word)}; it is kept"
    kept += "." if compared else f" with the hash {hash}."
    if counted is not None and counted.said != said:
        kept += f" The report compares {text.duration(counted.said['seconds'])}, which you wrote before the result."
    return passed(id, kept)


def _no_time(written: object, given: quantity.Quantity) -> str:
    """Return what is wrong with a quantity that is no time: its unit, or that it is not above 0."""
    if given.unit.measures == "time":
        return f"{given} is not above 0."
    return f"{written!r:.40} has no unit of time: s, ms, us or ns."


def _bound(word: object) -> str | None:
    """Return what binds in the words of the library; None for anything else."""
    if not isinstance(word, str):
        return None
    plain = word.strip().lower()
    known = {bound.lower(): bound for bound in BOUNDS} | _SAME
    return known.get(plain)
