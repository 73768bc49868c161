"""Predicted against measured: roofline.predict on every published timing in docs/measured.csv.

    python benchmarks/bench_model.py          the table, and the prediction errors on rows left out of the fit
    python benchmarks/bench_model.py --fit    the constants in course_lib/roofline/constants.py, fitted again
    python benchmarks/bench_model.py --steps  the step time of lesson 5's formula and the compiler's, for 30 kernels

The constants are fitted on the rows marked "fit", in which one limit dominates, so that each constant can be read off
(docs/measured.md). The error that counts is that of the rows marked "held-out". A "twin" is the kernel of a fitted row
with one more operation fused in; it is neither fitted nor counted.
"""

import argparse
import dataclasses
import math
import statistics
import sys
import textwrap

import published_kernels
import step_kernels

from course_lib import roofline

# For each constant: the unit of the search and of the printed value, its largest value, and its starting value.
# "latency" is a share of the simulator's, "dispatch" the host's part of a call that was timed from Python.
GRID = {
    "issue_s": (0.01e-6, 10e-6, 0.3e-6),
    "latency": (0.01, 2.0, 0.8),
    "hbm": (0.01, 1.0, 0.8),
    "mxu": (0.01, 1.0, 0.95),
    "dispatch": (1e-6, 1e-3, 100e-6),
}
# Timings with small blocks exist for a v5e only. They determine only latency and issue together, so on a v5e the issue
# is the compiler's and the latency is fitted; on the other chips it is the other way round.
FREE = {"v5e": ("latency", "hbm", "mxu", "dispatch")}
FREE_ELSEWHERE = ("issue_s", "hbm", "mxu")


@dataclasses.dataclass(frozen=True)
class Timed:
    """A row that can be predicted, and its load on the chip: one load per dispatch."""

    row: dict[str, str]
    loads: tuple[roofline.Load, ...]

    def seconds(self, constants: dict[str, float]) -> float:
        """Return the prediction for what was measured, including the host's dispatches if the timing included them."""
        device = sum(roofline.time_of(load, fitted(self.row["chip"], constants)).seconds for load in self.loads)
        return device + int(self.row["dispatches"]) * constants["dispatch"]

    def error(self, constants: dict[str, float]) -> float:
        """Return (predicted - measured) / measured."""
        return self.seconds(constants) / float(self.row["seconds"]) - 1


def fitted(chip: str, constants: dict[str, float]) -> roofline.Fitted:
    """Return the constants in the library's form."""
    rest = {name: constants[name] for name in ("issue_s", "hbm", "mxu")}
    return roofline.Fitted(**rest, **roofline.latency(constants["latency"], chip=chip))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="fit the constants again and print them")
    parser.add_argument("--steps", action="store_true", help="a step by lesson 5's formula, beside the compiler's")
    asked = parser.parse_args()
    if asked.fit or asked.steps:
        print_constants() if asked.fit else step_kernels.print_table()
        return
    rows = published_kernels.rows()
    reasons = list(dict.fromkeys(row["unpredicted"] for row in rows if row["unpredicted"]))
    for chip in chips_of(rows):
        print_table(chip, [row for row in rows if row["chip"] == chip], reasons)
    for number, reason in enumerate(reasons, 1):
        print(textwrap.fill(f"[{number}] not counted: {reason}.", 110))
    for chip in chips_of(rows):
        print_summary(chip, [row for row in rows if row["chip"] == chip])


def chips_of(rows: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(row["chip"] for row in rows))


def shipped(chip: str) -> dict[str, float]:
    """Return the library's current constants."""
    known = roofline.FITTED[chip]
    rest = {name: getattr(known, name) for name in ("issue_s", "hbm", "mxu")}
    return rest | {"latency": roofline.LATENCY, "dispatch": roofline.DISPATCH_S}


def timed(rows: list[dict[str, str]], split: str = "") -> list[Timed]:
    """Return the rows that count, of one split or of all."""
    return [
        Timed(row, loads_of(row)) for row in rows if not row["unpredicted"] and (not split or row["split"] == split)
    ]


def loads_of(row: dict[str, str]) -> tuple[roofline.Load, ...]:
    return tuple(roofline.load(fn, *args, chip=row["chip"]) for fn, args in published_kernels.programs(row))


def errors(rows: list[Timed], constants: dict[str, float]) -> tuple[int, float, float]:
    """Return (rows, median, largest) of the absolute relative errors."""
    return figures([abs(row.error(constants)) for row in rows])


def figures(sizes: list[float]) -> tuple[int, float, float]:
    return len(sizes), statistics.median(sizes), max(sizes)


def fit(rows: list[Timed], chip: str) -> dict[str, float]:
    """Return the constants with the least squared log error, each a whole number of its unit, by descent.

    Constants that are not free, or that no row depends on, keep their values in the library.
    """
    free = [name for name in FREE.get(chip, FREE_ELSEWHERE) if any(depends(row, name) for row in rows)]
    now = shipped(chip) | {name: GRID[name][2] for name in free}
    best, stride = loss(rows, now), 16
    while stride:
        near = [moved(now, name, sign * stride) for name in free for sign in (1, -1)]
        least = min(near, key=lambda constants: loss(rows, constants))
        if loss(rows, least) < best:
            best, now = loss(rows, least), least
        else:
            stride //= 2
    return now


