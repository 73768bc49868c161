"""The kernels as Keras layers, for Keras on its JAX backend (KERAS_BACKEND=jax)."""

import dataclasses
from collections.abc import Hashable
from typing import get_args

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.sharding import PartitionSpec

from course_lib.frameworks.keras_attention import FlashAttention as FlashAttention
from course_lib.frameworks.keras_backend import check_dtype, keras
from course_lib.kernels import elementwise, linear
from course_lib.kernels.common import legal, products
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.linear import Blocks


@keras.saving.register_keras_serializable("course_lib")
class Add(keras.layers.Layer):
    """``x + y`` for two inputs of the same shape, as a Pallas kernel on a TPU. Any batch size, None included.

    Input: a list of two arrays of shape (batch, ...), in float32, bfloat16 or int32. Output: one array of that shape.
    Raises ValueError if there are not two inputs, if their shapes differ, or for another dtype.
    """

    def build(self, input_shape):
        check_dtype(self)
        super().build(input_shape)

    def call(self, inputs):
        x, y = self._both(inputs)
        return elementwise.add(x, y, layout=_layout(x))

    def _both(self, inputs):
        """Return the two inputs (or their shapes); refuse a single array, which would pass for a list of its rows."""
        if (
            not isinstance(inputs, list | tuple)
            or len(inputs) == 1
            or not all(hasattr(one, "__len__") for one in inputs)
        ):
            raise ValueError(f"Add: {self.name!r} was given one input; it adds two. Try Add()([x, y]).")
        if len(inputs) != 2:
            raise ValueError(
                f"Add: {self.name!r} was given {len(inputs)} inputs; it adds two. "
                "Try one Add after the other, Add()([Add()([x, y]), z])."
            )
        return inputs

    # Without this, Keras would trace the kernel with an unknown batch size, which Pallas refuses.
    def compute_output_shape(self, input_shape):
        x, y = self._both(input_shape)
        if tuple(x) != tuple(y):
            raise ValueError(f"Add: the inputs have shapes {tuple(x)} and {tuple(y)}; they must be equal.")
        return x


@keras.saving.register_keras_serializable("course_lib")
def gelu_tanh(x):
    """Return the tanh form of gelu: ``keras.activations.gelu(x, approximate=True)``, which has no name in Keras.

    A named function can be saved: ``keras.layers.Dense(units, activation=gelu_tanh)`` is the counterpart of FusedDense.
    """
    return keras.activations.gelu(x, approximate=True)


# Keras' functions and the names our kernels use for them. Keras' own "gelu" is the exact one.
_IN_THE_KERNEL = {
    keras.activations.linear: "none",
    keras.activations.relu: "relu",
    keras.activations.gelu: "gelu",
    gelu_tanh: "gelu_tanh",
    keras.activations.silu: "silu",
}
# JAX's own functions, which Keras could not save.
_AS_KERAS_HAS_THEM = {
    jax.nn.relu: keras.activations.relu,
    jax.nn.gelu: gelu_tanh,
    jax.nn.silu: keras.activations.silu,
}


