"""``dsd`` and ``sdd`` for callers: arguments checked, on meshes, differentiable, plain JAX where there is no TPU."""

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float
from course_lib.kernels.block_sparse.blocks import dsd_problem, has_parts, sdd_problem
from course_lib.kernels.block_sparse.conversion import check
from course_lib.kernels.block_sparse.kernel import Blocks
from course_lib.kernels.block_sparse.on_tpu import dsd_on_tpu, sdd_on_tpu
from course_lib.kernels.block_sparse.pattern import Pattern
from course_lib.kernels.block_sparse.plain import plain_dsd, plain_sdd
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.products import passes, precision_of
from course_lib.kernels.common.symbolic import is_known
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout, renamed


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
    """Return ``A @ b`` for A of the blocks ``values``, f32 or bf16, each where ``pattern`` has it.

    A has shape (R*h, C*w) for a pattern of shape (R, C). Blocks may come in any order; those at one place are added,
    rows without any are zero, surplus entries are ignored. ``transpose_a``: ``A.T @ b``, of the same blocks.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: chosen by ``dsd_blocks_for``. ``layout`` says
    how values and b lie on a mesh with Auto axes. N may be cut, and so may Z: then the parts are added across the
    devices.
    Differentiable in values and b. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError if shapes or dtypes do not fit, or 128 columns of b and of the result do not fit into VMEM.
    """
    values, b, rows, cols = _operands("dsd", {"values": values, "b": b}, pattern)
    m = _rows_of_a(values, b, rows, pattern.shape, transpose_a)
    level = precision_of("dsd", values.dtype, precision)
    legal.check_kind("dsd", blocks, Blocks)
    if 0 in (*rows.shape, *pattern.shape):
        return jnp.zeros((m, b.shape[1]), b.dtype)
    (values, b, rows, cols), cuts = sharding.ready("dsd", _dsd_rule(), (values, b, rows, cols), layout)
    return _dsd(values, b, rows, cols, pattern.shape, transpose_a, level, blocks, cuts)


