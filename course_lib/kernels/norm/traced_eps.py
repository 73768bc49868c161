"""The eps of a norm: a Python number is part of the kernel; a traced one is one more operand, which lies in SMEM.

A number in the kernel need not be fetched; with an operand, one program does for every eps. Fetching it takes about
1,100 cycles, once: predicted (compiler) for LayerNorm of f32 (512, 768) and (8192, 2048) on a v5e.
"""

import numbers
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.arrays import Array, Float, Ref
from course_lib.kernels.common.legal import shown


def split(op: str, eps) -> tuple[float | None, tuple[Array, ...]]:
    """Return (number, ()) for a number and (None, (f32 array,)) for an array. Raises ValueError for anything else."""
    if isinstance(eps, jax.Array) and not eps.shape and jnp.isrealobj(eps):
        return None, (eps.astype(jnp.float32),)
    if isinstance(eps, numbers.Real) and not isinstance(eps, bool):
        return float(eps), ()
    if isinstance(eps, np.ndarray) and not eps.shape and np.isrealobj(eps):
        return float(eps), ()
    raise ValueError(f"{op}: eps is {shown(eps)}; it must be one real number, or an array of shape (). Try eps=1e-6.")


def kernel_with_eps_from_smem(eps_ref: Float[Ref, "1 1"], *refs, kernel: Callable, **more) -> None:
    """Run ``kernel(*refs, eps=...)`` with the eps of one more reference, the first."""
    kernel(*refs, eps=eps_ref[0, 0], **more)


def check_not_differentiated(op: str, moving: tuple[bool, ...]) -> None:
    """Raise ValueError if the last operand, a traced eps, is differentiated: nobody computes that gradient."""
    if moving[-1]:
        raise ValueError(f"{op}: eps is differentiated, and has no gradient here. Try jax.lax.stop_gradient(eps).")
