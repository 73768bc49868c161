"""The stage of the tuned table: the blocks that the learner's function uses, by chip and shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax

from course_lib import compiler, text
from course_lib.checks.kinds import golf
from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed
from course_lib.checks.stages import log, names
from course_lib.checks.unfit import described
from course_lib.compiler import progress

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

Key = tuple[str, tuple[int, ...]]
_PATIENCE_S = 60.0


def result(task: Exercise, fn: object, table: object) -> Result:
    """Compile the function with the blocks of each entry that the project asks for, and pass if all compile.

    An entry's key is (chip, shape of the first argument), its value the keyword arguments for ``fn``.
    """
    id = f"{task.id} table"
    if task.mesh is not None:
        return passed(id, "a kernel on several chips needs none.")
    wanted, name = _wanted(task), names.table(task)
    if table is None or is_empty(table) or table == {}:
        return not_attempted(id, f"write {name} = {{{_shown(next(iter(wanted)))}: {{...}}}}, with your blocks")
    if fn is None or not callable(fn):
        return not_attempted(id, f"write {task.defines} first")
    if not isinstance(table, dict):
        what = f"{name} is {described(table)}."
        return not_yet(id, "it is not a dict.", what, f"write {name} = {{{_shown(next(iter(wanted)))}: {{...}}}}.")
    if missing := [key for key in wanted if key not in table]:
        what = f"It has no entry for {_shown(missing[0])}."
        return not_yet(id, "an entry is missing.", what, f"add {_shown(missing[0])}: {{...}}, with the best blocks.")
    if complaint := next((said for key in wanted if (said := _unfit(task, fn, table, key))), None):
        return not_yet(id, "an entry cannot be used.", *complaint)
    return _compiled(task, id, fn, table, wanted)


def _wanted(task: Exercise) -> dict[Key, tuple]:
    """Return {key: arguments} of the entries that a project asks for."""
    found = {}
    for args in [make() for make in task.project.shapes] or [golf.scored_at(task)]:
        shape = tuple(jax.tree.leaves(args)[0].shape)
        found |= {(chip, shape): args for chip in task.chips}
    return found


def _unfit(task: Exercise, fn: Callable, table: dict, key: Key) -> tuple[str, str] | None:
    """Return what is wrong with an entry before anything is compiled, and what to try."""
    blocks = table[key]
    if not isinstance(blocks, dict) or not all(isinstance(word, str) for word in blocks):
        what = f"The entry for {_shown(key)} is {described(blocks)}."
        return what, "write a dict of keyword arguments, as in {'bm': 256}."
    known = inspect.signature(fn).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return None
    if strange := [word for word in blocks if word not in known]:
        what = f"The entry for {_shown(key)} has {strange[0]!r}, but {task.defines} takes {', '.join(known)}."
        return what, f"let {task.defines} take its blocks as keyword arguments, with defaults."
    return None


def _compiled(task: Exercise, id: str, fn: Callable, table: dict, wanted: dict[Key, tuple]) -> Result:
    rows = []
    with progress.shown(f"compiling the entries of {names.table(task)}") as say:
        for key, args in wanted.items():
            chip, _ = key
            say(f"compiling {_shown(key)}")
            try:
                made = task.build(_with_blocks(fn, table[key]))
                report = compiler.compile_tpu(made, *args, chip=chip, time_limit_s=_PATIENCE_S)
            except compiler.Unavailable as error:
                what = f"The TPU's compiler decides whether blocks fit, and this machine does not have it. {error}"
                return not_yet(id, "skipped: nothing was compiled.", what, "check it on Linux, on Intel or AMD.")
            if not report.ok:
                what = f"With {_words(table[key])} for {_shown(key)}: {report.error}"
                return not_yet(id, "an entry does not compile.", what, "choose smaller blocks there.", report=report)
            rows.append(_row(key, table[key], report))
    log.add(task.id, log.TUNED, {"rows": rows, "passed": True})
    return passed(id, f"all {text.counted(len(rows), 'shape')} compile." if len(rows) > 1 else "its shape compiles.")


def _with_blocks(fn: Callable, blocks: dict) -> Callable:
    def with_blocks(*args):
        return fn(*args, **blocks)

    return with_blocks


def _row(key: Key, blocks: dict, report: compiler.Report) -> dict:
    return {
        "chip": key[0], "shape": list(key[1]), "blocks": _words(blocks), "seconds": report.seconds,
        "cycles": report.cycles, "vmem_bytes": report.vmem_bytes,
    }  # fmt: skip


def _words(blocks: dict) -> str:
    return ", ".join(f"{word}={value!r}" for word, value in blocks.items()) or "no blocks"


def _shown(key: Key) -> str:
    return f"({key[0]!r}, {key[1]})"
