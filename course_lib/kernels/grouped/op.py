"""``grouped_matmul`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools

from jax import lax

from course_lib.arrays import Array, Described, Float, Int32
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.common.products import passes, precision_of
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Cuts, Layout
from course_lib.kernels.grouped import blocks as grouped_blocks
from course_lib.kernels.grouped.kernel import Blocks, launch, launch_gradient
from course_lib.kernels.grouped.plain import plain_gradient, plain_product
from course_lib.kernels.grouped.visits import visits_of


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
    """Return ``x_e @ w[e]`` for the rows of each group e, f32 or bf16: group 0 has the first ``sizes[0]`` rows.

    ``transpose_w``: w is (E, N, K), and ``x_e @ w[e].T`` is computed. Rows past the last group give zeros. A group that
    would reach past the last row ends there, and a negative size counts as 0.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: those of ``blocks_for``.
    ``layout`` says how x, w and sizes lie on a mesh with Auto axes. N may be cut, and so may K: then the parts are
    added across the devices.
    Differentiable in x and w. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError if shapes or dtypes do not fit, or blocks do not fit into VMEM.
    """
    x, w, sizes = operands("grouped_matmul", x, w, sizes, transpose_w)
    level = precision_of("grouped_matmul", x.dtype, precision)
    legal.check_kind("grouped_matmul", blocks, Blocks)
    (x, w, sizes), cuts = sharding.ready("grouped_matmul", _rule(transpose_w), (x, w, sizes), layout)
    return _grouped(x, w, sizes, transpose_w, level, blocks, cuts)


def operands(op: str, x, w, sizes, transpose_w: bool, name: str = "w") -> tuple[Array, Array, Array]:
    """Return the arrays of a grouped product, whose w ``op`` calls ``name``. Raises ValueError if they do not fit."""
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
    """Return the blocks chosen for these arguments, and for the chip that is traced for (a v5e if there is none).

    The sizes of groups are unknown at trace time; assumes equal groups, which end inside tiles.
    """
    level = precision_of("blocks_for", x.dtype, precision)
    (t, k), n = x.shape, w.shape[1 if transpose_w else 2]
    return grouped_blocks.blocks_of(t, k, n, w.shape[0], x.dtype, passes(level))


def _rule(transpose_w: bool) -> str:
    return f"T k, E {'n k' if transpose_w else 'k n'}, E -> T n +k"


@functools.partial(differentiable, settings=4)
def _grouped(x, w, sizes, transpose_w, precision, blocks, cuts):
    how = {"transpose_w": transpose_w, "precision": precision}
    op = Op(
        name="grouped_matmul",
        rule=_rule(transpose_w),
        tpu=fixed(_on_tpu, **how, blocks=blocks),
        plain=fixed(_plain, **how),
        one_at_a_time=True,
        known="n",
    )
    return op(x, w, sizes, cuts=cuts)


def _plain(x, w, sizes, *, transpose_w, precision):
    return plain_product(x, w, sizes, transpose_w=transpose_w, precision=precision).astype(x.dtype)


def _on_tpu(x, w, sizes, *, transpose_w, precision, blocks):
    n = w.shape[1 if transpose_w else 2]
    sizes_of, limit = cut_and_checked("grouped_matmul", x, n, w.shape[0], precision, blocks)
    visits = visits_of(sizes, x.shape[0], sizes_of[0], of_matrices=False)
    return launch(x, w, visits, sizes_of, transpose_w=transpose_w, precision=precision, vmem=limit)


def cut_and_checked(op: str, x, n: int, groups: int, precision, blocks, *, matrices: int = 1):
    """Return (bm, bn) of ``blocks``, or of the fastest, cut to the arrays, and the VMEM to request for them in bytes.

    Raises ValueError if the blocks do not fit into VMEM, or the list of visits not into SMEM.
    """
    (t, k), dtype = x.shape, x.dtype
    chosen = blocks or grouped_blocks.blocks_of(t, k, n, groups, dtype, passes(precision), matrices=matrices)
    bm, bn = min(chosen.bm, t), min(chosen.bn, n)
    needed = grouped_blocks.vmem_bytes(bm, k, bn, dtype.itemsize, matrices)
    if blocks is None:
        grouped_blocks.check_depth(op, k, needed)
    check_fits(chosen, needed)
    grouped_blocks.check_visits(groups, t, bm)
    return (bm, bn), vmem_limit(needed)


def _forward(x, w, sizes, *static):
    return _grouped(x, w, sizes, *static), (x, w, sizes)


def _backward(transpose_w, precision, _, cuts, saved, g):
    return *gradients(*saved, g, precision, cuts, transpose_w=transpose_w), None


def product(x, w, sizes, precision: lax.Precision | None, cuts: Cuts) -> Array:
    """Return the ``grouped_matmul`` of arguments that are already checked."""
    return _grouped(x, w, sizes, False, precision, None, cuts)


def gradients(
    x, w, sizes, g, precision: lax.Precision | None, cuts: Cuts, *, transpose_w: bool = False
) -> tuple[Array, Array]:
    """Return dx, a grouped product as well, and dw, by kernels with blocks of their own."""
    renamed = cuts and tuple(({"k": "n", "n": "k"}.get(letter, letter), names) for letter, names in cuts)
    dx = _grouped(g, w, sizes, not transpose_w, precision, None, renamed)
    how = {"dtype": w.dtype, "transpose_w": transpose_w, "precision": precision}
    op = Op(
        name="gradient of grouped_matmul",
        rule=f"T k, T n, E -> E {'n k' if transpose_w else 'k n'}",
        tpu=fixed(_gradient_on_tpu, **how),
        plain=fixed(_gradient_plain, **how),
        one_at_a_time=True,
        known="k n",
        dtypes=(w.dtype,),
    )
    return dx, op(x, g, sizes, cuts=cuts)


def _gradient_plain(x, g, sizes, *, dtype, transpose_w, precision):
    x, g = (g, x) if transpose_w else (x, g)
    return plain_gradient(x, g, sizes, precision=precision).astype(dtype)


def _gradient_on_tpu(x, g, sizes, *, dtype, transpose_w, precision):
    x, g = (g, x) if transpose_w else (x, g)
    (t, k), n, itemsize = x.shape, g.shape[1], x.dtype.itemsize
    blocks = grouped_blocks.gradient_blocks(t, k, n, itemsize, passes(precision))
    grouped_blocks.check_visits(sizes.shape[0], t, blocks[0])
    visits = visits_of(sizes, t, blocks[0], of_matrices=True)
    limit = vmem_limit(grouped_blocks.gradient_vmem_bytes(*blocks, itemsize))
    return launch_gradient(x, g, visits, blocks, dtype, precision=precision, vmem=limit)


_grouped.defvjp(_forward, _backward)
