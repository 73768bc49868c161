"""Index maps that ask for the wrong block, and grids that leave blocks out."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted, normal
from zoo.bug import Bug

ROWS = 8
HIGHEST = jax.lax.Precision.HIGHEST


def add(x, y, x_map=lambda i: (i, 0), o_map=lambda i: (i, 0)):
    """x + y, eight rows at a step."""

    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = (ROWS, x.shape[1])
    return pl.pallas_call(
        add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[pl.BlockSpec(block, x_map), pl.BlockSpec(block, lambda i: (i, 0))],
        out_specs=pl.BlockSpec(block, o_map),
    )(x, y)


def double_transposed(x):
    """2 x in two times two blocks; the input's map has the grid axes the wrong way round."""

    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    block = (x.shape[0] // 2, x.shape[1] // 2)
    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(2, 2),
        in_specs=[pl.BlockSpec(block, lambda i, j: (j, i))],
        out_specs=pl.BlockSpec(block, lambda i, j: (i, j)),
    )(x)


def product(x, y):
    """x @ y with blocks of 128 along the sum; the map of y is that of x."""

    def product_kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], precision=HIGHEST, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == 1)
        def _finish():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        product_kernel,
        out_shape=jax.ShapeDtypeStruct((2 * ROWS, 256), jnp.float32),
        grid=(2, 2, 2),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (i, k))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((ROWS, 128), jnp.float32)],
    )(x, y)


def double_leading(x, steps, block):
    """2 x, one block of the first axis at a step."""

    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec(block, lambda i: (i,) + (0,) * (x.ndim - 1))
    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(steps,),
        in_specs=[spec],
        out_specs=spec,
    )(x)


def twice(x):
    return 2 * x


def dot(x, y):
    return jnp.dot(x, y, precision=HIGHEST, preferred_element_type=jnp.float32)


BLOCKS = (counted(4 * ROWS, 128), counted(4 * ROWS, 128))
FACTORS = (normal(2 * ROWS, 256), normal(256, 256, seed=1))
HEADS = counted(4, 8, 128) + 1

BUGS = tuple(
    Bug(kind="index maps", name=name, fn=fn, reference=reference, args=args, caught_by="numbers", says=says)
    for name, fn, reference, args, says in (
        (
            "element numbers for block numbers",
            partial(add, x_map=lambda i: (ROWS * i, 0)),
            jnp.add,
            BLOCKS,
            r"(?s)step \(1,\).*x_ref asks for block \(8, 0\).*4 x 1 blocks.*not element indices",
        ),
        (
            "input transposed",
            double_transposed,
            twice,
            (counted(16, 256),),
            r"(?s)step \(0, 1\).*x_ref holds block \(1, 0\).*needs block \(0, 1\).*index map of x_ref",
        ),
        (
            "input shifted by one block",
            partial(add, x_map=lambda i: ((i + 1) % 4, 0)),
            jnp.add,
            BLOCKS,
            r"(?s)step \(0,\).*x_ref holds block \(1, 0\).*needs block \(0, 0\)",
        ),
        (
            "y with the index map of x",
            product,
            dot,
            FACTORS,
            r"(?s)needs block \(1, 0\) of y_ref.*steps.*read.* \(0, 0\) and \(0, 1\)",
        ),
        (
            "last block left out",
            partial(double_leading, steps=20 // ROWS, block=(ROWS, 128)),
            twice,
            (counted(20, 128),),
            r"(?s)No grid step writes output block \(2, 0\).*pl\.cdiv\(20, 8\) = 3 steps",
        ),
        (
            "every step writes output block 0",
            partial(add, o_map=lambda i: (0, 0)),
            jnp.add,
            BLOCKS,
            r"index map of o_ref returns block \(0, 0\) at every step",
        ),
        (
            "half of the heads",
            partial(double_leading, steps=2, block=(None, 8, 128)),
            twice,
            (HEADS,),
            r"No grid step writes output block \(2, 0, 0\)",
        ),
    )
)
