"""Failures for want of the right machine, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.experimental.pallas import triton
from provoke import ROWS_OF_8, X, call, compiled, copy, raised, simulated

from course_lib import errors


def kernel_random(x_ref, o_ref):
    pltpu.prng_seed(0)
    o_ref[...] = pltpu.prng_random_bits(o_ref.shape).astype(jnp.float32)


def kernel_id_in_when(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _first():
        o_ref[...] = x_ref[...] + pl.program_id(0)


def kernel_id_before_when(x_ref, o_ref):
    i = pl.program_id(0)

    @pl.when(i == 0)
    def _first():
        o_ref[...] = x_ref[...] + i


def pipeline_in_a_kernel(x):
    def body(x_hbm, o_hbm):
        spec = pl.BlockSpec(*ROWS_OF_8)
        pltpu.emit_pipeline(copy, grid=(32,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(body, out_shape=x, in_specs=[hbm], out_specs=hbm)(x)


def on_sparse_cores(x):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")
    return pl.kernel(lambda x_hbm, o_hbm: pltpu.sync_copy(x_hbm, o_hbm), out_type=x, mesh=mesh)(x)


def sharded_error():
    mesh = jax.sharding.AbstractMesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    try:
        x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=sharding)
        jax.jit(call(copy)).trace(x).lower(lowering_platforms=("tpu",))
    except Exception as error:
        return errors.explain(error)


FAILURES = {
    "no-tpu": (raised(call(copy), X), "this machine has only a CPU."),
    "no-target": (simulated(pipeline_in_a_kernel), "The kernel asks what kind of TPU it is for"),
    "no-target, by asking": (raised(pltpu.get_tpu_info), "The kernel asks what kind of TPU it is for"),
    "no-target, for a mesh": (
        raised(lambda: (getattr(pltpu, "TensorCoreMesh", None) or pltpu.create_tensorcore_mesh)(axis_name="core")),
        "The kernel asks what kind of TPU it is for",
    ),
    "program-id-in-when": (
        raised(call(kernel_id_in_when, grid=(1,), interpret=True), X),
        "pl.program_id is called inside a pl.when or a loop",
    ),
    "plain-interpreter": (
        raised(call(kernel_random, interpret=True), X),
        "`prng_seed` is a TPU operation that the plain interpreter",
    ),
    "sparse-core": (compiled(on_sparse_cores), "The kernel is for SparseCores"),
    "gpu-parameters": (
        compiled(call(copy, compiler_params=triton.CompilerParams(num_warps=4))),
        "compiler_params is for a GPU, but the kernel is compiled for a TPU.",
    ),
    "gpu-parameters, of Mosaic": (
        compiled(call(copy, compiler_params=plgpu.CompilerParams())),
        "compiler_params is for a GPU, but the kernel is compiled for a TPU.",
    ),
    "sharded": (sharded_error, "A kernel was given an array that is spread over several devices."),
}
CURES = {
    "program-id-in-when": raised(call(kernel_id_before_when, grid=(1,), interpret=True), X),
    "sparse-core": compiled(on_sparse_cores, chip="v5p"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


def test_a_kernel_of_a_gpu_is_told_where_to_go():
    told = compiled(lambda x: plgpu.kernel(copy, out_type=x)(x), jax.ShapeDtypeStruct((128,), jnp.float32))()
    assert "This kernel is a GPU kernel, made with plgpu.kernel, but was passed to a TPU tool." in told.what
    assert "judges.judge_gpu" in told.what


def test_parameters_of_a_tpu_are_right():
    provoke.assert_compiles(compiled(call(copy, compiler_params=pltpu.CompilerParams(vmem_limit_bytes=32 << 20))))
