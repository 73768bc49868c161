"""The order of chips along a ring through two rows."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula

_BACK = "min(1, max(0, place - columns + 1))"  # 1 in the second row, else 0
_FROM_COLUMN_1 = "min(1, max(0, place - columns))"  # 1 after the second row, if the ring goes down first
_VISITED = "That goes back along the first row, whose chips the ring has already visited."


def _linked(one: int, other: int, columns: int) -> bool:
    (a, b), (c, d) = divmod(one, columns), divmod(other, columns)
    return abs(a - c) + abs(b - d) == 1


def _ring(columns: int) -> list[int]:
    """Return the first ring in the order of numbers that goes over links only, by search."""
    chips = range(2 * columns)

    def longer(path: list[int]) -> list[int] | None:
        if len(path) == len(chips):
            return path if _linked(path[-1], path[0], columns) else None
        found = (longer([*path, c]) for c in chips if c not in path and _linked(path[-1], c, columns))
        return next(filter(None, found), None)

    return longer([0])


EXERCISE = Exercise(
    id="16.8",
    title="Compute: a ring through two rows of chips",
    kind="compute",
    defines="at",
    asks=Compute(
        takes=("place", "columns"),
        results=(
            Formula(
                name="the chip",
                unit="",
                formula=f"place + (3 * columns - 1 - 2 * place) * {_BACK}",
                proof=lambda place, columns: _ring(columns)[place],
                near={
                    "place": "That is the order of the numbers. Is the last chip of one row linked to the first of the "
                    "next?",
                    f"place + (3 * columns - 2 * place) * {_BACK}": "The first chip of the second row stands below the "
                    "last one of the first row. What is its number?",
                    f"place + (2 * columns - 2 * place) * {_BACK}": _VISITED,
                    f"place + (2 * columns - 1 - 2 * place) * {_BACK}": _VISITED,
                    "2 * columns - 1 - place": "That ring begins at the end. Which chip has place 0?",
                    f"min(1, place) * (columns - 1 + place + (columns + 1 - 2 * place) * {_FROM_COLUMN_1})": "That "
                    "ring goes down from chip 0. The one that is asked for goes along the first row.",
                    "place % 2 * columns + place // 2": "That jumps to the other row at every step, and no link joins "
                    "chips in different rows and different columns.",
                },
            ),
        ),
        cases=tuple((place, columns) for columns in (2, 3, 4) for place in range(2 * columns)),
        why="the ring goes back along the second row, from its last chip to its first.",
    ),
    hints=(
        "Draw two rows of four dots, with their numbers. Walk around them without lifting the pen.",
        "The first row is walked from left to right, so the second one must be walked from right to left.",
        "At place columns the ring is at the last chip of the second row, number 2 * columns - 1, and from there each "
        "place has a number one lower.",
    ),
    points=1,
)