@keras.saving.register_keras_serializable("course_lib")
class FusedDense(keras.layers.Dense):
    """``keras.layers.Dense`` as one Pallas kernel on a TPU (matmul, bias, activation), with its gradient in two.

    Input: (batch, ..., features), of rank 2 or more; output: (batch, ..., units). Any batch size, None included.
    Computes in float32 or bfloat16, as the dtype policy says; under "mixed_bfloat16" the weights stay float32.

    ``units``, ``use_bias``, initializers, regularizers and constraints are those of Dense. ``activation`` is anything
    Dense takes. The kernel itself applies None, "linear", "relu", "gelu", "gelu_tanh", "silu", "swish", Keras'
    functions of these names, and ``jax.nn.relu``, ``jax.nn.gelu`` (the tanh form) and ``jax.nn.silu``; XLA applies any
    other after the kernel. ``residuals``, ``precision`` and ``blocks`` are those of
    ``course_lib.kernels.linear.linear``. Note the default ``precision``: on a TPU, Dense multiplies float32 in one pass
    of the MXU, which first rounds to bfloat16; "highest", our default, takes six passes.

    The weights have the same names, shapes and order as Dense's, so ``get_weights`` and ``set_weights`` work in both
    directions, and so do configurations that leave the last three arguments at their defaults. To convert a model, call
    ``keras.models.clone_model`` with a ``clone_function`` that returns ``FusedDense.from_config(layer.get_config())``
    for a Dense, then ``set_weights``. A ``.weights.h5`` file stores weights under the class name, so neither class
    finds the other's until ``keras.saving.KerasFileEditor`` has renamed "layers/dense" to "fused_dense".

    Under ``keras.distribution`` the kernels run on each device's part of the batch, and of the weights if a layout map
    shards them, with the same communication as Dense; nothing needs to be configured. With LoRA weights the kernel
    multiplies by the sum of both, which XLA computes. When quantized, by ``quantize`` or a dtype policy, the layer
    computes what Dense does, in plain JAX. Raises ValueError for any other argument, activation or compute dtype, and
    for a sparse input.
    """

    def __init__(
        self,
        units: int,
        activation=None,
        *args,
        residuals: linear.Residuals = "save",
        precision: str = "highest",
        blocks: Blocks | dict | None = None,
        **kwargs,
    ):
        super().__init__(units, _function(activation), *args, **kwargs)
        if residuals not in get_args(linear.Residuals):
            raise ValueError(f"FusedDense: residuals={residuals!r}; it may be 'save' or 'recompute'.")
        self.residuals = residuals
        self.precision = products.precision_of("FusedDense", jnp.float32, precision).name.lower()
        self.blocks = Blocks(**blocks) if isinstance(blocks, dict) else blocks
        legal.check_kind("FusedDense", self.blocks, Blocks)

    def build(self, input_shape):
        check_dtype(self)
        super().build(input_shape)

    def call(self, inputs, training=None):
        if isinstance(inputs, sparse.JAXSparse):
            raise ValueError(f"FusedDense: the input of {self.name!r} is sparse; it must be dense. Try x.todense().")
        dtype = self.compute_dtype
        x, kernel = keras.ops.cast(inputs, dtype), keras.ops.cast(self.kernel, dtype)
        bias = None if self.bias is None else keras.ops.cast(self.bias, dtype)
        function = _function(self.activation)
        name = _IN_THE_KERNEL.get(function) if isinstance(function, Hashable) else None
        y = linear.linear(
            x,
            kernel,
            bias,
            activation=name,
            residuals=self.residuals,
            precision=self.precision,
            blocks=self.blocks,
            layout=_layout(x, self._kernel),
        )
        return y if name else function(y)

    def quantize(self, mode=None, type_check=True, config=None):
        """Quantize as Dense does, but without its type check, which refuses subclasses."""
        super().quantize(mode, type_check=False, config=config)

    def get_config(self):
        """Return Dense's config plus our non-default arguments, so that each class can load the other's."""
        blocks = self.blocks and dataclasses.asdict(self.blocks)
        ours = {"residuals": self.residuals, "precision": self.precision, "blocks": blocks}
        defaults = {"residuals": "save", "precision": "highest", "blocks": None}
        return {**super().get_config(), **{k: v for k, v in ours.items() if v != defaults[k]}}


def _layout(x, kernel=None) -> tuple[PartitionSpec, ...] | None:
    """Return how ``keras.distribution`` shards an input and, if given, a kernel and its bias; None if it does not.

    The array types do not say, because Keras makes meshes with Auto axes. While Keras only infers shapes, the input is
    on no mesh and its batch size is arbitrary.
    """
    distribution = keras.distribution.distribution()
    if distribution is None or not sharding.on_a_mesh(x):
        return None
    rows = PartitionSpec(distribution.batch_dim_name)
    if kernel is None:
        return (rows, rows)
    k, n = getattr(distribution.get_variable_layout(kernel), "axes", None) or (None, None)
    return (rows, PartitionSpec(k, n), PartitionSpec(n))


def _function(activation):
    """Return the function that ``activation`` names or is. Raise ValueError if Keras knows none."""
    if isinstance(activation, str) and activation == "gelu_tanh":
        return gelu_tanh
    try:
        function = keras.activations.get(activation)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"FusedDense: activation is {legal.shown(activation)}, which Keras does not know; it may be None, a name "
            'such as "relu", "gelu_tanh" or "softmax", a function, or a layer. Try activation="gelu".'
        ) from error
    return _AS_KERAS_HAS_THEM.get(function, function) if isinstance(function, Hashable) else function
