"""judges.reading.prefetched: an index below 0, which the simulator counts from the end and a chip does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid, judges
from course_lib.judges.reading import prefetched
from course_lib.judges.tpu import budget

GROUP = np.array([0, 0, 1, 2], np.int32)
X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)


def totals(group, x, before):
    """The sums of the blocks of each group; ``before(t)`` is the place of the entry before number t."""

    def kernel(group_ref, x_ref, o_ref):
        t = pl.program_id(0)
        new = (t == 0) | (group_ref[t] != group_ref[before(t)])
        o_ref[...] = jnp.where(new, 0, o_ref[...]) + x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((24, 128), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda t, group_ref: (t, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda t, group_ref: (group_ref[t], 0)),
        ),
    )(group, x)


def summed(group, x):
    return jax.ops.segment_sum(x.reshape(-1, 8, 128), group, 3).reshape(24, 128)


@pytest.mark.parametrize("before, refused", [(lambda t: t - 1, True), (lambda t: jnp.maximum(t - 1, 0), False)])
def test_a_read_before_the_first_entry_is_refused(before, refused):
    verdict = judges.simulator_judge(lambda group, x: totals(group, x, before), summed, GROUP, X)
    assert verdict.passed is not refused
    assert not refused or "reads group_ref[-1]" in verdict.message


def test_a_read_that_no_step_makes_is_none():
    def kernel(group_ref, o_ref):
        @pl.when(group_ref[0] == 7)
        def never():
            o_ref[...] = jnp.full_like(o_ref, group_ref[group_ref[0] - 8])

    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[], out_specs=pl.BlockSpec((8, 128)))
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32), grid_spec=spec)
    assert prefetched.complaint(grid.walk(call, GROUP)) is None


def test_a_budget_of_cycles_is_not_met_by_a_kernel_without_any():
    class Report:
        cycles, notes, time_split = None, ("no cycles: the simulator crashed",), {}

    said = budget._cycles(Report, 100)
    assert "gives no cycles for it: the simulator crashed" in said.what
    assert budget._cycles(Report, None) is None
