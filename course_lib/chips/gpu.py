"""Two NVIDIA GPUs to compare with the TPUs, with the figures of their data sheets and nothing else.

Memory, its bandwidth, FLOP/s and links are from the SXM columns of "H100 Tensor Core GPU" and "H200 Tensor Core GPU".
The sheets print FLOP/s "with sparsity", which is twice the dense rate. The sizes inside an SM and the L2 cache are from
"NVIDIA Hopper Tuning Guide" (section 1.4) and "NVIDIA H100 Tensor Core GPU Architecture". Both GPUs are the same
silicon with different memory. NVIDIA publishes no bandwidth or latency for on-chip memory.
"""

import dataclasses

GPU_NAMES = ("h100", "h200")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. Rates are per second, sizes are in bytes; fields of a single SM begin with ``sm_``."""

    name: str
    sms: int  # streaming multiprocessors: the counterpart of a TPU's TensorCore, smaller and more numerous
    bf16_flops: float  # FLOP/s of all Tensor Cores, without sparsity
    hbm_bytes: int
    hbm_bandwidth: float
    l2_bytes: int
    sm_register_bytes: int  # 65,536 registers of 32 bits
    sm_shared_bytes: int  # of the 256 KiB that shared memory and the L1 cache share
    nvlink_bandwidth: float  # one way; the sheet prints 900 GB/s for both ways
    pcie_bandwidth: float  # one way; the sheet prints 128 GB/s for both ways


def gpu(name: str) -> Gpu:
    """Return the GPU called ``name``: "h100" or "h200", both SXM. Raises ValueError for any other name."""
    memory = {"h100": (80e9, 3.35e12), "h200": (141e9, 4.8e12)}
    if not isinstance(name, str) or name not in memory:
        raise ValueError(f"gpu={name!r} is not known. Choose one of: {', '.join(GPU_NAMES)}.")
    hbm_bytes, hbm_bandwidth = memory[name]
    return Gpu(
        name=name,
        sms=132,
        bf16_flops=1979e12 / 2,
        hbm_bytes=int(hbm_bytes),
        hbm_bandwidth=hbm_bandwidth,
        l2_bytes=50 << 20,
        sm_register_bytes=256 << 10,
        sm_shared_bytes=228 << 10,
        nvlink_bandwidth=900e9 / 2,
        pcie_bandwidth=128e9 / 2,
    )
