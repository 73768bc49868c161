"""FusedDense beside keras.layers.Dense, its twin: the same numbers, training, files and weights; and our kernels."""

import pathlib
import warnings

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental import sparse
from sweeps import daily

from course_lib import compiler, datasets, grid, judges
from course_lib.frameworks.keras import FusedDense, gelu_tanh
from course_lib.kernels import launch, linear

Dense = keras.layers.Dense
IRIS = pathlib.Path(datasets.__file__).parent / "iris.csv"
ACTIVATIONS = [None, "linear", "relu", "gelu", "gelu_tanh", "silu", "swish", keras.activations.relu]


def data(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def twin(layer):
    """keras.layers.Dense with the configuration and the weights of a FusedDense."""
    dense = Dense.from_config(layer.get_config())
    dense.build(layer.get_build_config()["input_shape"])
    dense.set_weights(layer.get_weights())
    return dense


def built(features, units, *args, **kwargs):
    layer = FusedDense(units, *args, bias_initializer="random_normal", **kwargs)
    layer.build((None, features))
    return layer


def network(dense, features=4, **kwargs):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((features,)),
            dense(32, activation="gelu", **kwargs),
            dense(16, activation="relu", **kwargs),
            dense(3, **kwargs),
        ]
    )


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: getattr(a, "__name__", str(a)))
def test_it_computes_what_dense_does(activation):
    layer, x = built(20, 9, activation), data(7, 20)
    np.testing.assert_allclose(layer(x), twin(layer)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 20), (1, 20), (2, 3, 20), (2, 1, 4, 20)], ids=str)
def test_any_shape_from_two_axes_on(shape):
    layer, x = built(20, 9, "relu"), data(*shape)
    np.testing.assert_allclose(layer(x), twin(layer)(x), rtol=1e-5, atol=1e-6)


def test_keras_names_mean_what_keras_means():
    """Its "gelu" is the exact one; the kernels' "gelu" as well."""
    z = data(50, 1) * 3
    for name, approximate in (("gelu", False), (gelu_tanh, True), ("gelu_tanh", True)):
        layer = built(1, 1, name)
        layer.set_weights([np.ones((1, 1)), np.zeros(1)])
        np.testing.assert_allclose(layer(z), jax.nn.gelu(z, approximate=approximate), rtol=1e-5, atol=1e-6)


def test_without_a_bias():
    layer = FusedDense(9, use_bias=False)
    np.testing.assert_allclose(layer(data(5, 20)), data(5, 20) @ np.asarray(layer.kernel), rtol=1e-5, atol=1e-5)
    assert [w.name for w in layer.weights] == ["kernel"]


def test_integers_are_converted_as_dense_does():
    layer, x = built(3, 2), np.arange(6).reshape(2, 3)
    np.testing.assert_allclose(layer(x), twin(layer)(x), rtol=1e-6)


@pytest.mark.parametrize("features", [(4,), (5, 4)], ids=str)
def test_any_batch_and_a_ragged_last_one(features):
    inputs = keras.Input(features)
    outputs = FusedDense(6, "silu")(inputs)
    assert outputs.shape == (None, *features[:-1], 6)
    x, model = data(20, *features), keras.Model(inputs, outputs)
    np.testing.assert_allclose(
        model.predict(x, batch_size=8, verbose=0), twin(model.layers[-1])(x), rtol=1e-5, atol=1e-6
    )


