"""Exercise 03.6, three all-gathers."""

from course_lib.checks.kinds.predict import Predict
from course_lib.checks.lesson_03.product import MI, MI_IS_NOT_M

LINK = 45e9  # bytes/s that one ICI link of a v5e carries each way: the scaling book, chapter "How to Think About TPUs"
HOP_S = 1e-6  # what a hop costs whatever it carries: the same book, chapter "Sharded Matrices"
_FOUR_LINKS = "A chip has four links; an axis of the torus, a ring, has two of them."


def _all_gather(size: float, chips_in_ring: int, links: int) -> float:
    """Microseconds, hop by hop: in each a chip receives one shard on each of its links, while any is missing."""
    shard, missing, seconds = size / chips_in_ring, chips_in_ring - 1, 0.0
    while missing > 0:
        received = min(missing, links)
        seconds += max(HOP_S, shard / LINK * received / links)
        missing -= received
    return seconds * 1e6


NETWORK = {
    "ring": Predict(
        value=699.1,
        unit="us",
        tolerance=0.01,
        near={
            745.7: "A chip holds its own shard already: it has to receive the other fifteen.",
            1398.1: "In a ring the shards come from both neighbours at once: two links receive.",
            1491.3: "In a ring the shards come from both neighbours at once; and a chip holds its own shard already.",
            314.6: _FOUR_LINKS,
            335.5: _FOUR_LINKS,
            349.5: _FOUR_LINKS,
            707.1: "You added the hops. They and the bytes run side by side: the lesson takes the larger of the two.",
            666.7: MI_IS_NOT_M,
            76.7: "That is the bandwidth of the HBM. Between chips the bytes take the network.",
            43.7: "That is the time of one shard. How many does a chip receive?",
        },
        why="15 shards of 4 MiB by two links.",
        proof=lambda: _all_gather(64 * MI, 16, links=2),
    ),
    "line": Predict(
        value=1118.5,
        unit="us",
        tolerance=0.01,
        near={
            559.2: "That is right for a chip in the middle. The one at the end of the line has one neighbour.",
            745.7: "Two slips: the chip at the end has one neighbour, and it holds its own shard already.",
            699.1: "That is the ring of sixteen. Here are four chips, and nobody closes the ring.",
            1491.3: "A chip holds its own shard already: it has to receive the other three.",
            372.8: "That is the time of one shard. How many does the chip at the end receive?",
            279.6: "A chip has four links; the one at the end of a line uses one of them.",
            251.7: "A chip has four links; the one at the end of a line uses one of them.",
            1066.7: MI_IS_NOT_M,
        },
        why="three shards of 16 MiB by one link.",
        proof=lambda: _all_gather(64 * MI, 4, links=1),
    ),
    "small": Predict(
        value=8,
        unit="us",
        tolerance=0.01,
        near={
            15: "Shards travel both ways round the ring. How far away is the farthest chip?",
            16: "Shards travel both ways round the ring. How far away is the farthest chip?",
            7: "Count the hops to the chip opposite.",
            7.5: "Half a hop there is not: count the hops to the chip opposite.",
            1: "That is one hop. A chip passes on to its neighbour what it got from the other one.",
            0.0427: "So long would the bytes take. But each hop costs its time, however little it carries.",
            0.0455: "So long would the bytes take. But each hop costs its time, however little it carries.",
        },
        why="8 hops of 1 us.",
        proof=lambda: _all_gather(4096, 16, links=2),
    ),
}
