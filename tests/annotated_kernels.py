"""Traces every op and its gradient while beartype checks the annotations. Run by test_kernels_families."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

from jaxtyping import install_import_hook

with install_import_hook("course_lib.kernels", "beartype.beartype"):
    from course_lib.kernels import activations, linear, matmul

import jax
import jax.numpy as jnp
from kernel_calls import CALLS, arguments, module

from course_lib import grid

ANY_RANK = {"activations", "elementwise", "linear", "linear_int8", "scale_add", "scan", "softmax"}
WHOLE = {"matmul_one_block", "matmul_pipelined"}  # take no blocks, or none that are ragged


def trace(family, op, x, **more):
    """One op with its gradient, if it has one, as it is traced for a TPU."""
    run = getattr(module(family), op)
    args, named = arguments(family, op, x, jnp.ones((x.shape[-1], 200), x.dtype))

    def fn(first):
        return run(first, *args[1:], **named, **more)

    def with_gradient(first):
        out, pull = jax.vjp(fn, first)
        return out, pull(out)

    walk = grid.walk(fn if op == "matmul_one_block" else with_gradient, args[0])
    assert walk.calls or (op == "cast" and x.dtype == jnp.bfloat16), op


for family, ops in CALLS.items():
    blocks = getattr(module(family), "Blocks", None)
    for op in ops:
        x = jnp.ones((3, 5, 300), jnp.bfloat16) if family in ANY_RANK else jnp.ones((7, 13))
        trace(family, op, x)
        if op not in WHOLE:
            small = blocks(**dict.fromkeys(blocks.__annotations__, 128))
            trace(family, op, jnp.ones((140, 300), jnp.bfloat16), blocks=small)

for wrong in (
    lambda: matmul.matmul(jnp.ones((3, 3)), "no array"),
    lambda: activations.apply("relu", jnp.ones(3, jnp.bfloat16)),
    lambda: linear.linear(jnp.ones((3, 3)), jnp.ones((3, 3)), jnp.ones((1, 3))),
):
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__)
