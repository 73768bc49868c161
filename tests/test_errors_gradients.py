"""Failures on the way to a gradient, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import ROWS_OF_8, X, call, compiled, copy, raised, simulated

from course_lib.judges.running.pulling_back import pulled_back


def ruled(backward, forward=None):
    """The gradient of a copy with these rules; its second argument goes unused."""

    @jax.custom_vjp
    def f(x, y):
        return call(copy)(x)

    if backward:
        f.defvjp(forward or (lambda x, y: (f(x, y), None)), backward)
    return jax.grad(lambda x: f(x, x).sum())


def asks_which_step(x_ref, o_ref):
    @pl.when(pl.program_id(0) > 0)
    def _write():
        o_ref[...] = x_ref[...]


def through_scratch(x_ref, o_ref, kept_ref):
    kept_ref[...] = x_ref[...]
    o_ref[...] = kept_ref[...]


def copies(x_ref, o_ref):
    pltpu.sync_copy(x_ref, o_ref)


def raw(kernel, *more, **settings):
    return compiled(jax.grad(lambda x: call(kernel, *more, **settings)(x).sum()))


def both_ways(x):
    """A function that is one thing without a gradient, and another with one."""

    @jax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x.astype(jnp.bfloat16), None), lambda saved, g: (g.astype(jnp.float32),))
    return pulled_back(f, (0,))(x, x)


@jax.custom_vjp
def with_rules(x):
    return call(copy)(x)


with_rules.defvjp(lambda x: (with_rules(x), None), lambda saved, g: (g,))

CORE = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
IN_HBM = pl.BlockSpec(memory_space=pl.ANY)
NOBODY_HAS_TOLD = "JAX was asked for a gradient through a kernel"
FAILURES = {
    "gradient": (raw(copy), NOBODY_HAS_TOLD),
    "gradient, of a kernel that asks for its step": (
        raw(asks_which_step, *ROWS_OF_8[:1], (32,), ROWS_OF_8[1]),
        NOBODY_HAS_TOLD,
    ),
    "gradient, with scratch": (
        raw(through_scratch, scratch_shapes=[pltpu.VMEM((256, 512), jnp.float32)]),
        NOBODY_HAS_TOLD,
    ),
    "gradient, with aliases": (raw(copy, input_output_aliases={0: 0}), NOBODY_HAS_TOLD),
    "gradient, with copies by hand": (raw(copies, in_specs=[IN_HBM], out_specs=IN_HBM), NOBODY_HAS_TOLD),
    "gradient, of a pl.kernel": (
        compiled(jax.grad(lambda x: pl.kernel(copies, out_type=x, mesh=CORE)(x).sum())),
        NOBODY_HAS_TOLD,
    ),
    "gradient-checkpoint": (
        simulated(jax.grad(lambda x: jax.checkpoint(with_rules)(x).sum()), jax.ShapeDtypeStruct((8, 128), jnp.float32)),
        "A gradient through jax.checkpoint meets a kernel in the simulator",
    ),
    "gradient-undefined": (compiled(ruled(None)), "f has a jax.custom_vjp, and no rules"),
    "gradient-forward": (
        compiled(ruled(lambda r, g: (g, g), lambda x, y: x)),
        "the forward rule of f, does not return a pair.",
    ),
    "gradient-forward, three": (
        compiled(ruled(lambda r, g: (g, g), lambda x, y: (x, x, y))),
        "the forward rule of f, does not return a pair.",
    ),
    "gradient-output": (
        raised(both_ways, jnp.ones(8)),
        "Under a gradient the function returns bfloat16[8], and otherwise float32[8].",
    ),
    "gradient-structure": (
        compiled(ruled(lambda r, g: (g,))),
        "The backward function returns 1 cotangent, and there are 2 arguments.",
    ),
    "gradient-structure, no tuple": (
        compiled(ruled(lambda r, g: g)),
        "The backward function returns one array, and there are 2 arguments.",
    ),
    "gradient-structure, nothing": (
        compiled(ruled(lambda r, g: None)),
        "The backward function returns nothing, and there are 2 arguments.",
    ),
    "gradient-shape": (
        compiled(ruled(lambda r, g: (g, g[:8]))),
        "The backward function returns float32[8,512] for argument 1 (from 0), which is float32[256,512].",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_a_kernel_that_is_not_differentiated_may_ask_for_its_step():
    assert compiled(call(asks_which_step, (8, 512), (32,), lambda i: (i, 0)))() is None
    assert X.shape == (256, 512)
