"""Every row of the error table is provoked for real, and says what a learner should read."""

import pathlib

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, compiler, errors

X = jax.ShapeDtypeStruct((256, 512), jnp.float32)
V = jax.ShapeDtypeStruct((4096,), jnp.float32)


def call(kernel, block=None, grid=(), index_map=None):
    """f(x) = pallas_call(kernel)(x), with one block spec for the input and the output."""
    spec = pl.BlockSpec(block, index_map) if block else pl.BlockSpec()

    def f(x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=out, grid=grid, in_specs=[spec], out_specs=spec)(x)

    return f


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def compiled(fn, x=X):
    return lambda: compiler.compile_tpu(fn, x).error


def simulated(fn, x=X, **params):
    def explain():
        values = jnp.ones(x.shape, x.dtype)
        try:
            with pltpu.force_tpu_interpret_mode(compat.interpret_params(**params)):
                jax.block_until_ready(fn(values))
            if compat.races_found():  # JAX 0.11 prints; 0.12 raises
                return errors.explain("RACE DETECTED")
        except Exception as error:
            return errors.explain(error)
        finally:
            pltpu.reset_tpu_interpret_mode_state()

    return explain


def kernel_if(x_ref, o_ref):
    if x_ref[0, 0] > 0:
        o_ref[...] = x_ref[...]


def kernel_no_ellipsis(x_ref, o_ref):
    o_ref[...] = x_ref + 1.0


def kernel_no_ellipsis_jnp(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref)


def kernel_ref_on_the_right(x_ref, o_ref):
    o_ref[...] = x_ref[...] + x_ref


def kernel_stores_a_ref(x_ref, o_ref):
    o_ref[...] = x_ref


def kernel_assigns_into_a_value(x_ref, o_ref):
    twice = x_ref[...]
    twice[...] *= 2
    o_ref[...] = twice


def kernel_unaligned(x_ref, o_ref):
    start = x_ref[0, 0].astype(jnp.int32)
    o_ref[:, :128] = x_ref[:, pl.ds(start, 128)]


def kernel_returns(x_ref, o_ref):
    return x_ref[...] + 1.0


def kernel_stores_f32(x_ref, o_ref):
    o_ref[...] = x_ref[...].astype(jnp.float32)


def kernel_stores_a_row(x_ref, o_ref):
    o_ref[...] = x_ref[0, :]


def kernel_sorts(x_ref, o_ref):
    o_ref[...] = jnp.sort(x_ref[...])


def kernel_three_refs(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def kernel_one_ref(x_ref):
    x_ref[...] = x_ref[...] + 1.0


def kernel_reads_past_the_end(x_ref, o_ref):
    start = x_ref[0, 0].astype(jnp.int32)  # 1, known only when it runs
    o_ref[...] = x_ref[pl.ds(start, 256), :]


def kernel_old_name(x_ref, o_ref):
    o_ref[...] = pl.load(x_ref, ...)


def captures():
    weights = jnp.arange(512, dtype=jnp.float32)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * weights

    return kernel


def column_sum(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 256), x.dtype),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (0, j)),
    )(x)


