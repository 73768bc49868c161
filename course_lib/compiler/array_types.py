"""Array types as people write them: ``bf16[4096,1024]``."""

import re

import jax
import jax.numpy as jnp

_DTYPES = {
    "bf16": jnp.bfloat16,
    "f16": jnp.float16,
    "f32": jnp.float32,
    "i8": jnp.int8,
    "i16": jnp.int16,
    "i32": jnp.int32,
    "s8": jnp.int8,
    "s16": jnp.int16,
    "s32": jnp.int32,
    "u8": jnp.uint8,
    "u16": jnp.uint16,
    "u32": jnp.uint32,
    "bool": jnp.bool_,
    "pred": jnp.bool_,
    "f8e4m3fn": jnp.float8_e4m3fn,
    "f8e5m2": jnp.float8_e5m2,
}
_TYPE = re.compile(r"(\w+)\[((?:\d+(?:,\d+)*)?)\]")


def parsed(text: str) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype that ``text`` names. Raises ValueError with a line for the person who wrote it."""
    match = _TYPE.fullmatch(text.replace(" ", ""))
    if match is None:
        raise ValueError(f'{text!r} is not a type: write a dtype and a shape, such as "bf16[4096,1024]" or "f32[]".')
    name, shape = match.groups()
    dtype = _DTYPES.get(name) or _by_full_name(name)
    if dtype is None:
        raise ValueError(
            f"{text!r}: {name!r} is not a dtype. The dtypes are: {', '.join(_DTYPES)}, and JAX's own names."
        )
    return jax.ShapeDtypeStruct(tuple(int(n) for n in shape.split(",") if n), dtype)


def _by_full_name(name: str):
    full = {jnp.dtype(dtype).name: dtype for dtype in _DTYPES.values()}
    return full.get(name)
