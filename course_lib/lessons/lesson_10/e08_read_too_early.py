"""What happens to a weight that is read in build: a choice whose answer is found by running it."""

import warnings

import numpy as np

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose

EARLY = """\
class Early(keras.layers.Layer):
    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], 3))
        self.w = self.kernel.value + 0

    def call(self, inputs):
        return inputs @ self.w

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 3)


model = keras.Sequential([keras.Input((4,)), Early()])
model.compile("sgd", "mse")
model.fit(np.ones((8, 4)), np.ones((8, 3)), epochs=3)
"""


def _what_happens() -> str:
    import keras

    names = {"keras": keras, "np": np}
    with warnings.catch_warnings(record=True) as warned:
        return _seen(names, warned)


def _seen(names: dict, warned: list) -> str:
    try:
        exec(EARLY.replace("epochs=3", "epochs=3, verbose=0").replace("model.fit", "history = model.fit"), names)
    except Exception:
        return "error"
    first, *_, last = names["history"].history["loss"]
    if first != last:
        return "trains"
    return "weights stay, and a warning" if warned else "weights stay"


EXERCISE = Exercise(
    id="10.8",
    title="Choose: a weight that was read too early",
    kind="choose",
    defines="happens",
    listing=EARLY,
    asks=Choose(
        options=("trains", "weights stay", "weights stay, and a warning", "error"),
        right="weights stay",
        wrong={
            "trains": "fit differentiates with respect to the weights that it passes into call. "
            "Does the result depend on those?",
            "weights stay, and a warning": "Who would warn? For JAX a gradient of 0 is a value like any other.",
            "error": "It runs without an error, which makes the mistake hard to find.",
        },
        why="call never reads self.kernel, so its gradient is 0, and nothing says so.",
        proof=_what_happens,
    ),
    hints=(
        "fit differentiates a function of the weights, and it puts the weights of the step in the place of "
        "self.kernel.",
        "self.w is an array, computed once from the first weights. What is its slope with respect to the weights "
        "of step 2?",
        "Compare it with jax.grad(lambda kernel: (x @ w).sum()), where w does not depend on kernel.",
    ),
    points=1,
)
