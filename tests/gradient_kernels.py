"""A layer relu(x @ w + b) with a backward pass in three kernels, which may slip on demand."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def dot(x, y, contracted=((1,), (0,))):
    """The product in float32, as exact as float32 is."""
    precision = jax.lax.Precision.HIGHEST if y.dtype == jnp.float32 else None
    return jax.lax.dot_general(x, y, (contracted, ((), ())), precision=precision, preferred_element_type=jnp.float32)


def pre(x, w, b):
    return dot(x, w) + b.astype(jnp.float32)


def reference(x, w, b):
    return jax.nn.relu(pre(x, w, b)).astype(x.dtype)


def arguments(m=20, k=128, n=256, dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = ((m, k), (k, n), (n,))
    return tuple(jax.random.normal(key, shape).astype(dtype) for key, shape in zip(keys, shapes, strict=True))


def _forward_kernel(x_ref, w_ref, b_ref, y_ref):
    z = dot(x_ref[...], w_ref[...])
    y_ref[...] = jnp.maximum(z + b_ref[...].astype(jnp.float32), 0).astype(y_ref.dtype)


def forward(x, w, b, bm=8):
    (m, k), n = x.shape, w.shape[1]
    row, whole = pl.BlockSpec((bm, k), lambda i: (i, 0)), pl.BlockSpec((k, n), lambda i: (0, 0))
    return pl.pallas_call(
        _forward_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(m, bm),),
        in_specs=[row, whole, pl.BlockSpec((1, n), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((bm, n), lambda i: (i, 0)),
    )(x, w, b.reshape(1, n))


def slope(g, y):
    return jnp.where(y > 0, g, 0)


def _dx_kernel(g_ref, y_ref, w_ref, dx_ref, *, dz):
    cotangent = dz(g_ref[...], y_ref[...])
    dx_ref[...] = dot(cotangent, w_ref[...], ((1,), (1,))).astype(dx_ref.dtype)


def input_gradient(y, w, g, dz=slope, bm=8, dtype=None):
    (m, n), k = g.shape, w.shape[0]
    row = pl.BlockSpec((bm, n), lambda i: (i, 0))
    return pl.pallas_call(
        functools.partial(_dx_kernel, dz=dz),
        out_shape=jax.ShapeDtypeStruct((m, k), dtype or g.dtype),
        grid=(pl.cdiv(m, bm),),
        in_specs=[row, row, pl.BlockSpec((k, n), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((bm, k), lambda i: (i, 0)),
    )(g, y, w)


def _dw_kernel(x_ref, g_ref, y_ref, dw_ref, db_ref, acc_ref, sum_ref, *, rows, dz, mask, add, over):
    i, bm = pl.program_id(0), x_ref.shape[0]
    inside = i * bm + jax.lax.broadcasted_iota(jnp.int32, (bm, 1), 0) < rows
    x, cotangent = x_ref[...], dz(g_ref[...], y_ref[...])
    if mask:
        x, cotangent = jnp.where(inside, x, 0), jnp.where(inside, cotangent, 0)

    @pl.when(i == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)
        sum_ref[...] = jnp.zeros_like(sum_ref)

    product = dot(x, cotangent, ((0,), (0,)))
    acc_ref[...] = acc_ref[...] + product if add else product
    sum_ref[...] += over(cotangent.astype(jnp.float32))

    @pl.when(i == pl.num_programs(0) - 1)
    def _store():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)
        db_ref[...] = sum_ref[...].astype(db_ref.dtype)


def weight_gradients(x, y, g, dz=slope, bm=8, mask=True, add=True, blocks=None, over=None):
    """dw and db, with the sum over the rows as the only axis of the grid."""
    (m, k), n = x.shape, g.shape[1]
    over = over or functools.partial(jnp.sum, axis=0, keepdims=True)
    dw, db = pl.pallas_call(
        functools.partial(_dw_kernel, rows=m, dz=dz, mask=mask, add=add, over=over),
        out_shape=[jax.ShapeDtypeStruct((k, n), x.dtype), jax.ShapeDtypeStruct((1, n), x.dtype)],
        grid=(blocks or pl.cdiv(m, bm),),
        in_specs=[pl.BlockSpec((bm, width), lambda i: (i, 0)) for width in (k, n, n)],
        out_specs=[pl.BlockSpec((k, n), lambda i: (0, 0)), pl.BlockSpec((1, n), lambda i: (0, 0))],
        scratch_shapes=[pltpu.VMEM((k, n), jnp.float32), pltpu.VMEM((1, n), jnp.float32)],
    )(x, g, y)
    return dw, db.reshape(n)


def save(x, w, b):
    y = forward(x, w, b)
    return y, (x, w, y)


def backward(saved, g, for_dx=slope, for_dw=slope, change=lambda *gradients: gradients, **slips):
    x, w, y = saved
    return change(input_gradient(y, w, g, for_dx), *weight_gradients(x, y, g, for_dw, **slips))


def layer(backward=backward, save=save):
    """The layer with these two rules."""

    @jax.custom_vjp
    def dense(x, w, b):
        return forward(x, w, b)

    dense.defvjp(save, backward)
    return dense


def slipping(**slips):
    return layer(functools.partial(backward, **slips))
