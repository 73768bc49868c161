"""Golf: two matmuls with a ReLU between them, and as few bytes as possible."""

import functools

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import BYTES, Golf

KIB = 2**10
MOST_VMEM = 768 * KIB


def _layers() -> list[tuple]:
    """Return x and the weights of two layers, in multiples of (8, 128): this exercise is about bytes, not edges."""
    sizes = ({"M": 256, "D": 128, "H": 1024}, {"M": 128, "D": 128, "H": 512})
    return arguments(("x: f32[M,D]", "w: f32[D,H]", "v: f32[H,D]"), sizes)


def _two_products(x, w, v):
    hidden = jnp.maximum(jnp.dot(x, w, preferred_element_type=jnp.float32), 0)
    return jnp.dot(hidden, v, preferred_element_type=jnp.float32)


def _first_strip(x, w, v, *, rows, strips):
    """Return what the first of ``strips`` strips of w and v adds to the first of ``rows`` blocks of rows."""
    high, wide = x.shape[0] // rows, w.shape[1] // strips
    return _two_products(x[:high], w[:, :wide], v[:wide])


def _probe(rows, strips, name):
    """Return a probe of the ref ``name`` after the first strip, for a grid over the strips, or over rows and strips."""
    steps = (strips,) if rows == 1 else (rows, strips)
    return judges.Probe(
        scratch=name,
        after=(0,) * len(steps),
        grid=steps,
        expect=functools.partial(_first_strip, rows=rows, strips=strips),
        means="relu(x @ w) @ v with the first strip of w and of v",
        next="is the ReLU between the two matmuls? Apply it to the hidden columns, before they are multiplied by v.",
    )


EXERCISE = Exercise(
    id="03.12",
    title="Golf: two matmuls and what lies between them",
    kind="golf",
    defines="two_products",
    cases=_layers,
    reference=_two_products,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    golf=Golf(unit=BYTES, par=2_359_296),
    probes=tuple(_probe(r, s, name) for r in (1, 2, 4) for s in (2, 4, 8) for name in ("o_ref", "acc_ref")),
    hints=(
        "What is the largest array here: x, w, v, the result, or none of them? Does it have to lie in HBM?",
        "A strip of 128 columns of w gives 128 columns of the hidden array, which are multiplied by 128 rows of v. "
        "Each strip adds its part to the result, which may stay in VMEM meanwhile.",
        "Use a grid with one axis, over the strips. The index of o_ref never changes, so set it to zero at step 0, and "
        "add the second matmul's result at every step. Which of x, w and v may stay in VMEM, and does it fit?",
    ),
    points=3,
)
