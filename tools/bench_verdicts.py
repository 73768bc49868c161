"""How long a verdict takes: every exercise's own solution, checked again and again on this machine.

Prints the first verdict (JAX and the compiler's process are cold), then median, 95th percentile and slowest of the
warm ones: for whole checks, for each judge, and for each exercise, the slowest first. Times are of this machine at
this hour; compare within one run.
"""

import collections
import contextlib
import functools
import io
import json
import os
import pathlib
import statistics
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 7
os.environ["COURSE_RECORD"] = "0"  # these answers are ours


def main() -> None:
    began = time.perf_counter()
    from course_lib import checks, judges

    checks.start()
    print(f"{os.cpu_count()} cores, libraries loaded in {time.perf_counter() - began:.1f} s")
    of_judge = {name: [] for name in judges.JUDGES}
    for name, judge in judges.JUDGES.items():
        judges.JUDGES[name] = timed(judge, of_judge[name])
    check, of_exercise = checks.check, collections.defaultdict(list)
    for notebook in sorted((ROOT / "solutions").glob("*.ipynb")):
        calls = []
        checks.check = lambda id, answer, calls=calls: calls.append((id, answer))
        run_cells(notebook)
        for id, answer in calls:
            of_exercise[id] += [time_of(check, id, answer) for _ in range(ROUNDS)]
    first = next(iter(of_exercise.values())).pop(0)
    whole = [seconds for times in of_exercise.values() for seconds in times]
    print(f"first verdict {first:.2f} s, then {ROUNDS} rounds of {len(of_exercise)} exercises (seconds):")
    print(f"{'':12} {'median':>8} {'95 %':>8} {'slowest':>8} {'n':>5}")
    slowest = sorted(of_exercise.items(), key=lambda item: -statistics.median(item[1]))
    for name, times in [("whole check", whole), *of_judge.items(), *slowest]:
        print(row(name, times))


def row(name: str, times: list[float]) -> str:
    values = sorted(times)
    tail = values[int(0.95 * (len(values) - 1))]
    return f"{name:12} {statistics.median(values):8.2f} {tail:8.2f} {values[-1]:8.2f} {len(values):5}"


def run_cells(notebook: pathlib.Path) -> None:
    """Execute a solution's code cells in one namespace, without a kernel."""
    namespace: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{notebook.name}:{cell['id']}", "exec"), namespace)


def timed(function, times: list[float]):
    @functools.wraps(function)
    def wrapper(*args, **settings):
        began = time.perf_counter()
        result = function(*args, **settings)
        times.append(time.perf_counter() - began)
        return result

    return wrapper


def time_of(check, id: str, answer) -> float:
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        verdict = check(id, answer)
    seconds = time.perf_counter() - began
    assert verdict.passed, f"our own solution to {id} does not pass:\n{verdict}"
    return seconds


if __name__ == "__main__":
    main()
