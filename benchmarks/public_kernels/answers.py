"""The answers: docs/public_kernels.json, one entry a kernel."""

import datetime
import json
import pathlib

from public_kernels.adapter import Adapter

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs/public_kernels.json"


def read() -> list[dict]:
    """Return the entries, in order of project and kernel."""
    return json.loads(FILE.read_text()) if FILE.exists() else []


def of(project: str, kernel: str) -> dict | None:
    """Return the entry of one kernel."""
    return next((e for e in read() if (e["project"], e["kernel"]) == (project, kernel)), None)


def keep(project: str, commit: str, adapter: Adapter, what: str, found: list[dict]) -> None:
    """Put findings, "verdicts" or "chips", in place of earlier ones. Verdicts of another commit void the chips."""
    facts = {
        "project": project,
        "kernel": adapter.name,
        "commit": commit,
        "path": adapter.path,
        "style": adapter.style,
        "arrays": adapter.arrays,
        "chip": adapter.chip,
        "made": f"{datetime.date.today():%d %B %Y}",
    }
    known = of(project, adapter.name) or {}
    other = {"chips": known["chips"]} if what == "verdicts" and known.get("chips") else {}
    if what == "chips":
        other = {"verdicts": known.get("verdicts", [])}
    others = [e for e in read() if (e["project"], e["kernel"]) != (project, adapter.name)]
    entries = sorted(
        [*others, {**facts, **other, what: found}],
        key=lambda e: (e["project"].lower(), e["kernel"]),
    )
    FILE.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
