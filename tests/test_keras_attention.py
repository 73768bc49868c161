"""FlashAttention beside keras.layers.MultiHeadAttention, its twin: the same numbers, training, weights; our kernels."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from sweeps import daily

from course_lib import grid
from course_lib.frameworks.keras import FlashAttention

MultiHeadAttention = keras.layers.MultiHeadAttention


def data(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def twins(x, *others, **how):
    """Both layers, with the same weights."""
    ours, theirs = FlashAttention(2, 8, **how), MultiHeadAttention(2, 8, **how)
    shapes = [each.shape for each in (x, *(others or (x,)))]
    ours.build(*shapes)
    theirs.build(*shapes)
    theirs.set_weights(ours.get_weights())
    return ours, theirs


def kernels_in(layer, *args, **how) -> int:
    def call(*args):
        return layer(*args, **how)

    return len(grid.walk(call, *args).calls)


X, Y, Z = data(2, 12, 16), data(2, 9, 16, seed=1), data(2, 9, 20, seed=2)
SEEN = np.arange(12) < np.array([[12], [7]])
CALLS = {
    "itself": ((X, X), {}, {}),
    "another sequence": ((X, Y), {}, {}),
    "keys of their own": ((X, Y, Z), {}, {}),
    "causal": ((X, X), {}, {"use_causal_mask": True}),
    "a window": ((X, X), {"sliding_window": 4}, {"use_causal_mask": True}),
    "no bias, another size": ((X, X), {"use_bias": False, "output_shape": 5}, {}),
    "larger values": ((X, X), {"value_dim": 24, "dropout": 0.5}, {}),  # without dropout its twin refuses them
    "a gate": ((X, X), {"use_gate": True}, {}),
    "dropout, not in training": ((X, X), {"dropout": 0.5}, {}),
    "padded keys": ((X, X), {}, {"value_mask": SEEN}),
    "padded keys, causal": ((X, X), {}, {"key_mask": SEEN, "value_mask": SEEN, "use_causal_mask": True}),
}
BY_KERAS = {
    "a mask of one's own": ((X, X), {}, {"attention_mask": SEEN[:, None]}),
    "scores": ((X, X), {}, {"return_attention_scores": True}),
    "a window to both sides": ((X, X), {"sliding_window": 4}, {}),
    "causal, two lengths": ((X, Y), {}, {"use_causal_mask": True}),
    "four axes": ((data(2, 3, 4, 16), data(2, 3, 4, 16)), {}, {}),
}


@pytest.mark.parametrize("name", daily(*list(CALLS)[1::2], *list(BY_KERAS)[::2], of=CALLS | BY_KERAS))
def test_it_computes_what_its_twin_does(name):
    args, how, called = (CALLS | BY_KERAS)[name]
    ours, theirs = twins(*args, **how)
    for got, want in zip(*(jax.tree.leaves(layer(*args, **called)) for layer in (ours, theirs)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert kernels_in(ours, *args, **called) == (name in CALLS)


def test_it_learns_as_its_twin_does_and_is_saved(tmp_path):
    found = []
    for layer in twins(X):
        inputs = keras.Input((None, 16))
        model = keras.Model(inputs, layer(keras.layers.Masking()(inputs), inputs))
        model.compile("sgd", "mse")
        history = model.fit(X, Y.mean() + X, epochs=2, batch_size=2, verbose=0)
        found.append(history.history["loss"])
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5)
    np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.parametrize("layer, other", [(MultiHeadAttention, FlashAttention), (FlashAttention, MultiHeadAttention)])
def test_a_file_of_weights_knows_its_layers_class(layer, other, tmp_path):
    """As FlashAttention's docstring says; a model that calls the layer by a name of its own files it under that."""

    def model(layer):
        x = keras.Input((4, 8))
        return keras.Model(x, layer(2, 4)(x, x))

    class Own(keras.Model):
        def __init__(self, layer):
            super().__init__()
            self.attention = layer(2, 4)
            self.attention.build((None, 4, 8), (None, 4, 8))
            self.built = True

    model(layer).save_weights(tmp_path / "model.weights.h5")
    model(layer).load_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="could not be loaded"):
        model(other).load_weights(tmp_path / "model.weights.h5")
    Own(layer).save_weights(tmp_path / "own.weights.h5")
    Own(other).load_weights(tmp_path / "own.weights.h5")


def test_configurations_go_both_ways():
    ours, theirs = twins(X, sliding_window=3)
    read = MultiHeadAttention.from_config(ours.get_config()).get_config()
    assert {**read, "name": theirs.name} == theirs.get_config()
    assert FlashAttention.from_config(theirs.get_config()).precision == "highest"
    fast = FlashAttention(2, 8, precision="default")
    assert FlashAttention.from_config(fast.get_config()).precision == "default"


def test_under_mixed_bfloat16_it_computes_in_bfloat16():
    layer = FlashAttention(2, 8, dtype="mixed_bfloat16")
    assert layer(X, X).dtype == jnp.bfloat16 and layer.query_dense.kernel.dtype == "float32"


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: FlashAttention(2, 8, precision="most"), "FlashAttention: precision is 'most'; it may be"),
        (
            lambda: FlashAttention(2, 8, dtype="float16")(X, X),
            "would compute in float16; it may be float32 or bfloat16",
        ),
    ],
)
def test_what_it_does_not_take(make, says):
    with pytest.raises(ValueError, match=says):
        make()
