"""What every device does in one simulated run of a function that talks to other devices, in the device's own order.

JAX's simulator runs a ``shard_map`` on as many CPU devices, one thread each. Which thread is ahead of which differs
from run to run, but what one device does, and in which order, does not. That is the record; ``order`` says what must
happen before what in every run.
"""

import collections
import contextlib
import dataclasses
import io
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AxisType

from course_lib import chips, compat
from course_lib.grid import jaxprs
from course_lib.judges.running.interpreted import quiet
from course_lib.judges.running.watchdog import watched


class Buffer(NamedTuple):
    """A buffer of one device, by the simulator's number."""

    space: str  # "any" (HBM), "vmem" ...
    number: int
    device: int


class Semaphore(NamedTuple):
    """A semaphore of one device, by the simulator's number."""

    number: int
    device: int


@dataclasses.dataclass(kw_only=True, eq=False)
class Event:
    """One thing that a device does. ``kind``: "enter", "leave", "start", "wait", "signal", "read" or "write"."""

    device: int
    kind: str
    line: str = ""  # "line 12 of kernel"
    buffer: Buffer | None = None  # that is read or written; of a copy the source
    part: tuple = ()  # of it: an int or a slice for each axis
    target: Buffer | None = None  # of a copy
    target_part: tuple = ()
    semaphore: Semaphore | None = None  # that is waited for or signalled; of a copy the one where it arrives
    send_semaphore: Semaphore | None = None  # of a copy to another device
    amount: int = 0  # of a wait or a signal: units, or bytes of copies; of a copy: bytes; of a read or write: elements
    ended: bool = False  # of a wait
    in_kernel: bool = False  # of a read or write: whether the kernel's body makes it, and not the pipeline around it


@dataclasses.dataclass(kw_only=True, eq=False)
class Record:
    """One run: the events of each device, the names of refs, and what came of it."""

    events: list[list[Event]]
    names: dict  # ("vmem", 101) -> "x_buf", 2003 -> "recv_sem[1]"
    has_barrier_of_its_own: bool = False  # else the compiler lets all devices enter before any goes on
    result: object = None
    error: Exception | None = None

    def named(self, buffer: Buffer, part: tuple = ()) -> str:
        """Return "o_ref[3, 0:16] of device 0"."""
        where = ", ".join(str(p) if isinstance(p, int) else f"{p.start}:{p.stop}" for p in part)
        name = self.names.get(buffer[:2], "a buffer")
        return f"{name}[{where}] of device {buffer.device}" if where else f"{name} of device {buffer.device}"

    def semaphore_named(self, semaphore: Semaphore) -> str:
        """Return "recv_sem[1] of device 0"."""
        return f"{self.names.get(semaphore.number, 'a semaphore')} of device {semaphore.device}"

    def waiting(self) -> list[Event]:
        """Return the waits that did not end."""
        return [e for events in self.events for e in events if e.kind == "wait" and not e.ended]


def recorded(
    fn: Callable, args: tuple, mesh: Sequence[int], axes: Sequence[str], chip: chips.Chip, mode: str
) -> Record:
    """Run ``fn(*args)``, which calls shard_map once without ``mesh=``, on CPU devices, and return what each does.

    ``chip``: what Pallas takes the devices for when it asks for their tiles, as ``pltpu.emit_pipeline`` does.
    ``mode``: whether a copy is made when it is waited for ("on_wait") or when it is started ("eager").
    """
    devices = math.prod(mesh)
    auto = (AxisType.Auto,) * len(axes)
    on_cpus = jax.make_mesh(tuple(mesh), tuple(axes), auto, devices=jax.devices("cpu")[:devices])
    device = AbstractDevice(device_kind=chip.device_kind, num_cores=1, platform="tpu")
    with jax.set_mesh(on_cpus), compat.attached(device):
        return _record(fn, args, devices, dma_execution_mode=mode)


def _record(fn: Callable, args: tuple, devices: int, **params) -> Record:
    """Run ``jit(fn)(*args)``, a shard_map over so many CPU devices, in the simulator, and return what each device does.

    ``params``: of ``pltpu.InterpretParams``. The mesh is that of the caller's context. What the run raises is in the
    Record. Raises what tracing raises, and RuntimeError if JAX's simulator has changed so that it cannot be recorded.
    """
    kernels = list(jaxprs.pallas_calls(jax.make_jaxpr(fn)(*args)))
    if any(map(_has_a_barrier_without_id, kernels)):  # the simulator would stop at a None without saying so
        raise ValueError("collective_id has to be specified when using a custom barrier")
    seen = Record(events=[[Event(device=d, kind="enter")] for d in range(devices)], names={})
    allocated: dict = collections.defaultdict(list)
    with (
        quiet(io.StringIO()),
        watched(),
        pltpu.force_tpu_interpret_mode(compat.interpret_params(**params)),
        compat.simulator_watched(_watchers(seen, allocated)),
    ):
        try:
            seen.result = jax.block_until_ready(jax.jit(lambda *a: fn(*a))(*args))
        except Exception as error:
            seen.error = error
        finally:
            pltpu.reset_tpu_interpret_mode_state()
            if seen.error is not None:
                compat.forget_failed_effects()
    if len(kernels) == 1:
        seen.names = _names(kernels[0], allocated["buffers"], allocated["semaphores"])
    given = [params for kernel in kernels if (params := kernel.params["compiler_params"]) is not None]
    seen.has_barrier_of_its_own = any(p.collective_id is not None or p.skip_device_barrier for p in given)
    return seen


