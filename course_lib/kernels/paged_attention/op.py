"""``paged_attention`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU.

``attend`` takes any pool: ``paged_attention_wrappers`` calls it with those that lie as in other libraries.
"""

import functools
import math
import warnings

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float, Float32, Int32, Num
from course_lib.kernels.attention import arguments as attention_arguments
from course_lib.kernels.attention.scores import Scores, to_bf16
from course_lib.kernels.common import legal
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.common.symbolic import is_known
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.paged_attention import arguments as paged_attention_arguments
from course_lib.kernels.paged_attention import blocks as paged_attention_blocks
from course_lib.kernels.paged_attention.kernel import Blocks, launch, plain
from course_lib.kernels.paged_attention.pools import Apart, ByToken, Joined, Pool

_LETTERS = {Joined: ("N h P W",), Apart: ("h N P D", "h N P D"), ByToken: ("N P h D",)}  # of their axes, in a rule


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
    """Return what ``paged_attention`` must compute: scores, softmax and the sum of values in f32, rounded once.

    In bf16 the exponentials are rounded before the product as well.
    """
    operands = _operands("reference", q, pages, lengths, table, scales)
    scores = scores_of("reference", operands[0], window, softcap, scale, "highest")
    how = {"rounded": to_bf16} if operands[0].dtype == jnp.bfloat16 else {}
    return _plain(*operands, pool=Joined(), scores=scores, **how)


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
    """Return ``softmax(scale * q @ k.T) @ v`` for each sequence's one query, f32 or bf16, and the tokens of its pages.

    H is a multiple of KH: each KV head serves H / KH query heads, which follow one another. W is 2*D:
    ``pages[n, h, p]`` is a key and behind it its value, in the dtype of q or in int8; then ``scales`` has the number
    that each head's keys, and its values, are multiplied by. A sequence has ``lengths`` tokens, up to M*P, in the
    pages that its row of ``table`` names; without tokens it gets zeros. Nothing else is read: entries of the table past
    the end may be any number, and tokens past the end, and pages that no row names, NaN. A page number outside of 0 to
    N-1 stands for the first page or the last.
    With a ``window`` the query sees the last ``window`` of its tokens, its own among them. Pages in front of these are
    not read; older tokens of the window's first page are, and a NaN in their values counts. ``softcap`` and ``scale``
    as in ``flash_attention``. In bf16 the exponentials are rounded to bf16 before they are multiplied.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: those of ``blocks_for``.
    ``layout`` says how the arrays lie on a mesh with Auto axes; batch and heads may be cut, those of queries and of
    keys alike, and each device then has all pages of its heads.
    Differentiable in q, scales and pages that are not int8, by plain JAX. Runs the kernel on a TPU and plain JAX
    elsewhere. Raises TypeError for what is no array, and ValueError if shapes, dtypes or options do not fit, blocks do
    not fit into VMEM, or one row of the table does not fit into SMEM.
    """
    op, pool = "paged_attention", Joined()
    operands = _operands(op, q, pages, lengths, table, scales)
    return attend(op, pool, operands, scores_of(op, operands[0], window, softcap, scale, precision), blocks, layout)


def _operands(op: str, q, pages, lengths, table, scales) -> tuple[Array, ...]:
    named = {"pages": pages}, {"lengths": lengths}, {"table": table}
    return paged_attention_arguments.operands(op, Joined(), q, *named, scales)


def attend(op: str, pool: Pool, operands: tuple, scores: Scores, blocks: Blocks | None, layout: Layout = None) -> Array:
    """Return ``paged_attention`` of checked operands, for any pool, in the name of ``op``."""
    legal.check_kind(op, blocks, Blocks)
    rule = _rule(operands[0].ndim - 2, pool, len(operands))
    operands, cuts = sharding.ready(op, rule, operands, layout)
    return _attend(*operands, pool, scores, blocks, cuts)


def scores_of(op: str, q: Array, window, softcap, scale, precision, called: dict[str, str] | None = None) -> Scores:
    """Return the options, checked; ``called`` has the names of those that ``op`` calls otherwise."""
    options = {"window": window, "softcap": softcap, "scale": scale, "precision": precision, "called": called}
    return attention_arguments.options(op, q, q, causal=window is not None, **options)