def dsd_blocks_for(
    values: Float[Described, "Z h w"],
    pattern: Pattern,
    b: Float[Described, "K N"],
    *,
    transpose_a: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """Return the blocks chosen for these arguments, and for the chip that is traced for (a v5e if there is none)."""
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
    """Return the blocks of ``a @ b`` that ``pattern`` keeps, f32 or bf16, without computing the others.

    For a pattern of shape (R, C) blocks have shape (M/R, N/C); surplus entries give zeros. With ``transpose_b`` b is
    (N, K), and ``a @ b.T`` is computed. Fastest if the pattern's rows are in order, as ``from_mask`` returns them.
    ``precision`` and ``blocks`` are as in ``dsd``. ``layout`` says how a and b lie on a mesh with Auto axes, and a
    third and fourth entry how the pattern's lists do. Z may be cut, and so may K: then the parts are added across the
    devices.
    Differentiable in a and b. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError if shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    a, b, rows, cols = _operands("sdd", {"a": a, "b": b}, pattern)
    _check_sdd(a, b, pattern.shape, transpose_b)
    level = precision_of("sdd", a.dtype, precision)
    legal.check_kind("sdd", blocks, Blocks)
    (a, b, rows, cols), cuts = sharding.ready("sdd", _sdd_rule(transpose_b), (a, b, rows, cols), layout)
    return _sdd(a, b, rows, cols, pattern.shape, transpose_b, level, blocks, cuts)


def sdd_blocks_for(
    a: Float[Described, "M K"],
    b: Float[Described, "_K _N"],
    pattern: Pattern,
    *,
    transpose_b: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """Return the blocks chosen for these arguments, and for the chip that is traced for (a v5e if there is none)."""
    level = precision_of("blocks_for", a.dtype, precision)
    bk, bn = sdd_problem(a, b, pattern.rows, pattern.shape, transpose_b, passes(level)).chosen()
    return Blocks(bk=bk, bn=bn)


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
    """Return the rows of the result. Raises ValueError if arrays do not fit."""
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


def _dsd_rule(transpose_b: bool = False, transpose_o: bool = False) -> str:
    return f"z H W, {'n K' if transpose_b else 'K n'}, z, z -> {'n M' if transpose_o else 'M n'} +z"


def _sdd_rule(transpose_b: bool) -> str:
    return f"M k, {'N k' if transpose_b else 'k N'}, z, z -> z H W +k"


def _launch_dsd(
    values, b, rows, cols, shape, transpose_a, precision, blocks, cuts, *, transpose_b=False, transpose_o=False
):
    """Run dsd, without a gradient of its own: the gradient of each product uses the other."""
    how = {"transpose_a": transpose_a, "transpose_b": transpose_b, "transpose_o": transpose_o, "precision": precision}
    how |= {"shape": shape}
    op = Op(
        name="dsd",
        rule=_dsd_rule(transpose_b, transpose_o),
        tpu=fixed(_dsd_on_tpu, **how, blocks=blocks, mapped=False),
        tpu_mapped=fixed(_dsd_on_tpu, **how, blocks=blocks, mapped=True),
        plain=fixed(_dsd_plain, **how),
        dtypes=(b.dtype,),
        sizes=(("M", shape[1] * values.shape[2] if transpose_a else shape[0] * values.shape[1]),),
    )
    return op(values, b, rows, cols, cuts=cuts)


def _dsd_on_tpu(values, b, rows, cols, *, shape, **how):
    return dsd_on_tpu(values, Pattern(rows, cols, shape), b, **how)


def _dsd_plain(values, b, rows, cols, *, shape, **how):
    return plain_dsd(values, Pattern(rows, cols, shape), b, **how)


def _launch_sdd(a, b, rows, cols, shape, transpose_b, precision, blocks, cuts):
    """Run sdd, without a gradient of its own."""
    how = {"shape": shape, "transpose_b": transpose_b, "precision": precision}
    op = Op(
        name="sdd",
        rule=_sdd_rule(transpose_b),
        tpu=fixed(_sdd_on_tpu, **how, blocks=blocks),
        plain=fixed(_sdd_plain, **how),
        one_at_a_time=has_parts(a.shape[1]),  # under vmap
        known="z",
        sizes=(("H", a.shape[0] // shape[0]), ("W", b.shape[0 if transpose_b else 1] // shape[1])),
    )
    return op(a, b, rows, cols, cuts=cuts)


def _sdd_on_tpu(a, b, rows, cols, *, shape, **how):
    return sdd_on_tpu(a, b, Pattern(rows, cols, shape), **how)


def _sdd_plain(a, b, rows, cols, *, shape, **how):
    return plain_sdd(a, b, Pattern(rows, cols, shape), **how)


_dsd, _sdd = differentiable(_launch_dsd, settings=5), differentiable(_launch_sdd, settings=5)


def _dsd_forward(*args):
    return _dsd(*args), args[:4]


def _dsd_backward(shape, transpose_a, precision, _, cuts, saved, g):
    """Return products of both kinds, with blocks of their own."""
    values, b, rows, cols = saved
    left, right = (b, g) if transpose_a else (g, b)
    of_values = _launch_sdd(left, right, rows, cols, shape, True, precision, None, renamed(cuts, "nz", "kz"))
    return of_values, _launch_dsd(values, g, rows, cols, shape, not transpose_a, precision, None, cuts), None, None


def _sdd_forward(*args):
    return _sdd(*args), args[:4]


def _sdd_backward(shape, transpose_b, precision, _, cuts, saved, g):
    a, b, rows, cols = saved
    along_k = renamed(cuts, "kz", "nz")

    def dsd_of_g(dense, transpose_a, **turned):
        return _launch_dsd(g, dense, rows, cols, shape, transpose_a, precision, None, along_k, **turned)

    of_a = dsd_of_g(b, False, transpose_b=not transpose_b)
    return of_a, dsd_of_g(a, True, transpose_o=not transpose_b), None, None


_dsd.defvjp(_dsd_forward, _dsd_backward)
_sdd.defvjp(_sdd_forward, _sdd_backward)
