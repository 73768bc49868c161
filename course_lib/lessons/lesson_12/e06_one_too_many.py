"""The wrong line of a published kernel, which reads past the end of a prefetched list."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.find import Find
from course_lib.lessons.lesson_12.lists import SIDE, bfloat16, block_product, int32

PUBLISHED = """\
def sparse_kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref, acc_ref):
    blocks = pl.num_programs(1)
    t = pl.program_id(1)
    is_start = t == 0
    changed = rows_ref[t] != rows_ref[jnp.maximum(t - 1, 0)]

    @pl.when(is_start | changed)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(a_ref[0], b_ref[...], preferred_element_type=jnp.float32)

    is_end = t == blocks - 1

    next_changes = rows_ref[t] != rows_ref[jnp.minimum(t + 1, blocks)]

    @pl.when(is_end | next_changes)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def sparse_product(values, rows, cols, b):
    out = pl.BlockSpec((128, 128), lambda j, t, rows_ref, cols_ref: (rows_ref[t], j))
    return pl.pallas_call(
        sparse_kernel,
        out_shape=jax.ShapeDtypeStruct((3 * 128, b.shape[1]), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(b.shape[1] // 128, len(rows)),
            in_specs=[
                pl.BlockSpec((1, 128, 128), lambda j, t, rows_ref, cols_ref: (t, 0, 0)),
                pl.BlockSpec((128, 128), lambda j, t, rows_ref, cols_ref: (cols_ref[t], j)),
            ],
            out_specs=out,
            scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        ),
    )(rows, cols, values, b)
"""


def _cases() -> list[tuple]:
    lists = ((0, 0, 1, 1, 1, 2), (0, 2, 1, 2, 3, 0)), ((0, 1, 2), (1, 1, 0)), ((0, 1, 1, 2), (0, 0, 1, 1))
    return [
        (bfloat16(n, len(rows), SIDE, SIDE), int32(*rows), int32(*cols), bfloat16(10 + n, 4 * SIDE, 256))
        for n, (rows, cols) in enumerate(lists)
    ]


EXERCISE = Exercise(
    id="12.6",
    title="Find the line: a published kernel",
    kind="find",
    defines="line",
    listing=PUBLISHED,
    cases=_cases,
    reference=lambda values, rows, cols, b: block_product(values, rows, cols, b, 3),
    asks=Find(
        line=15,
        fixed="    next_changes = rows_ref[t] != rows_ref[jnp.minimum(t + 1, blocks - 1)]",
        function="sparse_product",
        refused_by="simulator",
        near={
            2: "The grid is (panels, blocks), so this is the number of blocks, the length of the list.",
            3: "Axis 1 of the grid counts the blocks, as intended.",
            5: "In step 0 this line reads entry 0 twice. Which is the largest entry that it can read?",
            13: "t runs from 0 to blocks - 1, so this is true in the last step, as intended.",
            17: "This line decides when the sum is written. Which entries have been read by then?",
            22: "The index map of the result reads entry t, which exists in every step.",
        },
        why="in the last step it reads past the end of the list, which is_end hides.",
    ),
    hints=(
        "The simulator names the ref and the entry that was read. Which lines read rows_ref, and at which t could the "
        "index be 6?",
        "One line reads the entry before, and another reads the next one. A minimum or a maximum should keep both "
        "inside the list. How large can each index get?",
        "In the last step jnp.minimum(t + 1, blocks) is `blocks`, but the last entry of the list is number blocks - 1.",
    ),
    points=1,
)
