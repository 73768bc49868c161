"""grid.UnreadableCall says in one of a few words why a call cannot be read."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import cost, grid
from course_lib.grid.following import follower

X = jnp.zeros((32, 128))
SCALARS = jnp.zeros(4, jnp.int32)
BOUNDED = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(0, 8), 0))


def doubled(x, steps=4, block=None):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    block = block or pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(steps,), in_specs=[block], out_specs=block)(x)


def gathered(order, x):
    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, order: (i, 0)),
    )
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=x)(order, x)


def in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, v: gathered(jnp.full(4, i, jnp.int32), v), x)


def after_a_kernel(order, x):
    return gathered(gathered(order, x)[0, :4].astype(jnp.int32), x)


def copied(x, guarded=False):
    """A kernel that copies its one block by hand, if told so, only where a number in an array is positive."""

    def kernel(x_hbm, o_ref, sem):
        def copy():
            pltpu.sync_copy(x_hbm, o_ref)

        pl.when(o_ref[0, 0] > 0)(copy) if guarded else copy()

    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(x)


@pytest.mark.parametrize(
    ("fn", "args", "reason"),
    [
        (functools.partial(doubled, steps=-1), (X,), grid.Reason.NEGATIVE_GRID),
        (functools.partial(doubled, steps=10**9), (X,), grid.Reason.LONG_GRID),
        (gathered, (jax.ShapeDtypeStruct((4,), jnp.int32), X), grid.Reason.UNKNOWN_SCALARS),
        (in_a_loop, (X,), grid.Reason.UNKNOWN_SCALARS),
        (after_a_kernel, (SCALARS, X), grid.Reason.UNKNOWN_SCALARS),
        (functools.partial(doubled, block=BOUNDED), (X,), grid.Reason.NOT_SUPPORTED),
    ],
    ids=["negative", "long", "shape only", "in a loop", "after a kernel", "bounded slice"],
)
def test_why_a_grid_cannot_be_read(fn, args, reason):
    with pytest.raises(grid.UnreadableCall) as raised:
        grid.walk(fn, *args)
    assert raised.value.reason is reason


def test_why_a_body_cannot_be_followed(monkeypatch):
    walk = grid.walk(functools.partial(copied, guarded=True), X)
    with pytest.raises(grid.UnreadableCall) as raised:
        cost.traffic(walk)
    assert raised.value.reason is grid.Reason.ARRAY_VALUES
    with pytest.raises(grid.UnreadableCall) as raised:
        grid.inner_pipelines(walk.calls[0])
    assert raised.value.reason is grid.Reason.ARRAY_VALUES
    monkeypatch.setattr(follower, "MAX_EVALUATIONS", 1)
    with pytest.raises(grid.UnreadableCall) as raised:
        grid.body(grid.walk(copied, X).calls[0])
    assert raised.value.reason is grid.Reason.LONG_BODY
