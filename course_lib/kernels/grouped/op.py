"""Grouped products, as a mixture of experts has them: rows sorted by group, and a matrix for each group.

    o[i] = x[i] @ w[e]    for the rows i of group e, and zeros for rows past the last group

Cost   FLOPs 2*T*K*N;  HBM bytes, where each group has more than one tile, (T*K*ceil(N/bn) + E*K*N + T*N) * itemsize;
       rows around a border between groups are multiplied twice: 128 of them at the most, where 128 divides bm
VMEM   2 * (bm*K + K*bn + bm*bn) * itemsize: each block held twice; and 4*bm*bn for the product

The grid is (columns, visits): see ``grouped_visits``. Sizes of groups are data; nothing is compiled again for others.
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Float, Int32
from course_lib.kernels.common import arguments, chip, legal
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.products import dot, passes, precision_of
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Cuts, Layout
from course_lib.kernels.grouped import gradient as grouped_gradient
from course_lib.kernels.grouped import kernel as grouped_kernels
from course_lib.kernels.grouped import plain as grouped_plain
from course_lib.kernels.grouped.visits import ends_of, visits


def reference(
    x: Float[Array, "T K"], w: Float[Array, "E _K _N"], sizes: Int32[Array, " E"], *, transpose_w: bool = False
) -> Float[Array, "T N"]:
    """What ``grouped_matmul`` must compute: products summed in f32, rounded once.

    So does ``jax.lax.ragged_dot``, where no size is below zero.
    """
    w = w.swapaxes(1, 2) if transpose_w else w
    group = jnp.searchsorted(ends_of(sizes, x.shape[0]), jnp.arange(x.shape[0]), side="right")
    mine = (group[:, None] == jnp.arange(w.shape[0])).astype(jnp.float32)
    wide = (mine, x.astype(jnp.float32), w.astype(jnp.float32))
    return jnp.einsum("te,tk,ekn->tn", *wide, precision="highest").astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: bm rows, bn columns; all of K is in one. They change the speed, not the result.

    Legal: bm a multiple of 8, bn of 128. A block is cut down to an array that is smaller.
    """

    bm: int = 512
    bn: int = 1024

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES, bn=legal.LANES)


def grouped_matmul(
    x: Float[Array, "T K"],
    w: Float[Array, "E _K _N"],
    sizes: Int32[Array, " E"],
    *,
    transpose_w: bool = False,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "T N"]:
    """``x_e @ w[e]`` for the rows of each group e, f32 or bf16: the first ``sizes[0]`` rows are those of group 0.

    ``transpose_w``: w is (E, N, K), and ``x_e @ w[e].T`` is computed. Rows past the last group give zeros; groups past
    the last row have fewer rows, and a size below zero is zero.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: chosen by ``blocks_for``.
    ``layout`` says how x, w and sizes lie on a mesh with Auto axes; N may be cut, and K, and then the parts are added
    among the devices.
    Differentiable in x and w. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError where shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    x, w, sizes = operands("grouped_matmul", x, w, sizes, transpose_w)
    level = precision_of("grouped_matmul", x.dtype, precision)
    legal.check_kind("grouped_matmul", blocks, Blocks)
    (x, w, sizes), cuts = sharding.ready("grouped_matmul", _rule(transpose_w), (x, w, sizes), layout)
    return _grouped(x, w, sizes, transpose_w, level, blocks, cuts)


def operands(op: str, x, w, sizes, transpose_w: bool, name: str = "w") -> tuple[Array, Array, Array]:
    """The arrays of a grouped product; ``name`` is what ``op`` calls w. Raises ValueError where they do not fit."""
    x, w = arguments.arrays(op, arguments.FLOATS, **{"x": x, name: w})
    (sizes,) = arguments.arrays(op, ("int32",), sizes=sizes)
    if x.dtype != w.dtype:
        raise ValueError(
            f"{op}: x is {x.dtype} and {name} {w.dtype}; both must be float32 or both bfloat16. Try {name}.astype."
        )
    if x.ndim != 2 or w.ndim != 3 or x.shape[1] != w.shape[2 if transpose_w else 1]:
        stored = "(E, N, K)" if transpose_w else "(E, K, N)"
        way = f"transpose_w={not transpose_w}" if name == "w" else f"{name}.swapaxes(1, 2)"
        raise ValueError(
            f"{op}: x has shape {x.shape} and {name} {w.shape}; they must be (T, K) and {stored}, with one K. "
            f"Is {name} stored the other way round? Then try {way}."
        )
    if sizes.shape != w.shape[:1]:
        raise ValueError(
            f"{op}: sizes has shape {sizes.shape}; for {name} of shape {w.shape} it must be {w.shape[:1]}, how many "
            "rows of x belong to each matrix. Try jnp.bincount(group_of_each_row, length=...)."
        )
    return x, w, sizes


def blocks_for(
    x: Float[Described, "T K"],
    w: Float[Described, "E _K _N"],
    sizes: Int32[Described, " E"],
    *,
    transpose_w: bool = False,
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks that ``grouped_matmul`` chooses for these arguments, on the chip traced for (a v5e where it is none).

    How large each group is it does not know: it expects groups of one size, with borders inside of tiles.
    """
    level = precision_of("blocks_for", x.dtype, precision)
    (t, k), n = x.shape, w.shape[1 if transpose_w else 2]
    return blocks_of(t, k, n, w.shape[0], x.dtype, passes(level))


