"""What scratch holds after a grid step, compared with what it should hold, once a kernel's output is wrong.

An output block in which a kernel accumulates may be probed too.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.extend.core
import numpy as np
from jax.experimental import pallas as pl
from jax.extend import linear_util
from jax.interpreters import partial_eval

from course_lib import grid
from course_lib.compiler.simulating import rewrite
from course_lib.judges.reading import memory
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding, show

_NEAR = 0.01  # of the largest expected number: a smaller error is rounding, which others report


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """What a scratch ref must hold after a grid step.

    ``scratch``: its name; in a kernel without that name, ``place`` counts its numeric scratch refs from 0. It may also
    name an output that this step writes whole. A kernel without it, or with another grid than ``grid``, is not asked.
    ``expect`` takes the arguments and returns the value, in the scratch's dtype and in its shape or one that broadcasts
    to it; None for arguments that it cannot handle. The sentence reads "After step (0, 1) l_ref[0, 0] is 61.2; it
    should be 60.8, ``means``.", and ``next`` is one thing to try.
    """

    scratch: str
    after: tuple[int, ...]
    expect: Callable
    means: str
    next: str
    place: int | None = None
    grid: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.grid is not None and not _is_step(self.after, self.grid):
            raise ValueError(f"after is {self.after}, which is not a step of the grid {self.grid}.")


def first_wrong(found: Finding) -> Complaint | None:
    """Report the first probe, in the order of the grid's steps, that finds something else than expected."""
    if found.run is None:  # the steps did not run in order
        return None
    asked = sorted(found.probes, key=lambda probe: probe.after)
    try:
        values = _values(found, asked)
    except Exception:  # a kernel that cannot run so
        return None
    for probe, (name, got) in zip(asked, values, strict=True):
        if got is not None and (said := _compared(probe, name, got, found.args)):
            return said
    return None


def _compared(probe: Probe, name: str, got: np.ndarray, args: tuple) -> Complaint | None:
    expected = probe.expect(*args)
    if expected is None or (want := np.asarray(expected)).dtype != got.dtype:
        return None
    if tuple(n for n in want.shape if n > 1) == tuple(n for n in got.shape if n > 1):
        want = want.reshape(got.shape)
    try:
        want = np.broadcast_to(want, got.shape)
    except ValueError:  # the learner uses another shape
        return None
    room = _NEAR * np.abs(want[np.isfinite(want)], dtype=np.float64).max(initial=1e-30)
    with np.errstate(invalid="ignore"):
        right = (np.abs(got.astype(np.float64) - want) <= room) | (got == want)
    if right.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~right)[0])
    element = f"{name}[{', '.join(map(str, at))}]" if at else name
    return Complaint(
        f"After step {probe.after} {element} is {show(got[at])}; it should be {show(want[at])}, {probe.means}.",
        probe.next,
    )


def _values(found: Finding, asked: list[Probe]) -> list[tuple[str, np.ndarray | None]]:
    """Return (the ref's name in the kernel, its value) for each probe; None for what this kernel does not have."""
    if len(found.walk.calls) != 1:
        return [("", None)] * len(asked)
    (call,) = found.walk.calls
    places = [_place(call, probe) for probe in asked]
    wanted = {(probe.after, place) for probe, place in zip(asked, places, strict=True) if place is not None}
    if not wanted:
        return [("", None)] * len(asked)
    seen: dict[tuple, np.ndarray] = {}
    grid.run(rewrite.kernels(found.walk.jaxpr, lambda _, eqn: _told(eqn, wanted, seen)), True, *found.args)
    jax.effects_barrier()
    names = [*call.operands, *call.scratch]
    return [
        ("", None) if place is None else (names[place].name, seen.get((probe.after, place)))
        for probe, place in zip(asked, places, strict=True)
    ]


def _place(call: grid.Call, probe: Probe) -> int | None:
    """Return the index of the ref that a probe asks about; None if there is none, or if the grid is another."""
    if not _is_step(probe.after, call.grid) or probe.grid not in (None, call.grid):
        return None
    numbers = [n for n, ref in enumerate(call.scratch) if ref.memory_space != "semaphore"]
    named = [n for n in numbers if call.scratch[n].name == probe.scratch]
    if not named and probe.place is not None:
        named = numbers[probe.place : probe.place + 1]
    if named:
        return len(call.operands) + named[0]
    outputs = [n for n, ref in enumerate(call.operands) if ref.role == "output" and ref.name == probe.scratch]
    step = np.array([np.ravel_multi_index(probe.after, call.grid)])
    return outputs[0] if outputs and memory.writes(call, probe.scratch, step)[1] else None


def _is_step(step: tuple[int, ...], of: tuple[int, ...]) -> bool:
    return len(step) == len(of) and all(0 <= i < n for i, n in zip(step, of, strict=True))


def _told(eqn, wanted: set[tuple], seen: dict):
    """Make a kernel call that puts each (step, ref) of ``wanted`` into ``seen`` when it runs."""
    kernel, mapping = eqn.params["jaxpr"], eqn.params["grid_mapping"]
    as_it_was = jax.extend.core.jaxpr_as_fun(jax.extend.core.ClosedJaxpr(kernel, ()))
    refs_asked = sorted({place for _, place in wanted})

    def note(step, values) -> None:
        at = tuple(int(i) for i in step)
        seen.update({(at, n): np.asarray(v) for n, v in zip(refs_asked, values, strict=True) if (at, n) in wanted})

    def told(*refs):
        as_it_was(*refs)
        step = [pl.program_id(axis) for axis in range(len(mapping.grid))]
        jax.debug.callback(note, step, [refs[n][...] for n in refs_asked])
        return []

    traced = linear_util.wrap_init(told, debug_info=kernel.debug_info)
    with mapping.trace_env():
        body, _, _ = partial_eval.trace_to_jaxpr_dynamic(traced, [v.aval for v in kernel.invars])
    return eqn.replace(params=eqn.params | {"jaxpr": body})
