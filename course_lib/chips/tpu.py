"""TPU chips by name: peak rates, memory sizes, and how to trace a kernel for a chip that is not attached.

Every figure comes from JAX's own registry (``pltpu.get_tpu_info_for_chip``), or from the compiler if the registry has
none. The registry's figures are per TensorCore, and so are ours, except where a name begins with ``chip_``. Vendors'
pages give figures for the whole chip.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

import jax
from jax._src import hardware_utils
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh

from course_lib import compat

# name -> (registry name, device kind as PJRT spells it, one-chip topology name for libtpu)
_NAMES = {
    "v4": ("v4", "TPU v4", "v4:1x1x1"),
    "v5e": ("v5e", "TPU v5 lite", "v5e:1x1"),
    "v5p": ("v5p", "TPU v5", "v5p:1x1x1"),
    "v6e": ("v6e", "TPU v6 lite", "v6e:1x1"),
    "tpu7x": ("7x", "TPU7x", "tpu7x:1x1x1"),
}

NAMES = tuple(_NAMES)

# The VMEM that one kernel may use unless it asks for more (CompilerParams(vmem_limit_bytes=...)). libtpu 0.0.48 and
# 0.0.50 print it when they refuse a kernel: "Scoped allocation with size ... and limit 16.00M exceeded". A test
# provokes that message for every chip.
_SCOPED_VMEM = {"v4": 16 << 20, "v5e": 16 << 20, "v5p": 16 << 20, "v6e": 32 << 20, "tpu7x": 32 << 20}

# Vector registers of a core, and the slots that a bundle has for each unit. Both are from the compiler: libtpu 0.0.48
# names its registers v0 to v31 or v63, and prints the slots above its table of bundles. A test compares both for every
# chip.
_REGISTERS = {"v4": 32, "v5e": 64, "v5p": 64, "v6e": 64, "tpu7x": 64}
_SLOTS = {
    "v4": {"MXU": 4, "XLU": 2, "VPU": 2, "EUP": 1, "pop": 2, "load": 1, "store": 1, "scalar": 2},
    "v5e": {"MXU": 4, "XLU": 3, "VPU": 4, "EUP": 1, "pop": 2, "load": 3, "store": 1, "scalar": 2},
    "v5p": {"MXU": 4, "XLU": 3, "VPU": 4, "EUP": 1, "pop": 2, "load": 3, "store": 1, "scalar": 2},
    "v6e": {"MXU": 2, "XLU": 2, "VPU": 4, "EUP": 1, "pop": 2, "load": 3, "store": 2, "scalar": 2},
    "tpu7x": {"MXU": 2, "XLU": 2, "VPU": 4, "EUP": 1, "pop": 2, "load": 3, "store": 2, "scalar": 2},
}

# Chips whose clock is known from two sources that agree: the published clock (1.05, 1.5 and 1.75 GHz), and the
# registry's peak divided by MXUs x size^2 x 2 FLOPs per cycle. For v5e and v5p, libtpu's simulator issues just as many
# FLOPs per cycle. For v6e and tpu7x only the second source exists, and it is doubtful: the simulator issues 524,288
# FLOPs per cycle, twice what two 256 x 256 MXUs can do, so the peak would imply 1.75 and 2.2 GHz, which no publication
# confirms.
_CLOCK_KNOWN = ("v4", "v5e", "v5p")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
    """One TensorCore of a TPU chip. Rates are per second, memory sizes are in bytes."""

    name: str
    device_kind: str  # what jax.devices()[0].device_kind returns on the real chip
    topology: str  # the one-chip slice that libtpu compiles for
    bf16_flops: float  # FLOP/s of the MXUs with bf16 operands
    int8_ops: float  # op/s of the MXUs with int8 operands
    hbm_bandwidth: float  # bytes/s (1 GB = 1e9 bytes)
    hbm_bytes: int
    vmem_bytes: int
    smem_bytes: int
    mxus: int
    mxu_size: int  # an MXU holds mxu_size x mxu_size weights
    lanes: int
    sublanes: int
    scoped_vmem_bytes: int  # what one kernel may use unless it asks for more
    tensor_cores: int  # in the chip: 2 on a v4, v5p and tpu7x
    cores: int  # TensorCores that form one device and share its work and HBM: 2 on a v4 and v5p (a "megacore")
    registers: int  # vector registers, of sublanes x lanes x 32 bits each
    slots: dict[str, int]  # unit -> slots in each bundle

    @property
    def clock_hz(self) -> float | None:
        """Cycles per second: 1.05 GHz on a v4, 1.5 on a v5e, 1.75 on a v5p; None if it is not known."""
        if self.name not in _CLOCK_KNOWN:
            return None
        return self.bf16_flops / (self.mxus * self.mxu_size**2 * 2)

    @property
    def register_bytes(self) -> int:
        """Bytes of one vector register: 4 KiB."""
        return self.sublanes * self.lanes * 4

    @property
    def program_bandwidth(self) -> float:
        """Bytes per second between HBM and one device. If two cores form one device, one core may use all of it."""
        return self.hbm_bandwidth * self.cores

    @property
    def chip_flops(self) -> float:
        """FLOP/s of all TensorCores of the chip, bf16 operands."""
        return self.bf16_flops * self.tensor_cores

    @property
    def chip_bandwidth(self) -> float:
        """Bytes per second between HBM and all TensorCores of the chip."""
        return self.hbm_bandwidth * self.tensor_cores

    @contextlib.contextmanager
    def target(self) -> Iterator[None]:
        """Trace and lower Pallas kernels for this chip while the context is open; the chip need not be attached."""
        device = AbstractDevice(device_kind=self.device_kind, num_cores=1, platform="tpu")
        mesh = AbstractMesh((), (), abstract_device=device)
        with jax.sharding.use_abstract_mesh(mesh), compat.attached(device):
            yield


def chip(name: str) -> Chip:
    """Return the chip "v4", "v5e", "v5p", "v6e" or "tpu7x". Raises ValueError for any other name."""
    if not isinstance(name, str) or name not in _NAMES:
        raise ValueError(f"chip={name!r} is not known. Choose one of: {', '.join(_NAMES)}.")
    registry_name, device_kind, topology = _NAMES[name]
    version = pltpu.ChipVersion(registry_name)
    info, tensor_cores = pltpu.get_tpu_info_for_chip(version, 1), version.num_physical_tensor_cores_per_chip
    return Chip(
        name=name,
        device_kind=device_kind,
        topology=topology,
        bf16_flops=float(info.bf16_ops_per_second),
        int8_ops=float(info.int8_ops_per_second),
        hbm_bandwidth=float(info.mem_bw_bytes_per_second),
        hbm_bytes=info.hbm_capacity_bytes,
        vmem_bytes=info.vmem_capacity_bytes,
        smem_bytes=info.smem_capacity_bytes,
        mxus=info.num_mxus,
        mxu_size=info.mxu_column_size,
        lanes=info.num_lanes,
        sublanes=info.num_sublanes,
        scoped_vmem_bytes=_SCOPED_VMEM[name],
        tensor_cores=tensor_cores,
        cores=tensor_cores if version.supports_megacore else 1,
        registers=_REGISTERS[name],
        slots=dict(_SLOTS[name]),
    )


def on_a_tpu() -> bool:
    """Whether kernels run on a chip here. A chip that another process holds does not count."""
    return tpu_attached() and jax.default_backend() == "tpu"


def tpu_attached() -> bool:
    """Whether this machine has a TPU, judged by its PCI devices, without starting a runtime."""
    count, _ = hardware_utils.num_available_tpu_chips_and_device_id()
    return count > 0
