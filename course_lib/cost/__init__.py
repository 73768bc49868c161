"""What a kernel costs: HBM traffic, operations and VMEM, counted from the lists that ``grid`` makes."""

from course_lib.cost.flops import Work, flops, kernel_flops
from course_lib.cost.traffic import Traffic, hbm_bytes, traffic
from course_lib.cost.vmem import Buffer, largest_block, legal_sizes, vmem, vmem_bytes

__all__ = [
    "Buffer",
    "Traffic",
    "Work",
    "flops",
    "hbm_bytes",
    "kernel_flops",
    "largest_block",
    "legal_sizes",
    "traffic",
    "vmem",
    "vmem_bytes",
]
