"""Attention: ``o = softmax(scale * q @ k.T) @ v`` for each head, without the scores ever being in HBM; its gradient.

Cost   FLOPs 4*S*T*D a head forward, 10*S*T*D backward; of a causal one half; HBM bytes 2*S*D*itemsize for q and o, and
       2*T*D*itemsize for k and v, once for each tile of queries; 4*S for the logarithms that the gradient wants
VMEM   8 * tile*D * itemsize for tiles of q, k, v and o, and some MiB of scores on their way; a sequence of several
       tiles keeps 4 * tile*(256 + D) from one to the next

Queries come in S rows, keys and values in T, heads in front of them: an array of (batch, heads, S, D). There may be
fewer heads of keys than of queries; each then serves as many query heads, which follow one another. The grid is
(key heads, query heads of one, tiles of queries, tiles of keys): see ``attention_forward``, and ``attention_backward``.
"""

import dataclasses
import functools

from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Float, Int32
from course_lib.kernels.attention import arguments as attention_arguments
from course_lib.kernels.attention import backward as attention_backward
from course_lib.kernels.attention import kernel as attention_forward
from course_lib.kernels.attention import scores as attention_scores
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.attention.tiles import Chosen, Tiles, largest_tiles
from course_lib.kernels.common import chip, legal
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout


