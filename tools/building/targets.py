"""All build targets, by name, built in parallel."""

import functools
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

from building import ROOT, BuildError, cycles, glossary, golf, lessons, picture, widget_state
from building.answers import answers_of, without_answers
from building.run import execute
from building.source import dump, read_source

Files = dict[str, str]  # {path from the repository's root: text}


def targets() -> dict[str, Callable[[], Files]]:
    """Return {name: a function that makes its files}: the sources, then the files derived from all of them."""
    found = {
        f"{kind}/{source.stem}": functools.partial(make, source)
        for kind, make in (("notebooks", notebook), ("solutions", exercises))
        for source in sorted(ROOT.glob(f"{kind}/src/[0-9]*.py"))
    }
    return found | {
        "README.md": lambda: {"README.md": lessons.readme()},
        glossary.PATH: lambda: {glossary.PATH: glossary.page()},
        picture.PATH: lambda: {picture.PATH: picture.learner()},
    }


def notebook(source: pathlib.Path) -> Files:
    """Return the notebook of a lesson, executed, and keep the state of its widgets for the book."""
    executed, pictures, shipped = _executed(read_source(source), source)
    widget_state.keep(source.stem, pictures)
    return {f"notebooks/{source.stem}.ipynb": dump(executed)} | shipped


def exercises(source: pathlib.Path) -> Files:
    """Return the exercises of a lesson with answers, executed, and without them; and the answers alone."""
    solved, lesson = read_source(source), f"course_lib/lessons/lesson_{source.stem[:2]}"
    executed, _, shipped = _executed(golf.with_scores(solved), source)
    executed, scores = golf.without_scores(executed)
    files = {
        f"exercises/{source.stem}.ipynb": dump(without_answers(solved)),
        f"solutions/{source.stem}.ipynb": dump(executed),
        f"{lesson}/solutions.json": _json(answers_of(solved)),
        **_minutes(source),
    }
    return files | shipped | ({f"{lesson}/golf.json": _json(scores)} if scores else {})


def _executed(notebook, source: pathlib.Path) -> tuple[object, widget_state.Pictures, Files]:
    """Return the executed notebook, its pictures, and the file of the simulator's cycles if any were computed."""
    executed, pictures = execute(cycles.with_cycles(notebook), source)
    executed, text = cycles.without_cycles(executed)
    file = f"course_lib/lessons/lesson_{source.stem[:2]}/cycles_{source.parent.parent.name}.json"
    return executed, pictures, {file: text} if text else {}


def minutes_files() -> Files:
    """Return the minutes that the first cells of all lessons state."""
    return {path: text for source in ROOT.glob("solutions/src/[0-9]*.py") for path, text in _minutes(source).items()}


def _minutes(source: pathlib.Path) -> Files:
    return {f"course_lib/lessons/lesson_{source.stem[:2]}/minutes.json": _json(lessons.minutes(source.stem))}


def _json(data: dict) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def build(only: str = "") -> Files:
    """Build the files of every target whose name contains ``only``, or one of several texts separated by commas.

    As many are built at a time as there are processors.

    Raises BuildError for the first that cannot be built.
    """
    chosen = {name: make for name, make in targets().items() if any(part in name for part in only.split(","))}
    if not chosen:
        raise BuildError(f"there is nothing to build whose name contains {only!r}.")
    built: Files = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {name: pool.submit(_timed, make) for name, make in chosen.items()}
        try:
            for name, (files, seconds) in _in_order(running):
                built |= files
                print(f"{name}: {seconds:.1f} s", file=sys.stderr)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return built


def _timed(make: Callable[[], Files]) -> tuple[Files, float]:
    started = time.monotonic()
    return make(), time.monotonic() - started


def _in_order(running: dict[str, Future]) -> Iterator[tuple[str, tuple[Files, float]]]:
    """Yield each result once all before it are there; meanwhile show a bar, on a terminal."""
    on_terminal = sys.stderr.isatty()
    for name, future in running.items():
        while on_terminal and not future.done():
            done = sum(other.done() for other in running.values())
            bar = f"[{'#' * done}{'.' * (len(running) - done)}] {done} of {len(running)}, waiting for {name}"
            print(f"\r{bar}", end="\033[K", file=sys.stderr, flush=True)
            wait([future], timeout=0.5)
        if on_terminal:
            print("\r\033[K", end="", file=sys.stderr)
        yield name, future.result()
