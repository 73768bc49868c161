"""The check of an answer to an exercise; its verdict says one thing that helps."""

import dataclasses

from course_lib import compiler, environment, text
from course_lib.checks import cards, record
from course_lib.checks.exercise import exercise, exercises
from course_lib.checks.help import next_hint
from course_lib.checks.kinds import ASKS, RESULTS
from course_lib.checks.kinds.explain import ASSESSMENTS
from course_lib.checks.result import NOT_ATTEMPTED, NOT_YET, NotPassed, Result, not_yet, on_a_screen
from course_lib.checks.stages import pages

INTERRUPTED = "interrupted"  # an outcome that is neither recorded nor kept for report()
_last: dict[str, Result] = {}  # the last verdict on each exercise in this process, for report()
_LEAVES = (
    "it leaves Python.",
    "Your answer raises SystemExit, as sys.exit() and exit() do. That would end this notebook's kernel.",
    "take that line out; to leave a function, write return.",
)


def check(id: str, answer: object = None) -> Result:
    """Judge the learner's answer to exercise ``id``, print the verdict and return it.

    ``answer`` is what the exercise asks for: a function, a class, a number with its unit, a choice, some sentences. A
    wrong answer raises no exception, so that the notebook runs on. NotPassed is raised only under a grader (make grade
    or nbgrader), or under nbval for a wrong answer outside ``rehearsal``. A learner who interrupts the check in a
    notebook gets a sentence; elsewhere KeyboardInterrupt is raised. Raises ValueError for an id that does not exist.
    """
    try:
        verdict = _judged(id, answer)
    except KeyboardInterrupt:
        if not environment.in_a_notebook() or environment.under_a_grader() or environment.under_nbval():
            raise  # Ctrl-C ends a program, and graders end a cell that takes too long with it
        return _interrupted(id)
    _last[id] = verdict
    record.attempted(id, verdict.outcome, verdict.score)
    wrong_for_nbval = verdict.outcome == NOT_YET and environment.under_nbval() and not record.rehearsing()
    if wrong_for_nbval or (environment.under_a_grader() and not verdict.passed):
        raise NotPassed(_with_map(verdict))
    show(verdict)
    return verdict


def _judged(id: str, answer: object) -> Result:
    """Return the verdict on an answer, before it is recorded."""
    task = exercise(id)
    try:
        verdict = RESULTS[task.kind](task, answer)
    except SystemExit:  # it would end the learner's kernel or a grader
        verdict = not_yet(id, *_LEAVES)
    return dataclasses.replace(verdict, hint=next_hint(id)) if verdict.outcome == NOT_YET else verdict


def _interrupted(id: str) -> Result:
    """Say that the check was interrupted, in place of a traceback through the judges, and return a Result of that."""
    said = "interrupted; nothing is recorded. Is there a loop that never ends?"
    cards.shown(cards.card("○", cards.GREY, f"<b>{id}</b> {said}", []), f"{id} {said}")
    return Result(id=id, outcome=INTERRUPTED)


def assess(id: str, answer: str) -> None:
    """Record how the learner's explanation compares with ours: "yes" (it says the same), "partly" or "no".

    Any other word is refused with a message and not recorded. Raises ValueError if the exercise is not an explanation.
    """
    if exercise(id).kind != "explain":
        explained = ", ".join(task.id for task in exercises().values() if task.kind == "explain")
        raise ValueError(f"{id} is judged by check; you judge only: {explained}.")
    word = answer.strip().lower() if isinstance(answer, str) else answer
    if word not in ASSESSMENTS:
        said = f'{id}: {answer!r:.60} is not one of the three answers: say "yes", "partly" or "no".'
        print(text.folded(f"{said} Nothing is recorded."))
        return
    record.assessed(id, word)
    print(f'{id}: recorded as "{word}". Run its check again.')


def report(id: str) -> compiler.Report | pages.Pages | None:
    """Return the compiler's report on the last answer checked for exercise ``id``; if there is none, print why.

    Of a project, return its two pages, made from your record, and save them beside it.
    """
    task, last = exercise(id), _last.get(id)
    if task.project is not None:
        return pages.saved(task)
    if last is None or last.outcome == NOT_ATTEMPTED:
        why = "There is one after an answer of yours has been checked in this kernel."
    elif last.report is not None:
        return last.report
    elif "compiler" not in task.judges or task.kind in ASKS:
        why = "This exercise does not use the compiler."
    elif last.passed:
        why = "The compiler is not on this machine; checks.doctor() says why."
    else:
        why = f"Your last answer did not get as far as the compiler: {last.headline}"
    print(text.folded(f"{id}: no report. {why}"))
    return None


def _with_map(verdict: Result) -> str:
    """Return the verdict with the map of output blocks as text, for readers who will not see the picture."""
    if verdict.blocks is None:
        return str(verdict)
    return str(dataclasses.replace(verdict, message=f"{verdict.message}\n{verdict.blocks}"))


def show(verdict: Result) -> None:
    """Show the verdict with the map of blocks, if any: as a card and a picture in a notebook, as text elsewhere."""
    if not environment.in_a_notebook():
        print(on_a_screen(verdict, "" if verdict.blocks is None else str(verdict.blocks)))
        return
    cards.shown(cards.verdict(verdict), on_a_screen(verdict))
    if verdict.blocks is not None and not environment.under_a_grader() and not environment.under_nbval():
        from IPython.display import display

        display(verdict.blocks)
