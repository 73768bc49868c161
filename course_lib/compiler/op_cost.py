"""The cost of an operation in a kernel next to others of its kind, in cycles and slots, by the compiler's simulator.

A kernel applies the operation n times, each time to its own arrays in VMEM, and copies one of the results out. Which
one is known only at run time, so no application can be optimized away. The cost is the slope between two such kernels,
one with twice as many applications. n grows until the slope settles, because a few applications can hide behind the
kernel's fixed cost.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, grid, text
from course_lib.compiler.report import Report
from course_lib.compiler.tpu import compile_tpu, name_of

_REGISTERS = 32  # the least that the smallest kernel works on
_FEWEST = 4  # applications in it
_MOST = 6  # kernels: the largest has 32 times as many
_MOST_BYTES = 12 << 20  # of their arrays: what fits into 16 MiB of VMEM
_LANES = 128
_SAME = 0.02  # the relative difference below which slopes are taken to be equal


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpCost:
    """The cost of one application. ``slots``: unit -> instructions. If ``why`` is set, figures are 0 or empty."""

    name: str
    chip: str
    cycles: float = 0.0  # predicted, among others of its kind; one application alone takes longer
    slots: dict[str, float] = dataclasses.field(default_factory=dict)
    spills: float = 0.0
    registers: int = 0  # vector registers that hold the first operand
    why: str = ""  # the compiler's reason for refusing the operation
    versions: str = ""

    @property
    def of_a_register(self) -> float:
        """Cycles per register of the first operand."""
        return self.cycles / self.registers if self.registers else 0.0

    def __str__(self) -> str:
        if self.why:
            return text.folded(f"{self.name} on a {self.chip}: {self.why}")
        slots = ", ".join(f"{count:.3g} {unit}" for unit, count in self.slots.items())
        return text.folded(
            f"{self.name} on a {self.chip}: {self.cycles:.3g} cycles, predicted (compiler), for "
            f"{text.counted(self.registers, 'register')}; {slots}"
        )


def op_cost(fn: Callable, *args: jax.ShapeDtypeStruct, chip: str = "v5e") -> OpCost:
    """Return the cost of ``fn(*args)`` inside a kernel, on arrays in VMEM.

    ``args`` are shapes of at least two axes; ``fn`` returns one array of at least two. The cost includes a load of each
    operand and a store of the result. If the compiler refuses the operation, the result has no cost but the reason.
    Raises ValueError for an unknown chip, for arguments that make no kernel, and for those so small that other work
    of the kernel hides the operation; Unavailable if libtpu is missing.
    """
    chips.chip(chip)
    result = jax.eval_shape(fn, *args)
    if not args or any(len(a.shape) < 2 for a in (*args, result)):
        shapes = [a.shape for a in (*args, result)]
        raise ValueError(f"op_cost: arrays in VMEM need at least two axes, but these are {shapes}. Try (8, 128).")
    registers = grid.registers(args[0].shape, args[0].dtype)
    n, reports = max(_FEWEST, math.ceil(_REGISTERS / registers)), []
    each = sum(map(_bytes, (*args, result)))
    while not _settled([report.cycles for report in reports]) and (
        len(reports) < 2 or n * each << len(reports) <= _MOST_BYTES
    ):
        report = compile_tpu(functools.partial(_kernel, fn, args, result, n << len(reports)), _WHICH, chip=chip)
        facts = {"name": name_of(fn), "chip": chip, "registers": registers, "versions": report.versions}
        if report.cycles is None:
            return OpCost(**facts, why=report.error.what if report.error else "; ".join(report.notes))
        reports.append(report)
    (smaller, larger), more = reports[-2:], n << len(reports) - 2
    cost = OpCost(
        **facts,
        cycles=(larger.cycles - smaller.cycles) / more,
        slots=slope(smaller, larger, more),
        spills=(larger.spills - smaller.spills) / more,
    )
    stores = cost.slots.get("store", 0) / chips.chip(chip).slots["store"]
    if cost.cycles < (1 - _SAME) * stores:
        raise ValueError(
            f"op_cost: {name_of(fn)} of {', '.join(str(a.shape) for a in args)} has no price. {2 * more:,} of them "
            f"differ from {more:,} by {cost.cycles:.3g} cycles each, but the stores of one alone take {stores:.3g}: "
            f"other work of the kernel hides them. Try whole registers, {(8, _LANES)} or {(64, _LANES)}."
        )
    return cost


def _settled(cycles: list[int]) -> bool:
    """Whether the last doubling took as many cycles per application as the one before, or there have been enough."""
    if len(cycles) < 3:
        return False
    before, last = cycles[-2] - cycles[-3], (cycles[-1] - cycles[-2]) / 2
    return len(cycles) == _MOST or (last > 0 and abs(last - before) <= _SAME * last)


def _bytes(array: jax.ShapeDtypeStruct) -> int:
    return grid.stored_bytes(array.shape, array.dtype)


_WHICH = jax.ShapeDtypeStruct((1,), jnp.int32)


def _kernel(fn: Callable, args: tuple, result: jax.ShapeDtypeStruct, n: int, which: jax.Array) -> jax.Array:
    """Apply ``fn`` n times, each time to its own arrays, and copy out result number ``which[0]`` in whole lanes."""
    lanes = result.shape[-1]
    whole = jax.ShapeDtypeStruct((*result.shape[:-1], -(-lanes // _LANES) * _LANES), result.dtype)

    def kernel(which_ref, o_hbm, *refs):
        *operands, results, semaphore = refs
        for number in range(n):
            results[number, ..., :lanes] = fn(*(operand[number] for operand in operands))
        copy = pltpu.make_async_copy(results.at[which_ref[0]], o_hbm, semaphore)
        copy.start()
        copy.wait()

    return in_vmem(kernel, (*args, whole), n)(which)


def in_vmem(kernel: Callable, arrays: tuple[jax.ShapeDtypeStruct, ...], n: int) -> Callable:
    """Return a call with ``n`` of each array in VMEM, whose kernel copies out one of the last.

    Its number is in SMEM and known only at run time, so none of them can be optimized away.
    """
    return pl.pallas_call(
        kernel,
        out_shape=arrays[-1],
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            *(pltpu.VMEM((n, *array.shape), array.dtype) for array in arrays),
            pltpu.SemaphoreType.DMA,
        ],
    )


def slope(smaller: Report, larger: Report, times: int) -> dict[str, float]:
    """Return {unit: operations} that the larger program has beyond the smaller one, divided by ``times``."""
    counts = []
    for report in (smaller, larger):
        counts.append(collections.Counter())
        for bundle in report.listing:
            counts[-1].update(bundle.slots)
    return {unit: more / times for unit in counts[1] if (more := counts[1][unit] - counts[0][unit]) > 0}
