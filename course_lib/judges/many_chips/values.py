"""The values that come out of a run on several devices, beside those of the reference."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.tolerance.expected import Expected, right
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import show


def difference(got: list[jax.Array], want: list[Expected]) -> Complaint | None:
    """Report the first wrong element, and the device that holds it; None if all are right."""
    if len(got) != len(want):
        return Complaint(f"It returns {len(got)} arrays; it should return {len(want)}.", "look at out_specs.")
    for number, (array, expected) in enumerate(zip(got, want, strict=True)):
        name, value = "The output" if len(want) == 1 else f"Output {number}", expected.value
        if array.shape != value.shape:
            what = f"{name} has shape {array.shape}; it should be {value.shape}."
            return Complaint(
                what, "look at out_shape, and at out_specs, which say how the devices' parts form the array."
            )
        if array.dtype != value.dtype:
            return Complaint(f"{name} is {array.dtype}; it should be {value.dtype}.", "look at the dtype in out_shape.")
        for shard in sorted(array.addressable_shards, key=lambda shard: shard.device.id):
            values = np.array(value)  # what this device has, among what it should have: devices may have the same part
            values[shard.index] = shard.data
            wrong = ~right(values, expected)
            if wrong.any():
                at = tuple(map(int, np.argwhere(wrong)[0]))
                where = f"[{', '.join(map(str, at))}], on device {shard.device.id},"
                return Complaint(
                    f"{name} at {where} is {show(values[at])}; it should be {show(value[at])}. {int(wrong.sum()):,} of "
                    f"the {shard.data.size:,} elements there are wrong.{_whose(array, value, shard, values[at])}",
                    "follow one element: which devices have its values at the beginning, which copies bring them here, "
                    "and what happens to them on the way?",
                )
    return None


def _whose(array: jax.Array, value: np.ndarray, shard, got: np.generic) -> str:
    """Return what the wrong part of one device is, as a sentence, if it is another device's or was never written."""
    there = np.asarray(shard.data)
    for other in sorted(array.addressable_shards, key=lambda other: other.device.id):
        its = value[other.index]
        if other.index != shard.index and np.array_equal(there, its):
            return f" They are what device {other.device.id} should have."
    if jnp.issubdtype(got.dtype, jnp.floating) and jnp.isnan(got):
        return " The simulator fills memory with NaN until it is written."
    return ""
