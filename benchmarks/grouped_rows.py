"""The rows of ``make bench`` for grouped matmuls, compared with XLA's and with megablox in the JAX wheel."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from kernel_rows import OURS, PALLAS_OPS, XLA, Row, with_gradients

# Blocks of the wheel's kernel: rows, depth and columns.
CHOICES = tuple((m, k, 1024) for m in (128, 256, 512) for k in (1024, 2048))
GROUPS = 8


def rows() -> list[Row]:
    """Return groups of equal size, which tiles divide; groups drawn as by a router; and those with gradients."""
    equal = np.full(GROUPS, 512, np.int32)
    drawn = np.bincount(np.random.default_rng(1).integers(0, GROUPS, 4096), minlength=GROUPS).astype(np.int32)
    return [
        row("equal", equal, 2048, 2048),
        row("drawn", drawn, 2048, 2048),
        row("drawn", drawn, 2048, 2048, gradients=True),
    ]


def row(how: str, sizes: np.ndarray, depth: int, columns: int, *, gradients: bool = False) -> Row:
    """Return ``x_e @ w[e]`` in bf16; its gradients: (o, dx, dw) of (x, w, do). Sizes are arrays: they are data."""
    count = int(sizes.sum())
    args = [(count, depth), (GROUPS, depth, columns), *([(count, columns)] if gradients else [])]
    return Row(
        kernel=f"grouped product, {how}" + ", and gradients" * gradients,
        shape=f"{count} x {depth} x {columns}, {GROUPS} groups",
        args=tuple(jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in args) + (sizes,),
        implementations={
            OURS: lambda: change(ours(), gradients),
            XLA: lambda: change(jax.lax.ragged_dot, gradients),
            PALLAS_OPS: lambda: in_the_wheel(gradients),
        },
        choices={PALLAS_OPS: CHOICES},
        reads_all=True,
    )


def change(fn: Callable, gradients: bool) -> Callable:
    """Return ``fn`` of (x, w, sizes), or its result and gradients of (x, w, do, sizes)."""
    if not gradients:
        return fn
    return lambda x, w, g, sizes: with_gradients(lambda x, w: fn(x, w, sizes))(x, w, g)


def ours() -> Callable:
    from course_lib.kernels import grouped

    return grouped.grouped_matmul


def in_the_wheel(gradients: bool) -> Callable:
    """Load ``jax.experimental.pallas.ops.tpu.megablox``, which uses the same blocks for all three matmuls."""
    from jax.experimental.pallas.ops.tpu.megablox import ops

    def product(*args, blocks):
        return change(functools.partial(ops.gmm, preferred_element_type=jnp.bfloat16, tiling=blocks), gradients)(*args)

    return product
