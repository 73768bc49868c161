"""A Keras layer around the kernel of 01.1."""

import json

import numpy as np

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit

ROWS = ("x: f32[B,N]", "y: f32[B,N]")


def _call_layer(layer_class):
    """Return the layer as a function of two arrays, built afresh so that no earlier trace is reused."""
    import keras

    if isinstance(layer_class, keras.layers.Layer):
        raise Unfit(
            f"What you passed to check is a {type(layer_class).__name__} object, which is a layer, and not its class.",
            'pass the class, without parentheses: checks.check("01.3", PallasAdd).',
        )
    if not isinstance(layer_class, type) or not issubclass(layer_class, keras.layers.Layer):
        name = getattr(layer_class, "__name__", "What you passed to check")
        kind = (
            "a class, but not a Keras layer" if isinstance(layer_class, type) else "a function, but a layer is a class"
        )
        raise Unfit(
            f"{name} is {kind}.",
            "begin it with class PallasAdd(keras.layers.Layer): and give it a method call(self, inputs).",
        )
    layer = layer_class()
    return lambda x, y: layer([x, y])


def _layer_says_its_shape(layer_class):
    for width in (128, 256):
        shape = layer_class().compute_output_shape([(None, width), (None, width)])
        if shape is None or tuple(shape) != (None, width):
            return (
                f"compute_output_shape([(None, {width}), (None, {width})]) returned {shape}; it should be "
                f"(None, {width}).",
                "return the shape of the first input.",
            )


def _layer_predicts(layer_class):
    import keras

    a, b = keras.Input((128,)), keras.Input((128,))
    model = keras.Model([a, b], layer_class()([a, b]))
    _, at_random = arguments(ROWS, ({"B": 20, "N": 128},))
    x, y = map(np.asarray, at_random)
    got = model.predict([x, y], batch_size=8, verbose=0)
    if not np.allclose(got, x + y, atol=1e-6):
        return (
            f"model.predict differs from x + y by up to {np.abs(got - (x + y)).max():.3g}.",
            "look at what call returns.",
        )


def _layer_survives_json(layer_class):
    import keras

    layer = layer_class(name="sum_of_two")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config, custom_objects={layer_class.__name__: layer_class})
    if again.name != "sum_of_two" or type(again) is not layer_class:
        return (
            f"After it was written to JSON and read back, the layer is a {type(again).__name__} named {again.name!r}; "
            f"it should be a {layer_class.__name__} named 'sum_of_two'.",
            "pass **kwargs on to super().__init__, and start get_config from super().get_config().",
        )


EXERCISE = Exercise(
    id="01.3",
    title="A Keras layer",
    kind="write",
    defines="PallasAdd",
    inputs=ROWS,
    sizes=({"B": 16, "N": 128}, {"B": 3, "N": 128}, {"B": 5, "N": 130}),
    reference=lambda x, y: x + y,
    build=_call_layer,
    also=(_layer_says_its_shape, _layer_predicts, _layer_survives_json),
    hints=(
        "A layer computes in call(self, inputs). Here inputs is a list of two arrays.",
        "compute_output_shape(self, input_shape) gets a list of two shapes and returns one. Without it, Keras "
        "would trace your kernel with a batch of unknown size, which Pallas refuses.",
        "call returns add_vectors(*inputs), with the function of 01.1, and compute_output_shape returns "
        "input_shape[0].",
    ),
    points=2,
)
