"""A blocked matmul x[m, k] @ y[k, n]: what ``roofline`` says of its kernel, and the ideal.

The kernel has the grid (i, j, k) with k innermost, blocks (bm, bk), (bk, bn) and (bm, bn), and an accumulator in
scratch. It is only read, never run. roof_model.js computes the same in closed form in the browser; a test compares
them.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, cost, grid, roofline

ITEMSIZE = {"bfloat16": 2, "float32": 4, "int8": 1}  # bytes of an element of x or y
RESULT = {"bfloat16": "bfloat16", "float32": "float32", "int8": "int32"}
MOST_STEPS = 1 << 19  # of a grid that is read here, which takes a second


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """The sizes of a matmul. ``blocks`` is (bm, bk, bn), cut down to smaller arrays; None is the ideal: every array is
    copied once, hidden behind the arithmetic, and steps cost nothing.
    """

    m: int
    k: int
    n: int
    blocks: tuple[int, int, int] | None
    dtype: str

    @property
    def cut(self) -> tuple[int, int, int]:
        """(bm, bk, bn), none larger than its axis."""
        bm, bk, bn = self.blocks
        return min(bm, self.m), min(bk, self.k), min(bn, self.n)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along m, n and k."""
        bm, bk, bn = self.cut
        return -(-self.m // bm), -(-self.n // bn), -(-self.k // bk)

    @property
    def flops(self) -> int:
        return 2 * self.m * self.k * self.n

    @property
    def args(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """x and y."""
        return jax.ShapeDtypeStruct((self.m, self.k), self.dtype), jax.ShapeDtypeStruct((self.k, self.n), self.dtype)


def rates(*, chip: str) -> dict:
    """Return what the browser needs of a chip: data sheet, fitted constants, and the chip they were ``fitted`` on."""
    made_of = chips.chip(chip)
    fitted = chip if chip in roofline.FITTED else "v5e"
    constants = roofline.FITTED[fitted]
    return {
        "name": chip,
        "bf16": made_of.bf16_flops,
        "int8": made_of.int8_ops,
        "bandwidth": made_of.program_bandwidth,
        "cores": made_of.cores,
        "mxu": made_of.mxu_size,
        "sublanes": made_of.sublanes,
        "scoped": made_of.scoped_vmem_bytes,
        "vmem": made_of.vmem_bytes,
        "step_s": constants.step_s,
        "issue_s": constants.issue_s,
        "read_s": constants.read_s,
        "write_s": constants.write_s,
        "hbm": constants.hbm,
        "products": constants.mxu,
        "fitted": fitted,
    }


def peak(product: Product, chip: dict) -> float:
    """Return the FLOP/s of the MXUs for the dtype; a chip without an int8 rate widens int8 to bf16."""
    return (product.dtype == "int8" and chip["int8"]) or chip["bf16"]


@functools.lru_cache(maxsize=64)  # a picture asks several times
def predicted(product: Product, *, chip: str) -> roofline.Prediction:
    """Predict roofs and time of a matmul of at most MOST_STEPS steps; the ideal reaches the data sheet's rates."""
    if product.blocks:
        found = roofline.predict(blocked(product), *product.args, chip=chip)
        return dataclasses.replace(found, flops=product.flops)  # without the additions to the accumulator
    given, (x, y) = rates(chip=chip), product.args
    moved = (x.size + y.size) * x.dtype.itemsize + product.m * product.n * jnp.dtype(RESULT[product.dtype]).itemsize
    compute, memory = product.flops / peak(product, given), moved / given["bandwidth"]
    return roofline.Prediction(
        chip=chip,
        seconds=max(compute, memory),
        compute_s=compute,
        memory_s=memory,
        steps_s=0.0,
        overhead_s=0.0,
        flops=product.flops,
        hbm_bytes=moved,
        steps=0,
    )


@functools.lru_cache(maxsize=64)
def vmem_bytes(product: Product) -> int:
    """Return the bytes of VMEM that the kernel needs; 0 for the ideal."""
    return cost.vmem_bytes(grid.walk(blocked(product), *product.args)) if product.blocks else 0


def blocked(product: Product) -> Callable:
    """Return the kernel as a function of x and y."""
    (bm, bk, bn), steps = product.cut, product.grid
    total = jnp.int32 if product.dtype == "int8" else jnp.float32

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=total)

        @pl.when(pl.program_id(2) == steps[2] - 1)
        def _store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((product.m, product.n), RESULT[product.dtype]),
        grid=steps,
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), total)],
    )
