"""GPUs that a kernel can be compiled for with none attached: what the compiler and a launch need to know about each.

The limits of an SM are those of its compute capability, from the tables "Feature Support" and "Technical Specifications
per Compute Capability" in NVIDIA's "CUDA C++ Programming Guide". The SMs, the memory, its bandwidth and the dense
Tensor Core rates are from the data sheets and architecture papers of the A100 (SXM, 80 GB), L4, H100 and H200 (SXM) and
B200. From the L4 on, the sheets print rates with sparsity, which are twice as high.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

import jax
from jax.sharding import AbstractDevice, AbstractMesh

REGISTERS = 65536  # 32-bit registers in an SM, which is also the limit for a block
MOST_REGISTERS = 255  # per thread
THREADS_OF_A_WARP = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuTarget:
    """One GPU to compile for. Sizes are in bytes; fields of a single SM begin with ``sm_``."""

    name: str
    kind: str  # as the driver spells it
    capability: tuple[int, int]  # (9, 0) is Hopper
    sms: int
    sm_threads: int
    sm_blocks: int
    sm_shared_bytes: int
    shared_bytes: int  # the most that one block may ask for
    sm_lanes: int  # f32 operations at once
    l2_bytes: int
    memory_bytes: int
    memory_bandwidth: float  # bytes per second
    clock_ghz: float  # boost
    bf16_flops: float  # per second, of all Tensor Cores
    int8_ops: float

    @contextlib.contextmanager
    def target(self) -> Iterator[None]:
        """Trace and lower for this GPU while the context is open, on a machine without one."""
        major, minor = self.capability
        device = _Device(
            device_kind=self.kind, num_cores=self.sms, platform="gpu", compute_capability=f"{major}.{minor}"
        )
        with jax.sharding.use_abstract_mesh(AbstractMesh((), (), abstract_device=device)):
            yield

    def config(self) -> str:
        """Return this GPU as XLA's compiler wants it: a ``GpuTargetConfigProto`` as text."""
        major, minor = self.capability
        accelerated = "ACCELERATED_FEATURES" if major >= 9 else "NONE"
        return _CONFIG.format(**dataclasses.asdict(self), major=major, minor=minor, accelerated=accelerated)


@dataclasses.dataclass(frozen=True)
class _Device(AbstractDevice):
    """A device with a compute capability. JAX's own has none, and Mosaic GPU then takes every GPU for a Hopper."""

    compute_capability: str = "9.0"


_HOPPER = {
    "capability": (9, 0),
    "sms": 132,
    "sm_threads": 2048,
    "sm_blocks": 32,
    "sm_shared_bytes": 228 << 10,
    "shared_bytes": 227 << 10,
    "sm_lanes": 128,
    "l2_bytes": 50 << 20,
    "clock_ghz": 1.98,
    "bf16_flops": 1979e12 / 2,
    "int8_ops": 3958e12 / 2,
}
_TARGETS = {
    "a100": GpuTarget(
        name="a100",
        kind="NVIDIA A100-SXM4-80GB",
        capability=(8, 0),
        sms=108,
        sm_threads=2048,
        sm_blocks=32,
        sm_shared_bytes=164 << 10,
        shared_bytes=163 << 10,
        sm_lanes=64,
        l2_bytes=40 << 20,
        memory_bytes=80 << 30,
        memory_bandwidth=2.039e12,
        clock_ghz=1.41,
        bf16_flops=312e12,
        int8_ops=624e12,
    ),
    "l4": GpuTarget(
        name="l4",
        kind="NVIDIA L4",
        capability=(8, 9),
        sms=58,
        sm_threads=1536,
        sm_blocks=24,
        sm_shared_bytes=100 << 10,
        shared_bytes=99 << 10,
        sm_lanes=128,
        l2_bytes=48 << 20,
        memory_bytes=24 << 30,
        memory_bandwidth=300e9,
        clock_ghz=2.04,
        bf16_flops=242e12 / 2,
        int8_ops=485e12 / 2,
    ),
    "h100": GpuTarget(
        name="h100", kind="NVIDIA H100 80GB HBM3", memory_bytes=80 << 30, memory_bandwidth=3.35e12, **_HOPPER
    ),
    "h200": GpuTarget(name="h200", kind="NVIDIA H200", memory_bytes=141 << 30, memory_bandwidth=4.8e12, **_HOPPER),
    "b200": GpuTarget(
        name="b200",
        kind="NVIDIA B200",
        capability=(10, 0),
        sms=148,
        sm_threads=2048,
        sm_blocks=32,
        sm_shared_bytes=228 << 10,
        shared_bytes=227 << 10,
        sm_lanes=128,
        l2_bytes=126 << 20,
        memory_bytes=180 << 30,
        memory_bandwidth=7.7e12,
        clock_ghz=1.965,
        bf16_flops=4500e12 / 2,
        int8_ops=9000e12 / 2,
    ),
}

GPU_TARGETS = tuple(_TARGETS)


def gpu_target(name: str) -> GpuTarget:
    """Return the GPU called ``name``, one of ``GPU_TARGETS``. Raises ValueError for any other name."""
    if not isinstance(name, str) or name not in _TARGETS:
        raise ValueError(f"chip={name!r} is not a GPU to compile for. Choose one of: {', '.join(GPU_TARGETS)}.")
    return _TARGETS[name]


def gpu_of_kind(kind: str) -> GpuTarget | None:
    """Return the GPU that its driver calls ``kind`` ("NVIDIA H200"), or None for a GPU not listed here."""
    return next((gpu for gpu in _TARGETS.values() if gpu.kind == kind), None)


# The description that XLA asks for. Its fixed fields are the same for all GPUs above.
_CONFIG = """\
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {sm_shared_bytes}
  shared_memory_per_block_optin: {shared_bytes}
  threads_per_core_limit: {sm_threads}
  core_count: {sms}
  fpus_per_core: {sm_lanes}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  memory_bandwidth: {memory_bandwidth:.0f}
  l2_cache_size: {l2_bytes}
  clock_rate_ghz: {clock_ghz}
  device_memory_size: {memory_bytes}
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {accelerated} }}
  device_vendor: "NVIDIA Corporation"
  device_address_bits: 64
  name: "{kind}"
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.12.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 12 patch: 0 }}
device_description_str: "{kind}"
"""
