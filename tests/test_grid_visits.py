"""In which buffer a visit of an output block works: the rule, against the pipeline that JAX runs on a TPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, compiler, grid, judges
from course_lib.grid.visits import returns, visits
from course_lib.judges.reading import order

CORE = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
ROWS = 8

# The output block of each step, as a function of the step; and the blocks that keep their sum.
SEQUENCES = {
    "0,1,0,1": (4, lambda s: s % 2, {0, 1}),
    "0,1,1,0": (4, lambda s: jnp.minimum(s, 3 - s), {0, 1}),
    "0,0,1,1,0,0,1,1": (8, lambda s: s // 2 % 2, {0, 1}),
    "0,1,2,0,1,2": (6, lambda s: s % 3, set()),
    "0,1,2,2,1,0": (6, lambda s: jnp.minimum(s, 5 - s), {1, 2}),
    "0,1,2,3,0,1,2,3": (8, lambda s: s % 4, set()),
}


def sums_by_pipeline(steps, block):
    """x[8 * steps, 128] -> the sum of its blocks in each output block, in an emit_pipeline that may come back."""
    numbers = [int(block(s)) for s in range(steps)]
    firsts = {numbers.index(b) for b in numbers}

    def kernel(x_hbm, o_hbm):
        def add(x_ref, o_ref):
            s = pl.program_id(0)

            @pl.when(sum((s == first).astype(jnp.int32) for first in firsts) > 0)
            def zero():
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += x_ref[...]

        pltpu.emit_pipeline(
            add,
            grid=(steps,),
            in_specs=[pl.BlockSpec((ROWS, 128), lambda s: (s, 0))],
            out_specs=[pl.BlockSpec((ROWS, 128), lambda s: (block(s), 0))],
        )(x_hbm, o_hbm)

    out = jax.ShapeDtypeStruct((ROWS * (max(numbers) + 1), 128), jnp.float32)
    return pl.kernel(kernel, out_type=out, mesh=CORE)


def powers_of_two(steps):
    """Blocks of 1, 2, 4 ...: a sum of them says which they were."""
    return jnp.repeat(2.0 ** jnp.arange(steps), ROWS)[:, None] * jnp.ones((1, 128))


def predicted(output):
    """What each block holds at the end, by the rule: the value of its last visit."""
    left, ends, zeroed = {}, {}, set()
    for visit in visits(output):
        start = left.get(visit.finds, np.nan) if visit.block in zeroed else 0.0
        zeroed.add(visit.block)
        left[visit.number] = ends[visit.block[0]] = start + sum(2.0**s for s in range(visit.first, visit.last + 1))
    return [ends[b] for b in sorted(ends)]


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_rule_predicts_what_the_pipeline_of_a_tpu_computes(name):
    steps, block, kept = SEQUENCES[name]
    fn, x = sums_by_pipeline(steps, block), powers_of_two(steps)
    (pipeline,) = grid.inner_pipelines(grid.walk(fn, x).calls[0])
    (output,) = pipeline.outputs
    assert ",".join(map(str, output.indices[:, 0])) == name and output.buffers == 2
    (got,) = grid.run(grid.trace(fn, x), compat.interpret_params(), x)
    assert np.asarray(got)[::ROWS, 0].tolist() == predicted(output)
    numbers = output.indices[:, 0]
    right = [sum(2.0**s for s in np.flatnonzero(numbers == b)) for b in range(numbers.max() + 1)]
    assert {b for b, sum_ in enumerate(predicted(output)) if sum_ == right[b]} == kept
    lost = {r.visit.block[0] for r in returns(output) if not r.kept}
    assert {r.visit.block[0] for r in returns(output)} - lost <= kept and not lost & kept


def folded(blocks, buffers=2, collects=True):
    """The sum of two blocks of columns for ``blocks`` blocks of rows, the reduction first."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def zero():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] = o_ref[...] + x_ref[...] if collects else x_ref[...]

    mode = None if buffers == 2 else pl.Buffered(buffers)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS * blocks, 128), jnp.float32),
        grid=(2, blocks),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda k, i: (i, k))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda k, i: (i, 0), pipeline_mode=mode),
    )


