"""Attention of one query per sequence, as in decoding, over keys and values in pages."""

from course_lib.kernels.paged_attention.op import Blocks, attend, blocks_for, paged_attention, reference, scores_of

__all__ = ["Blocks", "attend", "blocks_for", "paged_attention", "reference", "scores_of"]
