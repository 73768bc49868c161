"""What all judges of one kernel share: the function, the reference, the arguments, and what follows from them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import chips, compiler, grid
from course_lib.judges.reading import copies, order
from course_lib.judges.running import garbage
from course_lib.judges.running.interpreted import Traced
from course_lib.judges.slips.slip import Slip, Suspect
from course_lib.judges.tolerance.expected import Expected, expected
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding
from course_lib.judges.wrong_outputs.probing import Probe


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """``fn`` and ``reference`` with concrete ``args``, traced for ``chip``.

    Everything below is computed on first use, and once. ``like``: a trial of the same function for the same chip, with
    arguments of the same shapes and dtypes; this trial uses its trace and its compiled runs. ``probes``: what scratch
    should hold after some steps, compared if the output is wrong. ``slips``: what likely mistakes would return;
    ``suspects`` makes more of them for a wrong output. ``names``: (name, description) of each output, for messages; ()
    for "the output". ``simulate``: whether the report has cycles. Raises ValueError for an argument that is neither an
    array nor a number, and for an unknown chip.
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
    simulate: bool = True

    def __post_init__(self) -> None:
        chips.chip(self.chip)  # raises ValueError for an unknown one
        object.__setattr__(self, "args", arrays(self.args))

    @functools.cached_property
    def traced(self) -> Traced:
        """The traced function. Raises what tracing it raises."""
        if self.like is not None:
            return self.like.traced
        return Traced(*grid.trace_with_result(self.fn, *self.args, chip=self.chip))

    @functools.cached_property
    def whole_walk(self) -> grid.Walk:
        """The walk over the function's kernels. Raises grid.UnreadableCall, and what tracing raises."""
        return grid.walk_traced(self.traced.jaxpr, self.args, self.traced.result)

    @functools.cached_property
    def walk(self) -> grid.Walk:
        """The same walk, but without calls if a grid depends on values known only at run time.

        Such a kernel can still be run and compared; only the sentences about its blocks are missing. Raises
        grid.UnreadableCall for a grid that cannot be run, and what tracing raises.
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

        A wait without a copy would hang the simulator, and a pipeline's two buffers may hide the revisit. Raises what
        ``walk`` raises.
        """
        return copies.complaint(self.walk) or order.revisit_in_a_pipeline(self.walk)

    @functools.cached_property
    def suspicion(self) -> garbage.Suspicion | None:
        """What other garbage to simulate with. Raises what ``walk`` raises."""
        return garbage.suspicion(self.walk, self.args)

    @functools.cached_property
    def returned(self):
        """What the reference returns, as NumPy arrays of JAX's dtypes. Raises ValueError if it does not run."""
        try:
            result = self.reference(*self.args)
            return jax.tree.map(lambda leaf: np.asarray(jnp.asarray(leaf)), result)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise ValueError(f"the reference cannot be run with these arguments. {said}") from error

    @functools.cached_property
    def wanted(self) -> list[Expected]:
        """What the reference expects, output by output. Raises ValueError if it does not run."""
        return expected(self.reference, self.args, self.returned)

    @functools.cached_property
    def report(self) -> compiler.Report:
        """The compiler's report on the function. Raises compiler.Unavailable, and what tracing raises."""
        return compiler.compile_tpu(
            self.fn, *self.args, chip=self.chip, simulate=self.simulate, traced=self.traced.jaxpr
        )


def arrays(args: tuple) -> tuple:
    """Convert every number and NumPy array in the arguments as JAX does, for example float64 to float32.

    Raises ValueError for anything that is not an array.
    """

    def as_array(leaf):
        if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
            return leaf
        try:
            return jnp.asarray(leaf)
        except (TypeError, ValueError):
            raise ValueError(
                f"{leaf!r:.60} is among the arguments, but the judges take only arrays and numbers."
            ) from None

    return jax.tree.map(as_array, args)
