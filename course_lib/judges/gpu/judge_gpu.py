"""Three judges of a kernel for a GPU: its values, its races, ptxas. No GPU is needed.

numbers   JAX's GPU simulator: threads, barriers, TMA, memory that starts as NaN, accesses past an array, a kernel that
          waits for ever
races     the same run, with vector clocks: whether two accesses to one place are ordered; and loops without a wait for
          wgmma, which the run does not show
compiler  ``compile_gpu``: refusals, register spills, and wgmma that ptxas serializes; copies of arrays that are
          narrower than a unit, which ptxas accepts and an H100 gets wrong

The simulator treats wgmma as synchronous, and models neither layouts nor swizzles. It is for Mosaic GPU. A
``pl.pallas_call``, which goes through Triton, runs in JAX's plain interpreter, and ``gpu_blocks`` reads its code.
"""

import dataclasses
import io
from collections.abc import Callable

import jax
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compat, compiler, errors, grid
from course_lib.judges.difference import difference, other_structure
from course_lib.judges.gpu import gpu_barriers, gpu_blocks, gpu_copies, gpu_races
from course_lib.judges.running.interpreted import Traced, quiet
from course_lib.judges.running.watchdog import watched
from course_lib.judges.slips.slip import Slip
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Complaint, Verdict, complained, refused

_SIMULATED = compat.interpret_gpu_params(detect_races=True)
_RACE = "RACE DETECTED"
_SPILLS = (
    "make the tile of a warpgroup smaller, or let two warpgroups share it; give the warpgroups that multiply more "
    "registers: plgpu.set_max_registers."
)
_SERIALIZED = "let only wgmma use the accumulator until wgmma_wait; if registers are short, make its tile smaller."


def judge_gpu(
    fn: Callable, reference: Callable, *args, chip: str = "h100", slips: tuple[Slip, ...] = ()
) -> list[Verdict]:
    """Return the verdicts of the three judges in order, up to and including the first that refuses.

    ``fn(*args)``, which calls ``plgpu.kernel`` or ``pl.pallas_call``, and ``reference(*args)`` return the same arrays;
    ``args`` are concrete arrays. ``chip``: one of ``chips.GPU_TARGETS``. ``slips``: what likely mistakes would return,
    for the verdict on wrong values. Raises ValueError for an argument that is not
    an array, a reference that does not run with them, and an unknown chip.
    """
    gpu, trial = chips.gpu_target(chip), Trial(fn, reference, args)
    try:
        jaxpr, result = _traced(trial, gpu, simulated=True)
        calls = {eqn.primitive.name for eqn in grid.pallas_calls(jaxpr.jaxpr)}
        if not calls:
            nothing = "The function contains no kernel: nothing calls plgpu.kernel or pl.pallas_call."
            return [complained("numbers", Complaint(nothing, "let plgpu.kernel run one on blocks of the arrays."))]
        if "pallas_call" in calls:
            jaxpr, result = _traced(trial, gpu, simulated=False)
            read = grid.walk_traced(jaxpr, trial.args, result)
            if beyond := gpu_blocks.without_a_mask(read):
                return [complained("numbers", beyond)]
            got, raced = Traced(jaxpr, result).run(True, trial.args), gpu_blocks.written_twice(read)
        elif dot := gpu_copies.by_dot(jaxpr):  # it never compiles, so no race in it is worth a word
            return [complained("compiler", dot)]
        else:
            got, printed = _simulated(jaxpr, trial.args, gpu)
            raced = gpu_races.complaint(printed, jaxpr) if printed is not None else gpu_copies.overwritten(jaxpr)
    except Exception as error:
        if _RACE in (said := errors.raw_text(error)):  # JAX 0.12 raises; 0.11 prints and continues
            return [complained("races", gpu_races.complaint(said, jaxpr))]
        why = errors.explain(error)
        if why.name == "gpu-barrier-overrun" and (overrun := gpu_barriers.overrun(jaxpr)):
            return [complained("numbers", overrun)]
        return [refused("numbers", why)]
    walk = grid.Walk(calls=(), jaxpr=jaxpr, result=result)
    wrong = other_structure(walk, trial.returned)
    wrong = wrong or difference(got, trial.wanted, walk, trial.reference, trial.args, slips=slips)
    if raced:  # a race may explain wrong values, so it goes first
        return [*([] if wrong else [Verdict(judge="numbers", passed=True)]), complained("races", raced)]
    if wrong:
        return [complained("numbers", wrong)]
    passed = [Verdict(judge=judge, passed=True) for judge in ("numbers", "races")]
    if "pallas_call" not in calls and (copied := gpu_copies.narrow(jaxpr)):
        return [*passed, complained("compiler", copied)]
    return [*passed, _compiled(fn, trial.args, chip)]


def _traced(trial: Trial, gpu: chips.GpuTarget, simulated: bool) -> tuple:
    mode = plgpu.force_gpu_interpret_mode(_SIMULATED) if simulated else pltpu.force_tpu_interpret_mode(False)
    with gpu.target(), mode:  # a fresh function object, or JAX would reuse the other mode's trace
        return jax.make_jaxpr(lambda *args: trial.fn(*args), return_shape=True)(*trial.args)


def _simulated(jaxpr, args: tuple, gpu: chips.GpuTarget) -> tuple[list[np.ndarray], str | None]:
    """Return the outputs, and what was printed about a race or None. Raises what the simulator raises."""
    printed, run = io.StringIO(), jax.jit(jax.extend.core.jaxpr_as_fun(jaxpr))
    with jax.default_device(jax.devices("cpu")[0]), quiet(printed), watched(), gpu.target():
        try:
            got = [np.asarray(a) for a in jax.block_until_ready(run(*jax.tree.leaves(args)))]
            return got, printed.getvalue() if compat.gpu_races_found() else None
        finally:
            compat.reset_gpu_interpreter()


def _compiled(fn: Callable, args: tuple, chip: str) -> Verdict:
    try:
        report = compiler.compile_gpu(fn, *args, chip=chip)
    except compiler.Unavailable as error:
        return Verdict(judge="compiler", passed=None, message=str(error))
    if not report.ok:
        return dataclasses.replace(refused("compiler", report.error), report=report)
    for kernel in report.kernels:
        if kernel.spill_stores or kernel.spill_loads:
            what = (
                f"{kernel.name} spills: a thread has {kernel.registers} registers, and stores the "
                f"{kernel.spill_stores:,} bytes that do not fit to memory."
            )
            return complained("compiler", Complaint(what, _SPILLS), report)
        if kernel.serialized:
            what = f"ptxas makes each wgmma of {kernel.name} wait for the previous one: {kernel.remarks[0]}"
            return complained("compiler", Complaint(what, _SERIALIZED), report)
    return Verdict(judge="compiler", passed=True, report=report)
