"""Which sizes a block may have on a TPU: one rule for the ``Blocks`` of every family.

The last axis of a block is a multiple of 128, and the one before it of 8 (of 32 for one-byte elements); axes in front
of these are free. A block as long as its axis is always legal, and kernels cut their blocks down to the array.
"""

import dataclasses
import numbers

import jax.numpy as jnp

LANES = 128  # elements in a row of a register
SUBLANES = 8  # rows in a register


def step(axis: int, rank: int, dtype=jnp.float32) -> int:
    """Return what a block size along ``axis`` of an array of ``rank`` axes must be a multiple of, unless it is all.

    For a vector that is 1024. The TPU also accepts some smaller powers of two, which no kernel here uses.
    """
    if rank == 1:
        return SUBLANES * LANES
    rows = SUBLANES * (4 if jnp.dtype(dtype).itemsize == 1 else 1)
    return {1: LANES, 2: rows}.get(rank - axis % rank, 1)


def check(blocks, dtype=None, **steps: int) -> None:
    """Raise ValueError if a size of ``blocks`` is no multiple of its step, and name the nearest legal sizes.

    A size whose default is None may be None, and the kernel chooses. ``dtype`` is named if the steps depend on it.
    """
    may_be_none = {field.name for field in dataclasses.fields(blocks) if field.default is None}
    sizes = {name: size for name, size in vars(blocks).items() if size is not None or name not in may_be_none}
    for name, size in sizes.items():
        if not isinstance(size, numbers.Integral) or isinstance(size, bool):
            raise ValueError(
                f"{blocks} is not legal: {name} is {size!r}; it must be a whole number, and a multiple of "
                f"{steps[name]}. Try {name}={steps[name]}."
            )
    if all(size >= steps[name] and size % steps[name] == 0 for name, size in sizes.items()):
        return
    rule = ", ".join(f"{name} of {steps[name]}" for name in sizes)
    nearest = ", ".join(f"{n}={max(steps[n], round(size / steps[n]) * steps[n])}" for n, size in sizes.items())
    of = "" if dtype is None else f" for {jnp.dtype(dtype)}"
    raise ValueError(f"{blocks} is not legal{of}: each must be a multiple, {rule}. Nearest legal: {nearest}.")


def shown(value) -> str:
    """Return an argument for an error message: an array as its dtype and shape, anything else as a short repr."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array, {value.dtype} of shape {value.shape}"
    written = repr(value)
    return written if len(written) <= 80 else f"{written[:70]}..., {type(value).__name__}"


def check_kind(op: str, blocks, kind: type) -> None:
    """Raise ValueError, in the name of ``op``, if ``blocks`` are neither None nor of the class ``kind``."""
    if blocks is None or isinstance(blocks, kind):
        return
    family = _family(kind)
    example = ", ".join(f"{field.name}={8 * LANES}" for field in dataclasses.fields(kind) if field.default is not None)
    whose = f", of {_family(type(blocks))}" if type(blocks).__name__ == kind.__name__ else ""
    raise ValueError(
        f"{op}: blocks is {shown(blocks)}{whose}; it may be {family}.{kind.__name__}(...), or None, and the op "
        f"chooses. Try blocks={family}.{kind.__name__}({example})."
    )


def _family(kind: type) -> str:
    """Return the family whose ``Blocks`` these are: ``matmul`` for course_lib.kernels.matmul.kernel."""
    return (kind.__module__.split(".") + [""] * 2)[2] or kind.__module__
