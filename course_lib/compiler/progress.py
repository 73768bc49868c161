"""A progress line for work that takes more than two seconds, in a terminal or a notebook; it disappears at the end."""

import contextlib
import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from course_lib import environment

AFTER_S = 2.0
_EVERY_S = 1.0
_showing = threading.Lock()


@contextlib.contextmanager
def shown(what: str) -> Iterator[Callable[[str], None]]:
    """Show ``what`` and the seconds so far while the context is open; yield a function that changes the text.

    COURSE_PROGRESS=0 in the environment turns it off: notebooks are built that way, so that outputs do not depend on
    time.
    """
    write = None if _showing.locked() else _writer()  # nested work shows nothing of its own
    if write is None:
        yield lambda text: None
        return
    said, over, began = [what], threading.Event(), time.monotonic()

    def tick() -> None:
        if over.wait(AFTER_S):
            return
        while True:
            write(f"{said[0]} … {time.monotonic() - began:.0f} s")
            if over.wait(_EVERY_S):
                write("")
                return

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        with _showing:
            yield lambda text: said.__setitem__(0, text)
    finally:
        over.set()
        thread.join()


def _writer() -> Callable[[str], None] | None:
    """Return a function that replaces the line shown before; None if nobody watches."""
    if os.environ.get("COURSE_PROGRESS") == "0" or environment.under_nbval():
        return None
    if environment.in_a_notebook():
        return _notebook_line()
    return _terminal_line if sys.stderr.isatty() else None


def _notebook_line() -> Callable[[str], None]:
    from IPython.display import display

    handles = []

    def write(text: str) -> None:
        bundle = {"text/plain": text, "text/html": f"<small>{html.escape(text)}</small>" if text else ""}
        if handles:
            handles[0].update(bundle, raw=True)
        else:
            handles.append(display(bundle, raw=True, display_id=True))

    return write


def _terminal_line(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
