"""The GPU kernels of the library, with no GPU: their numbers and races in JAX's simulator of a GPU, and ptxas.

Nothing here runs on a GPU. The simulator takes wgmma for a thing that is done at once, so a kernel that reads a stage
too early would pass; docs/gpu.md says what else no test of ours can see.
"""

import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_compiler import needs_gpu_compiler

from course_lib import chips, compat, compiler
from course_lib.kernels import (
    activations,
    elementwise,
    elementwise_gpu,
    launch,
    linear,
    linear_gpu,
    matmul,
    matmul_gpu,
    norm,
    norm_gpu,
    platforms,
    reduce,
    scale_add,
    softmax,
)

BF16 = jnp.bfloat16
SMALL = {"blocks": matmul_gpu.Blocks(bn=128, stages=2), "sms": 2}  # two SMs with several tiles each


def array(seed, *shape, dtype=BF16):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def shape(*sizes, dtype=BF16):
    return jax.ShapeDtypeStruct(sizes, dtype)


def simulated(kernel, *args, **how):
    """What the kernel computes in the simulator, where it has no race."""
    try:
        out = jax.block_until_ready(kernel(*args, interpret=compat.interpret_gpu_params(detect_races=True), **how))
        assert not compat.gpu_races_found()
        return out
    finally:
        compat.reset_gpu_interpreter()


def assert_near(found, wanted, ulps=2):
    """Within so many roundings to the dtype, of the largest element."""
    found, wanted = (np.asarray(a, np.float32) for a in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ulps * 2.0**-8 * np.abs(wanted).max())


# Numbers and races

PRODUCTS = [
    ((200, 136), (136, 264), {}),  # every edge ragged: 2 x 3 tiles for two SMs, 3 steps of K for two stages
    ((128, 128), (256, 128), {"transpose_y": True}),
    ((128, 256), (128, 128), {"transpose_x": True}),
]


@pytest.mark.parametrize(("x", "y", "turned"), PRODUCTS, ids=str)
def test_a_product(x, y, turned):
    x, y = array(0, *x), array(1, *y)
    (o,) = simulated(matmul_gpu.product, x, y, **turned, **SMALL)
    assert_near(o, matmul.matmul_transposed_reference(x, y, **turned))


def test_a_linear_layer_and_what_it_saves():
    x, w, b = array(0, 136, 72), array(1, 72, 136), array(2, 136)
    y, z = simulated(linear_gpu.forward, x, w, b, activation="gelu", save=True, **SMALL | {"sms": 1})
    assert_near(y, linear.reference(x, w, b, activation="gelu"))
    assert_near(z, linear.reference(x, w, b))


def test_the_gradient_of_a_linear_layer():
    x, w, b, g = array(0, 72, 64), array(1, 64, 72), array(2, 72), array(3, 72, 72)
    z, wanted = linear.reference(x, w, b), functools.partial(linear.reference, activation="silu")
    found = simulated(linear_gpu.gradients, x, w, g, z, activation="silu", **SMALL | {"sms": 1})
    for ours, theirs in zip(found, jax.vjp(wanted, x, w, b)[1](g), strict=True):
        assert_near(ours, theirs, ulps=4)  # the reference rounds dz nowhere, and we to bf16


@pytest.mark.parametrize("dtype", [jnp.float32, BF16], ids=["f32", "bf16"])
def test_rows(dtype):
    x, weight, bias = array(0, 3, 2, 256, dtype=dtype), array(1, 256, dtype=dtype), array(2, 256, dtype=dtype)
    how = {"blocks": norm_gpu.Blocks(rows=4)}  # the second block has 2 of its 4 rows
    for found, wanted in (
        (simulated(norm_gpu.rms_norm, x, weight, **how), norm.rms_norm_reference(x, weight)),
        (simulated(norm_gpu.layer_norm, x, weight, bias, **how), norm.layer_norm_reference(x, weight, bias)),
        (simulated(norm_gpu.softmax, x, **how), softmax.reference(x)),
    ):
        assert_near(found, wanted, ulps=1 if dtype == BF16 else 1e-4)


def test_elements():
    x, y = array(0, 3, 256), array(1, 3, 256)
    assert (simulated(elementwise_gpu.pointwise, jnp.add, x, y) == x + y).all()
    assert simulated(elementwise_gpu.pointwise, jnp.negative, x, dtype=jnp.float32).dtype == jnp.float32


# What ptxas makes of them

N = 4096
SQUARE, VECTOR = shape(N, N), shape(N)
KERNELS = {
    "matmul": (matmul_gpu.product, (SQUARE, SQUARE)),
    "matmul, x turned": (functools.partial(matmul_gpu.product, transpose_x=True), (SQUARE, SQUARE)),
    "matmul, small": (matmul_gpu.product, (shape(512, N), shape(N, 512))),
    "linear": (functools.partial(linear_gpu.forward, activation="gelu", save=True), (SQUARE, SQUARE, VECTOR)),
    "layer_norm": (norm_gpu.layer_norm, (shape(N, 8192, dtype=jnp.float32),) + (shape(8192, dtype=jnp.float32),) * 2),
}  # fmt: skip


