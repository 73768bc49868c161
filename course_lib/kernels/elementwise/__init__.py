"""Elementwise kernels: ``o[i] = x[i] + y[i]`` and its siblings, for arrays of any shape."""

from course_lib.kernels.elementwise.blocks import blocks_of, seen_as, vmem_bytes
from course_lib.kernels.elementwise.kernel import (
    Blocks,
    add_reference,
    cast_reference,
    multiply_reference,
    subtract_reference,
)
from course_lib.kernels.elementwise.op import (
    add,
    blocks_for,
    by_blocks,
    cast,
    cast_blocks_for,
    multiply,
    pair,
    rule,
    subtract,
)

__all__ = [
    "Blocks",
    "add",
    "add_reference",
    "blocks_for",
    "blocks_of",
    "by_blocks",
    "cast",
    "cast_blocks_for",
    "cast_reference",
    "multiply",
    "multiply_reference",
    "pair",
    "rule",
    "seen_as",
    "subtract",
    "subtract_reference",
    "vmem_bytes",
]
