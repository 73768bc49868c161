"""Verdicts that were given before: what says the same to the same questions is the same answer, and judged once.

A judge asks the box for programs and values, and what it asks next depends on nothing but what it was told. So a
verdict is remembered by the exercise and all that the box said, byte for byte; the box is asked the same all the same.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable


class Verdicts:
    """What was asked and said so far, for all judges of a class. The inputs are the same for all of it."""

    def __init__(self) -> None:
        self._next: dict[bytes, bytes | list] = {}  # what was said so far -> the next question, or the verdict
        self._lock = threading.Lock()
        self.given, self.remembered = 0, 0

    def of(self, id: str, ask: Callable[[bytes], bytes], judged: Callable[[Callable], list]) -> list:
        """The verdict on what ``ask`` reaches: remembered, or of ``judged(ask)``, which puts the questions."""
        heard: list[tuple[bytes, bytes]] = []
        so_far = _hash(b"", id.encode())
        while isinstance(question := self._next.get(so_far), bytes):
            heard.append((question, ask(question)))
            so_far = _hash(so_far, heard[-1][1])
        if question is not None:
            self.remembered += 1
            return question
        so_far, again = _hash(b"", id.encode()), iter(heard)

        def asking(question: bytes) -> bytes:
            nonlocal so_far
            known = next(again, None)
            answer = known[1] if known is not None and known[0] == question else ask(question)
            with self._lock:
                self._next[so_far] = question
            so_far = _hash(so_far, answer)
            return answer

        verdict = judged(asking)
        self.given += 1
        if "gave no answer" not in verdict[0]:  # of a machine that was too busy
            with self._lock:
                self._next[so_far] = verdict
        return verdict


def _hash(so_far: bytes, more: bytes) -> bytes:
    return hashlib.sha256(so_far + len(more).to_bytes(8) + more).digest()
