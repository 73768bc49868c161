"""A linear layer in one kernel: ``y = act(z)`` with ``z = x @ w + b``; and its gradient.

Cost   FLOPs 2*M*N*K forward, 4*M*N*K backward (2*M*N*K more where z is computed again);  HBM bytes forward
       (M*K + K*N*ceil(M/bm) + M*N) * itemsize, M*N * itemsize more where z is saved: as matmul's, with b
VMEM   2 * (bm*K + K*bn + bm*bn) * itemsize, and 2*bm*bn * itemsize where z is saved; with K in blocks as matmul's

The bias and the activation are applied to a block of the sum while it is still in VMEM, in f32. With all of K in one
block they are part of the same straight-line program as the product, and the compiler does them while the MXU works.

The gradient needs act'(z). relu's is told from y, so nothing more is kept; of the others ``residuals`` says whether z
is saved, rounded to the dtype of x, or computed again, which is a third more work and M*N * itemsize less memory.
"""

import functools
import math
from typing import Literal, get_args

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Float, Float32, Ref
from course_lib.kernels import activations, matmul
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, passes, precision_of, zero_beyond
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.linear import backward as linear_backward
from course_lib.kernels.linear import mosaic_gpu as linear_gpu
from course_lib.kernels.matmul import Blocks
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu
from course_lib.kernels.matmul import triton as matmul_portable
from course_lib.kernels.matmul.blocks import Problem

Residuals = Literal["save", "recompute"]


def reference(
    x: Float[Array, "*batch K"], w: Float[Array, "K N"], b: Float[Array, " N"], *, activation: str | None = None
) -> Float[Array, "*batch N"]:
    """What ``linear`` must compute: product, bias and activation in f32, rounded once."""
    z = jnp.dot(x, w, precision="highest", preferred_element_type=jnp.float32) + b.astype(jnp.float32)
    return activations.apply(activation, z).astype(x.dtype)


