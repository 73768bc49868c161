"""Two matmuls with transposed operands, without a transposed copy in HBM."""

import jax.numpy as jnp

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_07 import bfloat16_dots


def _gradients(x, w, g):
    dx = jnp.dot(g, w.T, preferred_element_type=jnp.float32)
    return dx, jnp.dot(x.T, g, preferred_element_type=jnp.float32)


def no_transpose_outside(gradients):
    """Return ``gradients`` unchanged. Raise Unfit if it transposes an array outside its kernels."""
    try:
        jaxpr = grid.walk(gradients, *EXERCISE.arguments()[0]).jaxpr.jaxpr
    except Exception:  # the judges explain better what is wrong with it
        return gradients
    if any(eqn.primitive.name == "transpose" for eqn in _outside(jaxpr)):
        raise Unfit(
            "Outside the kernels an array is transposed: that may be a copy in HBM, an operation of its own.",
            "hand the arrays over as they are; dot_general names the axes that meet, and .T inside the kernel will do.",
            headline="an array is transposed outside the kernels.",
        )
    return gradients


def _outside(jaxpr):
    """Yield the operations around the kernels."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in grid.KERNELS:
            continue
        yield eqn
        for inner in (eqn.params.get("jaxpr"), eqn.params.get("call_jaxpr")):
            if inner is not None:
                yield from _outside(getattr(inner, "jaxpr", inner))


EXERCISE = Exercise(
    id="07.4",
    title="Two products of a gradient",
    kind="write",
    defines="gradients",
    inputs=("x: bf16[M,K]", "w: bf16[K,N]", "g: bf16[M,N]"),
    sizes=({"M": 32, "K": 128, "N": 256}, {"M": 16, "K": 256, "N": 128}, {"M": 40, "K": 72, "N": 200}),
    reference=_gradients,
    build=no_transpose_outside,
    also=(
        bfloat16_dots.demanded(
            lambda: EXERCISE.arguments(), "multiply the arrays as they came; float32 is what comes out."
        ),
    ),
    hints=(
        "In g @ w.T both arrays have an axis N: it is their last, and it disappears. Which axis do x and g share in "
        "x.T @ g?",
        "jax.lax.dot_general(a, b, (((i,), (j,)), ((), ())), preferred_element_type=jnp.float32) lets axis i of a meet "
        "axis j of b. What is left of a comes first, then what is left of b.",
        "g and w: (((1,), (1,)), ((), ())). x and g: (((0,), (0,)), ((), ())). out_shape may be a list of two, and the "
        "kernel gets a ref for each.",
    ),
    points=2,
)
