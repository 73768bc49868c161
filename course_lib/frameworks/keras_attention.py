"""``flash_attention`` as a Keras layer, where ``keras.layers.MultiHeadAttention`` stands."""

import jax.numpy as jnp
from jax.sharding import PartitionSpec

from course_lib.frameworks.keras_backend import check_dtype, keras
from course_lib.kernels import attention
from course_lib.kernels.common import products
from course_lib.kernels.dispatch import sharding


@keras.saving.register_keras_serializable("course_lib")
class FlashAttention(keras.layers.MultiHeadAttention):
    """``keras.layers.MultiHeadAttention`` whose scores are never in HBM: a Pallas kernel on a TPU, and its gradient.

    Arguments, call, configuration and weights are MultiHeadAttention's: ``get_weights`` and ``set_weights`` go both
    ways. The ``.weights.h5`` file of a Sequential or functional model does not: it files weights under their layer's
    class. In the kernel are ``use_causal_mask``, ``sliding_window`` beside it, and the masks that Keras hands on for
    padded keys; a query that is padding itself is computed like any other. All else is computed as MultiHeadAttention
    does: an ``attention_mask``, scores that are to be returned, dropout in training, a window without
    ``use_causal_mask``, a causal mask between sequences of different lengths, and inputs of other than three axes.

    ``precision`` is that of ``flash_attention``. Mind it: on a TPU, MultiHeadAttention multiplies float32 in one pass
    of the MXU, which rounds to bfloat16 first; "highest", our default, takes six. Under ``keras.distribution`` the
    kernel runs on each device's part of the batch, and of the heads where a layout map cuts them. Raises ValueError for
    another compute dtype than float32 and bfloat16, and for another precision.
    """

    def __init__(self, num_heads, key_dim, *args, precision: str = "highest", **kwargs):
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self.precision = products.precision_of("FlashAttention", jnp.float32, precision).name.lower()

    def build(self, query_shape, value_shape, key_shape=None):
        check_dtype(self)
        super().build(query_shape, value_shape, key_shape)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        causal, window = bool(use_causal_mask), self._sliding_window
        as_keras_does = (
            attention_mask is not None
            or return_attention_scores
            or (training and self.dropout > 0)
            or (window is not None and not causal)
            or (causal and query.shape[1] != value.shape[1])
            or not len(query.shape) == len(value.shape) == 3
        )
        if as_keras_does:
            return super().call(
                query,
                value,
                key=key,
                query_mask=query_mask,
                value_mask=value_mask,
                key_mask=key_mask,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
            )
        key = value if key is None else key
        for each in (query, value, key):  # the layer sees to them, not those within it
            keras.src.backend.set_keras_mask(each, None)
        result = self._flash(
            self.query_dense(query), self.key_dense(key), self.value_dense(value), causal, value_mask, key_mask
        )
        result = keras.ops.multiply(result, self._gate_dense(query)) if self._use_gate else result
        result = self.output_dense(result)
        if query_mask is not None:
            keras.src.backend.set_keras_mask(result, query_mask)
        return result

    def _flash(self, query, key, value, causal, *masks):
        """Of (batch, positions, heads, size) each; the kernel has the heads before the positions."""
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
        segments, masks = None, [mask for mask in masks if mask is not None]
        if masks:
            seen = masks[0] if len(masks) == 1 else jnp.logical_and(*masks)
            segments = jnp.zeros((q.shape[0], q.shape[2]), jnp.int32), jnp.where(seen, 0, 1).astype(jnp.int32)
        o = attention.flash_attention(
            q,
            k,
            v,
            causal=causal,
            window=self._sliding_window,
            segments=segments,
            precision=self.precision,
            layout=_layout(q, self.query_dense.kernel, bool(masks)),
        )
        return jnp.swapaxes(o, 1, 2)

    def get_config(self):
        """MultiHeadAttention's, and what of our own is not the default: so each reads the other's."""
        ours = {} if self.precision == "highest" else {"precision": self.precision}
        return {**super().get_config(), **ours}


def _layout(x, kernel, segments: bool) -> tuple[PartitionSpec, ...] | None:
    """How ``keras.distribution`` cuts the batch, and the heads of a query's kernel; None where it does not.

    Keras makes meshes with Auto axes: the types of the arrays do not say.
    """
    distribution = keras.distribution.distribution()
    if distribution is None or not sharding.on_a_mesh(x):
        return None
    rows = distribution.batch_dim_name
    _, heads, _ = getattr(distribution.get_variable_layout(kernel), "axes", None) or (None, None, None)
    return (PartitionSpec(rows, heads),) * 3 + (PartitionSpec(rows),) * 2 * segments
