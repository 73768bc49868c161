"""Online softmax of one row of scores: its steps, plain softmax beside it, and both in words.

softmax_steps.js computes and says the same in the browser; the tests compare both.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

MASKED = -math.inf
_NOTHING_YET = (
    "Every score so far is masked, so m stays -inf. The kernel subtracts 0 instead of m, and l and acc stay 0."
)


class Step(NamedTuple):
    """One block of keys, from ``first`` up to but not including ``end``, and what the kernel holds after it."""

    first: int
    end: int
    m_before: float  # the largest score before this block, -inf while none counts
    m: float  # the largest score so far
    shrink: float  # exp(m_before - m), by which the sums so far are multiplied
    total: float  # the kernel's l: the sum of exp(score - m)
    acc: float  # the sum of exp(score - m) * value


def steps(scores: Sequence[float], values: Sequence[float], block: int) -> list[Step]:
    """Return the steps of online softmax over one row of scores, ``block`` keys at a time.

    ``scores``: one for each key, finite or -inf for a masked key; ``values``: one element of v for each key. While
    every score so far is -inf, 0 is subtracted instead of m, so that no step is NaN.
    """
    m, total, acc, found = MASKED, 0.0, 0.0, []
    for first in range(0, len(scores), block):
        end, m_before = min(first + block, len(scores)), m
        m = max(m_before, *scores[first:end])
        subtracted = m if m > MASKED else 0.0
        shrink = math.exp(m_before - subtracted)
        weights = [math.exp(score - subtracted) for score in scores[first:end]]
        total = shrink * total + sum(weights)
        acc = shrink * acc + sum(weight * value for weight, value in zip(weights, values[first:end], strict=True))
        found.append(Step(first, end, m_before, m, shrink, total, acc))
    return found


def result(last: Step) -> float:
    """Return o = acc / l after the last step; 0 if every score is masked."""
    return last.acc / last.total if last.total else 0.0


def plain(scores: Sequence[float], values: Sequence[float]) -> float:
    """Return softmax over the whole row at once, times the values; 0 if every score is masked."""
    m = max(scores)
    if m == MASKED:
        return 0.0
    weights = [math.exp(score - m) for score in scores]
    return sum(weight / sum(weights) * value for weight, value in zip(weights, values, strict=True))


def score_words(score: float) -> str:
    """Return a score with one digit after the point, or two if it has them: "2.0", "-0.25", "-inf"."""
    if score == MASKED:
        return "-inf"
    short = f"{score + 0.0:.1f}"
    return short if float(short) == score else f"{score:.2f}"


def figure(value: float) -> str:
    """Return a value with three digits after the point: "0.050", and "<0.001" for less that is not 0."""
    if 0 < abs(value) < 0.0005:
        return "<0.001" if value > 0 else ">-0.001"
    return f"{value + 0.0:.3f}"


def keys(step: Step) -> str:
    """Return which keys a step takes: "keys 4 to 7", "key 8"."""
    return f"key {step.first}" if step.end == step.first + 1 else f"keys {step.first} to {step.end - 1}"


def said(found: Sequence[Step], number: int) -> str:
    """Say what happened in a step of ``found``, counted from 1; 0 stands for the time before the first."""
    if not number:
        return "Before the first block, m is -inf, and l and acc are 0."
    step = found[number - 1]
    whose = f"Block {number - 1} has {keys(step)}."
    if step.m == MASKED:
        return f"{whose} {_NOTHING_YET}"
    if step.m_before == MASKED:
        return f"{whose} The maximum becomes {score_words(step.m)}, and there is nothing to rescale yet."
    if step.m == step.m_before:
        return f"{whose} The maximum stays, so nothing is rescaled."
    now = score_words(step.m)
    factor = f"exp({score_words(step.m_before)} - {f'({now})' if step.m < 0 else now})"
    equals = "< 0.001" if figure(step.shrink).startswith("<") else f"= {figure(step.shrink)}"
    return (
        f"{whose} The maximum grows from {score_words(step.m_before)} to {now}, so what was summed so far is "
        f"multiplied by {factor} {equals}."
    )


def ended(scores: Sequence[float], values: Sequence[float], block: int) -> str:
    """Say what the last step leaves, and what plain softmax gives."""
    last = steps(scores, values, block)[-1]
    if not last.total:
        return "Every score of the row is masked, so l is 0, and the result is 0 by convention."
    o = f"o = acc / l = {figure(last.acc)} / {figure(last.total)} = {figure(result(last))}"
    return f"{o}. Plain softmax over the whole row gives {figure(plain(scores, values))}."
