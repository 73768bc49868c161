"""The judge's process: it has never run a student's code, and asks the box for programs and values, one by one.

Requests and answers are lists. While judging, it may send ["ask", request] any number of times and gets answers:

    ["judge", id]       ["said", verdict as text, outcome, the score's line or ""]
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pathlib
import sys

from course_lib.grading.box import pipes, values


def main(seed: int) -> None:
    """Serve on stdin and stdout. ``seed`` makes the inputs, which no student has seen."""
    fd_in, fd_out = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    from course_lib.checks import exercise, start
    from course_lib.grading.box import hidden

    with contextlib.redirect_stdout(io.StringIO()):
        start()

    def ask(request: list) -> object:
        pipes.blocking_send(fd_out, values.dumps(["ask", request]))
        return values.loads(pipes.blocking_receive(fd_in))

    pipes.blocking_send(fd_out, values.dumps(["ready"]))
    while data := pipes.blocking_receive(fd_in):
        _, id = values.loads(data)
        with contextlib.redirect_stdout(io.StringIO()):
            said = judged(hidden.task(exercise.exercise(id), seed), ask)
        pipes.blocking_send(fd_out, values.dumps(["said", *said]))


def judged(task, ask) -> list:
    """Return the course's own verdict on what is in the box: text, outcome, and the score in the grader's form."""
    from course_lib.checks import record
    from course_lib.checks.kinds import RESULTS
    from course_lib.checks.result import NOT_YET
    from course_lib.checks.stages import whole
    from course_lib.grading.box.standin import Answers

    answers = Answers(ask, task.chips[0], task.mesh.sizes if task.mesh else None)
    try:
        defined, assessed = answers.defined(task.judged or task.defines, task.defines)
        parts = [answers.beside(name) for name in whole.names_of(task)] if task.project else []
    except NameError as error:
        return [f"NameError: {error}", "error", ""]
    except Exception as error:
        return _unread(task, error)
    try:
        with record.rehearsal():
            if task.id in assessed:
                record.assessed(task.id, assessed[task.id])
            verdict = whole.result(task, defined, *parts) if parts else RESULTS[task.kind](task, defined)
    except Exception as error:  # from our own code: whatever the box sent, the next notebook is judged too
        return _unread(task, error)
    finally:
        _forget()
    text = str(verdict)
    if verdict.outcome == NOT_YET and verdict.blocks is not None:
        text = str(dataclasses.replace(verdict, message=f"{verdict.message}\n{verdict.blocks}"))
    score = "" if task.golf is None or verdict.score is None else f"{task.id} score: {verdict.score}"
    return [text, verdict.outcome, score]


def _unread(task, error: Exception) -> list:
    from course_lib.checks.result import not_yet

    said = f"What came out of the box cannot be judged. {type(error).__name__}: {str(error)[:300]}"
    verdict = not_yet(task.id, "it could not be read.", said, _PLAIN)
    return [str(verdict), verdict.outcome, ""]


def _forget() -> None:
    """Clear what could carry over from one notebook to the next."""
    if (keras := sys.modules.get("keras")) is not None:
        keras.saving.get_custom_objects().clear()
    if _resident_bytes() > _MOST_BYTES:
        import jax

        jax.clear_caches()


def _resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_MOST_BYTES = 900 << 20  # above this, JAX's compiled code is dropped
_PLAIN = "let the answer return plain values, and arrays that its kernel has made."


if __name__ == "__main__":
    main(int(sys.argv[1]))
