"""Failures on the way to a gradient, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import ROWS_OF_8, X, call, compiled, copy, raised, simulated
from sweeps import daily

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


def ramp(x_ref, o_ref):
    o_ref[...] = x_ref[...] * (1 + pl.program_id(0))


def by_steps(kernel):
    """f(x) = kernel over a grid of 32 steps"""
    return call(kernel, *ROWS_OF_8[:1], (32,), ROWS_OF_8[1])


def pushed(fn):
    return lambda x: jax.jvp(fn, (x,), (x,))[1]


def linearized(fn):
    return lambda x: jax.linearize(fn, x)[1](x)


def with_backward(backward, forward=None):
    """A copy, with these rules; the forward rule calls a kernel."""

    @jax.custom_vjp
    def layer(x):
        return call(copy)(x)

    layer.defvjp(forward or (lambda x: (call(copy)(x), x)), backward)
    return layer


def gradient(fn):
    return jax.grad(lambda x: fn(x).sum())


def twice(fn):
    return jax.grad(lambda x: (jax.grad(lambda x: fn(x).sum())(x) ** 2).sum())


def in_backward(x, g):
    return jax.vjp(call(copy), x)[1](g)


@jax.custom_jvp
def by_rule(x):
    return by_steps(ramp)(x)


by_rule.defjvp(lambda primals, tangents: (by_rule(*primals), by_rule(*tangents)))


@jax.custom_vjp
def closed(x):
    """A copy whose rules call nothing but itself, which has rules."""
    return call(copy)(x)


closed.defvjp(lambda x: (closed(x), None), lambda saved, g: (closed(g),))


def told_its_step(step_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] * (1 + step_ref[0, 0, 0])


def with_the_step_as_an_input(steps, x):
    step = pl.BlockSpec((1, 1, 1), lambda i: (i, 0, 0), memory_space=pltpu.SMEM)
    spec = pl.BlockSpec(*ROWS_OF_8)
    f = pl.pallas_call(told_its_step, grid=(32,), in_specs=[step, spec], out_specs=spec, out_shape=x)
    return f(steps, x)


def pushed_along_x(x):
    steps = jnp.arange(32.0).reshape(32, 1, 1)
    return jax.jvp(with_the_step_as_an_input, (steps, x), (jnp.zeros_like(steps), x))[1]


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
    "gradient-forwards": (
        compiled(pushed(by_steps(ramp))),
        "jax.jvp (line ",
    ),
    "gradient-forwards, in a branch": (
        compiled(pushed(by_steps(asks_which_step))),
        "JAX can derive it for most kernels, but not for one that calls pl.program_id.",
    ),
    "gradient-forwards, with scratch": (
        compiled(pushed(call(through_scratch, scratch_shapes=[pltpu.VMEM((256, 512), jnp.float32)]))),
        "but not for one with scratch buffers",
    ),
    "gradient-forwards, of a pl.kernel": (
        compiled(pushed(lambda x: pl.kernel(copies, out_type=x, mesh=CORE)(x))),
        "nor for pl.kernel",
    ),
    "gradient-forwards, in a backward rule": (
        compiled(gradient(with_backward(lambda x, g: (jax.jvp(by_steps(ramp), (x,), (g,))[1],)))),
        "one that calls pl.program_id.",
    ),
    "gradient-linearize": (compiled(linearized(call(copy))), "jax.linearize (line "),
    "gradient-linearize, of a kernel that asks for its step": (
        compiled(linearized(by_steps(ramp))),
        "cannot separate the derivative of a kernel from its value.",
    ),
    "gradient-in-a-rule": (
        compiled(gradient(with_backward(in_backward))),
        "The backward rule of layer asks JAX for the derivative of a kernel, jax.vjp (line ",
    ),
    "gradient-in-a-rule, the forward one": (
        compiled(gradient(with_backward(lambda back, g: back(g), lambda x: jax.vjp(call(copy), x)))),
        "The forward rule of layer asks JAX for the derivative of a kernel, jax.vjp (line ",
    ),
    "gradient-twice": (
        compiled(twice(with_backward(lambda x, g: (x * g,)))),
        "a second derivative through layer: it differentiates the forward rule",
    ),
    "gradient-jvp-of-custom-vjp": (compiled(pushed(with_rules)), "a function that has a jax.custom_vjp"),
    "gradient-jvp-of-custom-vjp, linearized": (
        compiled(linearized(with_rules)),
        "supports only reverse-mode differentiation.",
    ),
    "gradient-checkpoint": (
        simulated(jax.grad(lambda x: jax.checkpoint(with_rules)(x).sum()), jax.ShapeDtypeStruct((8, 128), jnp.float32)),
        "A gradient through jax.checkpoint meets a kernel in the simulator",
    ),
    "gradient-undefined": (
        compiled(ruled(None)),
        "f has a jax.custom_vjp, but its forward and backward rules are missing",
    ),
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
        "Under a gradient the function returns bfloat16[8], but otherwise float32[8].",
    ),
    "gradient-structure": (
        compiled(ruled(lambda r, g: (g,))),
        "The backward function returns 1 cotangent, but there are 2 arguments.",
    ),
    "gradient-structure, no tuple": (
        compiled(ruled(lambda r, g: g)),
        "The backward function returns one array, but there are 2 arguments.",
    ),
    "gradient-structure, nothing": (
        compiled(ruled(lambda r, g: None)),
        "The backward function returns nothing, but there are 2 arguments.",
    ),
    "gradient-shape": (
        compiled(ruled(lambda r, g: (g, g[:8]))),
        "The backward function returns float32[8,512] for argument 1 (from 0), which is float32[256,512].",
    ),
}
# The nearest programs that are right, and the cures.
RIGHT = {
    "a forward derivative of a plain kernel": pushed(call(copy)),
    "a forward derivative of a kernel that asks how many steps there are": pushed(
        by_steps(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * pl.num_programs(0)))
    ),
    "a forward derivative by rule": pushed(by_rule),
    "a linearization by rule": linearized(by_rule),
    "a forward derivative, with the step as an input": pushed_along_x,
    "a gradient with rules": gradient(with_rules),
    "the value of a function with rules, by jvp": lambda x: 2 * jax.jvp(with_rules, (x,), (x,))[0],
    "a second derivative whose rules have rules": twice(closed),
    "a backward rule in plain JAX": gradient(with_backward(lambda x, g: jax.vjp(lambda x: 1.0 * x, x)[1](g))),
}


@pytest.mark.parametrize("program", RIGHT)
def test_no_row_speaks_of_what_is_right(program):
    provoke.assert_compiles(compiled(RIGHT[program]))


def test_the_line_is_the_one_that_asks():
    told = FAILURES["gradient-in-a-rule"][0]()
    first = in_backward.__code__.co_firstlineno
    assert f"jax.vjp (line {first + 1} of in_backward)" in told.what


AMONG_FRAMES = ("gradient-forwards", "gradient-linearize", "gradient-in-a-rule", "gradient-twice", "gradient")


@pytest.mark.parametrize("failure", daily("gradient-in-a-rule", "gradient", of=AMONG_FRAMES))
def test_the_same_is_said_where_jax_keeps_its_own_frames(failure):
    """As in a notebook."""
    with jax._src.config.traceback_filtering("off"):
        provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_a_kernel_that_is_not_differentiated_may_ask_for_its_step():
    assert compiled(call(asks_which_step, (8, 512), (32,), lambda i: (i, 0)))() is None
    assert X.shape == (256, 512)
