"""``flash_attention`` for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU.

Queries come in S rows, keys and values in T, heads in front of them: an array of (batch, heads, S, D). There may be
fewer KV heads than of queries; each then serves as many query heads, which follow one another.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float, Int32
from course_lib.kernels.attention import arguments as attention_arguments
from course_lib.kernels.attention import blocks as attention_blocks
from course_lib.kernels.attention import mosaic_gpu, triton
from course_lib.kernels.attention.backward import launch_gradient
from course_lib.kernels.attention.kernel import Blocks, launch, plain
from course_lib.kernels.attention.scores import gradient_to_bf16, to_bf16, which_count
from course_lib.kernels.attention.transposed import launch_transposed
from course_lib.kernels.common import chip, legal
from course_lib.kernels.common.compiler_params import vmem_limit
from course_lib.kernels.common.symbolic import is_known
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
    """Return what ``flash_attention`` must compute: scores, softmax and the sum of values in f32, rounded once.

    In bf16 the exponentials are rounded before the product as well, and in the backward pass the gradients of scores.
    """
    q, k, v, *ids = attention_arguments.operands("reference", q, k, v, segments)
    options = {"causal": causal, "window": window, "softcap": softcap, "scale": scale, "precision": "highest"}
    scores = attention_arguments.options("reference", q, k, **options)
    how = {"rounded": (to_bf16, gradient_to_bf16)} if q.dtype == jnp.bfloat16 else {}
    return _plain(q, k, v, *ids, scores=scores, **how)[0]


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
    """Return ``softmax(scale * q @ k.T) @ v`` for q (..., H, S, D), k (..., G, T, D), v (..., G, T, E), f32 or bf16.

    H is a multiple of G: each KV head serves H / G query heads. The heads may be missing.
    ``causal``: a query sees the keys up to its own place, and with a ``window`` that many of these. ``segments``: int32
    of shape (..., S), or a tuple of two such arrays for S and for T. A query sees the keys with its own number; one
    that sees none gets zeros. ``softcap``: a score s becomes ``softcap * tanh(s / softcap)``. ``scale`` None: D**-0.5.
    In bf16 the exponentials, and in the backward pass the gradients of scores, are rounded to bf16 before they are
    multiplied; the backward pass also uses the rounded o in each query's sum of o * do.
    ``precision`` is for f32 on a TPU, as in ``matmul``. ``blocks`` None: those of ``blocks_for``. ``layout`` says how
    q, k, v and segments lie on a mesh with Auto axes; batch and heads may be cut.
    Differentiable in q, k and v. Runs the kernel on a TPU and plain JAX elsewhere.
    Raises ValueError if shapes, dtypes or options do not fit, or blocks do not fit into VMEM.
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
    """Return the blocks chosen for these arguments, and for the chip that is traced for (a v5e if there is none).

    Of the options only ``causal`` matters.
    """
    return attention_blocks.fastest(q, k, v, causal)


def _rule(rank: int, segments: bool, *, backwards: bool = False) -> str:
    batch = " ".join(f"r{axis}" for axis in range(rank - 3)) + " h" * (rank > 2)
    before = f"{batch} S E, {batch} S, {batch} S E, " if backwards else ""
    arrays = f"{batch} S D, {batch} T D, {batch} T E"
    ids = ", {0} S, {0} T".format(batch.removesuffix("h")) if segments else ""
    return f"{before}{arrays}{ids} -> " + (arrays if backwards else f"{batch} S E, {batch} S")


@functools.partial(differentiable, settings=3)
def _flash(*args):
    return _with_logarithms(*args)[0]


def _with_logarithms(*args) -> tuple[Array, Array]:
    """Return the result, and log2 of each query's sum of exponentials."""
    *operands, scores, blocks, cuts = args
    op = Op(
        name="flash_attention",
        rule=_rule(operands[0].ndim, len(operands) > 3),
        tpu=fixed(_on_tpu, scores=scores, blocks=blocks),
        plain=fixed(_plain, scores=scores),
        gpu=fixed(mosaic_gpu.on_gpu, scores=scores),
        portable=fixed(triton.on_gpu, scores=scores),
        leading=tuple(range(len(operands))),
        dtypes=(operands[0].dtype, jnp.dtype(jnp.float32)),
    )
    return op(*operands, cuts=cuts)


def _plain(q, k, v, *segments, scores, **how):
    return plain(q, k, v, which_count(q, k, segments, scores), scores=scores, **how)


def _on_tpu(q, k, v, *segments, scores, blocks):
    tiles, most, needed = attention_blocks.forward(q, k, v, scores, blocks)
    kv_heads = math.prod(k.shape[:-2])
    ids, each = _ids(segments), kv_heads // math.prod(segments[0].shape[:-1]) if segments else kv_heads
    heads = max(n for n in range(1, most + 1) if each % n == 0) if is_known(each) else 1
    of_ids = tiles.of_segments(heads, each) if segments else ()
    run = launch_transposed if attention_blocks.is_transposed(k, v) else launch
    how = {"tiles": tiles, "heads": heads, "vmem_limit_bytes": vmem_limit(needed)}
    return run(q, k, v, *ids, of_ids=of_ids, scores=scores, **how)


def _ids(segments: tuple[Array, ...]) -> list[Array]:
    return [ids.reshape(-1, 1, ids.shape[-1]) for ids in segments]


def _forward(*args):
    o, lse = _with_logarithms(*args)
    return o, (args[:-3], o, lse)


def _backward(scores, blocks, cuts, saved, g):
    operands, o, lse = saved
    op = Op(
        name="gradient of flash_attention",
        rule=_rule(operands[0].ndim, len(operands) > 3, backwards=True),
        tpu=fixed(_gradient_on_tpu, scores=scores),
        plain=fixed(_plain_gradient, scores=scores),
        leading=tuple(range(len(operands) + 3)),
        dtypes=tuple(operand.dtype for operand in operands[:3]),
    )
    return *op(o, lse, g, *operands, cuts=cuts), *[None] * (len(operands) - 3)


_flash.defvjp(_forward, _backward)


def _plain_gradient(o, lse, do, q, k, v, *segments, scores):
    return jax.vjp(lambda *arrays: _plain(*arrays, *segments, scores=scores)[0], q, k, v)[1](do)


def _gradient_on_tpu(o, lse, do, q, k, v, *segments, scores):
    heads = math.prod(k.shape[:-2])
    group, apart = math.prod(q.shape[:-2]) // heads, 1
    tiles, needed = attention_blocks.gradient(q, k, v, group, scores)
    if needed > chip.usable_vmem_bytes():
        apart = group  # each head of a group has a dk and a dv of its own
        tiles, needed = attention_blocks.gradient(q, k, v, 1, scores)
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"flash_attention: the gradient keeps dq of all {q.shape[-2]} positions of a head in VMEM, "
            f"{needed >> 20} MiB with the rest, and the chip has {chip.vmem_bytes() >> 20} MiB. "
            "Try parts of q, one after another."
        )
    ids = _ids(segments)
    of_ids = tiles.of_segments(1, heads * apart // ids[0].shape[0]) if ids else ()
    how = {"scores": scores, "tiles": tiles, "apart": apart, "vmem_limit_bytes": vmem_limit(needed)}
    return launch_gradient(q, k, v, o, lse, do, *ids, of_ids=of_ids, **how)
