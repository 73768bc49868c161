"""Our ops with their TPU side running in JAX's TPU simulator, where a CPU would run plain JAX."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import jax
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat
from course_lib.kernels.dispatch import launch


@contextlib.contextmanager
def tpu_side() -> Iterator[list[str]]:
    """While this is active every op of ours is its kernel, simulated. Yields a list that gets an entry for each.

    Without it an examiner on a CPU would examine jax.nn, which the ops fall back to there.
    """
    run, params = [], compat.interpret_params(random_seed=0)

    def run_here(op, *operands):
        run.append("a kernel")
        kernel = jax.custom_jvp(op.run_tpu)  # which the simulator could not differentiate: as a launch, by plain JAX
        kernel.defjvp(lambda primals, tangents: (kernel(*primals), jax.jvp(op.run_plain, primals, tangents)[1]))
        return kernel(*operands)

    def in_the_simulator(_, real=pltpu.force_tpu_interpret_mode):
        return real(params)

    def compiler_params(*args, dimension_semantics=None, real=pltpu.CompilerParams, **others):
        return real(*args, **others)

    with (
        mock.patch.object(launch.Op, "run_here", run_here),
        mock.patch.object(pltpu, "force_tpu_interpret_mode", in_the_simulator),
        # The simulators of JAX 0.11 and 0.12 do not take a vmapped kernel with dimension_semantics: vmap adds an axis
        # to the grid and none to them. What "parallel" does to a kernel is what the judge of races looks at.
        mock.patch.object(pltpu, "CompilerParams", compiler_params),
    ):
        try:
            yield run
        finally:
            pltpu.reset_tpu_interpret_mode_state()
