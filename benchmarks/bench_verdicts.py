"""How long a verdict takes: our own solution to every exercise, checked twice on this machine.

    python benchmarks/bench_verdicts.py [07 13]     of these lessons only; all of them take half an hour

At the first attempt the cache of compiler answers is empty. The second attempt is a new definition of the same answer,
as when a learner runs the cell again, so the compiler's answers on it and on the reference are cached. Prints the
median, the 95th percentile and the slowest of both, over all exercises and over those with judged kernels, and then a
list of the latter, the slowest first. Timings depend on this machine and its current load; compare them only within a
run.
"""

import contextlib
import io
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
ATTEMPTS = ("first attempt", "second")


def main() -> None:
    os.environ["COURSE_RECORD"] = "0"  # these answers are ours, not a learner's
    with tempfile.TemporaryDirectory(prefix="course-bench-") as kept:
        os.environ["COURSE_CACHE"] = kept
        began = time.perf_counter()
        from course_lib import checks
        from course_lib.checks.exercise import exercises
        from course_lib.checks.kinds import JUDGED

        checks.start()
        print(f"{os.cpu_count()} cores, libraries loaded in {time.perf_counter() - began:.1f} s; seconds:")
        attempts = [seconds_of_all(checks, sys.argv[1:]) for _ in ATTEMPTS]
    tasks = {id: task for id, task in exercises().items() if not sys.argv[1:] or id[:2] in sys.argv[1:]}
    if missing := set(tasks) - set(attempts[0]):
        raise SystemExit(f"no check in solutions/ of {', '.join(sorted(missing))}: make build first")
    of_kernels = sorted((id for id in tasks if tasks[id].kind in JUDGED), key=lambda id: -attempts[1][id])
    print(f"{'':24} {'median':>8} {'95 %':>8} {'slowest':>8} {'n':>5}")
    for name, times in zip(ATTEMPTS, attempts, strict=True):
        print(row(f"{name}, all", list(times.values())))
        print(row(f"{name}, kernels", [times[id] for id in of_kernels]))
    print(f"\n{'':24} {'first':>8} {'second':>8}")
    for id in of_kernels:
        print(f"{id:24} {attempts[0][id]:8.2f} {attempts[1][id]:8.2f}")


def seconds_of_all(checks, lessons: list[str]) -> dict[str, float]:
    """Return {exercise: seconds of its verdict} of these lessons, or of all, with every solution defined afresh."""
    seconds: dict[str, float] = {}
    check = checks.check
    checks.check = timed(check, seconds)
    try:
        for notebook in sorted((ROOT / "solutions").glob("*.ipynb")):
            if not lessons or notebook.name[:2] in lessons:
                run_cells(notebook)
                print(f"  {notebook.stem}: {sum(seconds.values()):.0f} s so far", file=sys.stderr)
    finally:
        checks.check = check
    return seconds


def timed(check: Callable, seconds: dict[str, float]) -> Callable:
    def call(id: str, answer: object = None):
        began = time.perf_counter()
        verdict = check(id, answer)
        seconds[id] = time.perf_counter() - began
        assert verdict.passed, f"our own solution to {id} does not pass:\n{verdict}"
        return verdict

    return call


def run_cells(notebook: pathlib.Path) -> None:
    """Execute a solution's code cells in one namespace, without a kernel."""
    namespace: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{notebook.name}:{cell['id']}", "exec"), namespace)


def row(name: str, times: list[float]) -> str:
    values = sorted(times)
    tail = values[int(0.95 * (len(values) - 1))]
    return f"{name:24} {statistics.median(values):8.2f} {tail:8.2f} {values[-1]:8.2f} {len(values):5}"


if __name__ == "__main__":
    main()
