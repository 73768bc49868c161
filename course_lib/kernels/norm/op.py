"""The norms for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Float
from course_lib.kernels.common import arguments, legal, portable, row_blocks
from course_lib.kernels.common.compiler_params import vmem_limit
from course_lib.kernels.common.symbolic import cut
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.norm import blocks as norm_blocks
from course_lib.kernels.norm import mosaic_gpu, traced_eps
from course_lib.kernels.norm.kernel import (
    Blocks,
    _gradient_kernel,
    _layer_norm_kernel,
    _rms_norm_kernel,
    launch,
    layer_norm_reference,
    rms_norm_reference,
)
from course_lib.kernels.norm.residual import (
    _residual_gradient_kernel,
    _rms_norm_residual_kernel,
    normed_and_sum,
    rms_norm_residual_reference,
)


def rms_norm(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float | Float[Array, ""] = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*shape N"]:
    """Return the RMSNorm (Zhang and Sennrich 2019) of an f32 or bf16 array over its last axis; differentiable.

    The result has the dtype of x, whatever that of ``weight``. ``eps`` may be traced, but has no gradient: asking for
    it raises a ValueError. Runs the kernel on a TPU and plain JAX elsewhere.
    ``blocks`` None: those of ``blocks_for``, and for the gradient what fits there. ``layout`` says how x lies on a mesh
    with Auto axes; rows that are cut among devices are left to plain JAX.
    Raises ValueError for other dtypes, a weight of another length, and rows or blocks that do not fit in VMEM.
    """
    x, weight = arguments.arrays("rms_norm", arguments.FLOATS, x=x, weight=weight)
    return _checked("rms_norm", (x,), {"weight": weight}, eps, blocks, layout)


def layer_norm(
    x: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    bias: Float[Array, " N"] | None = None,
    eps: float | Float[Array, ""] = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*shape N"]:
    """Return the LayerNorm (Ba, Kiros and Hinton 2016) over the last axis, without a bias if it is None.

    The rest is as in ``rms_norm``.
    """
    x, weight = arguments.arrays("layer_norm", arguments.FLOATS, x=x, weight=weight)
    bias = jnp.zeros_like(weight) if bias is None else bias
    (bias,) = arguments.arrays("layer_norm", arguments.FLOATS, bias=bias)
    return _checked("layer_norm", (x,), {"weight": weight, "bias": bias}, eps, blocks, layout)


def rms_norm_residual(
    x: Float[Array, "*shape N"],
    residual: Float[Array, "*shape N"],
    weight: Float[Array, " N"],
    eps: float | Float[Array, ""] = 1e-6,
    *,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> tuple[Float[Array, "*shape N"], Float[Array, "*shape N"]]:
    """Return ``(rms_norm(s, weight, eps), s)`` with ``s = x + residual``, the residual for the next layer.

    x and residual have one shape and one dtype. The rest is as in ``rms_norm``.
    """
    given = {"x": x, "residual": residual, "weight": weight}
    x, residual, weight = arguments.arrays("rms_norm_residual", arguments.FLOATS, **given)
    return _checked("rms_norm_residual", (x, residual), {"weight": weight}, eps, blocks, layout)


def blocks_for(x: Float[Described, "*shape N"], *others, **named) -> Blocks:
    """Return the blocks that ``rms_norm`` and ``layer_norm`` choose, on the chip traced for; only x matters.

    Raises ValueError, naming the longest row that fits, if 8 rows are too many for VMEM.
    """
    return norm_blocks.fastest(x, arrays=2)


def rms_norm_residual_blocks_for(x: Float[Described, "*shape N"], *others, **named) -> Blocks:
    """Return the blocks that ``rms_norm_residual`` chooses: as ``blocks_for``, with twice as many arrays to hold."""
    return norm_blocks.fastest(x, arrays=4)


class _Norm(NamedTuple):
    """What the ops differ in. ``values``: the results as a function of what is kept for the gradient."""

    kernel: Callable
    gradient_kernel: Callable
    reference: Callable
    values: Callable
    arrays: int = 1  # like x, among the operands and among the results


_NORMS = {
    "rms_norm": _Norm(_rms_norm_kernel, _gradient_kernel, rms_norm_reference, rms_norm_reference),
    "layer_norm": _Norm(_layer_norm_kernel, _gradient_kernel, layer_norm_reference, layer_norm_reference),
    "rms_norm_residual": _Norm(
        _rms_norm_residual_kernel, _residual_gradient_kernel, rms_norm_residual_reference, normed_and_sum, arrays=2
    ),
}
_ON_HOPPER = {"rms_norm": mosaic_gpu.rms_norm, "layer_norm": mosaic_gpu.layer_norm}


def _checked(op: str, arrays: tuple[Array, ...], vectors: dict[str, Array], eps, blocks, layout):
    x, *others = arrays
    row_blocks.check_rows(op, x)
    for name, vector in vectors.items():
        if vector.shape != x.shape[-1:]:
            raise ValueError(
                f"{op}: {name} is {vector.dtype} of shape {vector.shape}; for x of shape {x.shape} it must be floats "
                f"of shape ({x.shape[-1]},). Try jnp.broadcast_to({name}, x.shape[-1:])."
            )
    for residual in others:
        if (x.shape, x.dtype) != (residual.shape, residual.dtype):
            raise ValueError(
                f"{op}: x is {x.dtype} of shape {x.shape} and residual {residual.dtype} of shape {residual.shape}; "
                "they must be equal. Try residual.astype(x.dtype)."
            )
    legal.check_kind(op, blocks, Blocks)
    eps, traced = traced_eps.split(op, eps)
    rule = _rule(x, len(arrays), len(vectors), *traced)
    operands, cuts = sharding.ready(op, rule, (*arrays, *vectors.values(), *traced), layout)
    return _norm(*operands, op, eps, blocks, cuts)


def _rule(x: Array, arrays: int, vectors: int, *eps: Array) -> str:
    """Return the rule of so many arrays like x, which come out too, vectors, and eps if it is an operand."""
    axes = mesh_rules.letters(x.ndim - 1) + " N"  # rows stay whole
    return ", ".join([axes] * arrays + ["N"] * vectors + [""] * len(eps)) + " -> " + ", ".join([axes] * arrays)


@functools.partial(differentiable, settings=4)
def _norm(*args):
    """Run an op on arrays, vectors, and eps if it is traced; if it is not, the eps behind the op's name says it."""
    *operands, op, eps, blocks, cuts = args
    norm, x, traced = _NORMS[op], operands[0], operands[-1:] if eps is None else []
    plain = norm.reference if traced else fixed(norm.reference, eps=eps)
    if not x.size:
        return plain(*operands)
    norm_blocks.chosen(blocks, x, 2 * norm.arrays)
    kernel = _with_eps(norm.kernel, eps)
    how = {"kernel": kernel, "blocks": blocks, "count": norm.arrays, "traced": len(traced)}
    on_gpus = {}
    if not traced:
        body = fixed(_ragged, kernel=kernel)
        by_rows = fixed(portable.by_rows, kernel=body, arrays=norm.arrays, results=norm.arrays, name=op)
        hopper = fixed(mosaic_gpu.on_gpu, op=_ON_HOPPER[op], eps=eps) if op in _ON_HOPPER else None
        on_gpus = {"gpu": hopper, "portable": by_rows}
    launched = Op(
        name=op,
        rule=_rule(x, norm.arrays, len(operands) - norm.arrays - len(traced), *traced),
        tpu=fixed(_on_tpu, **how),
        tpu_mapped=fixed(_on_tpu, **how, mapped=True),
        plain=plain,
        leading=() if blocks else tuple(range(norm.arrays)),
        **on_gpus,
    )
    return launched(*operands, cuts=cuts)


