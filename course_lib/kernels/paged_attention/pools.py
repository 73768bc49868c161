"""How the pages of a pool lie: what a page's copies are, where its keys and values land in VMEM, how plain JAX sees it.

``Joined`` is ours. ``Apart`` and ``ByToken`` are those of other libraries, which ``paged_attention_wrappers`` takes
as they are: to turn a pool round would copy all of it for every token.
"""

import dataclasses

import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels.common.legal import LANES


@dataclasses.dataclass(frozen=True)
class Joined:
    """Pages (N, KH, P, 2*D): behind each key its value. A page is one copy, and heads of 64 have no padding in HBM."""

    letters = ("N h P W",)  # of its axes, in the rule of an op
    stored = "(N, KH, P, 2*D), behind each key its value"
    advice = "Are they two arrays? Then paged_attention_wrappers.paged_attention takes them."

    def shape(self, pages: Described) -> tuple[int, int, int]:
        """Heads, tokens of a page, elements of a key."""
        return pages.shape[1], pages.shape[2], pages.shape[3] // 2

    def size(self, pages: Described) -> int:
        """How many pages it has."""
        return pages.shape[0]

    def together(self, heads: int) -> int:
        """Heads of keys that are computed together; 0 where each is by itself."""
        return 0

    def refuses(self, pages: Described) -> str:
        """Why it cannot be such a pool; nothing where it can."""
        return f"the last axis of pages holds a key and its value, and {pages.shape[3]} is odd." * (pages.shape[3] % 2)

    def width(self, d: int) -> int:
        """Of what the products take: a key or a value, or both at once where no edge of a register is between them."""
        return 2 * d if d % LANES else d

    def buffers(self, slots: int, count: int, pages: Described) -> list:
        """VMEM for so many blocks of so many pages."""
        return [pltpu.VMEM((slots, count, *pages.shape[1:]), pages.dtype)]

    def copies(self, pools: list[Ref], buffers: list[Ref], page: Array, slot: Array, t: int, sem: Ref) -> list:
        """Those that bring a page to place t of a block."""
        return [pltpu.make_async_copy(pools[0].at[page], buffers[0].at[slot, t], sem)]

    def both(self, buffers: list[Ref], slot: Array, h: int) -> tuple[Num[Array, "T W"], Num[Array, "T W"]]:
        """Keys and values of a block. Where they cannot be cut apart: both in both, keys to the left."""
        rows = buffers[0][slot, :, h]
        rows, d = rows.reshape(-1, rows.shape[-1]), rows.shape[-1] // 2
        return (rows, rows) if d % LANES else (rows[:, :d], rows[:, d:])

    def clean(self, buffers: list[Ref], slot: Array, page: Array, left: Array) -> None:
        """Zeros behind the first ``left`` tokens of a page of a block."""
        _clean(buffers[0], (slot, page), left, axis=1)

    def gathered(self, pools: tuple[Array, ...], table: Array) -> tuple[Array, Array]:
        """Keys and values of each sequence, (..., KH, M*P, D)."""
        found = _in_line(jnp.moveaxis(pools[0][table], -4, -3))
        d = found.shape[-1] // 2
        return found[..., :d], found[..., d:]


