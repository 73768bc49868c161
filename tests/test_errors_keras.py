"""Failures of Keras layers with a kernel, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import provoke
import pytest
from provoke import call, copy

from course_lib import errors


class NoShape(keras.layers.Layer):
    def call(self, inputs):
        return inputs[0]


class Kernel(keras.layers.Layer):
    def call(self, x):
        return call(copy)(x)


def symbolic_keras_error():
    try:
        Kernel()(keras.Input((128,)))
    except Exception as error:
        return errors.explain(error)


class InNumpy(NoShape):
    def call(self, inputs):
        return np.asarray(inputs[0])


def traced_keras_error():
    try:
        jax.jit(lambda x: InNumpy()([x, x]))(jnp.ones(3))
    except Exception as error:
        return errors.explain(error)


class NoCall(keras.layers.Layer):
    """Nothing yet."""


class NoKwargs(NoShape):
    def __init__(self):
        super().__init__()


class TwoArguments(NoShape):
    def call(self, x, y):
        return x


def keras_error(layer_class, **settings):
    def explain():
        try:
            layer = layer_class(**settings)
            layer([jnp.ones(3), jnp.ones(3)])
            layer.compute_output_shape([(3,), (3,)])
        except Exception as error:
            return errors.explain(error)

    return explain


@jax.custom_vjp
def with_rules(x, w):
    return x * w


with_rules.defvjp(lambda x, w: (with_rules(x, w), None), lambda saved, g: (g, g))


class HandsOverVariable(NoShape):
    def build(self, input_shape):
        self.kernel = self.add_weight(shape=())

    def call(self, inputs):
        return with_rules(inputs[0], self.kernel)


FAILURES = {
    "keras-no-call": (keras_error(NoCall), "The layer has no call method"),
    "keras-shape": (keras_error(NoShape), "the layer has no compute_output_shape"),
    "keras-traced": (traced_keras_error, "The layer asked for the values of an array"),
    "keras-variable": (keras_error(HandsOverVariable), "A Keras variable is where JAX needs an array"),
    "unknown-batch": (symbolic_keras_error, "A kernel was traced with an axis of unknown size"),
    "keras-kwargs": (keras_error(NoKwargs, name="sum"), "__init__ does not take name="),
    "keras-inputs": (keras_error(TwoArguments), "was called without its argument 'y'"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_keras_own_frame_is_taken_off():
    class Broken(keras.layers.Layer):
        def call(self, inputs):
            return no_such_name  # noqa: F821

    assert keras_error(Broken)().what == "The name no_such_name is not defined."
