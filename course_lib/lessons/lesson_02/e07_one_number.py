"""The wrong line of a listing: it stores a scalar in a memory that holds only vectors."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.find import Find


def _blocks() -> list[tuple]:
    """Return two blocks; the sizes are fixed, because the wrong line is wrong for all of them."""
    return arguments(("x: f32[M,128]",), ({"M": 16},))


def _so_far(x):
    above = (x > 0).astype(jnp.int32).reshape(-1, 8 * 128).sum(axis=1)
    return jnp.broadcast_to(jnp.repeat(jnp.cumsum(above), 8)[:, None], x.shape)


EXERCISE = Exercise(
    id="02.7",
    title="Find the line",
    kind="find",
    defines="line",
    listing="""\
def count_kernel(x_ref, o_ref, total_ref):
    @pl.when(pl.program_id(0) == 0)
    def start():
        total_ref[0] = 0

    above = (x_ref[...] > 0).astype(jnp.int32)
    total_ref[0] += jnp.sum(above)
    o_ref[...] = jnp.full(o_ref.shape, total_ref[0])


def count(x):
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        count_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, jnp.int32),
        grid=(x.shape[0] // 8,),
        in_specs=[block],
        out_specs=block,
        scratch_shapes=[pltpu.VMEM((1,), jnp.int32)],
    )(x)
""",
    cases=_blocks,
    reference=lambda x: _so_far(x),
    asks=Find(
        line=19,
        fixed="        scratch_shapes=[pltpu.SMEM((1,), jnp.int32)],",
        function="count",
        refused_by="compiler",
        near={
            4: "0 is a single value, and total_ref[0] is a place for one. Is there a memory for single values?",
            7: "A sum over all axes is a single value, and it may be kept between steps. In which memory is it kept?",
            8: "A single value may be copied to all elements of a block; that is done in a register.",
        },
        next='the compiler says: "The kernel writes a scalar to VMEM, but the vector unit writes only whole registers '
        'there." So ask for every ref: which memory is it in, and which unit writes there?',
        why="a single value can be stored in SMEM only, because VMEM takes vectors.",
    ),
    hints=(
        "How many axes does total_ref[0] have? Which unit works on such a value, and which memory belongs to it?",
        "Single values are stored by the scalar unit, which cannot store them in VMEM.",
        "Look for the line that says in which memory total_ref is.",
    ),
    points=1,
)
