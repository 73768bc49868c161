"""The accumulators of a kernel as the grid player shows them: how many parts each holds, and the same in words.

The browser says the same from the same arrays (grid_accumulator.js); a test compares them.
"""

import numpy as np

from course_lib import grid, text

MOST = 4  # accumulators shown
MOST_CELLS = 24  # boxes of one accumulator; with more parts, a box stands for several
_FLAGS = ("left", "begun", "zeroed", "constant", "added", "garbage")


def frames(call: grid.Pipeline) -> list[dict]:
    """Return the accumulators of a kernel as compact arrays; [] for a pipeline inside a kernel."""
    found = grid.accumulators(call) if isinstance(call, grid.Call) else ()
    return [
        {
            "name": each.name,
            "parts": each.parts.astype(np.uint32),
            "of": each.of.astype(np.uint32),
            "flags": sum(getattr(each, flag).astype(np.uint8) << bit for bit, flag in enumerate(_FLAGS)),
            "stored": [{"name": name, "steps": steps.astype(np.uint8)} for name, steps in each.stored.items()],
        }
        for each in found[:MOST]
    ]


def words(each: dict, step: int) -> list[str]:
    """Describe what happens to an accumulator in a step, in order: ["garbage", "zeroed", "1 of 4 parts"]."""
    left, begun, zeroed, constant, _, garbage = (_is(flag, each, step) for flag in _FLAGS)
    parts, of = int(each["parts"][step]), int(each["of"][step])
    said = ["garbage"] if left else ["old value"] if begun else []
    said += ["zeroed"] if zeroed else ["set to a constant"] if constant else []
    if garbage:
        said = [f"garbage and {text.counted(parts, 'part')}"] if not left or parts else said
    elif parts:
        said.append(f"{parts:,} of {of:,} parts")
    elif not said:
        said.append("no part yet")
    into = [store["name"] for store in each["stored"] if store["steps"][step]]
    return [*said, f"stored to {' and '.join(into)}"] if into else said


def adds(each: dict, step: int) -> bool:
    """Whether the step adds a part."""
    return _is("added", each, step)


def is_garbage(each: dict, step: int) -> bool:
    """Whether the accumulator holds garbage after the step."""
    return _is("garbage", each, step)


def _is(flag: str, each: dict, step: int) -> bool:
    return bool(each["flags"][step] >> _FLAGS.index(flag) & 1)


def half_full(accumulators: list[dict], step: int) -> bool:
    """Whether the step adds to every accumulator and neither begins nor completes one; True if there is none."""
    return all(
        adds(each, step) and 1 < each["parts"][step] < each["of"][step] or each["of"][step] < 3 for each in accumulators
    )
