"""``flash_attention`` as a Keras layer that replaces ``keras.layers.MultiHeadAttention``."""

import jax.numpy as jnp
from jax.sharding import PartitionSpec

from course_lib.frameworks.keras_backend import check_dtype, keras
from course_lib.kernels import attention
from course_lib.kernels.common import products
from course_lib.kernels.dispatch import sharding


@keras.saving.register_keras_serializable("course_lib")
class FlashAttention(keras.layers.MultiHeadAttention):
    """``keras.layers.MultiHeadAttention`` as a Pallas kernel (with its gradient) that keeps the scores out of HBM.

    Arguments, call, configuration and weights are those of MultiHeadAttention, and ``get_weights`` and ``set_weights``
    work in both directions. The ``.weights.h5`` file of a Sequential or functional model does not, because it stores
    weights under the name of the layer's class. The kernel handles ``use_causal_mask``, ``sliding_window`` together
    with it, and the masks that Keras passes on for padded keys; a padded query is computed like any other. Everything
    else is computed as MultiHeadAttention does: an ``attention_mask``, returned scores, dropout in training, a window
    without ``use_causal_mask``, a causal mask between sequences of different lengths, and inputs with other than three
    axes.

    ``precision`` is that of ``flash_attention``. Note its default: on a TPU, MultiHeadAttention multiplies float32 in
    one pass of the MXU, which first rounds to bfloat16; "highest", our default, takes six passes. Under
    ``keras.distribution`` the kernel runs on each device's part of the batch, and of the heads if a layout map shards
    them. Raises ValueError for a compute dtype other than float32 and bfloat16, and for an unknown precision.
    """

    def __init__(self, num_heads, key_dim, *args, precision: str = "highest", **kwargs):
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self.precision = products.precision_of("FlashAttention", jnp.float32, precision).name.lower()

    def _window(self) -> int | None:
        return getattr(self, "_sliding_window", None)  # Keras 3.13, which Colab has, knows no window

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
        causal, window = bool(use_causal_mask), self._window()
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
        for each in (query, value, key):  # this layer sets the result's mask; its inner layers must not
            keras.src.backend.set_keras_mask(each, None)
        result = self._flash(
            self.query_dense(query), self.key_dense(key), self.value_dense(value), causal, value_mask, key_mask
        )
        if getattr(self, "_use_gate", False):  # nor does Keras 3.13 know a gate
            result = keras.ops.multiply(result, self._gate_dense(query))
        result = self.output_dense(result)
        if query_mask is not None:
            keras.src.backend.set_keras_mask(result, query_mask)
        return result

    def _flash(self, query, key, value, causal, *masks):
        """Run the kernel on (batch, positions, heads, size) arrays; the kernel itself has heads before positions."""
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
            window=self._window(),
            segments=segments,
            precision=self.precision,
            layout=_layout(q, self.query_dense.kernel, bool(masks)),
        )
        return jnp.swapaxes(o, 1, 2)

    def get_config(self):
        """Return MultiHeadAttention's config plus a non-default precision, so that each class can load the other's."""
        ours = {} if self.precision == "highest" else {"precision": self.precision}
        return {**super().get_config(), **ours}


def _layout(x, kernel, segments: bool) -> tuple[PartitionSpec, ...] | None:
    """Return how ``keras.distribution`` shards the batch and the query's heads; None if it does not.

    The array types do not say, because Keras makes meshes with Auto axes.
    """
    distribution = keras.distribution.distribution()
    if distribution is None or not sharding.on_a_mesh(x):
        return None
    rows = distribution.batch_dim_name
    _, heads, _ = getattr(distribution.get_variable_layout(kernel), "axes", None) or (None, None, None)
    return (PartitionSpec(rows, heads),) * 3 + (PartitionSpec(rows),) * 2 * segments
