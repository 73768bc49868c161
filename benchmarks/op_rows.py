"""The operations that ``make op-costs`` measures: name -> function, and its arguments."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu

F32, BF16, I32, I8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8
CHEAP, MEDIUM, EXPENSIVE = "cheap", "medium", "expensive"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Elementwise:
    """An elementwise operation. ``says`` is what JAX's page on Pallas for TPUs says of its cost, if anything."""

    fn: Callable
    operands: int = 1
    says: str = ""
    integers: bool = False  # whether it applies to integers too
    floats: bool = True


def of(fn, operands=1, says="", integers=False, floats=True) -> Elementwise:
    return Elementwise(fn=fn, operands=operands, says=says, integers=integers, floats=floats)


def _after(y: jax.Array, x: jax.Array, count: int) -> jax.Array:
    """Apply ``count`` operations of the VPU to y: additions of x and products with it, in turn."""
    for number in range(count):
        y = y * x if number % 2 else y + x
    return y


ELEMENTWISE = {
    "x": of(lambda x: x, integers=True),
    "x + y, x - y": of(jnp.add, 2, CHEAP, integers=True),
    "x * y": of(jnp.multiply, 2, CHEAP, integers=True),
    "max(x, y), min": of(jnp.maximum, 2, CHEAP, integers=True),
    "abs(x)": of(jnp.abs, 1, CHEAP, integers=True),
    "where(x > y, x, y)": of(lambda x, y: jnp.where(x > y, x, y), 2, CHEAP, integers=True),
    "x == y, as 0 and 1": of(lambda x, y: (x == y).astype(x.dtype), 2, CHEAP, integers=True),
    "relu(x)": of(jax.nn.relu),
    "x & y, or, xor": of(jnp.bitwise_or, 2, CHEAP, integers=True, floats=False),
    "x << y, x >> y": of(lax.shift_left, 2, CHEAP, integers=True, floats=False),
    "floor(x), ceil": of(jnp.floor),
    "round(x)": of(jnp.round),
    "exp(x)": of(jnp.exp, 1, MEDIUM),
    "log(x)": of(jnp.log),
    "log1p(x)": of(jnp.log1p),
    "tanh(x)": of(jnp.tanh, 1, MEDIUM),
    "tanh(x), and 3 of the VPU": of(lambda x: _after(jnp.tanh(x), x, 3)),
    "tanh(x), and 4 of the VPU": of(lambda x: _after(jnp.tanh(x), x, 4)),
    "sqrt(x)": of(jnp.sqrt),
    "rsqrt(x)": of(lax.rsqrt),
    "1 / x": of(lambda x: 1 / x),
    "pltpu.reciprocal(x, approx=True)": of(lambda x: pltpu.reciprocal(x, approx=True)),
    "x / y": of(jnp.divide, 2, MEDIUM),
    "x // y": of(jnp.floor_divide, 2, MEDIUM, integers=True),
    "x % y": of(jnp.remainder, 2, MEDIUM, integers=True),
    "x // 8": of(lambda x: x // 8, integers=True, floats=False),
    "x % 8": of(lambda x: x % 8, integers=True, floats=False),
    "x >> 3": of(lambda x: x >> 3, integers=True, floats=False),
    "x & 7": of(lambda x: x & 7, integers=True, floats=False),
    "x ** y": of(jnp.power, 2, MEDIUM),
    "x ** 0.5": of(lambda x: x**0.5),
    "sin(x)": of(jnp.sin, 1, EXPENSIVE),
    "cos(x)": of(jnp.cos, 1, EXPENSIVE),
    "erf(x)": of(lax.erf),
    "erfc(x)": of(lax.erfc),
    "sigmoid(x)": of(jax.nn.sigmoid),
    "0.5 tanh(0.5 x) + 0.5": of(lambda x: 0.5 * jnp.tanh(0.5 * x) + 0.5),
    "silu(x)": of(jax.nn.silu),
    "gelu(x), by tanh": of(lambda x: jax.nn.gelu(x, approximate=True)),
    "softplus(x)": of(jax.nn.softplus),
}
CASTS = {"f32": F32, "bf16": BF16, "int32": I32, "int8": I8}


def array(*shape: int, dtype=F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def block(dtype) -> jax.ShapeDtypeStruct:
    """Return the array for elementwise operations. With 16 bits, only rows of 256 or more fill the registers."""
    return array(64, 128 if jnp.dtype(dtype).itemsize == 4 else 512, dtype=dtype)


# name -> (the operation, its operands): whole arrays, whose layout determines the cost.
LAYOUT = {
    "sum over a leading axis, (16, 8, 128) to (8, 128)": (lambda x: x.sum(0), (array(16, 8, 128),)),
    "sum down the columns, (64, 128) to (1, 128)": (lambda x: x.sum(0, keepdims=True), (array(64, 128),)),
    "sum along the rows, (64, 128) to (64, 1)": (lambda x: x.sum(1, keepdims=True), (array(64, 128),)),
    "sum along the rows, (64, 1024) to (64, 1)": (lambda x: x.sum(1, keepdims=True), (array(64, 1024),)),
    "max along the rows, (64, 128) to (64, 1)": (lambda x: x.max(1, keepdims=True), (array(64, 128),)),
    "argmax along the rows, (64, 128)": (lambda x: jnp.argmax(x, 1, keepdims=True), (array(64, 128),)),
    "sum of everything, (64, 128) to (1, 1)": (lambda x: x.sum(keepdims=True), (array(64, 128),)),
    "a row to all rows, (1, 128) to (64, 128)": (lambda x: jnp.broadcast_to(x, (64, 128)), (array(1, 128),)),
    "a column to all columns, (64, 1) to (64, 128)": (lambda x: jnp.broadcast_to(x, (64, 128)), (array(64, 1),)),
    "a column to all columns, (64, 1) to (64, 1024)": (lambda x: jnp.broadcast_to(x, (64, 1024)), (array(64, 1),)),
    "transpose, (128, 128)": (lambda x: x.T, (array(128, 128),)),
    "transpose, bf16, (256, 256)": (lambda x: x.T, (array(256, 256, dtype=BF16),)),
    "transpose of one row, (1, 128) to (128, 1)": (lambda x: x.T, (array(1, 128),)),
    "leading axes exchanged, (4, 8, 8, 128)": (lambda x: x.transpose(1, 0, 2, 3), (array(4, 8, 8, 128),)),
    "first and second axis exchanged, (16, 8, 128)": (lambda x: x.transpose(1, 0, 2), (array(16, 8, 128),)),
    "reshape (64, 128) to (8, 8, 128)": (lambda x: x.reshape(8, 8, 128), (array(64, 128),)),
    "reshape (8, 8, 128) to (64, 128)": (lambda x: x.reshape(64, 128), (array(8, 8, 128),)),
    "reshape (64, 256) to (128, 128)": (lambda x: x.reshape(128, 128), (array(64, 256),)),
    "reshape (128, 128) to (64, 256)": (lambda x: x.reshape(64, 256), (array(128, 128),)),
    "reshape (64, 128) to (64, 2, 64)": (lambda x: x.reshape(64, 2, 64), (array(64, 128),)),
    "rows moved down by one, (64, 128)": (lambda x: pltpu.roll(x, 1, 0), (array(64, 128),)),
    "lanes moved by one, (64, 128)": (lambda x: pltpu.roll(x, 1, 1), (array(64, 128),)),
    "two halves of the lanes exchanged, by concatenate": (
        lambda x: jnp.concatenate([x[:, 64:], x[:, :64]], 1),
        (array(64, 128),),
    ),
    "the same, by pltpu.roll(x, 64, 1)": (lambda x: pltpu.roll(x, 64, 1), (array(64, 128),)),
    "one column, x[:, 5:6] * x, (64, 128)": (lambda x: x[:, 5:6] * x, (array(64, 128),)),
    "zeros, (64, 128)": (lambda x: jnp.zeros((64, 128), F32), (array(8, 128),)),
    "broadcasted_iota, (64, 128)": (lambda x: lax.broadcasted_iota(I32, (64, 128), 1), (array(8, 128),)),
}


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.dot(x, y, preferred_element_type=I32 if x.dtype == I8 else F32)


def exact(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.dot(x, y, precision="highest")


def _square(n: int, dtype=BF16) -> tuple:
    return (array(n, n, dtype=dtype),) * 2


PRODUCTS = {
    "bf16, 128 x 128 x 128": (product, _square(128)),
    "bf16, 256 x 256 x 256": (product, _square(256)),
    "bf16, 8 x 256 x 256": (product, (array(8, 256, dtype=BF16), array(256, 256, dtype=BF16))),
    "bf16, 64 x 256 x 256": (product, (array(64, 256, dtype=BF16), array(256, 256, dtype=BF16))),
    "bf16, 256 x 256 x 8": (product, (array(256, 256, dtype=BF16), array(256, 8, dtype=BF16))),
    "bf16, x @ y.T, 256 x 256 x 256": (lambda x, y: product(x, y.T), _square(256)),
    "bf16, x.T @ y, 256 x 256 x 256": (lambda x, y: product(x.T, y), _square(256)),
    "f32, in one pass of bf16, 256 x 256 x 256": (product, _square(256, F32)),
    'f32, precision="highest", 256 x 256 x 256': (exact, _square(256, F32)),
    "int8, 256 x 256 x 256": (product, _square(256, I8)),
}
