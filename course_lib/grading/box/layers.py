"""A Keras layer that stands in for one in the box: its weights are here, and its computation arrives as a program.

Keras builds, fits, saves and loads this layer, so it must be a live object. The box describes its behaviour as data:
the weights it asks for, the shape it promises, its config, and the program of its ``call``.
"""

from __future__ import annotations

import numpy as np

from course_lib.grading.box.values import Damaged, items

MAX_WEIGHTS = 64


def standin(answers, ref: object, name: str) -> type:
    """Return the class that stands in for the one that the box calls ``ref``."""
    import keras

    said = answers.value(items(answers.ask(["layer class", ref]), 2)[1])
    overrides, registered = said["overrides"], said["registered"]

    def method(self, name: str, *args):
        return answers.called(["method", self._there, name], args, {})

    def start(self, *args, **kwargs):
        plain = {k: v.name if isinstance(v, keras.dtype_policies.DTypePolicy) else v for k, v in kwargs.items()}
        is_so = answers.called(["new", ref], args, plain)
        keras.layers.Layer.__init__(self, **{name: is_so[name] for name in ("name", "dtype", "trainable")})
        self._there = is_so["ref"]

    def build(self, input_shape):
        made = answers.called(["build", self._there], (_shape(input_shape),), {})
        if not isinstance(made, list) or len(made) > MAX_WEIGHTS:
            raise Damaged("it says not which weights it has.")
        for each in made:
            value = np.asarray(each["value"])
            self.add_weight(
                name=str(each["name"])[:60], shape=value.shape, dtype=value.dtype.name,
                trainable=bool(each["trainable"]), initializer=lambda shape, dtype=None, value=value: value,
            )  # fmt: skip
        self.built = True

    def call(self, inputs, training=None):
        weights = [v.value if not hasattr(v.value, "value") else v.value.value for v in self.variables]
        weights = [keras.ops.convert_to_tensor(v) for v in weights]
        return answers.called(["layer call", self._there], (weights, inputs), {})

    body = {"__init__": start, "build": build, "call": call, "__module__": "box"}
    if "compute_output_shape" in overrides:
        body["compute_output_shape"] = lambda self, shape: method(self, "compute_output_shape", _shape(shape))
    if "compute_output_spec" in overrides and "compute_output_shape" not in overrides:
        body["compute_output_spec"] = _spec
    if "get_config" in overrides:
        body["get_config"] = lambda self: method(self, "get_config")
    made = type(name if name.isidentifier() else "Unnamed", (keras.layers.Layer,), body)
    if isinstance(registered, str) and ">" in registered:
        package, _, own = registered.partition(">")
        keras.saving.register_keras_serializable(package[:60], own[:60])(made)
    return made


def _spec(self, *inputs):
    """Return the type of the result of ``call``, by tracing it."""
    import keras

    return keras.backend.compute_output_spec(self.call, *inputs)


def _shape(shape: object) -> object:
    """Return a shape, or a list of several, as plain tuples and lists."""
    if isinstance(shape, list | tuple):
        return type(shape)(_shape(each) for each in shape) if type(shape) in (list, tuple) else tuple(shape)
    return None if shape is None else int(shape)
