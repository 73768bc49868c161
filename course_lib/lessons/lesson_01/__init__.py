"""The exercises of lesson 1, Hello, kernel."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.explain import Explain
from course_lib.checks.kinds.find import Find
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.unfit import Unfit

TITLE = "Hello, kernel"

VECTORS = ("x: f32[N]", "y: f32[N]")
LENGTHS = ({"N": 4096}, {"N": 1000}, {"N": 8})
WHOLE_BLOCKS = ({"N": 4096}, {"N": 8192}, {"N": 3072})
ROWS = ("x: f32[B,N]", "y: f32[B,N]")


def _of_any_rank() -> list[tuple]:
    """Two axes and one: typed inputs have one rank, so these are two lists."""
    matrices = ("x: T[M,N]", "y: T[M,N]"), ({"M": 16, "N": 256}, {"M": 5, "N": 130}), ("f32", "int32", "bf16")
    return arguments(*matrices) + arguments(VECTORS, ({"N": 1000},))


def _whole_blocks() -> list[tuple]:
    """Lengths that 1024 divides: what to do with a rest is the subject of another lesson."""
    return arguments(VECTORS, WHOLE_BLOCKS)


def _call_layer(layer_class):
    """The layer as a function of two arrays, built anew, so that nothing is left over from an earlier trace."""
    import keras

    if isinstance(layer_class, keras.layers.Layer):
        raise Unfit(
            f"What you handed to check is a {type(layer_class).__name__} object, a layer that is made already.",
            'hand over the class, without brackets: checks.check("01.3", PallasAdd).',
        )
    if not isinstance(layer_class, type) or not issubclass(layer_class, keras.layers.Layer):
        name = getattr(layer_class, "__name__", "What you handed to check")
        kind = "a class, but no Keras layer" if isinstance(layer_class, type) else "a function, and a layer is a class"
        raise Unfit(
            f"{name} is {kind}.",
            "begin it with class PallasAdd(keras.layers.Layer): and give it a method call(self, inputs).",
        )
    layer = layer_class()
    return lambda x, y: layer([x, y])


def _layer_says_its_shape(layer_class):
    for width in (128, 256):
        shape = layer_class().compute_output_shape([(None, width), (None, width)])
        if shape is None or tuple(shape) != (None, width):
            return (
                f"compute_output_shape([(None, {width}), (None, {width})]) returned {shape}; it should be "
                f"(None, {width}).",
                "return the shape of the first input.",
            )


def _layer_predicts(layer_class):
    import keras

    a, b = keras.Input((128,)), keras.Input((128,))
    model = keras.Model([a, b], layer_class()([a, b]))
    _, at_random = arguments(ROWS, ({"B": 20, "N": 128},))
    x, y = map(np.asarray, at_random)
    got = model.predict([x, y], batch_size=8, verbose=0)
    if not np.allclose(got, x + y, atol=1e-6):
        return f"model.predict differs from x + y by up to {np.abs(got - (x + y)).max():.3g}.", "look at call()."


def _layer_survives_json(layer_class):
    import keras

    layer = layer_class(name="sum_of_two")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config, custom_objects={layer_class.__name__: layer_class})
    if again.name != "sum_of_two" or type(again) is not layer_class:
        return (
            f"Written to JSON and read back, the layer became {type(again).__name__} named {again.name!r}.",
            "pass **kwargs on to super().__init__, and start get_config from super().get_config().",
        )


def _call_configured(configure):
    """A plain add kernel with the learner's grid and blocks."""

    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    for size in WHOLE_BLOCKS:
        _grid_block_and_map(size["N"], configure(size["N"]))

    def add(x, y):
        settings = configure(x.size)
        if settings is None:
            return None
        steps, block, index_map = settings
        spec = pl.BlockSpec(block, index_map)
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(add_kernel, out_shape=out, grid=steps, in_specs=[spec, spec], out_specs=spec)(x, y)

    return add


def _grid_block_and_map(n: int, settings: object) -> None:
    """Refuse what cannot be a grid, a block and an index map. None is nothing yet, and others say so."""
    three = isinstance(settings, tuple | list) and len(settings) == 3
    if settings is not None and not (
        three and callable(settings[2]) and not any(isinstance(s, str) or callable(s) for s in settings[:2])
    ):
        raise Unfit(
            f"configure({n}) returned {_shown(settings)}; asked are three things, in this order: the grid "
            "and the block, which are tuples of integers, and the index map, which is a function.",
            "write return grid, block, index_map.",
        )


def _shown(value: object) -> str:
    """The same at every run: without the addresses of functions."""
    return f"{re.sub(r'<function [^ ]+ at 0x[0-9a-fA-F]+>', 'a function', repr(value)):.90}"


