"""How large the blocks of ``paged_attention`` are, what they take of VMEM, and how much of a table SMEM holds."""

import math
from collections.abc import Sequence

from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described
from course_lib.kernels.common import chip, legal
from course_lib.kernels.paged_attention.kernel import Blocks
from course_lib.kernels.paged_attention.pools import ByToken, Pool

# Seconds that a copy from HBM takes besides its bytes: 1142 cycles on a v5e, predicted (compiler), the longest of all
# chips. A test compares it with roofline.constants, which kernels may not import.
LATENCY_S = 0.76e-6
_SLOTS = 3
_TOKENS = 256, 2048  # of a block: fewer do not hide the chain of a softmax, and more make a long program


def fastest(pool: Pool, pools: Sequence[Described], most: int, window: int | None) -> Blocks:
    """Return blocks so large that HBM is never idle: while one is computed, two are on their way.

    With three blocks of b bytes, each takes (latency + b / rate + work) / 3. The compiler's rate is 0.9 of the
    bandwidth, and the work takes as long as b / bandwidth, so this is b / bandwidth from b = 1.13 * latency * bandwidth
    on. A window usually meets one page more than it fills, so its blocks are larger, lest the last have one page.
    """
    heads, page, d = pool.shape(*pools)
    each, step = max(1, 2 * heads * page * d * pools[0].dtype.itemsize), step_of(page)
    under_way = 1.2 * LATENCY_S * chip.rates(pools[0].dtype).hbm_bandwidth
    fewest, largest = (pl.cdiv(tokens, max(page, 1)) for tokens in _TOKENS)
    read = most_read(most, page, window)
    count = min(max(math.ceil(under_way / each), fewest), largest, read)
    if window is not None:
        count = pl.cdiv(read, max(1, read // max(1, count)))
    room = chip.vmem_bytes() // 4 // (_SLOTS * each)
    return Blocks(pages=max(step, min(pl.cdiv(count, step), room // step) * step), slots=_SLOTS)


def pages_of(blocks: Blocks, page: int, most: int, window: int | None) -> int:
    """Return the pages of a block: no more than a sequence has, and a multiple of what makes whole registers."""
    step = step_of(page)
    return pl.cdiv(min(blocks.pages, most_read(most, page, window)), step) * step


def most_read(most: int, page: int, window: int | None) -> int:
    """Return the pages of a sequence: those of its row of the table, or those that a window meets."""
    return most if window is None else min(most, pl.cdiv(window - 1, max(page, 1)) + 1)


def step_of(page: int) -> int:
    """Return how many pages make 128 tokens, or a multiple of that."""
    return legal.LANES // math.gcd(max(page, 1), legal.LANES)


def vmem_bytes(pool: Pool, pools: Sequence[Array], q: Array, count: int, slots: int) -> int:
    """Return bytes of VMEM: blocks on their way; keys and values of one, cast for products; scores, three times."""
    heads, page, d = pool.shape(*pools)
    numbers, parts = 2 * count * heads * page * d, pool.parts(heads)
    blocks = slots * numbers * pools[0].dtype.itemsize
    wide = 0 if pools[0].dtype == q.dtype else numbers * q.dtype.itemsize
    lanes = count * page * (2 * heads if isinstance(pool, ByToken) else 1)
    rows = parts * pl.cdiv(q.shape[-2] // parts, legal.SUBLANES) * legal.SUBLANES
    return blocks + wide + 3 * 4 * rows * (lanes + pool.width(d))


def check_page(page: int, needed: int) -> None:
    """Raise ValueError if not even the fewest pages that make whole registers of tokens fit into VMEM."""
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"paged_attention: pages have {page} tokens, so {step_of(page)} of them make whole registers, and blocks "
            f"of as many need {needed / 2**20:.1f} MiB of VMEM; the chip has {chip.vmem_bytes() / 2**20:.1f} MiB. "
            "Try pages of 16, 32, 64 or 128 tokens."
        )


def sequences(pages: int) -> int:
    """Return for how many sequences half of SMEM holds the rows of the table. Raise ValueError if for none."""
    row, half = 4 * pl.cdiv(pages, legal.LANES) * legal.LANES, chip.smem_bytes() // 2
    if row > half:
        raise ValueError(
            f"paged_attention: a row of table has {pages} pages, and half of SMEM, {half} bytes, does not hold it. "
            "Try larger pages."
        )
    return half // row
