"""Symbolic sizes, as of ``jax.export.symbolic_shape``, and the choice of blocks without knowing them.

A block has a size of its own, so an axis that is not reduced may have any length: its last block reaches past the end.
Blocks are chosen as for an array of a usual length.
"""

_USUAL = 256  # rows: enough for the MXU, and little wasted work if the batch is small
_USUAL_VECTOR = 65536


def is_known(size) -> bool:
    """Whether a size is a number."""
    return isinstance(size, int)


def planned(shape: tuple) -> tuple[int, ...]:
    """Return ``shape`` with usual lengths in place of symbolic ones, to choose blocks by."""
    usual = _USUAL if len(shape) > 1 else _USUAL_VECTOR
    return tuple(size if is_known(size) else usual for size in shape)


def cut(block: int, size) -> int:
    """Return ``block``, cut down to the axis if that is shorter."""
    return min(block, size) if is_known(size) else block
