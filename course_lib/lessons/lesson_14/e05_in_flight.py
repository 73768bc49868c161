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
                    "fixed * rate / page": "A copy takes the time of its bytes, too.",
                    "fixed * page / rate + 1": "The larger a page, the fewer of them are needed.",
                    "fixed + page / rate": "That is when a copy arrives. How many pages come by then?",
                    "fixed * rate + page": "Those are bytes in flight. How many pages is that?",
                    "(fixed + page / rate) / page": "Cycles, divided by bytes: where does the bandwidth come in?",
                },
            ),
        ),
        cases=((1100, 65536, 546), (1100, 4096, 546), (1100, 524288, 546), (700, 65536, 546), (1100, 32768, 980)),
        why="a page of 64 KiB asks for ten in flight, one of 4 KiB for nearly 150.",
    ),
    hints=(
        "How many bytes arrive at full bandwidth between the start of one copy and its end?",
        "bytes in flight = latency * rate, and the latency is fixed + page / rate.",
        "Divide those bytes by page: fixed * rate / page + 1.",
    ),
    points=1,
)
