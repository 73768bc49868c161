"""Models of FusedDense and FlashAttention, and their twins, under keras.distribution: for test_keras_distribution.

Prints JSON: the losses of both on 8 CPU devices; and where asked for it, kernels and collectives of the gradient of
each, compiled for a v5e 2x2 that is not here.
"""

import os
import sys

from train_step import counts, tpu_topology  # first: sets what libtpu reads when it loads

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["KERAS_BACKEND"] = "jax"

import json
import warnings

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from course_lib.frameworks.keras import FlashAttention, FusedDense

DEVICES = [f"cpu:{n}" for n in range(8)]
X = np.random.default_rng(0).standard_normal((64, 32)).astype("float32")


def distribute(how: str) -> None:
    if how == "DataParallel":
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=DEVICES))
        return
    mesh = keras.distribution.DeviceMesh((4, 2), ("batch", "model"), DEVICES)
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[".*first.kernel"], layouts[".*first.bias"] = (None, "model"), ("model",)
    layouts[".*second.kernel"] = ("model", None)  # its K is cut
    for name in ("query", "key", "value"):
        layouts[f".*{name}.kernel"], layouts[f".*{name}.bias"] = (None, "model", None), ("model", None)
    layouts[".*attention_output.kernel"] = ("model", None, None)
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch"))


def model_of(dense) -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [dense(64, activation="relu", name="first"), dense(16, activation="gelu", name="second"), dense(1)]
    return keras.Sequential([keras.Input((32,)), *layers])


def attention_of(layer) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((32,))
    x = keras.layers.Reshape((8, 4))(x)
    x = layer(2, 4)(x, x, use_causal_mask=True)
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(x)))


def losses(model: keras.Model) -> list[float]:
    """After each of two epochs, and of an evaluation behind them."""
    model.compile("sgd", "mse")
    history = model.fit(X, X[:, :1], epochs=2, batch_size=32, verbose=0, shuffle=False).history
    return [*history["loss"], model.evaluate(X, X[:, :1], verbose=0)]


def compiled(model: keras.Model, how: str) -> dict[str, int]:
    """Kernels, collectives and warnings of the gradient of a mean square."""
    devices = np.array(tpu_topology("v5e:2x2").devices)
    mesh = Mesh(devices, ("batch",)) if how == "DataParallel" else Mesh(devices.reshape(2, 2), ("batch", "model"))

    def described(variable):
        sharding = NamedSharding(mesh, variable.value.sharding.spec)
        return jax.ShapeDtypeStruct(variable.shape, variable.dtype, sharding=sharding)

    def loss(weights, others, x):
        return jnp.mean(model.stateless_call(weights, others, x, training=True)[0] ** 2)

    weights, others = ([*map(described, group)] for group in (model.trainable_variables, model.non_trainable_variables))
    x = jax.ShapeDtypeStruct((32, 32), jnp.float32, sharding=NamedSharding(mesh, P("batch")))
    return counts(jax.grad(loss), weights, others, x)


def main(how: str, with_libtpu: bool) -> None:
    distribute(how)
    found = {}
    for name, dense in (("Dense", keras.layers.Dense), ("FusedDense", FusedDense)):
        model = model_of(dense)
        found[name] = {"losses": losses(model)}
        if with_libtpu:
            found[name]["compiled"] = compiled(model, how)
    for name, layer in (("MultiHeadAttention", keras.layers.MultiHeadAttention), ("FlashAttention", FlashAttention)):
        model = attention_of(layer)
        found[name] = {"losses": losses(model)}
        if with_libtpu:
            found[name]["compiled"] = compiled(model, how)
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of Keras
    main(sys.argv[1], "libtpu" in sys.argv)