@needs_gpu_compiler
@pytest.mark.parametrize("name", KERNELS)
def test_no_register_is_spilled(name):
    fn, args = KERNELS[name]
    report = compiler.compile_gpu(fn, *args, chip="h200")
    assert report.ok, report
    (kernel,) = report.kernels
    assert (kernel.spill_stores, kernel.spill_loads, kernel.serialized) == (0, 0, False)
    if fn is not norm_gpu.layer_norm:
        assert kernel.instructions["wgmma"] and kernel.instructions["TMA loads"] and kernel.instructions["TMA stores"]
        assert kernel.threads == 384 and kernel.grid == (132, 1, 1)
        said = matmul_gpu.blocks_for(args[0].shape[0], args[1].shape[1], 132).smem_bytes
        assert kernel.shared_bytes <= said < kernel.shared_bytes + 2048


@needs_gpu_compiler
@pytest.mark.parametrize("chip", ["a100", "l4", "b200"])
def test_rows_and_elements_need_no_hopper(chip):
    """By Triton or by Mosaic GPU. And all casts: what is lowered for them nobody should meet first on a GPU."""
    dtypes = jnp.float32, BF16, jnp.int32, jnp.int8

    def all_of_them(x, weight, *each):
        casts = [elementwise.cast(a, to) for a in each for to in dtypes if to != a.dtype]
        return norm.rms_norm(x, weight), norm.layer_norm(x, weight, weight), softmax.softmax(x), casts

    arrays = (shape(64, 128, dtype=dtype) for dtype in dtypes)
    with launch.gpu_kernels(strict=True):
        report = compiler.compile_gpu(all_of_them, shape(512, 4096), shape(4096), *arrays, chip=chip)
    assert report.ok and report.spills == 0, report
    assert {kernel.name.split(" ")[0] for kernel in report.kernels} == {"rms_norm", "layer_norm", "softmax", "cast"}
    assert all(kernel.kind == "kernel" for kernel in report.kernels)


@needs_gpu_compiler
def test_too_many_registers_are_seen():
    """Rows four times as long as the kernels take: so the figures above could say otherwise."""
    report = compiler.compile_gpu(_wide, shape(64, 1 << 15), chip="h200")
    assert report.ok and report.spills > 0


def _wide(x):
    return norm_gpu.by_rows(lambda row: jnp.exp(row - jnp.max(row)), x, name="wide")


# From the library's ops to them


T4 = dataclasses.replace(chips.gpu_target("a100"), name="t4", kind="Tesla T4", capability=(7, 5))


def lowered(fn, *args, chip="h200", on=launch.gpu_kernels):
    """The program; of a function of its own each time, for what is lowered once stays as it is."""
    with (chips.gpu_target(chip) if isinstance(chip, str) else chip).target(), on():
        return jax.jit(lambda *args: fn(*args)).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def kernels(program):
    """How many by Mosaic GPU, and how many by Triton."""
    return program.count("@mosaic_gpu_v2"), program.count("xla.gpu.triton")


def gradient(op, count):
    """Of the sum of the squares of its results, by all of ``count`` arguments."""

    def loss(*args):
        return sum(jnp.sum(out.astype(jnp.float32) ** 2) for out in jax.tree.leaves(op(*args)))

    return jax.grad(loss, tuple(range(count)))


X, W, B, V = shape(64, 256), shape(256, 128), shape(128), shape(256)
linear_gelu = functools.partial(linear.linear, activation="gelu")
# name -> the op, its arguments, kernels in the program for an H200 and for an A100: forwards, and with the gradient
OPS = {
    "matmul": (matmul.matmul, (X, W), (1, 1), (3, 3)),
    "matmul, vmapped": (jax.vmap(matmul.matmul, (0, None)), (shape(3, 64, 256), W), (1, 1), (3, 3)),
    "linear": (linear_gelu, (shape(2, 64, 256), W, B), (1, 1), (3, 3)),
    "rms_norm": (norm.rms_norm, (X, V), (1, 1), (1, 1)),
    "rms_norm_residual": (norm.rms_norm_residual, (X, X, V), (0, 1), (0, 1)),
    "layer_norm": (norm.layer_norm, (X, V, V), (1, 1), (1, 1)),
    "layer_norm, vmapped": (jax.vmap(norm.layer_norm, (0, None, None)), (shape(3, 64, 256), V, V), (1, 1), (1, 1)),
    "softmax": (softmax.softmax, (X,), (1, 1), (1, 1)),
    "add": (elementwise.add, (X, X), (1, 1), (1, 1)),
    "multiply": (elementwise.multiply, (X, X), (1, 1), (3, 3)),
    "cast": (lambda x: elementwise.cast(x, jnp.float32), (X,), (1, 1), (2, 2)),
    "silu": (activations.silu, (X,), (1, 1), (2, 2)),
    "scale_add": (lambda x, y: scale_add.scale_add(2.0, x, y), (X, X), (0, 0), (0, 0)),
    "sum_over": (lambda x: reduce.sum_over(x, 1), (X,), (0, 0), (0, 0)),
}


