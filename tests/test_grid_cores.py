"""Which steps each of two cores runs: the rule, against the program that libtpu makes for a v5p."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import compiler, grid

P, A = "parallel", "arbitrary"
# grid, marks, steps of core 0 and of core 1, as numbers of the grid's own order
DIVIDED = {
    "nothing shared": ((2, 3), (A, A), [0, 1, 2, 3, 4, 5], []),
    "one step to share": ((1, 3), (P, A), [0, 1, 2], []),
    "halves": ((4, 2), (P, A), [0, 1, 2, 3], [4, 5, 6, 7]),
    "halves of the inner axis": ((2, 4), (A, P), [0, 1, 4, 5], [2, 3, 6, 7]),
    "the first even one": ((3, 2), (P, P), [0, 2, 4], [1, 3, 5]),
    "odd": ((3,), (P,), [0, 1], [2, 0]),
    "odd, with an axis inside": ((3, 2), (P, A), [0, 1, 2, 3], [4, 5, 0, 1]),
    "odd, with an axis around it": ((2, 3), (A, P), [0, 3, 1, 4], [2, 5, 0, 3]),
    "two odd ones": ((3, 3), (P, P), [0, 1, 2, 3, 4], [5, 6, 7, 8, 0]),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_steps_are_divided(name):
    sizes, marks, first, second = DIVIDED[name]
    cores = grid.cores(sizes, [mark == P for mark in marks])
    assert (cores.first.tolist(), cores.second.tolist()) == (first, second)
    assert sorted({*first, *second}) == list(range(np.prod(sizes)))


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


@pytest.mark.parametrize(
    ("marks", "shared"),
    [(None, (False, False)), ((A, P), (False, True)), (("core_parallel", A), (True, False)), ((P, P), (True, True))],
)
def test_a_call_knows_which_axes_two_cores_may_share(marks, shared):
    block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    x = jax.ShapeDtypeStruct((16, 512), jnp.float32)
    added = pl.pallas_call(
        add_one,
        out_shape=x,
        grid=(2, 4),
        in_specs=[block],
        out_specs=block,
        compiler_params=pltpu.CompilerParams(dimension_semantics=marks),
    )
    assert grid.walk(added, x).calls[0].parallel == shared


COMPILED = {
    "(6,) p": ((6,), (P,)),
    "(7,) p": ((7,), (P,)),
    "(3, 5) pp": ((3, 5), (P, P)),
    "(3, 4) pp": ((3, 4), (P, P)),
    "(3, 5) ap": ((3, 5), (A, P)),
    "(5, 2, 3) pap": ((5, 2, 3), (P, A, P)),
    "(1, 5) pa": ((1, 5), (P, A)),
    "(3, 5, 7) ppa": ((3, 5, 7), (P, P, A)),
}


@needs_libtpu
@pytest.mark.parametrize("name", daily("(6,) p", "(3, 5) pp", "(5, 2, 3) pap", of=COMPILED))
def test_the_compiler_divides_them_so(name):
    """Its loop over the steps of a core has two iterations more, in which copies begin and end."""
    sizes, marks = COMPILED[name]
    block = pl.BlockSpec((None,) * len(sizes) + (8, 128), lambda *step: (*step, 0, 0))
    x = jax.ShapeDtypeStruct((*sizes, 8, 128), jnp.float32)
    fn = pl.pallas_call(
        add_one,
        out_shape=x,
        grid=sizes,
        in_specs=[block],
        out_specs=block,
        compiler_params=pltpu.CompilerParams(dimension_semantics=marks),
    )
    loops = compiler.bundles(fn, x, chip="v5p").loops
    assert loops[0].turns == len(grid.cores(sizes, [mark == P for mark in marks]).first) + 2
