"""The blocks of grouped products and of their gradient, and the VMEM these take."""

import functools

import jax.numpy as jnp
from jax.experimental.pallas import cdiv

from course_lib.kernels.common import chip
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.grouped.kernel import CHUNK, Blocks

_PER_VISIT = 0.5e-6  # seconds beside the product: the compiler predicts 600 to 1000 cycles for a v5e
_ROWS, _COLUMNS = (512, 256, 128), (2048, 1024, 512, 256, 128)
_GRADIENT_ROWS = 512
_GRADIENT_BLOCKS = ((2048, 1024), (1024, 1024), (1024, 512), (512, 512), (256, 256), (128, 128))  # of a matrix
_SMEM = 250_000  # 32-bit values that fit into a v5e's SMEM, as its compiler says; every chip is held to that


def blocks_of(t: int, k: int, n: int, groups: int, dtype, passes: int, *, matrices: int = 1) -> Blocks:
    """Return the fastest blocks for T rows, K deep, N columns; each row is multiplied by so many ``matrices``."""
    return Blocks(**_fastest(t, k, n, groups, jnp.dtype(dtype), passes, matrices, chip.rates(dtype)))


@functools.lru_cache(256)
def _fastest(t: int, k: int, n: int, groups: int, dtype, passes: int, matrices: int, rates) -> dict[str, int]:
    """Return bm and bn for groups of equal size, which end inside tiles.

    A visit takes as long as its product or its copies, whichever is longer; the next group's matrix is copied during
    one visit.
    """
    found = []
    for bm in _ROWS:
        for bn in _COLUMNS:
            rows, columns = min(bm, t), min(bn, n)
            fits = vmem_bytes(rows, k, columns, dtype.itemsize, matrices) <= chip.vmem_bytes() * 3 // 8
            if fits and bm * k * bn * passes * matrices <= chip.LARGEST_STEP:
                tiles, panels = cdiv(t, bm), cdiv(n, bn)
                product = 2 * bm * k * bn * passes * matrices / rates.flops
                tile, matrix = (dtype.itemsize * n / rates.hbm_bandwidth for n in (bm * (k + bn), k * bn * matrices))
                each = max(product, tile) + _PER_VISIT
                border = product * min(1, CHUNK / bm) + _PER_VISIT
                of_groups = (groups - 1) * border + groups * max(0.0, tile + matrix - each)
                found.append((panels * (tiles * each + of_groups), -bm, -bn))
    _, bm, bn = min(found, default=(0, -LANES, -LANES))
    return {"bm": -bm, "bn": -bn}


def vmem_bytes(bm: int, k: int, bn: int, itemsize: int, matrices: int = 1) -> int:
    """Return the bytes of VMEM of the blocks, each held twice, and of the products in f32."""
    return 2 * itemsize * (bm * k + matrices * k * bn + bm * bn) + 4 * matrices * bm * bn


def check_depth(op: str, k: int, needed: int) -> None:
    """Raise ValueError if all of K does not fit into VMEM: ``needed`` bytes with the smallest blocks."""
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"{op}: K is {k}, and 128 rows and 128 columns of that depth need {needed / 2**20:.1f} MiB of VMEM; the "
            f"chip has {chip.vmem_bytes() / 2**20:.1f} MiB. Try K in parts, and add: grouped_matmul(x[:, :n], "
            "w[:, :n], sizes) + grouped_matmul(x[:, n:], w[:, n:], sizes)."
        )


def check_visits(groups: int, rows: int, bm: int) -> None:
    """Raise ValueError if the list of visits does not fit into SMEM."""
    tiles = cdiv(rows, bm)
    if 2 * tiles + 3 * groups > _SMEM:
        raise ValueError(
            f"sizes has {groups} groups, and x {rows} rows, in tiles of {bm}; lists of them have "
            f"{2 * tiles + 3 * groups} numbers, and {_SMEM} fit into the chip's scalar memory. Try several calls, each "
            "with some of the groups and their rows, and jnp.concatenate."
        )


def gradient_blocks(t: int, k: int, n: int, itemsize: int, passes: int) -> tuple[int, int, int]:
    """Return the largest (bm, bk, bn) that fit: nothing hides the copies between two panels, so few are better."""
    for bk, bn in _GRADIENT_BLOCKS:
        bm, bk, bn = min(_GRADIENT_ROWS, t), min(bk, k), min(bn, n)
        fits = gradient_vmem_bytes(bm, bk, bn, itemsize) <= chip.vmem_bytes() * 3 // 8
        if fits and bm * bk * bn * passes <= chip.LARGEST_STEP:
            break
    return bm, bk, bn


def gradient_vmem_bytes(bm: int, bk: int, bn: int, itemsize: int) -> int:
    """Return the bytes of VMEM of the gradient's blocks, each held twice, and of its accumulator."""
    return 2 * itemsize * (bm * (bk + bn) + bk * bn) + 8 * bk * bn
