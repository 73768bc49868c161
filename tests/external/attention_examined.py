"""Our attention and grouped products behind the interfaces that other people's examiners call."""

import jax.numpy as jnp

from course_lib.kernels import attention as ours
from course_lib.kernels import grouped


def attention(q, k, v, *, bias=None, mask=None, is_causal=False, logits_soft_cap=None, precision=None):
    """As ``tokamax.dot_product_attention``: (..., positions, heads, D); a mask is a causal one, or lengths."""
    assert bias is None
    how = {"causal": is_causal, "softcap": logits_soft_cap}
    if type(mask).__name__ == "CausalMask":
        how |= {"causal": True, "window": mask.window_size}
    elif mask is not None:
        how["segments"] = _segments(mask, q, k)
    q, k, v = (jnp.swapaxes(x, -2, -3) for x in (q, k, v))
    return jnp.swapaxes(ours.flash_attention(q, k, v, **how), -2, -3)


def _segments(mask, q, k):
    """Lengths of queries and of keys, (batch, 1, 1), as numbers of segments: who is past the end belongs to nobody."""
    ends = ((mask.q_end, q, 1), (mask.k_end, k, 2))
    return tuple(
        jnp.where(jnp.arange(x.shape[-3]) < end.reshape(-1, 1), 0, nobody).astype(jnp.int32) for end, x, nobody in ends
    )


def ragged_dot(lhs, rhs, group_sizes, *, activation=None, preferred_element_type=None, precision=None):
    """As ``tokamax.ragged_dot``: products and sums in float32, whatever is asked for."""
    sizes = jnp.asarray(group_sizes).astype(jnp.int32)
    out = grouped.grouped_matmul(lhs.astype(jnp.float32), rhs.astype(jnp.float32), sizes)
    out = out if activation is None else activation(out)
    return out.astype(preferred_element_type or lhs.dtype)