def _covers_once(configure):
    call = grid.walk(_call_configured(configure), *_whole_blocks()[0]).calls[0]
    output = call.outputs[0]
    if call.steps == 1:
        return "The grid has one step: all of both vectors would be in VMEM at once.", "choose a smaller block."
    if call.steps != len(np.unique(output.indices, axis=0)):
        return (
            f"The grid has {call.steps} steps, and the output has {output.blocks[0]} blocks: some block is written "
            "more than once.",
            "one step for each block: 4096 divided by the block size.",
        )


def _bytes_moved() -> int:
    """What adding two float32 vectors of 4096 moves between HBM and VMEM, from the grid's list."""

    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    vector = jax.ShapeDtypeStruct((4096,), jnp.float32)
    return cost.hbm_bytes(grid.walk(pl.pallas_call(add_kernel, out_shape=vector), vector, vector))


BIAS = """\
def bias_kernel(x_ref, b_ref, o_ref):
    o_ref[...] = x_ref[...] + b_ref[...]


def add_bias(x, b):
    x_block = pl.BlockSpec((1024,), lambda i: (i,))
    b_block = pl.BlockSpec((1024,), lambda i: (0,))
    o_block = pl.BlockSpec((1024,), lambda i: (0,))
    return pl.pallas_call(
        bias_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.size // 1024,),
        in_specs=[x_block, b_block],
        out_specs=o_block,
    )(x, b)
"""

TOTAL = """\
def total_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def start():
        o_ref[...] = x_ref[...]

    @pl.when(pl.program_id(0) > 0)
    def add():
        o_ref[...] += x_ref[...]


def total(x):
    return pl.pallas_call(
        total_kernel,
        out_shape=jax.ShapeDtypeStruct((1024,), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((1024,), lambda i: (i,))],
        out_specs=pl.BlockSpec((1024,), lambda i: (0,)),
    )(x)
"""


def _who_refuses_total() -> str:
    """The first judge that refuses TOTAL, or "none"."""
    names = {"jax": jax, "pl": pl}
    exec(TOTAL, names)
    (x,) = arguments(("x: f32[N]",), ({"N": 4096},))[0]
    verdicts = judges.judge(names["total"], lambda x: x.reshape(4, 1024).sum(axis=0), x)
    return next((said.judge for said in verdicts if said.passed is False), "none")


