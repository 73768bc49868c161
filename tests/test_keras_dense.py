"""FusedDense beside keras.layers.Dense, its twin: the same numbers, training, files and weights; and our kernels."""

import gc
import os
import pathlib
import subprocess
import sys
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
from course_lib.kernels import linear
from course_lib.kernels.dispatch import launch

Dense = keras.layers.Dense
ROOT = pathlib.Path(__file__).resolve().parent.parent
IRIS = pathlib.Path(datasets.__file__).parent / "iris.csv"
FUSED = [None, "linear", "relu", "gelu", "gelu_tanh", "silu", "swish", keras.activations.relu]
FUSED += [jax.nn.relu, jax.nn.gelu, jax.nn.silu]
BEHIND = ["tanh", "sigmoid", "softmax", "leaky_relu", keras.activations.mish, jnp.sin, keras.layers.ELU()]


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


def named(activation):
    return getattr(activation, "__name__", str(activation))


@pytest.mark.parametrize("activation", FUSED + BEHIND, ids=named)
def test_it_computes_what_dense_does(activation):
    layer, x = built(20, 9, activation), data(7, 20)
    dense = Dense(9, activation=gelu_tanh if activation == "gelu_tanh" else activation)
    dense.build((None, 20))
    dense.set_weights(layer.get_weights())
    np.testing.assert_allclose(layer(x), dense(x), rtol=1e-5, atol=1e-6)
    if activation in FUSED:
        np.testing.assert_allclose(layer(x), twin(layer)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", FUSED + BEHIND, ids=named)
def test_what_is_in_the_kernel_and_what_behind_it(activation, monkeypatch):
    asked, op = [], linear.linear
    monkeypatch.setattr(linear, "linear", lambda *args, **how: asked.append(how["activation"]) or op(*args, **how))
    built(20, 9, activation)(data(7, 20))
    assert [name is not None for name in asked] == [activation in FUSED]


@pytest.mark.parametrize("activation", ["softmax", "leaky_relu", jax.nn.gelu, keras.layers.ELU()], ids=named)
def test_a_model_with_any_activation_trains_and_is_saved(activation, tmp_path):
    model = keras.Sequential([keras.Input((4,)), FusedDense(3, activation)])
    model.compile("sgd", "mse")
    losses = model.fit(data(8, 4), np.abs(data(8, 3)), epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(data(9, 4)), model(data(9, 4)))
    assert again.layers[0].get_config() == model.layers[0].get_config()


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
    verdicts = judges.judge(called(layer), called(dense) if dtype == "float32" else rounded_once, *args, simulate=False)
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
        ({"activation": "nonsense"}, "activation is 'nonsense', which Keras does not know; it may be None, a name"),
        ({"activation": 3}, "activation is 3, which Keras does not know"),
        ({"activation": {"not": "one"}}, "activation is {'not': 'one'}, which Keras does not know"),
        ({"residuals": "keep"}, "residuals='keep'; it may be 'save' or 'recompute'"),
        ({"precision": "higher"}, "FusedDense: precision is 'higher'; it may be 'default'"),
        ({"blocks": (128, 128, 128)}, r"FusedDense: blocks is \(128, 128, 128\); it may be matmul.Blocks"),
        ({"blocks": {"bm": 100}}, "Nearest legal: bm=96"),
    ],
)
def test_bad_arguments_get_one_clear_error(arguments, says):
    with pytest.raises(ValueError, match=says):
        FusedDense(3, **arguments)


def test_an_activation_changed_later_is_looked_at_too():
    layer, x = built(4, 3, "relu"), data(9, 4)
    layer.activation = keras.activations.linear
    assert np.min(layer(x)) < 0
    for activation in (keras.activations.tanh, None, jax.nn.silu):
        layer.activation = activation
        np.testing.assert_allclose(layer(x), (activation or np.asarray)(x @ layer.kernel + layer.bias), rtol=1e-5)


def test_a_compute_dtype_that_the_kernel_has_not():
    with pytest.raises(ValueError, match="would compute in float16; it may be float32 or bfloat16"):
        FusedDense(3, dtype="float16")(keras.Input((4,)))


def test_sparse_input_is_refused():
    inputs = keras.Input((4,), sparse=True)
    model = keras.Model(inputs, FusedDense(3)(inputs))
    with pytest.raises(ValueError, match=r"is sparse; it must be dense. Try x.todense\(\)"):
        model(sparse.BCOO.fromdense(data(2, 4)))


@pytest.mark.parametrize("mode", daily("int8", of=["int8", "int4", "float8"]))
def test_quantized_it_is_dense(mode, tmp_path, monkeypatch):
    """Of a whole model, with Keras' own Dense beside it; and loaded again."""
    # Keras collects garbage after every weight that it deletes: behind some thousand other tests that takes 4 s.
    monkeypatch.setattr(gc, "collect", lambda *generation: 0)
    fused, dense = network(FusedDense), network(Dense)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras': "Layer InputLayer does not have a `quantize` method"
        for model in (fused, dense):
            model.quantize(mode)
    np.testing.assert_allclose(fused(data(9, 4)), dense(data(9, 4)), rtol=1e-5, atol=1e-6)
    assert {layer.quantization_mode for layer in fused.layers} == {mode}
    fused.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(data(9, 4)), fused(data(9, 4)))


@pytest.mark.parametrize("lora", [lambda: built(4, 3, "gelu", lora_rank=2), None], ids=["from the start", "later"])
def test_lora_weights_are_trained_and_the_kernel_is_not(lora):
    layer = lora() if lora else built(4, 3, "gelu")
    if not lora:
        layer.enable_lora(2)
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile("sgd", "mse")
    before = layer._kernel.numpy(), np.array(layer.kernel)
    losses = model.fit(data(9, 4), data(9, 3), epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    np.testing.assert_array_equal(layer._kernel, before[0])
    assert np.abs(np.asarray(layer.kernel) - before[1]).max() > 0
    want = keras.activations.gelu(data(9, 4) @ layer.kernel + layer.bias)
    np.testing.assert_allclose(layer(data(9, 4)), want, rtol=1e-5, atol=1e-6)


ELSEWHERE = [(None, "Keras asked for tensorflow"), ("numpy", "Keras is on numpy")]


@pytest.mark.parametrize("backend, was", daily(ELSEWHERE[0], of=ELSEWHERE))
def test_on_another_backend_it_says_so_once(backend, was):
    # Empty, because where nothing is set at all our environment says jax.
    env = os.environ | ({"KERAS_BACKEND": backend} if backend else {"KERAS_BACKEND": "", "KERAS_HOME": "/nowhere"})
    command = [sys.executable, "-c", "import course_lib.frameworks.keras"]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, cwd=ROOT)
    last = out.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: course_lib.frameworks.keras runs on Keras' JAX backend, but {was}. Set KERAS")
