"""docs/public_kernels.md: the tables are made from docs/public_kernels.json, the sentences stand on the page."""

import datetime
import pathlib
import re

from course_lib import chips, judges, text

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/public_kernels.md"
BEGIN, END = "<!-- public kernels -->\n", "\n<!-- end of public kernels -->"
_MARKS = {
    "passed": "passed",
    "refused": "**refused**",
    "skipped": "skipped",
    "crashed": "**crashed**",
    "": "",
}
HEAD = (
    "kernel",
    "style",
    "small arguments",
    *judges.JUDGES,
    "compiles for",
    "predicted (compiler)",
    "least",
)


def written(entries: list[dict], page: str | None = None) -> str:
    """Return the page with the tables of these entries between its marks."""
    body = BEGIN + "\n\n".join([summary(entries), *tables(entries), refusals(entries)]) + END
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}",
        lambda _: body,
        page or PAGE.read_text(),
        flags=re.DOTALL,
    )


def summary(entries: list[dict]) -> str:
    """Return what was tried, when, how many kernels every judge passes, and for how many chips they compile."""
    passed = sum(_all_say(entry, ("passed",)) for entry in entries)
    refused = sum(not _all_say(entry, ("passed", "skipped", "")) for entry in entries)
    days = sorted({entry["made"] for entry in entries}, key=_date)
    asked = [entry for entry in entries if entry.get("chips")]
    everywhere = sum(_compiles(entry) == list(chips.NAMES) for entry in asked)
    return text_of(
        f"The tables have {len(entries)} kernels, from {len({(e['project'], e['path']) for e in entries})} files of "
        f"{len(_projects(entries))} projects. Every judge passes {passed} of them, at least one judge refuses "
        f"{refused}, and the other {len(entries) - passed - refused} could not be run by one or more judges. "
        f"{everywhere} of the {len(asked)} kernels whose other compilers were asked compile for all "
        f"{len(chips.NAMES)} chips. The answers were made {_span(days)}."
    )


def _all_say(entry: dict, words: tuple[str, ...]) -> bool:
    """Return whether every judge that was asked said one of the words. The judges of SparseCores are other ones."""
    heard = [finding["said"] for finding in _findings(entry) if "judge" in finding]
    return bool(heard) and all(word in words for word in heard)


def _compiles(entry: dict) -> list[str]:
    """Return the chips whose compiler takes the kernel, if the other chips were asked about it."""
    takes = {f["chip"]: f["takes"] for f in entry.get("chips", []) if "takes" in f}
    takes[entry["chip"]] = said(entry, "compiler")["said"] == "passed"
    return [chip for chip in chips.NAMES if takes.get(chip)] if entry.get("chips") else []


def _date(day: str) -> tuple[int, ...]:
    return datetime.datetime.strptime(day, "%d %B %Y").timetuple()[:3]


def _span(days: list[str]) -> str:
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"


def _projects(entries: list[dict]) -> list[str]:
    return sorted({entry["project"] for entry in entries}, key=str.lower)


def tables(entries: list[dict]) -> list[str]:
    """Return a heading and a table for each project."""
    found = []
    for project in _projects(entries):
        mine = [entry for entry in entries if entry["project"] == project]
        rows = [HEAD, ("---",) * len(HEAD), *map(row, mine)]
        lines = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
        commits = ", ".join(sorted({entry["commit"][:12] for entry in mine}))
        found.append(f"### {project} at {commits}\n\n{lines}")
    return found


def _findings(entry: dict) -> list[dict]:
    return [*entry.get("verdicts", []), *entry.get("chips", [])]


def said(entry: dict, judge: str) -> dict:
    """Return a judge's finding; one without a verdict if the process ended before it."""
    return next(
        (f for f in _findings(entry) if f.get("judge") == judge),
        {"said": "", "message": ""},
    )


def row(entry: dict) -> tuple[str, ...]:
    """Return the cells of one kernel."""
    name = f"{entry['kernel']}<br>`{entry['path']}`"
    verdicts = (_mark(entry, judge) for judge in judges.JUDGES)
    names = _compiles(entry)
    compiles = "all" if len(names) == len(chips.NAMES) else ", ".join(names) or ("none" if entry.get("chips") else "")
    return (name, entry["style"], entry["arrays"], *verdicts, compiles, *time(entry))


def _mark(entry: dict, judge: str) -> str:
    """Return a judge's word. On SparseCores the protocol judge sits where the simulator does elsewhere."""
    if judge == "simulator" and (protocol := said(entry, "protocol"))["said"]:
        return f"protocol: {_MARKS[protocol['said']]}"
    return _MARKS[said(entry, judge)["said"]]


def time(entry: dict) -> tuple[str, str]:
    """Return the predicted (compiler) time and the least: the larger of HBM bytes and FLOPs at the chip's full speed.

    The bytes are those of the arguments and results, moved once; the FLOPs are those that the kernel does.
    """
    price = next((f for f in _findings(entry) if f.get("price")), None)
    if price is None or not price["seconds"]:
        return "", ""
    chip = chips.chip(entry["chip"])
    least = max(
        price["least_bytes"] / chip.hbm_bandwidth,
        (price["flops"] or 0) / chip.bf16_flops,
    )
    arrays = "" if price["price"] == entry["arrays"] else f" for {price['price']}"
    return f"{text.duration(price['seconds'])}{arrays}", text.duration(least)


def refusals(entries: list[dict]) -> str:
    """Return what the judges and other chips' compilers said that did not pass a kernel, and why a process ended."""
    lines = ["### What was not passed, in the judges' words", ""]
    for entry in entries:
        words: dict[str, list[str]] = {}
        for finding in _findings(entry):
            if finding.get("said") in ("refused", "skipped", "crashed"):
                words.setdefault(f"{finding['said']}: {finding['message']}", []).append(finding["judge"])
            elif finding.get("takes") is False:
                words.setdefault(f"compiler refused: {finding['message']}", []).append(finding["chip"])
            elif finding.get("failed"):
                words.setdefault(finding["failed"], []).append("the process")
        said = " ".join(f"*{', '.join(names)}* {message}" for message, names in words.items())
        if said:
            lines.append(f"- **{entry['project']}, {entry['kernel']}.** {_escaped(said)}")
    return "\n".join(lines)


def _escaped(words: str) -> str:
    return " ".join(words.split()).replace("<", "&lt;").replace("|", "\\|")


def text_of(words: str) -> str:
    return " ".join(words.split())
