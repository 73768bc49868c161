"""Products whose shapes nobody chose: drawn at random from a seed that the table prints."""

import numpy as np
from bench_kernels import DRAWN
from kernel_rows import Row, product_of_a_model

SEED = 46
COUNT = 40
SHORTEST = {"m": 8, "k": 64, "n": 64}
LONGEST = 8192
MOST_FLOPS = 2 * 4096**3  # more takes the compiler's simulator minutes


def rows(seed: int = SEED, count: int = COUNT) -> list[Row]:
    """Return ``count`` products in bf16 with the shapes that ``seed`` draws."""
    return [product_of_a_model(DRAWN, shape, "bf16") for shape in shapes(seed, count)]


def shapes(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Return ``count`` shapes (m, k, n), each length drawn from a distribution uniform in its logarithm.

    Of the lengths one in four stays as drawn, one is rounded up to a multiple of 8, and two to a multiple of 64.
    """
    rng = np.random.default_rng(seed)
    found: list[tuple[int, int, int]] = []
    while len(found) < count:
        m, k, n = (_length(rng, shortest) for shortest in SHORTEST.values())
        if 2 * m * k * n <= MOST_FLOPS:
            found.append((m, k, n))
    return found


def _length(rng: np.random.Generator, shortest: int) -> int:
    drawn = int(np.exp(rng.uniform(np.log(shortest), np.log(LONGEST + 1))))
    multiple = int(rng.choice([1, 8, 64, 64]))
    return -(-drawn // multiple) * multiple
