"""The wrong line of a listing: a copy that is waited for twice."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.find import Find

NEGATED = """\
def negated(x):
    chunks = x.shape[0] // 16

    def kernel(x_ref, o_hbm, out_ref, out_sem):
        def send(i):
            b = jax.lax.rem(i, 2)
            rows = pl.ds(16 * i, 16)
            return pltpu.make_async_copy(out_ref.at[b], o_hbm.at[rows], out_sem.at[b])

        @pl.loop(0, chunks)
        def turn(i):
            out_ref[jax.lax.rem(i, 2)] = -x_ref[pl.ds(16 * i, 16)]
            send(i).start()

            @pl.when(i >= 1)
            def before():
                send(i - 1).wait()

        send(chunks - 2).wait()

    return pl.pallas_call(
        kernel,
        out_shape=x,
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.VMEM((2, 16, x.shape[1]), x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)
"""


def _chunks() -> list[tuple]:
    """Return arrays of two chunks and more, in whole tiles."""
    return arguments(("x: f32[M,N]",), ({"M": 64, "N": 256}, {"M": 32, "N": 128}, {"M": 80, "N": 128}))


EXERCISE = Exercise(
    id="05.8",
    title="Find the line",
    kind="find",
    defines="line",
    listing=NEGATED,
    cases=_chunks,
    reference=lambda x: -x,
    asks=Find(
        line=19,
        fixed="        send(chunks - 1).wait()",
        function="negated",
        refused_by="simulator",
        near={
            6: "Block i in buffer i mod 2, and its semaphore has the same number. There are two of each.",
            12: "This writes the buffer of block i. The block that was there before, i - 2, was waited for in the turn "
            "before.",
            13: "Each block is sent off once.",
            15: "In turn 0 there is no block before.",
            17: "In turn i this waits for the block before, which was sent off in the turn before. Which blocks has "
            "the loop waited for when it ends?",
        },
        why="the loop has waited for that block already, and nobody has for the last one.",
    ),
    hints=(
        "Write down for four chunks: start 0, start 1, wait 0 ... to the end.",
        "Count for each block its starts and its waits. Which has two waits, and which has none?",
        "When the loop ends, all blocks but the last have been waited for.",
    ),
    points=1,
)
