"""What an op takes, asked before anything else, and of every platform alike.

JAX on a CPU computes with dtypes that a TPU's vector unit does not have. What passed there would be refused by the
TPU's compiler: much later, and in other words.
"""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.arrays import Array

FLOATS = ("float32", "bfloat16")
NUMBERS = (*FLOATS, "int32")
CASTABLE = (*NUMBERS, "int8")
FACTORS = (*FLOATS, "int8")  # of a product


def arrays(op: str, dtypes: tuple[str, ...], **given) -> tuple[Array, ...]:
    """What ``op`` was ``given``, by name, as JAX arrays.

    An array of NumPy is one, in the dtype that jnp.asarray makes of its own, and so is what has ``__jax_array__``.
    Raises TypeError for anything else, and ValueError for an array of a dtype that is not among ``dtypes``.
    """
    return tuple(_array(op, name, value, dtypes) for name, value in given.items())


def _array(op: str, name: str, value, dtypes: tuple[str, ...]) -> Array:
    array = value
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__jax_array__"):
        try:
            array = jnp.asarray(value)
        except TypeError:  # of text, of objects
            raise TypeError(f"{op}: {name} is a NumPy array of {value.dtype}; it may be {_any_of(dtypes)}.") from None
    if not isinstance(array, jax.Array):
        raise TypeError(f"{op}: {name} is {_described(value)}; it must be an array. {_made(name, value, dtypes)}")
    if array.dtype.name not in dtypes:
        raise ValueError(
            f"{op}: {name} is {array.dtype}; it may be {_any_of(dtypes)}. Try {_cast(name, array.dtype, dtypes)}."
        )
    return array


def _any_of(dtypes: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(dtypes[:-1]), dtypes[-1])))


def _described(value) -> str:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)
    return f"of type {type(value).__name__}"


def _made(name: str, value, dtypes: tuple[str, ...]) -> str:
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"Try jax.eval_shape, which hands over an array for each, or jnp.zeros({name}.shape, {name}.dtype)."
    if hasattr(value, "todense"):
        return f"Try {name}.todense()."
    if value is None or isinstance(value, str):
        return f"Hand over one of {_any_of(dtypes)}."
    return f"Try jnp.asarray({name}, jnp.{dtypes[0]})."


def _cast(name: str, dtype, dtypes: tuple[str, ...]) -> str:
    """What makes an array of ``dtype`` one that is taken, and changes its numbers least."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return f"{name}.real and {name}.imag, one after the other"
    if dtype == jnp.float16 and "bfloat16" in dtypes:
        return f"{name}.astype(jnp.bfloat16), or jnp.float32, which keeps every digit"
    whole = not jnp.issubdtype(dtype, jnp.floating) and "int32" in dtypes
    return f"{name}.astype(jnp.{'int32' if whole else dtypes[0]})"
