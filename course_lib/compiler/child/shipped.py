"""Cycles that come with the course: what the simulator said of parts of the lessons' large grids.

A large grid is simulated for a few of its steps (simulating.extrapolate), and that is most of what a lesson's answers
cost, for a few numbers each. ``make build`` asks the simulator about all of them, and writes the numbers beside the
lesson. Whoever's kernel is the same program, for the same chip and the same libtpu, gets them at once. The program as a
whole is compiled all the same: whether it is refused, its VMEM and its code are the compiler's own, here and now.

The keys are those of ``cache``, which says what they are made of; where nothing may be kept, nothing of this is
believed either. COURSE_SHIPPED=0 asks the simulator about everything.
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
    """What is of use of the answer about a part: its cycles; of XLA's own products, how they are cut as well."""
    hlo = "" if "custom-call" in answer["hlo"] else answer["hlo"]
    return {"ok": True, "hlo": hlo, "code_bytes": 0, "dump": dataclasses.replace(answer["dump"], programs={}, vmem=())}


def get(key: str) -> dict | None:
    """The answer that came with the course; None without one, and where nobody wants it."""
    if os.environ.get("COURSE_SHIPPED") == "0" or environment.cache_folder() is None or key not in all_of_them():
        return None
    plain = all_of_them()[key]
    said = stored.dump({**plain, "programs": {}, "vmem": []})
    return {"ok": True, "hlo": plain.get("hlo", ""), "code_bytes": 0, "dump": said}


def note(key: str, answer: dict) -> None:
    """Remember for ``announce`` what was asked and answered, here or elsewhere."""
    _seen[key] = _plain(answer["dump"]) | ({"hlo": answer["hlo"]} if answer["hlo"] else {})


def announce() -> None:
    """Print all parts that this process has asked about, for the build."""
    print(json.dumps(_seen, sort_keys=True))


def _plain(said: Dump) -> dict:
    return {"cycles": said.cycles, "alike": said.alike, "time_split": said.time_split}


@functools.cache
def all_of_them() -> dict[str, dict]:
    """{key: what was written beside some lesson}."""
    return {key: plain for file in sorted(LESSONS.glob(FILES)) for key, plain in json.loads(file.read_text()).items()}
