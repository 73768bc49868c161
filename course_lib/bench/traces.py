"""Device times from a ``jax.profiler`` profile: what the chip's own clock recorded for each run of a program.

Every device has a plane in the profile. On a TPU ("/device:TPU:0") the line "XLA Modules" has one event for each run of
a program, named "jit_f(number)". On a GPU ("/device:GPU:0") the lines "Stream #n(...)" have one event for each kernel
and copy, and the stat "hlo_module" of an event names its program. (The names come from XLA's
``xla/tsl/profiler/utils/xplane_schema.cc``.) The CPU has no such plane, so its times are never mistaken for a device's.
"""

import re
import warnings
from collections.abc import Iterator

from jax.profiler import ProfileData


class NoDeviceTime(RuntimeError):
    """The profile does not say how long each run took on the device. The message says what is missing."""


def device_times(profile: ProfileData, program: str, runs: int) -> tuple[float, ...]:
    """Return the seconds on the device of each of ``runs`` runs of ``program`` ("jit_f"), in the order of time.

    Raises NoDeviceTime if the profile has no device plane, or not exactly one event per run (on a GPU: not the same
    number of kernels in each run).
    """
    planes = {plane.name: plane for plane in profile.planes if re.match(r"/device:(TPU|GPU):\d+", plane.name)}
    if not planes:
        raise NoDeviceTime("the profile has no plane of a TPU or a GPU")
    complaint = ""
    for name, plane in sorted(planes.items()):
        try:
            return _of_modules(plane, program, runs) if ":TPU:" in name else _of_streams(plane, program, runs)
        except NoDeviceTime as error:
            complaint = complaint or f"{name}: {error}"
    raise NoDeviceTime(complaint)


def _of_modules(plane, program: str, runs: int) -> tuple[float, ...]:
    events = sorted(
        (event.start_ns, event.duration_ns)
        for line in _lines(plane, "XLA Modules")
        for event in line.events
        if event.name.split("(")[0] == program
    )
    if len(events) != runs:
        raise NoDeviceTime(f"{len(events)} events of {program} in the line XLA Modules, for {runs} runs")
    return tuple(duration / 1e9 for _, duration in events)


def _of_streams(plane, program: str, runs: int) -> tuple[float, ...]:
    spans = sorted(
        (event.start_ns, event.start_ns + event.duration_ns)
        for line in _lines(plane, "Stream")
        for event in line.events
        if _module(event) == program
    )
    if not spans or len(spans) % runs:
        raise NoDeviceTime(f"{len(spans)} kernels of {program} in its streams, for {runs} runs")
    each = len(spans) // runs
    return tuple(_busy(spans[n : n + each]) / 1e9 for n in range(0, len(spans), each))


def _module(event) -> str:
    """Return the program an event belongs to; "" if the event does not say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # jaxlib's own; raised as an error it aborts Python
        return str(dict(event.stats).get("hlo_module", "")).split("(")[0]


def _lines(plane, begins: str) -> Iterator:
    return (line for line in plane.lines if line.name.startswith(begins))


def _busy(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of sorted spans, so that concurrent work counts once."""
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
