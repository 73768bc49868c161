"""Sizes that a program is to learn later, as those of ``jax.export.symbolic_shape``, and blocks without them.

A block has a size of its own. So an axis along which elements do not meet may be of any length: its last block reaches
past the end, and the blocks are chosen as for an array of some usual length.
"""

_USUAL = 256  # rows: enough for the MXU, and not too many to compute for nothing where a batch is small
_USUAL_VECTOR = 65536


def is_known(size) -> bool:
    """Whether a size is a number."""
    return isinstance(size, int)


def planned(shape: tuple) -> tuple[int, ...]:
    """``shape``, with a usual length where one is not known; to choose blocks by."""
    usual = _USUAL if len(shape) > 1 else _USUAL_VECTOR
    return tuple(size if is_known(size) else usual for size in shape)


def cut(block: int, size) -> int:
    """``block``, cut down to an axis that is smaller."""
    return min(block, size) if is_known(size) else block
