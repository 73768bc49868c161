"""Small arrays to plant bugs on."""

import numpy as np


def counted(*shape: int, dtype=np.float32) -> np.ndarray:
    """0, 1, 2 ... in reading order: each number says where it came from."""
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def normal(*shape: int, seed: int = 0, dtype=np.float32) -> np.ndarray:
    """Random numbers of mean 0 and standard deviation 1."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
