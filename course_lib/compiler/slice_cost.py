"""The cost of loading a part of a Ref: cycles of one more such load, by the compiler's simulator.

A kernel loads the part from n arrays in VMEM and stores each of them; the slope between two such kernels contains
nothing else.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid
from course_lib.compiler.op_cost import OpCost, in_vmem, slope
from course_lib.compiler.tpu import compile_tpu, name_of

_COUNTS = (16, 32)  # parts that the two kernels load


def slice_cost(take: Callable, whole: jax.ShapeDtypeStruct, part: jax.ShapeDtypeStruct, *, chip: str = "v5e") -> OpCost:
    """Return the cost of ``take(ref, i)``, a load of ``part`` from a Ref of ``whole``, and of storing what was loaded.

    ``i`` is an integer known only at run time. If the compiler refuses the load, the result has no cost but the reason.
    Raises ValueError for an unknown chip; Unavailable if libtpu is missing.
    """
    place = jax.ShapeDtypeStruct((1,), jnp.int32)
    few, many = (compile_tpu(_kernel(take, whole, part, count), place, chip=chip) for count in _COUNTS)
    facts = {"name": name_of(take), "chip": chip, "versions": few.versions}
    registers = grid.registers(part.shape, part.dtype)
    if few.cycles is None or many.cycles is None:
        return OpCost(**facts, registers=registers, why=few.error.what if few.error else "; ".join(few.notes))
    more = _COUNTS[1] - _COUNTS[0]
    cycles = (many.cycles - few.cycles) / more
    return OpCost(**facts, registers=registers, cycles=cycles, slots=slope(few, many, more))


def _kernel(take: Callable, whole: jax.ShapeDtypeStruct, part: jax.ShapeDtypeStruct, count: int) -> Callable:
    def kernel(i_ref, o_hbm, x, o, sem):
        for number in range(count):
            o[number] = take(x.at[number], i_ref[0])
        copy = pltpu.make_async_copy(o.at[i_ref[0]], o_hbm, sem)
        copy.start()
        copy.wait()

    return in_vmem(kernel, (whole, part), count)
