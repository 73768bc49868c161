"""Slips in one operation of the reference: a factor left out, a sum for a mean, a maximum along another axis.

The reference runs again with one of its operations changed. The change that gives the wrong output in every element, to
rounding, and does so for shuffled arguments too, is what the kernel has done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import jax
import numpy as np

from course_lib.judges.slips import elementwise_edits, expressions, reduction_edits, reference_softmax, reference_steps
from course_lib.judges.slips import slip as slips
from course_lib.judges.slips.edit import Edit
from course_lib.judges.slips.expressions import Expressions
from course_lib.judges.slips.reference_steps import Step, Steps
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_MOST_STEPS = 40  # operations of the reference
_MOST_ELEMENTS = 2**20  # of all arguments and of the output: each edit runs a part of the reference
_NEAR = 0.01  # of the largest value: for shuffled arguments no bound is computed


def slip(found: Finding) -> Complaint | None:
    """Report the first change of one operation that gives exactly what the function returned."""
    if found.is_called or found.got.size + sum(a.size for a in found.leaves) > _MOST_ELEMENTS:
        return None
    try:
        steps = reference_steps.steps_of(found.reference, found.args)
        if len(steps.steps) > _MOST_STEPS:
            return None
        env = reference_steps.run(steps, found.args)
        return next((said for edit in _edits(found, steps) if (said := _said_of(found, steps, env, edit))), None)
    except Exception:  # JAX cannot trace the reference, so nothing is known of it
        return None


def suspects(found: Finding) -> Iterator[Suspect]:
    """Yield the changes of one operation of a reference that is written out, as that of a gradient may be."""
    steps = reference_steps.steps_of(found.reference, found.args)
    env = reference_steps.run(steps, found.args)
    for edit in _edits(found, steps):
        yield Suspect(edit.means, edit.next, functools.partial(_changed, steps, env, edit, found.args), found.args)


def _changed(steps: Steps, env: dict, edit: Edit, known: tuple, *args) -> tuple:
    """Return the outputs of the reference with an edit; ``env`` has all values for the arguments ``known``."""
    if all(a is b for a, b in zip(args, known, strict=True)):
        other = reference_steps.run_on(steps, env, edit.value, edit.of(env))
    else:
        other = reference_steps.run(steps, args, {edit.value: edit.of})
    return tuple(other[n] for n in steps.outputs)


def not_a_number(found: Finding) -> Complaint | None:
    """Do so for NaN, before rules that know of NaN no more than where it is."""
    return slip(found) if found.unwritten[found.first] and found.got.dtype.kind not in "iub" else None


def _edits(found: Finding, steps: Steps) -> Iterator[Edit]:
    """Yield the changes of every operation that the output depends on, the last operation first."""
    named = expressions.of(found, steps)
    blocks = sorted(reference_softmax.sizes_of_blocks(found.walk))
    readable = [
        step
        for step in reference_steps.before(steps, steps.outputs[found.number])
        if all(map(named.is_readable, step.inputs))
    ]
    for step in readable:
        yield from elementwise_edits.of(step, steps, named)
        yield from reduction_edits.of(step, steps, named, blocks)
    for step in readable:
        yield from _of_one_use(step, steps, named)


def _of_one_use(step: Step, steps: Steps, named: Expressions) -> Iterator[Edit]:
    """Yield the changes of an operand of a step that other steps take, too, and find as it should be."""
    for place in dict.fromkeys(step.inputs):
        made = steps.made.get(place)
        if made is None or len(step.outputs) != 1 or sum(place in other.inputs for other in steps.steps) < 2:
            continue
        for edit in elementwise_edits.of(made, steps, named):
            if edit.value == place:
                value = functools.partial(_taken_with, step, place, edit)
                where = named.call(step)
                where = f"in one use of {named(place)}" if "(...)" in where else f"in {where}"
                yield Edit(step.outputs[0], f"{where} {edit.means}", edit.next, value)


def _taken_with(step: Step, place: int, edit: Edit, env: dict) -> jax.Array:
    """Return the output of a step that finds the edit's value in the place of one of its operands."""
    given = [edit.of(env) if n == place else env[n] for n in step.inputs]
    return step.eqn.primitive.bind(*given, **step.eqn.primitive.get_bind_params(step.eqn.params))


def _said_of(found: Finding, steps: Steps, env: dict, edit: Edit) -> Complaint | None:
    value = functools.partial(_changed, steps, env, edit, found.args)
    said = slips.said_of(found, Suspect(edit.means, edit.next, value, found.args))
    return said if said and _holds_elsewhere(found, value) else None


def _holds_elsewhere(found: Finding, value: Callable) -> bool:
    """Whether the changed reference gives what the function returns for shuffled arguments too, if that is known."""
    if (other := found.elsewhere) is None:
        return True
    got, slip = (np.asarray(a, np.float64) for a in (other.got, value(*other.args)[found.number]))
    size = np.abs(slip[np.isfinite(slip)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        return bool(((np.abs(got - slip) <= _NEAR * size) | (got == slip) | (np.isnan(got) & np.isnan(slip))).all())
