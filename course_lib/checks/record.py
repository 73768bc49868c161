"""A record of the learner's attempts, hints and passes with dates, in a small file that may be deleted.

``course_progress.json`` lies in the root of the clone or, without a clone, in the working directory. Nothing is written
under a grader, nbval, pytest or the build of the notebooks (COURSE_RECORD=0). There, and if the folder is not writable,
the record stays in memory until this process ends.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator

from course_lib.checks.result import NOT_ATTEMPTED, NOT_YET, PASSED

FILE = "course_progress.json"
FORMAT = 1
_SOMEBODY_ELSE = ("COURSE_GRADING", "NBGRADER_EXECUTION", "PYTEST_CURRENT_TEST")
_OUTCOMES = (NOT_ATTEMPTED, NOT_YET, PASSED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """The record of one exercise. A pass stays one, with its date (YYYY-MM-DD), whatever is tried afterwards."""

    outcome: str = NOT_ATTEMPTED
    passed_on: str = ""
    attempts: int = 0
    hints: int = 0
    assessed: str = ""
    best: int = 0  # the best score of golf; 0 if there is none
    log: list = dataclasses.field(default_factory=list)  # of a project, as stages.log writes it


_memory: dict[str, Entry] = {}  # the record, when nothing is written to a file
_unusable: set[pathlib.Path] = set()  # files that could not be read or written; each is reported once
_rehearsing = False


def entry(id: str) -> Entry:
    """Return the record of exercise ``id``."""
    return entries().get(id, Entry())


def entries() -> dict[str, Entry]:
    """Return all records, by exercise id."""
    if on_file():
        try:
            return _read()
        except OSError as error:
            _give_up(error, {})
    return dict(_memory)


def attempted(id: str, outcome: str, score: int | None = None) -> None:
    """Record the outcome of a check, and its score if it is a new best. An unstarted answer is no attempt."""
    if outcome == NOT_ATTEMPTED:
        return

    def change(old: Entry) -> Entry:
        best = min(filter(None, (old.best, score)), default=0)
        new = dataclasses.replace(old, attempts=old.attempts + 1, best=best)
        if old.outcome == PASSED:
            return new
        date = datetime.date.today().isoformat() if outcome == PASSED else ""
        return dataclasses.replace(new, outcome=outcome, passed_on=date)

    _note(id, change)


def hinted(id: str, number: int) -> None:
    """Record that hint ``number`` has been given."""
    _note(id, lambda old: dataclasses.replace(old, hints=max(old.hints, number)))


def assessed(id: str, assessment: str) -> None:
    """Record what the learner thinks of an explanation."""
    _note(id, lambda old: dataclasses.replace(old, assessed=assessment))


def logged(id: str, grown: Callable[[list], list]) -> None:
    """Replace the log of a project by ``grown(log)``."""
    _note(id, lambda old: dataclasses.replace(old, log=grown(old.log)))


@contextlib.contextmanager
def rehearsal() -> Iterator[None]:
    """Record nothing inside this context, for answers that are ours, not the learner's."""
    global _memory, _rehearsing
    kept, _memory = _memory, {}
    before, _rehearsing = _rehearsing, True
    try:
        yield
    finally:
        _memory, _rehearsing = kept, before


def rehearsing() -> bool:
    """Whether a ``rehearsal`` is going on."""
    return _rehearsing


def recording() -> bool:
    """Whether this process writes the file."""
    somebody_else = any(name in os.environ for name in _SOMEBODY_ELSE)
    return not (_rehearsing or somebody_else or os.environ.get("COURSE_RECORD") == "0")


def path() -> pathlib.Path:
    """Return where the file is, or would be."""
    here = pathlib.Path.cwd()
    return next((f for f in (here, *here.parents) if (f / "course_lib" / "__init__.py").is_file()), here) / FILE


def on_file() -> bool:
    """Whether the file is written, and can be."""
    return recording() and path() not in _unusable


def _note(id: str, change: Callable[[Entry], Entry]) -> None:
    """Change one entry of the file as it is now, so that two notebooks do not overwrite each other's entries."""
    if on_file():
        known: dict[str, Entry] = {}
        try:
            with _alone(path().parent):
                known = _read()
                _write(known | {id: change(known.get(id, Entry()))})
            return
        except OSError as error:
            _give_up(error, known)
    _memory[id] = change(_memory.get(id, Entry()))


def _read() -> dict[str, Entry]:
    """Read the entries of the file; rename it if it cannot be understood. Raise OSError."""
    try:
        text = path().read_bytes()
    except FileNotFoundError:
        return {}
    try:
        return _understood(json.loads(text))
    except (ValueError, RecursionError):
        aside = path().with_suffix(".broken.json")
        os.replace(path(), aside)
        print(f"{FILE} could not be read. It is now called {aside.name}, and your progress starts again.")
        return {}


def _understood(data: object) -> dict[str, Entry]:
    """Return the entries in the parsed file. Raise ValueError."""
    exercises = data.get("exercises") if isinstance(data, dict) and data.get("format") == FORMAT else None
    if not isinstance(exercises, dict):
        raise ValueError("not a progress file")
    return {id: _entry(fields) for id, fields in exercises.items()}


def _entry(fields: object) -> Entry:
    if not isinstance(fields, dict):
        raise ValueError("not an entry")
    kinds = {field.name: field.type for field in dataclasses.fields(Entry)}
    known = {name: value for name, value in fields.items() if name in kinds}  # a later version may have more fields
    if any(type(value) is not kinds[name] for name, value in known.items()):
        raise ValueError("a value of another type")
    found = Entry(**known)
    if found.outcome not in _OUTCOMES or min(found.attempts, found.hints, found.best) < 0:
        raise ValueError("a value that cannot be")
    return found


def _write(known: dict[str, Entry]) -> None:
    """Replace the file atomically, so that no one ever reads half of it. Raise OSError."""
    exercises = {id: _written(known[id]) for id in sorted(known)}
    handle, name = tempfile.mkstemp(prefix=".course_progress-", dir=path().parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "exercises": exercises}, file, indent=1)
            file.write("\n")
        os.replace(name, path())
    except BaseException:
        os.unlink(name)
        raise


def _written(entry: Entry) -> dict:
    """Return an entry as it is written; only projects have a log."""
    return {name: value for name, value in dataclasses.asdict(entry).items() if name != "log" or value}


def _give_up(error: OSError, known: dict[str, Entry]) -> None:
    """Go on without the file: keep its entries, and new ones, in memory until this process ends."""
    _unusable.add(path())
    _memory.update(known)
    print(f"Your progress is kept only until this kernel ends: {FILE}: {error.strerror or error}.")


@contextlib.contextmanager
def _alone(folder: pathlib.Path) -> Iterator[None]:
    """Hold the folder's lock; wait at most 2 s for it, and go on without it if the file system has no locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(handle)
