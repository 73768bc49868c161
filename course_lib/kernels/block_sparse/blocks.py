"""How much of the dense operands of a block-sparse product is in VMEM at once, and the bytes that takes.

dsd has all rows of b and of the result, and as many columns as fit, up to 512: a block of 128 x 128 takes 142 cycles
for 512 columns, 110 for 256 and 95 for 128, predicted (compiler) for a v5e in bf16. sdd has a part of K of all of a and
b, and the accumulators of all blocks; or all of b, if that is faster; otherwise some columns of blocks, or a part of K
of one column.
"""

import dataclasses

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.kernels.common import chip, legal
from course_lib.kernels.common.symbolic import is_known, planned

_COLUMNS = 512  # of a panel of dsd
_PER_STEP = 2**27  # multiplications of a step, times the passes of the MXU: some 2000 cycles
_MOST = 16  # blocks to a step, which is unrolled
# Seconds of a step of sdd beside the product, and of the first step with other rows of a: the compiler predicts 350 to
# 500 cycles for a v5e, and 1140 until a copy arrives.
_STEP, _OTHER_ROWS = 0.3e-6, 0.75e-6


@dataclasses.dataclass(frozen=True)
class Dsd:
    """The sizes of ``o = A @ b``: blocks (h, w) of A as it is multiplied, their rows and columns, and N."""

    count: int
    h: int
    w: int
    rows: int
    cols: int
    n: int
    itemsize: int
    passes: int

    def columns(self) -> int:
        """Return the columns of a panel: 512, or fewer if these do not fit, and as many for each panel."""
        n = planned((1, self.n))[1]
        for most in (_COLUMNS, 256, 128):
            if (
                self.vmem_bytes(most) <= chip.usable_vmem_bytes()
                and self.h * self.w * most * self.passes <= chip.LARGEST_STEP
            ):
                break
        return _up(pl.cdiv(n, pl.cdiv(n, most)), legal.LANES)

    def per_step(self, bn: int) -> int:
        """Return the blocks to a step, equal for all steps: what is past the end of the list is multiplied, too."""
        each = self.h * self.w * _up(bn, legal.LANES) * self.passes
        most = max(1, min(_PER_STEP // each, _MOST, self.count))
        return pl.cdiv(self.count, pl.cdiv(self.count, most))

    def vmem_bytes(self, bn: int) -> int:
        """Return the bytes of panels and values, held twice, and of accumulators; panels copied by hand need less."""
        tall, wide, bn = self._rows(self.h), _up(self.w, legal.LANES), _up(bn, legal.LANES)
        panels = (self.cols * self._rows(self.w) + self.rows * tall) * bn
        values = self.per_step(bn) * tall * wide
        return 2 * self.itemsize * (panels + values) + 4 * (self.rows + 1) * _up(self.h, legal.SUBLANES) * bn

    def check_fits(self) -> None:
        """Raise ValueError if not even 128 columns fit into VMEM."""
        needed, most = self.vmem_bytes(legal.LANES), chip.vmem_bytes()
        if needed > most:
            raise ValueError(
                f"dsd: b has {self.cols * self.w} rows and the result {self.rows * self.h}; 128 columns of both need "
                f"{needed / 2**20:.1f} MiB of VMEM, and the chip has {most / 2**20:.1f} MiB. Try the rows of A in two "
                "parts, each with the blocks that lie there, and jnp.concatenate."
            )

    def _rows(self, size: int) -> int:
        return _up(size, _tile(self.itemsize))


@dataclasses.dataclass(frozen=True)
class Sdd:
    """The sizes of blocks (h, w) of a product, K deep, and the rows and columns of blocks it has."""

    count: int
    h: int
    w: int
    rows: int
    cols: int
    k: int
    itemsize: int
    passes: int

    def chosen(self) -> tuple[int, int]:
        """Return bk and bn."""
        parts = [(self._seconds_by_depth(bk), bk) for bk in self._parts()]
        if parts and min(parts)[0] < self._seconds_whole():
            return min(parts)[1], _up(self.cols * self.w, legal.LANES)
        each, room = self.h * self.w * self.passes, chip.usable_vmem_bytes()
        wide = max((n for n in range(1, self.cols + 1) if self.vmem_bytes(self.k, n) <= room), default=0)
        if wide and each * self.k <= chip.LARGEST_STEP:
            wide = pl.cdiv(self.cols, pl.cdiv(self.cols, wide))  # each time as many
            return _up(self.k, legal.LANES), _up(wide * self.w, legal.LANES)
        fits = (bk for bk in range(legal.LANES, self.k, legal.LANES) if self.vmem_bytes(bk, 1) <= room)
        deep = max((bk for bk in fits if each * bk <= chip.LARGEST_STEP), default=legal.LANES)
        return _up(pl.cdiv(self.k, pl.cdiv(self.k, deep)), legal.LANES), _up(self.w, legal.LANES)

    def by_depth(self, bk: int, bn: int) -> bool:
        """Whether a and b pass through VMEM in parts of bk, as in sdd_kernel.py."""
        return bn >= self.cols * self.w and bk in self._parts()

    def _parts(self) -> list[int]:
        """Return the bk of such parts that fit."""
        if not has_parts(self.k):
            return []
        most = min(self.k - 1, chip.LARGEST_STEP // (self.h * self.w * self.passes))
        divide = [bk for bk in range(legal.LANES, most + 1, legal.LANES) if self.k % bk == 0]
        return [bk for bk in divide if self.vmem_bytes_by_depth(bk) <= chip.usable_vmem_bytes()]

    def per_step_by_depth(self, bk: int) -> int:
        """Return the blocks to a step of the kernel of parts."""
        return max(1, min(_PER_STEP // (self.h * self.w * bk * self.passes), _MOST, self.count))

    def vmem_bytes_by_depth(self, bk: int) -> int:
        """Return the bytes of two parts of a and b, of accumulators and results, and of f32 split into three bf16."""
        h, w, lanes = _up(self.h, _tile(self.itemsize)), _up(self.w, _tile(self.itemsize)), _up(self.w, legal.LANES)
        per_step = self.per_step_by_depth(bk)
        sums = 4 * (_up(self.count, per_step) + 2) * _up(self.h, legal.SUBLANES) * lanes
        split = 6 * bk * (h + w) if self.passes > 1 else 0
        b = bk * max(self.cols * w, _up(self.cols * self.w, legal.LANES))
        return 2 * self.itemsize * (bk * self.rows * h + b + per_step * h * lanes) + sums + split

    def _seconds_by_depth(self, bk: int) -> float:
        """Estimate the copies of the first part, and then the longer of all copies and of the products."""
        copies = (self.rows * self.h + self.cols * self.w) * self.k * self._seconds_a_number()
        steps = self.k // bk * pl.cdiv(self.count, self.per_step_by_depth(bk))
        return copies * bk / self.k + max(copies, self._seconds_of_products() + steps * _STEP)

    def _seconds_whole(self) -> float:
        """Estimate it with all of b copied first, and all of a as well, or its rows with a step for each block."""
        of_a, of_b = (size * self.k * self._seconds_a_number() for size in (self.rows * self.h, self.cols * self.w))
        return of_b + self._seconds_of_products() + min(of_a, self._seconds_of_rows())

    def _seconds_of_rows(self) -> float:
        """Estimate the steps that bring the rows of a that they need, beside the products."""
        return self.count * _STEP + min(self.count, self.rows) * _OTHER_ROWS

    def _seconds_a_number(self) -> float:
        return self.itemsize / chip.rates(jnp.bfloat16).hbm_bandwidth

    def _seconds_of_products(self) -> float:
        return 2 * self.count * self.h * self.w * self.k * self.passes / chip.rates(jnp.bfloat16).flops

    def per_range(self, bk: int, bn: int) -> int:
        """Return how many columns of blocks are in VMEM at once."""
        return max(1, min(bn // self.w, self.cols)) if bk >= self.k else 1

    def per_step(self, bk: int, per_range: int) -> int:
        """Return the blocks to a step: several if all of a and b fit into VMEM, and copying a first is not slower."""
        if bk < self.k or per_range < self.cols:
            return 1
        first = self.itemsize * self.rows * self.h * self.k / chip.rates(jnp.bfloat16).hbm_bandwidth
        each = self.h * self.w * self.k * self.passes
        several = max(1, min(_PER_STEP // each, _MOST, self.count))
        fits = self.vmem_bytes(bk, per_range, several) <= chip.usable_vmem_bytes()
        return several if fits and first < self._seconds_of_rows() else 1

    def vmem_bytes(self, bk: int, per_range: int, per_step: int = 1) -> int:
        """Return the bytes of the blocks, those that never change held once, and of f32 split into three bf16."""
        bk, w = _up(min(bk, self.k), legal.LANES), _up(self.w, _tile(self.itemsize))
        h, lanes = _up(self.h, _tile(self.itemsize)), _up(self.w, legal.LANES)
        whole = per_range == self.cols and bk >= self.k
        a = bk * h * (self.rows if per_step > 1 else 2)
        b = bk * min(per_range * w, self.cols * lanes) * (1 if whole else 2)
        parts = 6 * bk * (h + w) if self.passes > 1 else 0
        return self.itemsize * (a + b + 2 * per_step * h * lanes) + 8 * h * lanes + parts


def _tile(itemsize: int) -> int:
    """Return the rows of a register for elements of so many bytes."""
    return legal.SUBLANES * 4 // itemsize


def _up(size: int, step: int) -> int:
    return pl.cdiv(size, step) * step


def has_panels(n: int, bn: int, cores: int) -> bool:
    """Whether N is several whole panels for each core: copies by hand must not reach past the end of an array."""
    return is_known(n) and bn % legal.LANES == 0 and n % (cores * bn) == 0 and n > cores * bn


def has_parts(k: int) -> bool:
    """Whether a depth can be cut into parts that are whole registers, on any chip."""
    return is_known(k) and k > legal.LANES and k % legal.LANES == 0


def dsd_problem(values, n: int, shape: tuple[int, int], transpose_a: bool, passes: int) -> Dsd:
    """Return the sizes of what ``dsd`` is given."""
    count, h, w = values.shape
    (h, w), (rows, cols) = ((w, h), shape[::-1]) if transpose_a else ((h, w), shape)
    return Dsd(count, h, w, rows, cols, n, jnp.dtype(values.dtype).itemsize, passes)


def sdd_problem(a, b, rows, shape: tuple[int, int], transpose_b: bool, passes: int) -> Sdd:
    """Return the sizes of what ``sdd`` is given."""
    (m, k), n, count = a.shape, b.shape[0 if transpose_b else 1], rows.shape[0]
    return Sdd(count, m // shape[0], n // shape[1], *shape, k, jnp.dtype(a.dtype).itemsize, passes)