def said_of(blocks, **how):
    x = jnp.arange(ROWS * blocks * 256.0).reshape(ROWS * blocks, 256)
    said = judges.simulator_judge(folded(blocks, **how), lambda x: x.reshape(len(x), 2, 128).sum(1), x)
    assert said.passed is False
    return said.message


def test_a_lost_sum_is_told_with_what_the_step_finds_instead():
    said = said_of(3)
    assert "(0, 0) of o_ref left VMEM after step (0, 0), and the grid came back to it at step (1, 0): the" in said
    assert "the running sum is gone. The buffer now holds what step (0, 1) left of block (1, 0)." in said


def test_a_sum_that_is_kept_by_luck_is_refused_and_called_so():
    said = said_of(2)
    assert "is gone" not in said and "came back to it at step (1, 0). Its sum is still there by luck" in said
    assert "two blocks and two buffers" in said and "With three blocks it would be lost" in said
    assert "nothing guarantees it" in said.lower()


BEHIND = {
    "nothing": (lambda fold: fold, True),
    "a jit": (jax.jit, True),
    "a second result": (lambda fold: lambda x: (fold(x), fold(x + 1)), True),
    "an operation": (lambda fold: lambda x: fold(x) * 2, False),
    "an operation, in a jit": (lambda fold: jax.jit(lambda x: jax.jit(fold)(x) * 2), False),
    "an operation beside the result": (lambda fold: lambda x: (lambda y: (y, y + 1))(fold(x)), False),
}


@needs_libtpu
@pytest.mark.parametrize("behind", BEHIND)
def test_where_an_operation_follows_the_output_may_lie_in_vmem(behind):
    """As the compiler puts it; and then nothing is called lost, or kept, without an if."""
    around, in_hbm = BEHIND[behind]
    fn, x = around(folded(3)), jnp.ones((ROWS * 3, 256))
    kept = [
        note
        for note in compiler.compile_tpu(fn, x, simulate=False).notes
        if "XLA keeps o_ref of kernel in VMEM" in note
    ]
    assert bool(kept) != in_hbm
    said = order.revisit(grid.walk(fn, x)).what
    assert ("left VMEM" in said) == in_hbm and ("what it finds there is undefined. If o_ref" in said) != in_hbm


@pytest.mark.parametrize(
    "blocks, collects, says",
    [
        (3, True, "the running sum is gone: the buffer now holds what step (0, 1) left of block (1, 0). If XLA keeps"),
        (3, False, "If o_ref lies in HBM, it finds what step (0, 1) left of block (1, 0). If XLA keeps all of it in"),
        (2, True, "the block happens to get the buffer that it left, which still holds its values. If XLA"),
    ],
)
def test_what_may_be_found_is_said_for_both_places(blocks, collects, says):
    fn = lambda x: folded(blocks, collects=collects)(x) * 2  # noqa: E731
    said = order.revisit(grid.walk(fn, jnp.ones((ROWS * blocks, 256)))).what
    assert said.startswith(
        "The grid leaves output block (0, 0) of o_ref after step (0, 0) and comes back to it at step"
    )
    assert says in said and said.endswith("its own memory and keeps its values.")


def test_the_judge_refuses_it_wherever_it_lies():
    x = jnp.arange(ROWS * 3 * 256.0).reshape(ROWS * 3, 256)
    said = judges.simulator_judge(lambda x: folded(3)(x) * 2, lambda x: x.reshape(len(x), 2, 128).sum(1) * 2, x)
    assert said.passed is False and "what it finds there is undefined" in said.message


def test_with_one_buffer_two_blocks_are_too_many():
    assert "the running sum is gone. The buffer now holds what step (0, 1) left of block (1, 0)." in said_of(
        2, buffers=1
    )


def test_one_visit_of_each_block_is_no_return():
    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((ROWS, 128), lambda i, j: (i, 0))
    fn = pl.pallas_call(copy_kernel, out_shape=jnp.ones((32, 128)), grid=(4, 2), in_specs=[spec], out_specs=spec)
    (output,) = grid.walk(fn, jnp.ones((32, 128))).calls[0].outputs
    assert returns(output) == []
    assert [(v.block, v.first, v.last, v.buffer, v.finds) for v in visits(output)] == [
        ((0, 0), 0, 1, 0, None),
        ((1, 0), 2, 3, 1, None),
        ((2, 0), 4, 5, 0, 0),
        ((3, 0), 6, 7, 1, 1),
    ]
