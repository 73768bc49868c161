"""How long a verdict takes: every exercise's own solution, checked again and again on this machine.

Prints the first verdict (JAX and the compiler's process are cold), then median, 95th percentile and slowest of the
warm ones, for whole checks and for each judge. Times are of this machine at this hour; compare within one run.
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


def main() -> None:
    began = time.perf_counter()
    from course_lib import checks, judges

    checks.start()
    print(f"{os.cpu_count()} cores, libraries loaded in {time.perf_counter() - began:.1f} s")
    times = collections.defaultdict(list)
    for name, judge in judges.JUDGES.items():
        judges.JUDGES[name] = timed(judge, times[name])
    check, warm = checks.check, times["whole check"]
    for notebook in sorted((ROOT / "solutions").glob("*.ipynb")):
        calls = []
        checks.check = lambda id, answer, calls=calls: calls.append((id, answer))
        run_cells(notebook)
        warm += [time_of(check, id, answer) for id, answer in calls for _ in range(ROUNDS)]
    first = warm.pop(0)
    print(f"first verdict {first:.2f} s, then {ROUNDS} rounds of {len(warm) // ROUNDS + 1} exercises (seconds):")
    print(f"{'':12} {'median':>8} {'95 %':>8} {'slowest':>8} {'n':>5}")
    for name in ("whole check", *judges.JUDGES):
        values = sorted(times[name])
        tail = values[int(0.95 * (len(values) - 1))]
        print(f"{name:12} {statistics.median(values):8.2f} {tail:8.2f} {values[-1]:8.2f} {len(values):5}")


def run_cells(notebook: pathlib.Path) -> None:
    """Execute a solution's code cells in one namespace, without a kernel."""
    namespace: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{notebook.name}:{cell['id']}", "exec"), namespace)


def timed(function, times: list[float]):
    @functools.wraps(function)
    def wrapper(*args):
        began = time.perf_counter()
        result = function(*args)
        times.append(time.perf_counter() - began)
        return result

    return wrapper


def time_of(check, id: str, answer) -> float:
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        verdict = check(id, answer)
    assert verdict.passed, f"our own solution to {id} does not pass:\n{verdict}"
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
