"""One op, one dispatch: which implementation runs where, and what the chip offers that a kernel is traced for."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array


def by_platform(*args: Array, tpu: Callable, default: Callable, gpu: Callable | None = None):
    """Calls ``tpu(*args)`` on a TPU, ``gpu(*args)`` on an NVIDIA GPU where there is one, ``default(*args)`` elsewhere.

    All of them return arrays of the same shapes and dtypes. The choice is made when the program is compiled, for the
    platform it is compiled for; so one op works under jit, grad and vmap everywhere. ``jax.custom_vjp`` goes around
    it, never inside: differentiating through the choice fails under jit.
    """

    def on_tpu(*args):
        # This side is for the chip alone. Where a notebook has switched the simulator on, a simulated kernel here would
        # bring effects into one branch of platform_dependent that the other has not, and jit refuses that.
        with pltpu.force_tpu_interpret_mode(False):
            return tpu(*args)

    others = {} if gpu is None else {"cuda": gpu}
    return lax.platform_dependent(*args, tpu=on_tpu, default=default, **others)


def vmem_bytes() -> int:
    """VMEM of the TPU that a kernel is being traced for, in bytes; of a v5e (128 MiB) where none is named."""
    return _tpu_info().vmem_capacity_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """What the chip can do per second, at best: operations of the MXU, and bytes to or from HBM."""

    flops: float
    hbm_bandwidth: float


def rates(dtype) -> Rates:
    """The rates of the TPU that a kernel is being traced for (a v5e where none is named), for products of ``dtype``.

    f32 is multiplied as bf16, once or several times: here a pass counts as one product.
    """
    info = _tpu_info()
    if jnp.dtype(dtype) == jnp.int8 and info.int8_ops_per_second:
        flops = info.int8_ops_per_second
    else:
        flops = info.bf16_ops_per_second
    return Rates(flops=float(flops), hbm_bandwidth=float(info.mem_bw_bytes_per_second))


def _tpu_info():
    try:
        return pltpu.get_tpu_info()
    except ValueError:  # traced on a machine without a TPU, and not for one
        return pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V5E, 1)
