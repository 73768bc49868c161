"""The projects of lesson 18: their ideal, XLA's program and our kernel at the large size, and par.

    python benchmarks/bench_capstones.py            with numbers behind it, 18.5 18.6 ..., only these
    python benchmarks/bench_capstones.py --write    asks XLA's compiler again: course_lib/lessons/lesson_18/xla.json
    python benchmarks/bench_capstones.py --write --not-simulated 18.5 18.8    without its simulator

Times are microseconds on a v5e. XLA's are read from that file, because the simulator takes minutes for some of its
programs, and ends without an answer for those of 18.5 and 18.8. Where there is no answer, the time is that of the
program's bytes at full bandwidth, or that of ``roofline.predict``, whichever is longer. 18.9 runs on four chips: all of
its times are predicted (model).
"""

import dataclasses
import importlib
import json
import os
import pathlib
import sys

import jupytext

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "course_lib/lessons/lesson_18"
SOLUTIONS = ROOT / "solutions/src/18_capstone.py"
PATIENCE_S, MEMORY_BYTES = 600, 14 << 30  # of XLA's simulation
HEAD = ("project", "binds", "ideal", "ours", "par", "XLA", "by", "XLA / ours")


def main(asked: list[str]) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from course_lib import checks, text

    checks.start()
    only, found = [arg for arg in asked if not arg.startswith("--")], projects()
    if "--write" in asked:
        simulate = "--not-simulated" not in asked
        found |= open_projects()
        write({id: rival_of(found[id], simulate) for id in only or found if id != "18.9"})
        return
    rows = [HEAD] + [row(found[id]) for id in only or found]
    print("\n".join(text.table(rows, right={2, 3, 4, 5, 7})))


def projects() -> dict[str, object]:
    """Return the module of each project by the number of its exercise."""
    modules = [
        importlib.import_module(f"course_lib.lessons.lesson_18.{file.stem}") for file in sorted(FOLDER.glob("e*.py"))
    ]
    return {module.EXERCISE.id: module for module in modules if module.EXERCISE.project}


def open_projects() -> dict[str, object]:
    """Return the modules of the projects without an answer of ours, by the names of their functions."""
    from course_lib.lessons.lesson_18 import open_stencil, open_top_64

    return {"stencil": open_stencil, "top_64": open_top_64}


def rival_of(project, simulate: bool):
    """Ask the compiler, or else the model, for the time of the reference."""
    from course_lib import compiler
    from course_lib.checks.stages.rival import time_of
    from course_lib.lessons.lesson_18 import rival

    written = getattr(project, "written_for_xla", project.reference)
    seconds, by = time_of(written, project.LARGE, simulate=simulate, time_limit_s=PATIENCE_S, memory_bytes=MEMORY_BYTES)
    report = compiler.compile_tpu(written, *project.LARGE, simulate=False)
    return rival.Rival(seconds=seconds, by=by, hbm_bytes=report.hbm_bytes)


def write(rivals: dict) -> None:
    """Store the times of some projects, and keep those of the others."""
    file = FOLDER / "xla.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept |= {id: dataclasses.asdict(rival) for id, rival in rivals.items()}
    file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def row(project) -> tuple[str, ...]:
    """Return a project's row of the table."""
    from course_lib import chips, vocabulary
    from course_lib.checks.kinds import golf
    from course_lib.lessons.lesson_18 import rival

    task, ours = project.EXERCISE, golf.score(project.EXERCISE, answer(project.EXERCISE))
    if task.mesh is not None:
        times = project.ideal_s(), ours / 1e9, task.golf.par / 1e9, project.apart_s()
        binds, by = "core", vocabulary.MODEL
    else:
        clock, xla = chips.chip("v5e").clock_hz, rival.xla(task.id)
        times = project.IDEAL.seconds(), ours / clock, task.golf.par / clock, xla.seconds
        binds, by = project.IDEAL.bound(), xla.by
    each = [f"{seconds * 1e6:,.0f}" for seconds in times]
    return f"{task.id} {task.defines}", binds, *each, by, f"{times[3] / times[1]:.1f}"


def answer(task):
    """Return our answer, from the cells of the solutions up to its check."""
    names: dict[str, object] = {}
    for cell in jupytext.read(SOLUTIONS).cells:
        if cell.cell_type == "code" and cell.source.strip() != "# FIRST CELL" and "checks." not in cell.source:
            exec(cell.source, names)
        if cell.metadata.get("answer") == task.id:
            return names[task.defines]
    raise SystemExit(f"{SOLUTIONS.name} has no answer to {task.id}.")


if __name__ == "__main__":
    main(sys.argv[1:])
