"""Check an answer to an exercise, and say one thing that helps."""

import dataclasses

from course_lib import compiler, environment, text
from course_lib.checks import record
from course_lib.checks.exercise import exercise, exercises
from course_lib.checks.help import next_hint
from course_lib.checks.kinds import ASKS, RESULTS
from course_lib.checks.kinds.explain import ASSESSMENTS
from course_lib.checks.result import NOT_ATTEMPTED, NOT_YET, NotPassed, Result, not_yet, on_a_screen

_last: dict[str, Result] = {}  # of this process, for report()
_LEAVES = (
    "it leaves Python.",
    "Your answer raises SystemExit, as sys.exit() and exit() do. That would end this notebook's kernel.",
    "take that line out; to leave a function, write return.",
)


def check(id: str, answer: object = None) -> Result:
    """Judge the learner's answer to exercise ``id``, print the verdict and return it.

    ``answer`` is what the exercise asks for: a function, a class, a number with its unit, a choice, some sentences.
    A wrong answer is no exception, so that a notebook runs on; only under a grader (make grade or nbgrader), or under
    nbval for an answer that is wrong, is NotPassed raised. Raises ValueError for an id that does not exist.
    """
    task = exercise(id)
    try:
        verdict = RESULTS[task.kind](task, answer)
    except SystemExit:  # it would end the learner's kernel, or a grader; Ctrl-C goes through
        verdict = not_yet(id, *_LEAVES)
    if verdict.outcome == NOT_YET:
        verdict = dataclasses.replace(verdict, hint=next_hint(id))
    _last[id] = verdict
    record.attempted(id, verdict.outcome, verdict.score)
    if (environment.under_a_grader() and not verdict.passed) or (
        verdict.outcome == NOT_YET and environment.under_nbval()
    ):
        raise NotPassed(_with_map(verdict))
    _show(verdict)
    return verdict


def assess(id: str, answer: str) -> None:
    """Say how your explanation compares with ours: "yes" (it says the same), "partly" or "no".

    Another word is said to be none of these, and is not noted. Raises ValueError for an exercise that is no
    explanation.
    """
    if exercise(id).kind != "explain":
        explained = ", ".join(task.id for task in exercises().values() if task.kind == "explain")
        raise ValueError(f"{id} is judged by check; yours to judge: {explained}.")
    word = answer.strip().lower() if isinstance(answer, str) else answer
    if word not in ASSESSMENTS:
        said = f'{id}: you say {answer!r:.60}, which is none of the three: say "yes", "partly" or "no".'
        print(text.folded(f"{said} Nothing is noted."))
        return
    record.assessed(id, word)
    print(f'{id}: you say "{word}". Its check takes it from here.')


def report(id: str) -> compiler.Report | None:
    """The compiler's report on the answer to exercise ``id`` that was checked last; a line, and None, without one."""
    task, last = exercise(id), _last.get(id)
    if last is None or last.outcome == NOT_ATTEMPTED:
        why = "There is one once an answer of yours has been checked in this kernel."
    elif last.report is not None:
        return last.report
    elif "compiler" not in task.judges or task.kind in ASKS:
        why = "No compiler is asked in this exercise."
    elif last.passed:
        why = "The compiler is not on this machine; checks.doctor() says why."
    else:
        why = f"Your last answer did not get as far as the compiler: {last.headline}"
    print(text.folded(f"{id}: no report. {why}"))
    return None


def _with_map(verdict: Result) -> str:
    """The verdict with the map of the output's blocks, for whoever reads it later and sees no picture."""
    if verdict.blocks is None:
        return str(verdict)
    return str(dataclasses.replace(verdict, message=f"{verdict.message}\n{verdict.blocks}"))


def _show(verdict: Result) -> None:
    """Print it; with the picture of the blocks, where there is one: drawn in a notebook, of characters elsewhere."""
    if verdict.blocks is None or not environment.in_a_notebook():
        print(on_a_screen(verdict, "" if verdict.blocks is None else str(verdict.blocks)))
        return
    print(on_a_screen(verdict))
    if not environment.under_a_grader() and not environment.under_nbval():
        from IPython.display import display

        display(verdict.blocks)
