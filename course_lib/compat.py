"""What differs between the two JAX versions the course supports (0.11.2 and 0.12): names that moved, one mistake."""

import dataclasses
import functools

import jax
from jax._src.pallas import pallas_call as _pallas_call
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpret
from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call as _interpret_gpu
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

_INTERPRET_FIELDS = {field.name for field in dataclasses.fields(pltpu.InterpretParams)}


def interpret_params(**fields) -> pltpu.InterpretParams:
    """``pltpu.InterpretParams`` with the fields this JAX knows; the others are dropped.

    0.12 added ``on_race`` and raises on a race by default; 0.11 prints and sets a flag.
    """
    known = {name: value for name, value in fields.items() if name in _INTERPRET_FIELDS}
    return pltpu.InterpretParams(**known)


def races_found() -> bool:
    """Whether the last simulated kernel with ``detect_races=True`` had a race (JAX 0.11 only says it here)."""
    return bool(_interpret.races is not None and _interpret.races.races_found)


def interpret_gpu_params(**fields) -> plgpu.InterpretGPUParams:
    """``plgpu.InterpretGPUParams`` with the fields this JAX knows, as ``interpret_params``."""
    known = {field.name for field in dataclasses.fields(plgpu.InterpretGPUParams)}
    return plgpu.InterpretGPUParams(**{name: value for name, value in fields.items() if name in known})


def gpu_races_found() -> bool:
    """``races_found`` of the last simulated GPU kernel."""
    return bool(_interpret_gpu.get_races().races_found)


def reset_gpu_interpreter() -> None:
    """To be called after a simulated GPU kernel has raised: else the next one finds its barriers and buffers."""
    _interpret_gpu.gpu_callbacks.reset_gpu_interpret_mode_state()


def trace_kernels_anew() -> None:
    """Make JAX 0.11 trace a kernel for every call of it; 0.12 and later are left as they are.

    0.11.2 finds the trace of a kernel again by the function and the shapes of its blocks. Called with another grid, a
    kernel that asks ``pl.num_programs`` gets the answer of the first one, and silently computes something else.
    """
    if jax.__version_info__ >= (0, 12) or hasattr(_pallas_call._trace_kernel_to_jaxpr, "__wrapped__"):
        return
    keeps_traces = _pallas_call._trace_kernel_to_jaxpr

    @functools.wraps(keeps_traces)
    def traces_anew(fun, *args, **kwargs):
        if not callable(fun):  # JAX's own message about that is known to course_lib.errors
            return keeps_traces(fun, *args, **kwargs)

        @functools.wraps(fun)
        def unknown(*refs, **named):
            return fun(*refs, **named)

        return keeps_traces(unknown, *args, **kwargs)

    _pallas_call._trace_kernel_to_jaxpr = traces_anew
