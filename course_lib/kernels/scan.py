"""Cumulative sums: ``o[i, j] = x[i, 0] + ... + x[i, j]``, or down the rows, forwards or in reverse.

Cost   FLOPs 4 * M * N (below);  HBM bytes 2 * M * N * itemsize: every element read once and written once
VMEM   4 * bm * bn * itemsize, and 4 * 8 * bn for the carry down the rows, or 4 * 8 * bm along the columns

Blocks go by in order, and the last sums of one wait in VMEM for the next: the carry. The chip has no cumulative sum.
Within a block 8 rows are summed at a time: each is added to the next, then to the one 2 further, then 4 further (Hillis
and Steele, Data parallel algorithms, CACM 29, 1986), and the carry on top. Along columns each piece of 128 x 128 is
turned on its side, summed in the same way and turned back.

Why this way: predicted cycles for f32 (8192, 2048) on a v5e, where HBM alone needs 245k: down the rows 152k; along
columns 189k, or 212k in reverse. By rotating lanes along columns, 7 times instead of 3, it takes 1,158k. Multiplying by
a triangle of ones on the MXU takes 216k at HIGHEST precision, and 174k as three bf16 products in which the triangle is
exact; but one infinity would make a whole row NaN there, and integers would need another way.
"""

import dataclasses
import functools
import math

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels import arguments, legal, rules, sharding
from course_lib.kernels.along_axis import accumulator, checked_axis, sizes_for
from course_lib.kernels.compiler_params import check_fits, compiler_params
from course_lib.kernels.derivatives import differentiable
from course_lib.kernels.launch import Op, fixed
from course_lib.kernels.rules import Layout


