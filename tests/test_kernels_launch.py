"""The launch of an op: compiled once, for the platform that a program is lowered for, and traced for its chip."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from course_lib import chips, compat, grid
from course_lib.kernels.common import chip as this_chip
from course_lib.kernels.dispatch import launch

X = jnp.zeros((8, 128))


def on_tpu(x):
    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(copy_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def op(**changed):
    return launch.Op(**{"name": "copy", "rule": "r0 r1 -> r0 r1", "tpu": on_tpu, "plain": jnp.sin, **changed})


def lowered(fn, platform):
    with use_abstract_mesh(target("TPU v5 lite")):
        return jax.jit(fn).trace(X).lower(lowering_platforms=(platform,)).as_text()


def lowered_for_gpu(fn, chip):
    with chips.gpu_target(chip).target(), launch.gpu_kernels():
        return jax.jit(lambda x: fn(x)).trace(X).lower(lowering_platforms=("cuda",)).as_text()


def target(kind):
    return AbstractMesh((), (), abstract_device=AbstractDevice(device_kind=kind, num_cores=1, platform="tpu"))


def test_each_platform_has_its_own():
    all_of_them = op(gpu=jnp.cos, portable=jnp.exp)
    assert "tpu_custom_call" in lowered(all_of_them, "tpu")
    assert "stablehlo.sine" in lowered(all_of_them, "cpu")
    assert "stablehlo.cosine" in lowered_for_gpu(all_of_them, "h200")
    assert "stablehlo.exponential" in lowered_for_gpu(all_of_them, "a100")
    assert "stablehlo.sine" in lowered_for_gpu(op(), "h200"), "plain JAX, until somebody writes one for the GPU"


def test_equal_ops_are_compiled_once():
    """Eagerly too: an op is made anew at each call."""
    traced = []

    def plain(x, *, times):
        traced.append(times)
        return times * x

    for times in (2, 2, 3):
        assert (op(plain=launch.fixed(plain, times=times))(X + 1) == times).all()
    first = traced.count(2)
    op(plain=launch.fixed(plain, times=2))(X + 1)
    assert traced.count(2) <= first + 1, "its result is described anew, and nothing compiled"
    assert launch.fixed(plain, times=2) == launch.fixed(plain, times=2) != launch.fixed(plain, times=3)


def test_a_walk_sees_the_kernel_and_a_cpu_does_not_run_it():
    assert [call.name for call in grid.walk(op(), X).calls] == ["copy_kernel"]
    with pltpu.force_tpu_interpret_mode(compat.interpret_params()):
        assert (jax.jit(op())(X + 1) == jnp.sin(1.0)).all()


def test_a_kernel_is_traced_for_the_chip_of_its_program():
    """Though that is done last, when the program is lowered, and perhaps elsewhere."""
    seen = []

    def asks(x):
        seen.append(this_chip.vmem_bytes())
        return on_tpu(x)

    for kind in ("TPU v5 lite", "TPU7x"):
        with use_abstract_mesh(target(kind)):
            traced = jax.jit(op(tpu=asks)).trace(X)
        traced.lower(lowering_platforms=("tpu",))
    assert seen == [128 << 20, 64 << 20]
