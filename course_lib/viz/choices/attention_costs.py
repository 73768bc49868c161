"""What attention costs under the roofline, fused and unfused: FLOPs, HBM bytes, seconds, and the same in words."""

from typing import NamedTuple

from course_lib import text, vocabulary
from course_lib.chips import Chip

LENGTHS = tuple(2**n for n in range(8, 16))  # sequence lengths: 256 to 32,768
SAID = 4096  # the sequence length that the caption speaks of, beside the longest
SCORE_BYTES = 4  # of a score in float32
TRIPS = 4  # of the scores through HBM: written, read by softmax, written as weights, read by the second matmul


class Layer(NamedTuple):
    """Attention forward in one layer: one sequence, ``heads`` heads of ``size``, ``itemsize`` bytes an element."""

    chip: Chip
    heads: int
    itemsize: int
    size: int
    causal: bool


class Cost(NamedTuple):
    """What one way to compute it costs on one core."""

    flops: float
    hbm_bytes: float
    compute_s: float
    hbm_s: float

    @property
    def seconds(self) -> float:
        """The longer of compute and HBM."""
        return max(self.compute_s, self.hbm_s)

    @property
    def bound(self) -> str:
        """What binds: compute, HBM or both."""
        return vocabulary.bound_of_roofs(self.compute_s, self.hbm_s)


def fused(layer: Layer, length: int) -> Cost:
    """Return the cost of a fused kernel at a sequence length; if causal, it skips half of the scores."""
    flops = 4 * length**2 * layer.size * layer.heads / (2 if layer.causal else 1)
    return _cost(layer.chip, flops, _operands(layer, length))


def unfused(layer: Layer, length: int) -> Cost:
    """Return the cost of three steps with all scores in HBM between them; a causal mask saves none of it."""
    scores = length**2 * layer.heads
    return _cost(layer.chip, 4 * scores * layer.size, _operands(layer, length) + TRIPS * SCORE_BYTES * scores)


def _operands(layer: Layer, length: int) -> int:
    """Return the bytes of q, k, v and o."""
    return 4 * length * layer.size * layer.heads * layer.itemsize


def _cost(chip: Chip, flops: float, hbm_bytes: float) -> Cost:
    return Cost(flops, hbm_bytes, flops / chip.bf16_flops, hbm_bytes / chip.program_bandwidth)


def turn(layer: Layer) -> float:
    """Return the sequence length at which the fused kernel takes as long for compute as for HBM.

    Both FLOPs and bytes are proportional to the head size, so it cancels.
    """
    ridge = layer.chip.bf16_flops / layer.chip.program_bandwidth
    return ridge * layer.itemsize * (2 if layer.causal else 1)


def fewer(layer: Layer, length: int) -> str:
    """Say how many times fewer bytes the fused kernel moves: "65 times"."""
    ratio = unfused(layer, length).hbm_bytes / fused(layer, length).hbm_bytes
    return f"{text.significant(ratio, 3 if ratio < 10 else 2)} times"


def said(layer: Layer) -> str:
    """Describe both times at one length, where the fused kernel turns, and what is assumed, in sentences."""
    whole, apart, at = fused(layer, SAID), unfused(layer, SAID), turn(layer)
    hbm, compute = vocabulary.bound_by(vocabulary.HBM), vocabulary.bound_by(vocabulary.COMPUTE)
    binds = f"{hbm} up to T = {at:,.0f} and {compute} beyond" if at > LENGTHS[0] else f"{compute} at every T shown"
    causal = " The fused kernel skips half of the scores, and the unfused one skips none." if layer.causal else ""
    return (
        f"At T = {SAID:,}, the fused kernel takes {text.duration(whole.seconds)} and moves {fewer(layer, SAID)} fewer "
        f"bytes than the unfused one, which takes {text.duration(apart.seconds)}; at T = {LENGTHS[-1]:,}, it moves "
        f"{fewer(layer, LENGTHS[-1])} fewer. The fused kernel is {binds}. It reads q, k and v and writes o, in "
        f"{text.counted(layer.itemsize, 'byte')} an element. The unfused one also writes and reads the T x T scores of "
        f"each head, and then the softmax weights, both in float32.{causal} Times are {vocabulary.MODEL} for one "
        f"{layer.chip.name} core, {text.counted(layer.heads, 'head')} and one sequence: the longer of compute and HBM."
    )
