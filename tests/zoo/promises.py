"""pl.multiple_of: promises that the compiler believes, and that do not hold."""

import jax
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug


def windows(x, stride):
    """Rows 0 to 7, then 8 rows from ``stride`` on, and so on: four windows of x, all of which lies in VMEM."""

    def window_kernel(x_ref, o_ref):
        start = pl.multiple_of(stride * pl.program_id(0), 8)
        o_ref[...] = x_ref[pl.ds(start, 8), :]

    return pl.pallas_call(
        window_kernel,
        out_shape=jax.ShapeDtypeStruct((32, x.shape[1]), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec(x.shape, lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0)),
    )(x)


def looked_up(starts, x):
    """Eight rows of x from each of ``starts`` on, which are prefetched."""

    def window_kernel(starts_ref, x_ref, o_ref):
        def turn(n, _):
            start = pl.multiple_of(starts_ref[n], 8)
            o_ref[pl.ds(8 * n, 8), :] = x_ref[pl.ds(start, 8), :]

        jax.lax.fori_loop(0, 3, turn, None)

    return pl.pallas_call(
        window_kernel,
        out_shape=jax.ShapeDtypeStruct((24, x.shape[1]), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(),
            in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],
            out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        ),
    )(starts, x)


X = counted(64, 256)
STARTS = np.array([16, 0, 20], np.int32)

BUGS = (
    Bug(
        kind="promises",
        name="windows 12 apart, promised multiples of 8",
        fn=lambda x: windows(x, stride=12),
        reference=lambda x: x[np.arange(4)[:, None] * 12 + np.arange(8)].reshape(32, -1),
        args=(X,),
        caught_by="simulator",
        says=r"(?s)promise that the compiler trusts\. At step \(1,\) start is 12, .* begin at 8 instead",
    ),
    Bug(
        kind="promises",
        name="windows looked up, one not as promised",
        fn=looked_up,
        reference=lambda starts, x: x[starts[:, None] + np.arange(8)].reshape(24, -1),
        args=(STARTS, X),
        caught_by="simulator",
        says=r"(?s)promise that the compiler trusts\. Here start is 20, .* begin at 16 instead",
    ),
)
