"""XLA's time for each project at its large size, stored by ``benchmarks/bench_capstones.py --write``."""

import dataclasses
import importlib.resources
import json

from course_lib.checks.kinds.project import Ideal, Project


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rival:
    """The time of XLA's program on a v5e.

    ``by`` says where it comes from, in the words of ``Project.xla_by``: the compiler's simulator; or, where that gives
    no answer, what the program moves at full bandwidth, so that it takes at least as long, or ``roofline.predict``.
    """

    seconds: float
    by: str
    hbm_bytes: int | None  # of the compiled program, each array counted once


def xla(id: str) -> Rival:
    """Return the rival of project ``id``. Raise KeyError for one without a stored time."""
    return Rival(**json.loads(importlib.resources.files(__package__).joinpath("xla.json").read_text())[id])


def against(id: str, ideal: Ideal, **more) -> Project:
    """Return what project ``id`` is compared with: its ideal, and XLA's stored time."""
    stored = xla(id)
    return Project(ideal=ideal, xla_s=stored.seconds, xla_by=stored.by, xla_bytes=stored.hbm_bytes, **more)
