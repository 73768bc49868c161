"""A validator for declarations of exercises, which reports the first contradiction as a sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from course_lib import chips, judges, text
from course_lib.checks import inputs
from course_lib.checks.kinds import ASKS, JUDGED, RESULTS, find
from course_lib.checks.kinds.golf import BYTES, NANOSECONDS, Golf
from course_lib.checks.kinds.other_engines import ENGINES, GPU, SPARSE_CORE
from course_lib.checks.kinds.project import Project

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

MIN_HINTS = 3
MIN_SIZES = 3


def problem(task: Exercise) -> str:
    """Return what is wrong with a declaration; "" if nothing is."""
    return _common(task) or (_judged(task) if task.kind in JUDGED else _asked(task))


def _common(task: Exercise) -> str:
    if not re.fullmatch(r"\d\d\.[1-9]\d*", task.id) and task.id != f"own.{task.defines}":
        return 'id is a lesson of two digits, a dot and a number, as in "07.2".'
    if task.kind not in RESULTS:
        return f"kind is {task.kind!r}; it may be {', '.join(RESULTS)}."
    if not task.title or not task.defines.isidentifier():
        return f"title {task.title!r} and defines {task.defines!r} are a heading and a Python name."
    for name in ("hints", "inputs", "dtypes", "judges", "chips", "also", "sizes", "probes", "slips"):
        if not isinstance(getattr(task, name), tuple):
            return f"{name} is {getattr(task, name)!r:.60}; it is a tuple: a single item needs a comma, (item,)."
    if len(task.hints) < MIN_HINTS or not all(isinstance(h, str) and h for h in task.hints):
        return f"hints has {len(task.hints)} texts; {MIN_HINTS} or more are needed, from a nudge to nearly everything."
    if (task.points == 0) != (task.kind == "explain") or task.points < 0:
        return f"points is {task.points}: an explanation is worth 0, because nobody judges it; all else 1 or more."
    return ""


def _judged(task: Exercise) -> str:
    if any(not isinstance(probe, judges.Probe) for probe in task.probes):
        return f"probes has {task.probes!r:.60}; it is a tuple of judges.Probe."
    if any(not isinstance(slip, judges.Slip) for slip in task.slips):
        return f"slips has {task.slips!r:.60}; it is a tuple of judges.Slip."
    if any(isinstance(slip.output, str) for slip in task.slips):
        return "slips has one whose output is a name; only gradients have names, an output has a number, from 0."
    if task.asks is not None:
        return f"asks is for {', '.join(ASKS)}; its kind is {task.kind}."
    if (task.kind in ("golf", "project")) != isinstance(task.golf, Golf):
        return f"golf is {task.golf!r:.60}; for golf and projects, and for no other kind, it is a Golf: a unit and par."
    if (task.kind == "project") != isinstance(task.project, Project):
        return f"project is {task.project!r:.60}; for the kind project, and for no other, it is a Project."
    if task.project is not None and (complaint := _priced(task)):
        return complaint
    if task.listing:
        return "listing is for the kinds that ask; put the code of this one into its notebook."
    if task.mesh is not None and (complaint := _on_many_chips(task)):
        return complaint
    if task.advise is not None and not task.engine:
        return "advise is for kernels on another engine; the judges of a TensorCore choose their own words."
    if task.engine and (complaint := _on_another_engine(task)):
        return complaint
    if task.mesh is None and getattr(task.golf, "unit", "") == NANOSECONDS:
        return "golf counts ns; without a mesh it counts bytes or cycles."
    if strange := set(task.judges) - set(judges.JUDGES):
        return f"judges has {', '.join(sorted(strange))}; there are {', '.join(judges.JUDGES)}."
    if not task.judges or not task.chips:
        return "judges and chips may not be empty."
    return _runnable(task)


def _priced(task: Exercise) -> str:
    """Return what is wrong with what a project says of its scored arguments; "" if nothing is."""
    if task.golf.at is None and task.mesh is None:
        return "golf has no at; a project is scored for large arguments, which at returns."
    if task.golf.unit == BYTES:
        return (
            "golf counts bytes; a project is scored in cycles, or on several chips in ns, because it predicts a time."
        )
    if task.mesh is not None and task.project.planted:
        return "planted is for kernels on one chip; with a mesh it is 0."
    return ""


def _on_many_chips(task: Exercise) -> str:
    """Return what is wrong with an exercise for several chips; "" if nothing is."""
    if not isinstance(task.mesh, judges.Mesh):
        return f"mesh is {task.mesh!r:.60}; it is a judges.Mesh."
    for_one = ("gradient", "budget", "also_at", "probes", "slips")
    if given := [name for name in for_one if getattr(task, name)]:
        return f"{given[0]} is for kernels on one chip; with a mesh only judge_chips is asked."
    if (task.golf is not None) != (getattr(task.golf, "unit", "") == NANOSECONDS):
        return f'golf counts {task.golf.unit}; with a mesh it counts "{NANOSECONDS}".'
    return ""


def _on_another_engine(task: Exercise) -> str:
    """Return what is wrong with an exercise for SparseCores or a GPU; "" if nothing is."""
    if task.engine not in ENGINES:
        return f"engine is {task.engine!r:.60}; it may be {' or '.join(ENGINES)}, and is left out for a TensorCore."
    for_one = ("mesh", "gradient", "also_at", "probes")
    if given := [name for name in for_one if getattr(task, name)]:
        return f"{given[0]} is for kernels on a TensorCore; with engine={task.engine!r} leave it out."
    known = chips.GPU_TARGETS if task.engine == GPU else [name for name in chips.NAMES if chips.sparse_cores(name)]
    if strange := [chip for chip in task.chips if chip not in known]:
        return f"chips has {strange[0]!r}; with engine={task.engine!r} there are {', '.join(known)}."
    if task.budget is not None and (
        task.engine != SPARSE_CORE or task.budget != judges.Budget(hbm_bytes=task.budget.hbm_bytes)
    ):
        return (
            f"budget limits what nobody counts with engine={task.engine!r}; SparseCores have hbm_bytes, a GPU nothing."
        )
    if task.golf is not None and (task.engine != SPARSE_CORE or task.golf.unit != BYTES):
        return f'golf counts {task.golf.unit} with engine={task.engine!r}; it counts "{BYTES}", on SparseCores alone.'
    return ""


def _runnable(task: Exercise) -> str:
    """Check that a kernel can be judged: it needs arguments and a reference."""
    if task.reference is None:
        return "there is no reference to compare with."
    typed = bool(task.inputs or task.sizes or task.dtypes or task.within)
    if typed and task.cases is not None:
        return "it has typed inputs and cases; one of them makes the arguments, not both."
    if not typed and task.cases is None:
        return 'there are no arguments: inputs=("x: f32[N]",) with sizes=({"N": 4096}, ...), or cases=.'
    return (_typed(task) if typed else "") or _differentiated(task)


def _differentiated(task: Exercise) -> str:
    """Return what is wrong with the requested gradient; "" if nothing is."""
    asked = task.gradient
    if asked is None:
        return ""
    if not isinstance(asked, judges.Gradient):
        return f"gradient is {asked!r:.60}; it is a judges.Gradient."
    if not task.inputs:
        return ""  # the arguments are unknown until they are made
    names = [inputs.declared(text).name for text in task.inputs]
    if unknown := [one for one in asked.of or () if one not in names and one not in range(len(names))]:
        return f"the gradient is asked for by {unknown[0]!r}; the inputs are {', '.join(names)}."
    known = [f"d{name}" for name in names]
    if strange := [slip.output for slip in asked.slips if isinstance(slip.output, str) and slip.output not in known]:
        return f"a slip of the gradient has the output {strange[0]!r}; there are {', '.join(known)}."
    return ""


def _typed(task: Exercise) -> str:
    try:
        wanted = [inputs.declared(text) for text in task.inputs]
        for size in task.sizes:
            for dtype in task.dtypes or ("f32",):
                shapes = [inputs.type_of(i, size, dtype).shape for i in wanted]
                if any(0 in shape for shape in shapes):
                    return f"the size {size} makes an empty array."
    except ValueError as error:
        return str(error)
    names = {dim for i in wanted for dim in i.dims if not dim.isdigit()}
    if len({i.name for i in wanted}) < len(wanted) or not wanted:
        return f"inputs {task.inputs!r} need different names."
    for size in task.sizes:
        if unknown := set(size) - names:
            return f"the size {size} gives {', '.join(sorted(unknown))}, an axis that no input has."
    if len(task.sizes) < MIN_SIZES or not any(map(inputs.is_odd, task.sizes)):
        return (
            f"sizes has {len(task.sizes)}: {MIN_SIZES} or more are needed, one of them odd (no multiple of 8, or of "
            "128). Where a size must divide, make the arguments with cases= and say why."
        )
    if ("T" in {i.dtype for i in wanted}) != bool(task.dtypes):
        return f'dtypes is {task.dtypes!r}: it says what T is, in an input such as "x: T[M,N]".'
    if task.within is not None and not task.within[0] < task.within[1]:
        return f"within is {task.within}; it is (low, high)."
    return ""


def _asked(task: Exercise) -> str:
    if task.gradient is not None or task.slips or task.engine:
        return "gradient, slips and engine are for kernels, of the kinds write, configure, repair and golf."
    if task.golf is not None or task.project is not None:
        return "golf and project are for kernels, of the kinds golf and project."
    if not isinstance(task.asks, ASKS[task.kind]):
        return f"asks is {type(task.asks).__name__}; for the kind {task.kind} it is a {ASKS[task.kind].__name__}."
    why = getattr(task.asks, "why", "")
    if len(f"{task.id} passed: {why}") > text.COLUMNS or "\n" in why:
        return f"why is {len(why)} characters long: what a pass prints is one line of {text.COLUMNS} columns."
    if task.kind != "find":
        return ""
    return find.problem(task.asks, task.listing) or _runnable(task)
