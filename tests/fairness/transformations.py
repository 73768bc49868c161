"""A kernel under jit, vmap, scan, checkpoint, jvp and custom_vjp, in loops and conditions."""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from fairness import Right
from fairness.inputs import counted, normal, whole
from fairness.kernels import added, at_once, scaled

X, Y = normal((16, 256)), counted((16, 256))


def two_in_a_row(x, y):
    return scaled(added(scaled(x, by=3), y))


def in_scan(steps):
    """The kernel adds one row after the other to what the scan carries."""

    def step(total, row):
        total = added(total, row)
        return total, total

    return jax.lax.scan(step, jnp.zeros_like(steps[0]), steps)[1]


def in_fori_loop(x):
    return jax.lax.fori_loop(0, 3, lambda n, y: scaled(y), x)


def in_cond(x):
    return jax.lax.cond(x.shape[0] > jnp.int32(3), scaled, lambda y: y, x)


def in_vmap(x, y):
    return jax.vmap(added)(x, y)


def in_vmap_of_one(x, y):
    """Only x has a batch."""
    return jax.vmap(added, in_axes=(0, None))(x, y)


@jax.custom_vjp
def squared(x):
    return at_once(lambda x: x * x)(x)


def _forward(x):
    return squared(x), x


def _backward(x, g):
    return (at_once(lambda x, g: 2 * x * g)(x, g),)


squared.defvjp(_forward, _backward)


def value_and_gradient(x, g):
    y, pull = jax.vjp(squared, x)
    return y, *pull(g)


def tangent(x, t):
    """The kernel that JAX derives itself."""
    return jax.jvp(at_once(lambda x: x * x), (x,), (t,))[1]


def with_checkpoints(x):
    once = checkpoint_name(scaled(jax.lax.stop_gradient(x)), "once")
    return jax.checkpoint(scaled)(once)


def for_this_platform(x):
    """A kernel for the TPU, jnp for everything else."""
    return jax.lax.platform_dependent(x, tpu=scaled, default=doubled)


def on_each_of_one_device(x):
    """What people write around kernels in programs for many devices."""
    mesh = jax.make_mesh((1,), ("device",), axis_types=(jax.sharding.AxisType.Auto,))
    everywhere = jax.sharding.PartitionSpec()
    return jax.shard_map(scaled, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)(x)


def doubled(x):
    return 2 * x


RIGHT = (
    Right("under jit", jax.jit(scaled), doubled, (X,)),
    Right(
        "a partial of a jitted function with a static argument",
        functools.partial(jax.jit(scaled, static_argnames="by"), by=4),
        lambda x: 4 * x,
        (X,),
    ),
    Right("three kernels in a row", two_in_a_row, lambda x, y: 2 * (3 * x + y), (X, Y)),
    Right("inside scan", in_scan, lambda xs: jnp.cumsum(xs, axis=0), (whole((4, 8, 128), -99, 99),)),
    Right("inside fori_loop", in_fori_loop, lambda x: 8 * x, (X,)),
    Right("inside cond", in_cond, doubled, (X,)),
    Right("under vmap", in_vmap, jnp.add, (normal((3, 8, 128)), counted((3, 8, 128)))),
    Right(
        "under vmap, one argument without a batch",
        in_vmap_of_one,
        lambda x, y: x + y,
        (normal((3, 8, 128)), counted((8, 128))),
    ),
    Right("value and gradient of a custom_vjp", value_and_gradient, lambda x, g: (x * x, 2 * x * g), (X, Y)),
    Right("a tangent that JAX derives", tangent, lambda x, t: 2 * x * t, (X, Y)),
    Right("checkpoint, checkpoint_name, stop_gradient", with_checkpoints, lambda x: 4 * x, (X,)),
    Right("platform_dependent", for_this_platform, doubled, (X,)),
    Right("shard_map over one device", on_each_of_one_device, doubled, (X,)),
)
