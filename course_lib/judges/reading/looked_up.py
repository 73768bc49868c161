"""Where a number stands that a kernel has looked up in a prefetched array."""

import numpy as np

from course_lib import grid


def entry(call: grid.Pipeline, number: int, numbers: np.ndarray, step: int) -> str | None:
    """Return "table_ref[0, 3]" for the entry of a prefetched array that is ``number``; None if there is none.

    ``numbers``: all that were used in its place. They must stand in the same array, or be 0, or it is a coincidence.
    Of several such entries it is the one with the most indices that are those of ``step``.
    """
    if not isinstance(call, grid.Call):
        return None
    names = [operand.name for operand in call.operands if operand.role == "prefetch"]
    for name, values in zip(names, call.scalars, strict=False):
        if values.dtype.kind not in "iu" or not np.isin(numbers[numbers != 0], values).all():
            continue
        if len(places := np.argwhere(values == number)):
            at = np.array(call.step(step)[: places.shape[1]], int)
            place = places[np.argmax((places[:, : len(at)] == at).sum(axis=1))]
            return f"{name}[{', '.join(map(str, place.tolist()))}]" if values.ndim else name
    return None


def advice(where: str, one_past: bool = False) -> str:
    """Return what to try where the number that was looked up at ``where`` is of no block.

    ``one_past``: it is one more than that of the last block.
    """
    if one_past:
        return (
            f"{where} is one past the last block. If it stands for something without a block, such as rows of no "
            "group, stay at the last block, with jnp.minimum, and do not use its values."
        )
    return (
        f"{where} holds no block's number. Look up only the entries that count: stay at the last of them, with "
        "jnp.minimum, if there are more steps. If this entry should count, another list is meant, or another index."
    )
