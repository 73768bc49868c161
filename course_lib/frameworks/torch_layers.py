"""Kernels of the library as modules of PyTorch that replace PyTorch's own, with the same parameters."""

import jax.numpy as jnp

from course_lib.frameworks.torch_modes import Mode, check_mode
from course_lib.frameworks.torch_operator import operator
from course_lib.frameworks.torch_tensors import torch
from course_lib.kernels import activations, attention, linear
from course_lib.kernels.common import products

functional = torch.nn.functional


def _linear(x, weight, bias, *, activation, precision):
    # PyTorch stores (units, features). Transposed here, inside the program, the matrix is not copied on a CPU.
    return linear.linear(x, weight.T, bias, activation=activation, precision=precision)


def _attention(q, k, v, *, causal, precision):
    return attention.flash_attention(q, k, v, causal=causal, precision=precision)


def _attention_of_segments(q, k, v, q_segments, kv_segments, *, causal, precision):
    segments = q_segments, kv_segments
    return attention.flash_attention(q, k, v, causal=causal, segments=segments, precision=precision)


# The operators of the modules. An exported program finds them by these names once this module is imported.
LINEAR = operator(
    "course_lib::linear", _linear, ("x", "weight", "bias"), options={"activation": "none", "precision": "highest"}
)
_OPTIONS = {"causal": False, "precision": "highest"}
ATTENTION = operator("course_lib::flash_attention", _attention, ("q", "k", "v"), options=_OPTIONS)
ATTENTION_OF_SEGMENTS = operator(
    "course_lib::flash_attention_of_segments",
    _attention_of_segments,
    ("q", "k", "v", "q_segments", "kv_segments"),
    options=_OPTIONS,
)


def _autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Cast the tensors inside ``torch.autocast``, which does not do it for custom operators with options."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype("cpu")) for tensor in tensors)


class FusedLinear(torch.nn.Linear):
    """``torch.nn.Linear`` and an activation as one kernel, with its gradient in two.

    Input: (..., in_features), output: (..., out_features), in float32 or bfloat16 like the parameters. The first five
    arguments, the parameters and the ``state_dict`` are those of Linear. ``activation``: None, "relu", "gelu",
    "gelu_tanh" or "silu". ``precision`` is that of ``course_lib.kernels.linear.linear``; on a TPU its default, six
    passes of the MXU for float32, is more exact than PyTorch's one pass. ``mode`` is that of ``operator``.
    ``FusedLinear.operator`` is what runs, for ``proof(FusedLinear.operator, x, weight, bias, activation="relu")``.
    Raises ValueError for another activation, precision or mode.
    """

    operator = LINEAR

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device=None,
        dtype=None,
        *,
        activation: str | None = None,
        precision: str = "highest",
        mode: Mode = "plain",
    ):
        super().__init__(in_features, out_features, bias, device, dtype)
        activations.named(activation, "FusedLinear")
        self.activation = activation
        self.precision = products.precision_of("FusedLinear", jnp.float32, precision).name.lower()
        check_mode("FusedLinear", mode)
        self.mode = mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(
                f"FusedLinear: x has shape {tuple(x.shape)}; its last axis must have in_features={self.in_features} "
                f"elements. Try FusedLinear({x.shape[-1] if x.ndim else 1}, {self.out_features})."
            )
        bias = self.weight.new_zeros(self.out_features) if self.bias is None else self.bias
        how = {"activation": self.activation or "none", "precision": self.precision, "mode": self.mode}
        return LINEAR(*_autocast(x, self.weight, bias), **how)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation!r}, mode={self.mode!r}"


class FlashAttention(torch.nn.MultiheadAttention):
    """``torch.nn.MultiheadAttention`` with a kernel, and its gradient, that keep the scores out of HBM.

    The constructor's arguments, the parameters and the ``state_dict`` are those of MultiheadAttention; ``precision``
    and ``mode`` are those of FusedLinear. The call differs in one default: ``need_weights`` is False, because the
    kernel never has the weights. The kernel handles ``is_causal``, which needs no ``attn_mask`` here, and a
    ``key_padding_mask`` of bools; a query that sees no key gets zeros before the output projection, not NaN.
    MultiheadAttention computes everything else: ``need_weights``, an ``attn_mask`` without ``is_causal``, masks of
    floats, dropout in training, ``add_bias_kv``, ``add_zero_attn``, ``is_causal`` between sequences of different
    lengths, and inputs without a batch. Raises ValueError for another precision or mode.
    """

    operator = ATTENTION

    def __init__(self, embed_dim: int, num_heads: int, *args, precision: str = "highest", mode: Mode = "plain", **how):
        super().__init__(embed_dim, num_heads, *args, **how)
        self.precision = products.precision_of("FlashAttention", jnp.float32, precision).name.lower()
        check_mode("FlashAttention", mode)
        self.mode = mode

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = False,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        sequence = 1 if self.batch_first else 0
        as_pytorch_does = (
            need_weights
            or (attn_mask is not None and not is_causal)
            or (key_padding_mask is not None and key_padding_mask.dtype != torch.bool)
            or (self.training and self.dropout > 0)
            or self.bias_k is not None
            or self.add_zero_attn
            or query.dim() != 3
            or (is_causal and query.shape[sequence] != key.shape[sequence])
        )
        if as_pytorch_does:
            how = (key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
            return super().forward(query, key, value, *how)
        q, k, v = (self._heads(each) for each in self._projected(query, key, value))
        how = {"causal": is_causal, "precision": self.precision, "mode": self.mode}
        if key_padding_mask is None:
            o = ATTENTION(q, k, v, **how)
        else:  # padded keys are a segment of their own, which no query belongs to
            kv_segments = key_padding_mask.int()
            o = ATTENTION_OF_SEGMENTS(q, k, v, kv_segments.new_zeros(q.shape[0], q.shape[2]), kv_segments, **how)
        o = self.out_proj(o.transpose(1, 2).flatten(2))
        return (o if self.batch_first else o.transpose(0, 1)), None

    def _projected(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if self.in_proj_weight is None:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [functional.linear(*each) for each in zip(inputs, weights, biases, strict=True)]

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, heads, positions, size) for what the projections return."""
        x = x if self.batch_first else x.transpose(0, 1)
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
