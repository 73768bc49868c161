"""How sequences share a pool of pages, step by step: who holds which pages, who waits, and the same in words."""

from collections.abc import Sequence
from typing import NamedTuple

from course_lib import text

LATER, WAITING, RUNNING, STALLED, ENDED = "later", "waiting", "running", "needs a page", "ended"
LETTERS = "ABCDEFGH"


class Request(NamedTuple):
    """One request: the step in which it arrives, the tokens of its prompt, and the tokens that it writes."""

    arrival: int
    prompt: int
    writes: int

    @property
    def longest(self) -> int:
        """Tokens that it keeps at its end."""
        return self.prompt + self.writes


class Pool(NamedTuple):
    """The memory: ``room`` pages of ``page`` tokens, and the tokens that a server without pages would reserve."""

    room: int
    page: int
    reserve: int

    @property
    def tokens(self) -> int:
        """Tokens that fit into the pool."""
        return self.room * self.page


class Row(NamedTuple):
    """One sequence in one step: its state, the tokens that it keeps, and its pages in the order of its tokens."""

    state: str
    length: int
    pages: tuple[int, ...]


Step = tuple[Row, ...]  # a row for each request


class Figures(NamedTuple):
    """Tokens of the pool in one step; the same sequences in reserved pieces beside it."""

    used: int  # tokens that are kept
    lost: int  # places behind the last token of each sequence, in its last page
    free: int  # places in free pages
    running: int  # sequences that have pages
    fit: int  # how many of them would fit if each reserved a piece
    reserved_used: int  # tokens that those which fit keep
    reserved_lost: int  # places behind the last token, in their pieces


def simulate(requests: Sequence[Request], room: int, page: int) -> list[Step]:
    """Return each step, from step 0 until all requests have ended or none can go on.

    ``requests``: in order of arrival; ``room``: pages in the pool; ``page``: tokens of a page. In a step, sequences
    that wrote their last token in the step before free their pages. Then each running sequence writes a token, the
    earliest first; if its last page is full, it takes the free page with the lowest number, or waits if there is none.
    Then requests that have arrived get pages for their prompts, in order of arrival, while there is room. A request
    that alone needs more than ``room`` pages never runs.
    """
    rows, free, steps = [Row(LATER, 0, ()) for _ in requests], list(range(room)), []
    while not steps or not is_over(steps[-1]):
        number = len(steps)
        for n, row in enumerate(rows):
            if row.state == RUNNING and row.length == requests[n].longest:
                free = sorted([*free, *row.pages])
                rows[n] = Row(ENDED, row.length, ())
        for n, row in enumerate(rows):
            if row.pages:
                rows[n] = _written(row, free, page)
        ahead = False  # whether an earlier request waits
        for n, request in enumerate(requests):
            if rows[n].state not in (LATER, WAITING) or request.arrival > number:
                continue
            needs = pages_of(request.prompt, page)
            ahead = ahead or needs > len(free)
            taken = () if ahead else tuple(free.pop(0) for _ in range(needs))
            rows[n] = Row(WAITING, 0, ()) if ahead else Row(RUNNING, request.prompt, taken)
        steps.append(tuple(rows))
    return steps


def _written(row: Row, free: list[int], page: int) -> Row:
    """Write a token of a sequence, and take its page out of ``free`` if it needs one."""
    if row.length < len(row.pages) * page:
        return Row(RUNNING, row.length + 1, row.pages)
    if not free:
        return Row(STALLED, row.length, row.pages)
    return Row(RUNNING, row.length + 1, (*row.pages, free.pop(0)))


