"""Typed inputs, ``"x: f32[M,N]"``, and the arrays that an exercise is judged with.

There are two kinds of data. In *position-coded* data every element encodes its position and every input counts in its
own step, so that a swapped, shifted or transposed index cannot hide. *Random* data is the same at every call.
"""

import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.compiler.array_types import parsed

SEED = 2026
_INPUT = re.compile(r"(\w+): (\w+)\[([\w,]*)\]")
_FEW = 2048  # a dtype that holds fewer consecutive integers than this gets codes modulo a prime
_WIDE = (16_777_213, 32_749, 2_039)  # primes: wider dtypes count this far before they start over
_CIRCLES = (509, 251, 31, 13)  # primes too, so that no block size is a whole number of periods
_STEPS = (1, 7, 3, 5, 11, 2)  # per axis, from the last to the first; for narrow dtypes


class Input(NamedTuple):
    """One declared input: ``dims`` are names of sizes, or numbers."""

    name: str
    dtype: str
    dims: tuple[str, ...]


def declared(text: str) -> Input:
    """Parse "x: f32[M,N]" into its parts. Raise ValueError with a sentence."""
    match = _INPUT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'input {text!r} cannot be read: write a name, a dtype and a shape, as in "x: f32[M,N]".')
    name, dtype, dims = match.groups()
    return Input(name, dtype, tuple(dims.split(",")) if dims else ())


def arguments(
    inputs: tuple[str, ...],
    sizes: tuple[dict[str, int], ...],
    dtypes: tuple[str, ...] = (),
    within: tuple[float, float] | None = None,
) -> list[tuple]:
    """Return argument tuples: position-coded and random data at each size, and each further dtype at one odd size.

    ``T`` as an input's dtype stands for each of ``dtypes`` in turn; only the first is used at every size. The values
    are integers that encode the position, and random numbers from -1 to 1 (integers: large ones); with ``within`` both
    lie in that interval.
    """
    wanted = [declared(text) for text in inputs]
    first, *further = dtypes or ("",)
    chosen = [(size, first) for size in sizes]
    chosen += [(next((s for s in sizes if is_odd(s)), sizes[-1]), dtype) for dtype in further]
    made = []
    for size, dtype in chosen:
        types = [type_of(i, size, dtype) for i in wanted]
        made += [
            tuple(data(t, number, within) for number, t in enumerate(types)) for data in (position_coded, at_random)
        ]
    return made


def type_of(wanted: Input, size: dict[str, int], dtype: str = "") -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of an input at one size. Raise ValueError for an unknown size or dtype."""
    for dim in wanted.dims:
        if not dim.isdigit() and dim not in size:
            raise ValueError(f"input {wanted.name} has the axis {dim}, which the size {size} does not give.")
    shape = ",".join(str(size.get(dim, dim)) for dim in wanted.dims)
    return parsed(f"{dtype if wanted.dtype == 'T' else wanted.dtype}[{shape}]")


def is_odd(size: dict[str, int]) -> bool:
    """Whether some axis does not divide into tiles of 8 or 128, so that a mishandled edge shows."""
    return bool(odd_axes(size))


def odd_axes(size: dict[str, int]) -> set[str]:
    """Return the names of the axes that do not divide into tiles of 8 or 128."""
    return {name for name, n in size.items() if n % 8 or (n > 128 and n % 128)}


def position_coded(wanted: jax.ShapeDtypeStruct, number: int, within: tuple[float, float] | None = None) -> jax.Array:
    """Return input ``number`` (counted from 0) of a shape and dtype, whose elements encode their positions.

    The first element is 1000 ``number``, and each is larger than the one before by 2 ``number`` + 1: x[i] = i, y[i] = 3
    i + 1000. A dtype that cannot hold that (bf16, int8) gets codes modulo a prime instead, with a different step for
    each axis. All values are exact, and neighbours in every direction and across blocks differ.
    """
    exact = _exact_integers(wanted.dtype)
    narrow = exact < _FEW
    code = _circular(wanted.shape, number, wanted.dtype) if narrow else _linear(wanted.shape, number, exact)
    if within is None:
        return jnp.asarray(code, wanted.dtype)
    low, high = within
    first, last = (code.min(), code.max()) if code.size else (0, 0)
    return _cast(low + (high - low) * (code - first) / max(last - first, 1), wanted.dtype)


def at_random(wanted: jax.ShapeDtypeStruct, number: int, within: tuple[float, float] | None = None) -> jax.Array:
    """Return input ``number`` of a shape and dtype: uniform from -1 to 1, or over half of an integer dtype's range."""
    rng = np.random.default_rng([SEED, number])
    if wanted.dtype == jnp.bool_:
        return jnp.asarray(rng.integers(0, 2, wanted.shape), wanted.dtype)
    low, high = within or (-1, 1)
    if within is None and jnp.issubdtype(wanted.dtype, jnp.integer):
        limits = jnp.iinfo(wanted.dtype)  # half: the sum of two then fits, and float32 cannot hold an int32
        low, high = limits.min // 2, limits.max // 2
    return _cast(rng.uniform(low, high, wanted.shape), wanted.dtype)


def far_from_zero(shape: tuple[int, int], by: float) -> jax.Array:
    """Return float32 rows of one number each: ``by`` times 1, 2, 3 ...

    No finite number that stands for infinity, in a tail or at the beginning of a maximum, lies beyond them.
    """
    return jnp.broadcast_to(by * jnp.arange(1, shape[0] + 1, dtype=jnp.float32)[:, None], shape)


def with_still_rows(x: jax.Array) -> jax.Array:
    """Return ``x`` with a row of zeros and a row of small numbers, which show what is added to a mean of squares."""
    return x.at[0].set(0).at[1].multiply(1e-3)


def _cast(values: np.ndarray, dtype) -> jax.Array:
    return jnp.asarray(np.rint(values) if jnp.issubdtype(dtype, jnp.integer) else values, dtype)


def _exact_integers(dtype) -> int:
    """Return the largest n such that the dtype holds every integer up to n."""
    if dtype == jnp.bool_:
        return 1
    if jnp.issubdtype(dtype, jnp.integer):
        return int(jnp.iinfo(dtype).max)
    return 2 ** (jnp.finfo(dtype).nmant + 1)


def _linear(shape: tuple[int, ...], number: int, exact: int) -> np.ndarray:
    places = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    return ((2 * number + 1) * places + 1000 * number) % next(p for p in _WIDE if p <= exact)


def _circular(shape: tuple[int, ...], number: int, dtype) -> np.ndarray:
    """Return codes modulo a prime that the dtype can hold, centred on 0 if it is signed; for a bool, on and off."""
    signed = dtype != jnp.bool_ and not jnp.issubdtype(dtype, jnp.unsignedinteger)
    room = _exact_integers(dtype) * (2 if signed else 1)
    circle = next((p for p in _CIRCLES if p <= room), _CIRCLES[-1])
    code = np.full(shape, 40 * number, np.int64)
    for axis, places in enumerate(np.indices(shape)[::-1]):
        code += (_STEPS[axis % len(_STEPS)] + 17 * number) * places
    if dtype == jnp.bool_:
        return code // (number + 1) % 2
    return code % circle - (circle // 2 if signed else 0)
