"""A whole kernel from an empty cell: a float32 product out of bfloat16 products."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import chips, cost, grid, text
from course_lib.checks.exercise import Exercise

MOST = 3e-5  # of the numbers' size
LONG = 65_536


def _dots(jaxpr):
    """Every dot_general of a jaxpr and of what is inside its operations."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            yield eqn
        for inner in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from _dots(getattr(inner, "jaxpr", inner))


def _of_bfloat16_alone(careful):
    x, y = EXERCISE.arguments()[0]
    for eqn in _dots(jax.make_jaxpr(careful)(x, y).jaxpr):
        names = [str(v.aval.dtype) for v in eqn.invars]
        if names != ["bfloat16", "bfloat16"]:
            return (
                f"A product in it has operands of {' and '.join(names)}; on a chip such operands are rounded inside "
                "the unit, unless a precision is asked for.",
                "split each block into two bfloat16 parts, and multiply the parts.",
            )
    return None


def _exact_enough(careful):
    x, y = (jax.random.normal(jax.random.key(n), shape) for n, shape in ((0, (40, 1000)), (1, (1000, 130))))
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    with chips.chip("v5e").target():
        difference = np.asarray(careful(x, y), np.float64) - exact
    error = float(np.sqrt(np.mean(difference**2) / np.mean(exact**2)))
    if not error <= MOST:
        return (
            f"For x[40, 1000] @ y[1000, 130] its relative error is {error:.0e}; {MOST:.0e} is allowed.",
            "x is x1 + x2 and y is y1 + y2, and their product has four terms. Which of them are large enough to count?",
        )
    return None


def _serves_long_sums(careful):
    """Whether the blocks stay small along all three axes."""
    limit = chips.chip("v5e").scoped_vmem_bytes
    for m, k, n in ((128, LONG, 128), (LONG, 128, 128), (128, 128, LONG)):
        x, y = jax.ShapeDtypeStruct((m, k), jnp.float32), jax.ShapeDtypeStruct((k, n), jnp.float32)
        needs = cost.vmem_bytes(grid.walk(careful, x, y))
        if needs > limit:
            return (
                f"For x[{m:,}, {k:,}] @ y[{k:,}, {n:,}] it needs {text.size(needs)} of VMEM; a kernel may use "
                f"{text.size(limit)}.",
                "cut the long axis too, into blocks whose size does not grow with it.",
            )
    return None


def _one_pass(x, y):
    """What the judges of numbers ask for: no more than one pass gives. ``_exact_enough`` asks for the rest, and says
    what a term left out has to do with it."""
    return jnp.dot(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


EXERCISE = Exercise(
    id="07.9",
    title="From an empty cell: float32 out of bfloat16",
    kind="write",
    defines="careful",
    inputs=("x: f32[M,K]", "y: f32[K,N]"),
    sizes=({"M": 64, "K": 512, "N": 256}, {"M": 72, "K": 300, "N": 200}, {"M": 5, "K": 130, "N": 70}),
    reference=_one_pass,
    also=(_of_bfloat16_alone, _exact_enough, _serves_long_sums),
    hints=(
        "a.astype(jnp.bfloat16) keeps the leading bits. What is left of a when you take them away, and how many "
        "bits of that does another bfloat16 keep?",
        "Mask the float32 blocks first, where K hangs over; then split them: x1, x2, y1, y2. Three of the four "
        "products count.",
        "o_ref is float32, so it can hold the sum: o_ref[...] += dot(x2, y1) + dot(x1, y2) + dot(x1, y1), each with "
        "preferred_element_type=jnp.float32.",
    ),
    points=4,
)
