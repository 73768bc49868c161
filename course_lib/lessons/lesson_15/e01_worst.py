"""How many visits there are at most, and how many rows are multiplied then."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula
from course_lib.lessons.lesson_15 import groups as of


def _most(rows: int, experts: int, tile: int) -> int:
    """Return the visits of groups of which all but the first begin inside a tile."""
    begins = [n * rows // experts // tile * tile + 1 + n % (tile - 1) for n in range(1, experts)]
    sizes = [end - start for start, end in zip([0, *begins], [*begins, rows], strict=True)]
    assert all(begin % tile for begin in begins) and min(sizes) > 0
    return len(of.visits_of(sizes, rows, tile, empty=False))


EXERCISE = Exercise(
    id="15.1",
    title="Compute: the most visits",
    kind="compute",
    defines="worst",
    asks=Compute(
        takes=("rows", "experts", "tile"),
        results=(
            Formula(
                name="the most visits",
                unit="",
                formula="rows / tile + experts - 1",
                proof=_most,
                near={
                    "rows / tile + experts": "The first group begins where the first tile begins. Does it add a visit?",
                    "rows / tile": "That is one for each tile. Some tiles are shared.",
                    "rows / tile * experts": "That is every tile with every expert. Rows are sorted by expert.",
                    "rows / tile + 2 * experts - 2": "A border lies inside one tile. How many visits does it add?",
                },
            ),
            Formula(
                name="the factor",
                unit="",
                formula="(rows + (experts - 1) * tile) / rows",
                proof=lambda rows, experts, tile: _most(rows, experts, tile) * tile / rows,
                near={
                    "(rows + experts * tile) / rows": "The first group begins where the first tile begins.",
                    "rows + (experts - 1) * tile": "That is the rows that are multiplied. Divide by the rows.",
                    "(experts - 1) * tile / rows": "That is only what is wasted. The rows themselves count, too.",
                    "rows / (rows + (experts - 1) * tile)": "That is the share that is of use. Take its inverse.",
                },
            ),
        ),
        cases=((4096, 8, 256), (4096, 8, 512), (8192, 64, 128), (1024, 3, 128)),
        why="every group but the first can begin inside a tile.",
    ),
    hints=(
        "Begin with one group: each tile has one visit. What happens to the number when a group is cut in two?",
        "Each group after the first adds at most one visit, of the tile in which it begins.",
        "rows / tile + experts - 1 visits, of tile rows each.",
    ),
    points=1,
)
