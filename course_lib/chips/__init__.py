"""Chips by name: TPUs from JAX's registry, two GPUs from NVIDIA's data sheets, and the links out of a chip."""

from course_lib.chips.gpu import GPU_NAMES, Gpu, gpu
from course_lib.chips.links import Links, links
from course_lib.chips.tpu import NAMES, Chip, chip, on_a_tpu, tpu_attached

__all__ = ["GPU_NAMES", "NAMES", "Chip", "Gpu", "Links", "chip", "gpu", "links", "on_a_tpu", "tpu_attached"]
