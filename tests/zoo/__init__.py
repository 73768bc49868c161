"""Planted bugs, at least one of every class a learner is likely to write, and who must refuse each.

Each file holds one class in its ``BUGS``. tests/test_zoo.py asks the judges; ``make zoo`` prints what they say.
"""

from zoo import (
    aliasing,
    arithmetic,
    attention,
    attention_gradients,
    block_sparse,
    code,
    copies,
    gradients,
    grouped_products,
    index_maps,
    initialisation,
    memory,
    paged_attention,
    parallel_axes,
    pipelines,
    precision,
    promises,
    revisits,
    scalars,
    softmaxes,
    tails_and_masks,
)
from zoo.bug import Bug

_FILES = (
    index_maps,
    revisits,
    initialisation,
    tails_and_masks,
    parallel_axes,
    copies,
    precision,
    arithmetic,
    softmaxes,
    attention,
    attention_gradients,
    paged_attention,
    block_sparse,
    grouped_products,
    memory,
    aliasing,
    scalars,
    promises,
    gradients,
    pipelines,
    code,
)
BUGS: tuple[Bug, ...] = tuple(bug for file in _FILES for bug in file.BUGS)
