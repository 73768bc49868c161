"""A custom_vjp around a forward kernel, whose gradients are judged."""

import jax
import jax.numpy as jnp

from course_lib import grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_10 import layers

INPUTS = ("x: T[M,K]", "w: T[K,N]", "b: T[N]")


def cases() -> list[tuple]:
    """Return x, w and b, neither square nor in whole blocks."""
    return layers.at_random(INPUTS, ({"M": 150, "K": 128, "N": 256},))


def _under_vmap(fused_dense):
    """Demand that the gradient can be traced for a batch of two under vmap."""
    x, w, b = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 64, 128), (128, 128), (128,)))
    mapped = jax.vmap(fused_dense, in_axes=(0, None, None))
    try:
        calls = grid.walk(jax.grad(lambda w, x, b: mapped(x, w, b).sum()), w, x, b).calls
    except Exception as error:
        return (
            f"Under jax.grad of jax.vmap it raises {type(error).__name__}: {error!s:.120}.",
            "make both rules take and return arrays, and read every size from a shape.",
        )
    if len(calls) < 2:
        return (
            "The gradient with respect to w runs a single kernel, and the forward pass already takes one.",
            "compute dw in a kernel.",
        )
    return None


EXERCISE = Exercise(
    id="10.4",
    title="Tie them together",
    kind="write",
    defines="fused_dense",
    cases=cases,
    reference=layers.layer,
    gradient=judges.Gradient(
        of=("x", "w", "b"),
        pre=layers.before_relu,
        activation=jax.nn.relu,
        slips=(
            judges.Slip(
                means="db sums y where g is above 0, so the two are exchanged",
                value=lambda x, w, b, g: jnp.where(g > 0, layers.layer(x, w, b), 0).sum(axis=0),
                next="pass y to grad_b first, and then g.",
                output="db",
            ),
        ),
    ),
    also=(_under_vmap,),
    hints=(
        "You need three functions: fused_dense(x, w, b) under @jax.custom_vjp, a rule that returns (y, "
        "residuals), and a rule that takes (residuals, g).",
        "The backward rule returns a tuple in the order of the arguments: the gradients with respect to x, w and "
        "b. The residuals that it needs are x, w and y.",
        "def fused_backward(residuals, g): x, w, y = residuals; return grad_x(w, y, g), grad_w(x, y, g), "
        "grad_b(y, g). Then call fused_dense.defvjp(fused_forward, fused_backward).",
    ),
    points=3,
)
