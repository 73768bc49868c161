"""pl.kernel and emit_pipeline: the grid inside the kernel, alone, nested, and under a grid outside."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal, whole

CORE = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
IN_HBM = pl.BlockSpec(memory_space=pl.ANY)
CHUNK = pl.BlockSpec((16, 128), lambda i: (i, 0))
X = counted((64, 128))


def doubled(x):
    return 2 * x


def copied_in_and_out(x):
    """pl.kernel: no blocks, no grid; two copies that are waited for at once."""

    def kernel(x_hbm, o_hbm, x_ref, o_ref):
        pltpu.sync_copy(x_hbm, x_ref)
        o_ref[...] = 2 * x_ref[...]
        pltpu.sync_copy(o_ref, o_hbm)

    buffer = pltpu.VMEM(x.shape, x.dtype)
    return pl.kernel(kernel, out_type=x, mesh=CORE, scratch_types=[buffer, buffer])(x)


def scoped_buffers(x):
    """The same with run_scoped: the buffers are made inside."""

    def kernel(x_hbm, o_hbm):
        def body(x_ref, o_ref, sem):
            copy = pltpu.make_async_copy(x_hbm, x_ref, sem)
            copy.start()
            copy.wait()
            o_ref[...] = 2 * x_ref[...]
            pltpu.make_async_copy(o_ref, o_hbm, sem).start()
            pltpu.make_async_copy(o_ref, o_hbm, sem).wait()

        pl.run_scoped(body, pltpu.VMEM(x.shape, x.dtype), pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA)

    return pl.kernel(kernel, out_type=x, mesh=CORE)(x)


def pipelined(x):
    def kernel(x_hbm, o_hbm):
        def body(x_ref, o_ref):
            o_ref[...] = 2 * x_ref[...]

        pltpu.emit_pipeline(body, grid=(4,), in_specs=[CHUNK], out_specs=[CHUNK])(x_hbm, o_hbm)

    return pl.kernel(kernel, out_type=x, mesh=CORE)(x)


def pipelined_product(x, y):
    """emit_pipeline inside a pallas_call, adding into a scratch of the kernel around it."""

    def kernel(x_hbm, y_hbm, o_ref, acc_ref):
        def body(x_ref, y_ref):
            acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        acc_ref[...] = jnp.zeros_like(acc_ref)
        pltpu.emit_pipeline(
            body,
            grid=(x.shape[1] // 128,),
            in_specs=[
                pl.BlockSpec((x.shape[0], 128), lambda k: (0, k), pipeline_mode=pl.Buffered(3)),
                pl.BlockSpec((128, y.shape[1]), lambda k: (k, 0)),
            ],
        )(x_hbm, y_hbm)
        o_ref[...] = acc_ref[...]

    out = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32)
    return pl.pallas_call(
        kernel,
        out_shape=out,
        in_specs=[IN_HBM, IN_HBM],
        out_specs=pl.BlockSpec(out.shape),
        scratch_shapes=[pltpu.VMEM(out.shape, jnp.float32)],
    )(x, y)


def product(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def names_used_twice(x):
    """A buffer inside has the name of the input outside, and is written to: that input is not."""

    def kernel(x_ref, o_ref):
        source = x_ref

        def body(x_ref, sem):
            copy = pltpu.make_async_copy(source, x_ref, sem)
            copy.start()
            copy.wait()
            x_ref[...] = x_ref[...] + x_ref[...]
            o_ref[...] = x_ref[...]

        pl.run_scoped(body, pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA)

    return pl.pallas_call(kernel, out_shape=x, in_specs=[IN_HBM], out_specs=pl.BlockSpec(x.shape))(x)


def one_inside_the_other(x, y):
    """For each chunk of x a pipeline over all chunks of y, which reads the chunk of x that the outer one holds."""

    def kernel(x_hbm, y_hbm, o_hbm, total_ref):
        def outer(x_ref, o_ref):
            def inner(y_ref):
                total_ref[...] += x_ref[...] * jnp.sum(y_ref[...], axis=0, keepdims=True)

            total_ref[...] = jnp.zeros_like(total_ref)
            rows = pl.BlockSpec((8, 128), lambda k: (k, 0))
            pltpu.emit_pipeline(inner, grid=(y.shape[0] // 8,), in_specs=[rows])(y_hbm)
            o_ref[...] = total_ref[...]

        pltpu.emit_pipeline(outer, grid=(4,), in_specs=[CHUNK], out_specs=[CHUNK])(x_hbm, o_hbm)

    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[IN_HBM, IN_HBM],
        out_specs=IN_HBM,
        scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)],
    )(x, y)


def under_a_grid(x):
    """Each of two grid steps runs a pipeline over its half."""

    def kernel(x_hbm, o_hbm):
        half = pl.program_id(0)

        def body(x_ref, o_ref):
            o_ref[...] = 2 * x_ref[...]

        spec = pl.BlockSpec((16, 128), lambda k: (2 * half + k, 0))
        pltpu.emit_pipeline(body, grid=(2,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    return pl.pallas_call(kernel, out_shape=x, grid=(2,), in_specs=[IN_HBM], out_specs=IN_HBM)(x)


PRODUCT = normal((32, 512), jnp.bfloat16), normal((512, 128), jnp.bfloat16, seed=1)


FACTORS = whole((16, 128), -9, 9).astype(jnp.float32)

RIGHT = (
    Right("pl.kernel with two plain copies", copied_in_and_out, doubled, (X,)),
    Right("pl.kernel with run_scoped", scoped_buffers, doubled, (X,)),
    Right("pl.kernel with emit_pipeline", pipelined, doubled, (X,)),
    Right("emit_pipeline that adds into an outer scratch", pipelined_product, product, PRODUCT),
    Right("names used twice", names_used_twice, doubled, (X,)),
    Right(
        "a pipeline inside a pipeline",
        one_inside_the_other,
        lambda x, y: x * jnp.sum(y, axis=0, keepdims=True),
        (X, FACTORS),
    ),
    Right("a pipeline at each step of a grid", under_a_grid, doubled, (X,)),
)