def _ragged(x_block: portable.Block, *blocks: portable.Block, kernel: Callable) -> None:
    """Run a kernel on a GPU, where a row need not fill its block."""
    kernel(x_block, *blocks, axis=1, inside=x_block.inside)


def _with_eps(kernel: Callable, eps: float | None) -> Callable:
    return fixed(traced_eps.kernel_with_eps_from_smem, kernel=kernel) if eps is None else fixed(kernel, eps=eps)


def _forward(*args, moving):
    """Keep what was read, and no more: a kernel that reads a row again computes its statistics at no cost."""
    *operands, op, eps, _, _ = args
    if eps is None:
        traced_eps.check_not_differentiated(op, moving)
    results, count = _norm(*args), _NORMS[op].arrays
    return results, (operands if count == 1 else [results[1], *operands[count:]])


def _backward(op, eps, blocks, cuts, saved, g):
    (x, *vectors), count = saved, _NORMS[op].arrays
    traced = [vectors.pop()] if eps is None else []
    dx, *others = gradients(
        op, (x, *(g if count > 1 else (g,))), vectors, traced[0] if traced else eps, blocks=blocks, cuts=cuts
    )
    return *[dx] * count, *others, *[None] * len(traced)


_norm.defvjp(_forward, _backward, asks="moving")


