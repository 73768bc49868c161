"""grid.accumulators: which refs are added to from step to step, how many parts are in them, and when it is silent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid
from course_lib.viz.grid_player import grid_accumulator

STEPS = 4
LAST = STEPS - 1


def accumulators(body, *, outer=2, scratch=1, dtype=jnp.float32):
    """Of a body over the grid (outer, 4), with blocks (i, k) of x, block (i, 0) of o, and scratch of that size."""
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((8 * outer, 128), dtype),
        grid=(outer, STEPS),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)] * scratch,
    )
    (traced,) = grid.walk(call, jax.ShapeDtypeStruct((8 * outer, 128 * STEPS), dtype)).calls
    return grid.accumulators(traced)


def said(each) -> list[str]:
    """In words, step by step, as the player says it."""
    frame = {
        "parts": each.parts,
        "of": each.of,
        "flags": sum(getattr(each, flag).astype(int) << bit for bit, flag in enumerate(grid_accumulator._FLAGS)),
        "stored": [{"name": name, "steps": at} for name, at in each.stored.items()],
    }
    return [" ".join(grid_accumulator.words(frame, step)) for step in range(len(each.parts))]


def in_scratch(x_ref, o_ref, acc_ref):
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += x_ref[...]

    @pl.when(k == LAST)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def in_output(x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def begun_with_a_part(x_ref, o_ref):
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _first():
        o_ref[...] = x_ref[...]

    @pl.when(k > 0)
    def _add():
        o_ref[...] = o_ref[...] + x_ref[...]


def never_begun(x_ref, o_ref):
    o_ref[...] += x_ref[...]


def begun_once(x_ref, o_ref, acc_ref):
    @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]


def some_steps(x_ref, o_ref, acc_ref):
    """Blocks above a diagonal are left out, as in causal attention."""
    i, k = pl.program_id(0), pl.program_id(1)

    @pl.when(k == 0)
    def _low():
        acc_ref[...] = jnp.full_like(acc_ref, -jnp.inf)

    @pl.when(k <= i + 1)
    def _more():
        acc_ref[...] = jnp.maximum(acc_ref[...], x_ref[...])

    @pl.when(k == LAST)
    def _store():
        o_ref[...] = acc_ref[...]


def in_a_loop(x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    def turn(n, _):
        o_ref[...] += x_ref[...] * n

    jax.lax.fori_loop(0, 3, turn, None)


SHOWN = {
    in_scratch: [
        "garbage zeroed 1 of 4 parts",
        "2 of 4 parts",
        "3 of 4 parts",
        "4 of 4 parts stored to o_ref",
        "old value zeroed 1 of 4 parts",
        "2 of 4 parts",
        "3 of 4 parts",
        "4 of 4 parts stored to o_ref",
    ],
    in_output: ["garbage zeroed 1 of 4 parts", "2 of 4 parts", "3 of 4 parts", "4 of 4 parts"] * 2,
    begun_with_a_part: ["garbage 1 of 4 parts", "2 of 4 parts", "3 of 4 parts", "4 of 4 parts"] * 2,
    never_begun: [f"garbage and {n} part{'s' * (n > 1)}" for n in (1, 2, 3, 4)] * 2,
    begun_once: ["garbage zeroed 1 of 8 parts stored to o_ref"]
    + [f"{n} of 8 parts stored to o_ref" for n in range(2, 9)],
    some_steps: [
        "garbage set to a constant 1 of 2 parts",
        "2 of 2 parts",
        "2 of 2 parts",
        "2 of 2 parts stored to o_ref",
        "old value set to a constant 1 of 3 parts",
        "2 of 3 parts",
        "3 of 3 parts",
        "3 of 3 parts stored to o_ref",
    ],
    in_a_loop: ["garbage zeroed 1 of 4 parts", "2 of 4 parts", "3 of 4 parts", "4 of 4 parts"] * 2,
}


@pytest.mark.parametrize("body", SHOWN, ids=lambda body: body.__name__)
def test_what_is_in_it_at_each_step(body):
    (each,) = accumulators(body, scratch=body.__code__.co_argcount - 2)
    assert said(each) == SHOWN[body]
    assert each.output == (each.name == "o_ref")


def softmax_of_blocks(x_ref, o_ref, m_ref, l_ref):
    """A running maximum, and a sum that is scaled when the maximum rises."""
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _begin():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)

    m = jnp.maximum(m_ref[...], x_ref[...])
    l_ref[...] = jnp.exp(m_ref[...] - m) * l_ref[...] + jnp.exp(x_ref[...] - m)
    m_ref[...] = m

    @pl.when(k == LAST)
    def _store():
        o_ref[...] = m_ref[...] + jnp.log(l_ref[...])


def test_several_are_told_apart():
    most, total = accumulators(softmax_of_blocks, scratch=2)
    assert (most.name, total.name) == ("m_ref", "l_ref")
    assert most.constant[::STEPS].all() and total.zeroed[::STEPS].all() and not most.zeroed.any()
    for each in (most, total):
        np.testing.assert_array_equal(each.parts, [1, 2, 3, 4] * 2)
        np.testing.assert_array_equal(np.flatnonzero(each.stored["o_ref"]), [3, 7])


def test_the_parts_are_those_that_a_run_adds():
    """With ones in x, the sum after a step is the number of its parts."""

    def kernel(x_ref, o_ref, acc_ref):
        i, k = pl.program_id(0), pl.program_id(1)

        @pl.when(k == i)
        def _zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when(k % 3 != 2)
        def _add():
            acc_ref[...] += x_ref[...]

        o_ref[...] = acc_ref[...]

    block = pl.BlockSpec((8, 128), lambda i, k: (i, k))
    x = jnp.ones((16, 128 * STEPS))
    call = pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(2, STEPS),
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
        interpret=True,
    )
    (each,) = grid.accumulators(grid.walk(call, x).calls[0])
    np.testing.assert_array_equal(call(x)[::8, ::128].reshape(-1), each.parts)
    assert each.of.tolist() == [4] * 5 + [2] * 3 and not each.garbage.any()


def decided_by_numbers(x_ref, o_ref, acc_ref):
    @pl.when(x_ref[0, 0] > 0)
    def _perhaps():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]


def begun_in_part(x_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(1) == 0)
    def _zero():
        acc_ref[:4] = jnp.zeros((4, 128), acc_ref.dtype)

    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]


def begun_by_a_select(x_ref, o_ref, acc_ref):
    acc_ref[...] = jnp.where(pl.program_id(1) == 0, 0, acc_ref[...]) + x_ref[...]
    o_ref[...] = acc_ref[...]


def begun_by_a_value(x_ref, o_ref, acc_ref):
    held = jax.lax.cond(pl.program_id(1) == 0, lambda: jnp.zeros((8, 128)), lambda: acc_ref[...])
    acc_ref[...] = held + x_ref[...]
    o_ref[...] = acc_ref[...]


def zeroed_at_the_end(x_ref, o_ref, acc_ref):
    acc_ref[...] += x_ref[...]

    @pl.when(pl.program_id(1) == LAST)
    def _store():
        o_ref[...] = acc_ref[...]
        acc_ref[...] = jnp.zeros_like(acc_ref)


def filled_by_a_copy(x_ref, o_ref, acc_ref):
    pltpu.sync_copy(x_ref, acc_ref)
    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]


def used_within_a_step(x_ref, o_ref, acc_ref):
    acc_ref[...] = x_ref[...]
    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]


def copies(x_ref, o_ref, acc_ref):
    o_ref[...] = x_ref[...]


SILENT = [
    decided_by_numbers,
    begun_in_part,
    begun_by_a_select,
    begun_by_a_value,
    zeroed_at_the_end,
    filled_by_a_copy,
    used_within_a_step,
    copies,
]


@pytest.mark.parametrize("body", SILENT, ids=lambda body: body.__name__)
def test_where_it_cannot_be_told_nothing_is_said(body):
    assert accumulators(body) == ()


def test_one_step_carries_nothing():
    def body(x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[...] += x_ref[...]

    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    (call,) = grid.walk(pl.pallas_call(body, out_shape=x), x).calls
    assert grid.accumulators(call) == ()
