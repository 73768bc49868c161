"""Slips in attention, or in another softmax in blocks, each tried in a new run of the reference.

If the reference sums exponentials, its softmax is replaced by that of a kernel that forgets to rescale, masks within a
block, leaves out the scale ... The one that equals the wrong output in every element, to rounding, is what has
happened. Of the kernel's code only the sizes of blocks are used, and no name or shape.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from course_lib.judges.slips import mask_slips, online_softmax, reference_softmax
from course_lib.judges.slips import slip as slips
from course_lib.judges.slips.reference_softmax import Softmax
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_MOST = 2**22  # scores: more would take too long to compute so often
_MOST_BLOCKS = 32
_UNKNOWN = 0.1  # of an output: a query to which a slip's mask leaves no key has no known value


def slip(found: Finding) -> Complaint | None:
    """Report the first known slip in a softmax that gives exactly what the function returned."""
    if not jnp.issubdtype(found.got.dtype, jnp.floating) or len(found.leaves) < 1:
        return None
    try:
        softmax = reference_softmax.find(found.reference, found.args)
        suspects = () if softmax is None else _suspects(found, softmax)
        return next((said for suspect in suspects if (said := slips.said_of(found, suspect))), None)
    except Exception:  # JAX cannot trace the reference, so nothing is known of it
        return None


def _suspects(found: Finding, softmax: Softmax) -> Iterator[Suspect]:
    scores = reference_softmax.shape(softmax)
    if math.prod(scores) > _MOST:
        return
    blocks = reference_softmax.sizes_of_blocks(found.walk)
    for block in sorted(b for b in blocks if b < scores[softmax.axis]):
        number = -(-scores[softmax.axis] // block)
        if number <= _MOST_BLOCKS:
            rows = scores[-2] if len(scores) > 1 and softmax.axis == -1 else 0
            for how, means, next_ in online_softmax.slips(block, number, softmax.depth, rows):
                weights = functools.partial(online_softmax.weights, block=block, how=how)
                said = (means, next_) if softmax.depth else map(online_softmax.without_attention, (means, next_))
                yield _suspect(found, *said, _with(softmax, weights))
    if softmax.depth and softmax.axis == -1 and len(scores) > 1:
        counts = reference_softmax.mask_of(softmax, found.args)
        for block in (
            b
            for b in sorted(blocks)
            if scores[-1] % b == scores[-2] % b == 0 and (softmax.mask is None or counts is not None)
        ):
            yield _suspect(
                found,
                f"the scores of each block, {block} x {block}, are k @ q.T, with a row for each key, so the maximum "
                "and the sum of a row are not those of a query",
                "s = q @ k.T, with a row for each query.",
                _turned_scores(softmax, counts, block),
            )
    for factor, means, next_ in _units(softmax):
        yield _suspect(found, means, next_, _with(softmax, lambda x, by=factor: jax.nn.softmax(x * by)))
    for means, next_, value in mask_slips.slips(softmax, found.args, blocks):
        yield _suspect(found, means, next_, value)


def _with(softmax: Softmax, weights: Callable) -> Callable:
    return lambda args: reference_softmax.outputs_with(softmax, args, weights)


def _turned_scores(softmax: Softmax, counts, block: int) -> Callable:
    """Return args -> what the reference returns if each block of scores is transposed before it is masked."""
    if counts is None:
        return _with(softmax, lambda x: jax.nn.softmax(online_softmax.turned(x, block)))

    def masked(scores):
        return jnp.where(counts, online_softmax.turned(scores, block), -jnp.inf)

    return lambda args: reference_softmax.outputs_with(softmax, args, jax.nn.softmax, masked)


def _suspect(found: Finding, means: str, next_: str, value: Callable[[tuple], list]) -> Suspect:
    def of(*args):
        outputs = value(args)
        mine = outputs[found.number]
        nobodys = jnp.isnan(mine)
        if not isinstance(mine, jax.core.Tracer) and nobodys.mean() > _UNKNOWN:
            return None
        outputs[found.number] = jnp.where(nobodys, jnp.asarray(found.got, mine.dtype), mine)
        return tuple(outputs)

    return Suspect(means, next_, of, found.args)


def _units(softmax: Softmax) -> Iterator[tuple[float, str, str]]:
    """Yield (a factor of all scores, its meaning, what to try)."""
    ln2, depth = math.log(2.0), softmax.depth
    factors = [
        (ln2, "2 ** (s - m) is used instead of exp(s - m)", "exp2(x * log2(e)) is exp(x), with log2(e) = 1.442695."),
        (
            1 / ln2,
            "the scores are multiplied by log2(e), but then exp(s - m) is taken, not exp2",
            "use exp(x) or exp2(x * log2(e)).",
        ),
        (-1.0, "the sign of the scores is flipped", "softmax gives a larger score more weight: exp(s - m)."),
    ]
    if depth:
        root = math.sqrt(depth)
        scale = f"the scores are not multiplied by the scale, 1 / sqrt({depth})"
        factors = [
            (root, scale, "s = q @ k.T * scale, before the maximum is taken; the mask comes after it."),
            (
                1 / root,
                f"the scores are multiplied by 1 / sqrt({depth}) twice, or by 1 / {depth}",
                "scale either q or the scores, not both.",
            ),
            (
                depth,
                f"the scores are multiplied by sqrt({depth}) instead of divided by it",
                "s = q @ k.T * scale, and the scale is 1 / sqrt(D).",
            ),
            *factors,
            (
                root * ln2,
                f"{scale} * log2(e), as exp2 needs it",
                "exp2((s - m) * scale * log2(e)) is exp((s - m) * scale).",
            ),
        ]
    yield from factors
