"""JAX where its public names do not suffice: what differs between 0.11.2 and 0.12, one bug, and private settings."""

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from unittest import mock

import jax
from jax._src import config as _config
from jax._src import core as _core
from jax._src import dispatch as _dispatch
from jax._src import pjit as _pjit
from jax._src import source_info_util as _source_info
from jax._src import tpu_info as _tpu_info
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.pallas import pallas_call as _pallas_call
from jax._src.pallas.mosaic import sc_primitives as _sparse_core
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpret
from jax._src.pallas.mosaic.interpret import utils as _interpret_utils
from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call as _interpret_gpu
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

_OURS = re.compile(r"[/\\\\]course_lib[/\\\\]")
_INTERPRET_FIELDS = {field.name for field in dataclasses.fields(pltpu.InterpretParams)}


def interpret_params(**fields) -> pltpu.InterpretParams:
    """Return ``pltpu.InterpretParams`` with the fields that this JAX version knows, and drop the others.

    JAX 0.12 raises on a race unless it is told to warn. As in 0.11, it goes on here, and ``races_found`` tells.
    """
    known = {name: value for name, value in ({"on_race": "warn"} | fields).items() if name in _INTERPRET_FIELDS}
    return pltpu.InterpretParams(**known)


def interpret_mode():
    """Return the mode that ``pltpu.set_tpu_interpret_mode`` or ``force_tpu_interpret_mode`` has set; None if neither.

    A kernel that is traced now gets it, but one in a jaxpr keeps the mode it was traced in.
    """
    return _config.pallas_tpu_interpret_mode_context_manager.value


def races_found() -> bool:
    """Whether the last kernel simulated with ``detect_races=True`` had a race."""
    return bool(_interpret.races is not None and _interpret.races.races_found)


@contextlib.contextmanager
def races_printed() -> Iterator[None]:
    """Print what JAX 0.12 logs about a race, as 0.11 does."""

    def printed(record: logging.LogRecord) -> bool:
        if is_race := record.getMessage().startswith("RACE DETECTED"):
            print(record.getMessage())
        return not is_race

    loggers = [logging.getLogger(name) for name in (None, "jax._src.pallas.mosaic.interpret.race_detection_state")]
    for logger in loggers:
        logger.addFilter(printed)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(printed)


@contextlib.contextmanager
def simulator_watched(watchers: dict[str, Callable]) -> Iterator[None]:
    """Call ``watchers[name]`` before each call of the simulator's function ``name``, with the arguments by name.

    All that a kernel does there passes through a few functions, whose names are not public. What the watcher returns,
    unless it is None, is called afterwards with the function's result. Raises RuntimeError if this JAX has no function
    of such a name.
    """
    if missing := [name for name in watchers if not hasattr(_interpret, name)]:
        raise RuntimeError(f"JAX {jax.__version__} has no {missing[0]} in its simulator: kernels cannot be recorded.")

    def watching(name: str) -> Callable:
        original = getattr(_interpret, name)
        signature = inspect.signature(original)

        @functools.wraps(original)
        def watched(*args, **kwargs):
            after = watchers[name](signature.bind(*args, **kwargs).arguments)
            result = original(*args, **kwargs)
            if after is not None:
                after(result)
            return result

        return watched

    with mock.patch.multiple(_interpret, **{name: watching(name) for name in watchers}):
        yield


def memory_space(number) -> str:
    """Return the name of a memory space that the simulator passes as a number: "vmem", "any" ..."""
    return _interpret.TPU_MEMORY_SPACE_NAMES[int(number)]


def part_of(transforms) -> tuple:
    """Return the part of a buffer that the simulator's transforms select: an int or a slice for each axis."""
    found = _interpret_utils.to_range(jax.tree.map(int, transforms))
    return tuple(r if isinstance(r, int) else slice(int(r.start), int(r.stop)) for r in found)


def sparse_core_primitive(eqn) -> str:
    """Return "sc.scatter", "sc.barrier" ... for an operation that only SparseCores have; "" for any other.

    Their own names do not tell them from others: JAX has another primitive that is called "gather".
    """
    return _sparse_core_names().get(eqn.primitive, "")


@functools.cache
def _sparse_core_names() -> dict:
    primitives = {name: value for name, value in vars(_sparse_core).items() if isinstance(value, _core.Primitive)}
    return {primitive: f"sc.{name.removesuffix('_p')}" for name, primitive in primitives.items()}


