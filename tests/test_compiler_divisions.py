"""Divisions of scalars, which the simulator takes for 0, are written so that it works them out."""

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from test_cost_against_compiler import KERNELS, A, add_kernel, blockwise, copied

from course_lib import compiler, cost, grid
from course_lib.compiler.simulating import divisions


def add_with(index_map):
    """x + y in 8 row blocks, with an index map for y's blocks."""
    rows = [lambda i: (i, 0), lambda i: (index_map(i), 0)]
    return blockwise(add_kernel, [(128, 512), (128, 512)], rows, lambda i: (i, 0), (8,), A)


MAPS = {
    "i // 4": lambda i: i // 4,
    "i // 3": lambda i: i // 3,
    "i % 2": lambda i: i % 2,
    "lax.rem(i, 3)": lambda i: jax.lax.rem(i, 3),
    "lax.div(i, 2)": lambda i: jax.lax.div(i, 2),
    "7 i % 5 + i // 6": lambda i: (7 * i) % 5 + i // 6,
}


@needs_libtpu
@pytest.mark.parametrize("name", MAPS)
def test_the_simulator_makes_every_copy_once_divisions_are_written_otherwise(name):
    fn = add_with(MAPS[name])
    jaxpr = grid.trace(fn, A, A)
    written, why = divisions.worked_out(jaxpr, (A, A))
    assert (written is not jaxpr, why) == (True, "")
    moved = {row.name: row.bytes for row in cost.traffic(grid.walk_traced(jaxpr))}
    assert copied(lambda *args: grid.run(written, False, *args), A, A) == {
        "hbm_to_vmem": moved["x_ref"] + moved["y_ref"],
        "vmem_to_hbm": moved["o_ref"],
    }


def works_at(condition):
    """Much arithmetic at the steps that ``condition`` names, a copy at the others."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(condition(pl.program_id(0)))
        def work():
            value = x_ref[...]
            for _ in range(20):
                value = jnp.tanh(value) + y_ref[...]
            o_ref[...] = value

        @pl.when(~condition(pl.program_id(0)))
        def rest():
            o_ref[...] = x_ref[...]

    return blockwise(kernel, [(128, 512), (128, 512)], [lambda i: (i, 0)] * 2, lambda i: (i, 0), (8,), A)


@needs_libtpu
def test_branches_on_remainders_are_taken_where_they_are():
    cycles = {
        name: compiler.compile_tpu(works_at(condition), A, A).cycles
        for name, condition in {
            "never": lambda i: i < 0,
            "even": lambda i: i % 2 == 0,
            "odd": lambda i: i % 2 == 1,
            "even, by a bit": lambda i: (i & 1) == 0,
            "always": lambda i: i >= 0,
        }.items()
    }
    assert cycles["never"] < cycles["odd"] < cycles["always"]
    assert cycles["even"] == pytest.approx(cycles["odd"], rel=0.01) == pytest.approx(cycles["even, by a bit"], rel=0.01)


def test_a_kernel_without_divisions_is_left_alone():
    fn, *args = KERNELS["matmul"]
    jaxpr = grid.trace(fn, *args)
    assert divisions.worked_out(jaxpr, tuple(args)) == (jaxpr, "")


@needs_libtpu
def test_what_cannot_be_written_otherwise_is_said():
    fn = add_with(lambda i: (i - 9) // 2 + 5)
    assert divisions.worked_out(grid.trace(fn, A, A), (A, A))[1].startswith("it divides negative numbers")
    report = compiler.compile_tpu(fn, A, A)
    assert report.ok
    assert "the cycles may be wrong: the simulator computes quotients and remainders as 0" in " ".join(report.notes)


@needs_libtpu
def test_a_large_grid_sees_its_divisions_too():
    """The block stays for four steps: whether by division or by shifting, the extrapolation comes to the same."""
    big = jax.ShapeDtypeStruct((8 * 2048, 1024), jnp.float32)

    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def predicted(index_map):
        maps = [lambda i: (index_map(i), 0)]
        fn = blockwise(copy_kernel, [(8, 1024)], maps, lambda i: (i, 0), (2048,), big)
        report = compiler.compile_tpu(fn, big)
        assert report.extrapolation is not None
        return report.cycles

    divided = predicted(lambda i: i // 4)
    assert divided == pytest.approx(predicted(lambda i: jax.lax.shift_right_logical(i, 2)), rel=0.03)
    assert divided > 1.2 * predicted(lambda i: 0 * i), "as many cycles as if the block never changed: copies were lost"
