"""The kernels of google/qwix for quantized matmuls."""

import functools

import jax.numpy as jnp

from public_kernels.adapter import F32, Adapter, Project, array

FOLDER = "qwix/contrib/kernels"


def quantized_matmul():
    from qwix.contrib.kernels import quantized_matmul as module

    return functools.partial(module.quantized_matmul, bm=128, bk=128, bn=128, dtype=F32)


def dequantized(x, sx, y, sy):
    """Return the product of tiles of int8 with a scale each: (M, K), (sm, sk), (K, N), (sk, sn)."""

    def scaled(a, scales):
        return a * jnp.kron(
            scales,
            jnp.ones((a.shape[0] // scales.shape[0], a.shape[1] // scales.shape[1])),
        )

    return jnp.dot(scaled(x, sx), scaled(y, sy), precision="highest")


def lhs_fused():
    from qwix.contrib.kernels import lhs_fused_quantized_matmul as module

    return functools.partial(module.lhs_fused_quantized_matmul, bm=128, bk=128, bn=128, sm=2)


def quantized(x, axis):
    """Return x rounded to int8 by its largest element along ``axis``, and the scale."""
    scale = jnp.max(jnp.abs(x), axis=axis, keepdims=True) / 127.5
    return jnp.rint(x / scale).astype(jnp.int8), scale


def lhs_fused_reference(x, y, sy):
    """Return x times the scaled y, where x is rounded to int8 in tiles of (128, 128)."""
    (m, k), n = x.shape, y.shape[1]
    tiles, scales = quantized(x.reshape(m // 128, 128, k // 128, 128), (1, 3))
    products = jnp.einsum(
        "aibk,bkn->abin",
        tiles.astype(jnp.int32),
        y.reshape(k // 128, 128, n).astype(jnp.int32),
    )
    scale = scales.reshape(m // 128, k // 128)[:, :, None, None] * jnp.repeat(sy, n // sy.shape[1], 1)[None, :, None]
    return jnp.sum(products * scale, axis=1).reshape(m, n)


def hadamard_quantize():
    from qwix.contrib.kernels import fused_hadamard_quantize as module

    return functools.partial(module.fused_hadamard_quantize, bm=128, bn=256, sm=2, sn=2, hadamard_power=7)


def hadamard(power: int):
    """Return the Hadamard matrix of 2^power rows, by Sylvester's construction."""
    matrix = jnp.ones((1, 1))
    for _ in range(power):
        matrix = jnp.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def hadamard_reference(x):
    """Return x rotated in tiles of (128, 128), rounded to int8, and the tiles' scales."""
    m, n = x.shape
    rotated = jnp.einsum(
        "aibj,jk->aibk",
        x.reshape(m // 128, 128, n // 128, 128),
        hadamard(7),
        precision="highest",
    )
    tiles, scales = quantized(rotated, (1, 3))
    return tiles.reshape(m, n), scales.reshape(m // 128, n // 128)


INT8 = jnp.int8
PROJECTS = (
    Project(
        name="google/qwix",
        package="qwix",
        stubs=("flax", "absl"),
        adapters=(
            Adapter(
                name="quantized matmul",
                path=f"{FOLDER}/quantized_matmul.py",
                style="pl.kernel, emit_pipeline",
                load=quantized_matmul,
                reference=dequantized,
                args=lambda: (
                    array(256, 256, dtype=INT8),
                    array(2, 2),
                    array(256, 256, dtype=INT8),
                    array(2, 2),
                ),
                arrays="int8[256,256] twice, 2 x 2 scales",
            ),
            Adapter(
                name="matmul that quantizes its lhs",
                path=f"{FOLDER}/lhs_fused_quantized_matmul.py",
                style="pl.kernel, emit_pipeline",
                load=lhs_fused,
                reference=lhs_fused_reference,
                args=lambda: (
                    array(256, 256),
                    array(256, 256, dtype=INT8),
                    array(2, 2),
                ),
                arrays="f32[256,256], int8[256,256], 2 x 2 scales",
            ),
            Adapter(
                name="Hadamard rotation and quantization",
                path=f"{FOLDER}/fused_hadamard_quantize.py",
                style="pl.kernel, emit_pipeline",
                load=hadamard_quantize,
                reference=hadamard_reference,
                args=lambda: (array(256, 256),),
                arrays="f32[256,256]",
            ),
        ),
    ),
)