def gradients(
    op: str,
    arrays: tuple[Array, ...],
    vectors: list[Float[Array, " N"]],
    eps: float | Array,
    *,
    blocks: Blocks | None = None,
    cuts: mesh_rules.Cuts = None,
    cores: int | None = None,
) -> tuple[Array, ...]:
    """Return the gradients of x and of each vector: by the kernel on a TPU, elsewhere by JAX.

    ``arrays`` are x (or s) and the gradients of the results, of one shape and dtype; ``vectors`` the weight, and the
    bias if there is one; ``eps`` a number, or an array that may be traced. ``cores`` share the work; None: those of the
    chip. Raises ValueError if the blocks do not fit in VMEM.
    """
    norm, x, sums, count = _NORMS[op], arrays[0], len(vectors), len(arrays)
    eps, traced = traced_eps.split(op, eps)
    operands = *arrays, *vectors, *traced
    plain = fixed(_plain_gradients, values=norm.values, eps=eps, vectors=sums)
    if not x.size:
        return plain(*operands)
    norm_blocks.chosen(blocks, x, count + 1, gradient=True)
    axes = mesh_rules.letters(x.ndim - 1)
    added = " ".join("+" + axis for axis in axes.split())
    ins = [f"{axes} N"] * count + ["N"] * sums + [""] * len(traced)
    how = {"kernel": _with_eps(norm.gradient_kernel, eps), "blocks": blocks, "count": count, "traced": len(traced)}
    how |= {"gradient": True, "cores": cores}
    launched = Op(
        name=f"gradient of {op}",
        rule=", ".join(ins) + " -> " + ", ".join([f"{axes} N"] + [f"N {added}"] * sums),
        tpu=fixed(_on_tpu, **how),
        tpu_mapped=fixed(_on_tpu, **how, mapped=True),
        plain=plain,
    )
    return launched(*operands, cuts=cuts)


def _plain_gradients(*operands: Array, values: Callable, eps: float | None, vectors: int) -> tuple[Array, ...]:
    if eps is None:
        *operands, eps = operands
    (x, *gradients), vectors = operands[:-vectors], operands[-vectors:]
    _, pull_back = jax.vjp(functools.partial(values, eps=eps), x, *vectors)
    return pull_back(tuple(gradients) if len(gradients) > 1 else gradients[0])


def _on_tpu(*operands: Array, kernel, blocks, count, traced, gradient=False, cores=None, mapped=False) -> list[Array]:
    """Run a kernel on ``count`` arrays, the vectors behind them, and an eps if ``traced``; ``mapped`` by jax.vmap."""
    operands, scalars = operands[: len(operands) - traced], operands[len(operands) - traced :]
    arrays, vectors = operands[:count], operands[count:]
    x, held, rows, axis = arrays[0], count + 1 if gradient else 2 * count, math.prod(arrays[0].shape[:-1]), 1
    bm, needed = norm_blocks.chosen(blocks, x, held, gradient=gradient)
    bm, cores = _shared(rows, bm, cores or _cores()) if gradient else (cut(bm, rows), 1)
    if blocks is None and cores == 1 and (lanes := norm_blocks.along_lanes(x, held, gradient=gradient)):
        (bm, needed), axis = lanes, 0
    how = {"bm": bm, "axis": axis, "cores": cores, "as_rows": mapped, "vmem_limit_bytes": vmem_limit(needed)}
    scalars = [scalar.reshape(1, 1) for scalar in scalars]
    return launch(kernel, arrays, vectors, gradient=gradient, scalars=scalars, **how)


def _cores() -> int:
    """Return the cores that act as one device on the chip traced for: 2 on a v4 or v5p as JAX shows it, else 1."""
    try:
        return pltpu.get_tpu_info().num_cores
    except ValueError:  # traced on a machine without a TPU, and not for one
        return 1


def _shared(rows: int, bm: int, cores: int) -> tuple[int, int]:
    """Return rows of a block, fewer if need be, so that each core gets as many blocks; one core if that cannot be."""
    blocks = pl.cdiv(pl.cdiv(rows, bm), cores) * cores
    fewer = pl.cdiv(pl.cdiv(rows, blocks), 8) * 8
    return (fewer, cores) if cores > 1 and pl.cdiv(rows, fewer) == blocks else (min(bm, rows), 1)
