"""The end of compile children that nobody asks any more: with ten notebooks open they would hold 16 GB.

This is no part of ``service`` because that file keys the results that ship with the course (``cache``).
"""

import threading
import time

from course_lib.compiler.child import service

LIMIT_S = 300.0

_last_asked = 0.0
_watcher: threading.Thread | None = None


def asked() -> None:
    """Note that a child has just been asked or started. LIMIT_S after the last such note the children end."""
    global _last_asked, _watcher
    _last_asked = time.monotonic()
    if _watcher is None or not _watcher.is_alive():
        _watcher = threading.Thread(target=_wait_and_end, daemon=True)
        _watcher.start()


def _wait_and_end() -> None:
    while (left := _last_asked + LIMIT_S - time.monotonic()) > 0:
        time.sleep(left)
    for worker in list(service._workers.values()):
        if worker.lock.acquire(blocking=False):  # one that is at work is noted again when it has answered
            try:
                worker.stop()
            finally:
                worker.lock.release()
