"""How an operator's kernels run on a CPU: not at all, in Pallas' plain interpreter, or in the TPU simulator."""

from collections.abc import Callable
from typing import Literal, get_args

import jax
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, grid

Mode = Literal["plain", "interpreted", "simulated"]


def check_mode(op: str, mode: str) -> None:
    """Raise ValueError, in the name of ``op``, if there is no such mode."""
    if mode not in get_args(Mode):
        raise ValueError(f"{op}: mode is {mode!r}; it may be {', '.join(get_args(Mode))}. Try mode='interpreted'.")


def compiled(fn: Callable, mode: Mode, chip: str) -> Callable:
    """Return ``fn``, of arrays, compiled for this CPU with its kernels run in ``mode``.

    "plain" runs what ``fn`` has for a CPU. The other modes run the kernels that it has for ``chip``.
    """
    if mode == "plain":
        return jax.jit(fn)
    interpret = True if mode == "interpreted" else compat.interpret_params()

    @jax.jit
    def run(*arrays):
        of = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        jaxpr, result = grid.trace_with_result(fn, *of, chip=chip)
        return jax.tree.unflatten(jax.tree.structure(result), grid.run(jaxpr, interpret, *arrays))

    return run


def run(op: str, fn: Callable, mode: Mode, arrays: list[jax.Array]) -> list[jax.Array]:
    """Return the results of what ``compiled`` returned, complete. Raise what the kernels raise.

    PyTorch may write to an argument as soon as its operator returns, so JAX must have read it by then.
    """
    try:
        return jax.block_until_ready(fn(*arrays))
    except ValueError as error:
        if mode == "plain" and "interpret mode" in str(error):
            raise ValueError(
                f"{op}: mode is 'plain', and the function has a kernel that only a TPU runs. Try mode='interpreted'."
            ) from None
        raise
    finally:
        if mode == "simulated":
            pltpu.reset_tpu_interpret_mode_state()  # after an error, the next simulation would inherit its buffers
