"""A traced function, and how its kernels run on the CPU: in the plain interpreter or the TPU simulator."""

import contextlib
import dataclasses
import io
import logging
import re
from collections.abc import Callable, Iterator

import jax
import jax.extend.core
import numpy as np
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, grid
from course_lib.judges.running import garbage, semaphores
from course_lib.judges.running.watchdog import watched

# Without the first, XLA for the CPU rewrites x * mask into a select, and a kernel that masks NaN by multiplying looks
# right, although it is wrong on the chip. Without the second, XLA skips a rounding to bf16 and back that the chip does.
# The third saves time, because a program that runs a few times takes longer to optimize than to run.
_CPU_OPTIONS = {
    "xla_disable_hlo_passes": "algsimp",
    "xla_allow_excess_precision": False,
    "xla_backend_optimization_level": 0,
}

# How JAX's race detector prints that two cores wrote one output block back to HBM; a kernel's own writes have a line.
_OF_WRITE_BACKS = re.compile(r"RACE DETECTED\n +write of [^\n]*, pallas_call\n[^\n]*\n +write of [^\n]*, pallas_call\n")


@dataclasses.dataclass(frozen=True, eq=False)
class Traced:
    """A function traced for arguments of certain shapes and dtypes; ``result``: the shapes and dtypes that it returns.

    Each interpret mode is compiled on its first run, and once more for garbage that is not NaN. ``ledger``: what the
    last run in the simulator did to semaphores.
    """

    jaxpr: jax.extend.core.ClosedJaxpr
    result: object
    ledger: semaphores.Ledger = dataclasses.field(default_factory=semaphores.Ledger)
    _modes: dict[object, Callable] = dataclasses.field(default_factory=dict)

    def run(
        self, interpret, args: tuple, filling: garbage.Filling | None = None, unread: bool = False
    ) -> list[np.ndarray]:
        """Return the outputs on the CPU, where the simulators run. Raises what the simulator raises, and for a race.

        ``filling``: what memory holds in the simulator before the kernel writes it; None: NaN, or the largest integer.
        ``unread``: nobody reads the output blocks that several cores write, so a race between those writes is none.
        """
        mode = (interpret, filling is None)
        if mode not in self._modes:
            self._modes[mode] = jax.jit(lambda *a: grid.run(self.jaxpr, interpret, *a), compiler_options=_CPU_OPTIONS)
        racing = interpret is not True and interpret.detect_races
        with (
            jax.default_device(jax.devices("cpu")[0]),
            quiet(printed := io.StringIO()),
            watched(),
            garbage.that_is(filling),
            semaphores.counted(self.ledger),
        ):
            try:
                outputs = [np.asarray(a) for a in jax.block_until_ready(self._modes[mode](*args))]
                races = printed.getvalue().count("RACE DETECTED")
                forgiven = unread and races == len(_OF_WRITE_BACKS.findall(printed.getvalue()))
                if racing and compat.races_found() and not forgiven:
                    raise RuntimeError("RACE DETECTED")
            finally:
                if interpret is not True:
                    pltpu.reset_tpu_interpret_mode_state()
        return outputs


@contextlib.contextmanager
def quiet(printed: io.StringIO | None = None) -> Iterator[None]:
    """Send the simulator's prints to ``printed`` and silence its tracebacks: the verdict says it better."""
    logger = logging.getLogger("jax._src.callback")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO() if printed is None else printed), compat.races_printed():
            yield
    finally:
        logger.setLevel(level)
