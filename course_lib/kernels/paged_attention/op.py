"""Attention of one query a sequence, as in decoding, over keys and values in pages: ``softmax(scale * q @ k.T) @ v``.

Cost   FLOPs 4*T*H*D for a sequence of T tokens;  HBM bytes 2*T*KH*D * itemsize, whole pages of them, and q and o: each
       key is used for one product with a few queries, so it is the copies that take time
VMEM   slots * pages * (2*KH*P*D) * itemsize: blocks of pages on their way, in use, or both

A pool of N pages holds the keys and values of P tokens each, for KH heads: an array (N, KH, P, 2*D), behind each key
its value. Tokens i*P to i*P + P - 1 of a sequence lie in page ``table[i]``, wherever that is: one copy brings it. The
kernel is that of ``paged_attention_kernel``; ``paged_attention_wrappers`` takes pools that lie as in other libraries.
"""

import dataclasses
import functools
import math
import warnings

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Float, Float32, Int32, Num
from course_lib.kernels.attention import arguments as attention_arguments
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.common import legal
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.symbolic import is_known
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.paged_attention import arguments as paged_attention_arguments
from course_lib.kernels.paged_attention import kernel as paged_attention_kernel
from course_lib.kernels.paged_attention import plain as paged_attention_plain
from course_lib.kernels.paged_attention import sizes as paged_attention_sizes
from course_lib.kernels.paged_attention.pools import Joined, Pool


