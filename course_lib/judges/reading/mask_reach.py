"""How far a mask reaches: which rows or columns of an input's block it lets through at a grid step.

A mask that is made of indices, grid indices and constants can be computed without running the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from course_lib import grid
from course_lib.judges.reading import flow, masking
from course_lib.judges.reading.flow import Op

_MOST_ELEMENTS = 2**20  # of a mask
_UNKNOWN = None


class Masks:
    """The masks of an operand at one grid step."""

    def __init__(self, call: grid.Call, operand: grid.Operand, step: int) -> None:
        self._call, self._step = call, call.step(step)
        self._ops, refs, _ = flow.operations(call.kernel)
        self._made = {output: op for op in self._ops for output in op.outputs}
        self._known: dict[int, np.ndarray | None] = {}
        read = flow.read(self._ops, refs[call.operands.index(operand)])
        self._values = flow.spread(self._ops, read, stops=masking.chooses_or_stores)
        self._shape = tuple(map(int, operand.block_shape))

    def let_through(self, axis: int) -> Iterator[tuple[np.ndarray, set[int]]]:
        """Yield (the places along ``axis`` that a jnp.where on the operand lets through, its grid axes) for each one.

        A mask of which nothing is known without the data is left out.
        """
        others = tuple(a for a in range(len(self._shape)) if a != axis)
        for op in self._ops:
            if op.name == "select_n" and len(op.inputs) == 3 and (kept := self._kept(op)) is not None:
                yield kept.any(axis=others), self._axes_asked(op.inputs[0])

    def _kept(self, op: Op) -> np.ndarray | None:
        """Return bool[block]: where the operand's values are chosen, as far as indices decide it."""
        condition, *cases = op.inputs
        of_operand = [case in self._values for case in cases]
        if sum(of_operand) != 1:
            return None
        parts = [condition] if of_operand[0] else self._all_of(condition)  # jnp.where(a & b, x, 0) needs both
        known = [value for part in parts if (value := self._value(part)) is not _UNKNOWN]
        if not known or any(value.shape != self._shape for value in known):
            return None
        holds = np.logical_and.reduce(known)
        return ~holds if of_operand[0] else holds

    def _all_of(self, condition: int | None) -> list[int | None]:
        op = self._made.get(condition)
        if op is not None and op.name == "and":
            return [part for value in op.inputs for part in self._all_of(value)]
        return [condition]

    def _axes_asked(self, condition: int | None) -> set[int]:
        """Return the grid axes whose pl.program_id the condition depends on."""
        return {
            op.eqn.params["axis"]
            for op in self._ops
            if op.name == "program_id" and condition in flow.spread(self._ops, set(op.outputs))
        }

    def _value(self, value: int | None) -> np.ndarray | None:
        if value not in self._known:
            op = self._made.get(value)
            self._known[value] = _UNKNOWN if op is None or op.eqn is None else self._computed(op)
        return self._known[value]

    def _computed(self, op: Op) -> np.ndarray | None:
        if op.name == flow.LITERAL:
            return np.asarray(op.eqn.val)
        if op.name == "program_id":
            return np.int32(self._step[op.eqn.params["axis"]])
        if op.name == "num_programs":
            return np.int32(self._call.grid[op.eqn.params["axis"]])
        if len(op.outputs) != 1 or op.eqn.outvars[0].aval.shape not in ((), self._shape) or op.name == "get":
            return _UNKNOWN
        given = [self._input(n, op) for n in range(len(op.inputs))]
        if any(one is _UNKNOWN for one in given) or op.eqn.outvars[0].aval.size > _MOST_ELEMENTS:
            return _UNKNOWN
        primitive = op.eqn.primitive
        try:
            return np.asarray(primitive.bind(*given, **primitive.get_bind_params(op.eqn.params)))
        except Exception:  # it cannot be computed outside a kernel
            return _UNKNOWN

    def _input(self, number: int, op: Op):
        atom = op.eqn.invars[number]
        return getattr(atom, "val", _UNKNOWN) if op.inputs[number] is None else self._value(op.inputs[number])
