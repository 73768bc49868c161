"""Which tiles and products attention is computed in, and what they take of VMEM on the chip that is traced for."""

from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described
from course_lib.kernels.attention.kernel import Blocks
from course_lib.kernels.attention.ragged_tiles import RaggedTiles
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.attention.tiles import Tiles
from course_lib.kernels.common import chip, legal
from course_lib.kernels.common.compiler_params import check_fits

_SCORES = 2**19  # of a step: short sequences share one, because the compiler overlaps nothing across steps
_SIDE = 256  # queries, and keys, of a product in the gradient


def is_transposed(k: Described, v: Described) -> bool:
    """Whether to compute with positions in the lanes, as XLA stores such arrays: see ``transposed``."""
    return max(k.shape[-1], v.shape[-1]) <= legal.LANES // 2


def fastest(q: Described, k: Described, v: Described, causal: bool) -> Blocks:
    """Return the blocks for a forward pass: the largest tiles that fit.

    On a diagonal few queries leave few masked scores, and many keys leave few maxima. A sequence of up to 1536
    positions has too few products for so many keys, and one of up to 512 for so few queries.
    """
    bq, bk = 512, 512
    if causal:
        bq, bk = (256 if q.shape[-2] <= 512 else 128), (512 if q.shape[-2] <= 1536 else 1024)
    if is_transposed(k, v):
        bq, bk = (512, 512) if causal else (1024, 256)
    for tile in _largest_tiles(q.dtype):
        blocks = Blocks(tile=tile, bq=min(tile, bq), bk=min(tile, bk))
        if _needed(blocks, q, k, v, causal) <= chip.usable_vmem_bytes():
            return blocks
    return Blocks(tile=128, bq=128, bk=128)


def forward(q: Array, k: Array, v: Array, scores: Scores, blocks: Blocks | None) -> tuple[RaggedTiles, int, int]:
    """Return the tiles of a forward pass, the most heads that a step takes, and bytes of VMEM. Raises ValueError."""
    blocks = blocks or fastest(q, k, v, scores.causal)
    needed = _needed(blocks, q, k, v, scores.causal)
    check_fits(blocks, needed)
    tiles = RaggedTiles(q, k, blocks.tile, blocks.bq, blocks.bk, scores=scores)
    heads, each = 1, _windows(tiles, q, k, v)
    if tiles.rows == tiles.columns == 1:
        heads = max(1, min(_SCORES // (tiles.bq * tiles.bk), (chip.usable_vmem_bytes() - needed) // each + 1))
    return tiles, heads, needed + (heads - 1) * each


def gradient(q: Array, k: Array, v: Array, group: int, scores: Scores) -> tuple[RaggedTiles, int]:
    """Return the largest tiles that fit into VMEM, or the smallest there are; and the bytes that they take."""
    for tile in _largest_tiles(q.dtype):
        tiles = RaggedTiles(q, k, tile, _SIDE, _SIDE, scores=scores, gradient=True)
        wide_d, wide_e = (pl.cdiv(x.shape[-1], legal.LANES) * legal.LANES for x in (k, v))
        item, rows, both = q.dtype.itemsize, tiles.rows * tiles.bq, wide_d + wide_e
        dq = group * rows * wide_d * (4 + 2 * item)
        needed = dq + 2 * item * both * (tiles.bq + 2 * tiles.bk) + 4 * both * tiles.bk + 16 * 4 * _SIDE * _SIDE
        if needed <= chip.usable_vmem_bytes():
            break
    return tiles, needed


def _largest_tiles(dtype) -> tuple[int, ...]:
    """Return the positions of a tile, the best first.

    The compiler takes seconds for a program of 2048 x 2048 scores, and twice that for twice as many kinds of tiles. f32
    is multiplied in several passes, so its tiles are smaller.
    """
    return (2048, 1024, 512, 256) if dtype == "bfloat16" else (1024, 512, 256)


def _windows(tiles: Tiles, q: Described, k: Described, v: Described) -> int:
    """Return the bytes of VMEM for the tiles of q, k, v and o, each held twice so that copies overlap work."""
    return 2 * q.dtype.itemsize * (tiles.bq + tiles.bk) * _columns(k, v)


def _columns(k: Described, v: Described) -> int:
    return sum(pl.cdiv(x.shape[-1], legal.LANES) * legal.LANES for x in (k, v))


def _needed(blocks: Blocks, q: Described, k: Described, v: Described, causal: bool) -> int:
    """Return the bytes of VMEM: windows, what is carried between tiles, and products of scores that are spilled."""
    tiles = Tiles(q.shape[-2], k.shape[-2], blocks.tile, blocks.bq, blocks.bk, causal)
    carried = 4 * tiles.bq * (_columns(k, v) + 2 * legal.LANES) if tiles.columns > 1 else 0
    products = pl.cdiv(tiles.bq, tiles.queries) * pl.cdiv(tiles.bk, tiles.keys)
    # Short programs, and those with positions in the lanes, hold up to 8 in VMEM at once; with 16 products and more,
    # 13 to 20 were seen.
    spilled = 8 if is_transposed(k, v) else min(20, max(8, products))
    return _windows(tiles, q, k, v) + carried + spilled * 4 * tiles.queries * tiles.keys
