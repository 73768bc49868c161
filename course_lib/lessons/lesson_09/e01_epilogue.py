"""A matmul with a bias and an activation as epilogue, applied once per output block."""

import jax
import jax.numpy as jnp

from course_lib import grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit

ACTIVATIONS = {128: jax.nn.relu, 256: jax.nn.gelu, 384: jax.nn.silu}  # by the rows of x: each judge sees all of them


def _sizes() -> list[tuple]:
    """Return sizes that blocks of 128 divide, one to three along K; each number of rows has its own activation."""
    inputs = ("x: T[M,K]", "w: T[K,N]", "b: T[N]")
    sizes = ({"M": 128, "K": 256, "N": 256}, {"M": 256, "K": 128, "N": 128}, {"M": 384, "K": 256, "N": 128})
    cases = [
        *arguments(tuple(text.replace("T", "f32") for text in inputs), sizes),
        *arguments(tuple(text.replace("T", "bf16") for text in inputs), sizes[:1]),
    ]
    return [(x, w, _raised(x, w, b)) for x, w, b in cases]


def _raised(x, w, b):
    """Raise the bias so that most sums are positive: a ReLU that zeroes half of them would hide half the mistakes."""
    sums = jnp.dot(x, w, preferred_element_type=jnp.float32)
    return (b + jnp.std(sums)).astype(b.dtype)


def _with_each(layer):
    """Return the layer with the activation that belongs to the rows of x."""

    def activated(x, w, b):
        return layer(x, w, b, ACTIVATIONS[x.shape[0]])

    return activated


def _reference(x, w, b):
    z = jnp.dot(x, w, preferred_element_type=jnp.float32) + b.astype(jnp.float32)
    return ACTIVATIONS[x.shape[0]](z).astype(x.dtype)


def _rows_of_bias(layer):
    """Return ``_with_each(layer)``. Raise Unfit if a kernel gets b as a 1-D array cut into blocks."""
    x, w = jax.ShapeDtypeStruct((128, 256), jnp.float32), jax.ShapeDtypeStruct((256, 256), jnp.float32)
    try:
        calls = grid.walk(_with_each(layer), x, w, jax.ShapeDtypeStruct((256,), jnp.float32)).calls
    except Exception:  # the judges report any error when they run it
        return _with_each(layer)
    if any(o.shape == (256,) and o.block_shape != o.shape for call in calls for o in call.operands):
        raise Unfit(
            "The kernel gets b as (N,) and cuts it into blocks of one axis. A block of (128,) is legal for only a few "
            "N, and for even fewer in bfloat16.",
            "pass b as b.reshape(1, -1), in blocks of (1, 128) at (0, j).",
            headline="the bias is in blocks of one axis.",
        )
    return _with_each(layer)


def _once_for_each_block(layer):
    """Demand that K is in the grid, and that the activation runs in only one step along K.

    The test activation is one that no kernel uses otherwise, and the steps in which it runs are counted.
    """
    x, w = jax.ShapeDtypeStruct((128, 384), jnp.float32), jax.ShapeDtypeStruct((384, 128), jnp.float32)
    b = jax.ShapeDtypeStruct((128,), jnp.float32)
    calls = grid.walk(lambda x, w, b: layer(x, w, b, jnp.sinh), x, w, b).calls
    if [call.grid for call in calls] != [(1, 1, 3)]:
        return (
            f"For K = 384 the grid is {', '.join(str(call.grid) for call in calls)}; with blocks of 128 along "
            "all three axes and K last, it would be (1, 1, 3).",
            "cut K into blocks as well, with x in (128, 128) at (i, k) and w in (128, 128) at (k, j).",
        )
    runs = grid.body(calls[0]).runs
    times = sum(times for eqn, times in runs if eqn.primitive.name == "sinh")
    if times > 1:
        return (
            f"The result is right, but the activation runs more than once. For K = 384 it runs {times} times for each "
            "block of the result, and only the last of these results is kept.",
            "move it to where the sum is finished: under pl.when(k == last), with the bias and the write to o_ref.",
        )
    return None


EXERCISE = Exercise(
    id="09.1",
    title="An epilogue: bias and activation",
    kind="write",
    defines="layer",
    cases=_sizes,
    reference=_reference,
    slips=(
        judges.Slip(
            means="the bias is added after the activation",
            value=lambda x, w, b: _reference(x, w, 0 * b) + b,
            next="add the bias first: activation(x @ w + b).",
        ),
    ),
    build=_rows_of_bias,
    also=(_once_for_each_block,),
    probes=(
        judges.Probe(
            scratch="acc_ref",
            place=0,
            after=(0, 0, 0),
            expect=lambda x, w, b: jnp.dot(x[:128, :128], w[:128, :128], preferred_element_type=jnp.float32),
            means="the product of the first blocks, and nothing else",
            next="apply bias and activation only in the last step along K, because the sum is not finished earlier.",
        ),
    ),
    hints=(
        "It is lesson 7's tiled matmul with one more part, which runs when the sum of a block is finished. Which grid "
        "step is that?",
        "Pass the bias as (1, N), in blocks of (1, 128). Which of i, j and k does its index map use? Accumulate in a "
        "scratch pltpu.VMEM((128, 128), jnp.float32).",
        "Under pl.when(pl.program_id(2) == pl.num_programs(2) - 1), compute z = acc_ref[...] + "
        "b_ref[...].astype(jnp.float32), then store o_ref[...] = activation(z).astype(o_ref.dtype). The map of b is "
        "lambda i, j, k: (0, j).",
    ),
    points=2,
)
