"""What an op accepts, checked first and alike on every platform.

JAX on a CPU computes with dtypes that a TPU's vector unit does not have. Without these checks a program that runs on a
CPU would be refused by the TPU's compiler, much later and in other words.
"""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.arrays import Array

FLOATS = ("float32", "bfloat16")
NUMBERS = (*FLOATS, "int32")
CASTABLE = (*NUMBERS, "int8")
FACTORS = (*FLOATS, "int8")  # operands of a matmul


def arrays(op: str, dtypes: tuple[str, ...], **given) -> tuple[Array, ...]:
    """Return the arrays that ``op`` was ``given``, by name, as JAX arrays.

    NumPy arrays, and objects with ``__jax_array__``, are converted as jnp.asarray does. Raises TypeError for anything
    else, and ValueError for an array whose dtype is not among ``dtypes``.
    """
    return tuple(_array(op, name, value, dtypes) for name, value in given.items())


def _array(op: str, name: str, value, dtypes: tuple[str, ...]) -> Array:
    array = value
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__jax_array__"):
        try:
            array = jnp.asarray(value)
        except TypeError:  # an array of strings or objects
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
    """Return the cast to a supported dtype that loses least."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return f"{name}.real and {name}.imag, one after the other"
    if dtype == jnp.float16 and "bfloat16" in dtypes:
        return f"{name}.astype(jnp.bfloat16), or jnp.float32, which keeps every digit"
    whole = not jnp.issubdtype(dtype, jnp.floating) and "int32" in dtypes
    return f"{name}.astype(jnp.{'int32' if whole else dtypes[0]})"
