"""The compilation of a function for a GPU that is not attached, by the real compiler, and what ptxas says about it."""

import collections
import dataclasses
import functools
import io
import re
import warnings
from collections.abc import Callable

import jax
from jax._src.config import traceback_in_locations_limit
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, errors
from course_lib.compiler import blame, progress
from course_lib.compiler.child import gpu_service, service
from course_lib.compiler.dumps.ptxas import Program
from course_lib.compiler.gpu_kernel import GpuKernel
from course_lib.compiler.report import Report
from course_lib.compiler.tpu import Unavailable, name_of

_AGAIN = re.compile(r"__\d+$")  # XLA's suffix for a second kernel of the same name
_NOTHING_TIMED = "no time: ptxas counts no cycles, and there is no simulator of a GPU."


def compile_gpu(
    fn: Callable,
    *args,
    chip: str = "h100",
    time_limit_s: float | None = None,
    memory_bytes: int | None = None,
) -> Report:
    """Compile ``jit(fn)(*args)`` for a GPU with none attached: registers, spills, shared memory, instructions.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s; ``chip`` is one of ``chips.GPU_TARGETS``. A ``pl.pallas_call`` is
    compiled even where notebooks have it simulated as on a TPU. The compiler, with ptxas as its last stage, runs in its
    own child process with limits of time (120 s) and memory (6 GiB): if it crashes or hangs, the Report says so. A
    kernel that is refused gives ``ok=False`` and an explained ``error``, never an exception. Raises ValueError for an
    unknown chip, and Unavailable if the GPU compiler is not installed.
    """
    gpu = chips.gpu_target(chip)
    facts = {"name": name_of(fn), "chip": chip}
    refused = functools.partial(Report, ok=False, **facts)
    stage = "trace"
    try:
        compiled = pltpu.force_tpu_interpret_mode(False)
        with gpu.target(), compiled, traceback_in_locations_limit(0), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)  # a note says so
            # A fresh function object, or JAX would reuse the simulator's trace of this one.
            traced = jax.jit(functools.wraps(fn)(lambda *args: fn(*args))).trace(*args)
            stage = "compile"
            module = _bytecode(traced.lower(lowering_platforms=("cuda",)))
    except Exception as error:  # the learner should see any error of tracing or lowering, explained
        return refused(error=errors.explain(error), stage=stage)
    if (versions := gpu_service.versions()) is None:
        raise Unavailable(gpu_service.missing())
    limits = {
        "time_limit_s": time_limit_s or gpu_service.TIME_LIMIT_S,
        "memory_bytes": memory_bytes or gpu_service.MEMORY_BYTES,
    }
    try:
        with progress.shown(f"compiling {facts['name']} for {chip}"):
            answer = gpu_service.compile_module(gpu.config(), module, **limits)
    except service.WorkerDied as error:
        return refused(error=blame.explained(error, None), stage="no answer")
    if not answer["ok"] and answer["stage"] == "start":
        raise Unavailable(f"the GPU compiler does not start on this machine: {answer['error']}")
    if not answer["ok"]:
        return refused(error=errors.explain(answer["error"]), stage=stage)
    kernels = _numbered([_kernel(program, answer["hlo"]) for program in answer["programs"]])
    if too_large := [k for k in kernels if (k.shared_bytes or 0) > gpu.shared_bytes]:
        wants, may = too_large[0].shared_bytes, gpu.shared_bytes
        said = errors.explain(f"GPU kernel exceeds available shared memory: smem_bytes={wants} > max_smem_bytes={may}")
        return refused(error=said, stage=stage, kernels=kernels)
    return Report(
        ok=True,
        kernels=kernels,
        spills=sum(k.spill_stores for k in kernels) // 4,
        fills=sum(k.spill_loads for k in kernels) // 4,
        hlo=answer["hlo"],
        notes=(*_by_triton(answer["hlo"]), _NOTHING_TIMED),
        versions=f"jax {jax.__version__}, {versions}",
        **facts,
    )


def _by_triton(hlo: str) -> list[str]:
    """Return a note if a kernel took the Triton path, which JAX plans to remove."""
    if "__gpu$xla.gpu.triton" not in hlo:
        return []
    return ["pallas_call uses Triton here, which JAX has deprecated since 0.11; plgpu.kernel is its replacement."]


def _bytecode(lowered) -> bytes:
    buffer = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(buffer)
    return buffer.getvalue()


def _numbered(kernels: list[GpuKernel]) -> tuple[GpuKernel, ...]:
    """Number the second and later kernels of the same name."""
    seen: collections.Counter[str] = collections.Counter()
    named = []
    for kernel in kernels:
        seen[kernel.name] += 1
        count = seen[kernel.name]
        named.append(kernel if count == 1 else dataclasses.replace(kernel, name=f"{kernel.name} ({count})"))
    return tuple(named)


def _kernel(program: Program, hlo: str) -> GpuKernel:
    shared = None if program.dynamic_shared is None else program.static_shared + program.dynamic_shared
    by_triton = [name for name in (program.name, _AGAIN.sub("", program.name)) if f'name = "{name}"' in hlo]
    return GpuKernel(
        name=by_triton[0] if by_triton else program.name,
        kind="kernel" if program.mosaic or by_triton else "fusion",
        registers=program.registers,
        spill_stores=program.spill_stores,
        spill_loads=program.spill_loads,
        shared_bytes=shared,
        threads=program.threads,
        grid=program.grid,
        instructions=program.instructions,
        remarks=program.remarks,
        ptx=program.ptx,
    )
