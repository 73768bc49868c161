"""Names for the values of a reference, as a reader would write them: ``x``, ``mean(x * x)``, ``1e-06``."""

from __future__ import annotations

import jax
import numpy as np

from course_lib.judges.slips import reference_steps
from course_lib.judges.slips.reference_steps import Step, Steps
from course_lib.judges.wrong_outputs.dependence import argument_name
from course_lib.judges.wrong_outputs.finding import Finding

MOVES = ("broadcast_in_dim", "reshape", "convert_element_type", "copy", "squeeze", "stop_gradient")
_SIGNS = {"mul": "*", "div": "/", "add": "+", "sub": "-", "dot_general": "@"}
_SIGNS |= {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}
FUNCTIONS = set("exp exp2 log sin cos tan tanh logistic sqrt rsqrt abs sign floor ceil neg square integer_pow".split())
_READABLE = {
    *_SIGNS,
    *FUNCTIONS,
    "max",
    "min",
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "cumsum",
    "gather",
    "select_n",
    "not",
    "is_finite",
}
_LONGEST = 40  # characters of an expression; a longer one is called by its operation


class Expressions:
    """The name of each value of a reference."""

    def __init__(self, steps: Steps, arguments: dict[int, str]) -> None:
        self._steps, self._arguments = steps, arguments

    def __call__(self, value: int) -> str:
        """Return the name of a value."""
        value = reference_steps.through(self._steps, value, MOVES)
        if value in self._arguments:
            return self._arguments[value]
        if value in self._steps.constants:
            constant = np.asarray(self._steps.constants[value])
            return f"{float(constant):.6g}" if constant.size == 1 else "a constant"
        return self.call(self._steps.made[value])

    def is_readable(self, value: int) -> bool:
        """Whether the name of a value says what it is: no part of it is cut or padded."""
        value = reference_steps.through(self._steps, value, MOVES)
        made = self._steps.made.get(value)
        return made is None or (made.name in _READABLE and all(map(self.is_readable, _operands(made))))

    def call(self, step: Step) -> str:
        """Return what a step computes, written out if that is short."""
        name = step.name.removeprefix("reduce_")
        if is_mean(self._steps, step):
            total = self._steps.made[reference_steps.through(self._steps, step.inputs[0], MOVES)]
            name, written = "mean", f"mean({self(total.inputs[0])})"
        elif step.name in _SIGNS:
            written = f" {_SIGNS[step.name]} ".join(self._operand(step, n) for n in step.inputs)
        elif step.name == "gather":
            written = f"{self(step.inputs[0])}[...]"
        elif step.name == "not":
            written = f"~({self(step.inputs[0])})"
        elif step.name == "select_n":
            condition, *cases = map(self, step.inputs)
            written = f"where({', '.join((condition, *reversed(cases)))})"
        elif is_square(step):
            written = f"{self._operand(step, step.inputs[0])} ** 2"
        else:
            written = f"{name}({', '.join(map(self, step.inputs))})"
        return written if len(written) <= _LONGEST and "(...)" not in written else f"{name}(...)"

    def _operand(self, step: Step, value: int) -> str:
        """Return the name of an operand, in brackets where it needs them."""
        name = self(value)
        made = self._steps.made.get(reference_steps.through(self._steps, value, MOVES))
        return f"({name})" if made and made.name in _SIGNS and " " in name and step.name != "add" else name


def _operands(step: Step) -> tuple[int, ...]:
    """Return the values that the name of a step is made of: those of a lookup are the table, and not the indices."""
    return step.inputs[:1] if step.name == "gather" else step.inputs


def is_square(step: Step) -> bool:
    """Whether a step squares a value."""
    twice = step.name == "mul" and step.inputs[0] == step.inputs[1]
    return twice or step.name == "square" or (step.name == "integer_pow" and step.eqn.params["y"] == 2)


def is_mean(steps: Steps, step: Step) -> bool:
    """Whether a step divides a sum by the number of its terms."""
    if step.name != "div" or np.size(steps.constants.get(step.inputs[1], ())) != 1:
        return False
    made = steps.made.get(reference_steps.through(steps, step.inputs[0], MOVES))
    if made is None or made.name != "reduce_sum":
        return False
    shape = made.eqn.invars[0].aval.shape
    return float(steps.constants[step.inputs[1]]) == np.prod([shape[axis] for axis in made.eqn.params["axes"]])


def of(found: Finding, steps: Steps) -> Expressions:
    """Return the names of the values of a finding's reference; arguments have those of its parameters."""
    names = (argument_name(found, place) for place in range(len(jax.tree.leaves(found.args))))
    return Expressions(steps, dict(zip(steps.inputs, names, strict=True)))
