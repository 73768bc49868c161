"""The layer in Keras: values and gradients of its kernels, its fit compared with Dense, its files, its train step."""

import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import compiler, datasets, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_10 import layers

WIDTH = 128  # features and units, so that any blocks will do


def _as_a_function(layer_class):
    """Return the layer as a function of inputs, kernel and bias, built afresh at each call."""
    import keras

    if not isinstance(layer_class, type) or not issubclass(layer_class, keras.layers.Layer):
        raise Unfit(
            "What you passed to check is not a class of Keras layers.",
            'pass the class itself, without parentheses: checks.check("10.5", FusedDense).',
        )

    _must_say_its_shape(layer_class)
    _must_have_two_weights(layer_class)
    _must_use_what_it_is_handed(layer_class)
    _must_compute_in_bfloat16(layer_class)
    _must_keep_the_axes(layer_class)

    def call(x, w, b):
        policy = "mixed_bfloat16" if x.dtype == jnp.bfloat16 else "float32"
        layer = layer_class(w.shape[1], dtype=policy)
        with jax.ensure_compile_time_eval():  # its initial weights are concrete values, not part of the trace
            layer.build((None, *x.shape[1:]))
        return layer.stateless_call([w, b], [], x)[0]

    return call


def _must_say_its_shape(layer_class) -> None:
    import keras

    base = keras.layers.Layer
    if layer_class.compute_output_shape is base.compute_output_shape:
        if layer_class.compute_output_spec is base.compute_output_spec:
            raise Unfit(
                "Keras asks a layer for the shape of its output, but this one has no compute_output_shape.",
                "write compute_output_shape(self, input_shape), which returns all axes of the input but the last, and "
                "then units.",
            )


def _must_have_two_weights(layer_class) -> None:
    """Raise Unfit unless a built layer has a kernel and a bias of the right shapes, both of them trained."""
    layer = layer_class(256)
    layer.build((None, 128))
    if still := layer.non_trainable_variables:
        raise Unfit(
            f"Its weight {still[0].name} is not trained: fit never changes it.",
            "leave trainable=False out of add_weight.",
        )
    shapes, wanted = [tuple(v.shape) for v in layer.trainable_variables], [(128, 256), (256,)]
    if shapes != wanted:
        raise Unfit(
            f"For 128 features and 256 units its weights have the shapes {shapes}; they should be {wanted}.",
            "in build, add the kernel first, then the bias. The features are the last axis of the input.",
        )


def _must_use_what_it_is_handed(layer_class) -> None:
    """Raise Unfit unless kernel and bias are read from the weights that ``fit`` passes in at each step."""
    layer = layer_class(WIDTH)
    layer.build((None, WIDTH))
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((WIDTH, WIDTH), (WIDTH,), (8, WIDTH))]
    traced = jax.make_jaxpr(lambda w, b, x: layer.stateless_call([w, b], [], x)[0])(*shapes).jaxpr
    read = {id(value) for equation in traced.eqns for value in equation.invars}
    unread = [name for name, value in zip(("kernel", "bias"), traced.invars, strict=False) if id(value) not in read]
    if unread:
        raise Unfit(
            "fit passes in a kernel and a bias at each step, but the layer does not read the "
            f"{' and the '.join(unread)}. It computes with other weights.",
            "read self.kernel and self.bias in call, each time, and keep no array made from them.",
        )


def _must_compute_in_bfloat16(layer_class) -> None:
    """Raise Unfit if a kernel gets a float32 matrix under mixed_bfloat16."""
    layer = layer_class(WIDTH, dtype="mixed_bfloat16")
    if layer.compute_dtype != "bfloat16":
        raise Unfit(
            f'Created with dtype="mixed_bfloat16", it computes in {layer.compute_dtype}.',
            "pass on the keyword arguments of __init__: super().__init__(**kwargs).",
        )
    layer.build((None, WIDTH))
    if narrow := [str(v.dtype) for v in layer.trainable_variables if str(v.dtype) != "float32"]:
        raise Unfit(
            f"Under mixed_bfloat16 its weights are kept in {narrow[0]}, which rounds small updates away.",
            "leave dtype out of add_weight, so that the weights stay float32, and cast them in call.",
        )
    weights = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((WIDTH, WIDTH), (WIDTH,))]
    x = jax.ShapeDtypeStruct((8, WIDTH), jnp.bfloat16)
    try:
        calls = grid.walk(lambda w, b, x: layer.stateless_call([w, b], [], x)[0], *weights, x).calls
    except Exception:  # the judges will say why
        return
    wide = [o.name for call in calls for o in call.inputs if o.dtype == np.float32 and min(o.shape) > 1]
    if wide:
        raise Unfit(
            f"Under mixed_bfloat16 `call` passes float32 operands to its kernel: {', '.join(wide)}.",
            "cast kernel and bias to self.compute_dtype, which the inputs already have.",
        )


