"""The names of PyTorch/XLA: their signatures, the example of its page, and values beside PyTorch's own attention.

Skipped where PyTorch, an extra of several GB, is not installed.
"""

import inspect

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from paged_pools import case

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from test_paged_attention import reference  # noqa: E402
from test_paged_attention_wrappers import apart  # noqa: E402
from test_torch import leaves, near, normal  # noqa: E402

from course_lib.frameworks import torch_xla  # noqa: E402
from course_lib.kernels import elementwise  # noqa: E402

# As in torch_xla/experimental/custom_kernel.py of PyTorch/XLA 2.9; ours have mode= on top.
SIGNATURES = {
    "jax_import_guard": "",
    "make_kernel_from_pallas": "kernel output_shape_dtype_fn",
    "flash_attention": "q k v causal q_segment_ids kv_segment_ids sm_scale ab partition_spec mesh",
    "paged_attention": "q k_pages v_pages lengths page_indices pages_per_compute_block megacore_mode "
    "attn_logits_soft_cap",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_arguments_stand_where_they_stood(name):
    parameters = list(inspect.signature(getattr(torch_xla, name)).parameters)
    assert [one for one in parameters if one != "mode"] == SIGNATURES[name].split()


# The kernel of the page "Custom Kernels via Pallas", written before it met PyTorch.
def add_vectors_kernel(x_ref, y_ref, o_ref):
    x, y = x_ref[...], y_ref[...]
    o_ref[...] = x + y


@jax.jit
def add_vectors(x: jax.Array, y: jax.Array) -> jax.Array:
    return pl.pallas_call(add_vectors_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def test_the_example_of_their_page():
    assert torch_xla.jax_import_guard() is None
    q, k = normal(3, 2, 128, 4), normal(3, 2, 4, 128).reshape(3, 2, 128, 4)
    pt_kernel = torch_xla.make_kernel_from_pallas(add_vectors, lambda x, y: [(x.shape, x.dtype)])
    assert torch.equal(pt_kernel(q, k), q + k)
    assert torch.equal(pt_kernel(q[0], k[0]), q[0] + k[0])


def test_what_is_no_tensor_is_passed_on_and_several_results_return():
    def both(x, factor, *, more):
        return factor * x, x + more

    fn = torch_xla.make_kernel_from_pallas(both, lambda x, factor: [(x.shape, x.dtype)] * 2)
    x = normal(4, 5)
    for factor in (2, 3):
        scaled, moved = fn(x, factor, more=factor, static_argnums=(1,))
        assert torch.equal(scaled, factor * x) and torch.equal(moved, x + factor)


def test_a_kernel_with_a_gradient_keeps_it():
    multiply = torch_xla.make_kernel_from_pallas(elementwise.multiply, lambda x, y: [(x.shape, x.dtype)])
    x, y = leaves(normal(8, 128), normal(8, 128) + 1)
    multiply(x, y).sum().backward()
    near([x.grad, y.grad], [y.detach(), x.detach()])


SEGMENTS = torch.tensor([[0] * 20 + [1] * 44, [0] * 64], dtype=torch.int32)


@pytest.mark.parametrize("causal, segments", [(False, None), (True, SEGMENTS)], ids=["whole", "causal segments"])
def test_flash_attention_is_pytorchs(causal, segments):
    shape = (2, 3, 64, 32)
    ours, theirs = (leaves(*(normal(*shape) * factor for factor in (1, 2, 3))) for _ in range(2))
    got = torch_xla.flash_attention(*ours, causal, segments, segments, sm_scale=0.2)
    seen = torch.ones(64, 64, dtype=torch.bool).tril() if causal else torch.ones(64, 64, dtype=torch.bool)
    mask = seen if segments is None else seen & (segments[:, None, :, None] == segments[:, None, None])
    want = torch.nn.functional.scaled_dot_product_attention(*theirs, attn_mask=mask, scale=0.2)
    for one in (got, want):
        one.backward(normal(*shape))
    near([got, *(one.grad for one in ours)], [want, *(one.grad for one in theirs)])


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_paged_attention_is_the_reference(softcap):
    q, pages, lengths, table = case([20, 137])
    given = [torch.from_numpy(np.array(one)) for one in (q, *apart(pages), lengths, table)]
    got = torch_xla.paged_attention(*given, 4, megacore_mode=None, attn_logits_soft_cap=softcap)
    want = reference(q, pages, lengths, table, scale=1.0, softcap=softcap)
    near([got], [torch.from_numpy(np.array(want))])


X = torch.ones(1, 1, 8, 128)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: torch_xla.flash_attention(X, X, X, ab=X), ValueError, "flash_attention: ab is not supported; it must"),
        (lambda: torch_xla.flash_attention(X, X, X, mesh="d"), ValueError, "flash_attention: mesh is not supported"),
        (
            lambda: torch_xla.flash_attention(X, X, X, False, SEGMENTS),
            ValueError,
            "kv_segment_ids is None and the other ids are not; hand over both",
        ),
        (
            lambda: torch_xla.paged_attention(X, X, X, X, X, 4, "heads"),
            ValueError,
            "megacore_mode is 'heads'; it may be 'kv_head', 'batch' or None",
        ),
        (
            lambda: torch_xla.make_kernel_from_pallas(add_vectors, lambda x, y: (x.shape, x.dtype))(X, X),
            TypeError,
            "it must return a list with a pair",
        ),
        (
            lambda: torch_xla.make_kernel_from_pallas(add_vectors, lambda x, y: [((3,), x.dtype)])(X, X),
            ValueError,
            r"add_vectors returned \[\(\(1, 1, 8, 128\), torch.float32\)\]; output_shape_dtype_fn said \[\(\(3,\)",
        ),
        (
            lambda: torch_xla.make_kernel_from_pallas(add_vectors, list, mode="fast"),
            ValueError,
            "make_kernel_from_pallas: mode is 'fast'; it may be plain",
        ),
    ],
)
def test_a_wrong_argument_gets_one_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()
