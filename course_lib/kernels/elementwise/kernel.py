"""Elementwise kernels: ``o[i] = x[i] + y[i]`` and its siblings, for arrays of any shape.

Cost   FLOPs one per element, none for ``cast``
       HBM bytes size * (sum of the itemsizes of all operands): every element is read once, or written once
VMEM   2 * bm * bn * (sum of the itemsizes): each block is held twice so that copies overlap work

An array of one axis is cut into blocks of bm * bn elements. An array of more axes is seen as (M, N), N its last axis,
and cut into blocks (bm, bn). The last block may reach past the edge: what it reads there is garbage, and what it writes
there is dropped.
"""

import dataclasses

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.legal import LANES, SUBLANES, check
from course_lib.kernels.common.outputs import out_type


def add_reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """Return what ``add`` must compute."""
    return x + y


def subtract_reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """Return what ``subtract`` must compute."""
    return x - y


def multiply_reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """Return what ``multiply`` must compute."""
    return x * y


def cast_reference(x: Num[Array, "*shape"], dtype: jax.typing.DTypeLike) -> Num[Array, "*shape"]:
    """Return what ``cast`` must compute."""
    return x.astype(dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes. They change the speed, not the result. 256 x 1024 in f32 takes 6 MiB of VMEM for three operands."""

    bm: int = 256  # rows: a multiple of 8 (16 fills the registers of two-byte types; 32 if one type is int8)
    bn: int = 1024  # elements of the last axis: a multiple of 128

    def __post_init__(self):
        check(self, bm=SUBLANES, bn=LANES)


def _add_kernel(x_ref: Num[Ref, "*block"], y_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...] + y_ref[...]


def _subtract_kernel(x_ref: Num[Ref, "*block"], y_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...] - y_ref[...]


def _multiply_kernel(x_ref: Num[Ref, "*block"], y_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...] * y_ref[...]


def _cast_kernel(x_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...].astype(o_ref.dtype)


KERNELS = {"add": _add_kernel, "subtract": _subtract_kernel, "multiply": _multiply_kernel, "cast": _cast_kernel}


def launch(kernel, *operands: Array, view, block, dtype=None, vmem_limit_bytes=None) -> Array:
    """Run ``kernel`` on one TPU, on operands of one shape, seen as ``view`` ((N,) or (M, N)) and cut into ``block``."""
    x = operands[0]
    spec = pl.BlockSpec(block, lambda *step: step)
    return pl.pallas_call(
        kernel,
        out_shape=out_type(x, view, dtype or x.dtype),
        grid=tuple(map(pl.cdiv, view, block)),
        in_specs=[spec] * len(operands),
        out_specs=spec,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",) * len(view), vmem_limit_bytes=vmem_limit_bytes
        ),
    )(*(operand.reshape(view) for operand in operands)).reshape(x.shape)