@pytest.mark.parametrize("name", OPS)
def test_an_op_launches_its_gpu_kernels_and_those_of_its_gradient(name):
    """The table of docs/gpu.md. Where there is no kernel plain JAX runs; the road is the GPU's, forwards and back."""
    op, args, forwards, back = OPS[name]
    for fn, (hopper, ampere) in ((op, forwards), (gradient(op, len(args)), back)):
        assert kernels(lowered(fn, *args, chip="h200")) == (hopper, 0)
        assert kernels(lowered(fn, *args, chip="a100")) == (0, ampere)


@pytest.mark.parametrize("gpu", [T4, *map(chips.gpu_target, chips.GPU_TARGETS)], ids=lambda gpu: gpu.name)
def test_the_doctor_says_of_a_gpu_what_the_kernels_do_there(gpu):
    says = chips.AttachedGpu(gpu.kind, gpu.capability).runs
    with gpu.target():
        if says.startswith("no kernels"):
            with pytest.raises(platforms.NoKernels):
                platforms.gpu_road()
            return
        assert platforms.gpu_road() == ("mosaic" if says.startswith("plgpu.kernel") else "triton")
        assert (platforms.not_a_hopper() == "") == ("wgmma and TMA" in says)


def test_on_a_gpu_plain_jax_runs_unless_kernels_are_asked_for():
    for chip in ("h200", "a100", T4):
        assert kernels(lowered(softmax.softmax, X, chip=chip, on=contextlib.nullcontext)) == (0, 0)


UNFIT = {
    "f32": (matmul.matmul, (shape(64, 256, dtype=jnp.float32), shape(256, 128, dtype=jnp.float32)), "h100",
            "matmul: plain JAX instead of the kernel, for it multiplies bfloat16, and x is float32."),
    "odd rows": (matmul.matmul, (shape(64, 250), shape(250, 128)), "h100",
                 r"TMA copies rows of a multiple of 8 numbers of bfloat16, and an operand has shape \(64, 250\)"),
    "Blackwell": (matmul.matmul, (X, W), "b200", "it is for Hopper GPUs .* and this NVIDIA B200 has 10.0."),
    "Turing": (softmax.softmax, (X,), T4,
               "^Plain JAX instead of all kernels, for they are for GPUs from Ampere on, .* and this Tesla T4 has 7.5"),
    "f32 on Ampere": (matmul.matmul, (shape(64, 256, dtype=jnp.float32), shape(256, 128, dtype=jnp.float32)), "a100",
            "matmul: .* it multiplies bfloat16, and x is float32."),
    "long rows on Ampere": (softmax.softmax, (shape(8, 1 << 15),), "l4", "it takes rows of up to 16,384 numbers"),
    "large arrays on Ampere": (activations.relu, (shape(1 << 16, 1 << 15),), "a100", "counts elements in 32 bits"),
    "long rows": (softmax.softmax, (shape(8, 1 << 14),), "h200", "it takes rows of .* up to 8,192"),
    "few elements": (elementwise.add, (shape(3, 5), shape(3, 5)), "h200", "it takes a multiple of 128 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_a_kernel_cannot_do_plain_jax_does_with_one_warning(name):
    fn, args, chip, says = UNFIT[name]
    with pytest.warns(UserWarning, match=says) as said:
        program = lowered(fn, *args, chip=chip)
    assert len(said) == 1 and kernels(program) == (0, 0)
    with pytest.raises(platforms.NoKernel):
        lowered(fn, *args, chip=chip, on=functools.partial(launch.gpu_kernels, strict=True))


def test_a_gpu_that_runs_none_is_told_of_in_one_sentence_for_all_ops():
    def three(x, w):
        return softmax.softmax(x), activations.relu(x), matmul.matmul(x, w)

    with pytest.warns(UserWarning) as said:
        lowered(three, X, W, chip=T4)
    assert len({str(warning.message) for warning in said}) == 1  # Python shows one sentence of one place once


def test_an_unknown_gpu_gets_plain_jax():
    with launch.gpu_kernels(), pytest.warns(UserWarning, match="no GPU is known here"):
        program = jax.jit(softmax.softmax).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    assert kernels(program) == (0, 0)


def test_what_has_no_gpu_kernel_says_nothing():
    x = shape(64, 256, dtype=jnp.int8)
    assert "dot_general" in lowered(matmul.matmul, x, shape(256, 128, dtype=jnp.int8))


def test_blocks_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="bn 64, 128 or 256"):
        matmul_gpu.Blocks(bn=192)
    with pytest.raises(ValueError, match="a block may have 232,448. Try fewer stages."):
        matmul_gpu.Blocks(stages=5)
    with pytest.raises(ValueError, match="elements must be a multiple of 128"):
        elementwise_gpu.Blocks(elements=100)
    with pytest.raises(ValueError, match="rows must be 1 or more"):
        norm_gpu.Blocks(rows=0)
