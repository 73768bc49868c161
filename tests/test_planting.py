"""Planted bugs: what can be planted in our own answers, that it is real, and that a judge refuses it."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from lesson_files import TASKS, our_answer
from sweeps import daily
from tiny_kernels import averaging, decay, decaying, mean_rows

from course_lib import checks, grid, judges
from course_lib.checks import planting
from course_lib.checks.asking import trials_of
from course_lib.checks.kinds import JUDGED

KERNELS = [task.id for task in TASKS if task.kind in JUDGED and task.mesh is None and not task.engine]
DAILY = ("03.12",)


@pytest.fixture(autouse=True)
def a_notebook_s_settings():
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


def trials(task, fn):
    return trials_of(task, task.build(fn), task.arguments())


def kinds(task, fn, wanted):
    return [shown.mistake.place.kind for shown in planting.chosen(trials(task, fn), wanted)]


def refused(fn, trial):
    """Whether some judge refuses a function with the arguments of a trial."""
    return any(said.passed is False for said in judges.judge(fn, trial.reference, *trial.args))


@pytest.mark.parametrize("id", daily(*DAILY, of=KERNELS, one_in=6))
def test_what_is_planted_in_our_answers_is_refused(id):
    """Every planted bug changes a result that the judges look at, and without one the kernel is as it was."""
    task = next(task for task in TASKS if task.id == id)
    judged = trials(task, our_answer(task))
    assert planting.shown_by(judged, None) is None
    for shown in planting.chosen(judged):
        planted = planting.stand_in(judged[0].fn, shown.mistake.place, task.chips[0])
        assert refused(planted, shown.trial), shown.mistake


@pytest.mark.sweep(one_in=1)  # by the averaging kernel, which has more kinds
def test_bugs_of_the_decaying_sum_by_kind():
    assert kinds(decaying(), decay, wanted=7) == [
        "initialization", "index map", "loop", "forgetting", "input term", "rounding", "factor",
    ]  # fmt: skip


def test_bugs_of_the_mean_by_kind():
    assert kinds(averaging(), mean_rows, wanted=12) == [
        "mask off by one", "initialization", "index map", "overwriting", "initialization at the first block only",
        "position in the block", "early write", "forgetting", "mask left out", "axis", "rounding", "factor",
    ]  # fmt: skip


def test_a_stand_in_without_a_bug_is_the_function():
    x = jnp.arange(16.0 * 128).reshape(16, 128)
    plain = planting.stand_in(decay, None)
    assert plain.__name__ == "decay"
    np.testing.assert_array_equal(plain(x), decay(x))
    np.testing.assert_array_equal(plain(x, bt=16), decay(x, bt=16))
    np.testing.assert_array_equal(jax.jit(plain)(x), decay(x))
    assert all(said.passed is not False for said in judges.judge(plain, decaying().reference, x))


def test_a_stand_in_has_the_gradient_of_the_function():
    @jax.custom_vjp
    def doubled(x):
        return decay(2 * x)

    doubled.defvjp(lambda x: (doubled(x), None), lambda kept, g: (3 * g,))  # no gradient of that, but easy to know
    x = jnp.ones((16, 128))
    (place, *_) = (mistake.place for mistake in planting.mistakes_in(grid.trace(doubled, x)))
    for planted in (None, place):
        assert (jax.grad(lambda x, planted=planted: planting.stand_in(doubled, planted)(x).sum())(x) == 3).all()


def test_a_place_holds_for_other_sizes():
    """A bug that was found with the judged sizes is in the kernel at every size."""
    (shown,) = planting.chosen(trials(averaging(), mean_rows), wanted=1)
    planted = planting.stand_in(mean_rows, shown.mistake.place)
    x = jnp.ones((24, 1000))
    assert not np.allclose(planted(x), mean_rows(x), equal_nan=True)
    np.testing.assert_array_equal(planted(jnp.ones((8, 1024))), np.ones((8, 1)))  # the mask does not matter there


def test_only_mistakes_that_show_are_chosen():
    """With one step nothing is carried on, and with whole blocks the mask does not matter."""
    whole = averaging(cases=lambda: [(jnp.ones((8, 128)),)] * 3, inputs=(), sizes=())
    assert "mask off by one" not in kinds(whole, mean_rows, wanted=1)
    assert kinds(averaging(), mean_rows, wanted=1) == ["mask off by one"]


def test_a_mistake_says_what_and_where():
    first, *_ = planting.chosen(trials(averaging(), mean_rows))
    assert re.fullmatch(
        r"a mask that compares positions lets one position too many through \(line \d+ of mean_kernel\)",
        first.mistake.said,
    )
    assert "no multiple of the block" in first.mistake.shows


# Families that the tiny kernels do not have


def planted_in(fn, reference, *args):
    """Return {kind: what it means} of the mistakes that show."""
    found = planting.chosen([judges.Trial(fn, reference, args)], wanted=99)
    return {shown.mistake.place.kind: shown.mistake.means for shown in reversed(found)}


def test_a_wait_that_is_left_out():
    def kernel(x_hbm, o_ref, x_ref, sem):
        copy = pltpu.make_async_copy(x_hbm, x_ref, sem)
        copy.start()
        copy.wait()
        o_ref[...] = 2 * x_ref[...]

    def double(x):
        return pl.pallas_call(
            kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
        )(x)  # fmt: skip

    found = planted_in(double, lambda x: 2 * x, jnp.ones((8, 128)))
    assert found["wait"] == "a copy is started, but the kernel does not wait for it"


def test_operations_that_are_left_out():
    def reference(x):
        scale = jnp.max(jnp.abs(x), axis=1, keepdims=True) / 127
        return jnp.clip(jnp.round(x / scale), -100, 100)

    def kernel(x_ref, o_ref):
        o_ref[...] = reference(x_ref[...])

    def quantize(x):
        return pl.pallas_call(kernel, out_shape=x)(x)

    x = jnp.linspace(-3.0, 2.0, 8 * 128).reshape(8, 128)
    assert {"absolute value", "round", "limit"} <= set(planted_in(quantize, reference, x))


def test_operands_and_signs_that_are_left_out():
    def dequantized(q, s, b):
        high, low = (q >> 4).astype(jnp.float32), ((q << 28) >> 28).astype(jnp.float32)
        return jnp.dot(high, low.T, preferred_element_type=jnp.float32) * s + b

    def kernel(q_ref, s_ref, b_ref, o_ref):
        high, low = (q_ref[...] >> 4).astype(jnp.float32), ((q_ref[...] << 28) >> 28).astype(jnp.float32)
        o_ref[...] = jnp.dot(high, low.T, preferred_element_type=jnp.float32) * s_ref[...] + b_ref[...]

    def fn(q, s, b):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 8), jnp.float32))(q, s, b)

    q = jnp.arange(8 * 128).reshape(8, 128) * 37 % 256 - 128
    found = planted_in(fn, dequantized, q, jnp.linspace(0.5, 2.0, 8)[None], jnp.linspace(1.0, 2.0, 8)[None])
    assert found["input factor"] == "the factor from s_ref is left out"
    assert found["input term"] == "the term from b_ref is left out"
    assert "sign" in found


def test_a_matmul_that_is_rounded():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def matmul(x, y):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x, y)

    def reference(x, y):
        return jnp.dot(x, y, preferred_element_type=jnp.float32)

    x, y = (jnp.sin(jnp.arange(n * 128.0)).reshape(n, 128).astype(jnp.bfloat16) for n in (8, 128))
    assert set(planted_in(matmul, reference, x, y)) == {"rounded matmul"}


def test_of_very_many_alike_some_stand_for_all():
    def kernel(x_ref, o_ref):
        y = x_ref[...]
        for n in range(100):
            y = y * (1 + n / 1000)
        o_ref[...] = y

    def product(x):
        return pl.pallas_call(kernel, out_shape=x)(x)

    found = planting.mistakes_in(grid.trace(product, jnp.ones((8, 128))))
    assert [mistake.place.kind for mistake in found] == ["factor"] * 32


def test_an_accumulator_that_is_not_scaled():
    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def _zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        scale = 1 + x_ref[0, 0]
        acc_ref[...] = acc_ref[...] * scale + x_ref[...]
        o_ref[...] = acc_ref[...]

    def scaled(x):
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
            out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype), scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
        )(x)  # fmt: skip

    def reference(x):
        first, second = x[:8], x[8:]
        return first * (1 + second[0, 0]) + second

    x = jnp.linspace(0.0, 1.0, 16 * 128).reshape(16, 128)
    found = planted_in(scaled, reference, x)
    assert found["scaling"].startswith("the old contents of acc_ref are not multiplied")
    assert found["overwriting"].startswith("acc_ref is overwritten")


def test_an_initialization_at_the_first_block_only():
    jaxpr = grid.trace(mean_rows, jnp.ones((16, 256)))
    means = {mistake.place.kind: mistake.means for mistake in planting.mistakes_in(jaxpr)}
    said = means["initialization at the first block only"]
    assert said == "acc_ref is initialized only while program_id(0) is 0, and keeps its old contents later"


def test_every_kind_has_a_place_in_the_order():
    assert len(set(planting.KINDS)) == len(planting.KINDS)
    for task, fn in ((decaying(), decay), (averaging(), mean_rows)):
        jaxpr = grid.trace(fn, *task.arguments()[-1])
        places = [mistake.place for mistake in planting.mistakes_in(jaxpr)]
        assert len(set(places)) == len(places)
        assert {place.kind for place in places} <= set(planting.KINDS)


def test_a_kernel_that_is_wrong_is_said_to_be():
    def wrong(x):
        return decay(x) + 1

    judged = trials(decaying(arithmetic_around=True), wrong)
    assert planting.shown_by(judged, None) is judged[0]
