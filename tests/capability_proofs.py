"""What the capability matrix claims of JAX, asked of JAX: for test_viz_capability_matrix.

``PROOFS``: (need, engine) -> a function that returns something true, or raises, without any device or compiler.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_kernels
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

from course_lib import chips, compiler, grid
from course_lib.kernels.matmul import mosaic_gpu, triton
from course_lib.viz.capability_matrix.capabilities import ENGINES

TC, SC, HOPPER, AMPERE, XLA = (engine.name for engine in ENGINES)
TILE = jax.ShapeDtypeStruct((128, 128), jnp.float32)
SQUARE = jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)
INDICES = jax.ShapeDtypeStruct((128,), jnp.int32)


# How to ask


def for_tpu(fn, *args, chip="v5e"):
    """Lower for a TPU; raises what Pallas raises."""
    compiler.tpu.lower(grid.trace(fn, *args, chip=chip), *args, chip=chips.chip(chip))
    return True


def for_gpu(fn, *args, chip, quietly=True):
    """Lower for a GPU; raises what Pallas raises. ``quietly``: without JAX's warning that Triton is deprecated."""
    with chips.gpu_target(chip).target(), warnings.catch_warnings():
        if quietly:
            warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
        jax.jit(fn).trace(*args).lower(lowering_platforms=("cuda",))
    return True


def refuses(ask, *args, says, **how):
    """Ask, and expect an error that says so."""
    with pytest.raises(Exception, match=says):
        ask(*args, **how)
    return True