def test_mixed_bfloat16_computes_in_bfloat16_and_keeps_float32_weights():
    layer = built(40, 9, "gelu", dtype="mixed_bfloat16")
    y = layer(data(7, 40))
    assert y.dtype == jnp.bfloat16 and {str(w.dtype) for w in layer.weights} == {"float32"}
    x, (w, b) = data(7, 40), layer.get_weights()
    want = linear.reference(*(jnp.asarray(v, jnp.bfloat16) for v in (x, w, b)), activation="gelu")
    np.testing.assert_allclose(y.astype(jnp.float32), want.astype(jnp.float32), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "dtype, shape, units, activation",
    daily(
        ("float32", (3, 5, 300), 9, "relu"),
        ("mixed_bfloat16", (33, 70), 200, "silu"),
        of=[
            ("float32", (33, 70), 200, "gelu"),
            ("float32", (3, 5, 300), 9, "relu"),
            ("mixed_bfloat16", (33, 70), 200, "silu"),
        ],
    ),
)
def test_the_layer_is_a_kernel_by_four_judges(dtype, shape, units, activation):
    """And Dense itself is the reference, where it computes in f32; in bf16 Dense rounds before it adds the bias."""
    layer = built(shape[-1], units, activation, dtype=dtype)
    dense = twin(layer)

    def rounded_once(x, w, b):
        return linear.reference(*(v.astype(jnp.bfloat16) for v in (x, w, b)), activation=activation)

    def called(layer):
        return lambda x, w, b: layer.stateless_call([w, b], [], x)[0]

    args = [jnp.asarray(data(*shape)), *(jnp.asarray(v) for v in layer.get_weights())]
    verdicts = judges.judge(called(layer), called(dense) if dtype == "float32" else rounded_once, *args)
    assert all(v.passed is not False for v in verdicts), str(verdicts[-1])


@pytest.fixture
def kernels_here(monkeypatch):
    """Every op takes its TPU side, and Pallas' plain interpreter runs the kernels here. Yields the names of those."""
    ran, pallas_call = set(), pl.pallas_call

    def interpreted(*args, name=None, **kwargs):
        ran.add(name)
        return pallas_call(*args, name=name, interpret=True, **kwargs)

    monkeypatch.setattr(launch.Op, "run_here", launch.Op.run_tpu)
    monkeypatch.setattr(pl, "pallas_call", interpreted)
    return ran


def iris():
    table = np.loadtxt(IRIS, delimiter=",", dtype=np.int32)
    return (table[:, :4] - table[:, :4].mean(0)).astype(np.float32) / 10, table[:, 4]


def fitted(dense, **kwargs):
    """Loss and accuracy of the last epoch on the irises, from one start, with one order of batches."""
    x, species = iris()
    model = network(dense, **kwargs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.005), loss, metrics=["accuracy"])
    keras.utils.set_random_seed(1)
    history = model.fit(x, species, epochs=18, batch_size=32, verbose=0).history  # the last batch has 22
    return history["loss"][-1], history["accuracy"][-1]


@pytest.mark.parametrize(
    "dtype, within", daily(("mixed_bfloat16", 1e-2), of=[("float32", 1e-3), ("mixed_bfloat16", 1e-2)])
)
def test_fit_reaches_the_loss_of_the_unfused_twin(dtype, within, kernels_here):
    """On Fisher's irises, by the kernels themselves, forwards and backwards."""
    fused, accuracy = fitted(FusedDense, dtype=dtype)
    assert {"linear", "linear_dw", "linear_dx"} <= kernels_here
    plain, _ = fitted(Dense, dtype=dtype)
    assert fused == pytest.approx(plain, rel=within)
    assert accuracy > 0.95


