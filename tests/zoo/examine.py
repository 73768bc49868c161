"""What each judge says of a bug, asked alone, and what a bare run with interpret=True gives.

The questions are put in a process of their own: should a run hang or crash, the answer is that it did.
"""

import dataclasses
import multiprocessing

import jax
import numpy as np

from course_lib import grid, judges
from zoo.bug import Bug

BARE = "interpret=True"
COLUMNS = (*judges.JUDGES, BARE)
LIMIT_S = 120.0  # for one question; the slowest takes two seconds, and some more on a busy machine
PATIENCE_S = 5.0


@dataclasses.dataclass(frozen=True)
class Cell:
    """One answer: a word for the table, and the sentence behind it.

    Of a judge: "refuses", "-" (it sees nothing wrong), "skipped" or "error". Of the bare run: "passes", "wrong" or
    "raises". Of either: "hangs" or "crashes".
    """

    word: str
    said: str = ""


_worker: list = []  # the process and our end of its pipe, while it lives


def row(bug: Bug) -> dict[str, Cell]:
    """The cells of all columns."""
    return {column: _asked(bug.name, column) for column in COLUMNS}


def stop() -> None:
    """End the process; the next question starts another."""
    if _worker:
        process, pipe = _worker
        pipe.close()
        process.join(PATIENCE_S)  # it ends by itself, and ends the compiler it has started
        process.kill()
        process.join()
        _worker.clear()


def _asked(name: str, column: str) -> Cell:
    if not _worker:
        _start()
    _worker[1].send((name, column))
    cell = answer(_worker[1])
    if cell.word in ("hangs", "crashes"):
        stop()
    return cell


def _start() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    _worker.extend((process, ours))


def answer(pipe) -> Cell:
    """What comes through the pipe from the process that was asked."""
    if not pipe.poll(LIMIT_S):
        return Cell("hangs", f"no answer within {LIMIT_S:g} s")
    try:
        return pipe.recv()
    except EOFError:
        return Cell("crashes", "the process ended without an answer")


def _serve(pipe) -> None:
    from zoo import BUGS

    bugs = {bug.name: bug for bug in BUGS}
    while True:
        try:
            name, column = pipe.recv()
        except EOFError:
            return
        pipe.send(cell(bugs[name], column))


def cell(bug: Bug, column: str) -> Cell:
    """One answer, asked for in this process."""
    return bare(bug) if column == BARE else _judged(bug, column)


def _judged(bug: Bug, judge: str) -> Cell:
    try:
        verdict = judges.JUDGES[judge](bug.trial())
    except Exception as error:
        return Cell("error", f"{type(error).__name__}: {error}")
    word = {True: "-", False: "refuses", None: "skipped"}[verdict.passed]
    return Cell(word, f"{verdict.message}\n{verdict.next}".strip())


def bare(bug: Bug) -> Cell:
    """What the usual check says: run with interpret=True, np.allclose(rtol=1e-2) against the reference."""
    trial = bug.trial()
    try:
        got = grid.run(grid.trace(trial.fn, *trial.args), True, *trial.args)
    except Exception as error:
        return Cell("raises", f"{type(error).__name__}: {error}")
    want = jax.tree.leaves(trial.reference(*trial.args))
    same = len(got) == len(want) and all(map(_allclose, got, want))
    return Cell("passes" if same else "wrong")


def _allclose(got, want) -> bool:
    got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
    return got.shape == want.shape and np.allclose(got, want, rtol=1e-2, equal_nan=True)
