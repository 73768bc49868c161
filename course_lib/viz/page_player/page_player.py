"""A widget that steps through sequences that share the memory for the KV cache, page by page."""

import traitlets

from course_lib.viz.common.widget import Widget, source
from course_lib.viz.page_player import page_steps, page_still
from course_lib.viz.page_player.page_steps import LETTERS, Pool, Request

MOST_PAGES, MOST_TOKENS, MOST_STEPS = 64, 256, 500  # pages of a pool, tokens of a page, steps
LARGEST = 1_000_000  # tokens to reserve; the last step in which a request may arrive, and tokens of one
_EXAMPLE = "Try [(0, 40, 30), (5, 20, 50)]"


def page_player(
    requests: list[tuple[int, int, int]], room: int = 24, page: int = 16, reserve: int | None = None
) -> "PagePlayer":
    """Step through requests whose keys and values share a pool of ``room`` pages of ``page`` tokens each.

    ``requests``: 1 to 8 of (step in which it arrives, tokens of its prompt, tokens that it writes), named A, B, C, ...
    in order of arrival. ``room``: 1 to 64 pages. ``page``: 1 to 256 tokens. ``reserve``: tokens of the contiguous piece
    that each sequence would get on a server without pages, at least what the longest request gets, which is the
    default. A request begins when there are pages for its prompt. In each step every running sequence writes one
    token, takes a page if its last one is full, waits if none is free, and frees its pages at its end. Nothing is run,
    and nothing is timed. Raises ValueError for anything else, for a request that the pool can never hold, and for more
    than 500 steps.
    """
    for name, size, most, thing in (("room", room, MOST_PAGES, "pages"), ("page", page, MOST_TOKENS, "tokens")):
        if not _is_whole(size, 1, most):
            raise ValueError(
                f"page_player: {name}={size!r} is not a number of {thing}. It may be an integer from 1 to {most}. "
                f"Try {name}={16 if name == 'page' else 24}."
            )
    found = _requests(requests, room, page)
    longest = max(request.longest for request in found)
    if reserve is not None and not _is_whole(reserve, longest, LARGEST):
        raise ValueError(
            f"page_player: reserve={reserve!r} is not a number of tokens to reserve. It may be an integer from "
            f"{longest:,}, which the longest request gets, to {LARGEST:,}. Try reserve={longest}, or leave it out."
        )
    pool = Pool(room, page, longest if reserve is None else reserve)
    steps = page_steps.simulate(found, room, page)
    return PagePlayer(found, pool, steps)


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _requests(given: object, room: int, page: int) -> list[Request]:
    """Return the requests in order of arrival. Raise ValueError if they are none."""
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= len(LETTERS):
        raise ValueError(
            f"page_player: requests={given!r} is not a list of requests. It may have 1 to {len(LETTERS)} of (step in "
            f"which it arrives, tokens of its prompt, tokens that it writes). {_EXAMPLE}."
        )
    found = []
    for place, row in enumerate(given):
        each = list(row) if isinstance(row, list | tuple) else []
        least = (0, 1, 1)
        if len(each) != 3 or not all(_is_whole(n, low, LARGEST) for n, low in zip(each, least, strict=True)):
            raise ValueError(
                f"page_player: requests[{place}] is {row!r}, but must be three integers: the step in which it arrives, "
                f"0 or more, the tokens of its prompt and the tokens that it writes, each 1 or more and at most "
                f"{LARGEST:,}. {_EXAMPLE}."
            )
        request = Request(*each)
        needs = page_steps.pages_of(request.longest, page)
        if needs > room:
            raise ValueError(
                f"page_player: requests[{place}] is {row!r}, which is {request.longest:,} tokens at its end and needs "
                f"{needs:,} pages of {page}. It may need room={room} pages at most. Try a shorter request or more room."
            )
        if request.arrival + request.writes > MOST_STEPS:
            raise ValueError(_too_long(f"requests[{place}] is {row!r}, which ends after more than {MOST_STEPS} steps"))
        found.append(request)
    return sorted(found, key=lambda request: request.arrival)


def _too_long(what: str) -> str:
    return (
        f"page_player: {what}. It may take {MOST_STEPS} steps at most, and each token that is written takes one. Try "
        "fewer tokens to write, or earlier arrivals."
    )


class PagePlayer(Widget):
    """The widget. It shows step number ``step``; the still of step 0 is the one with the most sequences."""

    _esm, _css = source(__file__, "dom.js", "stepping.js")
    names = traitlets.List().tag(sync=True)  # of the sequences
    room = traitlets.Int(1).tag(sync=True)
    page = traitlets.Int(1).tag(sync=True)
    reserve = traitlets.Int(1).tag(sync=True)
    frames = traitlets.List().tag(sync=True)  # of each step: rows of (state, tokens, pages), and what is said of it
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, requests: list[Request], pool: Pool, steps: list[page_steps.Step]):
        """Describe each of ``steps`` for the browser, in words too."""
        if len(steps) > MOST_STEPS + 1:
            raise ValueError(_too_long(f"requests={[tuple(each) for each in requests]} takes {len(steps) - 1:,} steps"))
        self.requests, self.pool, self.steps = requests, pool, steps
        frames = [
            {
                "rows": [[row.state, row.length, list(row.pages)] for row in step],
                "says": page_steps.said(steps, number, requests, pool),
                "used": page_steps.used_words(step, pool),
                "reserved": page_steps.reserved_words(step, pool),
                "fit": page_steps.figures(step, pool).fit,
            }
            for number, step in enumerate(steps)
        ]
        super().__init__(
            names=list(LETTERS[: len(requests)]), room=pool.room, page=pool.page, reserve=pool.reserve, frames=frames
        )

    def _still(self) -> tuple[str, str]:
        number = min(max(0, self.step), len(self.steps) - 1) or page_steps.telling_step(self.steps, self.pool)
        shown = page_still.Moment(self.requests, self.pool, self.steps, number)
        return page_still.still(shown), page_still.as_text(shown)
