"""A kernel to repair, which computes only those blocks of a matmul that flags ask for."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_12.lists import SIDE

FLAGS = (
    ((0, 0, 1, 0), (1, 0, 0, 1)),
    ((1, 0, 0), (0, 1, 0), (0, 0, 0), (0, 1, 1)),
    ((0, 1),),
    ((0, 0, 1, 0), (0, 1, 0, 0)),
)


def _cases() -> list[tuple]:
    """Return flags that are not square, where the first step may be unwanted and a row may have no wanted block."""
    return [
        (q, k, jnp.array(wanted, jnp.int32))
        for wanted in FLAGS
        for q, k in arguments(
            ("q: f32[M,128]", "k: f32[N,128]"), ({"M": SIDE * len(wanted), "N": SIDE * len(wanted[0])},)
        )
    ]


def _spread(wanted):
    return jnp.repeat(jnp.repeat(wanted, SIDE, axis=0), SIDE, axis=1)


def _wanted(q, k, wanted):
    return jnp.where(_spread(wanted) == 1, jnp.dot(q, k.T, precision="highest"), 0)


def _where(flags, q, k, wanted):
    """Return the blocks that ``flags`` let through, computed with the k block that is in VMEM: the last wanted one."""
    down, across = wanted.shape
    step = jnp.arange(wanted.size)
    last = jax.lax.cummax(jnp.where(wanted.reshape(-1) == 1, step, -1))
    there = jnp.where(last < 0, jnp.argmax(wanted.reshape(-1)), last) % across
    products = jnp.einsum(
        "iqd,ijkd->iqjk",
        q.reshape(down, SIDE, -1),
        k.reshape(across, SIDE, -1)[there].reshape(down, across, SIDE, -1),
        precision="highest",
    )
    return jnp.where(_spread(flags) == 1, products.reshape(len(q), len(k)), 0)


def _turned(q, k, wanted):
    down, across = wanted.shape
    flags = wanted.reshape(-1)[(jnp.arange(across)[None, :] * down + jnp.arange(down)[:, None]) % wanted.size]
    return _where(flags, q, k, wanted)


def _no_copy_without_work(wanted_scores):
    """Demand that k's block at a step without work is the one that is there, or the next one needed."""
    for q, k, wanted in _cases():
        (call,) = grid.walk(wanted_scores, q, k, wanted).calls
        blocks, works = call.inputs[1].indices[:, 0].tolist(), np.asarray(wanted).reshape(-1) == 1
        for n in np.flatnonzero(~works).tolist():
            needed = [blocks[later] for later in np.flatnonzero(works).tolist() if later > n][:1]
            if blocks[n] not in (blocks[n - 1 : n] + needed):
                there = f"Block {blocks[n - 1]} was in VMEM before" if n else "No block was in VMEM before"
                comes = f", and the next one needed is block {needed[0]}" if needed else ", and no other is needed"
                return (
                    f"Step {call.step(n)} has nothing to do, but block {blocks[n]} of k is copied for it, with "
                    f"wanted = {np.asarray(wanted).tolist()}. {there}{comes}.",
                    "let the list name a block that costs no extra copy.",
                )
    return None


def _no_product_without_need(wanted_scores):
    """Demand that the matmul stands under a condition: with a `where` around it, every step computes it."""
    (call,) = grid.walk(wanted_scores, *_cases()[0]).calls
    if any(eqn.primitive.name == "dot_general" for eqn in call.kernel.eqns):
        return (
            "Every step computes its matmul, and drops the result where it is not wanted.",
            "put the matmul under pl.when(flag == 1).",
        )
    return None


EXERCISE = Exercise(
    id="12.7",
    title="Repair: blocks that nobody wants",
    kind="repair",
    defines="scores_kernel",
    judged="wanted_scores",
    cases=_cases,
    reference=_wanted,
    arithmetic_around=True,
    also=(_no_copy_without_work, _no_product_without_need),
    slips=(
        judges.Slip(
            means="the kernel reads the flags column by column",
            value=_turned,
            next="the flags are stored row by row, so flag (i, j) is number i * pl.num_programs(1) + j.",
        ),
        judges.Slip(
            means="the kernel computes every block, wanted or not",
            value=lambda q, k, wanted: _where(jnp.ones_like(wanted), q, k, wanted),
            next="look at the flag first, and write zeros where it is 0.",
        ),
    ),
    hints=(
        "Ask three questions: which flag belongs to step (i, j), what does o_ref hold where nothing was written, and "
        "what does the index map of k return in a step without work?",
        "In a step without work, the map of k may return any block that costs no extra copy: the one in VMEM, or the "
        "next one needed. Before the first wanted block only the next one needed will do.",
        "Number the steps from 0. Then jax.lax.cummax(jnp.where(wanted, step, -1)) is the last wanted step so far, or "
        "-1 before the first one; replace -1 by the first wanted step. The remainder of that step by `across` is the "
        "block of k.",
    ),
    points=3,
)
