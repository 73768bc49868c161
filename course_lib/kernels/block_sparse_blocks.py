"""How much of the dense operand of a block-sparse product is in VMEM at once, and what that needs.

dsd has all rows of b and of the result there, so wide columns are better until they do not fit: adding a product to the
result takes as long however wide, per column, but the MXU hides it only from 512 columns on. sdd has all of b there if
it fits, else some columns of blocks, else a part of the reduction.
"""

import dataclasses

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.kernels import legal, platforms
from course_lib.kernels.symbolic import planned

_COLUMNS = 512  # of a panel of dsd
_PER_STEP = 2**27  # multiplications of a step of dsd, a block's times how often the MXU does them: some 2000 cycles
_MOST = 16  # blocks to a step: it is written out in full


@dataclasses.dataclass(frozen=True)
class Dsd:
    """Sizes of ``o = A @ b``: blocks of (h, w), as they are multiplied; rows and columns of blocks; N."""

    count: int
    h: int
    w: int
    rows: int
    cols: int
    n: int
    itemsize: int
    passes: int

    def columns(self) -> int:
        """How wide a panel is chosen: 512, less where that would not fit well, and all panels alike."""
        n = planned((1, self.n))[1]
        for most in (_COLUMNS, 256, 128):
            if self.vmem_bytes(most) <= platforms.vmem_bytes() * 3 // 8:
                break
        return _up(pl.cdiv(n, pl.cdiv(n, most)), legal.LANES)

    def per_step(self, bn: int) -> int:
        """How many blocks to a step."""
        each = self.h * self.w * _up(bn, legal.LANES) * self.passes
        return max(1, min(_PER_STEP // each, _MOST, self.count))

    def vmem_bytes(self, bn: int) -> int:
        """Of panels and values, held twice, and of the sum in f32."""
        tall, wide, bn = self._rows(self.h), _up(self.w, legal.LANES), _up(bn, legal.LANES)
        panels = (self.cols * self._rows(self.w) + self.rows * tall) * bn
        values = self.per_step(bn) * tall * wide
        return 2 * self.itemsize * (panels + values) + 4 * (self.rows + 1) * _up(self.h, legal.SUBLANES) * bn

    def _rows(self, size: int) -> int:
        return _up(size, legal.SUBLANES * 4 // self.itemsize)


@dataclasses.dataclass(frozen=True)
class Sdd:
    """Sizes of blocks of (h, w) of a product, K deep; b has so many columns of blocks."""

    h: int
    w: int
    cols: int
    k: int
    itemsize: int

    def chosen(self) -> tuple[int, int]:
        """bk and bn."""
        most = platforms.vmem_bytes() * 3 // 8
        wide = max((n for n in range(1, self.cols + 1) if self.vmem_bytes(self.k, n) <= most), default=0)
        if wide:
            wide = pl.cdiv(self.cols, pl.cdiv(self.cols, wide))  # each time as many
            return _up(self.k, legal.LANES), _up(wide * self.w, legal.LANES)
        deep = [bk for bk in range(legal.LANES, self.k, legal.LANES) if self.vmem_bytes(bk, 1) <= most]
        return max(deep, default=legal.LANES), _up(self.w, legal.LANES)

    def per_range(self, bk: int, bn: int) -> int:
        """How many columns of blocks are in VMEM at once."""
        return max(1, min(bn // self.w, self.cols)) if bk >= self.k else 1

    def vmem_bytes(self, bk: int, per_range: int) -> int:
        """Of the blocks; b is held once where it never changes."""
        bk, w = _up(min(bk, self.k), legal.LANES), _up(self.w, legal.SUBLANES * 4 // self.itemsize)
        h, lanes = _up(self.h, legal.SUBLANES * 4 // self.itemsize), _up(self.w, legal.LANES)
        held = 1 if per_range == self.cols and bk >= self.k else 2
        b = bk * min(per_range * max(w, self.w), self.cols * lanes)
        return self.itemsize * (2 * h * bk + held * b + 2 * h * lanes) + 8 * h * lanes


def _up(size: int, step: int) -> int:
    return pl.cdiv(size, step) * step


def dsd_problem(values, b, shape: tuple[int, int], transpose_a: bool, passes: int) -> Dsd:
    """Of what ``dsd`` is given."""
    count, h, w = values.shape
    (h, w), (rows, cols) = ((w, h), shape[::-1]) if transpose_a else ((h, w), shape)
    return Dsd(count, h, w, rows, cols, b.shape[1], jnp.dtype(values.dtype).itemsize, passes)


def sdd_problem(a, b, shape: tuple[int, int], transpose_b: bool) -> Sdd:
    """Of what ``sdd`` is given."""
    (rows, k), n = a.shape, b.shape[0 if transpose_b else 1]
    return Sdd(rows // shape[0], n // shape[1], shape[1], k, jnp.dtype(a.dtype).itemsize)
