"""Ten operations, and the unit that executes each, read from the compiled program."""

import collections
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler

UNITS = ("VPU", "EUP", "XLU", "MXU", "scalar")
_SPECIAL = ("MXU", "EUP", "XLU", "VPU")  # the answer is the first of these that a program uses
_SQUARE, _ROW, _COLUMN = ((128, 128), (1, 128), (128, 1))


def _array(shape: tuple[int, ...], dtype=jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


# name -> (the operation, the types of its arguments)
ON_VECTORS: dict[str, tuple[Callable, tuple]] = {
    "column max": (lambda x: jnp.maximum(x, jnp.max(x, axis=0, keepdims=True)), (_array(_SQUARE),)),
    "row max": (lambda x: jnp.maximum(x, jnp.max(x, axis=1, keepdims=True)), (_array(_SQUARE),)),
    "x * row": (lambda x, r: x * r, (_array(_SQUARE), _array(_ROW))),
    "x * column": (lambda x, c: x * c, (_array(_SQUARE), _array(_COLUMN))),
    "1 / x": (lambda x: 1 / x, (_array(_SQUARE),)),
    "rows down": (lambda x: pltpu.roll(x, 1, 0), (_array(_SQUARE),)),
    "n // m": (lambda n, m: n // m, (_array((8, 128), jnp.int32),) * 2),
    "q @ k.T": (
        lambda q, k: jnp.dot(q, k.T, preferred_element_type=jnp.float32),
        (_array(_SQUARE, jnp.bfloat16),) * 2,
    ),
    "x ** 2.5": (lambda x: x**2.5, (_array(_SQUARE),)),
}
ON_SCALARS: dict[str, Callable] = {"s + 1": lambda s: s + 1}
NAMES = (*ON_VECTORS, *ON_SCALARS)


def count(name: str) -> collections.Counter:
    """Return how many operations of each unit the program has."""
    if name in ON_SCALARS:
        fn, args = ON_SCALARS[name], (_array((8,)),)
        smem = pl.BlockSpec(memory_space=pltpu.SMEM)

        def kernel(s_ref, o_ref):
            o_ref[0] = fn(s_ref[0])

        call = pl.pallas_call(kernel, out_shape=_array((8,)), in_specs=[smem], out_specs=smem)
    else:
        fn, args = ON_VECTORS[name]

        def kernel(*refs):
            *inputs, o_ref = refs
            o_ref[...] = fn(*(ref[...] for ref in inputs))

        call = pl.pallas_call(kernel, out_shape=jax.eval_shape(fn, *args))
    program = compiler.bundles(call, *args)
    return collections.Counter(operation.unit for bundle in program.bundles for operation in bundle.operations)


def unit(name: str) -> str:
    """Return the unit that executes the operation: the most specialized one with any work."""
    found = count(name)
    return next((unit for unit in _SPECIAL if found[unit]), "scalar")
