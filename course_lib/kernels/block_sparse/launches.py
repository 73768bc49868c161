"""The launches of block-sparse products, without a gradient of their own: kernels for a TPU, and plain JAX.

The gradient of one is another: so both families of products begin here.
"""

import functools

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float, Int32
from course_lib.kernels.block_sparse import blocks as block_sparse_blocks
from course_lib.kernels.block_sparse import by_depth as block_sparse_by_depth
from course_lib.kernels.block_sparse import by_panel as block_sparse_by_panel
from course_lib.kernels.block_sparse import kernel as block_sparse_kernels
from course_lib.kernels.block_sparse.pattern import counted
from course_lib.kernels.common import chip
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.products import passes
from course_lib.kernels.common.symbolic import cut
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Cuts


def dsd_rule(transpose_b: bool = False, transpose_o: bool = False) -> str:
    """What may be cut among devices."""
    return f"z H W, {'n K' if transpose_b else 'K n'}, z, z -> {'n M' if transpose_o else 'M n'} +z"


def sdd_rule(transpose_b: bool) -> str:
    """What may be cut among devices."""
    return f"M k, {'N k' if transpose_b else 'k N'}, z, z -> z H W +k"


def dsd(
    values: Float[Array, "Z h w"],
    b: Float[Array, "_K _N"],
    rows: Int32[Array, " Z"],
    cols: Int32[Array, " Z"],
    shape: tuple[int, int],
    transpose_a: bool,
    precision: lax.Precision | None,
    blocks,
    cuts: Cuts,
    *,
    transpose_b: bool = False,
    transpose_o: bool = False,
) -> Float[Array, "_M _N"]:
    """``A @ b``, or ``A.T @ b``; with ``transpose_b`` of b as (N, K), with ``transpose_o`` the result as (N, M)."""
    turned = {"transpose_a": transpose_a, "transpose_b": transpose_b, "transpose_o": transpose_o}
    how = {"shape": shape, "precision": precision, **turned}
    tpu, plain = fixed(_dsd_on_tpu, **how, blocks=blocks), fixed(_dsd_plain, **how)
    mapped = fixed(_dsd_on_tpu, **how, blocks=blocks, mapped=True)  # whose copies a grid can number
    op = Op(name="dsd", rule=dsd_rule(transpose_b, transpose_o), tpu=tpu, tpu_mapped=mapped, plain=plain)
    return op(values, b, rows, cols, cuts=cuts)


def _turned(rows, cols, shape, transpose_a: bool):
    """The pattern of the matrix that is multiplied."""
    return (cols, rows, shape[::-1]) if transpose_a else (rows, cols, shape)


def _check_lists(op: str, lists: int, count: int) -> None:
    """A v5e's scalar memory has room for 250,000 numbers, by its compiler's word; all chips are held to that here."""
    if lists * count > 250_000:
        raise ValueError(
            f"{op}: pattern has {count} entries, and {250_000 // lists} fit into the chip's scalar memory. "
            "Try larger blocks, or several calls, each with a part of the list."
        )


