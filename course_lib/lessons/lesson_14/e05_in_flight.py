"""How many pages have to be in flight."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula


def _bytes_meanwhile(fixed: float, page: float, rate: float) -> float:
    """Return it from the bytes that arrive at full bandwidth between the start of a copy and its end."""
    arriving = rate * fixed + page
    return arriving / page


EXERCISE = Exercise(
    id="14.5",
    title="Compute: pages in flight",
    kind="compute",
    defines="in_flight",
    asks=Compute(
        takes=("fixed", "page", "rate"),
        results=(
            Formula(
                name="the pages",
                unit="",
                tolerance=1e-5,
                formula="fixed * rate / page + 1",
                proof=_bytes_meanwhile,
                near={
                    "fixed * rate / page": "Besides its fixed cycles, a copy also takes the time of its bytes.",
                    "fixed * page / rate + 1": "The larger a page, the fewer of them are needed.",
                    "fixed + page / rate": "That is when a copy arrives. How many pages arrive until then?",
                    "fixed * rate + page": "That is a number of bytes, so how many pages is that?",
                    "page / (fixed * rate + page)": "That is the share of the bandwidth that one page uses.",
                    "(fixed + page / rate) / fixed": "You divide by the fixed cycles, but a page takes page / rate.",
                    "(fixed + page * rate) * rate / page": "A page takes page / rate cycles, not page * rate.",
                    "(fixed + page / rate) / page": "You divide cycles by bytes, so where does the bandwidth come in?",
                },
            ),
        ),
        cases=((1100, 65536, 546), (1100, 4096, 546), (1100, 524288, 546), (700, 65536, 546), (1100, 32768, 980)),
        why="ten pages of 64 KiB have to be in flight, and nearly 150 of 4 KiB.",
    ),
    hints=(
        "How many bytes arrive at full bandwidth between the start of one copy and its end?",
        "A copy takes fixed + page / rate cycles, and in that time rate times as many bytes arrive.",
        "Divide those bytes by page, and you get fixed * rate / page + 1.",
    ),
    points=1,
)
