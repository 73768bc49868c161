"""Cycles that ship with the course: the simulator's results for parts of the lessons' large grids.

A large grid is simulated for a few of its steps (simulating.extrapolate). This takes most of the time of a lesson's
answers, and yields only a few numbers each. ``make build`` asks the simulator about all of them and stores the numbers
with the lesson. A kernel that is the same program, for the same chip and the same libtpu, gets them at once. The whole
program is still compiled: whether it is refused, its VMEM and its code come from the compiler here and now.

The keys are those of ``cache``, which says what they cover; if caching is off, these are not used either.
COURSE_SHIPPED=0 asks the simulator about everything.
"""

import dataclasses
import functools
import json
import os
import pathlib

from course_lib import environment
from course_lib.compiler.dumps import stored
from course_lib.compiler.dumps.dump import Dump

LESSONS = pathlib.Path(__file__).parents[2] / "lessons"
FILES = "lesson_*/cycles_*.json"

_seen: dict[str, dict] = {}  # of this process


def of(answer: dict) -> dict:
    """Keep only what is needed of the answer about a part: its cycles, and the HLO if it is XLA's own matmul."""
    hlo = "" if "custom-call" in answer["hlo"] else answer["hlo"]
    return {"ok": True, "hlo": hlo, "code_bytes": 0, "dump": dataclasses.replace(answer["dump"], programs={}, vmem=())}


def get(key: str) -> dict | None:
    """Return the answer that ships with the course; None if there is none, or if shipped answers are turned off."""
    if os.environ.get("COURSE_SHIPPED") == "0" or environment.cache_folder() is None or key not in all_of_them():
        return None
    plain = all_of_them()[key]
    said = stored.dump({**plain, "programs": {}, "vmem": []})
    return {"ok": True, "hlo": plain.get("hlo", ""), "code_bytes": 0, "dump": said}


def note(key: str, answer: dict) -> None:
    """Remember a question and its answer for ``announce``, whether it was answered here or elsewhere."""
    _seen[key] = _plain(answer["dump"]) | ({"hlo": answer["hlo"]} if answer["hlo"] else {})


def announce() -> None:
    """Print all parts that this process has asked about, for the build."""
    print(json.dumps(_seen, sort_keys=True))


def _plain(said: Dump) -> dict:
    return {"cycles": said.cycles, "alike": said.alike, "time_split": said.time_split}


@functools.cache
def all_of_them() -> dict[str, dict]:
    """Return {key: shipped answer} for all lessons."""
    return {key: plain for file in sorted(LESSONS.glob(FILES)) for key, plain in json.loads(file.read_text()).items()}