def _kernel(
    x_ref: Float[Ref, "bm bk"],  # block (i, k)
    w_ref: Float[Ref, "_bk _bn"],  # block (k, j); (bn, bk), block (j, k), with transpose_w
    b_ref: Float[Ref, "1 bn"],  # block (0, j)
    y_ref: Float[Ref, "bm bn"],  # block (i, j): stays put while k runs
    z_ref: Float[Ref, "bm bn"] | None,  # the same, where z is saved
    acc_ref: Float32[Ref, "bm bn"],  # scratch: the product so far
    *,
    size: int,  # of the reduction, which the last bk may reach past
    activation: str,
    precision: lax.Precision | None,
    transpose_w: bool,  # it lies so, where XLA stores it by columns
) -> None:
    k, bk = pl.program_id(2), x_ref.shape[1]

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, w = x_ref[...], w_ref[...]
    if size % bk:
        x, w = zero_beyond(x, 1, size - k * bk), zero_beyond(w, int(transpose_w), size - k * bk)
    acc_ref[...] += dot(x, w, transpose_y=transpose_w, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        _finish(acc_ref[...], b_ref, y_ref, z_ref, activation)


def _whole_k_kernel(
    x_ref: Float[Ref, "bm K"],
    w_ref: Float[Ref, "_K _bn"],  # (bn, K) with transpose_w
    b_ref: Float[Ref, "1 bn"],
    y_ref: Float[Ref, "bm bn"],
    z_ref: Float[Ref, "bm bn"] | None,
    *,
    activation: str,
    precision: lax.Precision | None,
    transpose_w: bool,
) -> None:
    product = dot(x_ref[...], w_ref[...], transpose_y=transpose_w, precision=precision)
    _finish(product, b_ref, y_ref, z_ref, activation)


def _finish(product: Float32[Array, "bm bn"], b_ref, y_ref, z_ref, activation: str) -> None:
    z = product + b_ref[...].astype(jnp.float32)
    y_ref[...] = activations.apply(activation, z).astype(y_ref.dtype)
    if z_ref is not None:
        z_ref[...] = z.astype(z_ref.dtype)


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
    """``act(x @ w + b)``, all f32 or all bf16, for x of any number of leading axes; differentiable in x, w and b.

    ``activation``: one of ``activations.ACTIVATIONS``, None for none. ``residuals``: "save" keeps z for the gradient,
    "recompute" computes it again. ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` are the forward
    kernel's, None: chosen for the shape and the chip. Kernels on a TPU, backwards too, and plain JAX elsewhere.
    ``layout`` says how x, w and b lie on a mesh with Auto axes. Where K is cut, the parts of the product are added
    among the devices, and bias and activation follow, by XLA.
    Raises ValueError where shapes, dtypes or names do not fit, or blocks do not fit into VMEM.
    """
    x, w = arguments.arrays("linear", arguments.FLOATS, x=x, w=w)
    (b,) = arguments.arrays("linear", arguments.FLOATS, b=jnp.zeros(w.shape[-1:], w.dtype) if b is None else b)
    _check(x, w, b, residuals)
    activations.named(activation, "linear")
    precision = precision_of("linear", x.dtype, precision)
    legal.check_kind("linear", blocks, Blocks)
    matmul_blocks.check(blocks, _problem(x, w, precision, save=False))
    how = activation or "none", residuals, precision, blocks
    said = mesh_rules.cuts("linear", _rule(x.ndim - 1, "k"), (x, w, b), layout)
    if sharding.is_cut("k", "linear", _rule(x.ndim - 1, "k"), (x, w, b), said):
        return _by_parts(x, w, b, layout, *how)
    operands, said = sharding.ready("linear", _rule(x.ndim - 1, "K"), (x, w, b), layout)
    return _linear(*operands, *how, False, said)


def _by_parts(x, w, b, layout, activation, *how):
    """Where K is cut: no device has the sum that the activation is of."""
    operands, said = sharding.ready("linear", _rule(x.ndim - 1, "k"), (x, w, jnp.zeros_like(b)), layout)
    z = _linear(*operands, "none", *how, True, said).astype(jnp.float32) + b.astype(jnp.float32)
    return activations.apply(activation, z).astype(x.dtype)


def blocks_for(
    x: Float[Described, "*batch K"],
    w: Float[Described, "K N"],
    b: Float[Described, " N"] | None = None,
    *,
    activation: str | None = None,
    residuals: Residuals = "save",
    precision: lax.PrecisionLike = "highest",
) -> Blocks:
    """The blocks that ``linear`` chooses for these arguments, on the chip traced for (a v5e where it is none).

    Where z is saved, for a gradient, others may be chosen: there is one block more to write.
    """
    level = precision_of("blocks_for", x.dtype, precision)
    return matmul.blocks_of(matmul_blocks.fastest(_problem(x, w, level, save=False)))


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
    """``k`` is "K" where it must be whole, and "k" where the parts of a product are added."""
    rows = mesh_rules.letters(batch)
    result = f"{rows} n" if k == "K" else f"{rows} n +k"
    return f"{rows} {k}, {k} n, n -> " + ", ".join([result] * results)


@functools.partial(differentiable, settings=6)
def _linear(x, w, b, activation, residuals, precision, blocks, summed, cuts):
    return _forward_pass(x, w, b, activation, precision, blocks, summed, cuts, save=False)[0]


def _forward(x, w, b, activation, residuals, precision, blocks, summed, cuts, *, moving):
    # ``moving`` says what is differentiated. What a network's first layer reads is not, and then dx is not made: no
    # compiler can leave it out of a kernel that makes dz as well. () says so, for a bool would be traced.
    without_dx = None if moving[0] else ()
    save = residuals == "save" and activation not in ("none", "relu")
    y, z = _forward_pass(x, w, b, activation, precision, blocks, summed, cuts, save=save)
    return y, (x, w, b, y if activation == "relu" else z, without_dx)


def _backward(activation, residuals, precision, blocks, summed, cuts, saved, g):
    x, w, b, z, without_dx = saved
    if z is None and activation != "none":
        z, _ = _forward_pass(x, w, b, "none", precision, blocks, summed, cuts, save=False)
    want_dx = without_dx is None
    dx, dw, db = linear_backward.gradients(x, w, z, g, activation, precision, want_dx, summed, cuts)
    return dx, dw, db.astype(b.dtype)


_linear.defvjp(_forward, _backward, asks="moving")


def _problem(x: Described, w: Described, precision: lax.Precision | None, save: bool) -> Problem:
    (*rows, k), n = planned(x.shape), planned(w.shape)[1]
    return Problem(m=math.prod(rows), k=k, n=n, dtype=x.dtype, passes=passes(precision), outputs=1 + save)


def _forward_pass(x, w, b, activation, precision, blocks, summed, cuts, save: bool) -> tuple[Array, Array | None]:
    """y and z; None for z where it is not to be saved."""
    how = {"activation": activation, "precision": precision, "save": save}
    if 0 in (*x.shape, *w.shape):
        results = _plain(x, w, b, **how)
    else:
        rule, on_tpu = _rule(x.ndim - 1, "k" if summed else "K", 1 + save), fixed(_on_tpu, **how, blocks=blocks)
        leading = () if blocks else (0,)
        on_gpu = fixed(linear_gpu.on_gpu, activation=activation, save=save)
        launch = Op(
            name="linear",
            rule=rule,
            tpu=on_tpu,
            gpu=fixed(on_gpu, multiply=matmul_gpu.product_here),
            portable=fixed(on_gpu, multiply=matmul_portable.product_here),
            plain=fixed(_plain, **how),
            leading=leading,
        )
        results = launch(x, w, b, cuts=cuts)
    return results if save else (results, None)


def _plain(x, w, b, *, activation, precision, save):
    z = dot(_rows(x), w, precision=precision).reshape(*x.shape[:-1], w.shape[1]) + b.astype(jnp.float32)
    y = activations.apply(activation, z).astype(x.dtype)
    return (y, z.astype(x.dtype)) if save else y


def _rows(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _on_tpu(
    x: Array,
    w: Array,
    b: Array,
    *,
    activation: str,
    precision: lax.Precision | None,
    blocks: Blocks | None,
    save: bool,
) -> Array | tuple[Array, Array]:
    problem = _problem(x, w, precision, save)
    sizes = matmul_blocks.chosen(blocks, problem)
    m, (k, n) = math.prod(x.shape[:-1]), w.shape
    bm, bk, bn = sizes
    if bk == k:
        kernel, scratch = _whole_k_kernel, []
    else:
        kernel, scratch = functools.partial(_kernel, size=k), [pltpu.VMEM((bm, bn), jnp.float32)]
    result, block = out_type(x, (m, n), x.dtype), pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))
    if transpose_w := is_by_columns(w.shape):
        w, w_spec = w.T, pl.BlockSpec((bn, bk), lambda i, j, k: (j, k))
    else:
        w_spec = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    y, z = pl.pallas_call(
        functools.partial(kernel, activation=activation, precision=precision, transpose_w=transpose_w),
        out_shape=(result, result if save else None),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            w_spec,
            pl.BlockSpec((1, bn), lambda i, j, k: (0, j)),
        ],
        out_specs=(block, block if save else None),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=matmul_blocks.vmem_limit(sizes, problem),
        ),
        name="linear",
    )(_rows(x), w, b.reshape(1, n))
    shape = (*x.shape[:-1], n)
    return (y.reshape(shape), z.reshape(shape)) if save else y.reshape(shape)