@pytest.mark.parametrize("how", [{"run_eagerly": True}, {"jit_compile": False}], ids=str)
def test_fit_without_jit(how):
    model = keras.Sequential([keras.Input((4,)), FusedDense(3, "relu")])
    model.compile("sgd", "mse", **how)
    history = model.fit(data(8, 4), data(8, 3), epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


def test_regularizers_and_constraints_are_denses():
    how = {"kernel_regularizer": "l2", "bias_regularizer": "l1", "kernel_constraint": "non_neg"}
    losses = []
    for dense in (FusedDense, Dense):
        keras.utils.set_random_seed(0)
        layer = dense(3, "relu", bias_initializer="ones", **how)
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile("sgd", "mse")
        losses += [model.fit(data(8, 4), data(8, 3), epochs=2, shuffle=False, verbose=0).history["loss"]]
        assert np.min(layer.kernel) == 0
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_save_and_load_give_the_same_bits(dtype, tmp_path):
    model = network(FusedDense, bias_initializer="random_normal", dtype=dtype)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    again, fresh = keras.models.load_model(tmp_path / "model.keras"), network(FusedDense, dtype=dtype)
    fresh.load_weights(tmp_path / "model.weights.h5")
    for loaded in (again, fresh):
        np.testing.assert_array_equal(loaded(data(9, 4)), model(data(9, 4)))
    assert [layer.get_config() for layer in again.layers] == [layer.get_config() for layer in model.layers]


def test_training_goes_on_after_loading(tmp_path):
    """With the optimizer's state: the next epoch ends at the same bits."""
    model = keras.Sequential([keras.Input((4,)), FusedDense(3, "gelu")])
    model.compile("adam", "mse")
    model.fit(data(9, 4), data(9, 3), verbose=0)
    model.save(tmp_path / "model.keras")
    for m in (again := keras.models.load_model(tmp_path / "model.keras"), model):
        m.fit(data(9, 4), data(9, 3), shuffle=False, verbose=0)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


OURS = {"residuals": "recompute", "precision": "default", "blocks": linear.Blocks(bm=128, bk=128, bn=256)}


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", None], ids=str)
@pytest.mark.parametrize("ours", [{}, OURS], ids=["defaults", "ours"])
def test_the_configuration_says_everything(activation, ours):
    layer = built(5, 3, activation, use_bias=False, kernel_initializer="he_normal", name="head", **ours)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is FusedDense and again.get_config() == layer.get_config()
    assert (again.residuals, again.precision, again.blocks) == (layer.residuals, layer.precision, layer.blocks)
    np.testing.assert_array_equal(again(data(2, 5)).shape, (2, 3))


def test_weights_and_configurations_go_both_ways():
    fused, dense = network(FusedDense), network(Dense)
    dense.set_weights([w + 0.1 for w in fused.get_weights()])
    fused.set_weights(dense.get_weights())
    np.testing.assert_allclose(fused(data(9, 4)), dense(data(9, 4)), rtol=1e-5, atol=1e-6)
    for start, end in ((dense, FusedDense), (fused, Dense)):
        changed = keras.models.clone_model(
            start, clone_function=lambda layer, end=end: end.from_config(layer.get_config())
        )
        changed.set_weights(start.get_weights())
        assert {type(layer) for layer in changed.layers} == {end}
        np.testing.assert_allclose(changed(data(9, 4)), start(data(9, 4)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("source, target", [(FusedDense, Dense), (Dense, FusedDense)])
def test_weights_files_go_both_ways_once_renamed(source, target, tmp_path):
    names = {FusedDense: "fused_dense", Dense: "dense"}
    saved, other = network(source), network(target)
    saved.save_weights(tmp_path / "saved.weights.h5")
    with pytest.raises(ValueError, match="could not be loaded"):
        other.load_weights(tmp_path / "saved.weights.h5")
    editor = keras.saving.KerasFileEditor(str(tmp_path / "saved.weights.h5"))
    for number in ("", "_1", "_2"):
        editor.rename_object(f"layers/{names[source]}{number}", names[target] + number)
    editor.save(str(tmp_path / "renamed.weights.h5"))
    other.load_weights(tmp_path / "renamed.weights.h5")
    np.testing.assert_allclose(other(data(9, 4)), saved(data(9, 4)), rtol=1e-5, atol=1e-6)


def abstract(variables):
    return [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in variables]


def kernels(report):
    """How often each of our kernels is in a compiled program."""
    assert report.ok, str(report.error)
    names = [op.name.split(" ")[0] for op in report.ops if op.kind == "kernel"]
    return {name: names.count(name) for name in names}


@needs_libtpu
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_inference_compiles_for_a_v5e(dtype):
    model = network(FusedDense, 200, dtype=dtype)
    x = jax.ShapeDtypeStruct((100, 200), jnp.float32)
    report = compiler.compile_tpu(
        lambda weights, x: model.stateless_call(weights, [], x)[0], abstract(model.trainable_variables), x
    )
    assert kernels(report) == {"linear": 3}


@needs_libtpu
def test_training_compiles_for_a_v5e_and_leaves_out_what_nobody_asked_for():
    """Three layers: three dw, but two dx, for the gradient by the data is not needed.

    The last has no activation, so its dx is a plain product; the first makes dz by itself, in the elementwise kernel.
    """
    model = network(FusedDense, 200, dtype="mixed_bfloat16")
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)

    def loss(weights, state, x, y):
        prediction, state = model.stateless_call(weights, state, x, training=True)
        return model.compute_loss(x, y, prediction), state

    def step(weights, state, optimizer, x, y):
        (value, state), gradient = jax.value_and_grad(loss, has_aux=True)(weights, state, x, y)
        weights, optimizer = model.optimizer.stateless_apply(optimizer, gradient, weights)
        return value, weights, state, optimizer

    parts = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
    x, y = (jax.ShapeDtypeStruct((100, n), jnp.float32) for n in (200, 3))
    report = compiler.compile_tpu(step, *map(abstract, parts), x, y, simulate=False)
    counted = kernels(report)
    assert (counted["linear"], counted["linear_dw"], counted["linear_dx"]) == (3, 3, 1)
    assert counted["matmul"] == 1 and sum(counted.values()) == 3 + 3 + 2 + 1


def test_residuals_blocks_and_precision_reach_the_kernel():
    x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((300, 500), (500, 300)))

    def gradient(**ours):
        layer = built(500, 300, "gelu", **ours)
        return jax.grad(lambda w, x: layer.stateless_call([w, layer.bias.value], [], x)[0].sum())

    def first_outputs(**ours):
        return grid.walk(gradient(**ours), w, x).calls[0].outputs

    assert len(first_outputs()) == 2 and len(first_outputs(residuals="recompute")) == 1  # z is saved, or is not
    assert first_outputs(blocks=linear.Blocks(bm=128, bk=128, bn=256))[0].block_shape == (128, 256)
    traced = [str(grid.trace(gradient(precision=level), w, x, chip="v5e")) for level in ("highest", "default")]
    assert ["HIGHEST" in text for text in traced] == [True, False]


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"activation": "tanh"}, r"activation='tanh' is not in the kernel; it may be None, 'linear', 'relu', 'gelu',"),
        ({"activation": "nonsense"}, "activation='nonsense' is not in the kernel"),
        ({"activation": keras.activations.softmax}, "activation=<function softmax"),
        ({"activation": {"not": "one"}}, "is not in the kernel"),
        ({"residuals": "keep"}, "residuals='keep'; it may be 'save' or 'recompute'"),
        ({"precision": "high"}, "precision='high' is not one of 'default'"),
        ({"blocks": {"bm": 100}}, "Nearest legal: bm=128"),
    ],
)
def test_bad_arguments_get_one_clear_error(arguments, says):
    with pytest.raises(ValueError, match=says):
        FusedDense(3, **arguments)