EXERCISES = (
    Exercise(
        id="01.1",
        title="Add two vectors",
        kind="write",
        defines="add_kernel",
        judged="add_vectors",
        inputs=VECTORS,
        sizes=LENGTHS,
        reference=lambda x, y: x + y,
        hints=(
            "x_ref and y_ref are places in memory. x_ref[...] reads all of one as a value you can compute with.",
            "o_ref[...] = value writes a value to the output.",
            "One line does it: o_ref[...] = x_ref[...] + y_ref[...]",
        ),
        points=1,
    ),
    Exercise(
        id="01.2",
        title="Any dtype, any shape",
        kind="write",
        defines="add_any",
        cases=_of_any_rank,
        reference=lambda x, y: x + y,
        hints=(
            "pl.pallas_call(kernel, out_shape=...) returns a function; call that with x and y.",
            "out_shape is a promise about the result: a shape and a dtype. Both are known from x.",
            "jax.ShapeDtypeStruct(x.shape, x.dtype) is the promise.",
        ),
        points=1,
    ),
    Exercise(
        id="01.3",
        title="A Keras layer",
        kind="write",
        defines="PallasAdd",
        inputs=ROWS,
        sizes=({"B": 16, "N": 128}, {"B": 3, "N": 128}, {"B": 5, "N": 130}),
        reference=lambda x, y: x + y,
        build=_call_layer,
        also=(_layer_says_its_shape, _layer_predicts, _layer_survives_json),
        hints=(
            "A layer computes in call(self, inputs). Here inputs is a list of two arrays.",
            "compute_output_shape(self, input_shape) gets a list of two shapes and returns one. Without it, Keras "
            "would trace your kernel with a batch of unknown size, and Pallas refuses that.",
            "call returns add_vectors(*inputs), from 01.1; compute_output_shape returns input_shape[0].",
        ),
        points=2,
    ),
    Exercise(
        id="01.4",
        title="Configure only: a grid for 4096 elements",
        kind="configure",
        defines="configure",
        cases=_whole_blocks,
        reference=lambda x, y: x + y,
        build=_call_configured,
        also=(_covers_once,),
        hints=(
            "The grid is how many steps there are; the block is what one step sees; the index map says which block.",
            "A legal one-dimensional block is a multiple of 1024, or a power of two from 128 up.",
            "The index map returns a block number, not an element number: at step i it is block i.",
        ),
        points=1,
    ),
    Exercise(
        id="01.5",
        title="Repair: a kernel that writes where it reads",
        kind="repair",
        defines="scaled_add_kernel",
        judged="scaled_add",
        inputs=VECTORS,
        sizes=LENGTHS,
        reference=lambda x, y: 2 * x + y,
        hints=(
            "Which refs may a kernel write to? Read the signature: inputs first, outputs last.",
            "You need no room in memory for 2 * x: a value read from a ref is yours to compute with.",
            "One line does it: o_ref[...] = 2 * x_ref[...] + y_ref[...]",
        ),
        points=1,
    ),
    Exercise(
        id="01.6",
        title="Predict: how many bytes move?",
        kind="predict",
        defines="moved",
        asks=Predict(
            value=49_152,
            unit="bytes",
            near={
                32_768: "That is x and y, which go in. The sum has to come out as well.",
                16_384: "That is one vector. Three of them move.",
                12_288: "That is how many numbers move. How many bytes is one float32?",
                24_576: "That would be right for numbers of two bytes, bfloat16 say. These are float32.",
            },
            why="two vectors in and one out, 4096 numbers each, 4 bytes a number.",
            proof=_bytes_moved,
        ),
        hints=(
            "The kernel runs once. What has to be in VMEM before it, and what has to be in HBM after it?",
            "Two vectors go in, one comes out. How many bytes is a vector of 4096 float32?",
            "A float32 has 4 bytes: three times 4096 times 4.",
        ),
        points=1,
    ),
    Exercise(
        id="01.7",
        title="Find the line",
        kind="find",
        defines="line",
        listing=BIAS,
        cases=lambda: arguments(("x: f32[N]", "b: f32[1024]"), ({"N": 4096}, {"N": 2048}, {"N": 3072})),
        reference=lambda x, b: x + jnp.tile(b, x.size // b.size),
        asks=Find(
            line=8,
            fixed="    o_block = pl.BlockSpec((1024,), lambda i: (i,))",
            function="add_bias",
            refused_by="numbers",
            near={
                2: "The blocks are alike in shape, and their sum goes to the output: the arithmetic is right.",
                6: "At step i it hands over block i of x, and every block of x is wanted once.",
                7: "b has one block, number 0. It is the right one at every step, and it is copied only once.",
                12: "One step for each block of x: that is as often as it should be.",
                14: "The specs stand in the order of the kernel's refs, outputs last. What do they say?",
            },
            why="each step has a block of its own to write, block i.",
        ),
        hints=(
            "The kernel itself is right: what it sees is wrong, or what it writes lands in the wrong place.",
            "Take step 2. Which block of x does it read, which of b, and where does the sum go?",
            "An index map that is right for an input that never changes is wrong for an output that does.",
        ),
        points=1,
    ),
    Exercise(
        id="01.8",
        title="Choose: who refuses it?",
        kind="choose",
        defines="judge",
        listing=TOTAL,
        asks=Choose(
            options=(*judges.JUDGES, "none"),
            right="none",
            wrong={
                "numbers": "Step 0 writes x's first block, and each later step adds its own: the sum of four blocks.",
                "simulator": "It refuses an output block that is left and visited again. Read the index map of the "
                "output at steps 0, 1, 2 and 3: is the block ever left?",
                "races": "It runs two cores on an axis that a kernel declares parallel. Does this one declare any?",
                "compiler": "A block of 1024 is a multiple of 1024, and four such blocks are 16 KiB: legal, and small.",
            },
            why="the output's index never changes, so its block stays in VMEM.",
            proof=_who_refuses_total,
        ),
        hints=(
            "Compare with `fold` in the lesson. What differs is one index map.",
            "Write down the output's block at steps 0, 1, 2 and 3. When does a block go back to HBM?",
            "A block whose index stays the same stays in VMEM. Is there any step at which this one has left?",
        ),
        points=1,
    ),
    Exercise(
        id="01.9",
        title="Explain: why four judges?",
        kind="explain",
        defines="why",
        asks=Explain(
            model="Each judge looks at something the others cannot see. The numbers come out right in the plain "
            "interpreter even where a block is illegal or an output block is lost on its way; the simulator and the "
            "two cores see order and memory, and know no rules of the hardware; the compiler knows those rules, and "
            "never looks at a number. So a kernel is right only if all of them agree.",
            look_for=(
                "right numbers do not prove that a chip takes the kernel (a block of 100)",
                "a kernel that compiles may compute nonsense (an index map that counts elements)",
                "an example from the lesson that one judge misses and another sees",
            ),
        ),
        hints=(
            "Think of the kernel at the top of the lesson: who had no objection to it?",
            "Now the other way round: which kernel did the compiler take, though its numbers were wrong?",
            "One sentence on what each judge looks at, and one on what it cannot see.",
        ),
        points=0,
    ),
)