def reference(
    q: Float[Array, "*batch H D"],
    pages: Num[Array, "N KH P W"],
    lengths: Int32[Array, "*batch"],
    table: Int32[Array, "*batch M"],
    scales: Float32[Array, "2 KH"] | None = None,
    *,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> Float[Array, "*batch H D"]:
    """What ``paged_attention`` must compute: scores, softmax and the sum of values in f32, rounded once.

    In bf16 the exponentials are rounded before the product as well.
    """
    operands = _operands("reference", q, pages, lengths, table, scales)
    scores = scores_of("reference", operands[0], window, softcap, scale, "highest")
    return paged_attention_plain.plain(*operands, pool=Joined(), scores=scores, like_kernel=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """``pages`` of a block, and how many blocks are in VMEM: one in use, the others on their way.

    They change the speed, not the result. Pages are rounded up until a block has a multiple of 128 tokens.
    """

    pages: int = 16
    slots: int = 3

    def __post_init__(self):
        legal.check(self, pages=1, slots=1)


def paged_attention(
    q: Float[Array, "*batch H D"],
    pages: Num[Array, "N KH P W"],
    lengths: Int32[Array, "*batch"],
    table: Int32[Array, "*batch M"],
    scales: Float32[Array, "2 KH"] | None = None,
    *,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    precision: lax.PrecisionLike = "highest",
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Float[Array, "*batch H D"]:
    """``softmax(scale * q @ k.T) @ v`` for each sequence's one query, q f32 or bf16, and the tokens of its pages.

    H is a multiple of KH: each head of keys serves H / KH heads of queries, which follow one another. W is 2*D:
    ``pages[n, h, p]`` is a key and behind it its value, in the dtype of q or in int8; then ``scales`` has the number
    that each head's keys, and its values, are multiplied by. A sequence has ``lengths`` tokens, up to M*P, in the
    pages that its row of ``table`` names; without tokens it gets zeros. Nothing else is read: entries of the table past
    the end may be any number, and tokens past the end, and pages that nobody names, NaN. A token's page outside of 0 to
    N-1 is the first or the last.
    With a ``window`` its query sees the last ``window`` of its tokens, its own among them. Pages in front of these are
    not read; older tokens of the window's first page are, and a NaN in their values counts. ``softcap`` and ``scale``
    as in ``flash_attention``. In bf16 the exponentials are rounded to bf16 before they are multiplied.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: chosen by ``blocks_for``.
    ``layout`` says how the arrays lie on a mesh with Auto axes; batch and heads may be cut, those of queries and of
    keys alike, and each device then has all pages of its heads.
    Differentiable in q, scales and pages that are not int8, by plain JAX. Runs the kernel on a TPU and plain JAX
    elsewhere. Raises TypeError for what is no array, and ValueError where shapes, dtypes or options do not fit, blocks
    do not fit into VMEM, or one row of the table not into SMEM.
    """
    op, pool = "paged_attention", Joined()
    operands = _operands(op, q, pages, lengths, table, scales)
    return attend(op, pool, operands, scores_of(op, operands[0], window, softcap, scale, precision), blocks, layout)


def _operands(op: str, q, pages, lengths, table, scales) -> tuple[Array, ...]:
    named = {"pages": pages}, {"lengths": lengths}, {"table": table}
    return paged_attention_arguments.operands(op, Joined(), q, *named, scales)


def attend(op: str, pool: Pool, operands: tuple, scores: Scores, blocks: Blocks | None, layout: Layout = None) -> Array:
    """``paged_attention`` of what is checked already, and of any pool, in the name of ``op``."""
    legal.check_kind(op, blocks, Blocks)
    rule = _rule(operands[0].ndim - 2, pool, len(operands))
    operands, cuts = sharding.ready(op, rule, operands, layout)
    return _attend(*operands, pool, scores, blocks, cuts)


def scores_of(op: str, q: Array, window, softcap, scale, precision, called: dict[str, str] | None = None) -> Scores:
    """The options, checked; ``called``: the names of those that ``op`` calls otherwise."""
    options = {"window": window, "softcap": softcap, "scale": scale, "precision": precision, "called": called}
    return attention_arguments.options(op, q, q, causal=window is not None, **options)


def _rule(batch: int, pool: Pool, operands: int, *, backwards: bool = False) -> str:
    """Each device has all pages, and of them its heads. Backwards what each does to a page is added up."""
    r = mesh_rules.letters(batch)
    scales = ["T h"] * (operands - 3 - len(pool.letters))
    ins, out = [f"{r} h D", *pool.letters, r, f"{r} M", *scales], f"{r} h D"
    if not backwards:
        return f"{', '.join(ins)} -> {out}"
    sums = "".join(f" +{letter}" for letter in r.split())
    outs = [out, *(letters + sums for letters in (*pool.letters, *scales))]
    return f"{', '.join([*ins, out])} -> {', '.join(outs)}"


def blocks_for(
    q: Float[Described, "*batch H D"],
    pages: Num[Described, "N KH P W"],
    lengths: Int32[Described, "*batch"],
    table: Int32[Described, "*batch M"],
    scales: Float32[Described, "2 KH"] | None = None,
    *,
    window: int | None = None,
    **options,
) -> Blocks:
    """The blocks that ``paged_attention`` chooses for these arguments, on the chip traced for (a v5e where it is none).

    No other option matters, nor how long the sequences are.
    """
    return _blocks_of(Joined(), [pages], table.shape[-1], window)


def _blocks_of(pool: Pool, pools: list[Described], most: int, window: int | None) -> Blocks:
    pages = paged_attention_sizes.pages_of_a_block(pool, pools, most, window)
    return Blocks(pages=pages, slots=paged_attention_sizes.SLOTS)


@functools.partial(differentiable, settings=4)
def _attend(*args):
    *operands, pool, scores, blocks, cuts = args
    pools = len(pool.letters)
    launch = Op(
        name="paged_attention",
        rule=_rule(operands[0].ndim - 2, pool, len(operands)),
        tpu=fixed(_on_tpu, pool=pool, scores=scores, blocks=blocks),
        plain=fixed(paged_attention_plain.plain, pool=pool, scores=scores),
        leading=(0, 1 + pools, 2 + pools),
        one_at_a_time=True,
    )
    return launch(*operands, cuts=cuts)


def _on_tpu(q, *rest, pool, scores, blocks):
    flat = math.prod(q.shape[:-2])
    if not is_known(flat):
        unknown = f"which needs to know how long an axis of {flat} elements is: lengths and table lie in SMEM."
        warnings.warn(f"paged_attention: plain JAX instead of the kernel, {unknown}", stacklevel=2)
        return paged_attention_plain.plain(q, *rest, pool=pool, scores=scores)
    count = len(pool.letters)
    pools, (lengths, table, *scales) = list(rest[:count]), rest[count:]
    page, most = pool.shape(*pools)[1], table.shape[-1]
    given, blocks = blocks, blocks or _blocks_of(pool, pools, most, scores.window)
    step = paged_attention_sizes.step_of(page)
    pages = pl.cdiv(min(blocks.pages, paged_attention_sizes.most_read(most, page, scores.window)), step) * step
    needed = paged_attention_sizes.vmem_bytes(pool, pools, q, pages, blocks.slots)
    if given is None:
        paged_attention_sizes.check_page(page, needed)
    check_fits(blocks, needed)
    how = {"pool": pool, "scores": scores, "count": pages, "slots": blocks.slots, "vmem_bytes": needed}
    run, each = functools.partial(paged_attention_kernel.on_tpu, **how), paged_attention_sizes.sequences(most)
    rows, lengths, table = q.reshape(flat, *q.shape[-2:]), lengths.reshape(flat), table.reshape(flat, most)
    if flat <= each:
        return run(rows, pools, lengths, table, *scales).reshape(q.shape)
    parts = [slice(first, first + each) for first in range(0, flat, each)]
    return jnp.concatenate([run(rows[at], pools, lengths[at], table[at], *scales) for at in parts]).reshape(q.shape)


def _forward(*args):
    return _attend(*args), args[:-4]


def _backward(pool, scores, _, cuts, saved, g):
    """Of q, of the pages unless they are int8, and of scales."""
    find = fixed(paged_attention_plain.gradients, pool=pool, scores=scores)
    rule = _rule(saved[0].ndim - 2, pool, len(saved), backwards=True)
    dq, *found = Op(name="gradient of paged_attention", rule=rule, tpu=find, plain=find)(*saved, g, cuts=cuts)
    pools = len(pool.letters)
    return dq, *found[:pools], None, None, *found[pools:]


_attend.defvjp(_forward, _backward)
