"""Attention: ``o = softmax(scale * q @ k.T) @ v`` for each head, without the scores ever being in HBM; its gradient."""

from course_lib.kernels.attention.op import Blocks, blocks_for, flash_attention, reference

__all__ = ["Blocks", "blocks_for", "flash_attention", "reference"]
