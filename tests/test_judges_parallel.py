"""Axes marked "parallel": two cores share them wherever they stand in the grid, and carry nothing along them."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import grid, judges
from course_lib.judges.reading import order

X = jax.random.normal(jax.random.key(0), (16, 512))
VMEM = pltpu.VMEM((8, 128), jnp.float32)
BLOCK = pl.BlockSpec((8, 128), lambda i, j: (i, j))
LATE = ("arbitrary", "parallel")


def by_blocks(kernel, *scratch, semantics=LATE, sizes=(2, 4), block=BLOCK, out=BLOCK, shape=X.shape):
    return pl.pallas_call(
        kernel,
        grid=sizes,
        in_specs=[block],
        out_specs=out,
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )


def running(x_ref, o_ref, sum_ref):
    """A running sum along axis 1."""

    @pl.when(pl.program_id(1) == 0)
    def begin():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += x_ref[...]
    o_ref[...] = sum_ref[...]


def running_sums(x):
    return jnp.cumsum(x.reshape(16, 4, 128), axis=1).reshape(16, 512)


def first_kept(x_ref, o_ref, first_ref):
    """The first block of each row of blocks is kept for the others."""

    @pl.when(pl.program_id(1) == 0)
    def keep():
        first_ref[...] = x_ref[...]

    o_ref[...] = x_ref[...] + first_ref[...]


def with_the_first(x):
    parts = x.reshape(16, 4, 128)
    return (parts + parts[:, :1]).reshape(16, 512)


def numbered(x_ref, o_ref, count_ref):
    @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
    def begin():
        count_ref[0] = 0

    count_ref[0] += 1
    o_ref[...] = x_ref[...] * count_ref[0].astype(jnp.float32)


def by_their_numbers(x):
    return (x.reshape(2, 8, 4, 128) * (1 + jnp.arange(8.0).reshape(2, 4))[:, None, :, None]).reshape(16, 512)


def in_the_output(x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def begin():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def each_its_own(x_ref, o_ref, sums_ref):
    """A running sum along axis 0, with scratch for every place on axis 1."""
    at = pl.program_id(1)

    @pl.when(pl.program_id(0) == 0)
    def begin():
        sums_ref[at] = jnp.zeros((8, 128))

    sums_ref[at] += x_ref[...]
    o_ref[...] = sums_ref[at]


def down(x):
    return jnp.cumsum(x.reshape(2, 8, 512), axis=0).reshape(16, 512)


def within_a_step(x_ref, o_ref, twice_ref):
    twice_ref[...] = 2 * x_ref[...]
    o_ref[...] = twice_ref[...]


def read_and_dropped(x_ref, o_ref, last_ref):
    o_ref[...] = 2 * x_ref[...] + jnp.where(pl.program_id(1) < 9, 0, last_ref[...])
    last_ref[...] = x_ref[...]


def kept_in_an_output(x_ref, o_ref, kept_ref):
    """What others keep in scratch, in an output with one block."""
    kept_ref[...] = 2 * x_ref[...]
    o_ref[...] = kept_ref[...]


def with_a_second(semantics, returned):
    """Double x by way of a second output; ``returned``: which of the outputs the function returns."""
    fn = pl.pallas_call(
        kept_in_an_output,
        grid=(2, 4),
        in_specs=[BLOCK],
        out_specs=[BLOCK, pl.BlockSpec((8, 128), lambda i, j: (0, 0))],
        out_shape=[X, jax.ShapeDtypeStruct((8, 128), X.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )
    return lambda x: fn(x)[:returned] if returned > 1 else fn(x)[0]


THREE = pl.BlockSpec((8, 128), lambda i, j, k: (i, 2 * j + k))
SUMS = {"out": pl.BlockSpec((8, 128), lambda i, j: (i, 0)), "shape": (16, 128)}
TWO_PLACES = {"out": pl.BlockSpec((8, 128), lambda i, j: (i, j % 2)), "shape": (16, 256)}
CARRIED = {
    "a sum in scratch": (by_blocks(running, VMEM), running_sums, "sum_ref carries values"),
    "what the first step found": (by_blocks(first_kept, VMEM), with_the_first, "first_ref carries values"),
    "a count in SMEM": (by_blocks(numbered, pltpu.SMEM((1,), jnp.int32)), by_their_numbers, "count_ref carries"),
    "a sum in an output": (
        by_blocks(in_the_output, **SUMS),
        lambda x: x.reshape(16, 4, 128).sum(1),
        "both write block",
    ),
    "under vmap": (
        lambda x: jax.vmap(by_blocks(running, VMEM))(jnp.stack([x, -x])),
        lambda x: jnp.stack([running_sums(x), -running_sums(x)]),
        "Axis 2 of the grid is marked",
    ),
}
APART = {
    "nothing": (by_blocks(lambda x_ref, o_ref: o_ref.__setitem__(..., 2 * x_ref[...])), lambda x: 2 * x),
    "within a step": (by_blocks(within_a_step, VMEM), lambda x: 2 * x),
    "read and dropped": (by_blocks(read_and_dropped, VMEM), lambda x: 2 * x),
    "along the other axis": (by_blocks(each_its_own, pltpu.VMEM((4, 8, 128), jnp.float32)), down),
    "along the last axis": (by_blocks(running, VMEM, semantics=("parallel", "arbitrary")), running_sums),
}


# What the first step found lies in scratch, as a sum does.
@pytest.mark.parametrize("name", daily(*[name for name in CARRIED if "first" not in name], of=CARRIED))
def test_what_is_carried_along_a_late_parallel_axis_is_refused(name):
    fn, reference, words = CARRIED[name]
    assert judges.simulator_judge(fn, reference, X).passed
    said = judges.races_judge(fn, reference, X)
    assert said.passed is False and words in said.message and "two cores may share it" in said.message, said
    assert "mark axis" in said.next and '"arbitrary"' in said.next


@pytest.mark.parametrize("name", APART)
def test_a_late_parallel_axis_that_carries_nothing_is_accepted(name):
    said = judges.races_judge(*APART[name], X)
    assert said.passed and not said.message, said


def test_one_core_is_told_the_truth():
    said = judges.races_judge(*CARRIED["a sum in scratch"][:2], X, chip="v5p")
    assert "A v4 or v5p has two cores. On a chip with one, such as the v5e, the steps run in order" in said.message


def test_the_axis_in_the_middle_of_three():
    three = by_blocks(
        running, VMEM, semantics=("arbitrary", "parallel", "arbitrary"), sizes=(2, 2, 2), block=THREE, out=THREE
    )
    said = judges.races_judge(three, by_halves, X)
    assert said.passed is False and "Axis 1 of the grid" in said.message and "sum_ref carries" in said.message


def by_halves(x):
    """What ``running`` makes of a grid of (2, 2, 2): it begins anew where axis 1 is 0, at both places of axis 2."""
    parts = x.reshape(16, 4, 128)
    return jnp.stack([parts[:, 0], parts[:, 1], parts[:, 1] + parts[:, 2], parts[:, 1:4].sum(1)], axis=1).reshape(
        16, 512
    )


def test_blocks_that_steps_share_need_not_be_neighbours():
    walk = grid.walk(by_blocks(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), **TWO_PLACES), X)
    assert "steps (0, 0) and (0, 2) both write block (0, 0) of o_ref" in order.shared_block(walk).what


@pytest.mark.parametrize(
    "semantics", [("parallel", "arbitrary"), LATE, pytest.param(("parallel", "parallel"), marks=pytest.mark.sweep)]
)
def test_an_output_that_two_cores_write_and_nobody_reads_is_a_remark(semantics):
    said = judges.races_judge(with_a_second(semantics, returned=1), lambda x: 2 * x, X)
    assert said.passed and "write block (0, 0) of kept_ref. Nothing reads kept_ref" in said.message, said


def test_an_output_that_two_cores_write_and_somebody_reads_is_refused():
    fn = with_a_second(("parallel", "arbitrary"), returned=2)
    said = judges.races_judge(fn, lambda x: [2 * x, 2 * x[8:, 384:]], X)
    assert said.passed is False and "both write block (0, 0) of kept_ref" in said.message


def in_place(rows, reads=True, marks=("parallel",), aliased=True, body=lambda x: x + 1):
    """``body`` of x, or 1, in ``rows`` blocks, in the memory of x."""
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def kernel(x_ref, o_ref):
        o_ref[...] = body(x_ref[...]) if reads else jnp.ones_like(o_ref)

    return pl.pallas_call(
        kernel,
        grid=(rows,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((8 * rows, 128), jnp.float32),
        input_output_aliases={0: 0} if aliased else {},
        compiler_params=pltpu.CompilerParams(dimension_semantics=marks),
    )


def test_a_step_that_a_second_core_repeats_in_place_is_refused_where_there_are_two():
    x = jnp.ones((24, 128))
    said = judges.races_judge(in_place(3), lambda x: x + 1, x, chip="v5p")
    assert said.passed is False and "step (0,) may be applied twice" in said.message
    assert said.next == 'make the number of steps along axis 0 even, or mark it "arbitrary".'
    said = judges.races_judge(in_place(3), lambda x: x + 1, x)  # a v5e has one core
    assert said.passed and "on a chip with two cores, such as the v5p" in said.message


@pytest.mark.parametrize(
    ("rows", "how"),
    [(4, {}), (3, {"marks": ("arbitrary",)}), (3, {"reads": False}), (3, {"aliased": False}), (1, {})],
    ids=["even", "not shared", "not read", "not in place", "one step"],
)
def test_a_step_may_be_repeated_if_it_finds_what_it_found_before(rows, how):
    assert order.repeated_in_place(grid.walk(in_place(rows, **how), jnp.ones((8 * rows, 128)))) is None


def test_what_changes_nothing_if_repeated_is_not_refused():
    def relu(x):
        return in_place(3, body=lambda x: jnp.maximum(x, 0))(x)

    x = jax.random.normal(jax.random.key(0), (24, 128))
    assert judges.races_judge(relu, lambda x: jnp.maximum(x, 0), x, chip="v5p").passed
