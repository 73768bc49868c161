"""``paged_attention`` under the names, with the arguments and the pools of other libraries.

The kernel reads each of these pools as it is, so no pool is copied if XLA stores it that way: if D is a multiple of 128
(see docs/kernels.md). The docstrings say which of their arguments are not supported; those are refused by name.
"""

import numbers

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from course_lib.arrays import Array, Float, Float32, Int32, Num
from course_lib.kernels.common import arguments
from course_lib.kernels.common.legal import shown
from course_lib.kernels.paged_attention import arguments as paged_attention_arguments
from course_lib.kernels.paged_attention import attend, scores_of
from course_lib.kernels.paged_attention.pools import Apart, ByToken


def paged_attention(
    q: Float[Array, "B H D"],
    k_pages: Num[Array, "KH N P D"],
    v_pages: Num[Array, "KH N P D"],
    lengths: Int32[Array, " B"],
    page_indices: Int32[Array, "B M"],
    pages_per_compute_block: int | None = None,
    megacore_mode: str | None = None,
    attn_logits_soft_cap: float | None = None,
    *,
    mask_value: float | None = None,
    inline_seq_dim: bool = True,
) -> Float[Array, "B H D"]:
    """Compute what ``torch_xla.experimental.custom_kernel`` and ``jax.experimental.pallas.ops.tpu.paged_attention`` do.

    Like theirs it does not scale: pass ``q * D ** -0.5``. ``pages_per_compute_block``, ``megacore_mode``,
    ``mask_value`` and ``inline_seq_dim`` change no result, and are ignored. A sequence of no tokens gets zeros.
    Not supported: pages in int8 or f8, or as QuantizedTensor, with a scale for each token.
    Raises TypeError or ValueError.
    """
    op, pool = "paged_attention", Apart()
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        if hasattr(pages, "weight") and hasattr(pages, "scales"):
            raise TypeError(
                f"{op}: {name} is a QuantizedTensor, with a scale for each token; it must be an array. Try "
                "unquantize_from_int8, or int8 with a scale for each head, as paged_attention.paged_attention has it."
            )
    pools, lengths, table = (
        {"k_pages": k_pages, "v_pages": v_pages},
        {"lengths": lengths},
        {"page_indices": page_indices},
    )
    arguments.arrays(op, arguments.FLOATS, **pools)
    operands = paged_attention_arguments.operands(op, pool, q, pools, lengths, table)
    called = {"softcap": "attn_logits_soft_cap"}
    scores = scores_of(op, operands[0], None, attn_logits_soft_cap, 1.0, "highest", called)
    return attend(op, pool, operands, scores, None)


def ragged_paged_attention(
    q: Float[Array, "T H D"],
    kv_pages: Num[Array, "N P rows D"],
    kv_lens: Int32[Array, " S"],
    page_indices: Int32[Array, "S M"],
    cu_q_lens: Int32[Array, " _"],
    num_seqs: Int32[Array, "1"],
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> Float[Array, "T H D"]:
    """Compute what vLLM asks for on a TPU, and ``jax.experimental.pallas.ops.tpu.ragged_paged_attention`` computes.

    The queries of all sequences follow one another: those of sequence s are rows ``cu_q_lens[s]`` to
    ``cu_q_lens[s + 1]``, for the last of its ``kv_lens[s]`` tokens. Each sees the tokens up to its own, or with
    ``sliding_window`` that many of these. It is meant for decoding: every query reads the pages of its sequence by
    itself, so a long prompt is right, but slow. Rows past the last sequence get zeros. ``k_scale`` and ``v_scale`` are
    for int8 pages.
    ``mask_value``, sizes of blocks and ``vmem_limit_bytes`` change no result, and are ignored. Not supported: f8;
    writing the new tokens into the pages, as the kernel of vLLM's third version does.
    Raises TypeError or ValueError.
    """
    op, pool = "ragged_paged_attention", ByToken()
    given = {"kv_lens": kv_lens, "page_indices": page_indices, "cu_q_lens": cu_q_lens, "num_seqs": num_seqs}
    kv_lens, page_indices, cu_q_lens, num_seqs = arguments.arrays(op, ("int32",), **given)
    (q,) = arguments.arrays(op, arguments.FLOATS, q=q)
    if (
        not kv_lens.size
        or q.ndim != 3
        or page_indices.ndim != 2
        or cu_q_lens.shape != (kv_lens.size + 1,)
        or num_seqs.size != 1
    ):
        shapes = ", ".join(f"{name} {x.shape}" for name, x in (given | {"q": q}).items())
        raise ValueError(f"{op}: {shapes}; they must be (S,), (S, M), (S + 1,), (1,) and (T, H, D), S 1 or more.")
    row, lengths = _of_each_query(q.shape[0], kv_lens, cu_q_lens, num_seqs.reshape(()))
    (kv_pages,) = arguments.arrays(op, arguments.FACTORS, kv_pages=kv_pages)
    scales = None
    given = {"k_scale": k_scale, "v_scale": v_scale}
    if kv_pages.dtype == jnp.int8:
        of_all = jnp.stack([_scale(op, name, scale) for name, scale in given.items()])
        scales = jnp.broadcast_to(of_all[:, None], (2, kv_pages.shape[2] // 2 if kv_pages.ndim == 4 else 0))
    for name, scale in given.items():
        if scales is None and scale is not None:
            raise ValueError(
                f"{op}: {name} is {shown(scale)}, and kv_pages are {kv_pages.dtype}; it is for int8 pages. "
                f"Try {name}=None."
            )
    batch = {"kv_lens": lengths}, {"page_indices": page_indices[row]}
    operands = paged_attention_arguments.operands(op, pool, q, {"kv_pages": kv_pages}, *batch, scales)
    called = {"window": "sliding_window", "softcap": "soft_cap", "scale": "sm_scale"}
    scores = scores_of(op, q, sliding_window, soft_cap, sm_scale, "highest", called)
    return attend(op, pool, operands, scores, None)


def _scale(op: str, name: str, scale) -> Float32[Array, ""]:
    """Return the factor for keys or values in int8; 1 for None. Raise ValueError."""
    number = 1.0 if scale is None else scale
    is_array = isinstance(number, jax.Array | np.generic | np.ndarray) and number.shape == ()
    if isinstance(number, bool) or not (is_array or isinstance(number, numbers.Real)):
        raise ValueError(f"{op}: {name} is {shown(scale)}; it may be a number, one for all heads, or None. Try 1.0.")
    return jnp.float32(number)


def _of_each_query(count: int, kv_lens: Array, cu_q_lens: Array, num_seqs: Array) -> tuple[Array, Array]:
    """Return each query's sequence, and how many tokens it sees: none if it belongs to no sequence."""
    query, sequence = jnp.arange(count, dtype=jnp.int32), jnp.arange(kv_lens.size, dtype=jnp.int32)
    ends = jnp.where(sequence < num_seqs, cu_q_lens[1:], jnp.iinfo(jnp.int32).max)  # behind them stands anything
    sequence_of = jnp.sum(ends <= query[:, None], axis=1, dtype=jnp.int32)  # behind all of them: kv_lens.size
    row = jnp.minimum(sequence_of, kv_lens.size - 1)
    behind = cu_q_lens[1:][row] - 1 - query
    somebodys = sequence_of < jnp.minimum(num_seqs, kv_lens.size)
    return row, lax.select(somebodys, kv_lens[row] - behind, jnp.zeros_like(row))
