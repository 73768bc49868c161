"""The compilation of a function for a TPU that is not attached, by the real compiler, and the report about it."""

import contextlib
import functools
import importlib.metadata
import io
from collections.abc import Callable

import jax
import jax.extend.core
from jax._src.config import hlo_source_file_canonicalization_regex, traceback_in_locations_limit

from course_lib import chips, compat, grid
from course_lib.compiler import assemble, blame, progress
from course_lib.compiler.child import service
from course_lib.compiler.report import Report
from course_lib.compiler.simulating import answers, rewrite

_SPARSE_CORES = (
    "neither cycles nor bytes: the compiler's simulator does not run SparseCores. judges.sparse_core_traffic counts "
    "their bytes."
)
_FRAMES = 10  # JAX's own limit
_SESSION = r"^.*[/\\]ipykernel_\d+[/\\]"  # before the name of a cell's file; it differs in each notebook kernel


class Unavailable(RuntimeError):
    """There is no TPU compiler on this machine, or it does not start. The message says why and what to do."""


def program_of(ask: Callable[[], dict], refused: Callable[[object], str]) -> dict:
    """Return the answer of ``ask``, which has the compiler compile a function, if the function compiles.

    Raises ValueError if it does not, with the text that ``refused`` makes of the error; Unavailable if libtpu is not
    installed or does not start.
    """
    if libtpu_version() is None:
        raise Unavailable(missing_libtpu())
    try:
        answer = ask()
    except Exception as error:  # whatever tracing, lowering or the compiler's process raises
        raise ValueError(refused(error)) from error
    if answer["ok"]:
        return answer
    if answer["stage"] == "start":
        raise Unavailable(f"libtpu does not start on this machine: {answer['error']}")
    raise ValueError(refused(answer["error"]))


def compile_tpu(
    fn: Callable,
    *args,
    chip: str = "v5e",
    simulate: bool = True,
    time_limit_s: float | None = None,
    memory_bytes: int | None = None,
    traced: jax.extend.core.ClosedJaxpr | None = None,
) -> Report:
    """Compile ``jit(fn)(*args)`` for a TPU with none attached, and simulate its cycles.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s; only scalar prefetch needs the values. The compiler runs in a
    child process with a time and memory limit for each compile: if it crashes or hangs, the Report says so. The time
    limit counts the child's own processor time, so other work on a busy machine does not use it up. Without
    ``time_limit_s`` and ``memory_bytes`` the child may take 20 s and 2 GiB, and more for a long program that is
    simulated whole. A program that would take the simulator more than a minute or two is not simulated, unless both
    limits are given and leave room for it. After two seconds a progress line appears. Large grids are simulated for a
    few of their steps, and the Report says that too. A kernel on SparseCores is compiled, but has neither cycles nor
    bytes in its Report. A kernel that is refused gives ``ok=False`` and an explained
    ``error``, never an exception. ``traced``: the jaxpr of ``fn`` for these arguments and this chip, as ``grid.trace``
    returns it; with it, ``fn`` only gives the name. Raises ValueError for an unknown chip, and Unavailable if libtpu is
    not installed or does not start.
    """
    target = chips.chip(chip)
    facts = {"name": name_of(fn), "versions": versions()}
    refused = functools.partial(Report, chip=chip, ok=False, **facts)
    stage, jaxpr = "trace", None
    try:
        jaxpr = rewrite.numbered(grid.trace(fn, *args, chip=chip) if traced is None else traced)
        stage = "compile"
        module = _lowered(jaxpr, args, target)
    except Exception as error:  # the learner should see any error of tracing or lowering, explained
        return refused(error=blame.explained(error, jaxpr), stage=stage)
    if libtpu_version() is None:
        raise Unavailable(missing_libtpu())

    def lowered(part, of: tuple | None, frames: int = 0) -> bytes:
        if part is jaxpr and not frames:
            return module
        return lower(part, *(args if of is None else of), chip=target, frames=frames)

    on_sparse_cores = _on_sparse_cores(jaxpr)
    walk, doubts = _walk(jaxpr, args)
    limits = answers.Limits(seconds=time_limit_s, memory_bytes=memory_bytes)
    ask = answers.asking(target, lowered, limits)
    try:
        with progress.shown(f"compiling {facts['name']} for {chip}") as say:
            if simulate and not on_sparse_cores:
                answer, simulated, notes = answers.simulated(ask, jaxpr, args, walk, target, limits, say)
            else:
                answer, simulated, notes = answers.compile_only(ask, jaxpr)
    except service.WorkerDied as error:
        wanted = assemble.vmem_wanted(walk, jaxpr, target)
        return refused(error=blame.explained(error, jaxpr), stage="no answer", **wanted)
    if not answer["ok"] and answer["stage"] == "start":
        raise Unavailable(f"libtpu does not start on this machine: {answer['error']}")
    if not answer["ok"]:
        return refused(
            error=blame.explained(answer["error"], jaxpr), stage=stage, **assemble.vmem_wanted(walk, jaxpr, target)
        )
    if on_sparse_cores:  # what the compiler says about the ops around the kernel would pass for the whole
        known = {"hlo": answer["hlo"], "code_bytes": answer["code_bytes"], "notes": (_SPARSE_CORES,)}
        return Report(chip=chip, ok=True, **known, **facts)
    return assemble.report(walk, answer, simulated, target, jaxpr=jaxpr, notes=(*doubts, *notes), **facts)


