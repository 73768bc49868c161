"""Blocks and buffers that the chip's memories cannot hold."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug


def double(x, block):
    """2 x in blocks of the given shape."""

    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec(block, lambda *step: step)
    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=tuple(pl.cdiv(n, b) for n, b in zip(x.shape, block, strict=True)),
        in_specs=[spec],
        out_specs=spec,
    )(x)


def unaligned_lanes(x):
    """The columns 0 to 127, then 1 to 128, then 2 to 129 ... of x, one such window for each eight rows."""

    def window_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:, pl.ds(pl.program_id(0), 128)]

    return pl.pallas_call(
        window_kernel,
        out_shape=jax.ShapeDtypeStruct((32, 128), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )(x)


def prefetch_larger_than_smem(x, scale):
    """x times the scale of its row of blocks, with 2 MiB of scales in SMEM."""

    def scale_kernel(scale_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale_ref[pl.program_id(0)]

    spec = pl.BlockSpec((8, 128), lambda i, scale_ref: (i, 0))
    return pl.pallas_call(
        scale_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,), in_specs=[spec], out_specs=spec),
    )(scale, x)


def twice(x):
    return 2 * x


BUGS = tuple(
    Bug(kind="memory", name=name, fn=fn, reference=reference, args=args, caught_by="compiler", says=says)
    for name, fn, reference, args, says in (
        (
            "blocks of 32 x 32",
            partial(double, block=(32, 32)),
            twice,
            (counted(64, 64),),
            r"(?s)block \(32, 32\) of x_ref is not legal.*multiples of 8 and 128.*Nearest legal: \(32, 64\)",
        ),
        (
            "blocks of four rows of bytes",
            partial(double, block=(4, 128)),
            twice,
            (counted(16, 128, dtype="int8") // 2,),
            r"(?s)block \(4, 128\) of x_ref is not legal.*Nearest legal: \(8, 128\)",
        ),
        (
            "one-dimensional blocks of 100",
            partial(double, block=(100,)),
            twice,
            (counted(1000),),
            r"(?s)block \(100,\) of x_ref is not legal.*multiple of 1024",
        ),
        (
            "two blocks of 4.5 MiB, each twice",
            partial(double, block=(1152, 1024)),
            twice,
            (counted(2304, 1024),),
            r"(?s)18\.00 MiB of VMEM.*16\.00 MiB.*x_ref .* x 2 .*each has two buffers",
        ),
        (
            "scalars larger than SMEM",
            prefetch_larger_than_smem,
            lambda x, scale: x * jnp.repeat(scale[:4], 8)[:, None],
            (counted(32, 128), counted(1 << 19, dtype="float32")),
            r"scale_ref.* 2(\.\d+)? MiB.*SMEM",
        ),
        (
            "window that starts at any lane",
            unaligned_lanes,
            lambda x: jnp.concatenate([x[8 * i : 8 * i + 8, i : i + 128] for i in range(4)]),
            (counted(32, 256),),
            r"(?s)axis 1.*multiple of 128",
        ),
    )
)
