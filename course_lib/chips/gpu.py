"""Two GPUs of NVIDIA's, to stand beside the TPUs: what their data sheets print, and nothing else.

"H100 Tensor Core GPU" and "H200 Tensor Core GPU", the columns SXM: memory, its bandwidth, FLOP/s, links. The sheets
print FLOP/s "with sparsity", and say that without it they are half. What lies inside an SM, and the L2 cache, is from
"NVIDIA Hopper Tuning Guide" (section 1.4) and "NVIDIA H100 Tensor Core GPU Architecture". Both GPUs are the same
silicon with other memory. NVIDIA prints no bandwidth and no latency of what is on the chip.
"""

import dataclasses

GPU_NAMES = ("h100", "h200")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. Rates are per second, sizes are bytes; what is of one SM begins with ``sm_``."""

    name: str
    sms: int  # streaming multiprocessors: what a TensorCore is to a TPU, only smaller and many
    bf16_flops: float  # FLOP/s of all Tensor Cores, without sparsity
    hbm_bytes: int
    hbm_bandwidth: float
    l2_bytes: int
    sm_register_bytes: int  # 65,536 registers of 32 bits
    sm_shared_bytes: int  # of the 256 KiB that shared memory and the L1 cache have together
    nvlink_bandwidth: float  # one way; the sheet prints both together, 900 GB/s
    pcie_bandwidth: float  # one way; the sheet prints both together, 128 GB/s


def gpu(name: str) -> Gpu:
    """The GPU called ``name``: "h100" or "h200", both SXM. Raises ValueError for any other."""
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
