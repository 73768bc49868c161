"""The times of three all-gathers."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_03.product import MI, MI_IS_NOT_M

LINK = 45e9  # bytes/s per direction of a v5e's ICI link: the scaling book, chapter "How to Think About TPUs"
HOP_S = 1e-6  # latency of a hop, whatever its size: the same book, chapter "Sharded Matrices"
_FOUR_LINKS = "A chip has four links, but an axis of the torus, a ring, has two of them."
_ONE_SHARD = "That is the time of one shard. How many shards does a chip receive?"
_BYTES_ALONE = "That is the time of the bytes alone, but each hop costs its time, however little it carries."


def _all_gather(size: float, chips_in_ring: int, links: int) -> float:
    """Simulate hop by hop: a chip receives one missing shard per link in each. Return microseconds."""
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
            745.7: "A chip holds its own shard already, so it has to receive only the other fifteen.",
            1398.1: "In a ring the shards come from both neighbors at once, so two links receive.",
            1491.3: "Two slips: in a ring the shards come from both sides at once, and a chip holds its own already.",
            314.6: _FOUR_LINKS,
            335.5: _FOUR_LINKS,
            349.5: _FOUR_LINKS,
            372.8: _FOUR_LINKS,
            707.1: "You added the hops, but hops and bytes overlap, so the larger of the two times counts.",
            666.7: MI_IS_NOT_M,
            76.7: "You used the bandwidth of the HBM, but between chips the bytes take the network.",
            43.7: "That is the time for the lesson's array of 4 MiB, but this one has 64 MiB.",
            46.6: _ONE_SHARD,
            93.2: _ONE_SHARD,
        },
        why="15 shards of 4 MiB by two links.",
        proof=lambda: _all_gather(64 * MI, 16, links=2),
    ),
    "line": Predict(
        value=1118.5,
        unit="us",
        tolerance=0.01,
        near={
            559.2: "That is right for a chip in the middle, but the one at the end of the line has only one neighbor.",
            745.7: "Two slips: the chip at the end has only one neighbor, and it holds its own shard already.",
            699.1: "That is the ring of sixteen. Here there are four chips, and their ring is not closed.",
            1491.3: "A chip holds its own shard already, so it has to receive only the other three.",
            372.8: "That is one shard, or all by four links. The chip at the end lacks three shards and uses one link.",
            279.6: "A chip has four links, but the one at the end of a line uses only one of them.",
            251.7: "A chip has four links, but the one at the end of a line uses only one of them.",
            1066.7: MI_IS_NOT_M,
        },
        why="three shards of 16 MiB by one link.",
        proof=lambda: _all_gather(64 * MI, 4, links=1),
    ),
    "small": Predict(
        value=3,
        unit="us",
        tolerance=0.01,
        near={
            4: "Count the hops, not the chips. How many are there from one end of the line to the other?",
            2: "That is right for a chip in the middle. How many hops is one end of the line from the other?",
            8: "That is the ring of sixteen. Here there are four chips in a line.",
            3.068: "You added the bytes, but hops and bytes overlap, so the larger of the two times counts.",
            1: "That is one hop. A shard for the far end of the line is passed on from neighbor to neighbor.",
            0.0683: _BYTES_ALONE,
            0.091: _BYTES_ALONE,
            0.0455: _BYTES_ALONE,
        },
        why="3 hops of 1 us.",
        proof=lambda: _all_gather(4096, 4, links=1),
    ),
}

EXERCISE = Exercise(
    id="03.6",
    title="Predict: three all-gathers",
    kind="several",
    defines="gathers",
    asks=Several(parts=NETWORK, why="the links that receive, the shards that are missing and the hops decide."),
    hints=(
        "In each case, how many shards does the worst-placed chip lack, and through how many links do they come?",
        "Two links lead into each chip of a ring, and one into the end of a line. The same 64 MiB are cut into 16 "
        "shards or into 4.",
        "small: a shard goes from one end of the line to the other, and each hop takes 1 us, whatever it carries.",
    ),
    points=2,
)
