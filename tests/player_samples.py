"""Kernels whose grids the player must show, one for each thing that a grid can do."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import VECTOR, add, array, pipelined_matmul
from test_grid import gather_rows, matmul


def copied(shape, block, grid, index, out_index=None):
    """A kernel that copies blocks, and its argument."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = array(shape)
    specs = pl.BlockSpec(block, index), pl.BlockSpec(block, out_index or index)
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[specs[0]], out_specs=specs[1]), (x,)


def windows():
    """Blocks of 16 rows that overlap by 8."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + x_ref[8:]

    call = pl.pallas_call(
        kernel,
        out_shape=array((24, 128)),
        grid=(3,),
        in_specs=[pl.BlockSpec((pl.Element(16), 128), lambda i: (8 * i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )
    return call, (array((32, 128)),)


def padded_windows():
    """Windows that begin 8 rows before the array and end 8 behind it."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + x_ref[16:]

    call = pl.pallas_call(
        kernel,
        out_shape=array((16, 128)),
        grid=(2,),
        in_specs=[pl.BlockSpec((pl.Element(24, padding=(8, 8)), 128), lambda i: (8 * i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )
    return call, (array((16, 128)),)


def by_hand(depends_on_data=False):
    """x stays in HBM; the kernel copies 8 rows of it at each step, and 4 more at every other one."""

    def kernel(x_hbm, o_ref, buffer, sem):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(x_hbm.at[pl.ds(8 * i, 8)], buffer.at[0], sem)
        copy.start()
        copy.wait()

        @pl.when(buffer[0, 0, 0] > 0 if depends_on_data else i % 2 == 0)
        def more():
            pltpu.sync_copy(x_hbm.at[pl.ds(0, 4), pl.ds(0, 128)], buffer.at[1, pl.ds(0, 4)])

        o_ref[...] = buffer[0]

    call = pl.pallas_call(
        kernel,
        out_shape=array((64, 128)),
        grid=(8,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )
    return call, (array((64, 128)),)


def many_operands():
    """Six inputs with one, two or three buffers, in VMEM and SMEM, and two outputs."""

    def kernel(*refs):
        refs[-1][...] = refs[0][...]

    each = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    specs = [
        each,
        pl.BlockSpec((8, 128), lambda i, j: (i, 0), pipeline_mode=pl.Buffered(1)),
        pl.BlockSpec((8, 128), lambda i, j: (0, j), pipeline_mode=pl.Buffered(3)),
        pl.BlockSpec((16, 512), lambda i, j: (0, 0)),
        pl.BlockSpec(memory_space=pltpu.SMEM),
        pl.BlockSpec((1, 128), lambda i, j: (0, j)),
    ]
    x = array((64, 512))
    call = pl.pallas_call(kernel, out_shape=[x, x], grid=(8, 4), in_specs=specs, out_specs=[each, each])
    return call, (x, x, x, array((16, 512)), array((1,)), array((1, 512)))


def without_a_grid():
    """One step, and a scalar of rank 0."""

    def kernel(a_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec((8, 128), lambda: (0, 0))]
    return pl.pallas_call(kernel, out_shape=array((8, 128)), in_specs=specs), (array(()), array((8, 128)))


def carried():
    """Two sums over four steps: one in scratch that is zeroed, and one in an output block that nobody has zeroed."""

    def kernel(x_ref, o_ref, p_ref, acc_ref):
        k = pl.program_id(1)

        @pl.when(k == 0)
        def _zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]
        p_ref[...] += x_ref[...]

        @pl.when(k == 3)
        def _store():
            o_ref[...] = acc_ref[...]

    out = pl.BlockSpec((8, 128), lambda i, k: (i, 0))
    call = pl.pallas_call(
        kernel,
        out_shape=[array((24, 128))] * 2,
        grid=(3, 4),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=[out, out],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )
    return call, (array((24, 512)),)


def square(n: int) -> jax.ShapeDtypeStruct:
    return array((n, n), jnp.bfloat16)


def in_order(order: str):
    return lambda x, y: matmul(x, y, order)


def scattered():
    """A grid whose blocks come in no order that a picture could sum up."""
    return copied((8 * 64, 128 * 64), (8, 128), (64, 64), lambda i, j: ((i * 37 + j * 11) % 64, (j * 29 + i * 3) % 64))


SAMPLES = {
    "vectors": (add, (VECTOR, VECTOR)),
    "matmul": (matmul, (square(512), square(512))),
    "revisits": (in_order("kij"), (square(512), square(512))),
    "ragged": copied((100, 300), (32, 128), (4, 3), lambda i, j: (i, j)),
    "outside": copied((32, 1), (8, None), (4,), lambda i: (i + 1, 0)),
    "squeezed": copied((4, 6, 40, 128), (None, 2, 8, 128), (4, 3, 5), lambda b, h, i: (b, h, i, 0)),
    "one output block": copied((32, 128), (8, 128), (4,), lambda i: (i, 0), lambda i: (0, 0)),
    "windows": windows(),
    "padded windows": padded_windows(),
    "prefetch": (gather_rows, (jnp.array([2, 2, 0, 3], jnp.int32), jnp.zeros((32, 128)))),
    "by hand": by_hand(),
    "many operands": many_operands(),
    "no grid": without_a_grid(),
    "carried": carried(),
    "pipeline": (pipelined_matmul, (square(1024), square(1024))),
    "scattered": scattered(),
    "large": (matmul, (square(4096), square(4096))),
}
