"""What the chip offers that a kernel is traced for."""

import contextlib
import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu


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


def generation() -> int:
    """Of the TPU that a kernel is being traced for: 4, 5, 6 or 7; of a v5e where none is named."""
    return _tpu_info().generation


@contextlib.contextmanager
def some_tpu() -> Iterator[None]:
    """Where no TPU is named and none is there, and no mesh either, a v5e: else Pallas lowers no block of one axis."""
    if _named_tpu_info() or not jax.sharding.get_abstract_mesh().empty:
        yield
        return
    v5e = jax.sharding.AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=v5e)):
        yield


def _tpu_info():
    return _named_tpu_info() or pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V5E, 1)


def _named_tpu_info():
    try:
        return pltpu.get_tpu_info()
    except ValueError:  # traced on a machine without a TPU, and not for one
        return None
