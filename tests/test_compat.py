"""A kernel that is called with two grids, one after the other, knows each of them."""

from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from course_lib import chips, compat, grid, judges
from course_lib.kernels.common import chip as this_chip


def steps_kernel(x_ref, o_ref):
    o_ref[...] = jnp.full_like(o_ref, pl.num_programs(0))


def steps(x):
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(steps_kernel, out_shape=x, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block)(x)


@pytest.mark.parametrize("first, second", [(32, 64), (64, 32)])
def test_num_programs_is_that_of_the_call(first, second):
    with pltpu.force_tpu_interpret_mode(compat.interpret_params()):
        assert [float(steps(jnp.zeros((rows, 128)))[0, 0]) for rows in (first, second)] == [first // 8, second // 8]
    for rows in (first, second):
        assert judges.numbers_judge(steps, lambda x: jnp.full_like(x, x.shape[0] // 8), jnp.zeros((rows, 128))).passed
        assert grid.walk(steps, jnp.zeros((rows, 128))).calls[0].steps == rows // 8


def test_threads_may_leave_their_chips_in_any_order():
    chip = [chips.chip(name).target() for name in ("v5e", "v6e")]
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        first.submit(chip[0].__enter__).result()
        second.submit(chip[1].__enter__).result()
        first.submit(chip[0].__exit__, None, None, None).result()
        second.submit(chip[1].__exit__, None, None, None).result()
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=AbstractDevice("TPU7x", 1, platform="tpu"))):
        assert this_chip.generation() == 7