def lower(jaxpr, *args, chip: chips.Chip, frames: int = 0) -> bytes:
    """Return the MLIR bytecode of a traced function, lowered for ``chip``. Needs no libtpu. Raises what Pallas raises.

    ``frames``: how many source locations, innermost first, each operation carries for error messages to quote. With 0,
    the same program gives the same bytes, wherever it was written and whichever process lowers it.
    """
    files = hlo_source_file_canonicalization_regex(_SESSION)
    unwarned = compat.push_streams_unwarned if _on_sparse_cores(jaxpr) else contextlib.nullcontext
    with chip.target(), traceback_in_locations_limit(frames), files, unwarned():
        lowered = jax.jit(functools.partial(grid.run, jaxpr, False)).trace(*args).lower(lowering_platforms=("tpu",))
    buffer = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(buffer)
    return buffer.getvalue()


def _on_sparse_cores(jaxpr) -> bool:
    return any(map(grid.runs_on_sparse_cores, grid.pallas_calls(jaxpr)))


def _lowered(jaxpr, args: tuple, chip: chips.Chip) -> bytes:
    """Lower without source locations; if that fails, lower again with them, for the error message."""
    with contextlib.suppress(Exception):
        return lower(jaxpr, *args, chip=chip)
    return lower(jaxpr, *args, chip=chip, frames=_FRAMES)


def libtpu_version() -> str | None:
    """Return the installed libtpu's version; None if it is missing (macOS, Arm: there is no build of it)."""
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return None


def missing_libtpu() -> str:
    """Say why the compiler cannot run here, and what to do."""
    return (
        "libtpu, which holds the TPU compiler, is not installed. It exists only for Linux on x86-64, where `make "
        "setup` installs it; elsewhere, use Colab for this judge."
    )


def versions() -> str:
    """Return the versions that a figure depends on."""
    return f"jax {jax.__version__}, libtpu {libtpu_version() or 'missing'}"


def name_of(fn: Callable) -> str:
    """Return the function's name; for a functools.partial, that of the function inside it."""
    return name_of(fn.func) if isinstance(fn, functools.partial) else getattr(fn, "__name__", type(fn).__name__)


def _walk(jaxpr, args: tuple) -> tuple[grid.Walk | None, tuple[str, ...]]:
    """Return the walk over the function's grids, or a note if they cannot be read."""
    try:
        walk = grid.walk_traced(jaxpr, args)
    except grid.UnreadableCall as error:
        return None, (f"HBM bytes not counted: {error}",)
    if len(walk.calls) != sum(1 for _ in grid.pallas_calls(jaxpr)):  # ours are numbered in that order
        return None, ("HBM bytes not counted: the kernels cannot be told apart.",)
    return walk, ()
