"""The rows of ``make bench`` for kernels driven by tables: paged attention and block-sparse matmuls.

XLA's version is the plain way to write each: gather what the table names, and multiply.
"""

import functools
import importlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from kernel_rows import OURS, PALLAS_OPS, XLA, Row

KV_HEADS, GROUP, DEPTH, PAGE = 8, 4, 128, 16
CHOICES = (8, 16, 32)  # pages per block of the wheel's kernel
BLOCK = 128


def rows() -> list[Row]:
    """Return sequences of equal and mixed lengths; block-sparse times dense; blocks of a dense matmul."""
    return [
        pages([512] * 8),
        pages([1024] * 8),
        pages([100, 1500, 0, 700, 16, 2048, 1, 512]),
        dsd(4096, 4096),
        sdd(4096, 4096),
    ]


def pages(lengths: list[int]) -> Row:
    """Return a row with one query per sequence, 32 query heads of 128 on 8 key heads, bf16, over a pool of pages."""
    batch, used = len(lengths), [-(-n // PAGE) for n in lengths]
    count, table = sum(used), np.zeros((batch, max(used)), np.int32)
    table[np.arange(max(used)) < np.array(used)[:, None]] = np.random.default_rng(0).permutation(count)
    q = jax.ShapeDtypeStruct((batch, KV_HEADS * GROUP, DEPTH), jnp.bfloat16)
    pool = jax.ShapeDtypeStruct((KV_HEADS, count, PAGE, DEPTH), jnp.bfloat16)
    said = f"of {lengths[0]}" if len(set(lengths)) == 1 else f"of 0 to {max(lengths)}"
    return Row(
        kernel="attention over pages",
        shape=f"{batch} sequences {said}",
        args=(q, pool, pool, np.array(lengths, np.int32), table),
        implementations={
            OURS: lambda: _of("paged_attention_wrappers").paged_attention,
            XLA: lambda: gathered,
            PALLAS_OPS: pages_in_the_wheel,
        },
        share=sum(lengths) / (table.size * PAGE),
        reads_all=True,
        choices={PALLAS_OPS: CHOICES},
    )


def gathered(q, k_pages, v_pages, lengths, table):
    """Gather all pages that the table names, and attend to the valid tokens; scores are not scaled."""
    heads, d = k_pages.shape[0], q.shape[-1]
    k, v = (x[:, table].reshape(heads, len(lengths), -1, d) for x in (k_pages, v_pages))
    q = q.reshape(len(lengths), heads, -1, d)
    s = jnp.einsum("bhgd,hbtd->bhgt", q, k, preferred_element_type=jnp.float32)
    s = jnp.where(jnp.arange(s.shape[-1]) < lengths[:, None, None, None], s, -jnp.inf)
    return jnp.einsum("bhgt,hbtd->bhgd", jax.nn.softmax(s).astype(v.dtype), v).reshape(len(lengths), -1, d)


def pages_in_the_wheel() -> Callable:
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

    return lambda *args, blocks: paged_attention(*args, pages_per_compute_block=blocks)


def pattern(side: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of blocks drawn at random from a square of ``side`` blocks, row by row."""
    kept = np.random.default_rng(0).random((side, side)) < share
    return tuple(found.astype(np.int32) for found in np.nonzero(kept))


def dsd(size: int, columns: int) -> Row:
    """Return the row of a square matrix with an eighth of its blocks, times a dense one, bf16."""
    rows, cols = pattern(size // BLOCK, 1 / 8)
    values = jax.ShapeDtypeStruct((len(rows), BLOCK, BLOCK), jnp.bfloat16)
    b = jax.ShapeDtypeStruct((size, columns), jnp.bfloat16)
    shape = (size // BLOCK, size // BLOCK)

    def plain(values, b, rows, cols):
        products = jnp.einsum("zik,zkn->zin", values, b.reshape(-1, BLOCK, columns)[cols])
        return jax.ops.segment_sum(products, rows, shape[0]).reshape(size, columns)

    return Row(
        kernel="block-sparse times dense",
        shape=f"{len(rows)} blocks of {BLOCK}, {columns} columns",
        args=(values, b, rows, cols),
        implementations={OURS: lambda: functools.partial(_ours, "dsd", shape), XLA: lambda: plain},
        reads_all=True,
    )


def sdd(size: int, depth: int) -> Row:
    """Return the row of an eighth of the blocks of a matmul of dense matrices, bf16."""
    rows, cols = pattern(size // BLOCK, 1 / 8)
    a, b = jax.ShapeDtypeStruct((size, depth), jnp.bfloat16), jax.ShapeDtypeStruct((depth, size), jnp.bfloat16)
    shape = (size // BLOCK, size // BLOCK)

    def plain(a, b, rows, cols):
        a, b = a.reshape(-1, BLOCK, depth)[rows], b.reshape(depth, -1, BLOCK).swapaxes(0, 1)[cols]
        return jnp.einsum("zik,zkn->zin", a, b)

    return Row(
        kernel="blocks of a dense product",
        shape=f"{len(rows)} blocks of {BLOCK}, K {depth}",
        args=(a, b, rows, cols),
        implementations={OURS: lambda: functools.partial(_ours, "sdd", shape), XLA: lambda: plain},
        reads_all=True,
    )


def _ours(op: str, shape: tuple[int, int], x, y, rows, cols):
    block_sparse = _of("block_sparse")
    where = block_sparse.Pattern(rows, cols, shape)
    return block_sparse.dsd(x, where, y) if op == "dsd" else block_sparse.sdd(x, y, where)


def _of(family: str):
    return importlib.import_module(f"course_lib.kernels.{family}")
