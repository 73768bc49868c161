"""Activations: plain functions of a block to be used inside any kernel, and kernels of their own."""

from course_lib.kernels.activations.kernel import (
    gelu_reference,
    gelu_tanh_reference,
    relu_reference,
    silu_reference,
)
from course_lib.kernels.activations.op import apply, blocks_for, gelu, gelu_tanh, pull_back, relu, silu, slope
from course_lib.kernels.common.activations import ACTIVATIONS, Activation, named
from course_lib.kernels.elementwise.kernel import Blocks

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Blocks",
    "apply",
    "blocks_for",
    "gelu",
    "gelu_reference",
    "gelu_tanh",
    "gelu_tanh_reference",
    "named",
    "pull_back",
    "relu",
    "relu_reference",
    "silu",
    "silu_reference",
    "slope",
]
