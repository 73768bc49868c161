"""Inputs that nobody has seen: an exercise with values, and sizes where they are free, that a seed determines."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.checks import inputs
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute

MORE_CASES = 3  # for a function of plain numbers


def task(public: Exercise, seed: int) -> Exercise:
    """Return the exercise with other inputs; any right answer to the original is right for it too."""
    rng = np.random.default_rng([seed, int(public.id.replace(".", ""))])
    if isinstance(public.asks, Compute):
        return dataclasses.replace(public, asks=_numbers(public.asks, rng))
    if public.reference is None or public.asks is not None:
        return public
    if public.project is not None:
        public = dataclasses.replace(public, project=dataclasses.replace(public.project, seed=seed))
    if public.golf is not None and public.golf.at is not None:
        at = public.golf.at
        golf = dataclasses.replace(public.golf, at=lambda: _floats_permuted(at(), np.random.default_rng(seed)))
        public = dataclasses.replace(public, golf=golf)
    if public.also_at is not None:
        also_at = public.also_at
        public = dataclasses.replace(
            public, also_at=lambda: [_permuted(case, np.random.default_rng(seed)) for case in also_at()]
        )
    if public.cases is not None:
        return dataclasses.replace(public, cases=lambda: _shuffled(public.cases(), np.random.default_rng(seed)))
    sizes = _sizes(public.sizes, rng)

    def cases() -> list[tuple]:
        made = inputs.arguments(public.inputs, sizes, public.dtypes, public.within)
        return _shuffled(made, np.random.default_rng(seed))

    changed = dataclasses.replace(public, sizes=sizes)
    object.__setattr__(changed, "arguments", cases)
    return changed


def _sizes(sizes: tuple[dict[str, int], ...], rng) -> tuple[dict[str, int], ...]:
    """Return the sizes with the last odd one enlarged by a secret amount.

    An axis that is odd in none of them keeps its size, because the exercise may promise that it divides into tiles.
    """
    odd = max(n for n, size in enumerate(sizes) if inputs.is_odd(size))
    any_length = set().union(*map(inputs.odd_axes, sizes))
    grown = {name: n + (name in any_length) * int(rng.integers(1, 6)) for name, n in sizes[odd].items()}
    while not inputs.is_odd(grown):
        grown = {name: n + (name in any_length) for name, n in grown.items()}
    return (*sizes[:odd], grown, *sizes[odd + 1 :]) if odd else (*sizes, grown)


def _shuffled(cases: list[tuple], rng) -> list[tuple]:
    """Return the cases, plus one per shape in which the elements of every array are permuted."""
    found, seen = list(cases), set()
    for case in cases:
        key = str([(a.shape, a.dtype) for a in jax.tree.leaves(case)])
        if key not in seen:
            seen.add(key)
            found.append(_permuted(case, rng))
    return found


def _floats_permuted(case: tuple, rng) -> tuple:
    """Permute the elements of the float arrays only: how long a kernel takes may depend on its lists."""
    return jax.tree.map(lambda leaf: _otherwise(leaf, rng) if _has_floats(leaf) else leaf, case)


def _permuted(case: tuple, rng) -> tuple:
    """Permute the elements of the arrays; a sorted list of integers stays sorted, unless it has sizes that add up to T.

    Several lists of integers, one of them sorted, describe one another, as the groups, tiles and bounds of visits do.
    They stay as they are.
    """
    leaves = jax.tree.leaves(case)
    lists, lengths = [leaf for leaf in leaves if _is_list(leaf)], {n for leaf in leaves for n in leaf.shape}
    coupled = len(lists) > 1 and any(map(_is_sorted, lists))

    def other(leaf):
        if _is_list(leaf) and coupled:
            return leaf
        if not _is_list(leaf) or not _is_sorted(leaf) or int(np.sum(leaf)) in lengths:
            return _otherwise(leaf, rng)
        return jnp.asarray(_sorted_otherwise(np.asarray(leaf), rng))

    return jax.tree.map(other, case)


def _otherwise(leaf, rng):
    """Permute the elements of an array; NaN and inf stay where they are, because nobody may read them there."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    flat = np.array(leaf).ravel()
    moved = np.isfinite(flat.astype(np.float32)) if _has_floats(leaf) else np.ones(flat.shape, bool)
    flat[moved] = rng.permutation(flat[moved])
    return jnp.asarray(flat.reshape(leaf.shape))


def _has_floats(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _is_list(leaf) -> bool:
    """Whether an array is a list of integers, which may describe another; a mere shape is none."""
    return not isinstance(leaf, jax.ShapeDtypeStruct) and leaf.ndim == 1 and jnp.issubdtype(leaf.dtype, jnp.integer)


def _is_sorted(leaf) -> bool:
    return len(leaf) > 1 and bool((np.diff(leaf) >= 0).all())


def _sorted_otherwise(numbers: np.ndarray, rng) -> np.ndarray:
    """Return a sorted list of the same numbers, each of which occurs at least once, and mostly otherwise often."""
    each = np.unique(numbers)
    return np.sort(np.concatenate([each, rng.choice(each, len(numbers) - len(each))]))


def _numbers(asked: Compute, rng) -> Compute:
    """Add sets of arguments, each of which mixes the existing ones."""
    if not all(isinstance(n, int | float) for case in asked.cases for n in case):
        return asked
    columns = list(zip(*asked.cases, strict=True))
    mixed = [tuple(column[int(rng.integers(len(column)))] for column in columns) for _ in range(MORE_CASES)]
    return dataclasses.replace(asked, cases=(*asked.cases, *mixed))
