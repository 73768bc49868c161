"""The ideal of a project: the time that its arithmetic or its bytes need at the least, whatever the kernel."""

import dataclasses
import math

import jax
import numpy as np

from course_lib import chips, vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ideal:
    """What the work of a project amounts to, at one size: the longest of the three times is its ideal."""

    flops: int = 0  # of bfloat16 matmuls, at the MXUs' peak
    vector_ops: int = 0  # on single elements, if four fit into every cycle and fill their registers
    hbm_bytes: int = 0  # of every array, once

    def seconds(self, chip: str = "v5e") -> float:
        """Return the seconds below which no kernel can do the work on ``chip``, a v4, v5e or v5p."""
        return max(self._parts(chip).values())

    def cycles(self, chip: str = "v5e") -> int:
        """Return ``seconds`` in cycles of the core."""
        return math.ceil(self.seconds(chip) * chips.chip(chip).clock_hz)

    def bound(self, chip: str = "v5e") -> str:
        """Return what takes the longest, "compute" or "HBM"."""
        parts = self._parts(chip)
        return max(parts, key=parts.get)

    def _parts(self, chip: str) -> dict[str, float]:
        on = chips.chip(chip)
        vectors = on.slots["VPU"] * on.sublanes * on.lanes * on.clock_hz
        arithmetic = max(self.flops / on.bf16_flops, self.vector_ops / vectors)
        return {vocabulary.COMPUTE: arithmetic, vocabulary.HBM: self.hbm_bytes / on.program_bandwidth}


def moved_once(*arrays) -> int:
    """Return the bytes of arrays, or of ``jax.ShapeDtypeStruct``s, without padding. An int4 takes half a byte."""
    leaves = jax.tree.leaves(arrays)
    return sum(math.prod(a.shape) * jax.dtypes.itemsize_bits(np.dtype(a.dtype)) // 8 for a in leaves)
