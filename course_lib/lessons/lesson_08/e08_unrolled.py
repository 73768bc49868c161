"""The effect of `unroll` on three loops."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

OPTIONS = ("fewer", "the same", "refused")


def _two_tanhs(n_ref, x_ref, o_ref, unroll, turns):
    def turn(i, carry):
        o_ref[i] = jnp.tanh(jnp.tanh(x_ref[i]))
        return carry

    jax.lax.fori_loop(0, turns(n_ref), turn, 0, unroll=unroll)


def _largest(n_ref, x_ref, o_ref, unroll):
    def turn(i, carry):
        return jnp.maximum(carry, x_ref[i])

    o_ref[0] = jax.lax.fori_loop(0, 64, turn, x_ref[0], unroll=unroll)


def _found(kernel) -> str:
    """Return how unroll=4 compares with unroll=1, according to the compiler."""
    x = jax.ShapeDtypeStruct((64, 8, 128), jnp.float32)
    n = jax.ShapeDtypeStruct((1,), jnp.int32)
    specs = [pl.BlockSpec(memory_space=space) for space in (pltpu.SMEM, pltpu.VMEM)]
    reports = []
    for unroll in (1, 4):

        def call(n, x, unroll=unroll):
            def body(*refs):
                kernel(*refs, unroll)

            return pl.pallas_call(body, out_shape=x, in_specs=specs)(n, x)

        reports.append(compiler.compile_tpu(call, n, x))
    once, four = reports
    if not four.ok:
        return "refused"
    return "the same" if four.cycles == once.cycles else "fewer" if four.cycles < once.cycles else "more"


PARTS = {
    "A": Choose(
        options=OPTIONS,
        right="fewer",
        wrong={
            "the same": "Is anything carried from iteration to iteration?",
            "refused": "The number of iterations is known, so nothing prevents writing four of them out.",
        },
        why="four chains fill each other's gaps.",
        proof=lambda: _found(lambda n, x, o, unroll: _two_tanhs(n, x, o, unroll, lambda n: 64)),
    ),
    "B": Choose(
        options=OPTIONS,
        right="the same",
        wrong={
            "fewer": "The loop carries a register. What did the lesson's carried loop gain?",
            "refused": "The loop compiles. What did the lesson's carried loop gain?",
        },
        why="its carry changes, and the compiler does not unroll such a loop.",
        proof=lambda: _found(_largest),
    ),
    "C": Choose(
        options=OPTIONS,
        right="refused",
        wrong={
            "fewer": "What writes the iterations out, and when? Is n_ref[0] known at that time?",
            "the same": "JAX has something to say before the compiler does. What must be known when a kernel is "
            "traced?",
        },
        why="the number of iterations is known only when the kernel runs.",
        proof=lambda: _found(lambda n, x, o, unroll: _two_tanhs(n, x, o, unroll, lambda n: n[0])),
    ),
}

EXERCISE = Exercise(
    id="08.8",
    title="Choose: what does unroll do?",
    kind="several",
    defines="unrolled",
    asks=Several(parts=PARTS, why="unroll helps loops that carry nothing, if the number of iterations is known."),
    hints=(
        "For each loop ask two things: does it carry anything, and is the number of iterations known?",
        "The lesson has a table with three loops. Which of them is like A, and which is like B? For C, when does "
        "fori_loop look at its bounds?",
        "Try C: write the kernel, trace it with unroll=4, and read what JAX says.",
    ),
    points=1,
)