def _dsd_plain(values, b, rows, cols, *, shape, transpose_a, transpose_b, transpose_o, precision):
    rows, cols, shape = _turned(rows, cols, shape, transpose_a)
    rows, cols = counted(rows, cols, shape)
    b = b.T if transpose_b else b
    meet = b.reshape(shape[1], b.shape[0] // shape[1], b.shape[1])[cols]
    product = "zkm,zkn->zmn" if transpose_a else "zmk,zkn->zmn"
    found = jnp.einsum(product, values, meet, precision=precision, preferred_element_type=jnp.float32)
    o = jnp.zeros((shape[0], *found.shape[1:]), jnp.float32).at[rows].add(found, mode="drop")
    o = o.reshape(o.shape[0] * o.shape[1], b.shape[1]).astype(b.dtype)
    return o.T if transpose_o else o


def _dsd_on_tpu(
    values, b, rows, cols, *, shape, transpose_a, transpose_b, transpose_o, precision, blocks, mapped=False
):
    n = b.shape[0 if transpose_b else 1]
    problem = block_sparse_blocks.dsd_problem(values, n, shape, transpose_a, passes(precision))
    bn = cut(blocks.bn if blocks else problem.columns(), n)
    needed = problem.vmem_bytes(bn)
    _check_lists("dsd", 2, values.shape[0])
    if blocks is None:
        problem.check_fits()
    check_fits(blocks, needed)
    if transpose_b and problem.w % 128:  # in the lanes a block begins where a register does
        b, transpose_b = b.T, False
    turned = transpose_o and problem.h % 128 == 0
    rows, cols, shape = _turned(rows, cols, shape, transpose_a)
    run, cores = block_sparse_kernels.dsd, chip.cores()
    if not mapped and block_sparse_by_panel.has_panels(n, bn, cores):
        run = functools.partial(block_sparse_by_panel.dsd, cores=cores)
    o = run(
        values, b, rows, cols, shape, transpose_a=transpose_a, transpose_b=transpose_b, transpose_o=turned,
        precision=precision, per_step=problem.per_step(bn), bn=bn, vmem_bytes=needed,
    )  # fmt: skip
    return o.T if transpose_o and not turned else o


def sdd(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    rows: Int32[Array, " Z"],
    cols: Int32[Array, " Z"],
    shape: tuple[int, int],
    transpose_b: bool,
    precision: lax.Precision | None,
    blocks,
    cuts: Cuts,
) -> Float[Array, "Z h w"]:
    """Blocks of ``a @ b``, or of ``a @ b.T``."""
    how = {"shape": shape, "transpose_b": transpose_b, "precision": precision}
    tpu, plain = fixed(_sdd_on_tpu, **how, blocks=blocks), fixed(_sdd_plain, **how)
    looped = block_sparse_by_depth.has_parts(a.shape[1])  # under vmap
    op = Op(name="sdd", rule=sdd_rule(transpose_b), tpu=tpu, plain=plain, one_at_a_time=looped, known="z")
    return op(a, b, rows, cols, cuts=cuts)


def _sdd_plain(a, b, rows, cols, *, shape, transpose_b, precision):
    rows, cols = counted(rows, cols, shape)
    (m, k), n = a.shape, b.shape[0 if transpose_b else 1]
    left = a.reshape(shape[0], m // shape[0], k).at[rows].get(mode="fill", fill_value=0)
    if transpose_b:
        right, product = b.reshape(shape[1], n // shape[1], k)[cols], "zmk,znk->zmn"
    else:
        right, product = b.reshape(k, shape[1], n // shape[1])[:, cols], "zmk,kzn->zmn"
    found = jnp.einsum(product, left, right, precision=precision, preferred_element_type=jnp.float32)
    return jnp.where((rows < shape[0])[:, None, None], found, 0).astype(a.dtype)  # 0 * NaN


def _sdd_on_tpu(a, b, rows, cols, *, shape, transpose_b, precision, blocks):
    problem = block_sparse_blocks.sdd_problem(a, b, rows, shape, transpose_b, passes(precision))
    bk, bn = problem.chosen() if blocks is None else (blocks.bk or problem.k, blocks.bn)
    if not transpose_b and shape[1] > 1 and problem.w % 128:  # a block begins where no register does
        b, transpose_b = b.T, True
    how = {"transpose_b": transpose_b, "precision": precision}
    if problem.by_depth(bk, bn):
        _check_lists("sdd", 2, rows.shape[0])
        return block_sparse_by_depth.sdd(
            a, b, rows, cols, shape, **how, bk=bk, per_step=problem.per_step_by_depth(bk), cores=chip.cores(),
            vmem_bytes=problem.vmem_bytes_by_depth(bk),
        )  # fmt: skip
    bk, per_range = min(bk, problem.k), problem.per_range(bk, bn)
    _check_lists("sdd", 2 if per_range == shape[1] else 3, rows.shape[0])
    per_step = problem.per_step(bk, per_range)
    needed = problem.vmem_bytes(bk, per_range, per_step)
    check_fits(blocks, needed)
    sizes = {"bk": bk, "per_range": per_range, "per_step": per_step}
    return block_sparse_kernels.sdd(a, b, rows, cols, shape, **how, **sizes, vmem_bytes=needed)
