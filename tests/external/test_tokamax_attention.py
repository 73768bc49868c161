"""Tokamax's own test bases for attention and for grouped products, pointed at our ops: plain JAX, and simulated."""

import unittest

import jax.numpy as jnp
import pytest
import tokamax_bases
from attention_examined import attention, ragged_dot
from simulated import tpu_side

pytestmark = pytest.mark.sweep  # every day test_jax_attention.py stands for it
# Their modules, and not their classes: pytest collects every TestCase that a module has.
attention_base = tokamax_bases.test_base("attention")
ragged_base = tokamax_bases.test_base("ragged_dot")

# What our op has: no bias, no mask of any shape, no dropout, no order of positions but their own, no float16.
ATTENTION = (
    "test_self_attention0",
    "test_self_attention1",
    "test_cross_attention0",
    "test_different_output_head_dim",
    "test_small_sequences",
    "test_multi_query_attention",
    "test_grouped_query_attention",
    "test_no_batch_dim",
    "test_multiple_batch_dims",
    "test_non_power_of_two_q_seq_len",
    "test_non_power_of_two_head_dim",
    "test_small_non_power_of_two_head_dim",
    "test_causal_mask",
    "test_local_attention_mask",
    "test_padding_mask",
    "test_tanh_clipping1",
)
# Not test_simple: it allows 1e-6 of float32 sums near 0, which nothing but the order of ragged_dot's own sum meets, and
# that is another on another processor.
RAGGED = ("test_padded", "test_zero_group_sizes", "test_preferred_element_type", "test_vjp")


# causal: of as many keys as queries, in their order. The last allows 2e-5 of sums of 256 float32 that reach 11: by
# float64 ours are 2.0e-5 off at the most, and the reference's 1.4e-5.
NOT_OURS = ("test_causal_mask_", "test_padding_mask_with_nans", "test_small_sequences1")


class Simulated:
    """Every op of ours is its kernel."""

    def setUp(self):
        super().setUp()
        self.kernels = self.enterContext(tpu_side())

    def tearDown(self):
        assert self.kernels, "no kernel of ours was run"
        super().tearDown()


class TestAttention(Simulated, attention_base.AttentionTestBase):
    locals().update(tokamax_bases.cases(attention_base.AttentionTestBase, ATTENTION, NOT_OURS))

    def __init__(self, *args):
        super().__init__(*args, attention_fn=attention)


class TestAttentionInPlainJax(attention_base.AttentionTestBase):
    locals().update(tokamax_bases.cases(attention_base.AttentionTestBase, ATTENTION, NOT_OURS))

    def __init__(self, *args):
        super().__init__(*args, attention_fn=attention)


class TestRaggedDot(Simulated, ragged_base.RaggedDotTestBase):
    locals().update(tokamax_bases.cases(ragged_base.RaggedDotTestBase, RAGGED))

    def __init__(self, *args):
        super().__init__(*args, dot_fn=ragged_dot)


class TestRaggedDotInPlainJax(ragged_base.RaggedDotTestBase):
    locals().update(tokamax_bases.cases(ragged_base.RaggedDotTestBase, RAGGED))

    def __init__(self, *args):
        super().__init__(*args, dot_fn=ragged_dot)


def test_the_examiners_see_a_wrong_kernel():
    def heads_taken_in_turns(q, k, v, **how):
        return attention(q, jnp.roll(k, 1, -2), v, **how)

    def without_the_last_row(lhs, rhs, group_sizes, **how):
        return ragged_dot(lhs, rhs, group_sizes.at[-1].add(-1), **how)

    class WrongAttention(attention_base.AttentionTestBase):
        def __init__(self, *args):
            super().__init__(*args, attention_fn=heads_taken_in_turns)

    class WrongProducts(ragged_base.RaggedDotTestBase):
        def __init__(self, *args):
            super().__init__(*args, dot_fn=without_the_last_row)

    for wrong in (WrongAttention("test_small_sequences4"), WrongProducts("test_preferred_element_type0")):
        result = unittest.TestResult()
        wrong.run(result)
        assert result.testsRun == 1 and len(result.failures) == 1 and not result.errors, result