def test_an_activation_changed_later_is_looked_at_too():
    layer = built(4, 3, "relu")
    layer.activation = keras.activations.linear
    assert np.min(layer(data(9, 4))) < 0
    layer.activation = keras.activations.tanh
    with pytest.raises(ValueError, match="function tanh.* is not in the kernel"):
        layer(data(9, 4))


def test_a_compute_dtype_that_the_kernel_has_not():
    with pytest.raises(ValueError, match="is to compute in float16; it may be float32 or bfloat16"):
        FusedDense(3, dtype="float16")(keras.Input((4,)))


def test_sparse_input_is_refused():
    inputs = keras.Input((4,), sparse=True)
    model = keras.Model(inputs, FusedDense(3)(inputs))
    with pytest.raises(ValueError, match=r"is sparse; it must be dense. Try x.todense\(\)"):
        model(sparse.BCOO.fromdense(data(2, 4)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: FusedDense(3, lora_rank=2),
        lambda: FusedDense(3, dtype="int8_from_float32"),
        lambda: built(4, 3).enable_lora(2),
        lambda: built(4, 3).quantize("int8"),
        lambda: setattr(built(4, 3), "dtype_policy", "int8_from_float32"),
    ],
)
def test_what_would_go_round_the_kernel_is_refused(ask):
    with pytest.raises(NotImplementedError, match="neither quantized nor given LoRA weights"):
        ask()


def test_a_model_that_is_quantized_leaves_it_as_it_is():
    model = network(FusedDense)
    before = model(data(5, 4))
    with warnings.catch_warnings(record=True) as warned:  # one for each layer, the input's own as well
        warnings.simplefilter("always")
        model.quantize("int8")
    assert sum("neither quantized" in str(w.message) for w in warned) == 3
    np.testing.assert_array_equal(model(data(5, 4)), before)
