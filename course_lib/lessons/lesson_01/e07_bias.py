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
            2: "Both blocks have the same shape, and their sum goes to the output, so the arithmetic is right.",
            6: "Step i gets block i of x, and every block of x is needed once.",
            7: "b has a single block, number 0. It is the right one at every step, and it is copied only once.",
            12: "There is one step for each block of x, which is as many as there should be.",
            14: "The specs come in the order of the kernel's refs, with the output last. What do the specs say?",
        },
        why="step i has a block of its own to write, which is block i.",
    ),
    hints=(
        "The kernel itself is right. Either it sees the wrong block, or what it writes lands in the wrong place.",
        "Take step 2. Which block of x and which block of b does it read, and where does the sum go?",
        "An index map that always returns 0 is right for an input that every step needs. For an output, it makes "
        "every step write the same block.",
    ),
    points=1,
)