@contextlib.contextmanager
def push_streams_unwarned() -> Iterator[None]:
    """Lower a kernel on SparseCores without the warning of JAX 0.12 for each copy out of a subcore's memory.

    It says that the semaphore is ignored there. JAX's own ``pltpu.sync_copy`` passes one, so nobody can heed it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Destination semaphore is ignored for push streams", UserWarning)
        yield


def forget_failed_effects() -> None:
    """Drop the tokens of a simulation that raised, or the next one would raise the same."""
    _dispatch.runtime_tokens.clear()


def interpret_gpu_params(**fields) -> plgpu.InterpretGPUParams:
    """Return ``plgpu.InterpretGPUParams`` with the fields that this JAX version knows, and drop the others."""
    known = {field.name for field in dataclasses.fields(plgpu.InterpretGPUParams)}
    return plgpu.InterpretGPUParams(**{name: value for name, value in fields.items() if name in known})


def gpu_races_found() -> bool:
    """Whether the last simulated GPU kernel had a race."""
    return bool(_interpret_gpu.get_races().races_found)


def reset_gpu_interpreter() -> None:
    """Reset the GPU interpreter after a simulated kernel raised, so that the next one does not inherit its barriers."""
    _interpret_gpu.gpu_callbacks.reset_gpu_interpret_mode_state()


def line_of(eqn) -> str:
    """Return "line 3 of kernel" for the line of the caller's code that an equation was traced from; "" if unknown."""
    return line_at(eqn.source_info)


def line_at(source_info) -> str:
    """Return the same for a source info of JAX's own; None has no line."""
    for frame in _source_info.user_frames(source_info.traceback) if source_info is not None else ():
        if not _OURS.search(frame.file_name):
            return f"line {frame.start_line} of {frame.function_name.rpartition('.')[2]}"
    return ""


def place_of(eqn) -> tuple[str, int] | None:
    """Return the file and the line that JAX names as the source of an equation; None if it knows none."""
    source = eqn.source_info
    frame = next(iter(_source_info.user_frames(source.traceback)), None) if source is not None else None
    return None if frame is None else (frame.file_name, frame.start_line)


def trace_kernels_anew() -> None:
    """Make JAX 0.11 trace a kernel on every call; leave 0.12 and later alone.

    JAX 0.11.2 caches a kernel's trace by the function and its block shapes. If the kernel asks ``pl.num_programs`` and
    is called again with another grid, it gets the first grid's answer and silently computes something else.
    """
    if jax.__version_info__ >= (0, 12) or hasattr(_pallas_call._trace_kernel_to_jaxpr, "__wrapped__"):
        return
    keeps_traces = _pallas_call._trace_kernel_to_jaxpr

    @functools.wraps(keeps_traces)
    def traces_anew(fun, *args, **kwargs):
        if not callable(fun):  # course_lib.errors recognizes JAX's own message for this
            return keeps_traces(fun, *args, **kwargs)

        @functools.wraps(fun)
        def unknown(*refs, **named):
            return fun(*refs, **named)

        return keeps_traces(unknown, *args, **kwargs)

    _pallas_call._trace_kernel_to_jaxpr = traces_anew


def mesh_axes(sizes: dict[str, int]) -> contextlib.AbstractContextManager:
    """Let ``lax.axis_index`` and ``lax.axis_size`` know these axes, as inside a shard_map over them."""
    return _core.extend_axis_env_nd(list(sizes.items()))


@contextlib.contextmanager
def attached(device: jax.sharding.AbstractDevice) -> Iterator[None]:
    """Make Pallas take ``device`` for the attached TPU, even in a ``shard_map``, whose mesh hides abstract devices.

    Only in this thread: two threads that replaced JAX's functions in turn might put the wrong ones back.
    """
    _ask_for_attached()
    token = _attached.set(device)
    try:
        yield
    finally:
        _attached.reset(token)


_attached: contextvars.ContextVar = contextvars.ContextVar("attached", default=None)


@functools.cache
def _ask_for_attached() -> None:
    """Make JAX's functions for the TPU of this machine ask for the one of ``attached`` first."""
    for name, field in (("get_device_kind", "device_kind"), ("get_num_device_cores", "num_cores")):
        setattr(_tpu_info, name, functools.partial(_of_attached, field, getattr(_tpu_info, name)))


def _of_attached(field: str, own: Callable) -> object:
    device = _attached.get()
    return own() if device is None else getattr(device, field)


@contextlib.contextmanager
def compiler_options_ignored() -> Iterator[None]:
    """Trace a ``jax.jit`` with ``compiler_options`` as one without, which JAX allows only outside of any trace."""
    rules = _partial_eval.custom_staging_rules
    rule = rules[_pjit.jit_p]

    def staged(trace, source_info, *args, **params):
        return rule(trace, source_info, *args, **params | {"compiler_options_kvs": ()})

    with mock.patch.dict(rules, {_pjit.jit_p: staged}):
        yield
