"""The same mistakes in pl.kernel and emit_pipeline, where no grid of pallas_call tells of them."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted
from zoo.bug import Bug

CORE = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
ROWS = 8


def reduction_first(x):
    """The sum of two blocks of 128 columns, for each eight rows, with the axis of the sum before that of the rows."""

    def pipeline_kernel(x_hbm, o_hbm):
        def add(x_ref, o_ref):
            @pl.when(pl.program_id(0) == 0)
            def _start():
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += x_ref[...]

        pltpu.emit_pipeline(
            add,
            grid=(2, x.shape[0] // ROWS),
            in_specs=[pl.BlockSpec((ROWS, 128), lambda k, i: (i, k))],
            out_specs=[pl.BlockSpec((ROWS, 128), lambda k, i: (i, 0))],
        )(x_hbm, o_hbm)

    out = jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype)
    return pl.kernel(pipeline_kernel, out_type=out, mesh=CORE)(x)


def read_where_it_lies(x):
    """2 x, with the refs of a pl.kernel used as if they were blocks in VMEM."""

    def kernel(x_hbm, o_hbm):
        o_hbm[...] = 2 * x_hbm[...]

    return pl.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=CORE)(x)


def twice(x):
    return 2 * x


def in_twos(x):
    return x.reshape(x.shape[0], 2, 128).sum(1)


FOUR_BLOCKS = (counted(4 * ROWS, 128),)
WIDE = (counted(3 * ROWS, 256),)

BUGS = tuple(
    Bug(kind="pipelines", name=name, fn=fn, reference=reference, args=args, caught_by=caught_by, says=says)
    for name, fn, reference, args, caught_by, says in (
        (
            "pipeline with the reduction first",
            reduction_first,
            in_twos,
            WIDE,
            "numbers",
            r"(?s)block \(0, 0\).*last",
        ),
        (
            "HBM read where it lies",
            read_where_it_lies,
            twice,
            FOUR_BLOCKS,
            "simulator",
            r"(?s)left in HBM.*sync_copy\(x_hbm",
        ),
    )
)
