"""One output whose values are wrong, with all that the ``rules`` need to know about it."""

import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.reading.order import pipelines
from course_lib.judges.reading.poisoning import steps_of
from course_lib.judges.tolerance.expected import Expected, expected, right


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """Output ``number`` of a function: ``got`` where ``want`` was expected, wrong at the elements in ``wrong``."""

    name: str  # "The output" or "Output 1"
    number: int
    got: np.ndarray
    want: Expected
    wrong: np.ndarray  # bool of the output's shape
    walk: grid.Walk
    reference: Callable
    args: tuple
    run: Callable[[tuple], list] | None = None  # other arguments -> the outputs; None if a run is slow
    tame: Callable[[], Iterable[list]] | None = None  # -> the outputs with likely numbers in unwritten memory
    probes: tuple = ()  # of ``probing``: what scratch should hold after some steps
    slips: tuple = ()  # of ``slips``: what likely mistakes would return
    suspects: Callable = lambda found: ()  # makes more of them
    is_called: str = ""  # its description, if it has a name: "the gradient of w"
    in_order: bool = False  # its steps ran one after another, even on parallel axes

    @property
    def first(self) -> tuple[int, ...]:
        """The index of the first wrong element."""
        return tuple(int(i) for i in np.argwhere(self.wrong)[0]) if self.wrong.ndim else ()

    @property
    def leaves(self) -> list[np.ndarray]:
        return [np.asarray(a) for a in jax.tree.leaves(self.args)]

    @functools.cached_property
    def made_by(self) -> tuple[grid.Call, grid.Operand] | None:
        """The last kernel with an output of this shape in blocks, and that output; None if there is none.

        If the output can be followed to the kernel that makes it, only that one counts.
        """
        makers = self._makers(self.walk.calls)
        origin = grid.made_by(self.walk, self.number)
        if origin is not None:
            makers = [(call, o) for call, o in makers if call is origin[0] and o is origin[1]]
        elif self.is_called and len(makers) > 1:  # a gradient: x, dx and others may share a shape
            return None
        return next(reversed(makers), None)

    @functools.cached_property
    def laid_out_by(self) -> tuple[grid.Pipeline, grid.Operand] | None:
        """Like ``made_by``, or else the pipeline inside a kernel that writes this output."""
        return self.made_by or self._without_ones or next(reversed(self._makers(pipelines(self.walk))), None)

    @property
    def _without_ones(self) -> tuple[grid.Call, grid.Operand] | None:
        """The kernel that makes this output with extra axes of length 1, like db of shape (1, N)."""
        origin = grid.made_by(self.walk, self.number)
        if origin is None or not origin[1].pipelined or any(origin[1].element):
            return None
        call, made = origin
        kept = [axis for axis, length in enumerate(made.shape) if length > 1]
        if tuple(made.shape[axis] for axis in kept) != self.got.shape:
            return None
        block, indices = tuple(made.block_shape[axis] for axis in kept), made.indices[:, kept]
        return call, dataclasses.replace(made, shape=self.got.shape, block_shape=block, indices=indices)

    def _makers(self, calls) -> list[tuple]:
        return [(c, o) for c in calls for o in c.outputs if o.shape == self.got.shape and o.pipelined]

    @functools.cached_property
    def steps(self) -> np.ndarray:
        """int64[n]: the steps whose output block holds the first wrong element."""
        return steps_of(self.laid_out_by[1], self.first) if self.laid_out_by else np.zeros(0, np.int64)

    @functools.cached_property
    def unwritten(self) -> np.ndarray:
        """bool[shape]: where the output holds what memory holds before anything is written."""
        return unwritten(self.got)

    @functools.cached_property
    def is_nan_without_garbage(self) -> bool:
        """Whether the first wrong element is NaN even with likely numbers in unwritten memory."""
        if self.tame is None or self.got.dtype.kind in "iub":
            return False
        try:
            values = [outputs[self.number].astype(np.float64)[self.first] for outputs in self.tame()]
        except Exception:  # the simulator refuses the kernel, so this is unknown
            return False
        return bool(values) and bool(np.isnan(values).all())

    @functools.cached_property
    def elsewhere(self) -> "Finding | None":
        """The finding for the same arguments with their floats shuffled; None if there is none, or nothing to shuffle.

        What holds here by chance, because the arguments are regular, does not hold there.
        """
        if self.run is None or not any(_shuffles(a) for a in self.leaves):
            return None
        leaves, tree = jax.tree.flatten(self.args)
        order = np.random.default_rng(0)
        args = jax.tree.unflatten(tree, [_shuffled(a, order) if _shuffles(a) else a for a in leaves])
        try:
            got, want = self.run(args)[self.number], expected(self.reference, args)[self.number]
            return dataclasses.replace(self, args=args, got=got, want=want, wrong=~right(got, want))
        except Exception:  # neither need take these arguments
            return None

    @property
    def is_nan_by_garbage(self) -> bool:
        """Whether the first wrong element is NaN, and becomes a number with likely numbers in unwritten memory."""
        return bool(self.unwritten[self.first]) and self.tame is not None and not self.is_nan_without_garbage


def _shuffles(array) -> bool:
    return jnp.issubdtype(array.dtype, jnp.floating) and array.size > 1


def _shuffled(array, order: np.random.Generator) -> jax.Array:
    return jnp.asarray(order.permutation(np.asarray(array).reshape(-1)).reshape(array.shape))


def confirmed(rule: Callable, same: bool = True) -> Callable:
    """Return the rule for what it says of shuffled arguments as well, because regular ones show patterns by chance.

    ``same``: it must say the same of them. Where the function cannot run with others, what it says once is enough.
    """

    @functools.wraps(rule)
    def both(found: Finding):
        said = rule(found)
        if said is None or found.elsewhere is None:
            return said
        again = rule(found.elsewhere)
        return said if again == said or (again and not same) else None

    return both


def unwritten(array: np.ndarray) -> np.ndarray:
    """Return bool[shape]: NaN, or the largest integer, with which the interpreters fill fresh memory."""
    if array.dtype.kind in "iu":
        return array == np.iinfo(array.dtype).max
    if array.dtype.kind == "b":
        return np.zeros(array.shape, bool)
    return np.isnan(array.astype(np.float64))


def show(value) -> str:
    """Format a number as verdicts print it."""
    if value.dtype.kind == "b":
        return str(bool(value))
    return str(int(value)) if value.dtype.kind in "iu" else f"{float(value):.6g}"
