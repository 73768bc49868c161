"""The collectives for callers: arguments checked, differentiable, and XLA's collectives where there is no TPU."""

import functools
import warnings
from collections.abc import Callable

import jax
from jax import lax

from course_lib.arrays import Array, Float, Num
from course_lib.kernels.collectives import blocks
from course_lib.kernels.collectives.kernel import (
    all_gather_matmul_reference,
    all_gather_reference,
    launch,
    matmul_reduce_scatter_reference,
    reduce_scatter_reference,
)
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.outputs import varying
from course_lib.kernels.common.products import dot, precision_of
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.matmul import blocks as matmul_blocks


def all_gather(x: Num[Array, "M ..."], axis_name: str) -> Num[Array, "nM ..."]:
    """Return the rows of all n devices of a mesh axis, as ``lax.all_gather(x, axis_name, tiled=True)`` does.

    Call it inside ``jax.shard_map``. x is f32, bf16 or int32. Differentiable. Runs the kernel on a TPU and XLA's
    collective elsewhere. The devices pass rows on in the order of their indices, so make the mesh in the order in which
    links join them; ``jax.make_mesh`` does on a v5e 2x2. Raises ValueError outside a shard_map over ``axis_name``,
    for another dtype, and for a number without axes.
    """
    (x,) = arguments.arrays("all_gather", arguments.NUMBERS, x=x)
    n = _devices("all_gather", axis_name, x)
    (x,) = varying(axis_name, x)
    if n == 1 or not x.size:
        return all_gather_reference(x, axis_name)
    return _gathered(x.reshape(x.shape[0], -1), axis_name).reshape(n * x.shape[0], *x.shape[1:])


