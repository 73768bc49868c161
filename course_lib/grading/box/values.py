"""Plain values as JSON and back: the only things that may come out of a box.

A value is itself if JSON has it (None, bool, int, float, str); otherwise it is a list whose first element names its
type. The data was written by whoever is graded, so nothing in it is ever called, imported by its name, or unpickled.
"""

import base64
import json

import ml_dtypes
import numpy as np

MAX_BYTES = 32 << 20  # of one message
MAX_DEPTH = 200
MAX_INTEGER = 2**64
MAX_TEXT = 200_000  # characters of one text
_NAMES = (
    "bool", "int1", "uint1", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in _NAMES}


class Unportable(ValueError):
    """A value that cannot leave a box; the text says what it is."""


class Damaged(ValueError):
    """Data from a box that is not what it should be; the text says where."""


def dumps(node: object) -> bytes:
    """Return a node as bytes, for ``loads`` to read."""
    return json.dumps(node, separators=(",", ":"), ensure_ascii=True).encode()


def loads(data: bytes) -> object:
    """Return the node in the bytes. Raise Damaged for data that is not JSON, too long or too deep."""
    if len(data) > MAX_BYTES:
        raise Damaged(f"it has {len(data):,} bytes; at most {MAX_BYTES:,} are read.")
    try:
        return json.loads(data.decode("ascii"))
    except RecursionError:
        raise Damaged("it is nested too deeply.") from None
    except ValueError as error:
        raise Damaged(f"it is no JSON: {str(error)[:80]}.") from None


def written(value: object, other=None, depth: int = 0) -> object:
    """Return a value as a node. ``other(value, depth)`` writes any that is not plain. Raise Unportable."""
    if depth > MAX_DEPTH:
        raise Unportable("it is nested too deeply.")
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return _small(value)
    if type(value) is str:
        return _short(value)
    if type(value) in (tuple, list):
        return ["tuple" if type(value) is tuple else "list", [written(v, other, depth + 1) for v in value]]
    if type(value) is dict:
        return ["dict", [[written(k, other, depth + 1), written(v, other, depth + 1)] for k, v in value.items()]]
    if isinstance(value, np.dtype) and value.name in DTYPES:
        return ["dtype", value.name]
    if isinstance(value, np.ndarray) and value.dtype.name in DTYPES:
        return array(value)
    if isinstance(value, np.generic) and value.dtype.name in DTYPES:
        return ["scalar", *array(np.asarray(value))[1:]]
    if type(value) is complex:
        return ["complex", value.real, value.imag]
    if other is None:
        raise Unportable(f"it holds a {type(value).__name__:.60}.")
    return other(value, depth)


def read(node: object, other=None, depth: int = 0) -> object:
    """Return the value of a node. ``other(tag, parts, depth)`` reads any that is not plain. Raise Damaged."""
    if depth > MAX_DEPTH:
        raise Damaged("it is nested too deeply.")
    if node is None or isinstance(node, bool | float):
        return node
    if isinstance(node, int):
        return node if abs(node) <= MAX_INTEGER else _damaged("it has an integer of more than 64 bits.")
    if isinstance(node, str):
        return node if len(node) <= MAX_TEXT else _damaged("it has a text that is too long.")
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        raise Damaged("it has a node that says not what it is.")
    tag, *parts = node
    if tag in ("tuple", "list"):
        values = [read(n, other, depth + 1) for n in items(items(parts, 1)[0])]
        return tuple(values) if tag == "tuple" else values
    if tag == "dict":
        pairs = [[read(n, other, depth + 1) for n in items(pair, 2)] for pair in items(items(parts, 1)[0])]
        try:
            return dict(pairs)
        except TypeError:
            raise Damaged("it has a dict with a key that cannot be one.") from None
    if tag == "dtype":
        return DTYPES.get(parts[0] if parts and isinstance(parts[0], str) else "") or _damaged(
            "it has a strange dtype."
        )
    if tag == "array":
        return unpacked(*items(parts, 3))
    if tag == "scalar":  # an array of no axes would not do: JAX wants parameters that can be hashed
        found = unpacked(*items(parts, 3))
        return found[()] if found.ndim == 0 else _damaged("it has a number with axes.")
    if tag == "complex":
        real, imaginary = items(parts, 2)
        good = all(type(part) in (int, float) for part in (real, imaginary))
        return complex(real, imaginary) if good else _damaged("it has a strange complex number.")
    if other is None:
        raise Damaged(f"it has a node {tag[:40]!r}, which is not allowed there.")
    return other(tag, parts, depth)


def array(value: np.ndarray) -> list:
    """Return an array as a node: its dtype, its shape, and its bytes in row-major order."""
    data = np.ascontiguousarray(value).tobytes()
    if len(data) > MAX_BYTES // 2:
        raise Unportable(f"it holds an array of {len(data):,} bytes.")
    return ["array", value.dtype.name, list(value.shape), base64.b64encode(data).decode()]


def unpacked(dtype: object, shape: object, data: object) -> np.ndarray:
    """Return the array of a node. Raise Damaged."""
    found = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if found is None or not isinstance(data, str):
        raise Damaged("it has an array of a strange dtype.")
    try:
        return np.frombuffer(base64.b64decode(data, validate=True), found).reshape(sizes(shape)).copy()
    except ValueError:
        raise Damaged("it has an array whose bytes do not fit its shape.") from None


def sizes(node: object) -> tuple[int, ...]:
    """Return a shape. Raise Damaged."""
    good = isinstance(node, list) and len(node) <= 16 and all(type(n) is int and 0 <= n < 2**40 for n in node)
    return tuple(node) if good else _damaged("it has a strange shape.")


def items(node: object, count: int | None = None) -> list:
    """Return the node if it is a list of ``count`` parts. Raise Damaged."""
    good = isinstance(node, list) and (count is None or len(node) == count)
    return node if good else _damaged("it has a part too many, or too few.")


def _small(value: int) -> int:
    if abs(value) > MAX_INTEGER:
        raise Unportable("it holds an integer of more than 64 bits.")
    return value


def _short(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise Unportable(f"it holds a text of {len(value):,} characters.")
    return value


def _damaged(what: str):
    raise Damaged(what)
