"""Programs from public bug reports, as their authors wrote them: what the judges say, with the line and the cure."""

import pathlib

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, judges
from course_lib.compiler.child import gpu_service

needs_libtpu = pytest.mark.skipif(compiler.libtpu_version() is None, reason="libtpu is not installed")
needs_gpu_compiler = pytest.mark.skipif(gpu_service.versions() is None, reason="the GPU's compiler is not installed")


def normal(*shape, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(0), shape, dtype)


def line(function, text):
    """Return "line 12" for the line of the function's source that holds ``text``."""
    lines = pathlib.Path(__file__).read_text().splitlines()
    first = function.__code__.co_firstlineno
    return f"line {next(n for n, one in enumerate(lines[first - 1 :], first) if text in one)}"


def last(verdicts):
    """Return the words of the verdict that refuses, on one line."""
    assert verdicts[-1].passed is False, verdicts
    return " ".join(str(verdicts[-1]).split())


def whole(kernel, *, shape=None, dtype=None):
    def fn(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape or x.shape, dtype or x.dtype))(x)

    return fn


def keep_first(x_ref, o_ref):  # jax#37370
    rows = jnp.arange(48)
    inside = rows < 37
    o_ref[...] = jnp.where(inside[:, None], x_ref[...], 0.0)


@needs_libtpu
def test_a_mask_gets_a_new_axis():
    said = last(judges.judge(whole(keep_first), lambda x: x.at[37:].set(0.0), normal(48, 128)))
    where = line(keep_first, "inside[:, None]")  # libtpu of JAX 0.12 aborts, and then the trace has the line
    assert f"in keep_first, {where}" in said or f"{where} of keep_first" in said
    assert "booleans" in said and "then compare: jnp.arange(48)[:, None] < 37" in said and "float32" not in said


def join_heads(x_ref, o_ref):  # jax#24404
    o_ref[...] = x_ref[...].reshape(8, 288)


@needs_libtpu
def test_a_reshape_across_lanes():
    said = last(judges.judge(whole(join_heads, shape=(8, 288)), lambda x: x.reshape(8, 288), normal(24, 96)))
    assert "(24, 96) to (8, 288)" in said and f"in join_heads, {line(join_heads, 'reshape')}" in said
    assert "from lane to lane" in said and "x.reshape(8, 3, 96)" in said and "outside the kernel" in said


def fetch_row(x_hbm, o_ref, buffer, sem):  # pytorch/xla#8797
    i = pl.program_id(0)
    copy = pltpu.make_async_copy(x_hbm.at[pl.ds(i, 1)], buffer, sem)
    copy.start()
    copy.wait()
    o_ref[0] = buffer[...]


@needs_libtpu
def test_a_copy_of_one_row_of_bfloat16():
    def fn(x):
        return pl.pallas_call(
            fetch_row,
            grid=(16,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((1, 1, 128), lambda i: (i, 0, 0)),
            out_shape=jax.ShapeDtypeStruct((16, 1, 128), x.dtype),
            scratch_shapes=[pltpu.VMEM((1, 128), x.dtype), pltpu.SemaphoreType.DMA],
        )(x)

    said = last(judges.judge(fn, lambda x: x[:, None], normal(16, 128, dtype=jnp.bfloat16)))
    assert "part of a tile of bf16[16, 128]" in said and f"in fetch_row, {line(fetch_row, 'copy.start')}" in said
    assert "pl.multiple_of(i // 8 * 8, 8), 8)" in said and "(16, 1, 128)" in said and "assume_multiple" not in said


def ramp(x_ref, o_ref):  # jax#37521
    o_ref[...] = x_ref[...] * (1 + pl.program_id(0))


def in_four_steps(x):
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(ramp, grid=(4,), in_specs=[spec], out_specs=spec, out_shape=x)(x)


def push(x, t):
    return jax.jvp(in_four_steps, (x,), (t,))[1]


def test_a_forward_derivative_of_a_kernel_that_asks_for_its_step():
    x = normal(32, 128)
    said = last(judges.judge(push, lambda x, t: t * (1 + jnp.arange(32) // 8)[:, None], x, x))
    assert f"jax.jvp ({line(push, 'jax.jvp')} of push)" in said and "pl.program_id" in said
    assert "jax.custom_jvp" in said and "custom_vjp" not in said and "backwards" not in said


def square(x_ref, o_ref):
    o_ref[...] = x_ref[...] * x_ref[...]


@jax.custom_vjp
def layer(x):
    return whole(square)(x)


layer.defvjp(lambda x: (whole(square)(x), x), lambda x, g: (2 * x * g,))


def push_layer(x, t):  # Dao-AILab/flash-attention#1672
    return jax.jvp(layer, (x,), (t,))[1]


def test_a_forward_derivative_of_a_custom_vjp():
    x = normal(8, 128)
    said = last(judges.judge(push_layer, lambda x, t: 2 * x * t, x, x))
    assert "without a kernel" not in said and "supports only reverse-mode differentiation" in said
    assert f"({line(push_layer, 'jax.jvp')} of push_layer)" in said and "jax.custom_jvp" in said


def test_the_value_beside_a_forward_derivative_is_judged_as_any_other():
    x = normal(8, 128)
    said = judges.judge(lambda x: jax.jvp(layer, (x,), (x,))[0], lambda x: x * x, x)
    assert said[0].passed, said[0]


def softmax(x_ref, o_ref):  # jax#20239
    p = jnp.exp(x_ref[...] - jnp.max(x_ref[...]))
    o_ref[...] = p / jnp.sum(p)


@needs_gpu_compiler
def test_a_division_of_bfloat16_on_a_gpu():
    said = last(judges.judge_gpu(whole(softmax), jax.nn.softmax, normal(256, dtype=jnp.bfloat16), chip="a100"))
    assert "computes a division in 16 bits" in said and f"({line(softmax, 'p / jnp.sum')} of softmax)" in said
    assert "x_ref[...].astype(jnp.float32), and cast back in the last line" in said and "tensor<" not in said


def fill(o_ref):  # jax#38350, jax#32123
    o_ref[...] = jnp.full_like(o_ref, 42.0)


def test_the_old_name_of_out_type_on_a_gpu():
    def fn():
        return plgpu.kernel(fill, out_shape=jax.ShapeDtypeStruct((128,), jnp.float32))()

    said = last(judges.judge_gpu(fn, lambda: jnp.full((128,), 42.0), chip="h100"))
    assert "plgpu.kernel has no parameter out_shape. Next: write out_type=." in said and "Mesh" not in said


def test_a_kernel_of_a_gpu_before_the_judges_of_a_tpu():
    def fn():
        return plgpu.kernel(fill, out_type=jax.ShapeDtypeStruct((128,), jnp.float32))()

    for said in judges.judge(fn, lambda: jnp.full((128,), 42.0)):
        assert (
            said.passed is None and "This kernel is a GPU kernel" in said.message and "judges.judge_gpu" in said.message
        )


def mm(x_ref, y_ref, o_ref):  # jax#23926, jax#24209
    preset = jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X3
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=preset, preferred_element_type=jnp.float32)


@needs_libtpu
def test_a_preset_as_precision():
    def fn(x, y):
        return pl.pallas_call(mm, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))(x, y)

    said = last(judges.judge(fn, lambda x, y: jnp.dot(x, y, precision="highest"), normal(128, 256), normal(256, 128)))
    assert f"({line(mm, 'jnp.dot')} of mm)" in said and "jax.lax.DotAlgorithmPreset" in said
    assert 'precision="default", "high" or "highest"' in said and "lowering_rule" not in said