def reference(
    q: Float[Array, "*queries S D"],
    k: Float[Array, "*heads T D"],
    v: Float[Array, "*heads T E"],
    *,
    causal: bool = False,
    window: int | None = None,
    segments: Int32[Array, "*batch S"] | tuple[Array, Array] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> Float[Array, "*queries S E"]:
    """What ``flash_attention`` must compute: scores, softmax and the sum of values in f32, rounded once.

    In bf16 the exponentials are rounded before the product as well, and backwards the gradients of scores.
    """
    q, k, v, *ids = attention_arguments.operands("reference", q, k, v, segments)
    options = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "precision": "highest"}
    scores = attention_arguments.options("reference", q, k, **options)
    return attention_scores.plain(q, k, v, *ids, scores=scores, like_kernel=True)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Sizes in positions: of a tile, queries and keys, which a step has in VMEM; and of a product of bq x bk within it.

    They change the speed, not the result. Legal: multiples of 128. All are cut down to a sequence that is shorter.
    """

    tile: int = 2048
    bq: int = 512
    bk: int = 512

    def __post_init__(self):
        legal.check(self, tile=legal.LANES, bq=legal.LANES, bk=legal.LANES)


def flash_attention(
    q: Float[Array, "*queries S D"],
    k: Float[Array, "*heads T D"],
    v: Float[Array, "*heads T E"],
    *,
    causal: bool = False,
    window: int | None = None,
    segments: Int32[Array, "*batch S"] | tuple[Array, Array] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*queries S E"]:
    """``softmax(scale * q @ k.T) @ v`` for q (..., H, S, D), k (..., G, T, D) and v (..., G, T, E), f32 or bf16.

    H is a multiple of G: each head of keys serves H / G heads of queries. The heads may be missing.
    ``causal``: a query sees the keys up to its own place, with a ``window`` that many of these. ``segments``: int32 of
    shape (..., S), or a tuple of such for S and for T: a query sees the keys of its own number; one that sees none gets
    zeros. ``softcap``: a score s becomes ``softcap * tanh(s / softcap)``. ``scale`` None: D ** -0.5.
    In bf16 the exponentials, and backwards the gradients of scores, are rounded to bf16 before they are multiplied; and
    backwards each query's sum of o * do is that of the rounded o.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: chosen by ``blocks_for``. ``layout`` says how
    q, k, v and segments lie on a mesh with Auto axes; batch and heads may be cut.
    Differentiable in q, k and v. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError where shapes, dtypes or options do not fit, or blocks do not fit into VMEM.
    """
    operands = attention_arguments.operands("flash_attention", q, k, v, segments)
    options = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "precision": precision}
    scores = attention_arguments.options("flash_attention", *operands[:2], **options)
    legal.check_kind("flash_attention", blocks, Blocks)
    rule = _rule(operands[0].ndim, len(operands) > 3)
    operands, cuts = sharding.ready("flash_attention", rule, operands, layout)
    return _flash(*operands, scores, blocks, cuts)


def blocks_for(
    q: Float[Described, "*queries S D"],
    k: Float[Described, "*heads T D"],
    v: Float[Described, "*heads T E"],
    *,
    causal: bool = False,
    **options,
) -> Blocks:
    """The blocks that ``flash_attention`` chooses for these arguments, on the chip traced for (a v5e where it is none).

    Of the options only ``causal`` matters: the diagonal is cut finer.
    """
    bq, bk = (256, 512) if causal else (512, 512)
    if _turned(k, v):
        bq, bk = (512, 512) if causal else (1024, 256)
    for tile in largest_tiles(q.dtype):
        blocks = Blocks(tile=tile, bq=min(tile, bq), bk=min(tile, bk))
        if _needed(blocks, q, k, v, causal) <= chip.usable_vmem_bytes():
            return blocks
    return Blocks(tile=128, bq=128, bk=128)


def _rule(rank: int, segments: bool, *, backwards: bool = False) -> str:
    batch = " ".join(f"r{axis}" for axis in range(rank - 3)) + " h" * (rank > 2)
    before = f"{batch} S E, {batch} S, {batch} S E, " if backwards else ""
    arrays = f"{batch} S D, {batch} T D, {batch} T E"
    ids = ", {0} S, {0} T".format(batch.removesuffix("h")) if segments else ""
    return f"{before}{arrays}{ids} -> " + (arrays if backwards else f"{batch} S E, {batch} S")


_SCORES = 2**19  # of a step: of a short sequence several heads are taken at once, for a step is a wall, too


def _windows(tiles: Tiles, q: Described, k: Described, v: Described) -> int:
    """Bytes of VMEM that the tiles of q, k, v and o take, each held twice so that copies overlap work."""
    return 2 * q.dtype.itemsize * (tiles.bq + tiles.bk) * _columns(k, v)


def _columns(k: Described, v: Described) -> int:
    return sum(pl.cdiv(x.shape[-1], legal.LANES) * legal.LANES for x in (k, v))


def _needed(blocks: Blocks, q: Described, k: Described, v: Described, causal: bool) -> int:
    """Bytes of VMEM: windows, each twice; what is carried between tiles; and products of scores, spilled."""
    tiles = Tiles.of(q, k, blocks.tile, causal=causal, window=None)
    carried = 4 * tiles.bq * (_columns(k, v) + 2 * legal.LANES) if tiles.columns > 1 else 0
    queries, keys = min(blocks.bq, tiles.bq), min(blocks.bk, tiles.bk)
    products = pl.cdiv(tiles.bq, queries) * pl.cdiv(tiles.bk, keys)
    # Of a short program, and of positions in the lanes, up to 8 are in VMEM at once; of 16 and more 13 to 20 were seen.
    spilled = 8 if _turned(k, v) else min(20, max(8, products))
    return _windows(tiles, q, k, v) + carried + spilled * 4 * queries * keys


def _chosen(q: Array, k: Array, v: Array, scores: Scores, *, blocks: Blocks | None) -> Chosen:
    blocks = blocks or blocks_for(q, k, v, causal=scores.causal)
    needed = _needed(blocks, q, k, v, scores.causal)
    check_fits(blocks, needed)
    tiles = Tiles.of(q, k, blocks.tile, causal=scores.causal, window=scores.window)
    queries, keys = min(blocks.bq, tiles.bq), min(blocks.bk, tiles.bk)
    heads, each = 1, _windows(tiles, q, k, v)
    if tiles.rows == tiles.columns == 1:
        heads = max(1, min(_SCORES // (tiles.bq * tiles.bk), (chip.usable_vmem_bytes() - needed) // each + 1))
    cut = {"tiles": tiles, "queries": queries, "keys": keys, "turned": _turned(k, v), "heads": heads}
    return Chosen(**cut, vmem_bytes=needed + (heads - 1) * each)


def _turned(k: Described, v: Described) -> bool:
    """Whether to compute with positions in the lanes, as XLA stores the arrays then: see ``attention_transposed``."""
    return max(k.shape[-1], v.shape[-1]) <= legal.LANES // 2


@functools.partial(differentiable, settings=3)
def _flash(*args):
    return _with_logarithms(*args)[0]


def _with_logarithms(*args) -> tuple[Array, Array]:
    """The result, and the logarithm to base 2 of each query's sum of exponentials."""
    *operands, scores, blocks, cuts = args
    launch = Op(
        name="flash_attention",
        rule=_rule(operands[0].ndim, len(operands) > 3),
        tpu=fixed(attention_forward.on_tpu, scores=scores, chosen=fixed(_chosen, blocks=blocks)),
        plain=fixed(attention_scores.plain, scores=scores),
        leading=tuple(range(len(operands))),
    )
    return launch(*operands, cuts=cuts)


def _forward(*args):
    o, lse = _with_logarithms(*args)
    return o, (args[:-3], o, lse)


def _backward(scores, blocks, cuts, saved, g):
    operands, o, lse = saved
    rule = _rule(operands[0].ndim, len(operands) > 3, backwards=True)
    found = attention_backward.gradients(operands, o, lse, g, scores, rule, cuts)
    return *found, *[None] * (len(operands) - 3)


_flash.defvjp(_forward, _backward)
