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
            "Outside the kernels an array is transposed, and that may be a separate operation that copies it in HBM.",
            "pass the arrays as they are: inside the kernel, dot_general names the contracted axes, and .T works too.",
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
    title="The two matmuls of a gradient",
    kind="write",
    defines="gradients",
    inputs=("x: bf16[M,K]", "w: bf16[K,N]", "g: bf16[M,N]"),
    sizes=({"M": 32, "K": 128, "N": 256}, {"M": 16, "K": 256, "N": 128}, {"M": 40, "K": 72, "N": 200}),
    reference=_gradients,
    build=no_transpose_outside,
    also=(
        bfloat16_dots.demanded(
            lambda: EXERCISE.arguments(),
            "multiply the bfloat16 arrays as they are; preferred_element_type makes the result float32.",
        ),
    ),
    hints=(
        "In g @ w.T, N is the last axis of both arrays, and the matmul contracts it. Which axis do x and g share in "
        "x.T @ g?",
        "jax.lax.dot_general(a, b, (((i,), (j,)), ((), ())), preferred_element_type=jnp.float32) contracts axis i of a "
        "with axis j of b. The result has the remaining axis of a first, then that of b.",
        "The axes for g and w are (((1,), (1,)), ((), ())), those for x and g are (((0,), (0,)), ((), ())). out_shape "
        "may be a list of two, and the kernel then gets a ref for each.",
    ),
    points=2,
)
