"""The wrong line of a listing: every step writes its sum to the same output block."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.find import Find

BIAS = """\
def bias_kernel(x_ref, b_ref, o_ref):
    o_ref[...] = x_ref[...] + b_ref[...]


def add_bias(x, b):
    x_block = pl.BlockSpec((1024,), lambda i: (i,))
    b_block = pl.BlockSpec((1024,), lambda i: (0,))
    o_block = pl.BlockSpec((1024,), lambda i: (0,))
    return pl.pallas_call(
        bias_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.size // 1024,),
        in_specs=[x_block, b_block],
        out_specs=o_block,
    )(x, b)
"""

EXERCISE = Exercise(
    id="01.7",
    title="Find the line",
    kind="find",
    defines="line",
    listing=BIAS,
    cases=lambda: arguments(("x: f32[N]", "b: f32[1024]"), ({"N": 4096}, {"N": 2048}, {"N": 3072})),
    reference=lambda x, b: x + jnp.tile(b, x.size // b.size),
    asks=Find(
        line=8,
        fixed="    o_block = pl.BlockSpec((1024,), lambda i: (i,))",
        function="add_bias",
        refused_by="numbers",
        near={
            2: "The blocks are alike in shape, and their sum goes to the output: the arithmetic is right.",
            6: "At step i it hands over block i of x, and every block of x is wanted once.",
            7: "b has one block, number 0. It is the right one at every step, and it is copied only once.",
            12: "One step for each block of x: that is as often as it should be.",
            14: "The specs stand in the order of the kernel's refs, outputs last. What do they say?",
        },
        why="each step has a block of its own to write, block i.",
    ),
    hints=(
        "The kernel itself is right: what it sees is wrong, or what it writes lands in the wrong place.",
        "Take step 2. Which block of x does it read, which of b, and where does the sum go?",
        "An index map that is right for an input that never changes is wrong for an output that does.",
    ),
    points=1,
)