def _must_keep_the_axes(layer_class) -> None:
    """Raise Unfit unless all axes but the last are those of the input, in the declared shape and the actual one."""
    import keras

    shape = tuple(layer_class(256).compute_output_spec(keras.KerasTensor((None, 7, 128))).shape)
    if shape != (None, 7, 256):
        raise Unfit(
            f"With 256 units, the layer declares that (None, 7, 128) becomes {shape}; it should be (None, 7, 256).",
            "return all axes of the input but the last, and then units.",
        )
    layer = layer_class(256)
    layer.build((None, 7, 128))
    weights = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in layer.trainable_variables]
    x = jax.ShapeDtypeStruct((2, 7, 128), jnp.float32)
    try:
        got = jax.eval_shape(lambda weights, x: layer.stateless_call(weights, [], x)[0], weights, x).shape
    except Exception as error:
        got = f"no answer, but a {type(error).__name__}"
    if got != (2, 7, 256):
        raise Unfit(
            f"An input of shape (2, 7, 128) gives {got}; the output should have the shape (2, 7, 256).",
            "in call, reshape the inputs to rows, and reshape the result back.",
        )


def _cases() -> list[tuple]:
    return layers.at_random(("x: T[M,K]", "w: T[K,N]", "b: T[N]"), ({"M": 20, "K": 128, "N": 256},))


def _start_is_densest(layer_class):
    layer = layer_class(WIDTH)
    layer.build((None, WIDTH))
    kernel, bias = (np.asarray(v) for v in layer.trainable_variables)
    limit = np.sqrt(6 / (2 * WIDTH))
    if np.abs(bias).max() > 0:
        return "The bias does not start at 0.", 'use add_weight(..., initializer="zeros").'
    if not 0.9 * limit < np.abs(kernel).max() <= limit:
        return (
            f"The largest weight at the start is {np.abs(kernel).max():.3g}; with glorot_uniform it is just below "
            f"{limit:.3g}.",
            'use add_weight(..., initializer="glorot_uniform").',
        )
    return None


def _network(layer, start=None):
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((WIDTH,)), layer, keras.layers.Dense(3)])
    if start is not None:
        model.set_weights(start)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss)
    return model


def _flowers():
    features, species = datasets.irises()
    return np.pad(features, ((0, 0), (0, WIDTH - features.shape[1]))), species


def _fits_and_survives(layer_class):
    """Demand that four epochs on one ragged batch match Dense from the same start, and that a saved model loads."""
    import keras

    x, y = _flowers()
    twin = _network(keras.layers.Dense(WIDTH, "relu"))
    model = _network(layer_class(WIDTH), twin.get_weights())
    losses = [m.fit(x, y, batch_size=len(x), epochs=4, shuffle=False, verbose=0).history["loss"] for m in (model, twin)]
    apart = max(abs(ours / theirs - 1) for ours, theirs in zip(*losses, strict=True))
    if apart > 0.02:
        shown = "; ".join(", ".join(f"{loss:.3f}" for loss in each) for each in losses)
        return (
            f"On the irises its losses differ by up to {apart:.0%} from those of Dense (yours; Dense's): {shown}.",
            "look at the first loss. If it is right and the later ones are not, the weights do not change: where does "
            "call take them from?",
        )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        model.save(path)
        try:
            again = keras.models.load_model(path)
        except Exception as error:
            return (
                f"The model was saved, but it cannot be loaded again: {type(error).__name__}.",
                "does get_config return every argument that __init__ needs? And is this very class registered with "
                '@keras.saving.register_keras_serializable("lesson_10")? A subclass needs its own.',
            )
    kernel, bias, last, offset = model.get_weights()
    expected = np.maximum(x[:9] @ kernel + bias, 0) @ last + offset
    if not np.allclose(again.predict(x[:9], verbose=0), expected, rtol=1e-3, atol=1e-3):
        return (
            "After saving and loading, the model predicts something else.",
            "is all that it needs in weights or get_config?",
        )
    return None


def _train_step_compiles(layer_class):
    model = _network(layer_class(WIDTH))
    model.optimizer.build(model.trainable_variables)

    def loss(weights, x, y):
        return model.compute_loss(x, y, model.stateless_call(weights, [], x, training=True)[0])

    def step(weights, moments, x, y):
        value, slopes = jax.value_and_grad(loss)(weights, x, y)
        return value, *model.optimizer.stateless_apply(moments, slopes, weights)

    parts = (
        [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in part]
        for part in (model.trainable_variables, model.optimizer.variables)
    )
    x, y = jax.ShapeDtypeStruct((150, WIDTH), jnp.float32), jax.ShapeDtypeStruct((150,), jnp.int32)
    report = compiler.compile_tpu(step, *parts, x, y, simulate=False)
    if report.ok is False:
        return f"The train step does not compile for a v5e: {report.error}", "compile fused_dense on its own first."
    return None


EXERCISE = Exercise(
    id="10.5",
    title="The layer to take to work",
    kind="write",
    defines="FusedDense",
    cases=_cases,
    reference=layers.layer,
    build=_as_a_function,
    gradient=judges.Gradient(of=("x", "w", "b"), pre=layers.before_relu, activation=jax.nn.relu, zeros=False),
    also=(_start_is_densest, _fits_and_survives, _train_step_compiles),
    hints=(
        "You need five methods: __init__(self, units, **kwargs), build(self, input_shape), call(self, inputs), "
        "compute_output_shape(self, input_shape), get_config(self).",
        "In call, cast kernel and bias to self.compute_dtype with keras.ops.cast. Reshape the inputs to rows, "
        "and reshape the result to all axes of the inputs but the last, and units.",
        "get_config returns {**super().get_config(), 'units': self.units}, and __init__ passes **kwargs on. In "
        "build, self.kernel = self.add_weight(name='kernel', shape=(input_shape[-1], self.units), "
        "initializer='glorot_uniform'), and the bias starts as 'zeros'.",
    ),
    points=4,
)