def _rule(batch: int, pool: Pool, operands: int, *, backwards: bool = False) -> str:
    """Return the rule for a mesh: each device has its heads of all pages. Gradients of pages are added up."""
    r = mesh_rules.letters(batch)
    pools = _LETTERS[type(pool)]
    scales = ["T h"] * (operands - 3 - len(pools))
    ins, out = [f"{r} h D", *pools, r, f"{r} M", *scales], f"{r} h D"
    if not backwards:
        return f"{', '.join(ins)} -> {out}"
    sums = "".join(f" +{letter}" for letter in r.split())
    outs = [out, *(letters + sums for letters in (*pools, *scales))]
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
    """Return the blocks chosen for these arguments, and for the chip that is traced for (a v5e if there is none).

    No other option matters, nor how long the sequences are.
    """
    return paged_attention_blocks.fastest(Joined(), [pages], table.shape[-1], window)


@functools.partial(differentiable, settings=4)
def _attend(*args):
    *operands, pool, scores, blocks, cuts = args
    pools = len(_LETTERS[type(pool)])
    op = Op(
        name="paged_attention",
        rule=_rule(operands[0].ndim - 2, pool, len(operands)),
        tpu=fixed(_on_tpu, pool=pool, scores=scores, blocks=blocks),
        plain=fixed(_plain, pool=pool, scores=scores),
        leading=(0, 1 + pools, 2 + pools),
        one_at_a_time=True,
    )
    return op(*operands, cuts=cuts)


def _plain(q, *rest, pool, scores, **how):
    count = len(_LETTERS[type(pool)])
    return plain(q, rest[:count], *rest[count:], pool=pool, scores=scores, **how)


def _on_tpu(q, *rest, pool, scores, blocks):
    flat = math.prod(q.shape[:-2])
    if not is_known(flat):
        unknown = f"which needs to know how long an axis of {flat} elements is: lengths and table lie in SMEM."
        warnings.warn(f"paged_attention: plain JAX instead of the kernel, {unknown}", stacklevel=2)
        return _plain(q, *rest, pool=pool, scores=scores)
    count = len(_LETTERS[type(pool)])
    pools, (lengths, table, *scales) = rest[:count], rest[count:]
    page, most = pool.shape(*pools)[1], table.shape[-1]
    given, blocks = blocks, blocks or paged_attention_blocks.fastest(pool, pools, most, scores.window)
    pages = paged_attention_blocks.pages_of(blocks, page, most, scores.window)
    needed = paged_attention_blocks.vmem_bytes(pool, pools, q, pages, blocks.slots)
    if given is None:
        paged_attention_blocks.check_page(page, needed)
    check_fits(blocks, needed)
    how = {"pool": pool, "scores": scores, "count": pages, "slots": blocks.slots}
    run = functools.partial(launch, **how, vmem_limit_bytes=vmem_limit(needed))
    each = paged_attention_blocks.sequences(most)
    rows, lengths, table = q.reshape(flat, *q.shape[-2:]), lengths.reshape(flat), table.reshape(flat, most)
    if flat <= each:
        return run(rows, pools, lengths, table, *scales).reshape(q.shape)
    parts = [slice(first, first + each) for first in range(0, flat, each)]
    return jnp.concatenate([run(rows[at], pools, lengths[at], table[at], *scales) for at in parts]).reshape(q.shape)


def _forward(*args):
    return _attend(*args), args[:-4]


def _backward(pool, scores, _, cuts, saved, g):
    """Return the gradients of q, of the pages unless they are int8, and of scales."""
    find = fixed(_gradients, pool=pool, scores=scores)
    rule = _rule(saved[0].ndim - 2, pool, len(saved), backwards=True)
    pools = len(_LETTERS[type(pool)])
    dtypes = tuple(operand.dtype for operand in (*saved[: 1 + pools], *saved[3 + pools :]))
    op = Op(name="gradient of paged_attention", rule=rule, tpu=find, plain=find, dtypes=dtypes)
    dq, *found = op(*saved, g, cuts=cuts)
    return dq, *found[:pools], None, None, *found[pools:]


_attend.defvjp(_forward, _backward)


def _gradients(*args, pool, scores):
    """Return the gradients of q, of the pool and of scales, from the operands and the result's; zeros for int8."""
    *operands, g = args
    pools = len(_LETTERS[type(pool)])
    at = [0, *range(1, 1 + pools), *range(3 + pools, len(operands))]
    moving = [n for n in at if jnp.issubdtype(operands[n].dtype, jnp.floating)]

    def of_moving(*moved):
        changed = dict(zip(moving, moved, strict=True))
        return _plain(*(changed.get(n, operand) for n, operand in enumerate(operands)), pool=pool, scores=scores)

    pulled = dict(zip(moving, jax.vjp(of_moving, *(operands[n] for n in moving))[1](g), strict=True))
    return tuple(pulled.get(n, jnp.zeros(operands[n].shape, operands[n].dtype)) for n in at)
