"""What the exercises on a Hopper GPU read off a kernel: how often it uses an operation."""

from collections.abc import Callable

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import other_engines
from course_lib.grid import jaxprs


def count(task: Exercise, fn: Callable, operation: str) -> int:
    """Return how often the code of the kernels of ``fn`` has an operation of JAX's, such as "wgmma_ref"."""
    traced = other_engines.traced(task, fn, task.arguments()[0], task.chips[0])
    bodies = [inner for kernel in grid.pallas_calls(traced) for inner in jaxprs.inside(kernel)]
    return sum(eqn.primitive.name == operation for body in bodies for eqn in jaxprs.equations(body))
