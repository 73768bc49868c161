"""Four kernels that sum or average the blocks of 8 rows of x[M, 128], each with one wrong line, for 11.1."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def case_a(x):
    """Return the mean of the blocks."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            o_ref[...] = jnp.zeros_like(o_ref)

        done = pl.num_programs(0) * jnp.float32(1)
        o_ref[...] += (x_ref[...] - o_ref[...]) / done

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
    )(x)


def case_b(x):
    """Return the sum of the blocks."""

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            acc_ref[:4, :] = jnp.zeros((4, 128), x.dtype)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def store():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
    )(x)


def case_c(x):
    """Return the sum of the blocks."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def begin():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def case_d(x):
    """Return the sum of the blocks, which are copied by hand."""
    chunks = x.shape[0] // 8

    def kernel(x_hbm, o_ref, two_ref, sem):
        def fetch(i, slot):
            chunk = x_hbm.at[pl.ds(8 * i, 8)]
            return pltpu.make_async_copy(chunk, two_ref.at[slot], sem.at[slot])

        o_ref[...] = jnp.zeros_like(o_ref)
        fetch(0, 0).start()

        @pl.loop(0, chunks)
        def turn(i):
            slot = jax.lax.rem(i, 2)
            fetch(i, slot).wait()

            @pl.when(i + 1 < chunks)
            def ahead():
                fetch(i + 1, 1 - slot).start()

            o_ref[...] += two_ref[1 - slot]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[
            pltpu.VMEM((2, 8, 128), x.dtype),
            pltpu.SemaphoreType.DMA((2,)),
        ],
    )(x)
