"""The links that lead out of a TPU chip. JAX's registry has none of them.

*Google*: the bidirectional bandwidth of all inter-chip links (ICI) of a chip, from its pages of v5e, v5p, v6e and
TPU7x; half of it goes out. The page of v4 prints none. *The scaling book* ("How to Scale Your Model", chapter "How to
Think About TPUs", table of TPU specs): one link, one way; PCIe to the host, for each chip; a hop of a v5e takes about
1 us. It has no TPU7x.
"""

import dataclasses

from course_lib.chips import tpu

_ICI = {"v4": (45e9, None), "v5e": (45e9, 400e9), "v5p": (90e9, 1200e9), "v6e": (90e9, 800e9), "tpu7x": (None, 1200e9)}
_NEIGHBOURS = {"v4": 6, "v5e": 4, "v5p": 6, "v6e": 4, "tpu7x": 6}  # of a 2-D and of a 3-D torus: Google's pages
_PCIE = {"v4": 16e9, "v5e": 16e9, "v5p": 16e9, "v6e": 32e9}
_HOP_S = {"v5e": 1e-6}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Links:
    """Bytes per second out of a chip, one way; None where nobody has published a figure."""

    neighbours: int  # chips that a chip has links to, where the torus is closed
    link_bandwidth: float | None  # of one link: the scaling book
    chip_bandwidth: float | None  # of all links of a chip: half of what Google prints for both ways
    hop_s: float | None  # seconds that a hop takes, whatever it carries: the scaling book
    host_bandwidth: float | None  # PCIe between a chip and its host: the scaling book


def links(name: str) -> Links:
    """The links of the TPU called ``name``, one of ``chips.NAMES``. Raises ValueError for any other."""
    tpu.chip(name)
    link, both_ways = _ICI[name]
    return Links(
        neighbours=_NEIGHBOURS[name],
        link_bandwidth=link,
        chip_bandwidth=both_ways and both_ways / 2,
        hop_s=_HOP_S.get(name),
        host_bandwidth=_PCIE.get(name),
    )
