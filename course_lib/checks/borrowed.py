"""The kernels of ``course_lib.kernels`` that an answer runs: some exercises ask for one, others for one's own."""

from collections.abc import Callable

import jax

from course_lib import grid
from course_lib.grid import jaxprs

FOLDER = "course_lib/kernels"


def calls(fn: Callable, *args) -> list:
    """Return the equations of ``fn(*args)`` that run a kernel of the library.

    Each is an op, or, out of the grader's box, its kernel, which still says where it was written.
    """
    jaxpr = jax.make_jaxpr(fn)(*args)
    ops = [eqn for eqn in grid.equations(jaxpr) if eqn.primitive.name == "kernel_launch"]
    return ops + [call for call in jaxprs.pallas_calls(jaxpr) if is_ours(call.params["jaxpr"])]


def is_ours(kernel) -> bool:
    """Whether a kernel's jaxpr was traced from a function of the library."""
    return FOLDER in kernel.debug_info.func_src_info.replace("\\", "/")


def complaint(fn: Callable, *args, next: str) -> tuple[str, str] | None:
    """Report a kernel of the library in ``fn(*args)``, and try ``next``; None if there is none."""
    if calls(fn, *args):
        return "It runs the library's kernel, but the kernel should be yours.", next
    return None
