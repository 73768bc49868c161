"""The shape and dtype of what a kernel writes."""

import jax

from course_lib.arrays import Array


def out_type(operand: Array, shape: tuple[int, ...], dtype) -> jax.ShapeDtypeStruct:
    """Return the type of an output that varies over the mesh axes of ``operand``, as jax.shard_map asks."""
    return jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=jax.typeof(operand).manual_axis_type)
