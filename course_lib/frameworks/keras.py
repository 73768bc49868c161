"""The kernels as Keras layers, for Keras on its JAX backend (KERAS_BACKEND=jax)."""

import keras

from course_lib.kernels import elementwise


@keras.saving.register_keras_serializable("course_lib")
class Add(keras.layers.Layer):
    """``x + y`` for two inputs of one shape, as a Pallas kernel on a TPU. Any batch size, None included.

    Input: a list of two arrays, shape (batch, ...) each. Output: one array of that shape. Raises ValueError where
    the shapes differ.
    """

    def call(self, inputs):
        x, y = inputs
        return elementwise.add(x, y)

    # Keras would otherwise trace the kernel with a batch of unknown size, which Pallas refuses.
    def compute_output_shape(self, input_shape):
        x, y = input_shape
        if tuple(x) != tuple(y):
            raise ValueError(f"Add: the inputs have shapes {tuple(x)} and {tuple(y)}; they must be equal.")
        return x
