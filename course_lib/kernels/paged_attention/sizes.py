"""How large the blocks of ``paged_attention`` are, what they take of VMEM, and how much of a table SMEM holds."""

import math

from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described
from course_lib.kernels.common import chip, legal
from course_lib.kernels.paged_attention.pools import Pool

# Seconds that a copy from HBM takes beside its bytes: 1142 cycles on a v5e, predicted (compiler), the longest of all
# chips. A test compares it with roofline.constants, which kernels may not import.
LATENCY_S = 0.76e-6
SLOTS = 3
_TOKENS = 256, 2048  # of a block: with fewer the chain of a softmax is not hidden, with more a program grows long


def pages_of_a_block(pool: Pool, pools: list[Described], most: int, window: int | None) -> int:
    """So many that HBM is never idle: while a block is computed, two are on their way.

    Three blocks of b bytes take turns of (latency + b / rate + work) / 3. With the compiler's rate, 0.9 of the
    bandwidth, and work as long as b / bandwidth, that is b / bandwidth from b = 1.13 * latency * bandwidth on.
    A window mostly meets one page more than it fills: its blocks are larger rather than that the last has one page.
    """
    heads, page, d = pool.shape(*pools)
    each, step = max(1, 2 * heads * page * d * pools[0].dtype.itemsize), step_of(page)
    under_way = 1.2 * LATENCY_S * chip.rates(pools[0].dtype).hbm_bandwidth
    fewest, largest = (pl.cdiv(tokens, max(page, 1)) for tokens in _TOKENS)
    read = most_read(most, page, window)
    count = min(max(math.ceil(under_way / each), fewest), largest, read)
    if window is not None:
        count = pl.cdiv(read, max(1, read // max(1, count)))
    room = chip.vmem_bytes() // 4 // (SLOTS * each)
    return max(step, min(pl.cdiv(count, step), room // step) * step)


def most_read(most: int, page: int, window: int | None) -> int:
    """Pages of a sequence: those of its row of the table, or those that a window meets."""
    return most if window is None else min(most, pl.cdiv(window - 1, max(page, 1)) + 1)


def step_of(page: int) -> int:
    """Pages of which 128 tokens are made, or a multiple."""
    return legal.LANES // math.gcd(max(page, 1), legal.LANES)


def vmem_bytes(pool: Pool, pools: list[Array], q: Array, count: int, slots: int) -> int:
    """Bytes of VMEM: blocks on their way; keys and values of one as products want them; scores, three times."""
    heads, page, d = pool.shape(*pools)
    numbers, together = 2 * count * heads * page * d, pool.together(heads)
    blocks = slots * numbers * pools[0].dtype.itemsize
    wide = 0 if pools[0].dtype == q.dtype else numbers * q.dtype.itemsize
    rows, lanes = (1, 2 * together * count * page) if together else (heads, count * page)
    rows *= pl.cdiv(q.shape[-2] // rows, legal.SUBLANES) * legal.SUBLANES
    return blocks + wide + 3 * 4 * rows * (lanes + pool.width(d))


def check_page(page: int, needed: int) -> None:
    """Raises ValueError where not even the fewest pages fit, of which whole registers of tokens are made."""
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"paged_attention: pages have {page} tokens, so {step_of(page)} of them make whole registers, and blocks "
            f"of as many need {needed / 2**20:.1f} MiB of VMEM; the chip has {chip.vmem_bytes() / 2**20:.1f} MiB. "
            "Try pages of 16, 32, 64 or 128 tokens."
        )


def sequences(pages: int) -> int:
    """Of how many sequences half of SMEM holds the rows of the table. Raises ValueError where it is none."""
    row, half = 4 * pl.cdiv(pages, legal.LANES) * legal.LANES, chip.smem_bytes() // 2
    if row > half:
        raise ValueError(
            f"paged_attention: a row of table has {pages} pages, and half of SMEM, {half} bytes, does not hold it. "
            "Try larger pages."
        )
    return half // row
