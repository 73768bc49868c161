"""One step of a grid in words: the block of each operand, what is copied for it, and what goes wrong.

The browser says the same from the same arrays (grid_step.js); a test compares them.
"""

import collections

import numpy as np

from course_lib.viz.grid_player.grid_accumulator import half_full, words

_NEAR = 2000  # steps around the middle of a grid in which to look for a telling one


def run_at(operand: dict, step: int) -> int:
    """Return the number of the operand's run that contains the step."""
    return int(np.searchsorted(np.cumsum(operand["lengths"]), step, side="right"))


def events(kernel: dict, lane: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return, in order, the steps of the copies in this lane (int64[E]) and the bytes of each (float64[E])."""
    if lane["byHand"]:
        return np.cumsum(lane["gaps"], dtype=np.int64), lane["sizes"]
    operand = kernel["operands"][lane["operand"]]
    ends = np.cumsum(operand["lengths"], dtype=np.int64)
    when = ends - 1 if lane["direction"] == "out" else ends - operand["lengths"]
    return when, operand["bytes"][operand["visits"]]


def ledger(kernel: dict, step: int) -> list[dict]:
    """Count copies and bytes of each lane, up to this step and in the whole grid."""
    rows = []
    for lane in kernel["lanes"]:
        when, sizes = events(kernel, lane)
        done = int(np.searchsorted(when, step, side="right"))
        rows.append(
            {
                "name": lane["name"],
                "direction": lane["direction"],
                "copies": done,
                "of": len(when),
                "bytes": int(sizes[:done].sum()),
                "of_bytes": int(sizes.sum()),
            }
        )
    return rows


def coordinates(kernel: dict, step: int) -> tuple[int, ...]:
    """Return the grid index of a step; the last axis runs fastest."""
    return tuple(int(i) for i in np.unravel_index(step, kernel["grid"])) if kernel["grid"] else ()


def caption(kernel: dict, step: int) -> str:
    """Describe the step in words."""
    total = sum(row["bytes"] for row in ledger(kernel, step))
    said = "".join(f" {_moves(kernel, operand, step)}." for operand in kernel["operands"])
    said += "".join(f" In {each['name']}: {', '.join(words(each, step))}." for each in kernel["accumulators"])
    return (
        f"Step {step + 1:,} of {kernel['steps']:,}, grid index {coordinates(kernel, step)}.{said} "
        f"HBM traffic so far: {total:,} bytes."
    )


def block(operand: dict, run: int) -> str:
    """Name the block of a run by its index, or by its first element if its index map counts elements."""
    where = operand["starts" if any(operand["element"]) else "indices"][operand["visits"][run]]
    return f"{'window at element' if any(operand['element']) else 'block'} {tuple(int(i) for i in where)}"


def _moves(kernel: dict, operand: dict, step: int) -> str:
    if operand["role"] == "prefetch":
        return f"{operand['name']}: in SMEM from the start"
    if operand["space"] == "hbm":
        return f"{operand['name']}: {_by_hand(kernel, operand, step)}"
    run = run_at(operand, step)
    ends = np.cumsum(operand["lengths"])
    if operand["role"] == "output":
        what = "written back after this step" if step == ends[run] - 1 else "stays, no copy"
    else:
        what = "copied in" if step == ends[run] - operand["lengths"][run] else "same block, no copy"
    return f"{operand['name']} {block(operand, run)}: {what}"


def _by_hand(kernel: dict, operand: dict, step: int) -> str:
    if not operand["byHand"]:
        return "stays in HBM"
    copies = 0
    for lane in kernel["lanes"]:
        if lane["byHand"] and lane["name"] == operand["name"]:
            copies += int((events(kernel, lane)[0] == step).sum())
    return f"{copies:,} {'copy' if copies == 1 else 'copies'} by the kernel itself"


def problems(kernel: dict, step: int) -> list[str]:
    """List what goes wrong at this step: an output block visited again, or a block outside the array."""
    found = []
    for operand in kernel["operands"]:
        if operand["space"] == "hbm":
            continue
        run = run_at(operand, step)
        which, now = f"{operand['name']} {block(operand, run)}", _named(kernel, step)
        if operand["role"] == "output" and operand["since"][run] and step == _first_steps(operand)[run]:
            left = _first_steps(operand)[run - int(operand["since"][run]) + 1] - 1
            found.append(
                f"{which} was written back after step {_named(kernel, left)} and is visited again at step {now}: "
                "it is not copied in again."
            )
        if operand["outside"][operand["visits"][run]]:
            found.append(f"{which} at step {now} lies outside the array: {_extent(operand)}.")
    return found


def _extent(operand: dict) -> str:
    array = f"{operand['dtype']}{operand['shape']}"
    if any(operand["element"]):
        return f"it is {array}"
    count = " x ".join(str(-(-n // b)) for n, b in zip(operand["shape"], operand["block"], strict=True))
    return f"{array} has {count} blocks of {tuple(operand['block'])}, counted from 0"


def problem_steps(kernel: dict) -> np.ndarray:
    """Return the steps at which something begins to go wrong, in order: int64[n]."""
    steps = [np.zeros(0, np.int64)]
    for operand in kernel["operands"]:
        if operand["space"] == "hbm":
            continue
        steps.append(_first_steps(operand)[goes_wrong(operand)])
    return np.unique(np.concatenate(steps))


def goes_wrong(operand: dict) -> np.ndarray:
    """Return bool[R]: whether a run has a block outside the array, or comes back to an output block."""
    wrong = operand["outside"][operand["visits"]].astype(bool)
    return wrong | (operand["since"] > 0) if operand["role"] == "output" else wrong


def telling_step(kernel: dict) -> int:
    """Choose the step for a still: the first problem, or else one where one block stays and another is copied.

    If the kernel accumulates over steps, prefer a step at which the accumulator holds some of its parts.
    """
    wrong = problem_steps(kernel)
    if len(wrong):
        return int(wrong[0])
    middle, moves = kernel["steps"] * 7 // 12, collections.Counter()
    for lane in kernel["lanes"]:
        when = events(kernel, lane)[0]
        moves.update(set(when[abs(when - middle) <= _NEAR].tolist()))
    mixed = [step for step, lanes in moves.items() if lanes < len(kernel["lanes"])]
    mixed = [step for step in mixed if half_full(kernel["accumulators"], step)] or mixed
    return min(mixed, key=lambda step: (-moves[step], abs(step - middle)), default=middle)


def _first_steps(operand: dict) -> np.ndarray:
    ends = np.cumsum(operand["lengths"], dtype=np.int64)
    return ends - operand["lengths"]


def _named(kernel: dict, step: int) -> str:
    return f"{step + 1:,} {coordinates(kernel, step)}"
