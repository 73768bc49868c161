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
                    "rows / tile + experts": "Does a group that begins where a tile begins add a visit?",
                    "rows / tile": "That is one visit for each tile, but some tiles hold rows of several groups.",
                    "rows / tile * experts": "That is every tile with every expert, but the rows are sorted by expert.",
                    "rows / tile + 2 * experts - 2": "A border lies inside one tile, so how many visits does it add?",
                },
            ),
            Formula(
                name="the factor",
                unit="",
                formula="(rows + (experts - 1) * tile) / rows",
                proof=lambda rows, experts, tile: _most(rows, experts, tile) * tile / rows,
                near={
                    "(rows + experts * tile) / rows": "A group that begins where a tile begins adds no visit.",
                    "rows + (experts - 1) * tile": "Those are the rows that are multiplied, not yet divided by rows.",
                    "(rows / tile + experts - 1) / experts": "Count rows, tile for a visit, and divide by rows.",
                    "(experts - 1) * tile / rows": "That is only what is wasted, but the rows themselves count, too.",
                    "rows / (rows + (experts - 1) * tile)": "That is the share of useful rows, so take its inverse.",
                },
            ),
        ),
        cases=((4096, 8, 256), (4096, 8, 512), (8192, 64, 128), (1024, 3, 128)),
        why="every group but the first can begin inside a tile.",
    ),
    hints=(
        "Begin with one group: each tile has one visit. What happens to the number when a group is cut in two?",
        "Each group after the first adds at most one visit, of the tile in which it begins.",
        "There are rows / tile + experts - 1 visits, and each multiplies tile rows.",
    ),
    points=1,
)
