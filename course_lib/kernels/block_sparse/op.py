"""Block-sparse products: of a matrix of which only some blocks are kept, and of two matrices, of some blocks alone.

    dsd   o = A @ b                dense = sparse @ dense; A has the blocks ``values`` where ``pattern`` has them
    sdd   values[z] = (a @ b) at block z of ``pattern``    sparse = dense @ dense; nothing else is computed

Cost   of Z blocks of (h, w): FLOPs 2*Z*h*w*N for dsd and 2*Z*h*w*K for sdd;
       HBM bytes of dsd (Z*h*w*ceil(N/bn) + K*N + M*N) * itemsize; of sdd, where b is whole in VMEM and the pattern's
       rows are in order, (M*K + K*N + Z*h*w) * itemsize
VMEM   dsd 2 * (p*h*w + K*bn + M*bn) * itemsize + 4*(M + h)*bn, with p blocks to a step; sdd see ``block_sparse_blocks``

Where blocks lie is data; nothing is compiled again for another pattern of as many blocks. How the kernels go about it,
and why, stands in ``block_sparse_kernels``.
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float
from course_lib.kernels.block_sparse import launches as block_sparse_launch
from course_lib.kernels.block_sparse.blocks import dsd_problem, sdd_problem
from course_lib.kernels.block_sparse.pattern import Pattern as Pattern
from course_lib.kernels.block_sparse.pattern import check, counted
from course_lib.kernels.block_sparse.pattern import from_dense as from_dense
from course_lib.kernels.block_sparse.pattern import from_mask as from_mask
from course_lib.kernels.block_sparse.pattern import in_blocks as in_blocks
from course_lib.kernels.block_sparse.pattern import to_dense as to_dense
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.products import dot, passes, precision_of
from course_lib.kernels.common.symbolic import is_known
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.mesh_rules import Layout, renamed


def dsd_reference(
    values: Float[Array, "Z h w"], pattern: Pattern, b: Float[Array, "K N"], *, transpose_a: bool = False
) -> Float[Array, "M N"]:
    """What ``dsd`` must compute: the product of the whole matrix, summed in f32 and rounded once.

    But for NaN in a row of b that no block meets: here it is multiplied by zeros, and there by nothing.
    """
    a = to_dense(values.astype(jnp.float32), pattern)
    return jnp.dot(a.T if transpose_a else a, b.astype(jnp.float32), precision="highest").astype(b.dtype)


def sdd_reference(
    a: Float[Array, "M K"], b: Float[Array, "_K _N"], pattern: Pattern, *, transpose_b: bool = False
) -> Float[Array, "Z h w"]:
    """What ``sdd`` must compute: blocks of the whole product, and zeros for surplus entries."""
    o = dot(a.astype(jnp.float32), b.astype(jnp.float32), transpose_y=transpose_b, precision=lax.Precision.HIGHEST)
    rows, cols = counted(pattern.rows, pattern.cols, pattern.shape)
    return in_blocks(o, pattern.shape).at[rows, cols].get(mode="fill", fill_value=0).astype(a.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """How much of b is in VMEM at once: bk of its K, bn of its N. They change the speed, not the result.

    Legal: multiples of 128. Each is cut down to an array that is smaller; bk None: all of K. dsd always has all of K
    there. sdd makes of bn whole columns of blocks, and where bk is less than K, one of them; or all, if bn holds N and
    bk divides K.
    """

    bk: int | None = None
    bn: int = 512

    def __post_init__(self):
        legal.check(self, bk=legal.LANES, bn=legal.LANES)


def dsd(
    values: Float[Array, "Z h w"],
    pattern: Pattern,
    b: Float[Array, "K N"],
    *,
    transpose_a: bool = False,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "M N"]:
    """``A @ b`` for A of the blocks ``values``, f32 or bf16, each where ``pattern`` has it.

    A has shape (R*h, C*w) for a pattern of shape (R, C). Blocks may come in any order; those at one place are added,
    rows without any are zero, surplus entries count for nothing. ``transpose_a``: ``A.T @ b``, of the same blocks.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: chosen by ``dsd_blocks_for``. ``layout`` says
    how values and b lie on a mesh with Auto axes; N may be cut, and Z, and then the parts are added among the devices.
    Differentiable in values and b. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError where shapes or dtypes do not fit, or b and the result do not fit into VMEM in columns of 128.
    """
    values, b, rows, cols = _operands("dsd", {"values": values, "b": b}, pattern)
    m = _rows_of_a(values, b, rows, pattern.shape, transpose_a)
    level = precision_of("dsd", values.dtype, precision)
    legal.check_kind("dsd", blocks, Blocks)
    if 0 in (*rows.shape, *pattern.shape):
        return jnp.zeros((m, b.shape[1]), b.dtype)
    (values, b, rows, cols), cuts = sharding.ready(
        "dsd", block_sparse_launch.dsd_rule(), (values, b, rows, cols), layout
    )
    return _dsd(values, b, rows, cols, pattern.shape, transpose_a, level, blocks, cuts)


def _operands(op: str, given: dict[str, Array], pattern: Pattern) -> tuple[Array, ...]:
    rows, cols = check(op, pattern)
    first, second = arguments.arrays(op, arguments.FLOATS, **given)
    if first.dtype != second.dtype:
        one, other = given
        raise ValueError(
            f"{op}: {one} is {first.dtype} and {other} {second.dtype}; both must be float32 or both bfloat16. "
            f"Try {other}.astype."
        )
    return first, second, rows, cols


def _rows_of_a(values, b, rows, shape, transpose_a) -> int:
    """How many rows the result has. Raises ValueError where arrays do not fit."""
    if values.ndim != 3 or b.ndim != 2 or rows.shape != values.shape[:1]:
        raise ValueError(
            f"dsd: values has shape {values.shape}, b {b.shape} and pattern {rows.shape[0]} entries; values must be "
            "(Z, h, w), b (K, N), and there must be Z entries. Try block_sparse.from_dense(A, (h, w))."
        )
    size = shape[0] * values.shape[1], shape[1] * values.shape[2]
    m, depth = size[::-1] if transpose_a else size
    if b.shape[0] != depth:
        what = "rows" if transpose_a else "columns"
        raise ValueError(
            f"dsd: b has shape {b.shape}; for blocks of {values.shape[1:]} and a pattern of {shape} it must have "
            f"{depth} rows, one for each of A's {what}. Try transpose_a={not transpose_a}, or pad b."
        )
    return m


def dsd_blocks_for(
    values: Float[Described, "Z h w"],
    pattern: Pattern,
    b: Float[Described, "K N"],
    *,
    transpose_a: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks that ``dsd`` chooses for these arguments, on the chip traced for (a v5e where it is none)."""
    level = precision_of("blocks_for", values.dtype, precision)
    return Blocks(bn=dsd_problem(values, b.shape[1], pattern.shape, transpose_a, passes(level)).columns())


