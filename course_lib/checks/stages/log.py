"""The log of a project: what was predicted, checked, tested and tuned, in order, each entry with a hash.

A hash covers an entry and the hash before it, so an entry that is changed, added or taken out later shows in the
report. It is no secret: whoever wants to forge a log can, but not by accident, and not by editing one number.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json

from course_lib.checks import record

PREDICTED, CHECKED, TESTED, TUNED = "predicted", "checked", "tested", "tuned"
_DIGITS = 12  # of a hash, in hexadecimal


@dataclasses.dataclass(frozen=True, kw_only=True)
class Note:
    """One entry of a log."""

    what: str  # PREDICTED, CHECKED, TESTED or TUNED
    on: str  # date and time of day, as in 2026-11-30T16:02:11
    said: dict  # what happened: text and numbers
    hash: str
    genuine: bool  # whether the hash is that of this entry, after the entries before it


def notes(id: str) -> list[Note]:
    """Return the log of a project, the oldest entry first; entries that cannot be read are left out."""
    found, before = [], ""
    for entry in record.entry(id).log:
        if not _is_entry(entry):
            continue
        genuine = entry["hash"] == _hash(before, entry)
        found.append(Note(**{name: entry[name] for name in ("what", "on", "said", "hash")}, genuine=genuine))
        before = entry["hash"]
    return found


def add(id: str, what: str, said: dict) -> str:
    """Add an entry to the log of a project, and return its hash."""
    entry = {"what": what, "on": datetime.datetime.now().isoformat(timespec="seconds"), "said": said}

    def grown(log: list) -> list:
        before = log[-1].get("hash", "") if log and isinstance(log[-1], dict) else ""
        entry["hash"] = _hash(before, entry)
        return [*log, entry]

    record.logged(id, grown)
    return entry["hash"]


def last(id: str, what: str) -> Note | None:
    """Return the newest entry of one kind; None if there is none."""
    return next((note for note in reversed(notes(id)) if note.what == what), None)


def first_prediction(id: str) -> Note | None:
    """Return the prediction that counts: the last one before the first result was shown; None if there is none."""
    counted = None
    for note in notes(id):
        if note.what == PREDICTED:
            counted = note
        elif note.what == CHECKED and counted is not None and note.said.get("score"):
            break
    return counted


def _hash(before: str, entry: dict) -> str:
    text = json.dumps([before, entry["what"], entry["on"], entry["said"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _is_entry(entry: object) -> bool:
    """Whether an entry of the file is one: people may edit it."""
    kinds = {"what": str, "on": str, "said": dict, "hash": str}
    return isinstance(entry, dict) and all(isinstance(entry.get(name), kind) for name, kind in kinds.items())
