"""Sums of blocks along other axes than the last of a matrix: down the rows, from plane to plane, along a vector."""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Num, Ref
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.products import zero_beyond
from course_lib.kernels.scan.kernel import down, in_pieces


def rows(x_ref: Num[Ref, "bm bn"], o_ref: Num[Ref, "bm bn"], carry_ref: Num[Ref, "8 bn"], left, reverse):
    """Sum down the rows. The carry holds the last sums 8 times over."""
    bm = x_ref.shape[0]
    height = 32 // x_ref.dtype.itemsize  # rows of whole registers
    end = left() if left else None

    def piece(n, carry):
        at = pl.multiple_of((bm // height - 1 - n if reverse else n) * height, height)
        x = x_ref[pl.ds(at, height), :].astype(carry.dtype)
        x = x if end is None else zero_beyond(x, 0, end - at)
        sums, carry = down(x, carry, reverse)
        o_ref[pl.ds(at, height), :] = sums.astype(o_ref.dtype)
        return carry

    carry_ref[...] = lax.fori_loop(0, bm // height, piece, carry_ref[...])


def planes(x_ref: Num[Ref, "bp bm bn"], o_ref: Num[Ref, "bp bm bn"], carry_ref: Num[Ref, "bm bn"], left, reverse):
    """Sum from one plane to the next. The carry holds the last plane of sums."""
    bp, end = x_ref.shape[0], left() if left else None

    def plane(n, carry):
        n = bp - 1 - n if reverse else n
        x = x_ref[n].astype(carry.dtype)
        x = x if end is None else jnp.where(n < end, x, jnp.zeros_like(x))
        carry += x
        o_ref[n] = carry.astype(o_ref.dtype)
        return carry

    carry_ref[...] = lax.fori_loop(0, bp, plane, carry_ref[...])


def vector(x_ref: Num[Ref, "bm 128"], o_ref: Num[Ref, "bm 128"], carry_ref: Num[Ref, "1 128"], left, reverse):
    """Sum along one long row that lies in HBM as pieces of 128; bm is a multiple of 128."""
    bm, x = x_ref.shape[0], x_ref[...].astype(carry_ref.dtype)
    x = zero_beyond(x, 0, left()) if left else x
    starts = range(0, bm, LANES)
    cut = [x[start : start + LANES] for start in starts]
    for start, sums in zip(starts, in_pieces(cut, carry_ref, LANES, reverse), strict=True):
        o_ref[start : start + LANES, :] = sums.astype(o_ref.dtype)
