"""What a kernel costs in HBM traffic, operations and VMEM, counted from the lists that ``grid`` makes."""

from course_lib.cost.flops import Work, flops, kernel_flops
from course_lib.cost.padding import AGAINST_PADDING, padding, padding_of, padding_of_call
from course_lib.cost.traffic import Traffic, hbm_bytes, payload_bytes, stored_bytes, traffic
from course_lib.cost.vmem import (
    Allocation,
    held_as,
    is_legal_size,
    largest_block,
    legal_sizes,
    padded_bytes,
    padded_shape,
    vmem,
    vmem_bytes,
)

__all__ = [
    "AGAINST_PADDING",
    "Allocation",
    "Traffic",
    "Work",
    "flops",
    "hbm_bytes",
    "held_as",
    "is_legal_size",
    "kernel_flops",
    "largest_block",
    "legal_sizes",
    "padded_bytes",
    "padded_shape",
    "padding",
    "padding_of",
    "padding_of_call",
    "payload_bytes",
    "stored_bytes",
    "traffic",
    "vmem",
    "vmem_bytes",
]
