"""One link between two chips, and a 4 x 4 grid of chips without wraparound."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

SIZE, LINK, HOP = 64 * 2**20, 4.5e10, 1e-6  # bytes, bytes/s in each direction, seconds
SIDE = 4  # chips per side
MI_IS_NOT_M = "64 MiB are 67.1 million bytes, because Mi counts in steps of 1024."


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
            ONE / 2: "The link carries 45 GB/s in each direction, and all of these bytes go in one direction.",
            8 * ONE: "That is eight times too long, because 45 GB/s are bytes, not bits.",
        },
        next="divide the bytes by the bytes per second.",
        why="it is the bytes divided by the bandwidth of the link.",
        proof=lambda: ONE,
    ),
    "first byte": Predict(
        value=6,
        unit="us",
        tolerance=0.01,
        near={
            2: "That is right on a torus, where the rows and columns are closed to rings. Here they are not.",
            3: "That is the path along one side, but the opposite corner is two sides away.",
            4: "There are no diagonal links: each goes to a neighbor in the same row or the same column.",
            8: "That counts four links along each side, but a row of four chips has three.",
            7: "Seven chips lie on the path, the first one included. How many links are between them?",
            4.243: "That is the straight line across, but links run along rows and columns only.",
        },
        next="draw the sixteen chips, and count the links on a shortest path.",
        why="the path has three links along a row and three down a column.",
        proof=lambda: _hops((0, 0), (SIDE - 1, SIDE - 1)) * HOP * 1e6,
    ),
    "all of it": Predict(
        value=751.7,
        unit="us",
        tolerance=0.01,
        near={
            ONE: "That is the time over one link. How many links leave a corner?",
            ONE + 6: "That leaves the corner by one link. How many links leave a corner?",
            ONE / 4: "That is right for a chip in the middle. How many links leave a corner of this grid?",
            ONE / 4 + 6: "That is right for a chip in the middle. How many links leave a corner of this grid?",
            6 * ONE: "A chip in between passes on the first bytes while the next ones come, so the links work at once.",
            3 * ONE: "A chip in between passes on the first bytes while the next ones come, so the links work at once.",
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
    asks=Several(parts=TIMES, why="bytes take all links that leave a chip, and hops delay only the first of them."),
    hints=(
        "Draw sixteen dots, four by four, and lines between neighbors. Where do the bytes start and end?",
        "first byte: count the lines on a shortest path. all of it: count the lines that leave a corner.",
        "all of it: divide 64 MiB by twice 45 GB/s. The hops of the last byte come on top, but they hardly count.",
    ),
    points=1,
)
