"""The capacities and rates of the chip that a kernel is traced for."""

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from typing import Literal

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu

# Multiplications of a grid step at most, times the passes of the MXU: a step is written out in full as instructions,
# and a longer one takes long to compile.
LARGEST_STEP = 2**30


def vmem_bytes() -> int:
    """Return the VMEM, in bytes, of the TPU that a kernel is traced for; of a v5e (128 MiB) if none is named."""
    return _tpu_info().vmem_capacity_bytes


def usable_vmem_bytes() -> int:
    """Return the bytes of VMEM that blocks may fill: an eighth stays free for what the compiler puts there."""
    return vmem_bytes() * 7 // 8


def smem_bytes() -> int:
    """Return the SMEM of that TPU, in bytes: 1 MiB on a v5e."""
    return _tpu_info().smem_capacity_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """Peak rates of a chip per second: FLOPs of the MXU, and bytes to or from HBM."""

    flops: float
    hbm_bandwidth: float


def rates(dtype) -> Rates:
    """Return the rates of the TPU that a kernel is traced for (a v5e if none is named), for products of ``dtype``.

    The MXU multiplies f32 as bf16, in one or more passes; each pass counts as one product here.
    """
    info = _tpu_info()
    if jnp.dtype(dtype) == jnp.int8 and info.int8_ops_per_second:
        flops = info.int8_ops_per_second
    else:
        flops = info.bf16_ops_per_second
    return Rates(flops=float(flops), hbm_bandwidth=float(info.mem_bw_bytes_per_second))


def generation() -> int:
    """Return the generation of the TPU that a kernel is traced for: 4, 5, 6 or 7; of a v5e if none is named."""
    return _tpu_info().generation


def cores() -> int:
    """Return how many cores of that TPU share a parallel grid axis."""
    two = pltpu.ChipVersion.TPU_V4, pltpu.ChipVersion.TPU_V5P
    return 2 if _tpu_info().chip_version in two else 1


def sparse_cores() -> int:
    """Return how many SparseCores that TPU has: 0 on a v5e."""
    found = _tpu_info().sparse_core
    return found.num_cores if found else 0


@contextlib.contextmanager
def some_tpu() -> Iterator[None]:
    """Pretend to be a v5e when neither a TPU nor a mesh is set; otherwise Pallas cannot lower 1-D blocks."""
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
    except ValueError:  # no TPU is named, and the machine has none
        return None


class NoKernel(Exception):
    """A kernel cannot run on this GPU, or not on these operands. The message is the reason, the end of a sentence."""


class NoKernels(NoKernel):
    """No kernel at all runs on this GPU."""


Road = Literal["mosaic", "triton"]


HOPPER_SMEM_BYTES = 227 << 10  # the most that a block may request: CUDA C++ Programming Guide, compute capability 9.0
_HOPPER_SMS = 132  # of an H100 and an H200 (SXM)


def _gpu():
    """Return the GPU that a kernel is traced for; None if none is named and the machine has none."""
    named = jax.sharding.get_abstract_mesh().abstract_device
    if named is not None and hasattr(named, "compute_capability"):
        return named
    device = jax.config.jax_default_device or jax.devices()[0]
    return device if hasattr(device, "compute_capability") else None


def sms() -> int:
    """Return the number of streaming multiprocessors of that GPU; of an H100 if none is named."""
    gpu = _gpu()
    return getattr(gpu, "num_cores", None) or getattr(gpu, "core_count", None) or _HOPPER_SMS


def gpu_road() -> Road:
    """Return the compiler for that GPU: Mosaic GPU from Hopper on, Triton on Ampere and Ada. Raises NoKernels."""
    gpu = _gpu()
    if gpu is None:
        raise NoKernels("no GPU is known here that they could be for")
    if _capability(gpu) < (8, 0):
        raise NoKernels(
            f"they are for GPUs from Ampere on, compute capability 8.0, and this {gpu.device_kind} has "
            f"{gpu.compute_capability}"
        )
    return "mosaic" if _capability(gpu) >= (9, 0) else "triton"


@contextlib.contextmanager
def quiet_triton(always: bool = False) -> Iterator[None]:
    """Silence JAX's deprecation warning for each Triton kernel; docs/gpu.md says so once.

    With other compilers warnings are left alone, because changing the filters makes Python repeat what it has shown.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NoKernels):
            if always or gpu_road() == "triton":
                stack.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated", DeprecationWarning)
        yield


def not_a_hopper() -> str:
    """Return why kernels with TMA and wgmma cannot run on that GPU; "" if they can."""
    gpu, whom = _gpu(), "it is for Hopper GPUs (H100, H200), compute capability 9.0, and"
    if gpu is None:
        return f"{whom} no GPU is known here"
    return "" if _capability(gpu) == (9, 0) else f"{whom} this {gpu.device_kind} has {gpu.compute_capability}"


def _capability(gpu) -> tuple[int, ...]:
    return tuple(int(n) for n in gpu.compute_capability.split("."))