def parallel_race(x):
    return pl.pallas_call(
        copy,
        out_shape=jax.ShapeDtypeStruct((8, 512), x.dtype),
        grid=(32,),
        in_specs=[pl.BlockSpec((8, 512), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 512), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


class NoShape(keras.layers.Layer):
    def call(self, inputs):
        return inputs[0]


class Kernel(keras.layers.Layer):
    def call(self, x):
        return call(copy)(x)


def symbolic_keras_error():
    try:
        Kernel()(keras.Input((128,)))
    except Exception as error:
        return errors.explain(error)


class NoCall(keras.layers.Layer):
    """Nothing yet."""


class NoKwargs(NoShape):
    def __init__(self):
        super().__init__()


class TwoArguments(NoShape):
    def call(self, x, y):
        return x


def keras_error(layer_class, **settings):
    def explain():
        try:
            layer = layer_class(**settings)
            layer([jnp.ones(3), jnp.ones(3)])
            layer.compute_output_shape([(3,), (3,)])
        except Exception as error:
            return errors.explain(error)

    return explain


HALF = jax.ShapeDtypeStruct((4608, 4096), jnp.float32)
BIG = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
ROWS = {
    "block-2d": (
        compiled(call(copy, block=(12, 100), grid=(22, 6), index_map=lambda i, j: (i, j))),
        "The block (12, 100) of input 0 is not legal for an array of shape (256, 512)",
    ),
    "block-1d": (
        compiled(call(copy, block=(100,), grid=(41,), index_map=lambda i: (i,)), V),
        "The block (100,) of input 0 is not legal for an array of shape (4096,)",
    ),
    "block-outside": (
        simulated(call(copy, block=(1024,), grid=(4,), index_map=lambda i: (i + 1,)), V),
        "At step (3,) the index map of x_ref asked for block (4,), which lies outside the array.",
    ),
    "read-outside": (simulated(call(kernel_reads_past_the_end)), "The kernel read outside a buffer"),
    "revisit": (
        simulated(column_sum, jax.ShapeDtypeStruct((16, 256), jnp.float32)),
        "The block [0:8, 0:128] of output 0 left VMEM after step (0, 0), and the grid came back to it at step (1, 0)",
    ),
    "race": (
        simulated(parallel_race, num_cores_or_threads=2, detect_races=True),
        "Two cores touched the same memory",
    ),
    "vmem": (
        compiled(call(copy, block=(512, 8192), grid=(16,), index_map=lambda i: (i, 0)), BIG),
        "The kernel needs 64.00M of VMEM, and a kernel may use 16.00M.",
    ),
    "vmem-physical": (compiled(call(copy), HALF), "The kernel needs 144.00M of VMEM, and the chip has 128.00M."),
    "vmem-buffer": (
        compiled(call(copy), BIG),
        "One buffer alone needs 268,435,456 bytes of VMEM, and the chip has 134,217,728.",
    ),
    "forgot-ellipsis": (compiled(call(kernel_no_ellipsis)), "The kernel did arithmetic on a Ref."),
    "forgot-ellipsis, in a jnp function": (
        compiled(call(kernel_no_ellipsis_jnp)),
        "The kernel did arithmetic on a Ref.",
    ),
    "forgot-ellipsis, on the right": (compiled(call(kernel_ref_on_the_right)), "The kernel did arithmetic on a Ref."),
    "forgot-ellipsis, in a copy": (compiled(call(kernel_stores_a_ref)), "The kernel did arithmetic on a Ref."),
    "forgot-ellipsis, in NumPy": (compiled(call(lambda x, o: o.__setitem__(..., np.exp(x)))), "arithmetic on a Ref."),
    "numpy-in-kernel": (compiled(call(lambda x, o: o.__setitem__(..., np.exp(x[...])))), "A NumPy function was given"),
    "number-in-kernel": (
        compiled(call(lambda x, o: o.__setitem__(..., float(x[0, 0])))),
        "asked for a plain Python number",
    ),
    "assigned-into-value": (compiled(call(kernel_assigns_into_a_value)), "The kernel assigned into a value."),
    "scalar-store": (compiled(call(lambda x, o: o.__setitem__((0, 0), x[0, 0]))), "writes a single number to VMEM"),
    "alignment": (
        compiled(call(kernel_unaligned)),
        "slices axis 1 at a start that the compiler cannot prove to be a multiple of 128",
    ),
    "not-a-tuple": (
        compiled(call(copy, block=1024, grid=(4,), index_map=lambda i: (i,)), V),
        "an integer where a tuple",
    ),
    "out-shape": (compiled(lambda x: pl.pallas_call(copy, out_shape=4096)(x)), "out_shape is neither"),
    "not-an-array": (compiled(lambda x: (x, x.dtype)), "The result holds something that is no array"),
    "keras-no-call": (keras_error(NoCall), "The layer has no call method"),
    "kernel-returns": (compiled(call(kernel_returns)), "The kernel returned a value."),
    "store-dtype": (
        compiled(call(kernel_stores_f32), jax.ShapeDtypeStruct((256, 512), jnp.bfloat16)),
        "The kernel wrote float32 values into a ref of bfloat16.",
    ),
    "store-shape": (
        compiled(call(kernel_stores_a_row)),
        "The kernel wrote a value of shape (512,) to a place of shape (256, 512).",
    ),
    "captured": (compiled(call(captures())), "The kernel uses an array that is none of its refs, [f32[512]]"),
    "index-map-arity": (
        compiled(call(copy, block=(8, 512), grid=(32, 1), index_map=lambda i: (i, 0))),
        "<lambda> takes 1 and was given 2 arguments.",
    ),
    "index-map-arity, of a kernel": (
        compiled(call(kernel_one_ref)),
        "kernel_one_ref takes 1 and was given 2 arguments.",
    ),
    "missing-refs": (
        compiled(call(kernel_three_refs)),
        "kernel_three_refs wants more arguments than it was given: 'o_ref'",
    ),
    "index-map-results": (
        compiled(call(copy, block=(8, 512), grid=(32,), index_map=lambda i: (i,))),
        "An index map returned 1 numbers for a block with 2 axes.",
    ),
    "returned-function": (
        compiled(lambda x: pl.pallas_call(copy, out_shape=x)),
        "The result is a function, not an array",
    ),
    "keras-shape": (keras_error(NoShape), "it has no compute_output_shape"),
    "unknown-batch": (symbolic_keras_error, "A kernel was traced with an axis of unknown size"),
    "keras-kwargs": (keras_error(NoKwargs, name="sum"), "__init__ does not take name="),
    "missing-argument": (keras_error(TwoArguments), "wants an argument it was not given: 'y'"),
    "traced-if": (compiled(call(kernel_if)), "The kernel used `if`"),
    "unimplemented": (compiled(call(kernel_sorts)), "The TPU has no way to do `sort` inside a kernel."),
    "old-name": (compiled(call(kernel_old_name)), "That name is gone from Pallas"),
    "time-limit": (
        lambda: compiler.compile_tpu(call(copy), X, time_limit_s=0.001).error,
        "The compiler gave no answer within 0.001 s and was stopped.",
    ),
    "crash": (
        lambda: compiler.compile_tpu(call(copy), X, memory_bytes=64 << 20).error,
        "may use 0.0625 GiB of memory",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_row_is_provoked_and_explained(row):
    provoke, says = ROWS[row]
    explanation = provoke()
    assert explanation is not None, "nothing failed"
    assert explanation.name == row.split(",")[0], str(explanation)
    assert says in explanation.what
    assert explanation.cure


def test_every_row_has_a_test():
    assert {row.split(",")[0] for row in ROWS} == {row.name for row in errors._ROWS}


def test_lessons_that_are_referred_to_are_written():
    sources = pathlib.Path(__file__).parent.parent.glob("notebooks/src/[0-9]*.py")
    assert set(errors.WRITTEN) == {source.stem[:2] for source in sources} - {"00"}


def test_keras_own_frame_is_taken_off():
    class Broken(keras.layers.Layer):
        def call(self, inputs):
            return no_such_name  # noqa: F821

    assert keras_error(Broken)().what == "NameError: name 'no_such_name' is not defined"


def test_no_path_of_a_machine_is_repeated():
    assert "/" not in compiled(lambda x: (x, "text"))().what


def test_unknown_failure_keeps_its_own_words():
    assert errors.explain(ZeroDivisionError("division by zero")).what == "ZeroDivisionError: division by zero"
    assert errors.explain("").what == "no message"
