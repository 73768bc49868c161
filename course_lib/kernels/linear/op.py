"""``linear`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU.

The gradient needs act'(z). relu's follows from y, so nothing more is saved. For the others ``residuals`` says whether z
is saved, rounded to the dtype of x, or computed again: a third more work, and M*N * itemsize less memory.
"""

import functools
from typing import Literal, get_args

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float
from course_lib.kernels import activations, matmul
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.layouts import as_rows
from course_lib.kernels.common.products import passes, precision_of
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.linear import blocks as linear_blocks
from course_lib.kernels.linear import mosaic_gpu as linear_gpu
from course_lib.kernels.linear.backward import launch_dw, launch_dx, plain_gradients
from course_lib.kernels.linear.kernel import launch_linear, plain_linear
from course_lib.kernels.matmul import Blocks
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu
from course_lib.kernels.matmul import triton as matmul_triton

Residuals = Literal["save", "recompute"]


def linear(
    x: Float[Array, "*batch K"],
    w: Float[Array, "K N"],
    b: Float[Array, " N"] | None = None,
    *,
    activation: str | None = None,
    residuals: Residuals = "save",
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*batch N"]:
    """Return ``act(x @ w + b)``, all f32 or all bf16, for x of any number of leading axes; differentiable in x, w, b.

    ``activation``: one of ``activations.ACTIVATIONS``, None for none. ``residuals``: "save" keeps z for the gradient,
    "recompute" computes it again. ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` are the forward
    kernel's; None: chosen for the shape and the chip. Runs kernels on a TPU, in the backward pass too, and plain JAX
    elsewhere. ``layout`` says how x, w and b lie on a mesh with Auto axes. If K is cut, the parts of the product are
    added across the devices, and XLA applies bias and activation afterwards.
    Raises ValueError if shapes, dtypes or names do not fit, or blocks do not fit into VMEM.
    """
    x, w = arguments.arrays("linear", arguments.FLOATS, x=x, w=w)
    (b,) = arguments.arrays("linear", arguments.FLOATS, b=jnp.zeros(w.shape[-1:], w.dtype) if b is None else b)
    _check(x, w, b, residuals)
    activations.named(activation, "linear")
    precision = precision_of("linear", x.dtype, precision)
    legal.check_kind("linear", blocks, Blocks)
    matmul_blocks.check(blocks, linear_blocks.forward_problem(x, w, precision, save=False))
    how, rule = (activation or "none", residuals, precision, blocks), _rule(x.ndim - 1, "k")
    said = mesh_rules.cuts("linear", rule, (x, w, b), layout)
    if sharding.is_cut("k", "linear", rule, (x, w, b), said):
        # No device has the whole sum that the activation needs, so bias and activation follow the kernel.
        operands, said = sharding.ready("linear", rule, (x, w, jnp.zeros_like(b)), layout)
        z = _linear(*operands, "none", *how[1:], True, said).astype(jnp.float32) + b.astype(jnp.float32)
        return activations.apply(activation, z).astype(x.dtype)
    operands, said = sharding.ready("linear", _rule(x.ndim - 1, "K"), (x, w, b), layout)
    return _linear(*operands, *how, False, said)


def blocks_for(
    x: Float[Described, "*batch K"],
    w: Float[Described, "K N"],
    b: Float[Described, " N"] | None = None,
    *,
    activation: str | None = None,
    residuals: Residuals = "save",
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """Return the blocks that ``linear`` chooses for these arguments, for the chip traced for (a v5e if there is none).

    If z is saved for a gradient, others may be chosen, because one more block is written.
    """
    level = precision_of("blocks_for", x.dtype, precision)
    return matmul.blocks_of(matmul_blocks.fastest(linear_blocks.forward_problem(x, w, level, save=False)))


def _check(x: Array, w: Array, b: Array, residuals: str) -> None:
    if x.ndim < 1 or w.ndim != 2 or x.shape[-1] != w.shape[0]:
        raise ValueError(
            f"linear: x has shape {x.shape} and w {w.shape}; they must be (..., K) and (K, N), with one K. "
            "Is w stored as (N, K)? Then hand over w.T."
        )
    if b.shape != w.shape[1:]:
        raise ValueError(f"linear: b has shape {b.shape}; for w of shape {w.shape} it must be {w.shape[1:]}.")
    if not x.dtype == w.dtype == b.dtype or x.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(
            f"linear: x is {x.dtype}, w {w.dtype} and b {b.dtype}; all must be float32 or all bfloat16. "
            "Try w.astype(x.dtype)."
        )
    if residuals not in get_args(Residuals):
        raise ValueError(f"linear: residuals={residuals!r}; it may be 'save' or 'recompute'.")


def _rule(batch: int, k: str, results: int = 1) -> str:
    """Return the rule: ``k`` is "K" if it must be whole, and "k" if the parts of a product are added."""
    rows = mesh_rules.letters(batch)
    result = f"{rows} n" if k == "K" else f"{rows} n +k"
    return f"{rows} {k}, {k} n, n -> " + ", ".join([result] * results)


@functools.partial(differentiable, settings=6)
def _linear(x, w, b, activation, residuals, precision, blocks, summed, cuts):
    return _forward_pass(x, w, b, activation, precision, blocks, summed, cuts, save=False)[0]


def _forward(x, w, b, activation, residuals, precision, blocks, summed, cuts, *, moving):
    # ``moving`` says what is differentiated. The input of a network's first layer is not, and then dx is not computed:
    # no compiler can leave it out of a kernel that makes dz as well. () says so, because a bool would be traced.
    without_dx = None if moving[0] else ()
    save = residuals == "save" and activation not in ("none", "relu")
    y, z = _forward_pass(x, w, b, activation, precision, blocks, summed, cuts, save=save)
    return y, (x, w, b, y if activation == "relu" else z, without_dx)


def _backward(activation, residuals, precision, blocks, summed, cuts, saved, g):
    x, w, b, z, without_dx = saved
    if z is None and activation != "none":
        z, _ = _forward_pass(x, w, b, "none", precision, blocks, summed, cuts, save=False)
    dx, dw, db = _gradients(x, w, z, g, activation, precision, without_dx is None, summed, cuts)
    return dx, dw, db.astype(b.dtype)


_linear.defvjp(_forward, _backward, asks="moving")


def _forward_pass(x, w, b, activation, precision, blocks, summed, cuts, save: bool) -> tuple[Array, Array | None]:
    """Return y and z; None for z unless it is to be saved."""
    how = {"activation": activation, "precision": precision, "save": save}
    if 0 in (*x.shape, *w.shape):
        results = plain_linear(x, w, b, **how)
    else:
        on_gpu = fixed(linear_gpu.on_gpu, activation=activation, save=save)
        op = Op(
            name="linear",
            rule=_rule(x.ndim - 1, "k" if summed else "K", 1 + save),
            tpu=fixed(_on_tpu, **how, blocks=blocks),
            gpu=fixed(on_gpu, multiply=matmul_gpu.product_here),
            portable=fixed(on_gpu, multiply=matmul_triton.product_here),
            plain=fixed(plain_linear, **how),
            leading=() if blocks else (0,),
        )
        results = op(x, w, b, cuts=cuts)
    return results if save else (results, None)


def _on_tpu(x, w, b, *, activation, precision, save, blocks: Blocks | None):
    problem = linear_blocks.forward_problem(x, w, precision, save)
    sizes = matmul_blocks.chosen(blocks, problem)
    limit = matmul_blocks.vmem_limit(sizes, problem)
    how = {"activation": activation, "precision": precision, "save": save}
    return launch_linear(x, w, b, sizes, vmem_limit_bytes=limit, **how)


def _gradients(x, w, z, g, activation, precision, want_dx: bool, summed: bool, cuts) -> tuple:
    """Return dx (None unless ``want_dx``), dw and db.

    ``z`` is used for act'(z) alone: None for no activation, and y will do for relu. ``summed``: K may be cut among
    devices, as it may if there is no activation.
    """
    how = {"activation": activation, "precision": precision, "want_dx": want_dx}
    operands = (x, w, g) if z is None else (x, w, g, z)
    if 0 in (*x.shape, *w.shape):
        grads = _plain_gradients(*operands, **how)
    else:
        on_gpu = fixed(linear_gpu.gradients_on_gpu, activation=activation, want_dx=want_dx)
        op = Op(
            name="gradient of linear",
            rule=_rule_of_gradients(x.ndim - 1, "k" if summed else "K", z is not None, want_dx),
            tpu=fixed(_gradients_on_tpu, **how),
            gpu=fixed(on_gpu, multiply=matmul_gpu.product_here),
            portable=fixed(on_gpu, multiply=matmul_triton.product_here),
            plain=fixed(_plain_gradients, **how),
            dtypes=(*[x.dtype] * (1 + want_dx), jnp.dtype(jnp.float32)),
        )
        grads = op(*operands, cuts=cuts)
    return grads if want_dx else (None, *grads)


def _rule_of_gradients(batch: int, k: str, with_z: bool, want_dx: bool) -> str:
    rows = mesh_rules.letters(batch)
    sums = " ".join("+" + letter for letter in rows.split())
    ins = f"{rows} {k}, {k} n, {rows} n" + f", {rows} n" * with_z
    return ins + " -> " + f"{rows} {k} +n, " * want_dx + f"{k} n {sums}, n {sums}"


def _plain_gradients(x, w, g, *z, activation, precision, want_dx):
    rows = as_rows(x), w, as_rows(g), *map(as_rows, z)
    dx, dw, db = plain_gradients(*rows, activation=activation, precision=precision)
    return (dx.reshape(x.shape), dw, db) if want_dx else (dw, db)  # XLA drops a dx that nobody uses


def _gradients_on_tpu(x, w, g, *z, activation, precision, want_dx):
    """Run the two kernels. If no block of whole rows of z fits into VMEM, or dx is not wanted, dz is a kernel alone."""
    (x, g, *z), shape = map(as_rows, (x, g, *z)), x.shape
    n, levels = g.shape[1], passes(precision)
    if want_dx and z and (sides := linear_blocks.sides(n, x.dtype, levels)):
        limit = linear_blocks.dx_limit(*sides, n, x.dtype, levels)
        how = {"activation": activation, "precision": precision, "vmem_limit_bytes": limit}
        dx, dz = launch_dx(w, g, *z, sides, **how)
    else:
        dz = activations.pull_back(activation, g, *z) if z else g
        level = lax.Precision.HIGHEST if precision is None else precision
        dx = matmul.matmul_transposed(dz, w, transpose_y=True, precision=level) if want_dx else None
    problem = linear_blocks.dw_problem(x, dz, precision)
    sizes = matmul_blocks.chosen(None, problem)
    limit = matmul_blocks.vmem_limit(sizes, problem)
    dw, db = launch_dw(x, dz, sizes, precision=precision, vmem_limit_bytes=limit)
    return (dx.reshape(shape), dw, db) if want_dx else (dw, db)
