"""What 03.12 and 04.11 declare of a right sum on its way: a kernel whose sums are right is told nothing of them."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import judges
from course_lib.checks.exercise import exercise


def product(x, w, *, grid, slip):
    """x @ w in blocks that ``grid`` cuts evenly; 1 is added to each result, and ``slip`` to each sum."""

    def kernel(x_ref, w_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref) + slip

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = 2 * acc_ref[...].astype(o_ref.dtype)

    (m, depth), n = x.shape, w.shape[1]
    bm, bn, bk = m // grid[0], n // grid[1], depth // grid[2]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=grid,
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, w)


def two_products(x, w, v, *, grid, slip):
    """relu(x @ w) @ v over rows and strips, doubled at the end; ``slip`` is added to the sums."""

    def kernel(x_ref, w_ref, v_ref, o_ref):
        strip = len(grid) - 1

        @pl.when(pl.program_id(strip) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref) + slip

        hidden = jnp.maximum(jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32), 0)
        o_ref[...] += jnp.dot(hidden, v_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(strip) == pl.num_programs(strip) - 1)
        def double():
            o_ref[...] *= 2

    high, wide = x.shape[0] // (grid[0] if len(grid) == 2 else 1), w.shape[1] // grid[-1]
    rows = pl.BlockSpec((high, x.shape[1]), lambda *at: (at[0] if len(at) == 2 else 0, 0))
    of_w = pl.BlockSpec((w.shape[0], wide), lambda *at: (0, at[-1]))
    of_v = pl.BlockSpec((wide, v.shape[1]), lambda *at: (at[-1], 0))
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[rows, of_w, of_v], out_specs=rows)(x, w, v)


CASES = [
    ("04.11", product, (1, 2, 2)),
    ("04.11", product, (4, 1, 2)),
    ("04.11", product, (2, 2, 1)),
    ("03.12", two_products, (8,)),
    ("03.12", two_products, (4, 2)),
]


@pytest.mark.parametrize("id, fn, grid", daily(CASES[0], CASES[3], of=CASES))
def test_only_a_wrong_sum_is_told_of(id, fn, grid):
    task = exercise(id)
    case = task.arguments()[-1] if id == "03.12" else task.arguments()[0]

    def said(slip):
        kernel = lambda *args: fn(*args, grid=grid, slip=slip)  # noqa: E731
        return judges.JUDGES["numbers"](judges.Trial(kernel, task.reference, case, probes=task.probes)).message

    assert "is wrong" in said(0) and "After step" not in said(0)
    assert f"After step {(0,) * len(grid)} " in said(1e6)
