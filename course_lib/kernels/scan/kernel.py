"""The kernels of ``scan``: sums down the rows of a block, along its columns, along few long rows, from plane to plane.

Each block begins with what the one before has ended with: the carry, which waits in VMEM. ``size`` is that of the
summed axis, and ``along`` the axis of the grid that goes along it.
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.legal import LANES, SUBLANES

SQUARE = LANES * LANES  # elements of a row that become a square: 128 pieces of 128


def down_kernel(
    x_ref: Num[Ref, "bm bn"],
    o_ref: Num[Ref, "bm bn"],
    carry_ref: Num[Ref, "8 bn"],  # scratch: the last sums so far, 8 times over
    *,
    size: int,
    along: int,
    reverse: bool,
) -> None:
    """Down the rows."""
    _clear_at_first_step(carry_ref, along)
    bm = x_ref.shape[0]
    height = 32 // x_ref.dtype.itemsize  # rows of whole registers
    first = _block(along, reverse) * bm

    def piece(n, carry):
        at = pl.multiple_of((bm // height - 1 - n if reverse else n) * height, height)
        x = x_ref[pl.ds(at, height), :].astype(carry.dtype)
        if reverse:
            x = _inside(x, 0, size - first - at, size % bm)
        sums, carry = _down(x, carry, reverse)
        o_ref[pl.ds(at, height), :] = sums.astype(o_ref.dtype)
        return carry

    carry_ref[...] = lax.fori_loop(0, bm // height, piece, carry_ref[...])


def turned_kernel(
    x_ref: Num[Ref, "bm bn"],
    o_ref: Num[Ref, "bm bn"],
    carry_ref: Num[Ref, "8 bm"],  # scratch: the last sum of each row so far, 8 times over
    *,
    size: int,
    along: int,
    reverse: bool,
) -> None:
    """Along the columns of many rows: the block is turned on its side, summed downwards, and turned back."""
    _clear_at_first_step(carry_ref, along)
    bn = x_ref.shape[1]
    x = x_ref[...].astype(carry_ref.dtype).T
    if reverse:
        x = _inside(x, 0, size - _block(along, reverse) * bn, size % bn)
    sums, carry_ref[...] = _down(x, carry_ref[...], reverse)
    o_ref[...] = sums.T.astype(o_ref.dtype)


def long_kernel(
    x_ref: Num[Ref, "bm bn"],  # bn: 128 times a power of two, and the whole row; or some times 128 * 128
    o_ref: Num[Ref, "bm bn"],
    carry_ref: Num[Ref, "bm 128"],  # scratch: the last sum of each row so far, 128 times over
    *,
    size: int,
    along: int,
    reverse: bool,
) -> None:
    """Along few rows: each is cut into pieces of 128, which lie side by side when all are turned on their sides.

    To the sums within the pieces those of the pieces before are added, which are summed by rotating lanes.
    """
    _clear_at_first_step(carry_ref, along)
    bm, bn = x_ref.shape
    square = min(bn, SQUARE)
    x = x_ref[...].astype(carry_ref.dtype)
    if reverse:
        x = _inside(x, 1, size - _block(along, reverse) * bn, size % bn)
    starts = range(0, bn, square)
    cut = [x[:, start : start + square].reshape(bm * square // LANES, LANES) for start in starts]
    for start, sums in zip(starts, _in_pieces(cut, carry_ref, square // LANES, reverse), strict=True):
        o_ref[:, start : start + square] = sums.reshape(bm, square).astype(o_ref.dtype)


def vector_kernel(
    x_ref: Num[Ref, "bm 128"],  # bm: some times 128
    o_ref: Num[Ref, "bm 128"],
    carry_ref: Num[Ref, "1 128"],  # scratch: the last sum so far, 128 times over
    *,
    size: int,
    along: int,
    reverse: bool,
) -> None:
    """Along one long row that lies in HBM as pieces of 128."""
    _clear_at_first_step(carry_ref, along)
    bm = x_ref.shape[0]
    x = x_ref[...].astype(carry_ref.dtype)
    if reverse:
        x = _inside(x, 0, size - _block(along, reverse) * bm, size % bm)
    starts = range(0, bm, LANES)
    cut = [x[start : start + LANES] for start in starts]
    for start, sums in zip(starts, _in_pieces(cut, carry_ref, LANES, reverse), strict=True):
        o_ref[start : start + LANES, :] = sums.astype(o_ref.dtype)


def _in_pieces(cut: list[Num[Array, "n 128"]], carry_ref, pieces: int, reverse) -> list[Num[Array, "n 128"]]:
    """The sums of consecutive parts of some rows, each seen as pieces of 128 elements, ``pieces`` to a row."""
    order = range(len(cut))[:: -1 if reverse else 1]
    sums, ends = dict.fromkeys(order), []
    for n in order:
        inner, end = _down(cut[n].T, None, reverse)
        sums[n] = inner
        ends.append(end[:1].reshape(-1, LANES))
    before, whole = _before(jnp.concatenate(ends), pieces, reverse)
    carry = carry_ref[...]
    for turn, n in enumerate(order):
        mine = slice(turn * len(ends[0]), (turn + 1) * len(ends[0]))
        offsets = before[mine]
        if pieces == LANES:  # else a block is all of its rows, and the first is the last
            offsets += carry
            carry += jnp.broadcast_to(whole[mine], carry.shape)
        sums[n] = (sums[n] + offsets.reshape(1, -1)).T
    carry_ref[...] = carry
    return [sums[n] for n in range(len(cut))]


def planes_kernel(
    x_ref: Num[Ref, "bp bm bn"],
    o_ref: Num[Ref, "bp bm bn"],
    carry_ref: Num[Ref, "bm bn"],  # scratch: the last plane of sums
    *,
    size: int,
    along: int,
    reverse: bool,
) -> None:
    """From one plane to the next."""
    _clear_at_first_step(carry_ref, along)
    bp = x_ref.shape[0]
    left = size - _block(along, reverse) * bp

    def plane(n, carry):
        n = bp - 1 - n if reverse else n
        x = x_ref[n].astype(carry.dtype)
        if reverse and size % bp:
            x = jnp.where(n < left, x, jnp.zeros_like(x))
        carry += x
        o_ref[n] = carry.astype(o_ref.dtype)
        return carry

    carry_ref[...] = lax.fori_loop(0, bp, plane, carry_ref[...])


def _clear_at_first_step(carry_ref, along):
    @pl.when(pl.program_id(along) == 0)
    def _clear():
        carry_ref[...] = jnp.zeros_like(carry_ref)


def _block(along, reverse):
    """Which block along the summed axis this step has."""
    step = pl.program_id(along)
    return pl.num_programs(along) - 1 - step if reverse else step


def _inside(x, axis, left, ragged):
    """``x`` with zeros from index ``left`` of ``axis`` on, where the array ends, if it ends within a block.

    Only a reversed sum needs it: it would begin with what was read past the edge.
    """
    return jnp.where(lax.broadcasted_iota(jnp.int32, x.shape, axis) < left, x, jnp.zeros_like(x)) if ragged else x


def _down(x, carry, reverse) -> tuple[Array, Array]:
    """Sums down the rows of ``x``, 8 at a time, begun with ``carry`` (8 equal rows), and the carry after them."""
    eights = x.reshape(x.shape[0] // SUBLANES, SUBLANES, x.shape[1])
    row = lax.broadcasted_iota(jnp.int32, eights.shape, 1)
    for step in (1, 2, 4):
        came = row < SUBLANES - step if reverse else row >= step
        eights = eights + jnp.where(came, pltpu.roll(eights, SUBLANES - step if reverse else step, 1), 0)
    last = 0 if reverse else SUBLANES - 1
    sums = []
    for n in range(len(eights))[:: -1 if reverse else 1]:
        sums.append(eights[n] if carry is None else eights[n] + carry)
        carry = jnp.broadcast_to(sums[-1][last : last + 1], sums[-1].shape)
    return jnp.concatenate(sums[::-1] if reverse else sums), carry


def _before(ends: Num[Array, "n 128"], pieces: int, reverse) -> tuple[Array, Array]:
    """Of the sums of pieces side by side, ``pieces`` to a row: the sum of those before each, and that of all 128."""
    place = lax.broadcasted_iota(jnp.int32, ends.shape, 1) % pieces
    sums, step = ends, 1

    def moved(x, by):
        came = place < pieces - by if reverse else place >= by
        return jnp.where(came, pltpu.roll(x, LANES - by if reverse else by, 1), 0)

    while step < pieces:
        sums, step = sums + moved(sums, step), 2 * step
    return moved(sums, 1), sums[:, :1] if reverse else sums[:, LANES - 1 :]
