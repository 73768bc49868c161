"""How the pages of a pool lie: what a page's copies are, where its keys and values land in VMEM, how plain JAX sees it.

``Joined`` is ours. ``Apart`` and ``ByToken`` are those of other libraries, which ``paged_attention_wrappers`` takes
as they are: to rearrange a pool would copy all of it for every token.
"""

import dataclasses

import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Bool, Described, Num, Ref
from course_lib.kernels.common.legal import LANES


@dataclasses.dataclass(frozen=True)
class Joined:
    """Pages (N, KH, P, 2*D): behind each key its value. A page is one copy, and heads of 64 have no padding in HBM."""

    def shape(self, pages):
        """Return the heads, the tokens of a page, and the elements of a key."""
        return pages.shape[1], pages.shape[2], pages.shape[3] // 2

    def size(self, pages):
        """Return how many pages there are."""
        return pages.shape[0]

    def parts(self, heads):
        """Return how many KV heads a block has that are computed by themselves."""
        return heads

    def width(self, d):
        """Return the columns of a product: a key's or a value's, or both if no edge of a register is between them."""
        return 2 * d if d % LANES else d

    def buffers(self, slots, count, pages):
        """Return the scratch in VMEM for ``slots`` blocks of ``count`` pages."""
        return [pltpu.VMEM((slots, count, *pages.shape[1:]), pages.dtype)]

    def copies(self, pools, buffers, page, slot, t, sem):
        """Return the copies that bring a page to place t of a block."""
        return [pltpu.make_async_copy(pools[0].at[page], buffers[0].at[slot, t], sem)]

    def both(self, buffers, slot, h):
        """Return keys and values of a block, (T, W): both in both, keys to the left, if they cannot be cut apart."""
        rows = buffers[0][slot, :, h]
        rows, d = rows.reshape(-1, rows.shape[-1]), rows.shape[-1] // 2
        return (rows, rows) if d % LANES else (rows[:, :d], rows[:, d:])

    def clean(self, buffers, slot, page, left):
        """Write zeros behind the first ``left`` tokens of a page of a block."""
        write_zeros(buffers[0], (slot, page), left, axis=1)

    def live(self, shape, tokens, left, window):
        """Return which scores of a block count: of the tokens that are ``left``, or of a ``window`` of the last."""
        place, rows = lax.broadcasted_iota(jnp.int32, shape, 2), shape[2] // tokens  # of a token
        seen = place < rows * left
        return seen if window is None else seen & (place >= rows * jnp.maximum(left - window, 0))

    def of_values(self, p):
        """Return exponentials where the values lie."""
        return p

    def gathered(self, pools, table):
        """Return keys and values of each sequence, (..., KH, M*P, D)."""
        found = lax.collapse(jnp.moveaxis(pools[0][table], -4, -3), -3, -1)
        d = found.shape[-1] // 2
        return found[..., :d], found[..., d:]


@dataclasses.dataclass(frozen=True)
class Apart(Joined):
    """Keys and values in two arrays (KH, N, P, D), as PyTorch/XLA and JAX have them: a page is two copies."""

    def shape(self, k_pages: Described, v_pages: Described) -> tuple[int, int, int]:
        heads, _, page, d = k_pages.shape
        return heads, page, d

    def size(self, k_pages: Described, v_pages: Described) -> int:
        return k_pages.shape[1]

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
        write_zeros(buffers[1], (slot, page), left, axis=1)  # scores of such keys are masked, whatever they are

    def gathered(self, pools: tuple[Array, ...], table: Array) -> tuple[Array, Array]:
        k, v = (lax.collapse(jnp.moveaxis(pool[:, table], 0, -4), -3, -1) for pool in pools)
        return k, v


@dataclasses.dataclass(frozen=True)
class ByToken(Joined):
    """Pages (N, P, 2*KH, D), as vLLM has them: the rows of a token are key and value of its first head, of the next ..

    A page is one copy. Rows of one head lie 2*KH apart, and to gather them takes longer than to copy them. So all rows,
    keys and values, are multiplied by the queries of all heads, and only the keys of a query's own head count: the MXU
    takes 32 queries in the time of 8.
    """

    def shape(self, pages: Described) -> tuple[int, int, int]:
        _, page, rows, d = pages.shape
        return rows // 2, page, d

    def parts(self, heads: int) -> int:
        return 1

    def width(self, d: int) -> int:
        return d

    def both(self, buffers: list[Ref], slot: Array, h: int) -> tuple[Num[Array, "rows D"], Num[Array, "rows D"]]:
        """Return all rows of a block, twice."""
        rows = buffers[0][slot]
        rows = rows.reshape(-1, rows.shape[-1])
        return rows, rows

    def clean(self, buffers: list[Ref], slot: Array, page: Array, left: Array) -> None:
        write_zeros(buffers[0], (slot, page), left, axis=0)

    def live(self, shape: tuple[int, ...], tokens: int, left: Array, window: int | None) -> Bool[Array, "1 H rows"]:
        """Return which rows are keys of a query's own head, of tokens that count."""
        counts, rows = super().live(shape, tokens, left, window), shape[2] // tokens
        row, query = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (2, 1))
        return counts & (lax.rem(row, rows) == 2 * lax.div(query, shape[1] // (rows // 2)))

    def of_values(self, p: list[Array]) -> list[Array]:
        """Return exponentials one row further: behind each key lies its value."""
        return [pltpu.roll(lanes, 1, 2) for lanes in p]

    def gathered(self, pools: tuple[Array, ...], table: Array) -> tuple[Array, Array]:
        found = pools[0][table]  # (..., M, P, 2*KH, D)
        k, v = (lax.collapse(jnp.moveaxis(found[..., which::2, :], -2, -4), -3, -1) for which in (0, 1))
        return k, v


Pool = Joined | Apart | ByToken


def write_zeros(buffer, at, left, axis):
    """Write zeros from index ``left`` of an axis on. An int8 is a number, whatever it is, and needs none."""
    if jnp.issubdtype(buffer.dtype, jnp.floating):
        block = buffer[at]
        inside = lax.broadcasted_iota(jnp.int32, block.shape, axis) < left
        buffer[at] = jnp.where(inside, block, jnp.zeros_like(block))
