"""Chips by name: TPUs from JAX's registry, GPUs from NVIDIA's data sheets, the links between chips, and SparseCores."""

from course_lib.chips.attached_gpus import AttachedGpu, attached_gpus
from course_lib.chips.gpu import GPU_NAMES, Gpu, gpu
from course_lib.chips.gpu_target import GPU_TARGETS, GpuTarget, gpu_of_kind, gpu_target
from course_lib.chips.links import Links, links
from course_lib.chips.sparse_cores import SparseCores, sparse_cores
from course_lib.chips.tpu import NAMES, Chip, chip, on_a_tpu, tpu_attached

__all__ = [
    "GPU_NAMES",
    "GPU_TARGETS",
    "NAMES",
    "AttachedGpu",
    "Chip",
    "Gpu",
    "GpuTarget",
    "Links",
    "SparseCores",
    "attached_gpus",
    "chip",
    "gpu",
    "gpu_of_kind",
    "gpu_target",
    "links",
    "on_a_tpu",
    "sparse_cores",
    "tpu_attached",
]
