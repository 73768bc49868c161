"""The Keras layer: what a user of Keras does with a layer."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, judges
from course_lib.frameworks.keras import Add
from course_lib.kernels import elementwise


@pytest.fixture
def model():
    a, b = keras.Input((50,)), keras.Input((50,))
    hidden = keras.layers.Dense(50)(a)
    return keras.Model([a, b], Add(name="sum")([hidden, b]))


def data(rows=20):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rows, 50)).astype(np.float32) for _ in range(2)]


def test_predict_with_a_ragged_last_batch(model):
    a, b = data()
    dense = model.layers[1] if isinstance(model.layers[1], keras.layers.Dense) else model.layers[2]
    want = a @ np.asarray(dense.kernel) + np.asarray(dense.bias) + b
    np.testing.assert_allclose(model.predict([a, b], batch_size=8, verbose=0), want, rtol=1e-4, atol=1e-5)


def test_fit_trains_through_the_layer(model):
    model.compile("adam", "mse")
    a, b = data(64)
    losses = model.fit([a, b], a - b, epochs=3, batch_size=16, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_save_and_load_give_the_same_bits(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(data(), verbose=0), model.predict(data(), verbose=0))
    assert again.get_layer("sum").get_config() == model.get_layer("sum").get_config()


def test_it_works_where_a_notebook_has_switched_the_simulator_on(model):
    with pltpu.force_tpu_interpret_mode(compat.interpret_params()):
        a, b = data()
        assert model.predict([a, b], verbose=0).shape == (20, 50)
        np.testing.assert_array_equal(jax.jit(elementwise.add)(a, b), a + b)
        np.testing.assert_array_equal(jax.grad(lambda a: elementwise.multiply(a, b).sum())(a), b)


def test_the_layer_is_a_kernel_by_four_judges():
    x, y = (jnp.asarray(v) for v in data())
    verdicts = judges.judge(lambda x, y: Add()([x, y]), jnp.add, x, y)
    assert all(v.passed is not False for v in verdicts), str(verdicts[-1])


def test_shapes_that_differ_are_named():
    with pytest.raises(ValueError, match=r"shapes \(None, 3\) and \(None, 4\)"):
        Add()([keras.Input((3,)), keras.Input((4,))])


@pytest.mark.parametrize(
    "make", [lambda: np.ones((2, 3), np.float32), lambda: keras.Input((3,))], ids=["array", "input"]
)
def test_it_adds_two(make):
    """Of one array with two rows it would add the rows."""
    x = make()
    with pytest.raises(ValueError, match=r"Add: 'one' was given one input; it adds two. Try Add\(\)\(\[x, y\]\)"):
        Add(name="one")(x)
    with pytest.raises(ValueError, match="Add: 'three' was given 3 inputs; it adds two. Try one Add after the other"):
        Add(name="three")([x, x, x])
    with pytest.raises(ValueError, match="Add: 'half' would compute in float16; it may be float32 or bfloat16"):
        Add(name="half", dtype="float16")([x, x])
