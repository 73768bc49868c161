"""A Keras layer in the box, queried by its stand-in at the judge: what it overrides, builds and computes.

["layer class", ref]                            what the class overrides, and the name it is registered under
["new", ref, args, kwargs, chip, axes]                an instance of it, with its name and settings
["build", ref, args, kwargs, chip, axes]              its weights with their initial values
["layer call", ref, args, kwargs, chip, axes]         the program of its call, a function of its weights and inputs
"""

import numpy as np

_MAY_OVERRIDE = ("compute_output_shape", "compute_output_spec", "get_config", "build")


def _class(box, ref: int) -> list:
    import keras

    kind, base = box.held[ref], keras.layers.Layer
    overrides = [name for name in _MAY_OVERRIDE if getattr(kind, name) is not getattr(base, name)]
    return ["value", box.written({"overrides": overrides, "registered": keras.saving.get_registered_name(kind)})]


def _new(box, ref: int, args: object, kwargs: object, chip: str, axes: list) -> list:
    layer = box.held[ref](*box.read(args), **box.read(kwargs))
    box.held.append(layer)
    is_so = {
        "ref": len(box.held) - 1,
        "name": layer.name,
        "dtype": layer.dtype_policy.name,
        "trainable": layer.trainable,
    }
    return ["value", box.written(is_so)]


def _build(box, ref: int, args: object, kwargs: object, chip: str, axes: list) -> list:
    layer, (shape,) = box.held[ref], box.read(args)
    if not layer.built:
        layer.build(shape)
        layer.built = True
    return ["value", box.written([_weight(v) for v in layer.variables])]


def _weight(variable) -> dict:
    return {"name": variable.name, "trainable": bool(variable.trainable), "value": np.asarray(variable)}


def _call(box, ref: int, args: object, kwargs: object, chip: str, axes: list) -> list:
    layer = box.held[ref]

    def call(weights, inputs):
        trainable = [w for w, v in zip(weights, layer.variables, strict=True) if v.trainable]
        others = [w for w, v in zip(weights, layer.variables, strict=True) if not v.trainable]
        return layer.stateless_call(trainable, others, inputs)[0]

    return box.called(call, args, kwargs, chip, axes)


KINDS = {"layer class": _class, "new": _new, "build": _build, "layer call": _call}