def warns(lower):
    """Whether lowering raises a DeprecationWarning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        lower()
    return any(issubclass(each.category, DeprecationWarning) for each in seen)


def whole(body, out=TILE, **how):
    """A ``pl.pallas_call`` of whole arrays."""
    return lambda *args: pl.pallas_call(body, out_shape=out, **how)(*args)


def on_subcores(body):
    vectors = [pltpu.VMEM((16, 16), jnp.float32)] * 2
    return lambda x: pl.kernel(body, out_type=TILE, mesh=sparse_kernels.mesh(), scratch_types=vectors)(x)


def by_mosaic_gpu(body, out=TILE, scratch=()):
    return lambda *args: plgpu.kernel(body, out_type=out, scratch_types=list(scratch))(*args)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def with_a_sum(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref[...]) / jnp.sum(jnp.exp(x_ref[...]), axis=1, keepdims=True)


def with_scratch(x_ref, o_ref, kept_ref):
    kept_ref[...] = x_ref[...]
    o_ref[...] = kept_ref[...] * 2


def dot(x_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], x_ref[...])


def dot_on_a_subcore(x_hbm, o_hbm, x_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], x_ref[...])


def take(x_ref, indices_ref, o_ref):
    o_ref[...] = plt.load(x_ref.at[indices_ref[...]])


def take_by_mosaic_gpu(x_gmem, indices_gmem, o_gmem):
    o_gmem[...] = x_gmem[indices_gmem[...]]


def a_row_by_mosaic_gpu(x_gmem, indices_gmem, o_gmem):
    o_gmem[0] = x_gmem[indices_gmem[0]]


def add_rows(indices_ref, x_ref, o_ref):
    def add(i, carry):
        o_ref[pl.ds(indices_ref[i], 1)] += x_ref[pl.ds(i, 1)]
        return carry

    lax.fori_loop(0, 128, add, 0)


def add_a_row_by_mosaic_gpu(x_gmem, o_gmem):
    plgpu.atomic_add(o_gmem.at[3], x_gmem[0])


def add_rows_by_triton(x_ref, indices_ref, o_ref):
    plt.atomic_add(o_ref, (indices_ref[...],), x_ref[...])


def start_and_wait(x_hbm, o_ref, kept_ref, sem):
    copy = pltpu.make_async_copy(x_hbm, kept_ref, sem)
    copy.start()
    copy.wait()
    o_ref[...] = kept_ref[...]


def start_and_wait_by_tma(x_gmem, o_gmem, x_smem, barrier):
    plgpu.copy_gmem_to_smem(x_gmem, x_smem, barrier)
    plgpu.barrier_wait(barrier)
    o_gmem[...] = x_smem[...]


def prefetched(x, indices):
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(1,), in_specs=[pl.BlockSpec(TILE.shape, lambda *at: (0, 0))],
        out_specs=pl.BlockSpec(TILE.shape, lambda *at: (0, 0)),
    )  # fmt: skip
    return pl.pallas_call(add_rows, grid_spec=spec, out_shape=TILE)(indices, x)


def gradient(fn):
    return jax.grad(lambda x: jnp.sum(fn(x)))


BACKWARD, RULE = "does not support reverse-mode", "Differentiation rule for .* not implemented"
VMEM, SMEM = [pltpu.VMEM(TILE.shape, TILE.dtype)], [plgpu.SMEM(TILE.shape, TILE.dtype)]
IN_HBM = [pl.BlockSpec(memory_space=pl.ANY)]
COPYING = whole(start_and_wait, in_specs=IN_HBM, scratch_shapes=[*VMEM, pltpu.SemaphoreType.DMA])
LINE = jax.ShapeDtypeStruct((128,), jnp.float32)
BY_WGMMA = lambda x, y: mosaic_gpu.product(x, y, sms=1)[0]  # noqa: E731
BY_MMA = lambda x, y: triton.product(x, y)[0]  # noqa: E731
GATHERED, SCATTERED = (sparse_kernels.case(name) for name in ("gathered", "scattered"))


def on_sparse_cores(case):
    fn, _, args = case
    return for_tpu(fn, *args, chip="v6e")


PROOFS = {
    ("a matmul unit", TC): lambda: for_tpu(whole(dot), TILE),
    ("a matmul unit", SC): lambda: refuses(
        for_tpu, on_subcores(dot_on_a_subcore), TILE, chip="v6e", says="dot_general"
    ),
    ("a matmul unit", HOPPER): lambda: for_gpu(BY_WGMMA, SQUARE, SQUARE, chip="h100"),
    ("a matmul unit", AMPERE): lambda: for_gpu(BY_MMA, SQUARE, SQUARE, chip="a100"),
    ("rows fetched by a list of indices", HOPPER): lambda: (
        for_gpu(by_mosaic_gpu(a_row_by_mosaic_gpu), TILE, INDICES, chip="h100")
        and refuses(for_gpu, by_mosaic_gpu(take_by_mosaic_gpu), TILE, INDICES, chip="h100", says="int_indexer")
    ),
    ("rows fetched by a list of indices", AMPERE): lambda: for_gpu(whole(take), TILE, INDICES, chip="a100"),
    ("rows added where indices repeat", TC): lambda: for_tpu(prefetched, TILE, INDICES),
    ("rows added where indices repeat", HOPPER): lambda: for_gpu(
        by_mosaic_gpu(add_a_row_by_mosaic_gpu), TILE, chip="h100"
    ),
    ("rows added where indices repeat", AMPERE): lambda: for_gpu(
        whole(add_rows_by_triton, out=LINE), LINE, INDICES, chip="a100"
    ),
    ("rows fetched by a list of indices", SC): lambda: on_sparse_cores(GATHERED),
    ("rows added where indices repeat", SC): lambda: on_sparse_cores(SCATTERED),
    ("scratch memory", SC): lambda: on_sparse_cores(SCATTERED),
    ("copies that you start and await", SC): lambda: on_sparse_cores(GATHERED),
    ("scratch memory", TC): lambda: for_tpu(whole(with_scratch, scratch_shapes=VMEM), TILE),
    ("scratch memory", HOPPER): lambda: for_gpu(by_mosaic_gpu(with_scratch, scratch=SMEM), TILE, chip="h100"),
    ("scratch memory", AMPERE): lambda: refuses(
        for_gpu, whole(with_scratch, scratch_shapes=VMEM), TILE, chip="a100", says="scratch memory not implemented"
    ),
    ("copies that you start and await", TC): lambda: for_tpu(COPYING, TILE),
    ("copies that you start and await", HOPPER): lambda: for_gpu(
        by_mosaic_gpu(start_and_wait_by_tma, scratch=[*SMEM, plgpu.Barrier()]), TILE, chip="h100"
    ),
    ("copies to another chip", AMPERE): lambda: not [name for name in dir(plt) if "remote" in name or "copy" in name],
    ("a TPU kernel's body, unchanged", TC): lambda: for_tpu(whole(double), TILE),
    ("a TPU kernel's body, unchanged", XLA): lambda: (
        np.asarray(whole(double, interpret=True)(jnp.ones((128, 128)))) == 2
    ).all(),
    ("a gradient that you need not write", TC): lambda: refuses(
        for_tpu, gradient(whole(with_a_sum)), TILE, says=BACKWARD
    ),
    ("a gradient that you need not write", AMPERE): lambda: refuses(
        for_gpu, gradient(whole(with_a_sum)), TILE, chip="a100", says=BACKWARD
    ),
    ("a gradient that you need not write", SC): lambda: refuses(
        for_tpu,
        lambda x, i: jax.grad(lambda x: sparse_kernels.gathered(x, i).sum())(x),
        *GATHERED[2],
        chip="v6e",
        says=RULE,
    ),
    ("a gradient that you need not write", HOPPER): lambda: refuses(
        for_gpu, gradient(by_mosaic_gpu(double)), TILE, chip="h100", says=RULE
    ),
    ("a place on a v5e, Colab's TPU", SC): lambda: (
        chips.sparse_cores("v5e") is None and all(map(chips.sparse_cores, ("v5p", "v6e", "tpu7x")))
    ),
    ("no deprecation so far", TC): lambda: not warns(lambda: for_tpu(whole(double), TILE)),
    ("no deprecation so far", SC): lambda: not warns(lambda: on_sparse_cores(GATHERED)),
    ("no deprecation so far", HOPPER): lambda: not warns(lambda: for_gpu(by_mosaic_gpu(double), TILE, chip="h100")),
    ("no deprecation so far", AMPERE): lambda: warns(lambda: for_gpu(whole(double), TILE, chip="a100", quietly=False)),
}
