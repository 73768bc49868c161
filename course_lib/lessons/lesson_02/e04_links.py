"""One link between two chips, and a 4 x 4 grid of chips without wraparound."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

SIZE, LINK, HOP = 64 * 2**20, 4.5e10, 1e-6  # bytes, bytes/s in each direction, seconds
SIDE = 4  # chips per side
MI_IS_NOT_M = "64 MiB are 67.1 million bytes: Mi counts in steps of 1024."


def _neighbours(x: int, y: int) -> list[tuple[int, int]]:
    around = ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
    return [(a, b) for a, b in around if 0 <= a < SIDE and 0 <= b < SIDE]


def _hops(start: tuple[int, int], end: tuple[int, int]) -> int:
    """Return the fewest links between two chips, by breadth-first search."""
    reached, hops = {start}, 0
    while end not in reached:
        reached |= {there for here in reached for there in _neighbours(*here)}
        hops += 1
    return hops


def _corner_to_corner_us() -> float:
    """Return the microseconds for all bytes over the links that leave a corner, plus the hops of the last one."""
    through = SIZE / (len(_neighbours(0, 0)) * LINK)
    return (through + _hops((0, 0), (SIDE - 1, SIDE - 1)) * HOP) * 1e6


ONE, ALL = SIZE / LINK * 1e6, _corner_to_corner_us()

TIMES = {
    "one link": Predict(
        value=1491.3,
        unit="us",
        tolerance=0.01,
        near={
            64e6 / LINK * 1e6: MI_IS_NOT_M,
            ONE / 2: "Each way the link carries 45 GB/s. All of these bytes go one way.",
            8 * ONE: "That is eight times too long. 45 GB/s are bytes, not bits.",
        },
        next="write the bytes over the bytes of a second.",
        why="its bytes, over the bandwidth of the link.",
        proof=lambda: ONE,
    ),
    "first byte": Predict(
        value=6,
        unit="us",
        tolerance=0.01,
        near={
            2: "That is right on a torus, where the rows and columns are closed to rings. These are not.",
            3: "That is the way along one side. The other corner lies across two.",
            4: "Links do not lead across: each goes to a neighbour in the same row or the same column.",
            8: "A row of four chips has three links.",
            7: "Seven chips lie on the way, with the first. How many links are between them?",
            4.243: "That is the way straight across. Links run along rows and columns only.",
        },
        next="draw the sixteen chips and count the links on a shortest way.",
        why="three links along, three links down.",
        proof=lambda: _hops((0, 0), (SIDE - 1, SIDE - 1)) * HOP * 1e6,
    ),
    "all of it": Predict(
        value=751.7,
        unit="us",
        tolerance=0.01,
        near={
            ONE: "That is one link. How many links leave a corner?",
            ONE + 6: "That goes out by one link. How many links leave a corner?",
            ONE / 4: "That is right in the middle. How many links leave a corner of a 4 x 4 that is not closed?",
            ONE / 4 + 6: "That is right in the middle. How many links leave a corner of a 4 x 4 that is not closed?",
            6 * ONE: "A chip in between passes on the first bytes while the next ones come: the links work at once.",
            3 * ONE: "A chip in between passes on the first bytes while the next ones come: the links work at once.",
            64e6 / (2 * LINK) * 1e6: MI_IS_NOT_M,
        },
        next="count the links that can carry bytes out of the corner at once.",
        why="two links leave a corner.",
        proof=_corner_to_corner_us,
    ),
}

EXERCISE = Exercise(
    id="02.4",
    title="Predict: from chip to chip",
    kind="several",
    defines="links",
    asks=Several(parts=TIMES, why="bytes go by all links that leave a chip, and a hop costs only the first of them."),
    hints=(
        "Draw sixteen dots, four by four, and a line between neighbours. Where do the bytes start, where do they end?",
        "first byte: count the lines on a shortest way. all of it: count the lines that leave a corner.",
        "all of it: 64 MiB over twice 45 GB/s, and the last byte still has its hops to go; they hardly count.",
    ),
    points=1,
)
