"""Backward passes: what is judged is the gradient of an operation that is right itself."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from zoo.arrays import normal
from zoo.bug import Bug

ROWS = 8


def by_rows(kernel, dtype, *args):
    """A kernel over blocks of eight rows; an argument of one row is whole at every step."""
    x = args[0]
    spec = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    row = pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[row if a.shape[0] == 1 else spec for a in args],
        out_specs=spec,
    )(*args)


def multiply_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = (x_ref[...] * y_ref[...]).astype(o_ref.dtype)


def multiply(x, y):
    return by_rows(multiply_kernel, x.dtype, x, y)


def multiply_to_float32(x, y):
    return by_rows(multiply_kernel, jnp.float32, x, y)


def with_backward(forward, backward):
    """An operation that saves its arguments, and whose ``backward(arguments, g)`` gives their gradients."""
    op = jax.custom_vjp(forward)
    op.defvjp(lambda *args: (forward(*args), args), backward)
    return op


def gradients(op):
    """The function judged: (*args, g) to the gradients of ``op`` at args for the cotangent g."""

    def of_all(*args):
        *at, g = args
        return jax.vjp(op, *at)[1](g)

    return of_all


def rms_norm(x):
    def norm_kernel(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    return by_rows(norm_kernel, x.dtype, x)


def rms_backward_of_a_constant_root(args, g):
    """g / rms, as if the root mean square did not depend on x."""

    def backward_kernel(x_ref, g_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = g_ref[...] * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    return (by_rows(backward_kernel, g.dtype, args[0], g),)


def norm(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


X, Y, G = (normal(16, 128, seed=seed) for seed in range(3))
WEIGHT = normal(1, 128, seed=3)
LOW = (X.astype(jnp.bfloat16), Y.astype(jnp.bfloat16), G.astype(jnp.bfloat16))

BUGS = tuple(
    Bug(
        kind="gradients",
        name=name,
        fn=gradients(op),
        reference=gradients(reference),
        args=args,
        caught_by="numbers",
        says=says,
    )
    for name, op, reference, args, says in (
        (
            "no backward pass",
            multiply,
            jnp.multiply,
            (X, Y, G),
            r"(?s)custom_vjp",
        ),
        (
            "one gradient for two arguments",
            with_backward(multiply, lambda args, g: (multiply(g, args[1]),)),
            jnp.multiply,
            (X, Y, G),
            r"(?s)backward.*returns (one|1) .*(two|2) arguments",
        ),
        (
            "wrong cotangent dtype",
            with_backward(multiply, lambda args, g: (multiply_to_float32(g, args[1]), multiply(g, args[0]))),
            jnp.multiply,
            LOW,
            r"Output 0 is float32; it should be bfloat16",
        ),
        (
            "gradients in the wrong order",
            with_backward(multiply, lambda args, g: (multiply(g, args[0]), multiply(g, args[1]))),
            jnp.multiply,
            (X, Y, G),
            r"(?s)[Oo]utputs? 0.*[Oo]utput 1.*(swapped|exchanged|other|order)",
        ),
        (
            "no gradient for the weight",
            with_backward(multiply, lambda args, g: (multiply(g, args[1]), jnp.zeros_like(args[1]))),
            jnp.multiply,
            (X, WEIGHT, G),
            r"(?s)Output 1 .*is 0; .*Each wrong element is 0.*zeros",
        ),
        (
            "norm taken for a constant",
            with_backward(rms_norm, rms_backward_of_a_constant_root),
            norm,
            (X, G),
            r"(?s)at \[0, 0\] is .*; it should be",
        ),
    )
)
