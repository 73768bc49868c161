"""Exercises 03.1, 03.3 and 03.4: where arithmetic and copies take the same time."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import chips, cost, grid
from course_lib.checks.kinds.predict import Predict
from course_lib.lessons.lesson_03.product import MI, MI_IS_NOT_M, array


def _add_microseconds() -> float:
    """Microseconds for a sum of two float32 vectors of 64 Mi numbers at full bandwidth, from the grid's list."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    vector, block = array(64 * MI, dtype=jnp.float32), pl.BlockSpec((MI,), lambda i: (i,))
    add = pl.pallas_call(kernel, out_shape=vector, grid=(64,), in_specs=[block, block], out_specs=block)
    return cost.hbm_bytes(grid.walk(add, vector, vector)) / chips.chip("v5e").hbm_bandwidth * 1e6


def _crossover(chip: str, in_bytes: int, out_bytes: int) -> float:
    """The N from which the arithmetic of [N, N] x [N, N] takes longer than its copies."""
    of, numbers = chips.chip(chip), 2 * in_bytes + out_bytes
    return _root(lambda n: 2 * n**3 / of.bf16_flops - numbers * n**2 / of.hbm_bandwidth)


def _decode_batch(d: float = 1e9, f: float = 1e9) -> float:
    """The batch at which 2*B*D*F FLOPs take as long as D*F weights of one byte, for a very large D and F."""
    of = chips.chip("v5e")
    return _root(lambda b: 2 * b * d * f / of.bf16_flops - (2 * b * d + d * f + 2 * b * f) / of.hbm_bandwidth)


def _root(rising: Callable[[float], float], low: float = 1.0, high: float = 1e6) -> float:
    """Where a function passes from below 0 to above, by halving."""
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low


LEAST = Predict(
    value=982.1,
    unit="us",
    tolerance=0.01,
    near={
        654.7: "That is x and y, which go in. The sum has to come out as well.",
        327.4: "That is one vector. Three of them move.",
        491.0: "That would be right for numbers of two bytes, bfloat16 say. These are float32.",
        245.5: "That is how many numbers move. How many bytes is one float32?",
        936.6: MI_IS_NOT_M,
        0.3407: "That is the additions, at the peak of the MXU. Is it they that take the time?",
        10.9: "That is the additions, on the VPU. Is it they that take the time?",
        1091: "That is not the least: you have taken the share of the bandwidth that programs reach.",
        1103.5: "That is not the least: you have taken the share of the bandwidth that programs reach.",
    },
    why="three vectors of 256 MiB, at 820 GB/s.",
    proof=_add_microseconds,
)

CROSSOVER = Predict(
    value=2243.9,
    unit="",
    tolerance=0.01,
    near={
        1682.9: "That would be right if the result were bfloat16, too.",
        3365.9: "That would be right if x and y were float32 as well.",
        961.0: "That is the crossover on a v5e. The question is about a v6e.",
        721: "That is the lesson's product on the lesson's chip.",
        561.0: "That is the ridge point, in FLOPs per byte. What N has a product of that intensity?",
        1122.0: "That counts x and y, which go in. The result has to come out as well.",
        4487.8: "A multiplication and an addition are two operations.",
    },
    why="N / 4 FLOPs per byte, and 561 are needed.",
    proof=lambda: _crossover("v6e", 2, 4),
)

BATCH = Predict(
    value=120.1,
    unit="",
    tolerance=0.01,
    near={
        240.2: "That is right for weights of two bytes; or for products in int8, at twice the rate. Here the "
        "weights have one byte, and the products are bfloat16.",
        480.5: "The products are bfloat16. Is the int8 peak theirs?",
        60.06: "Count again what one weight takes: one byte, and two operations for each row.",
        720.7: "That is the crossover of square products. Here two sides are large and B is small.",
        600.6: "That comes from a square product. Here D and F are large, and B is small beside them.",
        360.4: "That comes from a square product. Here D and F are large, and B is small beside them.",
    },
    why="2 FLOPs for each weight and row: 2 B FLOPs per byte.",
    proof=_decode_batch,
)