def blocks_of(t: int, k: int, n: int, groups: int, dtype, passes: int, *, matrices: int = 1) -> Blocks:
    """Those for T rows, K deep, N columns, and groups whose rows are multiplied by so many ``matrices`` each."""
    return Blocks(**_fastest(t, k, n, groups, jnp.dtype(dtype), passes, matrices, chip.rates(dtype)))


_PER_VISIT = 0.5e-6  # seconds beside the product: the compiler predicts 600 to 1000 cycles for a v5e
_ROWS, _COLUMNS = (512, 256, 128), (2048, 1024, 512, 256, 128)


@functools.lru_cache(256)
def _fastest(t: int, k: int, n: int, groups: int, dtype, passes: int, matrices: int, rates) -> dict[str, int]:
    """bm and bn: per visit the longer of product and copies; a group's matrix comes while one visit is worked on."""
    found = []
    for bm in _ROWS:
        for bn in _COLUMNS:
            rows, columns = min(bm, t), min(bn, n)
            fits = vmem_bytes(rows, k, columns, dtype.itemsize, matrices) <= chip.vmem_bytes() * 3 // 8
            if fits and bm * k * bn * passes * matrices <= chip.LARGEST_STEP:
                tiles, panels = pl.cdiv(t, bm), pl.cdiv(n, bn)
                product = 2 * bm * k * bn * passes * matrices / rates.flops
                tile, matrix = (dtype.itemsize * n / rates.hbm_bandwidth for n in (bm * (k + bn), k * bn * matrices))
                each = max(product, tile) + _PER_VISIT
                border = product * min(1, grouped_kernels.CHUNK / bm) + _PER_VISIT
                of_groups = (groups - 1) * border + groups * max(0.0, tile + matrix - each)
                found.append((panels * (tiles * each + of_groups), -bm, -bn))
    _, bm, bn = min(found, default=(0, -legal.LANES, -legal.LANES))
    return {"bm": -bm, "bn": -bn}


def vmem_bytes(bm: int, k: int, bn: int, itemsize: int, matrices: int = 1) -> int:
    """Bytes of VMEM for blocks, each held twice, and for the products on their way to the result."""
    return 2 * itemsize * (bm * k + matrices * k * bn + bm * bn) + 4 * matrices * bm * bn


def check_depth(op: str, k: int, needed: int) -> None:
    """Raises ValueError where all of K does not fit into VMEM, ``needed`` bytes with the smallest blocks."""
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"{op}: K is {k}, and 128 rows and 128 columns of that depth need {needed / 2**20:.1f} MiB of VMEM; the "
            f"chip has {chip.vmem_bytes() / 2**20:.1f} MiB. Try K in parts, and add: grouped_matmul(x[:, :n], "
            "w[:, :n], sizes) + grouped_matmul(x[:, n:], w[:, n:], sizes)."
        )


def _rule(transpose_w: bool) -> str:
    return f"T k, E {'n k' if transpose_w else 'k n'}, E -> T n +k"


@functools.partial(differentiable, settings=4)
def _grouped(x, w, sizes, transpose_w, precision, blocks, cuts):
    how = {"transpose_w": transpose_w, "precision": precision}
    launch = Op(
        name="grouped_matmul",
        rule=_rule(transpose_w),
        tpu=fixed(_on_tpu, **how, blocks=blocks),
        plain=fixed(_plain, **how),
        one_at_a_time=True,
        known="n",
    )
    return launch(x, w, sizes, cuts=cuts)


def _plain(x, w, sizes, *, transpose_w, precision):
    return grouped_plain.product(x, w.swapaxes(1, 2) if transpose_w else w, sizes, precision).astype(x.dtype)


def _on_tpu(x, w, sizes, *, transpose_w, precision, blocks):
    (t, k), n = x.shape, w.shape[1 if transpose_w else 2]
    given, blocks = blocks, blocks or blocks_of(t, k, n, w.shape[0], x.dtype, passes(precision))
    bm, bn = min(blocks.bm, t), min(blocks.bn, n)
    needed = vmem_bytes(bm, k, bn, x.dtype.itemsize)
    if given is None:
        check_depth("grouped_matmul", k, needed)
    check_fits(blocks, needed)
    return grouped_kernels.products(
        x, (w,), visits(sizes, t, bm, of_matrices=False), fixed(dot, transpose_y=transpose_w, precision=precision),
        transposed=transpose_w, bm=bm, bn=bn, vmem_bytes=needed,
    )  # fmt: skip


def _forward(x, w, sizes, *static):
    return _grouped(x, w, sizes, *static), (x, w, sizes)


def _backward(transpose_w, precision, _, cuts, saved, g):
    return *gradients(*saved, g, precision, cuts, transpose_w=transpose_w), None


def product(x, w, sizes, precision: lax.Precision | None, cuts: Cuts) -> Array:
    """``grouped_matmul`` of what is checked already."""
    return _grouped(x, w, sizes, False, precision, None, cuts)


def gradients(x, w, sizes, g, precision: lax.Precision | None, cuts: Cuts, *, transpose_w: bool = False):
    """dx, a grouped product as well, and dw. Blocks are chosen anew."""
    renamed = cuts and tuple(({"k": "n", "n": "k"}.get(letter, letter), names) for letter, names in cuts)
    dx = _grouped(g, w, sizes, not transpose_w, precision, None, renamed)
    return dx, grouped_gradient.of_matrices(x, g, sizes, w.dtype, transpose_w, precision, cuts)


_grouped.defvjp(_forward, _backward)
