"""The product of ``matmul`` with its pipeline spelled out: ``pl.kernel`` on the TensorCore, ``emit_pipeline`` inside.

Cost   as ``matmul``
VMEM   as ``matmul``

``pl.kernel`` gives the kernel whole arrays, which lie in HBM. ``emit_pipeline`` cuts them into blocks and copies the
blocks of the next step while this one computes; ``pallas_call`` with a grid does the same implicitly. Spelled out, the
pipeline is one part of a kernel, which may do more before, after or beside it.

Blocks must divide the arrays here. A chip takes others too, but their last copies reach into the padding of HBM, which
no simulator has: nobody could judge them without a chip.
"""

import functools

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def _kernel(
    x_hbm: Float[Ref, "M K"],
    y_hbm: Float[Ref, "K N"],
    o_hbm: Float[Ref, "M N"],
    acc_ref: Float32[Ref, "bm bn"],  # scratch: survives from one step to the next
    *,
    sizes,  # (bm, bk, bn)
    precision,
) -> None:
    (m, k_size), n, (bm, bk, bn) = x_hbm.shape, y_hbm.shape[1], sizes
    grid = pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k_size, bk)

    def step(x_ref: Float[Ref, "bm bk"], y_ref: Float[Ref, "bk bn"], o_ref: Float[Ref, "bm bn"]) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += dot(x_ref[...], y_ref[...], precision=precision)

        @pl.when(pl.program_id(2) == grid[2] - 1)
        def _store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    pltpu.emit_pipeline(
        step,
        grid=grid,
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
    )(x_hbm, y_hbm, o_hbm)


def launch(x: Array, y: Array, sizes, *, precision=None, vmem_limit_bytes=None) -> Array:
    """Run the kernel on one TPU with blocks of ``sizes`` (bm, bk, bn), which divide the arrays."""
    bm, _, bn = sizes
    return pl.kernel(
        functools.partial(_kernel, sizes=sizes, precision=precision),
        out_type=out_type(x, (x.shape[0], y.shape[1]), x.dtype),
        mesh=pltpu.TensorCoreMesh(axis_name="core", num_cores=1),
        scratch_types=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=vmem_limit_bytes),
        name="matmul_pipelined",
    )(x, y)
