"""The exercises of lesson 1, Hello, kernel."""

import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from course_lib import grid
from course_lib.checks.exercise import Exercise


def _vectors(n: int, dtype=jnp.float32) -> tuple:
    """Two vectors that tell every position apart: x[i] = i, y[i] = 3 i + 1000."""
    i = np.arange(n)
    return jnp.asarray(i, dtype), jnp.asarray(3 * i + 1000, dtype)


def _random(shape: tuple[int, ...], dtype, low: float, high: float) -> tuple:
    rng = np.random.default_rng(1)
    return tuple(jnp.asarray(rng.uniform(low, high, shape), dtype) for _ in range(2))


def _typed_cases() -> list[tuple]:
    return [
        _random((16, 256), jnp.float32, -1, 1),
        # Above 2^24 a float32 cannot tell neighbouring integers apart.
        _random((1000,), jnp.int32, 2**28, 2**29),
        _random((16, 256), jnp.bfloat16, -1, 1),
    ]


def _call_layer(layer_class):
    """The layer as a function of two arrays, built anew, so that nothing is left over from an earlier trace."""
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
    x, y = (np.asarray(v) for v in _random((20, 128), jnp.float32, -1, 1))
    got = model.predict([x, y], batch_size=8, verbose=0)
    if not np.allclose(got, x + y, atol=1e-6):
        return f"model.predict differs from x + y by up to {np.abs(got - (x + y)).max():.3g}.", "look at call()."


def _layer_survives_json(layer_class):
    import keras

    layer = layer_class(name="sum_of_two")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config, custom_objects={layer_class.__name__: layer_class})
    if again.name != "sum_of_two" or type(again) is not layer_class:
        return (
            f"Written to JSON and read back, the layer became {type(again).__name__} named {again.name!r}.",
            "pass **kwargs on to super().__init__, and start get_config from super().get_config().",
        )


def _call_configured(configure):
    """A plain add kernel with the learner's grid and blocks."""

    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    def add(x, y):
        settings = configure(x.size)
        if settings is None:
            return None
        steps, block, index_map = settings
        spec = pl.BlockSpec(block, index_map)
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(add_kernel, out_shape=out, grid=steps, in_specs=[spec, spec], out_specs=spec)(x, y)

    return add


def _covers_once(configure):
    call = grid.walk(_call_configured(configure), *_vectors(4096)).calls[0]
    output = call.outputs[0]
    if call.steps == 1:
        return "The grid has one step: all of both vectors would be in VMEM at once.", "choose a smaller block."
    if call.steps != len(np.unique(output.indices, axis=0)):
        return (
            f"The grid has {call.steps} steps, and the output has {output.blocks[0]} blocks: some block is written "
            "more than once.",
            "one step for each block: 4096 divided by the block size.",
        )


EXERCISES = (
    Exercise(
        id="01.1",
        title="Add two vectors",
        defines="add_kernel",
        cases=lambda: [_vectors(4096), _vectors(1000), _vectors(8)],
        reference=lambda x, y: x + y,
        hints=(
            "x_ref and y_ref are places in memory. x_ref[...] reads all of one as a value you can compute with.",
            "o_ref[...] = value writes a value to the output.",
            "One line does it: o_ref[...] = x_ref[...] + y_ref[...]",
        ),
        points=1,
    ),
    Exercise(
        id="01.2",
        title="Any dtype, any shape",
        defines="add_any",
        cases=_typed_cases,
        reference=lambda x, y: x + y,
        hints=(
            "pl.pallas_call(kernel, out_shape=...) returns a function; call that with x and y.",
            "out_shape is a promise about the result: a shape and a dtype. Both are known from x.",
            "jax.ShapeDtypeStruct(x.shape, x.dtype) is the promise.",
        ),
        points=1,
    ),
    Exercise(
        id="01.3",
        title="A Keras layer",
        defines="PallasAdd",
        cases=lambda: [_random((16, 128), jnp.float32, -1, 1), _random((3, 128), jnp.float32, -1, 1)],
        reference=lambda x, y: x + y,
        build=_call_layer,
        also=(_layer_says_its_shape, _layer_predicts, _layer_survives_json),
        hints=(
            "A layer computes in call(self, inputs). Here inputs is a list of two arrays.",
            "compute_output_shape(self, input_shape) gets a list of two shapes and returns one. Without it, Keras "
            "would trace your kernel with a batch of unknown size, and Pallas refuses that.",
            "call returns add_vectors(*inputs), from 01.1; compute_output_shape returns input_shape[0].",
        ),
        points=2,
    ),
    Exercise(
        id="01.4",
        title="Configure only: a grid for 4096 elements",
        defines="configure",
        cases=lambda: [_vectors(4096), _vectors(8192)],
        reference=lambda x, y: x + y,
        build=_call_configured,
        also=(_covers_once,),
        hints=(
            "The grid is how many steps there are; the block is what one step sees; the index map says which block.",
            "A legal one-dimensional block is a multiple of 1024, or a power of two from 128 up.",
            "The index map returns a block number, not an element number: at step i it is block i.",
        ),
        points=1,
    ),
    Exercise(
        id="01.5",
        title="Repair: a kernel that writes where it reads",
        defines="scaled_add_kernel",
        cases=lambda: [_vectors(4096), _vectors(1000)],
        reference=lambda x, y: 2 * x + y,
        hints=(
            "Which refs may a kernel write to? Read the signature: inputs first, outputs last.",
            "You need no room in memory for 2 * x: a value read from a ref is yours to compute with.",
            "One line does it: o_ref[...] = 2 * x_ref[...] + y_ref[...]",
        ),
        points=1,
    ),
)