@dataclasses.dataclass(frozen=True)
class Apart:
    """Keys and values in two arrays (KH, N, P, D), as PyTorch/XLA and JAX have them: a page is two copies."""

    letters = ("h N P D", "h N P D")
    stored = "twice (KH, N, P, D), heads in front"
    advice = "Do the pages come first? Then hand over k_pages.swapaxes(0, 1), which copies all of them."

    def shape(self, k_pages: Described, v_pages: Described) -> tuple[int, int, int]:
        heads, _, page, d = k_pages.shape
        return heads, page, d

    def size(self, k_pages: Described, v_pages: Described) -> int:
        return k_pages.shape[1]

    def together(self, heads: int) -> int:
        return 0

    def refuses(self, k_pages: Described, v_pages: Described) -> str:
        return ""

    def width(self, d: int) -> int:
        return d

    def buffers(self, slots: int, count: int, *pools: Described) -> list:
        heads, _, page, d = pools[0].shape
        return [pltpu.VMEM((slots, count, heads, page, d), pool.dtype) for pool in pools]

    def copies(self, pools: list[Ref], buffers: list[Ref], page: Array, slot: Array, t: int, sem: Ref) -> list:
        pairs = zip(pools, buffers, strict=True)
        return [pltpu.make_async_copy(pool.at[:, page], buffer.at[slot, t], sem) for pool, buffer in pairs]

    def both(self, buffers: list[Ref], slot: Array, h: int) -> tuple[Num[Array, "T D"], Num[Array, "T D"]]:
        k, v = (buffer[slot, :, h] for buffer in buffers)
        return k.reshape(-1, k.shape[-1]), v.reshape(-1, v.shape[-1])

    def clean(self, buffers: list[Ref], slot: Array, page: Array, left: Array) -> None:
        _clean(buffers[1], (slot, page), left, axis=1)  # scores of such keys are masked, whatever they are

    def gathered(self, pools: tuple[Array, ...], table: Array) -> tuple[Array, Array]:
        k, v = (_in_line(jnp.moveaxis(pool[:, table], 0, -4)) for pool in pools)
        return k, v


@dataclasses.dataclass(frozen=True)
class ByToken:
    """Pages (N, P, 2*KH, D), as vLLM has them: the rows of a token are key and value of its first head, of the next ..

    A page is one copy. Rows of one head lie 2*KH apart, and to gather them takes longer than to copy them. So all rows,
    keys and values, are multiplied by the queries of all heads, and all but those of its own head do not count: the MXU
    takes 32 queries in the time of 8.
    """

    letters = ("N P h D",)
    stored = "(N, P, 2*KH, D), of each head a row of keys and one of values"
    advice = "Are they two arrays? Then paged_attention_wrappers.paged_attention takes them."

    def shape(self, pages: Described) -> tuple[int, int, int]:
        _, page, rows, d = pages.shape
        return rows // 2, page, d

    def size(self, pages: Described) -> int:
        return pages.shape[0]

    def together(self, heads: int) -> int:
        return heads

    def refuses(self, pages: Described) -> str:
        rows = pages.shape[2]
        return f"the {rows} rows of a token are no pairs of a key and a value. {self.advice}" * (rows % 2)

    def width(self, d: int) -> int:
        return d

    def buffers(self, slots: int, count: int, pages: Described) -> list:
        return [pltpu.VMEM((slots, count, *pages.shape[1:]), pages.dtype)]

    def copies(self, pools: list[Ref], buffers: list[Ref], page: Array, slot: Array, t: int, sem: Ref) -> list:
        return [pltpu.make_async_copy(pools[0].at[page], buffers[0].at[slot, t], sem)]

    def both(self, buffers: list[Ref], slot: Array, h: int) -> tuple[Num[Array, "rows D"], Num[Array, "rows D"]]:
        """All rows of a block, in both."""
        rows = buffers[0][slot]
        rows = rows.reshape(-1, rows.shape[-1])
        return rows, rows

    def clean(self, buffers: list[Ref], slot: Array, page: Array, left: Array) -> None:
        _clean(buffers[0], (slot, page), left, axis=0)

    def gathered(self, pools: tuple[Array, ...], table: Array) -> tuple[Array, Array]:
        found = pools[0][table]  # (..., M, P, 2*KH, D)
        k, v = (_in_line(jnp.moveaxis(found[..., which::2, :], -2, -4)) for which in (0, 1))
        return k, v


Pool = Joined | Apart | ByToken


def _in_line(pages: Num[Array, "*batch KH M P W"]) -> Num[Array, "*batch KH T W"]:
    *batch, m, page, w = pages.shape
    return pages.reshape(*batch, m * page, w)


def _clean(buffer: Ref, at: tuple, left: Array, axis: int) -> None:
    """Zeros from index ``left`` on. An int8 is a number, whatever it is, and needs none."""
    if jnp.issubdtype(buffer.dtype, jnp.integer):
        return
    block = buffer[at]
    inside = lax.broadcasted_iota(jnp.int32, block.shape, axis) < left
    buffer[at] = jnp.where(inside, block, jnp.zeros_like(block))
