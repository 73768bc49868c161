"""The links between TPU chips, and from a chip to its host. JAX's registry does not list them.

*Google*: the bidirectional bandwidth of all inter-chip links (ICI) of a chip, from its pages on v5e, v5p, v6e and
TPU7x; half of it is outbound. The page on v4 gives none. *The scaling book* ("How to Scale Your Model", chapter "How to
Think About TPUs", table of TPU specs): the one-way bandwidth of one link; PCIe to the host, for each chip; about 1 us
for a hop on a v5e. It does not cover TPU7x.
"""

import dataclasses

from course_lib.chips import tpu

_ICI = {"v4": (45e9, None), "v5e": (45e9, 400e9), "v5p": (90e9, 1200e9), "v6e": (90e9, 800e9), "tpu7x": (None, 1200e9)}
_NEIGHBOURS = {"v4": 6, "v5e": 4, "v5p": 6, "v6e": 4, "tpu7x": 6}  # in a 2-D or 3-D torus, from Google's pages
_PCIE = {"v4": 16e9, "v5e": 16e9, "v5p": 16e9, "v6e": 32e9}
_HOP_S = {"v5e": 1e-6}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Links:
    """Outbound bandwidths of a chip in bytes per second, one way; None if no figure is published."""

    neighbours: int  # chips that each chip is linked to in a closed torus
    link_bandwidth: float | None  # of one link, from the scaling book
    chip_bandwidth: float | None  # of all links of a chip: half of the two-way figure that Google prints
    hop_s: float | None  # seconds that a hop takes, whatever its size, from the scaling book
    host_bandwidth: float | None  # PCIe between a chip and its host, from the scaling book


def links(name: str) -> Links:
    """Return the links of the TPU called ``name``, one of ``chips.NAMES``. Raises ValueError for any other name."""
    tpu.chip(name)
    link, both_ways = _ICI[name]
    return Links(
        neighbours=_NEIGHBOURS[name],
        link_bandwidth=link,
        chip_bandwidth=both_ways and both_ways / 2,
        hop_s=_HOP_S.get(name),
        host_bandwidth=_PCIE.get(name),
    )
