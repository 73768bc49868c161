"""The GPU kernels of the library, with no GPU: their numbers and races in JAX's simulator of a GPU, and ptxas.

Nothing here runs on a GPU. The simulator takes wgmma for a thing that is done at once, so a kernel that reads a stage
too early would pass; docs/gpu.md says what else no test of ours can see.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_compiler import needs_gpu_compiler
from sweeps import daily

from course_lib import compat, compiler
from course_lib.kernels import elementwise, linear, matmul, norm, softmax
from course_lib.kernels.attention import mosaic_gpu as attention_gpu
from course_lib.kernels.attention.kernel import plain as plain_attention
from course_lib.kernels.attention.scores import Scores, which_count
from course_lib.kernels.dispatch import launch
from course_lib.kernels.elementwise import mosaic_gpu as elementwise_gpu
from course_lib.kernels.linear import mosaic_gpu as linear_gpu
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu
from course_lib.kernels.norm import mosaic_gpu as norm_gpu

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
    ((200, 192), (192, 320), {}),  # ragged tiles: 2 x 3 of them for two SMs, 3 steps of K for two stages
    ((128, 128), (256, 128), {"transpose_y": True}),
    ((128, 256), (128, 128), {"transpose_x": True}),
]


@pytest.mark.parametrize(("x", "y", "turned"), PRODUCTS, ids=str)
def test_a_product(x, y, turned):
    x, y = array(0, *x), array(1, *y)
    (o,) = simulated(matmul_gpu.product, x, y, **turned, **SMALL)
    assert_near(o, matmul.matmul_transposed_reference(x, y, **turned))


def test_a_linear_layer_and_what_it_saves():
    x, w, b = array(0, 136, 64), array(1, 64, 192), array(2, 192)
    y, z = simulated(linear_gpu.forward, x, w, b, activation="gelu", save=True, **SMALL | {"sms": 1})
    assert_near(y, linear.reference(x, w, b, activation="gelu"))
    assert_near(z, linear.reference(x, w, b))


@pytest.mark.sweep  # every day its forward pass, and a product
def test_the_gradient_of_a_linear_layer():
    x, w, b, g = array(0, 72, 64), array(1, 64, 64), array(2, 64), array(3, 72, 64)
    z, wanted = linear.reference(x, w, b), functools.partial(linear.reference, activation="silu")
    found = simulated(linear_gpu.gradients, x, w, g, z, activation="silu", **SMALL | {"sms": 1})
    for ours, theirs in zip(found, jax.vjp(wanted, x, w, b)[1](g), strict=True):
        assert_near(ours, theirs, ulps=4)  # the reference rounds dz nowhere, and we to bf16


HEADS = {  # queries, keys, causal
    "one block": ((1, 128, 64), (1, 128, 64), False),
    "ragged": ((2, 136, 64), (1, 264, 64), False),
    "causal": ((3, 264, 128), (1, 264, 128), True),  # an odd number of tiles
}


@pytest.mark.parametrize("name", daily("causal", of=HEADS))
def test_attention(name):
    """Heads of queries share one of keys; more blocks of keys than stages, and several tiles for an SM."""
    q, k, causal = HEADS[name]
    q, k, v = 3 * array(0, *q), array(1, *k), array(2, *k)
    scores = Scores(scale=0.125, softcap=None, causal=causal, window=None, precision=jax.lax.Precision.HIGHEST)
    o, lse = simulated(attention_gpu.forward, q, k, v, scores=scores, sms=2)
    wanted_o, wanted_lse = plain_attention(q, k, v, which_count(q, k, (), scores), scores=scores)
    assert_near(o, wanted_o)
    assert_near(lse, wanted_lse, ulps=1e-3)


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
SQUARE, VECTOR, MANY = shape(N, N), shape(N), shape(4, 8, 2048, 128)
CAUSAL = Scores(scale=0.125, softcap=None, causal=True, window=None, precision=None)
KERNELS = {
    "matmul": (matmul_gpu.product, (SQUARE, SQUARE)),
    "matmul, x turned": (functools.partial(matmul_gpu.product, transpose_x=True), (SQUARE, SQUARE)),
    "matmul, small": (matmul_gpu.product, (shape(512, N), shape(N, 512))),
    "linear": (functools.partial(linear_gpu.forward, activation="gelu", save=True), (SQUARE, SQUARE, VECTOR)),
    "attention": (functools.partial(attention_gpu.forward, scores=CAUSAL), (MANY, MANY, MANY)),
    "layer_norm": (norm_gpu.layer_norm, (shape(N, 8192, dtype=jnp.float32),) + (shape(8192, dtype=jnp.float32),) * 2),
}  # fmt: skip


@needs_gpu_compiler
@pytest.mark.parametrize("name", daily("linear", "attention", of=KERNELS))
def test_no_register_is_spilled(name):
    fn, args = KERNELS[name]
    report = compiler.compile_gpu(fn, *args, chip="h200")
    assert report.ok, report
    (kernel,) = report.kernels
    assert (kernel.spill_stores, kernel.spill_loads, kernel.serialized) == (0, 0, False)
    if fn is not norm_gpu.layer_norm:
        assert kernel.instructions["wgmma"] and kernel.instructions["TMA loads"] and kernel.instructions["TMA stores"]
        assert kernel.threads == 384
    if name not in ("layer_norm", "attention"):
        assert kernel.grid == (132, 1, 1)
        said = matmul_gpu.blocks_for(args[0].shape[0], args[1].shape[1], 132).smem_bytes
        assert kernel.shared_bytes <= said < kernel.shared_bytes + 2048


@needs_gpu_compiler
@pytest.mark.parametrize("chip", daily("l4", of=["a100", "l4", "b200"]))
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


def test_blocks_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="bn 64, 128 or 256"):
        matmul_gpu.Blocks(bn=192)
    with pytest.raises(ValueError, match="a block may have 232,448. Try fewer stages."):
        matmul_gpu.Blocks(stages=5)
    with pytest.raises(ValueError, match="elements must be a multiple of 128"):
        elementwise_gpu.Blocks(elements=100)
    with pytest.raises(ValueError, match="rows must be 1 or more"):
        norm_gpu.Blocks(rows=0)
    with pytest.raises(ValueError, match="bq must be 128, bk a multiple of it"):
        attention_gpu.Blocks(bk=64)


def test_the_tile_is_the_one_that_is_done_first():
    """One wave of narrow tiles beats half a wave of wide ones, by the shares of their rate that were measured."""
    wanted = {(4096, 4096): 256, (2048, 2048): 256, (8, 14336): 128, (1024, 1024): 64, (512, 2048): 64}
    assert {shape: matmul_gpu.blocks_for(*shape, sms=132).bn for shape in wanted} == wanted
