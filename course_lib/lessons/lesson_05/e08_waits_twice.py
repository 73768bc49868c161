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
            6: "Block i goes into buffer i mod 2 and on semaphore i mod 2, and there are two of each.",
            12: "This writes the buffer of block i. The block that was there before, i - 2, was waited for in the "
            "previous iteration.",
            13: "This line starts the copy of each block once, as it should.",
            15: "This condition is needed, because iteration 0 has no block before it.",
            17: "In iteration i, this waits for the copy that the previous iteration started. Which blocks has the "
            "loop waited for when it ends?",
        },
        why="the loop has already waited for that block, but not for the last one.",
    ),
    hints=(
        "Write down the starts and waits for four chunks in order, from start 0 and start 1 and wait 0 to the end.",
        "Count the starts and the waits of each block. Which block has two waits, and which one has none?",
        "When the loop ends, all blocks but the last have been waited for.",
    ),
    points=1,
)