def reduce_scatter(x: Num[Array, "nM ..."], axis_name: str) -> Num[Array, "M ..."]:
    """Return this device's rows of the sum over all n devices, as ``lax.psum_scatter(x, axis_name, tiled=True)`` does.

    Each sum is taken in f32, and rounded to the dtype of x before it is passed on, n // 2 + 1 times at most. Otherwise
    like ``all_gather``. Raises ValueError, too, if the rows of x cannot be divided among n devices.
    """
    (x,) = arguments.arrays("reduce_scatter", arguments.FLOATS, x=x)
    n = _devices("reduce_scatter", axis_name, x)
    _check_divides("reduce_scatter", x, axis_name, n)
    (x,) = varying(axis_name, x)
    if n == 1 or not x.size:
        return reduce_scatter_reference(x, axis_name)
    return _scattered(x.reshape(x.shape[0], -1), axis_name).reshape(x.shape[0] // n, *x.shape[1:])


def all_gather_matmul(
    x: Float[Array, "M K"], w: Float[Array, "K N"], axis_name: str, *, precision: lax.PrecisionLike = "highest"
) -> Float[Array, "nM N"]:
    """Return ``all_gather(x, axis_name) @ w``, in which a part is multiplied while the next one travels.

    x and w are both f32 or both bf16. Differentiable: the gradient of x is ``matmul_reduce_scatter(g, w.T)``, and that
    of w has the x that was gathered. Otherwise like ``all_gather`` and ``matmul.matmul``.
    """
    x, w = arguments.arrays("all_gather_matmul", arguments.FLOATS, x=x, w=w)
    level = precision_of("all_gather_matmul", x.dtype, precision)
    matmul_blocks.problem("all_gather_matmul", x, w, level)
    n = _devices("all_gather_matmul", axis_name, x)
    x, w = varying(axis_name, x, w)
    if n == 1 or not x.size or not w.size:
        return all_gather_matmul_reference(x, w, axis_name, level)
    return _gathered_matmul(x, w, axis_name, level)[0]


def matmul_reduce_scatter(
    x: Float[Array, "nM K"], w: Float[Array, "K N"], axis_name: str, *, precision: lax.PrecisionLike = "highest"
) -> Float[Array, "M N"]:
    """Return ``reduce_scatter(x @ w, axis_name)``, in which a part travels while the next one is multiplied.

    x and w are both f32 or both bf16. Differentiable: the gradient of x is ``all_gather_matmul(g, w.T)``. Otherwise
    like ``reduce_scatter`` and ``matmul.matmul``.
    """
    x, w = arguments.arrays("matmul_reduce_scatter", arguments.FLOATS, x=x, w=w)
    level = precision_of("matmul_reduce_scatter", x.dtype, precision)
    matmul_blocks.problem("matmul_reduce_scatter", x, w, level)
    n = _devices("matmul_reduce_scatter", axis_name, x)
    _check_divides("matmul_reduce_scatter", x, axis_name, n)
    x, w = varying(axis_name, x, w)
    if n == 1 or not x.size or not w.size:
        return matmul_reduce_scatter_reference(x, w, axis_name, level)
    return _matmul_scattered(x, w, axis_name, level)


def _devices(op: str, axis_name: str, x: Array) -> int:
    """Return the number of devices of a mesh axis. Raises ValueError if it is not known here, or x has no rows."""
    if not x.ndim:
        raise ValueError(f"{op}: x is a number; it must have rows. Try x[None].")
    try:
        return lax.axis_size(axis_name)
    except (NameError, TypeError, ValueError) as error:
        raise ValueError(
            f"{op}: axis_name is {legal.shown(axis_name)}; it must be the name of a mesh axis, inside jax.shard_map "
            "over that axis. Try jax.shard_map(fn, mesh=mesh, in_specs=..., out_specs=...)(x)."
        ) from error


def _check_divides(op: str, x: Array, axis_name: str, n: int) -> None:
    if x.shape[0] % n:
        raise ValueError(
            f"{op}: x has shape {x.shape}; its {x.shape[0]} rows must divide among the {n} devices of axis "
            f"{axis_name!r}. Try jnp.pad to {-(-x.shape[0] // n) * n} rows."
        )


def _op(name: str, rule: str, tpu: Callable, plain: Callable, rows: int, axis_name: str, **more) -> Op:
    """Return the op. JAX cannot map semaphores, so under jax.vmap the kernel runs once for each index."""
    how = {"tpu": fixed(tpu, axis_name=axis_name, **more), "plain": fixed(plain, axis_name=axis_name, **more)}
    return Op(name=name, rule=rule, sizes=(("r", rows),), known="m k n", one_at_a_time=True, **how)


@functools.partial(differentiable, settings=1)
def _gathered(x, axis_name):
    rows = lax.axis_size(axis_name) * x.shape[0]
    return _op("all_gather", "m k -> r k", _gather_on_tpu, all_gather_reference, rows, axis_name)(x)


_gathered.defvjp(
    lambda x, axis_name: (_gathered(x, axis_name), ()), lambda axis_name, _, g: (_scattered(g, axis_name),)
)


@functools.partial(differentiable, settings=1)
def _scattered(x, axis_name):
    rows = x.shape[0] // lax.axis_size(axis_name)
    return _op("reduce_scatter", "m k -> r k", _scatter_on_tpu, reduce_scatter_reference, rows, axis_name)(x)


_scattered.defvjp(
    lambda x, axis_name: (_scattered(x, axis_name), ()), lambda axis_name, _, g: (_gathered(g, axis_name),)
)


@functools.partial(differentiable, settings=2)
def _gathered_matmul(x, w, axis_name, precision):
    rows, how = lax.axis_size(axis_name) * x.shape[0], {"precision": precision}
    rule = "m k, k n -> r n, r k"
    return _op("all_gather_matmul", rule, _gather_matmul_on_tpu, _plain_both, rows, axis_name, **how)(x, w)


def _plain_both(x, w, *, axis_name, precision):
    gathered = all_gather_reference(x, axis_name)
    return dot(gathered, w, precision=precision).astype(x.dtype), gathered


def _gathered_matmul_forward(x, w, axis_name, precision):
    y, gathered = _gathered_matmul(x, w, axis_name, precision)
    return (y, gathered), (gathered, w)


def _gathered_matmul_backward(axis_name, precision, kept, gradients):
    (gathered, w), (g, _) = kept, gradients  # nobody gets the x that was gathered, so it has no gradient
    dx = _matmul_scattered(g, w.T, axis_name, precision)
    return dx, dot(gathered, g, transpose_x=True, precision=precision).astype(w.dtype)


_gathered_matmul.defvjp(_gathered_matmul_forward, _gathered_matmul_backward)


@functools.partial(differentiable, settings=2)
def _matmul_scattered(x, w, axis_name, precision):
    rows, how = x.shape[0] // lax.axis_size(axis_name), {"precision": precision}
    plain = matmul_reduce_scatter_reference
    op = _op("matmul_reduce_scatter", "m k, k n -> r n", _matmul_scatter_on_tpu, plain, rows, axis_name, **how)
    return op(x, w)


def _matmul_scattered_backward(axis_name, precision, kept, g):
    x, w = kept
    dx, gathered = _gathered_matmul(g, w.T, axis_name, precision)
    return dx, dot(x, gathered, transpose_x=True, precision=precision).astype(w.dtype)


_matmul_scattered.defvjp(lambda x, w, *how: (_matmul_scattered(x, w, *how), (x, w)), _matmul_scattered_backward)


def _gather_on_tpu(x, *, axis_name):
    return launch(False, x, axis_name=axis_name, sizes=None)


def _scatter_on_tpu(x, *, axis_name):
    rows, columns = _part(x.shape[0] // lax.axis_size(axis_name)), x.shape[1]
    if (chosen := blocks.for_sum(rows, columns, x.dtype.itemsize)) is None:
        return _too_large("reduce_scatter", reduce_scatter_reference)(x, axis_name)
    return launch(True, x, axis_name=axis_name, sizes=chosen[0], vmem_limit_bytes=chosen[1])


def _gather_matmul_on_tpu(x, w, *, axis_name, precision):
    if (chosen := _blocks(x, w, precision, x.shape[0])) is None:
        return _too_large("all_gather_matmul", _plain_both)(x, w, axis_name=axis_name, precision=precision)
    how = {"axis_name": axis_name, "precision": precision}
    return launch(False, x, w, sizes=chosen[0], vmem_limit_bytes=chosen[1], **how)


def _matmul_scatter_on_tpu(x, w, *, axis_name, precision):
    if (chosen := _blocks(x, w, precision, x.shape[0] // lax.axis_size(axis_name), summed=True)) is None:
        return _too_large("matmul_reduce_scatter", matmul_reduce_scatter_reference)(x, w, axis_name, precision)
    how = {"axis_name": axis_name, "precision": precision}
    return launch(True, x, w, sizes=chosen[0], vmem_limit_bytes=chosen[1], **how)


def _blocks(x: Array, w: Array, precision, rows: int, *, summed: bool = False) -> blocks.Chosen | None:
    part = jax.ShapeDtypeStruct((_part(rows), x.shape[1]), x.dtype)
    return blocks.for_matmul(matmul_blocks.problem("the matmul", part, w, precision), summed)


def _part(rows: int) -> int:
    """Return the rows of what travels one way: half of a device's, if they can be halved."""
    return rows // (1 if rows % 2 else 2)


def _too_large(op: str, plain: Callable) -> Callable:
    warnings.warn(f"{op}: XLA's collective instead of the kernel, no blocks of which fit into VMEM.", stacklevel=2)
    return plain