def _has_a_barrier_without_id(kernel) -> bool:
    named = getattr(kernel.params["compiler_params"], "collective_id", None) is not None
    uses = (eqn.primitive.name == "get_barrier_semaphore" for eqn in jaxprs.equations(kernel.params["jaxpr"]))
    return not named and any(uses)


def _watchers(seen: Record, allocated: dict) -> dict[str, Callable]:
    """Return what notes each callback of the simulator in ``seen``, and in ``allocated`` what device 0 allocates."""
    sizes: dict[tuple, tuple] = {}  # (space, number) -> shape, bytes of an element

    def note(**fields) -> Event:
        event = Event(**fields)
        seen.events[event.device].append(event)
        return event

    def buffer(a: dict, space: str, number: str, device: int) -> Buffer:
        return Buffer(compat.memory_space(a[space]), int(a[number]), device)

    def access(kind: str) -> Callable:
        def watch(a: dict) -> None:
            device = int(a["device_id"])
            where = buffer(a, "memory_space", "buffer_id", device)
            part, line = compat.part_of(a["transforms"]), compat.line_at(a.get("source_info"))
            shape, _ = sizes[where[:2]]
            inside = a.get("source_info") is not None  # JAX gives none for the copies of blocks around a kernel
            amount = _elements(part, shape)
            note(device=device, kind=kind, line=line, buffer=where, part=part, amount=amount, in_kernel=inside)

        return watch

    def start(a: dict) -> None:
        device = int(a["device_id"])
        to = device if a["dst_device_id"] is None else int(a["dst_device_id"])
        source, target = buffer(a, "src_memory_space", "src_id", device), buffer(a, "dst_memory_space", "dst_id", to)
        part = compat.part_of(a["src_transforms"])
        shape, itemsize = sizes[source[:2]]
        note(
            device=device,
            kind="start",
            line=compat.line_at(a.get("source_info")),
            buffer=source,
            part=part,
            target=target,
            target_part=compat.part_of(a["dst_transforms"]),
            semaphore=Semaphore(int(a["dst_sem_id"]), to),
            send_semaphore=None if a["src_sem_id"] is None else Semaphore(int(a["src_sem_id"]), device),
            amount=_elements(part, shape) * itemsize,
        )

    def wait(amount: str) -> Callable:
        def watch(a: dict) -> Callable:
            device, line = int(a["device_id"]), compat.line_at(a.get("source_info"))
            semaphore = Semaphore(int(a["sem_id"]), device)
            event = note(device=device, kind="wait", line=line, semaphore=semaphore, amount=int(a[amount]))
            return lambda result: setattr(event, "ended", True)

        return watch

    def signal(a: dict) -> None:
        device, line = int(a["device_id"]), compat.line_at(a.get("source_info"))
        to = device if a["target_device_id"] is None else int(a["target_device_id"])
        note(device=device, kind="signal", line=line, semaphore=Semaphore(int(a["sem_id"]), to), amount=int(a["inc"]))

    def leave(a: dict) -> None:
        note(device=int(a["device_id"]), kind="leave")

    def allocate(a: dict) -> Callable:
        space, value, first = compat.memory_space(a["memory_space"]), np.asarray(a["val"]), not int(a["device_id"])

        def done(result) -> None:
            sizes[space, int(result[1])] = value.shape, value.dtype.itemsize
            if first:
                allocated["buffers"].append((space, int(result[1])))

        return done

    def allocate_semaphores(a: dict) -> Callable | None:
        if int(a["device_id"]):
            return None
        return lambda result: allocated["semaphores"].append(np.asarray(result[1]))

    return {
        "get": access("read"), "store": access("write"), "swap": access("write"), "dma_start": start,
        "dma_wait": wait("size"), "semaphore_wait": wait("value"), "semaphore_signal": signal, "_validate": leave,
        "_allocate_buffer": allocate, "_allocate_semaphores": allocate_semaphores,
    }  # fmt: skip


def _elements(part: tuple, shape: tuple) -> int:
    """Return how many elements a part of a buffer has; an axis that is not named is whole."""
    return math.prod(p.stop - p.start for p in part if isinstance(p, slice)) * math.prod(shape[len(part) :])


def _names(kernel, buffers: list, semaphores: list) -> dict:
    """Return the names of what a kernel is given, by what the simulator calls it.

    It allocates the arrays of the inputs and outputs, then the refs of the kernel one by one, those in HBM left out.
    """
    jaxpr, mapping = kernel.params["jaxpr"], kernel.params["grid_mapping"]
    given = range(mapping.num_index_operands, mapping.num_index_operands + mapping.num_inputs + mapping.num_outputs)
    refs = list(zip(jaxpr.debug_info.arg_names, jaxpr.invars, strict=False))
    names, numbers, arrays = {}, iter(semaphores), iter(buffers)
    for place in given:
        with contextlib.suppress(StopIteration):
            names[next(arrays)] = refs[place][0]
    for place, (name, var) in enumerate(refs):
        block = mapping.block_mappings[place - mapping.num_index_operands] if place in given else None
        where = (block.transformed_block_aval if block else var.aval).memory_space
        label = str(getattr(where, "value", where))
        with contextlib.suppress(StopIteration):
            if label.startswith("semaphore"):
                for index, number in np.ndenumerate(next(numbers)):
                    names[int(number)] = f"{name}[{', '.join(map(str, index))}]" if index else name
            elif label not in ("any", "hbm"):
                names[next(arrays)] = name
    names[getattr(kernel.params["compiler_params"], "collective_id", None)] = "the barrier semaphore"
    return names
