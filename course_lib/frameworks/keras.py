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
    """``x + y`` for two inputs of one shape, as a Pallas kernel on a TPU. Any batch size, None included.

    Input: a list of two arrays, shape (batch, ...) each, of float32, bfloat16 or int32. Output: one array of that
    shape. Raises ValueError where there are not two, where their shapes differ, and where another dtype is asked for.
    """

    def build(self, input_shape):
        check_dtype(self)
        super().build(input_shape)

    def call(self, inputs):
        x, y = self._both(inputs)
        return elementwise.add(x, y, layout=_layout(x))

    def _both(self, inputs):
        """Two inputs, or the shapes of two. One array would be taken for a list of its rows."""
        if (
            not isinstance(inputs, list | tuple)
            or len(inputs) == 1
            or not all(hasattr(one, "__len__") for one in inputs)
        ):
            raise ValueError(f"Add: {self.name!r} was given one input; it adds two. Try Add()([x, y]).")
        if len(inputs) != 2:
            raise ValueError(
                f"Add: {self.name!r} was given {len(inputs)} inputs; it adds two. "
                "Try one Add behind the other, Add()([Add()([x, y]), z])."
            )
        return inputs

    # Keras would otherwise trace the kernel with a batch of unknown size, which Pallas refuses.
    def compute_output_shape(self, input_shape):
        x, y = self._both(input_shape)
        if tuple(x) != tuple(y):
            raise ValueError(f"Add: the inputs have shapes {tuple(x)} and {tuple(y)}; they must be equal.")
        return x


@keras.saving.register_keras_serializable("course_lib")
def gelu_tanh(x):
    """gelu by way of tanh: ``keras.activations.gelu(x, approximate=True)``, for which Keras has no name.

    With a name it can be saved: ``keras.layers.Dense(units, activation=gelu_tanh)`` is FusedDense's twin.
    """
    return keras.activations.gelu(x, approximate=True)


# The functions as Keras knows them, and what our kernels call the same. Keras' own "gelu" is the exact one.
_IN_THE_KERNEL = {
    keras.activations.linear: "none",
    keras.activations.relu: "relu",
    keras.activations.gelu: "gelu",
    gelu_tanh: "gelu_tanh",
    keras.activations.silu: "silu",
}
# JAX's own, which Keras could not save.
_AS_KERAS_HAS_THEM = {
    jax.nn.relu: keras.activations.relu,
    jax.nn.gelu: gelu_tanh,
    jax.nn.silu: keras.activations.silu,
}


@keras.saving.register_keras_serializable("course_lib")
class FusedDense(keras.layers.Dense):
    """``keras.layers.Dense`` with product, bias and activation in one Pallas kernel on a TPU, and its gradient in two.

    Input: (batch, ..., features), of rank 2 or more; output: (batch, ..., units). Any batch size, None included.
    Computes in float32 or bfloat16, as the dtype policy says; under "mixed_bfloat16" the weights stay float32.

    ``units``, ``use_bias``, initializers, regularizers and constraints are Dense's, and so is ``activation``: whatever
    Dense takes. In the kernel are None, "linear", "relu", "gelu", "gelu_tanh", "silu", "swish", Keras' functions of
    these names, and ``jax.nn.relu``, ``jax.nn.gelu`` (by way of tanh) and ``jax.nn.silu``; any other is applied behind
    it, by XLA. ``residuals``, ``precision`` and ``blocks`` are those of ``course_lib.kernels.linear.linear``. Mind
    ``precision``: on a TPU, Dense multiplies float32 in one pass of the MXU, which rounds to bfloat16 first; "highest",
    our default, takes six.

    The weights have Dense's names, shapes and order: ``get_weights`` and ``set_weights`` go both ways, and so do
    configurations while the last three arguments are left alone. So ``keras.models.clone_model`` with a
    ``clone_function`` that makes ``FusedDense.from_config(layer.get_config())`` of a Dense, and ``set_weights``, change
    a model over. Keras files the weights of a ``.weights.h5`` under the name of the class, so that Dense does not find
    ours, nor we Dense's, until ``keras.saving.KerasFileEditor`` has renamed them: "layers/dense" to "fused_dense".

    Under ``keras.distribution`` the kernels run on each device's part of the batch, and of the weights where a layout
    map cuts them, with the communication that Dense has. Nothing need be said. With LoRA weights the kernel multiplies
    by the sum of both, which XLA makes. Quantized, by ``quantize`` or a dtype policy, the layer computes what Dense
    does, in plain JAX. Raises ValueError where an argument, the activation, the compute dtype or the input (sparse) is
    none of these.
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
        """Dense's, which would refuse a class made of it."""
        super().quantize(mode, type_check=False, config=config)

    def get_config(self):
        """Dense's, and what of our own is not the default: so Dense reads ours, and we read Dense's."""
        blocks = self.blocks and dataclasses.asdict(self.blocks)
        ours = {"residuals": self.residuals, "precision": self.precision, "blocks": blocks}
        defaults = {"residuals": "save", "precision": "highest", "blocks": None}
        return {**super().get_config(), **{k: v for k, v in ours.items() if v != defaults[k]}}


def _layout(x, kernel=None) -> tuple[PartitionSpec, ...] | None:
    """How ``keras.distribution`` cuts an input and, where there is one, a kernel and its bias; None where it does not.

    Keras makes meshes with Auto axes: the types of the arrays do not say. While Keras only asks for shapes the input is
    on no mesh, and has a batch of some size or other.
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
    """The function that ``activation`` names or is. Raises ValueError where Keras knows none."""
    if isinstance(activation, str) and activation == "gelu_tanh":
        return gelu_tanh
    try:
        function = keras.activations.get(activation)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"FusedDense: activation is {legal.shown(activation)}, and Keras knows no such; it may be None, a name "
            'such as "relu", "gelu_tanh" or "softmax", a function, or a layer. Try activation="gelu".'
        ) from error
    return _AS_KERAS_HAS_THEM.get(function, function) if isinstance(function, Hashable) else function
