"""Elementwise kernels: ``o[i] = x[i] + y[i]`` and its siblings, for arrays of any shape.

Cost   FLOPs one per element;  HBM bytes 3 * size * itemsize: every element read twice, written once
VMEM   2 * 3 * bm * bn * itemsize: three blocks, each held twice so that copies overlap work

An array of one axis is cut into blocks of bm * bn elements; one of more axes is seen as (M, N), N its last axis,
and cut into (bm, bn). A block that reaches past the edge is no trouble: what is read there is garbage, and what
is written there is dropped.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref


def reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """What ``add`` must compute."""
    return x + y


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows, and elements of the last axis. They never change the result, only the speed.

    Legal: bm a multiple of 8 (16 for two-byte types fills whole registers), bn a multiple of 128. A block is cut
    down to an array that is smaller. 256 x 1024 in f32 takes 6 MiB of VMEM for the three operands.
    """

    bm: int = 256
    bn: int = 1024

    def __post_init__(self):
        if self.bm < 8 or self.bm % 8 or self.bn < 128 or self.bn % 128:
            raise ValueError(
                f"Blocks(bm={self.bm}, bn={self.bn}) is not legal: bm must be a multiple of 8, bn a multiple of 128. "
                f"Nearest legal: bm={max(8, round(self.bm / 8) * 8)}, bn={max(128, round(self.bn / 128) * 128)}."
            )


def _add_kernel(x_ref: Num[Ref, "..."], y_ref: Num[Ref, "..."], o_ref: Num[Ref, "..."]) -> None:
    o_ref[...] = x_ref[...] + y_ref[...]


def _subtract_kernel(x_ref: Num[Ref, "..."], y_ref: Num[Ref, "..."], o_ref: Num[Ref, "..."]) -> None:
    o_ref[...] = x_ref[...] - y_ref[...]


def _multiply_kernel(x_ref: Num[Ref, "..."], y_ref: Num[Ref, "..."], o_ref: Num[Ref, "..."]) -> None:
    o_ref[...] = x_ref[...] * y_ref[...]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _add(x, y, blocks):
    return _call(_add_kernel, lax.add, x, y, blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _subtract(x, y, blocks):
    return _call(_subtract_kernel, lax.sub, x, y, blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _multiply(x, y, blocks):
    return _call(_multiply_kernel, lax.mul, x, y, blocks)


_add.defvjp(lambda x, y, blocks: (_add(x, y, blocks), None), lambda blocks, _, g: (g, g))
_subtract.defvjp(lambda x, y, blocks: (_subtract(x, y, blocks), None), lambda blocks, _, g: (g, -g))
_multiply.defvjp(
    lambda x, y, blocks: (_multiply(x, y, blocks), (x, y)),
    lambda blocks, saved, g: (_multiply(g, saved[1], blocks), _multiply(g, saved[0], blocks)),
)


def add(x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks = Blocks()) -> Num[Array, "*shape"]:
    """``x + y`` for two arrays of one shape and one dtype (f32, bf16, int32), differentiable.

    Runs the kernel on a TPU and plain JAX elsewhere. Raises ValueError where shapes or dtypes differ.
    """
    return _add(*_checked("add", x, y), blocks)


def subtract(x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks = Blocks()) -> Num[Array, "*shape"]:
    """``x - y``; as ``add``."""
    return _subtract(*_checked("subtract", x, y), blocks)


def multiply(x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks = Blocks()) -> Num[Array, "*shape"]:
    """``x * y``; as ``add``."""
    return _multiply(*_checked("multiply", x, y), blocks)


def _checked(op: str, x, y) -> tuple[Array, Array]:
    if x.shape != y.shape:
        raise ValueError(f"{op}: x has shape {x.shape} and y {y.shape}; they must be equal. Try jnp.broadcast_to.")
    if x.dtype != y.dtype:
        raise ValueError(f"{op}: x is {x.dtype} and y {y.dtype}; they must be equal. Try y.astype(x.dtype).")
    return x, y


def _call(kernel: Callable, plain: Callable, x: Array, y: Array, blocks: Blocks) -> Array:
    on_tpu = functools.partial(_on_tpu, kernel, blocks)
    return lax.platform_dependent(x, y, tpu=on_tpu, default=plain) if x.size else plain(x, y)


def _on_tpu(kernel: Callable, blocks: Blocks, x: Array, y: Array) -> Array:
    if x.ndim == 1:
        flat, block = x.shape, (min(x.size, blocks.bm * blocks.bn),)
        block = block if block[0] == x.size else (max(1024, block[0] // 1024 * 1024),)
    else:
        columns = x.shape[-1] if x.ndim else 1
        flat = (math.prod(x.shape[:-1]), columns)
        block = (min(flat[0], blocks.bm), min(columns, blocks.bn))
    spec = pl.BlockSpec(block, lambda *step: step)
    # This side is for the chip alone. Where a notebook has switched the simulator on, a simulated kernel here would
    # bring effects into one branch of platform_dependent that the other has not, and jit refuses that.
    with pltpu.force_tpu_interpret_mode(False):
        out = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(flat, x.dtype),
            grid=tuple(pl.cdiv(n, b) for n, b in zip(flat, block, strict=True)),
            in_specs=[spec, spec],
            out_specs=spec,
        )(x.reshape(flat), y.reshape(flat))
    return out.reshape(x.shape)
