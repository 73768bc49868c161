"""Project: a linear layer and its cross-entropy in one kernel, and their gradient.

Contract  x: bfloat16[T, D], w: bfloat16[D, V], y: int32[T] with 0 <= y < V -> loss: float32[T], where loss[t] is
          logsumexp(z[t]) - z[t, y[t]] for the logits z = x @ w. They are never in HBM. T is a multiple of 8 and D of
          128; V may be any size. T D is at most 2**22.
Gradient  with respect to x and w, in bfloat16: dz = g * (softmax(z) - onehot(y)), dx = dz @ w.T and dw = x.T @ dz. Both
          matmuls may take dz rounded to bfloat16. The logits are computed again.
Accuracy  logits and sums in float32.
Ideal     2 T D V FLOPs at the MXUs' peak, and three times as many for the gradient.
"""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

SMALL = ((64, 128, 512), (32, 256, 1000), (16, 128, 100), (136, 128, 2200))  # T, D, V


def shapes(t: int, d: int, v: int) -> tuple:
    """Return x, w and y of these sizes without values."""
    x, w = jax.ShapeDtypeStruct((t, d), jnp.bfloat16), jax.ShapeDtypeStruct((d, v), jnp.bfloat16)
    return x, w, jax.ShapeDtypeStruct((t,), jnp.int32)


LARGE = shapes(2048, 1024, 32768)
IDEAL = Ideal(flops=2 * 2048 * 1024 * 32768, hbm_bytes=moved_once(LARGE, jax.ShapeDtypeStruct((2048,), jnp.float32)))


def logits(x, w):
    """Return z in float32."""
    return jnp.dot(x, w, preferred_element_type=jnp.float32)


def reference(x, w, y):
    """Return the loss of each row."""
    z = logits(x, w)
    return jax.nn.logsumexp(z, axis=1) - jnp.take_along_axis(z, y[:, None], axis=1)[:, 0]


def gradients(x, w, y, g):
    """Return dx and dw, with dz in bfloat16."""
    p = jax.nn.softmax(logits(x, w), axis=1)
    dz = ((p - jax.nn.one_hot(y, w.shape[1])) * g[:, None]).astype(jnp.bfloat16)
    dx = jnp.dot(dz, w.T, preferred_element_type=jnp.float32)
    return dx.astype(x.dtype), jnp.dot(x.T, dz, preferred_element_type=jnp.float32).astype(w.dtype)


def cases() -> list[tuple]:
    """Return x, w and y at each size; the last logits are far above 88, where exp overflows."""
    made = []
    for seed, (t, d, v) in enumerate(SMALL):
        high = 8 if seed == len(SMALL) - 1 else 1
        x, w = (values.uniform(seed, *size, high=high, dtype="bfloat16") for size in ((t, d), (d, v)))
        y = values.integers(seed, t, low=0, high=v).at[0].set(v - 1).at[1].set(0)
        made.append((x, w, y))
    return made


def _not_of_the_label(x, w, y):
    """Return the loss without the label's logit."""
    return jax.nn.logsumexp(logits(x, w), axis=1)


def _without_one_hot(x, w, y, g):
    """Return the gradients if dz lacks the label's -1."""
    dz = (jax.nn.softmax(logits(x, w), axis=1) * g[:, None]).astype(jnp.bfloat16)
    dx = jnp.dot(dz, w.T, preferred_element_type=jnp.float32).astype(x.dtype)
    return dx, jnp.dot(x.T, dz, preferred_element_type=jnp.float32).astype(w.dtype)


def _every_row_alike(x, w, y, g):
    """Return the gradients if the cotangent is taken for 1."""
    return gradients(x, w, y, jnp.ones_like(g))


EXERCISE = Exercise(
    id="18.8",
    title="Project: a linear layer and its cross-entropy",
    kind="project",
    defines="cross_entropy",
    cases=cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="the logit of the label is not subtracted",
            value=_not_of_the_label,
            next="in the block of columns that contains y[t], pick out z[t, y[t]].",
        ),
    ),
    gradient=judges.Gradient(
        of=("x", "w"),
        reference=gradients,
        slips=(
            judges.Slip(
                means="dz lacks the -1 of the label",
                value=_without_one_hot,
                next="subtract 1 from softmax(z) in the column of the label, and multiply by g after that.",
            ),
            judges.Slip(
                means="the cotangent is missing",
                value=_every_row_alike,
                next="multiply row t of dz by g[t].",
            ),
        ),
    ),
    golf=Golf(unit=CYCLES, par=1_300_000, at=lambda: LARGE, floor=IDEAL.cycles() * 9 // 10),
    project=rival.against("18.8", IDEAL),
    hints=(
        "The softmax of lesson 8 goes through a row in blocks of columns with a running maximum and a running sum. "
        "Here each block of columns is a matmul.",
        "Keep all rows of x in VMEM if they fit, and let blocks of w go by: then w is read once. In the last block, "
        "columns from V on are garbage: give them the logit -inf.",
        "To pick out the label's logit, compare the numbers of the block's columns with y[t] and sum what is equal. "
        "For the gradient keep logsumexp: with it one pass over w computes softmax(z), sums dx in VMEM and writes dw.",
    ),
    points=8,
)
