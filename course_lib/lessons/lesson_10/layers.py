"""The layer of the exercises in plain JAX, and common mistakes in its gradients."""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.inputs import arguments


def before_relu(x, w, b):
    """Return z = x @ w + b in float32."""
    product = jnp.dot(x, w, precision="highest", preferred_element_type=jnp.float32)
    return product + b.astype(jnp.float32)


def layer(x, w, b):
    """Return relu(x @ w + b), accumulated in float32, in the dtype of x."""
    return jax.nn.relu(before_relu(x, w, b)).astype(x.dtype)


def dz(y, g, beyond=0):
    """Return the cotangent of z: g where y > 0, ``beyond`` elsewhere."""
    return jnp.where(y > 0, g, beyond).astype(jnp.float32)


def dx(w, y, g):
    """Return dz @ w.T in the dtype of w."""
    return jnp.dot(dz(y, g), w.T.astype(jnp.float32), precision="highest").astype(w.dtype)


def dw(x, y, g):
    """Return x.T @ dz in the dtype of x."""
    return jnp.dot(x.T.astype(jnp.float32), dz(y, g), precision="highest").astype(x.dtype)


def db(y, g):
    """Return the sum of the rows of dz, in the dtype of y."""
    return dz(y, g).sum(axis=0).astype(y.dtype)


def at_random(inputs: tuple[str, ...], sizes: tuple[dict[str, int], ...]) -> list[tuple]:
    """Return values from -1 to 1: float32 at every size, bfloat16 at an odd one."""
    return arguments(inputs, sizes, ("f32", "bf16"), within=(-1, 1))[1::2]


def with_zeros_in_y(inputs: tuple[str, ...], sizes: tuple[dict[str, int], ...], place: int = 1) -> list[tuple]:
    """Return arguments in which the y at ``place`` is 0 in every third column, as after a ReLU.

    They are float32 at the first of the two sizes and bfloat16 at the other, so a kernel is compiled once for each.
    """
    first, other = sizes
    cases = []
    for case in (*arguments(inputs, (first,), ("f32",)), arguments(inputs, (other,), ("bf16",))[1]):
        y = jnp.maximum(case[place], 0).at[:, ::3].set(0)
        cases.append((*case[:place], y, *case[place + 1 :]))
    return cases


NO_SLOPE = "g is also used where y is 0, so relu's slope is missing"
MULTIPLY = "use g where y > 0, and 0 elsewhere."
AT_ZERO = "the slope is taken to be 1 where y is exactly 0, and y is 0 wherever z is negative"


def slope_missing(value, output=None) -> judges.Slip:
    """Return the slip of a gradient that uses g instead of dz."""
    return judges.Slip(means=NO_SLOPE, value=value, next=MULTIPLY, output=output)
