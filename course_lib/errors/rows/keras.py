"""A kernel in a Keras layer."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "keras-no-call",
        r"does not have a `call(?:\(\))?` method implemented",
        "The layer has no call method, so it computes nothing.",
        "write call(self, inputs): for two arrays, inputs is one list of two arrays.",
        "01",
    ),
    Row(
        "keras-shape",
        r"does not have a `compute_output_shape` method",
        "Keras asked the layer for the shape of its output, but the layer has no compute_output_shape.",
        "define compute_output_shape(self, input_shape), which returns the shape of call's result.",
        "01",
    ),
    Row(
        "unknown-batch",
        r"shape polymorphism for Pallas does not support dynamically-shaped blocks",
        "A kernel was traced with an axis of unknown size, which Pallas does not support. Keras does this once, with "
        "the batch axis, to learn the shape of a layer's output.",
        "tell Keras the shape: define compute_output_shape(self, input_shape).",
        "01",
    ),
    Row(
        "keras-traced",  # Keras rebuilds JAX's exception from its text, which fails
        r"AttributeError: 'str' object has no attribute '_error_repr'",
        "The layer asked for the values of an array, which are known only when it runs: NumPy functions do that, and "
        "so do float(), int() and `if`.",
        "compute with jax.numpy, or call your kernel's function with the inputs as they are.",
        "01",
    ),
    Row(
        "keras-variable",
        r"Triggering __jax_array__\(\) during abstractification",
        "A Keras variable is where JAX needs an array: the result of add_weight holds an array but is not one.",
        "pass keras.ops.convert_to_tensor(self.kernel), or keras.ops.cast(self.kernel, self.compute_dtype).",
        "10",
    ),
    Row(
        "keras-kwargs",
        r"__init__\(\) got an unexpected keyword argument '(?P<name>name|dtype|trainable)'",
        "The layer's __init__ does not take {name}=, which Keras passes to every layer.",
        "take **kwargs in __init__ and pass them on: super().__init__(**kwargs).",
        "01",
    ),
    Row(
        "keras-inputs",
        r"TypeError: missing a required argument: (?P<name>'\w+')",
        "A function was called without its argument {name}. A Keras layer gets all its inputs in one argument.",
        "write call(self, inputs): for two arrays, inputs is one list of two arrays.",
        "01",
    ),
)
