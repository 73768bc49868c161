"""The names of ``torch_xla.experimental.custom_kernel`` in PyTorch/XLA 2.9, for code that was written for it.

They take the same arguments in the same order, for tensors on the CPU, and what they return is differentiable if the
kernel is. Each has one keyword more, ``mode``, which is that of ``operator``.
"""

from collections.abc import Callable

from course_lib.frameworks.torch_modes import Mode, check_mode
from course_lib.frameworks.torch_operator import operator
from course_lib.frameworks.torch_tensors import torch
from course_lib.kernels import attention, paged_attention_wrappers


def jax_import_guard() -> None:
    """Return at once. In PyTorch/XLA this takes the TPU before JAX does; here PyTorch does not want it."""


def make_kernel_from_pallas(
    kernel: Callable, output_shape_dtype_fn: Callable, *, mode: Mode = "interpreted"
) -> Callable:
    """Return ``kernel``, a JAX function that calls a Pallas kernel, as a function of tensors.

    ``output_shape_dtype_fn`` gets the same arguments and returns a list with the shape and the dtype, as PyTorch names
    it, of each result. The returned function gives one tensor or a tuple of them, and passes on to ``kernel`` whatever
    is no tensor. By default it interprets the kernel, because a kernel for a TPU does not run on a CPU otherwise.
    Raises ValueError if the results are not what ``output_shape_dtype_fn`` said, and TypeError if it returns no list.
    """
    name = getattr(kernel, "__name__", "kernel").strip("<>")
    check_mode("make_kernel_from_pallas", mode)
    made = {}

    def wrapped_kernel(*args, static_argnums=None, static_argnames=None, **kwargs):
        said = output_shape_dtype_fn(*args)
        if not isinstance(said, list):
            raise TypeError(
                f"make_kernel_from_pallas: output_shape_dtype_fn returned {said!r}; it must return a list with a pair "
                "(shape, dtype) for each result. Try [(x.shape, x.dtype)]."
            )
        places = tuple(place for place, arg in enumerate(args) if torch.is_tensor(arg))
        static = {place: arg for place, arg in enumerate(args) if place not in places}
        key = repr((len(args), static, sorted(kwargs.items()), len(said)))
        if key not in made:
            made[key] = operator(
                f"course_lib_xla::{name}_{id(made):x}_{len(made)}",
                _of_tensors(kernel, places, static, kwargs),
                [f"arg{place}" for place in places],
                results=len(said),
                mode=mode,
            )
        results = made[key](*(args[place] for place in places))
        found = [(tuple(one.shape), one.dtype) for one in ((results,) if len(said) == 1 else results)]
        if found != (wanted := [(tuple(shape), dtype) for shape, dtype in said]):
            raise ValueError(f"make_kernel_from_pallas: {name} returned {found}; output_shape_dtype_fn said {wanted}.")
        return results

    return wrapped_kernel


def _of_tensors(kernel: Callable, places: tuple[int, ...], static: dict, kwargs: dict) -> Callable:
    """Return ``kernel`` as a function of its tensors, which stand at ``places`` among its arguments."""

    def fn(*arrays):
        args = static | dict(zip(places, arrays, strict=True))
        return kernel(*(args[place] for place in sorted(args)), **kwargs)

    return fn


def _flash(q, k, v, *segments, causal, sm_scale):
    return attention.flash_attention(q, k, v, causal=causal, segments=segments or None, scale=sm_scale)


def _paged(*args, soft_cap):
    return paged_attention_wrappers.paged_attention(*args, attn_logits_soft_cap=soft_cap or None)


_FLASH = {"causal": False, "sm_scale": 1.0}
_IDS = ("q_segment_ids", "kv_segment_ids")
_flash_attention = operator("course_lib_xla::flash_attention", _flash, ("q", "k", "v"), options=_FLASH)
_flash_attention_of_segments = operator(
    "course_lib_xla::flash_attention_of_segments", _flash, ("q", "k", "v", *_IDS), options=_FLASH
)
_paged_attention = operator(
    "course_lib_xla::paged_attention",
    _paged,
    ("q", "k_pages", "v_pages", "lengths", "page_indices"),
    options={"soft_cap": 0.0},
)


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    q_segment_ids: torch.Tensor | None = None,
    kv_segment_ids: torch.Tensor | None = None,
    sm_scale: float = 1.0,
    *,
    ab: torch.Tensor | None = None,
    partition_spec=None,
    mesh=None,
    mode: Mode = "plain",
) -> torch.Tensor:
    """Return ``softmax(sm_scale * q @ k.T) @ v`` for q, k and v of shape (batch, heads, positions, size).

    The segment ids are int32 of shape (batch, positions); a query sees the keys with its own number. float32 or
    bfloat16. Differentiable in q, k and v. Not supported: a bias ``ab``, and a ``partition_spec`` on a ``mesh``.
    Raises ValueError for these, for one of the two segment ids without the other, and as ``flash_attention`` does.
    """
    for name, given in (("ab", ab), ("partition_spec", partition_spec), ("mesh", mesh)):
        if given is not None:
            raise ValueError(
                f"flash_attention: {name} is not supported; it must be None. Try "
                "torch.nn.functional.scaled_dot_product_attention for a bias, and jax.sharding for several devices."
            )
    if (q_segment_ids is None) != (kv_segment_ids is None):
        missing = "kv_segment_ids" if kv_segment_ids is None else "q_segment_ids"
        raise ValueError(f"flash_attention: {missing} is None and the other ids are not; hand over both, or neither.")
    how = {"causal": causal, "sm_scale": float(sm_scale), "mode": mode}
    if q_segment_ids is None:
        return _flash_attention(q, k, v, **how)
    return _flash_attention_of_segments(q, k, v, q_segment_ids, kv_segment_ids, **how)


def paged_attention(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    lengths: torch.Tensor,
    page_indices: torch.Tensor,
    pages_per_compute_block: int,
    megacore_mode: str | None = None,
    attn_logits_soft_cap: float | None = None,
    *,
    mode: Mode = "plain",
) -> torch.Tensor:
    """Return the attention of one query for each of B sequences, q (B, heads, size), over keys and values in pages.

    The pages have shape (KV heads, pages, tokens, size); ``lengths`` (B,) and ``page_indices`` (B, most pages) are
    int32. Scores are not scaled: pass ``q * size**-0.5``. ``pages_per_compute_block`` and ``megacore_mode`` change no
    result and are ignored. Raises ValueError for another ``megacore_mode``, and as
    ``course_lib.kernels.paged_attention_wrappers.paged_attention`` does.
    """
    if megacore_mode not in ("kv_head", "batch", None):
        raise ValueError(
            f"paged_attention: megacore_mode is {megacore_mode!r}; it may be 'kv_head', 'batch' or None. Try None."
        )
    soft_cap = 0.0 if attn_logits_soft_cap is None else float(attn_logits_soft_cap)
    return _paged_attention(q, k_pages, v_pages, lengths, page_indices, soft_cap=soft_cap, mode=mode)
