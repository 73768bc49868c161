"""Names for annotations that say whether a value is an array or a Ref, with its dtype and shape.

``Float[Ref, "bm bk"]`` means a reference to a block of floats with bm rows and bk columns. Capitals name array axes
("M K"), small letters name block axes ("bm bk"). A name that begins with "_" is not compared with others, because the
array may be stored transposed.
"""

from jax import Array, Ref, ShapeDtypeStruct
from jaxtyping import BFloat16, Bool, Float, Float32, Int8, Int32, Num, Shaped

Described = Array | ShapeDtypeStruct  # an array, or its shape and dtype

__all__ = ["Array", "BFloat16", "Bool", "Described", "Float", "Float32", "Int8", "Int32", "Num", "Ref", "Shaped"]
