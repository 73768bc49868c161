"""A blocked product x[m, k] @ y[k, n] as ``roofline`` counts it, in closed form: small enough for a browser to repeat.

The kernel: grid (i, j, k) with k innermost, blocks (bm, bk), (bk, bn) and (bm, bn), a sum kept in scratch. The tests
compare it with ``roofline.predict`` and ``cost`` on such a kernel, and roof_plot.js with this file.
"""

import dataclasses
import itertools
import math

from course_lib import chips, cost, roofline

ITEMSIZE = {"bfloat16": 2, "float32": 4, "int8": 1}  # bytes of one number of x or y
RESULT = {"bfloat16": "bfloat16", "float32": "float32", "int8": "int32"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """The sizes of a product. ``blocks`` is (bm, bk, bn), cut down to arrays that are smaller; None is the ideal:
    every array is copied once, beside the arithmetic, and nothing costs a step.
    """

    m: int
    k: int
    n: int
    blocks: tuple[int, int, int] | None
    dtype: str

    @property
    def cut(self) -> tuple[int, int, int]:
        """(bm, bk, bn), none larger than its axis."""
        bm, bk, bn = self.blocks
        return min(bm, self.m), min(bk, self.k), min(bn, self.n)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicted:
    """What the model makes of a product: times in seconds, predicted; bytes moved between HBM and VMEM."""

    flops: int
    hbm_bytes: int
    steps: int
    vmem_bytes: int
    compute_s: float
    memory_s: float
    steps_s: float
    seconds: float


def rates(name: str) -> dict:
    """What a browser needs of a chip: data sheet and fitted constants; ``fitted`` is the chip they were fitted on."""
    chip = chips.chip(name)
    fitted = name if name in roofline.FITTED else "v5e"
    constants = roofline.FITTED[fitted]
    return {
        "name": name,
        "bf16": chip.bf16_flops,
        "int8": chip.int8_ops,
        "bandwidth": chip.hbm_bandwidth,
        "mxu": chip.mxu_size,
        "sublanes": chip.sublanes,
        "scoped": chip.scoped_vmem_bytes,
        "vmem": chip.vmem_bytes,
        "step_s": constants.step_s,
        "hbm": constants.hbm,
        "fitted": fitted,
    }


def peak(product: Product, chip: dict) -> float:
    """FLOP/s of the MXUs for the product's dtype; a chip without a rate for int8 widens it to bf16."""
    return (product.dtype == "int8" and chip["int8"]) or chip["bf16"]


def predicted(product: Product, chip: dict) -> Predicted:
    """The three roofs and the time of a product; ``chip`` is from ``rates``."""
    return _blocked(product, chip) if product.blocks else _ideal(product, chip)


def _ideal(p: Product, chip: dict) -> Predicted:
    size, flops = ITEMSIZE[p.dtype], 2 * p.m * p.k * p.n
    moved = (p.m * p.k + p.k * p.n) * size + p.m * p.n * ITEMSIZE.get(RESULT[p.dtype], 4)
    compute, memory = flops / peak(p, chip), moved / chip["bandwidth"]
    return Predicted(
        flops=flops,
        hbm_bytes=moved,
        steps=0,
        vmem_bytes=0,
        compute_s=compute,
        memory_s=memory,
        steps_s=0.0,
        seconds=max(compute, memory),
    )


def _blocked(p: Product, chip: dict) -> Predicted:
    bm, bk, bn = p.cut
    rows, depth, columns = -(-p.m // bm), -(-p.k // bk), -(-p.n // bn)
    size, size_out = ITEMSIZE[p.dtype], ITEMSIZE.get(RESULT[p.dtype], 4)
    bandwidth, steps = chip["bandwidth"] * chip["hbm"], rows * columns * depth
    padded = 2 * _up(bm, chip["sublanes"]) * _up(bk, chip["mxu"]) * _up(bn, chip["mxu"])
    compute = padded / peak(p, chip)

    def reads(i: int, j: int, k: int) -> int:
        """Bytes that step (i, j, k) needs and the step before did not have."""
        first = i == j == k == 0
        height, length, width = min(bm, p.m - i * bm), min(bk, p.k - k * bk), min(bn, p.n - j * bn)
        x = height * length * size if first or depth > 1 or j == 0 else 0
        y = length * width * size if first or depth > 1 or columns > 1 else 0
        return x + y

    def writes(i: int, j: int) -> int:
        return min(bm, p.m - i * bm) * min(bn, p.n - j * bn) * size_out

    def copies(i: int, j: int, k: int) -> int:
        """Bytes copied while step (i, j, k) computes: in for the step after it, out from the one before."""
        after = (i, j, k + 1) if k + 1 < depth else (i, j + 1, 0) if j + 1 < columns else (i + 1, 0, 0)
        moved = reads(*after) if after[0] < rows else 0
        if k == 0 and (i or j):
            moved += writes(i, j - 1) if j else writes(i - 1, columns - 1)
        return moved

    seconds = (reads(0, 0, 0) + writes(rows - 1, columns - 1)) / bandwidth
    for (i, ni), (j, nj), (k, nk) in itertools.product(*map(_alike, (rows, columns, depth))):
        seconds += ni * nj * nk * max(compute + chip["step_s"], copies(i, j, k) / bandwidth)
    x_reads = p.m * p.k * (columns if depth > 1 else 1)
    y_reads = p.k * p.n * (rows if depth > 1 or columns > 1 else 1)
    moved = (x_reads + y_reads) * size + p.m * p.n * size_out
    buffers = 2 if steps > 1 else 1
    windows = buffers * ((_tiles(bm, bk) + _tiles(bk, bn)) * size + _tiles(bm, bn) * size_out)
    return Predicted(
        flops=2 * p.m * p.k * p.n,
        hbm_bytes=moved,
        steps=steps,
        vmem_bytes=windows + 4 * _tiles(bm, bn),  # and the accumulator
        compute_s=steps * compute,
        memory_s=moved / bandwidth,
        steps_s=steps * chip["step_s"],
        seconds=seconds,
    )


def _alike(count: int) -> list[tuple[int, int]]:
    """(index, how many) along a grid axis: what a step copies depends on no more than whether it or one beside it is
    the first or the last, so those in the middle are alike.
    """
    if count <= 4:
        return [(index, 1) for index in range(count)]
    return [(0, 1), (1, count - 3), (count - 2, 1), (count - 1, 1)]


def _tiles(rows: int, lanes: int) -> int:
    """Elements of VMEM that a block takes."""
    return math.prod(cost.padded_shape((rows, lanes)))


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
