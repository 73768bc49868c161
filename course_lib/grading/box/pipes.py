"""Messages between processes: four bytes of length, then that many bytes, sent and received with a time limit.

Nothing here looks into a message. Its length is checked before any of it is kept.
"""

import os
import select
import struct
import threading
import time

from course_lib.grading.box.values import MAX_BYTES

_LENGTH = struct.Struct(">I")
_LOOK_S = 0.5  # seconds between checks of ``stopping``

stopping = threading.Event()  # when set, everyone who waits here gives up


class Lost(Exception):
    """The other process is gone; ``how`` is "time", "died", "flood" (the message is too long) or "stopped"."""

    def __init__(self, how: str):
        super().__init__(how)
        self.how = how


def blocking_send(fd: int, data: bytes) -> None:
    """Send a message and wait until it is read; for a process that only serves these messages."""
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


def blocking_receive(fd: int) -> bytes:
    """Return the next message; b"" at the end."""
    head = _exactly(fd, _LENGTH.size)
    return _exactly(fd, _LENGTH.unpack(head)[0]) if head else b""


def send(fd: int, data: bytes, deadline: float) -> None:
    """Send a message by ``deadline`` (of time.monotonic). The pipe does not block. Raise Lost."""
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        _wait(deadline, writing=fd)
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            continue
        except OSError:
            raise Lost("died") from None


def receive(fd: int, deadline: float) -> bytes:
    """Return the next message, received by ``deadline``. The pipe does not block. Raise Lost."""
    length = _LENGTH.unpack(_by(fd, _LENGTH.size, deadline))[0]
    if length > MAX_BYTES:
        raise Lost("flood")
    return _by(fd, length, deadline)


def _by(fd: int, count: int, deadline: float) -> bytes:
    found = bytearray()
    while len(found) < count:
        _wait(deadline, reading=fd)
        try:
            part = os.read(fd, min(1 << 20, count - len(found)))
        except BlockingIOError:
            continue
        except OSError:
            part = b""
        if not part:
            raise Lost("died")
        found += part
    return bytes(found)


def _wait(deadline: float, *, reading: int | None = None, writing: int | None = None) -> None:
    read, write = [reading] if reading is not None else [], [writing] if writing is not None else []
    while (left := deadline - time.monotonic()) > 0:
        if any(select.select(read, write, [], min(left, _LOOK_S))):
            return
        if stopping.is_set():
            raise Lost("stopped")
    raise Lost("time")


def _exactly(fd: int, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = os.read(fd, count - len(found))
        if not part:
            return b""
        found += part
    return bytes(found)
