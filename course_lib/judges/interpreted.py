"""Run the kernels of a function on the CPU, in the plain interpreter or in the TPU simulator."""

import contextlib
import io
import logging
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, grid
from course_lib.judges.watchdog import watched

# Without this, XLA for the CPU rewrites x * mask into a select, and a kernel that masks NaN by multiplying looks
# right, which it is not on the chip.
_CPU_OPTIONS = {"xla_disable_hlo_passes": "algsimp"}


def run(walk: grid.Walk, interpret, args: tuple) -> list[np.ndarray]:
    """The outputs on the CPU, where the simulators live. Raises what the simulator raises; a race raises too."""
    run = jax.jit(lambda *a: grid.run(walk.jaxpr, interpret, *a), compiler_options=_CPU_OPTIONS)
    racing = interpret is not True and interpret.detect_races
    with jax.default_device(jax.devices("cpu")[0]), _quiet(), watched():
        try:
            outputs = [np.asarray(a) for a in jax.block_until_ready(run(*args))]
            if racing and compat.races_found():
                raise RuntimeError("RACE DETECTED")
        finally:
            if interpret is not True:
                pltpu.reset_tpu_interpret_mode_state()
    return outputs


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the simulator's own prints and tracebacks to ourselves: the verdict says it better."""
    logger = logging.getLogger("jax._src.callback")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
