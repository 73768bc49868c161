"""The gradient of the matrices of a grouped product: ``dw[e] = x_e.T @ g_e`` for the rows of each group e.

Cost   FLOPs 2*T*K*N;  HBM bytes (T*K*ceil(N/bn) + T*N*ceil(K/bk) + E*K*N) * itemsize
VMEM   2 * (bm*(bk + bn) + bk*bn) * itemsize, and 8*bk*bn for the sum

The grid is (rows of blocks, columns of blocks, visits): see ``grouped_visits``. An empty group has a gradient of zeros.
"""

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float, Int32
from course_lib.kernels.common import chip
from course_lib.kernels.common.products import passes
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Cuts
from course_lib.kernels.grouped import kernel as grouped_kernels
from course_lib.kernels.grouped import plain as grouped_plain
from course_lib.kernels.grouped.visits import visits

_ROWS = 512  # of a tile
_BLOCKS = ((2048, 1024), (1024, 1024), (1024, 512), (512, 512), (256, 256), (128, 128))  # of a matrix


def of_matrices(
    x: Float[Array, "T K"],
    g: Float[Array, "T N"],
    sizes: Int32[Array, " E"],
    dtype: jnp.dtype,
    transpose_w: bool,
    precision: lax.Precision | None,
    cuts: Cuts,
) -> Float[Array, "E _K _N"]:
    """dw: ``x_e.T @ g_e`` for each group, or its transpose where w is stored so."""
    launch = Op(
        name="gradient of grouped_matmul",
        rule=f"T k, T n, E -> E {'n k' if transpose_w else 'k n'}",
        tpu=fixed(_on_tpu, dtype=dtype, transpose_w=transpose_w, precision=precision),
        plain=fixed(_plain, dtype=dtype, transpose_w=transpose_w, precision=precision),
        one_at_a_time=True,
        known="k n",
    )
    return launch(x, g, sizes, cuts=cuts)


def _plain(x, g, sizes, *, dtype, transpose_w, precision):
    x, g = (g, x) if transpose_w else (x, g)
    return grouped_plain.matrices(x, g, sizes, precision).astype(dtype)


def _on_tpu(x, g, sizes, *, dtype, transpose_w, precision):
    if transpose_w:
        x, g = g, x
    (t, k), n = x.shape, g.shape[1]
    bm, bk, bn = _blocks(t, k, n, x.dtype.itemsize, passes(precision))
    lists, needed = visits(sizes, t, bm, of_matrices=True), _vmem_bytes(bm, bk, bn, x.dtype.itemsize)
    how = {"bm": bm, "bk": bk, "bn": bn, "vmem_bytes": needed, "precision": precision}
    return grouped_kernels.gradients(x, g, lists, sizes.shape[0], dtype, **how)


def _blocks(t: int, k: int, n: int, itemsize: int, passes: int) -> tuple[int, int, int]:
    """The largest that fit: the larger, the fewer panels, and copies that nothing hides stand between panels."""
    for bk, bn in _BLOCKS:
        bm, bk, bn = min(_ROWS, t), min(bk, k), min(bn, n)
        fits = _vmem_bytes(bm, bk, bn, itemsize) <= chip.vmem_bytes() * 3 // 8
        if fits and bm * bk * bn * passes <= chip.LARGEST_STEP:
            break
    return bm, bk, bn


def _vmem_bytes(bm: int, bk: int, bn: int, itemsize: int) -> int:
    return 2 * itemsize * (bm * (bk + bn) + bk * bn) + 8 * bk * bn
