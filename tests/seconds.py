"""Where the time of a test run went: seconds by part of the tests, printed at its end and held against budgets.toml."""

import collections
import pathlib
import tomllib

BUDGETS = pathlib.Path(__file__).with_name("budgets.toml")
_SHOWN_S = 1.0


def part_of(nodeid: str) -> str:
    """The part a test belongs to: its folder below tests/, or what its file's name begins with (test_viz_draw: viz)."""
    path = pathlib.PurePosixPath(nodeid.partition("::")[0]).relative_to("tests")
    return path.parts[0] if len(path.parts) > 1 else path.stem.removeprefix("test_").partition("_")[0]


def by_part(reports: list) -> list[tuple[str, float, int]]:
    """(part, seconds in set-up, tests and tear-down, number of tests), the longest first."""
    seconds, tests = collections.Counter(), collections.Counter()
    for report in reports:
        part = part_of(report.nodeid)
        seconds[part] += report.duration
        tests[part] += report.when == "call"
    return [(part, spent, tests[part]) for part, spent in seconds.most_common()]


def lines(reports: list) -> list[str]:
    """A line for each part that took a second or more, one for the rest, and the sum over all workers."""
    rows = by_part(reports)
    shown, rest = [r for r in rows if r[1] >= _SHOWN_S], [r for r in rows if r[1] < _SHOWN_S]
    if rest:
        shown.append(("the rest", sum(spent for _, spent, _ in rest), sum(count for _, _, count in rest)))
    shown.append(("all, over the workers", sum(spent for _, spent, _ in rows), sum(count for _, _, count in rows)))
    return [f"{spent:8.0f} s  {count:5} tests  {part}" for part, spent, count in shown]


def over(reports: list, budgets: pathlib.Path = BUDGETS) -> list[str]:
    """Return a line for each part, and for their sum, over its budget; sweeps do not count."""
    allowed = tomllib.loads(budgets.read_text())["seconds"]
    rows = by_part([report for report in reports if "sweep" not in report.keywords])
    taken = [("all", sum(spent for _, spent, _ in rows)), *((part, spent) for part, spent, _ in rows)]
    limits = [(part, spent, allowed.get(part, allowed["any other part"])) for part, spent in taken]
    return [
        f"{part}: {spent:.0f} s, and its budget in tests/budgets.toml is {limit:.0f} s"
        for part, spent, limit in limits
        if spent > limit
    ]
