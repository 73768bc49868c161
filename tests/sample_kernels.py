"""Kernels that several tests compile."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TENSOR_CORE = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
VECTOR = jax.ShapeDtypeStruct((4096,), jnp.float32)


def array(shape: tuple[int, ...], dtype=jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def add(x, y, block=1024):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = pl.BlockSpec((block,), lambda i: (i,))
    return pl.pallas_call(kernel, out_shape=x, grid=(x.size // block,), in_specs=[spec, spec], out_specs=spec)(x, y)


def matmul(x, y, blocks=(512, 512, 512), vmem_limit_bytes=None, semantics=None):
    """A tiled product with an f32 accumulator; ``blocks`` are (bm, bk, bn)."""
    bm, bk, bn = blocks
    grid = (x.shape[0] // bm, y.shape[1] // bn, x.shape[1] // bk)

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == grid[2] - 1)
        def _finish():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        grid=grid,
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=vmem_limit_bytes, dimension_semantics=semantics),
    )(x, y)


def by_rows(fn, x, rows=8):
    """An elementwise or row-wise function of blocks of whole rows."""

    def kernel(x_ref, o_ref):
        o_ref[...] = fn(x_ref[...])

    spec = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(x.shape[0] // rows,), in_specs=[spec], out_specs=spec)(x)


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def pipelined_matmul(x, y, block=256, buffers=2):
    """The hello-world product: pl.kernel on a TensorCore mesh, with emit_pipeline inside; ``buffers`` for x."""

    def kernel(x_hbm, y_hbm, o_hbm):
        def body(x_ref, y_ref, o_ref):
            @pl.when(pl.program_id(2) == 0)
            def _start():
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        pltpu.emit_pipeline(
            body,
            grid=(x.shape[0] // block, y.shape[1] // block, x.shape[1] // block),
            in_specs=[
                pl.BlockSpec((block, block), lambda i, j, k: (i, k), pipeline_mode=pl.Buffered(buffers)),
                pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
            ],
            out_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, j))],
        )(x_hbm, y_hbm, o_hbm)

    out = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32)
    return pl.kernel(kernel, out_type=out, mesh=TENSOR_CORE)(x, y)


def endless(x):
    """Compiles; but how often its loop runs depends on data, and the cycle simulator cannot know."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.while_loop(lambda v: jnp.max(v) < 1e3, lambda v: v * 1.1, x_ref[...])

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)


def gathered(x, indices):
    """XLA's gather: libtpu's simulator aborts on it."""
    return x[indices]
