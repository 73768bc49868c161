"""The types of what a kernel writes and takes inside jax.shard_map."""

import jax
from jax import lax

from course_lib.arrays import Array


def out_type(operand: Array, shape: tuple[int, ...], dtype) -> jax.ShapeDtypeStruct:
    """Return the type of an output that varies over the mesh axes of ``operand``, as jax.shard_map asks."""
    return jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=jax.typeof(operand).manual_axis_type)


def varying(axis_name: str, *operands: Array) -> list[Array]:
    """Return the operands as arrays that differ from device to device, as shard_map's types have it."""
    over = frozenset().union({axis_name}, *(jax.typeof(x).manual_axis_type.varying for x in operands))
    missing = [tuple(over - jax.typeof(x).manual_axis_type.varying) for x in operands]
    return [lax.pcast(x, axes, to="varying") if axes else x for x, axes in zip(operands, missing, strict=True)]
