"""The eps of a norm: a Python number is part of the kernel, a traced one an operand more, which lies in SMEM.

With the number in the kernel there is nothing to fetch; with an operand one program does for every eps. Fetching it
takes 1,100 cycles or so, once: predicted for LayerNorm of f32 (512, 768) and of (8192, 2048) on a v5e.
"""

import numbers
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Ref
from course_lib.kernels.common.legal import shown
from course_lib.kernels.dispatch.launch import fixed


def split(op: str, eps) -> tuple[float | None, tuple[Array, ...]]:
    """(number, ()) of a number, (None, (f32 array,)) of an array, which may be traced. Raises ValueError for others."""
    if isinstance(eps, jax.Array) and not eps.shape and jnp.isrealobj(eps):
        return None, (eps.astype(jnp.float32),)
    if isinstance(eps, numbers.Real) and not isinstance(eps, bool):
        return float(eps), ()
    if isinstance(eps, np.ndarray) and not eps.shape and np.isrealobj(eps):
        return float(eps), ()
    raise ValueError(f"{op}: eps is {shown(eps)}; it must be one real number, or an array of shape (). Try eps=1e-6.")


def in_kernel(kernel: Callable, eps: float | None) -> Callable:
    """``kernel(*refs, eps=...)`` with its eps: a number, or where that is None one more reference, the first."""
    return fixed(_with_eps_from_smem, kernel=kernel) if eps is None else fixed(kernel, eps=eps)


def _with_eps_from_smem(eps_ref: Float[Ref, "1 1"], *refs, kernel: Callable, **more) -> None:
    kernel(*refs, eps=eps_ref[0, 0], **more)


SPEC = pl.BlockSpec(memory_space=pltpu.SMEM)


def parted(operands: tuple[Array, ...], traced: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The operands without the eps, which is the last where one is traced; and that, as ``SPEC`` wants it."""
    rest, eps = operands[: len(operands) - traced], operands[len(operands) - traced :]
    return rest, tuple(scalar.reshape(1, 1) for scalar in eps)


def operands(args: tuple) -> tuple[Array, ...]:
    """Of ``(*operands, eps, blocks, cuts)``."""
    return args[:-3]


def kept(op: str, args: tuple, moving: tuple[bool, ...]) -> tuple[Array, ...]:
    """The operands, for a gradient. Raises ValueError where an eps is differentiated: nobody computes that."""
    if args[-3] is None and moving[-1]:
        raise ValueError(f"{op}: eps is differentiated, and has no gradient here. Try jax.lax.stop_gradient(eps).")
    return operands(args)
