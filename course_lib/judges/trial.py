"""What all judges of one kernel share: the function, the reference, the arguments, and what is found out once."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import chips, compiler, grid
from course_lib.judges.reading import copies, order
from course_lib.judges.running.interpreted import Traced
from course_lib.judges.slips.slip import Slip, Suspect
from course_lib.judges.tolerance.expected import Expected, expected
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding
from course_lib.judges.wrong_outputs.probing import Probe


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """``fn`` before the judges, beside ``reference``, with concrete ``args``, traced for ``chip``.

    Everything below is computed when it is first asked for, and once. ``like``: a trial of the same function for the
    same chip with arguments of the same shapes and dtypes, whose trace, and whose compiled runs, are these too.
    ``probes``: what scratch should hold on the way, asked where the numbers are wrong. ``slips``: what likely mistakes
    would return; ``suspects`` makes more of them for what is wrong. ``names``: (name, what it is) of each output, for
    sentences about it; () for "the output".
    Raises ValueError for an argument that is no array and no number, and for an unknown chip.
    """

    fn: Callable
    reference: Callable
    args: tuple
    chip: str = "v5e"
    like: Trial | None = None
    probes: tuple[Probe, ...] = ()
    slips: tuple[Slip, ...] = ()
    suspects: Callable[[Finding], Iterable[Suspect]] = lambda found: ()
    names: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        chips.chip(self.chip)  # raises for an unknown one
        object.__setattr__(self, "args", arrays(self.args))

    @functools.cached_property
    def traced(self) -> Traced:
        """The function traced. Raises what tracing it raises."""
        if self.like is not None:
            return self.like.traced
        return Traced(*grid.trace_with_result(self.fn, *self.args, chip=self.chip))

    @functools.cached_property
    def whole_walk(self) -> grid.Walk:
        """The walk over the function's kernels. Raises grid.UnreadableCall, and what tracing raises."""
        return grid.walk_traced(self.traced.jaxpr, self.args, self.traced.result)

    @functools.cached_property
    def walk(self) -> grid.Walk:
        """The same; with no calls in it where a grid depends on what only a run can tell.

        A kernel can be run and compared all the same: only the sentences about its blocks are lost.
        Raises grid.UnreadableCall for a grid that nobody can run, and what tracing raises.
        """
        try:
            return self.whole_walk
        except grid.UnreadableCall as error:
            if error.reason in (grid.Reason.NEGATIVE_GRID, grid.Reason.LONG_GRID):
                raise
            return grid.Walk(calls=(), jaxpr=self.traced.jaxpr, result=self.traced.result)

    @functools.cached_property
    def cannot_simulate(self) -> Complaint | None:
        """Why a simulation is pointless: a copy without its wait, or the reverse, or a revisit in a pipeline.

        A wait without a copy would hang the simulator, and two buffers of a pipeline may hide the revisit.
        Raises what ``walk`` raises.
        """
        return copies.complaint(self.walk) or order.revisit_in_a_pipeline(self.walk)

    @functools.cached_property
    def returned(self):
        """What the reference returns, as NumPy arrays of JAX's dtypes. Raises ValueError where it does not run."""
        try:
            result = self.reference(*self.args)
            return jax.tree.map(lambda leaf: np.asarray(jnp.asarray(leaf)), result)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise ValueError(f"the reference cannot be run with these arguments. {said}") from error

    @functools.cached_property
    def wanted(self) -> list[Expected]:
        """What the reference asks for, output by output. Raises ValueError where it does not run."""
        return expected(self.reference, self.args, self.returned)

    @functools.cached_property
    def report(self) -> compiler.Report:
        """What the compiler for the chip says of the function. Raises compiler.Unavailable, and what tracing raises."""
        return compiler.compile_tpu(self.fn, *self.args, chip=self.chip, traced=self.traced.jaxpr)


def arrays(args: tuple) -> tuple:
    """The arguments with every number and NumPy array in them as JAX makes it: float64 becomes float32, say.

    Raises ValueError for what is no array.
    """

    def as_array(leaf):
        if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
            return leaf
        try:
            return jnp.asarray(leaf)
        except (TypeError, ValueError):
            raise ValueError(f"{leaf!r:.60} is among the arguments; the judges take arrays and numbers.") from None

    return jax.tree.map(as_array, args)
