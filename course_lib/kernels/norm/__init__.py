"""Normalisation of each row, and RMSNorm with the residual that a transformer adds before it."""

from course_lib.kernels.norm.kernel import Blocks, layer_norm_reference, rms_norm_reference
from course_lib.kernels.norm.op import (
    blocks_for,
    layer_norm,
    rms_norm,
    rms_norm_residual,
    rms_norm_residual_blocks_for,
)
from course_lib.kernels.norm.residual import rms_norm_residual_reference

__all__ = [
    "Blocks",
    "blocks_for",
    "layer_norm",
    "layer_norm_reference",
    "rms_norm",
    "rms_norm_reference",
    "rms_norm_residual",
    "rms_norm_residual_blocks_for",
    "rms_norm_residual_reference",
]