def pages_of(tokens: int, page: int) -> int:
    """Return how many pages of ``page`` tokens hold ``tokens``."""
    return -(-tokens // page)


def is_stuck(step: Step) -> bool:
    """Whether every sequence that has pages needs one more, so that none can ever go on."""
    states = [row.state for row in step]
    return STALLED in states and RUNNING not in states


def is_over(step: Step) -> bool:
    """Whether nothing can change any more."""
    return is_stuck(step) or all(row.state == ENDED for row in step)


def figures(step: Step, pool: Pool) -> Figures:
    """Return the tokens in use, lost and free in a step, and the same for reserved pieces."""
    lengths = [row.length for row in step if row.pages]
    taken = pool.page * sum(len(row.pages) for row in step)
    fit = min(len(lengths), pool.tokens // pool.reserve)
    kept = sum(lengths[:fit])
    used = sum(lengths)
    return Figures(used, taken - used, pool.tokens - taken, len(lengths), fit, kept, fit * pool.reserve - kept)


def filled(step: Step, pool: Pool) -> dict[int, tuple[int, int]]:
    """Return for each page that is taken: the sequence that has it, and the tokens in it."""
    return {
        number: (n, min(pool.page, row.length - place * pool.page))
        for n, row in enumerate(step)
        for place, number in enumerate(row.pages)
    }


def telling_step(steps: Sequence[Step], pool: Pool) -> int:
    """Return the step for a still: the most sequences, of which the fewest need a page, with the most tokens in use."""

    def told(number: int) -> tuple[int, int, int]:
        found = figures(steps[number], pool)
        return found.running, -sum(row.state == STALLED for row in steps[number]), found.used

    return max(range(len(steps)), key=told)


def said(steps: Sequence[Step], number: int, requests: Sequence[Request], pool: Pool) -> str:
    """Say what happens in a step: who ends, writes, takes a page, begins or waits."""
    now = steps[number]
    before = steps[number - 1] if number else tuple(Row(LATER, 0, ()) for _ in requests)
    found = [f"Step {number}."]
    changes = list(zip(LETTERS, before, now, requests, strict=False))
    for letter, old, new, _ in changes:
        if new.state == ENDED != old.state:
            found.append(f"{letter} has ended and frees {text.counted(len(old.pages), 'page')}.")
    wrote = [letter for letter, old, new, _ in changes if old.pages and new.state == RUNNING]
    if wrote:
        found.append(f"{joined(wrote)} {'writes a token' if len(wrote) == 1 else 'write a token each'}.")
    for letter, old, new, request in changes:
        if old.pages and len(new.pages) > len(old.pages):
            found.append(f"{letter} takes page {new.pages[-1]}, because its last one is full.")
        if new.pages and not old.pages:
            taken = f"page{'s' if new.pages[1:] else ''} {joined([str(page) for page in new.pages])}"
            found.append(f"{letter} takes {taken} for the {text.counted(request.prompt, 'token')} of its prompt.")
    stalled = [letter for letter, _, new, _ in changes if new.state == STALLED]
    if stalled:
        need = "needs a page for its next token" if len(stalled) == 1 else "need a page each for the next token"
        found.append(f"{joined(stalled)} {need}, and none is free.")
    found += _waits(now, requests, pool)
    if is_stuck(now):
        found.append(
            "So no sequence can go on. A server would now take the pages of one sequence and recompute it later."
        )
    elif is_over(now):
        found.append("All pages are free again.")
    elif len(found) == 1:
        found.append("Nothing happens until the next request arrives.")
    return " ".join(found)


def _waits(now: Step, requests: Sequence[Request], pool: Pool) -> list[str]:
    """Say who waits for room for a prompt, and why."""
    waiting = [n for n, row in enumerate(now) if row.state == WAITING]
    if not waiting:
        return []
    free = pool.room - sum(len(row.pages) for row in now)
    needs = pages_of(requests[waiting[0]].prompt, pool.page)
    are = "is" if free == 1 else "are"
    first = LETTERS[waiting[0]]
    found = [f"{first} waits, because its prompt needs {text.counted(needs, 'page')} and {free or 'none'} {are} free."]
    if waiting[1:]:
        letters = [LETTERS[n] for n in waiting[1:]]
        found.append(f"{joined(letters)} {'waits' if len(letters) == 1 else 'wait'} behind {first}.")
    return found


def used_words(step: Step, pool: Pool) -> str:
    """Say how the pages are used in a step."""
    told = figures(step, pool)
    return (
        f"In pages of {text.counted(pool.page, 'token')}: {text.counted(told.running, 'sequence')}, "
        f"{text.counted(told.used, 'token')} in use, {told.lost:,} lost in last pages, {told.free:,} free."
    )


def reserved_words(step: Step, pool: Pool) -> str:
    """Say how many of the running sequences would fit if each reserved a contiguous piece of the pool."""
    told = figures(step, pool)
    room = text.counted(pool.tokens // pool.reserve, "sequence")
    says = f"With {text.counted(pool.reserve, 'token')} reserved for each: room for {room}"
    if not told.running:
        return f"{says}."
    left = told.running - told.fit
    whose = f", so {left} of these {told.running} {'does' if left == 1 else 'do'} not fit" if left else ""
    return (
        f"{says}{whose}; {text.counted(told.reserved_used, 'token')} in use, {told.reserved_lost:,} reserved and empty."
    )


def joined(words: Sequence[str]) -> str:
    """Join words: "A", "A and B", "A, B and C"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