def depends(row: Timed, name: str) -> bool:
    """Whether a row's time can depend on a constant."""
    if name == "dispatch":
        return row.row["dispatches"] != "0"
    return name in ("hbm", "mxu") or any(load.kernels for load in row.loads)


def moved(constants: dict[str, float], name: str, units: int) -> dict[str, float]:
    """Return the constants with one of them changed by ``units``."""
    unit, largest, _ = GRID[name]
    whole = min(max(round(constants[name] / unit) + units, 1), round(largest / unit))
    return constants | {name: float(f"{whole * unit:.6g}")}


def loss(rows: list[Timed], constants: dict[str, float]) -> float:
    return sum(math.log(row.seconds(constants) / float(row.row["seconds"])) ** 2 for row in rows)


def leave_one_family_out(rows: list[Timed]) -> dict[str, list[float]]:
    """Return per family the errors of its rows with constants fitted on the chip's other families."""
    found = {}
    for family in dict.fromkeys(row.row["family"] for row in rows):
        constants = fit([row for row in rows if row.row["family"] != family], rows[0].row["chip"])
        found[family] = [abs(row.error(constants)) for row in rows if row.row["family"] == family]
    return found


def print_constants() -> None:
    """Print FITTED, HELD_OUT and DISPATCH_S in the form of course_lib/roofline/constants.py."""
    rows, dispatch = published_kernels.rows(), roofline.DISPATCH_S
    for chip in chips_of(rows):
        mine = [row for row in rows if row["chip"] == chip]
        found = fit(timed(mine, "fit"), chip)
        dispatch = found["dispatch"] if chip == "v5e" else dispatch
        count, median, worst = errors(timed(mine, "held-out"), found)
        constants = f"issue_s={1e6 * found['issue_s']:.2f}e-6, hbm={found['hbm']:.2f}, mxu={found['mxu']:.2f}"
        constants += f", latency {found['latency']:.2f}"
        print(f'"{chip}": Fitted({constants})   held out: ({count}, {median:.3f}, {worst:.3f})')
    print(f"DISPATCH_S = {1e6 * dispatch:.0f}e-6")


def print_table(chip: str, rows: list[dict[str, str]], reasons: list[str]) -> None:
    print(f"{chip:54} {'blocks':24} {'measured':>10} {'model':>10} {'error':>8}")
    for row in rows:
        name, note, predicted, error = row["id"].replace(f"-{chip}-", "-"), "", "", ""
        if not row["unpredicted"] or has_program(row):
            known = Timed(row, loads_of(row))
            predicted, error = ms(known.seconds(shipped(chip))), f"{100 * known.error(shipped(chip)):+.1f} %"
        if row["unpredicted"]:
            note = f"[{reasons.index(row['unpredicted']) + 1}]"
        elif row["split"] != "held-out":
            note = row["split"]
        print(f"{name:54} {row['blocks']:24} {ms(row['seconds']):>10} {predicted:>10} {error:>8} {note}".rstrip())
    print()


def has_program(row: dict[str, str]) -> bool:
    try:
        return bool(published_kernels.programs(row))
    except KeyError:
        return False


def ms(seconds: str | float) -> str:
    return f"{1e3 * float(seconds):.3f} ms"


def print_summary(chip: str, rows: list[dict[str, str]]) -> None:
    constants = shipped(chip)
    print(
        f"\n{chip}: {1e6 * constants['issue_s']:.2f} us of the core and {1e6 * roofline.FITTED[chip].read_s:.2f} us of "
        f"latency a step, {100 * constants['hbm']:.0f} % of the bandwidth, {100 * constants['mxu']:.0f} % of the peak, "
        f"{1e6 * constants['dispatch']:.0f} us a dispatch"
    )
    for split, what in (("fit", "fitted on"), ("twin", "twins of fitted rows"), ("held-out", "LEFT OUT of the fit")):
        if chosen := timed(rows, split):
            print(line(what, errors(chosen, constants)))
    skipped = sum(1 for row in rows if row["unpredicted"])
    print(f"  {'not counted':44} {skipped:3} rows, reasons above")
    print("  each family with constants fitted on all the others:")
    families = leave_one_family_out(timed(rows))
    for family, sizes in families.items():
        print(line(f"  {family}", figures(sizes)))
    print(line("  all of them", figures([size for sizes in families.values() for size in sizes])))


def line(what: str, found: tuple[int, float, float]) -> str:
    count, median, worst = found
    return f"  {what:44} {count:3} rows, median {100 * median:4.1f} %, worst {100 * worst:4.1f} %"


if __name__ == "__main__":
    sys.exit(main())