def sdd(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    pattern: Pattern,
    *,
    transpose_b: bool = False,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "Z h w"]:
    """The blocks of ``a @ b`` that ``pattern`` keeps, f32 or bf16: those of ``from_dense(a @ b)``, were it computed.

    For a pattern of shape (R, C) blocks have shape (M/R, N/C); surplus entries give zeros. With ``transpose_b`` b is
    (N, K), and ``a @ b.T`` is computed. Fastest where the pattern's rows are in order, as ``from_mask`` makes them.
    ``precision``, ``blocks``: as of ``dsd``. ``layout`` says how a and b lie on a mesh with Auto axes, and with a third
    and fourth the pattern's lists; K may be cut, and then the parts are added among the devices, and Z.
    Differentiable in a and b. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError where shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    a, b, rows, cols = _operands("sdd", {"a": a, "b": b}, pattern)
    _check_sdd(a, b, pattern.shape, transpose_b)
    level = precision_of("sdd", a.dtype, precision)
    legal.check_kind("sdd", blocks, Blocks)
    rule = block_sparse_launch.sdd_rule(transpose_b)
    (a, b, rows, cols), cuts = sharding.ready("sdd", rule, (a, b, rows, cols), layout)
    return _sdd(a, b, rows, cols, pattern.shape, transpose_b, level, blocks, cuts)


def _check_sdd(a, b, shape, transpose_b) -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1 if transpose_b else 0]:
        stored = "(N, K)" if transpose_b else "(K, N)"
        raise ValueError(
            f"sdd: a has shape {a.shape} and b {b.shape}; they must be (M, K) and {stored}, with one K. "
            f"Is b stored the other way round? Then try transpose_b={not transpose_b}."
        )
    m, n = a.shape[0], b.shape[0 if transpose_b else 1]
    if not (is_known(m) and is_known(n)) or 0 in shape or m % shape[0] or n % shape[1]:
        raise ValueError(
            f"sdd: the product has shape ({m}, {n}), and pattern.shape is {shape}, rows and columns of blocks; these "
            "must be 1 or more, and divide it. Try jnp.pad, or another pattern."
        )


def sdd_blocks_for(
    a: Float[Described, "M K"],
    b: Float[Described, "_K _N"],
    pattern: Pattern,
    *,
    transpose_b: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks that ``sdd`` chooses for these arguments, on the chip traced for (a v5e where it is none)."""
    level = precision_of("blocks_for", a.dtype, precision)
    bk, bn = sdd_problem(a, b, pattern.rows, pattern.shape, transpose_b, passes(level)).chosen()
    return Blocks(bk=bk, bn=bn)


@functools.partial(differentiable, settings=5)
def _dsd(values, b, rows, cols, *settings):
    return block_sparse_launch.dsd(values, b, rows, cols, *settings)


def _dsd_forward(*args):
    return _dsd(*args), args[:4]


def _dsd_backward(shape, transpose_a, precision, _, cuts, saved, g):
    """Gradients are products of the same kinds; blocks are chosen anew."""
    values, b, rows, cols = saved
    left, right = (b, g) if transpose_a else (g, b)
    along_n = renamed(cuts, "nz", "kz")
    of_values = block_sparse_launch.sdd(left, right, rows, cols, shape, True, precision, None, along_n)
    of_b = block_sparse_launch.dsd(values, g, rows, cols, shape, not transpose_a, precision, None, cuts)
    return of_values, of_b, None, None


@functools.partial(differentiable, settings=5)
def _sdd(a, b, rows, cols, *settings):
    return block_sparse_launch.sdd(a, b, rows, cols, *settings)


def _sdd_forward(*args):
    return _sdd(*args), args[:4]


def _sdd_backward(shape, transpose_b, precision, _, cuts, saved, g):
    a, b, rows, cols = saved
    along_k = renamed(cuts, "kz", "nz")

    def dsd_of_g(dense, transpose_a, **turned):
        return block_sparse_launch.dsd(g, dense, rows, cols, shape, transpose_a, precision, None, along_k, **turned)

    of_a = dsd_of_g(b, False, transpose_b=not transpose_b)
    return of_a, dsd_of_g(a, True, transpose_o=not transpose_b), None, None


_dsd.defvjp(_dsd_forward, _dsd_backward)
_sdd.defvjp(_sdd_forward, _sdd_backward)
