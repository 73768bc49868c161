"""Counts the copies in flight while a kernel waits or works, read from its code before it runs."""

from collections.abc import Callable

from course_lib import grid


def at_waits(fn: Callable, *args) -> list[int]:
    """Return how many copies out of HBM are in flight at each wait for one, in time order, including that one.

    Raises grid.UnreadableCall if the kernel's code cannot be followed.
    """
    return [n for call in grid.walk(fn, *args).calls for n in _counts(call, "hbm", "wait")]


def too_few(fn: Callable, *args, wanted: int) -> tuple[str, str] | None:
    """Return None if ``wanted`` copies out of HBM, or all those left, are in flight at each wait; else (fault, fix)."""
    counts = at_waits(fn, *args)
    expected = [min(wanted, left) for left in range(len(counts), 0, -1)]
    short = [(n, has, ask) for n, (has, ask) in enumerate(zip(counts, expected, strict=True)) if has < ask]
    if not counts:
        return (
            "No copy out of HBM is waited for in this kernel.",
            "let the kernel copy by hand: a pl.BlockSpec(memory_space=pl.ANY) leaves the array in HBM.",
        )
    if not short:
        return None
    n, has, ask = short[0]
    return (
        f"{len(short)} of its {len(counts)} waits have too few copies in flight. At wait {n}, counted from 0, "
        f"{_copies(has)} on the way in, including the one that it waits for, and {ask} should be.",
        "start more copies before that wait, because a copy that has not been started cannot arrive meanwhile.",
    )


def nothing_leaving(fn: Callable, *args) -> tuple[str, str] | None:
    """Return None if a copy into HBM is in flight at each write to a buffer that is copied out, except the first."""
    counts = [n for call in grid.walk(fn, *args).calls for n in _counts(call, "vmem", "write")]
    if not counts:
        return (
            "The kernel starts no copy of a buffer into HBM.",
            "write results back by hand: out_specs=ANYWHERE leaves the output in HBM, and make_async_copy fills it.",
        )
    idle = [n for n, under_way in enumerate(counts) if n and not under_way]
    if not idle:
        return None
    return (
        f"While result {idle[0]}, counted from 0, is computed, no write-back is in flight, because each is waited for "
        f"before the work on the next block begins.",
        "wait for the write-back of a block one or two steps later, when its buffer is needed again.",
    )


def _counts(call: grid.Call, source_space: str, kind: str) -> list[int]:
    """Return how many copies out of a memory are in flight at each wait for one, or each write to its source."""
    if not grid.has_copies_by_hand(call):
        return []
    sources = {copy.source for copy in grid.body(call).copies if copy.source_space == source_space}
    under_way, found = 0, []
    for use in _in_order(call):
        if use.kind == kind and (use.source if kind == "wait" else use.ref) in sources:
            found.append(under_way)
        if use.source in sources:
            under_way += {"start": 1, "wait": -1}.get(use.kind, 0)
    return found


def _in_order(call: grid.Call) -> list[grid.Use]:
    """Return each use of memory as often as it happens, in time order."""
    uses = [(step, place, use) for place, use in enumerate(grid.memory_uses(call)) for step in use.steps.tolist()]
    return [use for *_, use in sorted(uses, key=lambda found: found[:2])]


def _copies(count: int) -> str:
    return "one copy is" if count == 1 else f"{count} copies are"
