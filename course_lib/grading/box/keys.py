"""JAX's random keys as nodes: the name of their generator, which JAX must know, and their bits.

["generator", name]     ["key type", name]     ["keys", name, array of their bits]
"""

import jax
from jax._src.random import prng

from course_lib.grading.box import values
from course_lib.grading.box.values import Damaged, items

TAGS = ("generator", "key type", "keys")


def written(value: object) -> list | None:
    """Return the node of a generator, of the type of keys, or of an array of keys; None for anything else."""
    if isinstance(value, prng.PRNGImpl):
        return ["generator", value.name]
    if isinstance(value, prng.KeyTy):
        return ["key type", value._impl.name]
    if isinstance(value, jax.Array) and isinstance(value.dtype, prng.KeyTy):
        return ["keys", value.dtype._impl.name, values.written(jax.device_get(jax.random.key_data(value)))]
    return None


def read(tag: str, parts: list) -> object:
    """Return what ``written`` wrote. Raise Damaged."""
    name, *bits = parts or [None]
    found = prng.prngs.get(name) if isinstance(name, str) else None
    if found is None:
        raise Damaged("it has random keys of a strange kind.")
    if tag == "generator":
        return found
    if tag == "key type":
        return prng.KeyTy(found)
    return jax.random.wrap_key_data(values.read(items(bits, 1)[0]), impl=name)


def is_type(value: object) -> bool:
    """Whether a value is the type of random keys."""
    return isinstance(value, prng.KeyTy)
