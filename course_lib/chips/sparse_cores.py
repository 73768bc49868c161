"""The SparseCores of a chip, from JAX's own registry."""

import dataclasses

from jax.experimental.pallas import tpu as pltpu

from course_lib.chips import tpu


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseCores:
    """The SparseCores that one device has. Sizes are in bytes."""

    cores: int
    subcores: int  # vector subcores of each core
    lanes: int  # 32-bit elements that a vector subcore computes with at once
    vmem_bytes: int  # of each vector subcore; the memory that a core's subcores share is what these leave of their sum
    granule_bytes: int  # a copy moves whole granules


def sparse_cores(name: str) -> SparseCores | None:
    """Return the SparseCores of a chip, "v6e" for example; None if it has none. Raises ValueError for an unknown chip.

    Google lists some for the v4 too, but JAX's registry does not, so Pallas cannot use them.
    """
    with tpu.chip(name).target():
        found = pltpu.get_tpu_info().sparse_core
    if found is None:
        return None
    return SparseCores(
        cores=found.num_cores,
        subcores=found.num_subcores,
        lanes=found.num_lanes,
        vmem_bytes=found.vmem_capacity_bytes,
        granule_bytes=found.dma_granule_size_bytes,
    )
