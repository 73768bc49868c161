"""Blocks of a product that a list of flags asks for: to be repaired."""

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
    """Return flags of matrices that are not square: the first step not wanted, a row without any."""
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
    """Return what ``flags`` let through, with the blocks of k that are there: those of the last wanted step."""
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
                there = f"before it there was {blocks[n - 1]}" if n else "nothing was there before"
                comes = f", and the next one needed is {needed[0]}" if needed else ", and no other is needed"
                return (
                    f"Step {call.step(n)} has nothing to do, and block {blocks[n]} of k is copied for it with "
                    f"wanted = {np.asarray(wanted).tolist()}: {there}{comes}.",
                    "let the list name a block that costs nothing.",
                )
    return None


def _no_product_without_need(wanted_scores):
    """Demand that the matmul stands under a condition: with a `where` around it, every step computes it."""
    (call,) = grid.walk(wanted_scores, *_cases()[0]).calls
    if any(eqn.primitive.name == "dot_general" for eqn in call.kernel.eqns):
        return (
            "Every step computes its matmul, and drops it where it is not wanted.",
            "put it under pl.when(flag == 1).",
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
            means="the flags were read column by column",
            value=_turned,
            next="they lie row by row: flag (i, j) is number i * pl.num_programs(1) + j.",
        ),
        judges.Slip(
            means="every block was computed",
            value=lambda q, k, wanted: _where(jnp.ones_like(wanted), q, k, wanted),
            next="look at the flag first, and write zeros where it is 0.",
        ),
    ),
    hints=(
        "Ask three questions: which flag belongs to step (i, j), what does o_ref hold where nothing was written, and "
        "what does the map of k return at a step without work?",
        "At a step without work, k's map may return any block that costs nothing: the one that is there, or the next "
        "one needed. In front of the first wanted block only the second will do.",
        "Number the steps 0, 1, 2 ... jax.lax.cummax(jnp.where(wanted, step, -1)) is the last wanted step so far, "
        "and -1 before the first: take the first wanted step there. Its remainder by `across` is the block of k.",
    ),
    points=3,
)
