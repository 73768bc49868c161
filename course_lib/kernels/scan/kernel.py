"""Cumulative sums along any axis: ``o[i, j] = x[i, 0] + ... + x[i, j]``, or down the rows, forwards or in reverse.

Cost   FLOPs 4 * size;  HBM bytes 2 * size * itemsize: every element is read once and written once
VMEM   4 * bm * bn * itemsize, and 12 * bm * bn if blocks are transposed; and the carry, a row or so

Blocks go by in order, and the last sums of one wait in VMEM for the next: the carry. The chip has no cumulative sum, so
within a block 8 rows are summed at a time: each is added to the next, then to the one 2 further, then 4 further (Hillis
and Steele, Data parallel algorithms, CACM 29, 1986), and the carry on top. Along columns, blocks are transposed first.
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.along_axis import accumulator
from course_lib.kernels.common.legal import LANES, SUBLANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import zero_beyond

SQUARE = LANES * LANES  # elements of a row that become a square: 128 pieces of 128


def reference(x: Num[Array, "*shape"], axis: int = -1, *, reverse: bool = False) -> Num[Array, "*shape"]:
    """Return what ``cumsum`` must compute: floats in f32, rounded once."""
    return lax.cumsum(x.astype(accumulator(x.dtype)), axis % x.ndim, reverse).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes. They change the speed, not the result (but for the order of a sum). A vector takes none."""

    bm: int = 512  # rows: a multiple of 128 along the last axis, of 32 along others
    bn: int = 512  # columns: a multiple of 128

    def __post_init__(self):
        check(self, bm=SUBLANES, bn=LANES)


def _kernel(
    x_ref: Num[Ref, "*block"],
    o_ref: Num[Ref, "*block"],
    carry_ref: Num[Ref, "*carry"],  # scratch: the last sums so far
    *,
    add_up,  # the function that sums a block
    left,  # a function: how many elements of the axis there are from this block on; None if no block is ragged
    reverse,
    grid_axis,
) -> None:
    @pl.when(pl.program_id(grid_axis) == 0)
    def _clear():
        carry_ref[...] = jnp.zeros_like(carry_ref)

    add_up(x_ref, o_ref, carry_ref, left, reverse)


def turned(x_ref: Num[Ref, "bm bn"], o_ref: Num[Ref, "bm bn"], carry_ref: Num[Ref, "8 bm"], left, reverse):
    """Sum along the columns of many rows: transpose the block, sum downwards, transpose back."""
    x = x_ref[...].astype(carry_ref.dtype).T
    x = zero_beyond(x, 0, left()) if left else x
    sums, carry_ref[...] = down(x, carry_ref[...], reverse)
    o_ref[...] = sums.T.astype(o_ref.dtype)


def long(x_ref: Num[Ref, "bm bn"], o_ref: Num[Ref, "bm bn"], carry_ref: Num[Ref, "bm 128"], left, reverse):
    """Sum along few rows, which would fill few lanes when transposed: cut them into pieces of 128 first."""
    (bm, bn), x = x_ref.shape, x_ref[...].astype(carry_ref.dtype)
    x = zero_beyond(x, 1, left()) if left else x
    square = min(bn, SQUARE)
    starts = range(0, bn, square)
    cut = [x[:, start : start + square].reshape(bm * square // LANES, LANES) for start in starts]
    for start, sums in zip(starts, in_pieces(cut, carry_ref, square // LANES, reverse), strict=True):
        o_ref[:, start : start + square] = sums.reshape(bm, square).astype(o_ref.dtype)


def in_pieces(cut: list[Num[Array, "n 128"]], carry_ref, pieces, reverse) -> list[Num[Array, "n 128"]]:
    """Return the sums of consecutive parts of some rows, each seen as pieces of 128 elements, ``pieces`` to a row."""
    inner, ends = [], []
    for part in cut[::-1] if reverse else cut:
        sums, end = down(part.T, None, reverse)
        inner, ends = [*inner, sums], [*ends, end[:1].reshape(-1, LANES)]
    before, whole = _before(jnp.concatenate(ends), pieces, reverse)
    carry, height, out = carry_ref[...], len(ends[0]), []
    for n, sums in enumerate(inner):
        offsets = before[n * height : (n + 1) * height]
        if pieces == LANES:  # else a block is all of its rows, and the first is the last
            offsets += carry
            carry += jnp.broadcast_to(whole[n * height : (n + 1) * height], carry.shape)
        out.append((sums + offsets.reshape(1, -1)).T)
    carry_ref[...] = carry
    return out[::-1] if reverse else out


def down(x, carry, reverse) -> tuple[Array, Array]:
    """Return the sums down the rows of x, on top of ``carry`` (8 equal rows, or None), and the carry after them."""
    eights = x.reshape(x.shape[0] // SUBLANES, SUBLANES, x.shape[1])
    row = lax.broadcasted_iota(jnp.int32, eights.shape, 1)
    for by in (1, 2, 4):
        eights += _moved(eights, row, by, SUBLANES, reverse)
    last, sums = 0 if reverse else SUBLANES - 1, []
    for n in range(len(eights))[:: -1 if reverse else 1]:
        sums.append(eights[n] if carry is None else eights[n] + carry)
        carry = jnp.broadcast_to(sums[-1][last : last + 1], sums[-1].shape)
    return jnp.concatenate(sums[::-1] if reverse else sums), carry


def _before(ends: Num[Array, "n 128"], pieces, reverse) -> tuple[Array, Array]:
    """Return the sum of the pieces before each piece, of ``pieces`` to a row, and that of all 128."""
    place, sums, by = lax.broadcasted_iota(jnp.int32, ends.shape, 1) % pieces, ends, 1
    while by < pieces:
        sums, by = sums + _moved(sums, place, by, pieces, reverse), 2 * by
    return _moved(sums, place, 1, pieces, reverse), sums[:, :1] if reverse else sums[:, LANES - 1 :]


def _moved(x, place, by, group, reverse):
    """Return x moved ``by`` places along axis 1 in groups of ``group`` elements, with zeros behind it."""
    came = place < group - by if reverse else place >= by
    return jnp.where(came, pltpu.roll(x, x.shape[1] - by if reverse else by, 1), 0)


def launch(x, add_up, *, view, axis, block, carry, reverse, vmem_limit_bytes=None) -> Array:
    """Sum x, seen as ``view``, along ``axis`` of that on one TPU, in blocks of shape ``block``, by ``add_up``."""
    steps = [pl.cdiv(size, length or 1) for size, length in zip(view, block, strict=True)]
    along, others = steps.pop(axis), steps

    def index(*step):
        n = along - 1 - step[-1] if reverse else step[-1]
        return *step[:axis], n, *step[axis:-1]

    def left():
        step = pl.program_id(len(others))
        return view[axis] - (along - 1 - step) * block[axis]

    # Only a reversed sum begins in the last block, whose garbage past the end of the array would count.
    left = left if reverse and view[axis] % block[axis] else None
    spec = pl.BlockSpec(block, index)
    return pl.pallas_call(
        functools.partial(_kernel, add_up=add_up, left=left, reverse=reverse, grid_axis=len(others)),
        out_shape=out_type(x, view, x.dtype),
        grid=(*others, along),  # the summed axis runs last
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM(carry, accumulator(x.dtype))],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",) * len(others) + ("arbitrary",), vmem_limit_bytes=vmem_limit_bytes
        ),
    )(x.reshape(view)).reshape(x.shape)