def reference(x: Num[Array, "*shape"], axis: int = -1, *, reverse: bool = False) -> Num[Array, "*shape"]:
    """What ``cumsum`` must compute: floats in f32, rounded once."""
    return lax.cumsum(x.astype(accumulator(x.dtype)), axis % x.ndim, reverse).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows and columns, multiples of 128, both: rows become columns on the way.

    They never change the result (but for the order of a sum), only the speed. A block may be larger than the array.
    """

    bm: int = 128
    bn: int = 2048

    def __post_init__(self):
        legal.check(self, bm=legal.LANES, bn=legal.LANES)


def _rows_kernel(
    x_ref: Num[Ref, "bm bn"],
    o_ref: Num[Ref, "bm bn"],
    carry_ref: Num[Ref, "8 bn"],  # scratch: the last sums so far, 8 times over
    *,
    size: int,
    reverse: bool,
) -> None:
    _clear_at_first_step(carry_ref)
    bm = x_ref.shape[0]
    height = 32 // x_ref.dtype.itemsize  # rows of whole registers
    first = _block(reverse) * bm

    def piece(n, carry):
        at = pl.multiple_of((bm // height - 1 - n if reverse else n) * height, height)
        x = x_ref[pl.ds(at, height), :].astype(carry.dtype)
        if reverse:
            x = _inside(x, first + at, size, bm)
        sums, carry = _down(x, carry, reverse)
        o_ref[pl.ds(at, height), :] = sums.astype(o_ref.dtype)
        return carry

    carry_ref[...] = lax.fori_loop(0, bm // height, piece, carry_ref[...])


def _columns_kernel(
    x_ref: Num[Ref, "bm bn"],
    o_ref: Num[Ref, "bm bn"],
    carry_ref: Num[Ref, "8 bm"],  # scratch: the last sum of each row so far, 8 times over
    *,
    size: int,
    reverse: bool,
) -> None:
    _clear_at_first_step(carry_ref)
    bm, bn = x_ref.shape
    first = _block(reverse) * bn

    def piece(n, carry):
        at = pl.multiple_of((bn // 128 - 1 - n if reverse else n) * 128, 128)
        for i in range(0, bm, 128):  # these do not wait for each other
            x = x_ref[i : i + 128, pl.ds(at, 128)].astype(carry_ref.dtype).T
            if reverse:
                x = _inside(x, first + at, size, bn)
            sums, carry_ref[:, i : i + 128] = _down(x, carry_ref[:, i : i + 128], reverse)
            o_ref[i : i + 128, pl.ds(at, 128)] = sums.T.astype(o_ref.dtype)
        return carry

    lax.fori_loop(0, bn // 128, piece, 0)


def _clear_at_first_step(carry_ref):
    @pl.when(pl.program_id(1) == 0)
    def _clear():
        carry_ref[...] = jnp.zeros_like(carry_ref)


def _block(reverse):
    """Which block along the summed axis this step has."""
    return pl.num_programs(1) - 1 - pl.program_id(1) if reverse else pl.program_id(1)


def _inside(x, first, size, block):
    """``x``, whose first row is row ``first`` of the array, with zeros past its ``size`` rows.

    Only a reversed sum needs it: it would begin with what was read past the edge.
    """
    if size % block == 0:
        return x
    return jnp.where(first + lax.broadcasted_iota(jnp.int32, x.shape, 0) < size, x, 0)


def _down(x, carry, reverse):
    """Sums down the rows of ``x``, 8 at a time, begun with ``carry`` (8 equal rows), and the carry after them."""
    eights = x.reshape(x.shape[0] // 8, *carry.shape)
    row = lax.broadcasted_iota(jnp.int32, eights.shape, 1)
    for step in (1, 2, 4):
        came = row < 8 - step if reverse else row >= step
        eights = eights + jnp.where(came, pltpu.roll(eights, 8 - step if reverse else step, 1), 0)
    last = 0 if reverse else 7
    sums = []
    for n in range(len(eights))[:: -1 if reverse else 1]:
        sums.append(eights[n] + carry)
        carry = jnp.broadcast_to(sums[-1][last : last + 1], carry.shape)
    return jnp.concatenate(sums[::-1] if reverse else sums), carry


def cumsum(
    x: Num[Array, "*shape"],
    axis: int = -1,
    *,
    reverse: bool = False,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "*shape"]:
    """Cumulative sums along ``axis``: -1, or 0 of a matrix. f32, bf16 or int32, and so is the result.

    ``reverse`` begins at the end. Floats are summed in f32 and rounded once. Differentiable: the gradient is the
    cumulative sum the other way round, by the same kernel. Runs on a TPU as a kernel and as plain JAX elsewhere.
    A row works alone in a register that has room for 8, and 128 are turned at a time, so few long rows are slow.
    ``layout`` says how x lies on a mesh with Auto axes; where ``axis`` itself is cut, each device adds what was before.
    Raises ValueError for another axis or dtype, or where the blocks need more VMEM than there is.
    """
    (x,) = arguments.arrays("cumsum", arguments.NUMBERS, x=x)
    axis = checked_axis("cumsum", x, axis, everything=False)
    legal.check_kind("cumsum", blocks, Blocks)
    (x,), cuts = sharding.ready("cumsum", _rule(x.ndim, axis, reverse), (x,), layout)
    return _cumsum(x, axis, reverse, blocks, cuts)


def blocks_for(x: Num[Described, "*shape"], axis: int = -1, *, reverse: bool = False) -> Blocks:
    """The blocks that ``cumsum`` chooses for these arguments; right for every chip."""
    # Along columns blocks are tall: pieces beside each other wait, each for the carry of the one before.
    wide = 2048 if x.ndim == 2 and axis % x.ndim == 0 else 512
    bm, bn = sizes_for(math.prod(x.shape[:-1]), x.shape[-1], x.dtype.itemsize, wide=wide, widest=wide)
    return Blocks(bm=bm, bn=bn)


def _rule(rank: int, axis: int, reverse: bool) -> str:
    out = (axes := rules.letters(rank).split()).copy()
    out[axis] = ("<" if reverse else ">") + out[axis]
    return f"{' '.join(axes)} -> {' '.join(out)}"


@functools.partial(differentiable, settings=4)
def _cumsum(x, axis, reverse, blocks, cuts):
    plain = fixed(reference, axis=axis, reverse=reverse)
    if not x.size:
        return plain(x)
    check_fits(chosen := blocks or blocks_for(x, axis, reverse=reverse), vmem_bytes(chosen, x.dtype.itemsize))
    on_tpu = fixed(_on_tpu, axis=axis, reverse=reverse, blocks=blocks)
    return Op(name="cumsum", rule=_rule(x.ndim, axis, reverse), tpu=on_tpu, plain=plain)(x, cuts=cuts)


def _forward(x, *how):
    return _cumsum(x, *how), None


def _backward(axis, reverse, blocks, cuts, _, g):
    return (_cumsum(g, axis, not reverse, blocks, cuts),)


_cumsum.defvjp(_forward, _backward)


def vmem_bytes(blocks: Blocks, itemsize: int) -> int:
    """VMEM that either kernel takes at most."""
    return 4 * blocks.bm * blocks.bn * itemsize + 4 * 8 * max(blocks.bm, blocks.bn)


def _on_tpu(x, *, axis, reverse, blocks):
    flat, down = (math.prod(x.shape[:-1]), x.shape[-1]), x.ndim == 2 and axis == 0
    blocks = blocks or blocks_for(x, axis, reverse=reverse)
    bm, bn = blocks.bm, blocks.bn
    rows, columns = (pl.cdiv(size, block) for size, block in zip(flat, (bm, bn), strict=True))
    side, along = (columns, rows) if down else (rows, columns)

    def index(a, b):
        b = along - 1 - b if reverse else b
        return (b, a) if down else (a, b)

    spec = pl.BlockSpec((bm, bn), index)
    kernel = _rows_kernel if down else _columns_kernel
    return pl.pallas_call(
        functools.partial(kernel, size=flat[0 if down else 1], reverse=reverse),
        out_shape=sharding.result(x, flat, x.dtype),
        grid=(side, along),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((8, bn if down else bm), accumulator(x.dtype))],
        compiler_params=compiler_params(vmem_bytes(blocks, x.dtype.itemsize), "parallel", "arbitrary"),
    )(x.reshape(flat)).reshape(x.shape)
