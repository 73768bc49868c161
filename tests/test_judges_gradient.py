"""The gradient judge: each wrong backward pass is told its own sentence, and right ones pass."""

import dataclasses
import functools
import re

import gradient_kernels as layers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_kernels import arguments, layer, reference, slipping
from jax.experimental import pallas as pl
from sweeps import daily

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds import kernel
from course_lib.judges.running import pulling_back

KNOWN = {"pre": layers.pre, "activation": jax.nn.relu}
SILU = {"pre": layers.pre, "activation": jax.nn.silu}


def in_silu(x, w, b):
    return jax.nn.silu(layers.pre(x, w, b)).astype(x.dtype)


def said(fn, *args, reference=reference, **more):
    """What the numbers judge says of a gradient."""
    (verdict,) = judges.judge_gradient(fn, reference, *(args or arguments()), judges=("numbers",), **more)
    return verdict


def with_z(slope):
    """The layer with z saved, and this in place of its slope."""

    def save(x, w, b):
        y = layers.forward(x, w, b)
        return y, (x, w, layers.pre(x, w, b))

    return layer(functools.partial(layers.backward, for_dx=slope, for_dw=slope), save)


def silu_slope(z):
    s = jax.nn.sigmoid(z)
    return s * (1 + z * (1 - s))


def in_jax(change, act=jax.nn.relu):
    """The layer forwards in its kernel, and backwards ``change(x, w, z, y, g)``."""

    @jax.custom_vjp
    def dense(x, w, b):
        return _forward(x, w, b)

    def _forward(x, w, b):
        return act(layers.forward(x, w, b) * 0 + layers.pre(x, w, b)).astype(x.dtype)

    def save(x, w, b):
        y = _forward(x, w, b)
        return y, (x, w, layers.pre(x, w, b), y)

    dense.defvjp(save, lambda saved, g: change(*saved, g))
    return dense


def gradients(x, w, dz):
    return (
        layers.dot(dz, w, ((1,), (1,))).astype(x.dtype),
        layers.dot(x, dz, ((0,), (0,))).astype(w.dtype),
        dz.sum(0).astype(w.dtype),
    )


def mask(z, g):
    return jnp.where(z > 0, g, 0)


@functools.cache
def _right():
    return {
        "saves y": layer(),
        "saves z": with_z(lambda g, z: jnp.where(z > 0, g, 0)),
        "computes y again": layer(
            lambda saved, g: layers.backward((*saved[:2], layers.forward(*saved)), g),
            lambda x, w, b: (layers.forward(x, w, b), (x, w, b)),
        ),
        "backwards in XLA": in_jax(lambda x, w, z, y, g: gradients(x, w, mask(z, g))),
        "mask as a factor": slipping(
            for_dx=lambda g, y: g * (y > 0).astype(g.dtype), for_dw=lambda g, y: g * (y > 0).astype(g.dtype)
        ),
        "under jit": jax.jit(layer()),
    }


@pytest.mark.parametrize("name", _right())
def test_a_right_gradient_passes(name):
    verdict = said(_right()[name], **KNOWN)
    assert verdict.passed, str(verdict)


@pytest.mark.sweep  # every day in float32: test_a_right_gradient_passes
def test_a_right_gradient_passes_every_judge_in_bfloat16_with_a_ragged_batch():
    verdicts = judges.judge_gradient(layer(), reference, *arguments(dtype=jnp.bfloat16))
    assert [v.judge for v in verdicts] == list(judges.JUDGES)
    assert all(v.passed is not False for v in verdicts), str(verdicts[-1])
    assert sum(v.passed is True for v in verdicts) >= 3


def twice(f):
    return lambda x, w, z, y, g: f(*gradients(x, w, mask(z, g)))


SLIPS = {
    "the slope is left out": (
        slipping(for_dx=lambda g, y: g, for_dw=lambda g, y: g),
        "dx at .* without the derivative of the activation",
        KNOWN,
    ),
    "y >= 0, which always holds": (
        slipping(for_dx=lambda g, y: jnp.where(y >= 0, g, 0)),
        "without the derivative of the activation.*y >= 0 is true everywhere",
        KNOWN,
    ),
    "the kink": (with_z(lambda g, z: jnp.where(z >= 0, g, 0)), "only at a kink at exactly 0", {}),
    "y and g exchanged": (
        slipping(for_dx=lambda g, y: jnp.where(g > 0, y, 0)),
        "dz is the output times the slope of the activation at g",
        KNOWN,
    ),
    "the slope at g": (
        slipping(for_dx=lambda g, y: jnp.where(g > 0, g, 0)),
        "the slope of the activation is taken at g, but it should be taken at z and multiplied by g",
        KNOWN,
    ),
    "y for g": (
        slipping(for_dx=lambda g, y: jnp.where(y > 0, y, 0)),
        "the output is used in place of g",
        KNOWN,
    ),
    "no g": (
        slipping(for_dx=lambda g, y: jnp.where(y > 0, 1.0, 0.0)),
        "dx does not depend on g",
        {},
    ),
    "None for w": (slipping(change=lambda dx, dw, db: (dx, None, db)), "dw is 0 everywhere.*None as zeros", {}),
    "a mean": (
        slipping(over=lambda dz: dz.sum(0, keepdims=True) / 20),
        "Block .0,. of db, the gradient of b, computed at steps .0,. to .2,., is wrong.*a mean over 20",
        {},
    ),
    "minus": (slipping(change=lambda dx, dw, db: (-dx, dw, db)), "its sign is wrong", {}),
    "twice": (slipping(change=lambda dx, dw, db: (2 * dx, dw, db)), "it is twice what it should be", {}),
    "nothing is added": (slipping(add=False), "Block .0, 0. of dw, the gradient of w.*only rows 16 to 19 of g", {}),
    "the ragged block left out": (slipping(blocks=2), "rows 16 to 19 of g, the ragged last block, are left out", {}),
    "garbage beyond the edge": (slipping(mask=False), "dw at .* is nan.*ref reaches past.*axis 0 has 20 elements", {}),
    "another dtype": (
        slipping(change=lambda dx, dw, db: (dx.astype(jnp.bfloat16), dw, db)),
        "dx is bfloat16; it should be float32.*the dtype of its argument",
        {},
    ),
    "x rounded": (
        in_jax(lambda x, w, z, y, g: gradients(x.astype(jnp.bfloat16).astype(jnp.float32), w, mask(z, g))),
        "dw.*computed from x rounded to bfloat16",
        KNOWN,
    ),
    "two cotangents": (
        slipping(change=lambda dx, dw, db: (dx, dw)),
        "returns 2 cotangents, but there are 3 arguments",
        {},
    ),
    "a wrong shape": (
        slipping(change=lambda dx, dw, db: (dx, dw, db[:128])),
        r"returns float32\[128\] for argument 2",
        {},
    ),
    "no custom_vjp": (layers.forward, "has no backward pass for this kernel", {}),
    "another y": (
        layer(save=lambda x, w, b: (2 * layers.forward(x, w, b), (x, w, layers.forward(x, w, b)))),
        "y, the output, as the forward rule of custom_vjp returns it",
        {},
    ),
    "another type of y": (
        layer(save=lambda x, w, b: (layers.forward(x, w, b).astype(jnp.bfloat16), (x, w, layers.forward(x, w, b)))),
        "Under a gradient the function returns bfloat16.20,256., but otherwise float32.20,256.",
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", daily(*list(SLIPS)[::2], of=SLIPS))
def test_a_slip_is_told_its_sentence(name):
    fn, sentence, known = SLIPS[name]
    verdict = said(fn, **known)
    assert verdict.passed is False
    assert_says(verdict, sentence)


def assert_says(verdict, sentence):
    text = f"{verdict.message} {verdict.next}".replace("\n", " ")
    assert re.search(sentence, text), text


SQUARE = {
    "the wrong axis": (
        lambda x, w, z, y, g: (*gradients(x, w, mask(z, g))[:2], mask(z, g).sum(1)),
        "db, the gradient of b.*the sum for db runs over axis 1",
    ),
    "w transposed": (
        lambda x, w, z, y, g: (layers.dot(mask(z, g), w), *gradients(x, w, mask(z, g))[1:]),
        "dx.*w is transposed in it",
    ),
    "a transpose": (twice(lambda dx, dw, db: (dx, dw.T, db)), "dw is the transpose of what it should be"),
    "exchanged": (twice(lambda dx, dw, db: (dw, dx, db)), "dx and dw are swapped"),
    "y for x": (
        lambda x, w, z, y, g: (*gradients(x, w, mask(z, g))[:1], *gradients(y, w, mask(z, g))[1:]),
        "the output is used where x should",
    ),
}


@pytest.mark.parametrize("name", SQUARE)
def test_a_slip_of_axes_is_told_where_all_is_square(name):
    change, sentence = SQUARE[name]
    assert_says(said(in_jax(change), *arguments(128, 128, 128), **KNOWN), sentence)


def of_silu(slope):
    return in_jax(lambda x, w, z, y, g: gradients(x, w, slope(z, y, g)), jax.nn.silu)


@pytest.mark.parametrize(
    "slope, sentence",
    [
        (lambda z, y, g: g * silu_slope(y), "the slope of the activation is taken at its output y"),
        (lambda z, y, g: g * y, "g is multiplied by the output of the activation"),
        (lambda z, y, g: silu_slope(z), "the slope of the activation is used as dz, without g"),
        (
            lambda z, y, g: g * silu_slope(z.astype(jnp.bfloat16).astype(jnp.float32)),
            "the slope is computed from a z that was rounded to bfloat16",
        ),
    ],
)
def test_a_slip_of_slopes_is_told(slope, sentence):
    assert_says(said(of_silu(slope), reference=in_silu, **SILU), sentence)


def test_a_slope_at_the_stored_output_is_told_in_bfloat16_too():
    def change(x, w, z, y, g):
        dz = g.astype(jnp.float32) * silu_slope(y.astype(jnp.float32))
        return gradients(x, w, dz.astype(g.dtype))

    args = tuple(a.astype(jnp.bfloat16) for a in arguments())
    verdict = said(in_jax(change, jax.nn.silu), *args, reference=in_silu, **SILU)
    assert_says(verdict, "the slope of the activation is taken at its output y")


def test_a_right_slope_is_not_accused():
    assert said(of_silu(lambda z, y, g: g * silu_slope(z)), reference=in_silu, **SILU).passed


def test_what_is_wrong_in_its_own_way_is_called_no_known_slip():
    verdict = said(slipping(change=lambda dx, dw, db: (dx.at[3, 5].add(7.0), dw, db)), **KNOWN)
    assert "known slip" not in verdict.message
    assert "dx at [3, 5]" in verdict.message and "1 of 2,560 elements is wrong" in verdict.message


def test_a_slip_that_makes_no_difference_is_silent():
    """relu's slope at y is its slope at z: who has that and another fault is told the other one."""
    fn = with_z(lambda g, z: 3 * jnp.where(jnp.maximum(z, 0) > 0, g, 0))
    verdict = said(fn, **KNOWN)
    assert verdict.passed is False and "taken at its output y" not in verdict.message


def test_a_declared_slip_is_told_and_only_for_its_output():
    slip = judges.Slip(means="db is a third", value=lambda x, w, b, g: g.sum(0) * 3, next="divide.", output="db")
    linear = {"reference": layers.pre, "slips": (slip,)}
    wrong = in_jax(lambda x, w, z, y, g: (*gradients(x, w, g)[:2], 3 * g.sum(0)), lambda z: z)
    assert_says(said(wrong, **linear), "That is a known slip: db is a third.*divide")
    elsewhere = {"slips": (dataclasses.replace(slip, output="dx"),), "reference": layers.pre}
    assert "a third" not in said(wrong, **elsewhere).message


@pytest.mark.parametrize("of", [pytest.param(("b",), marks=pytest.mark.sweep), (2,)], ids=["by name", "by number"])
def test_only_what_is_asked_for_is_judged(of):
    wrong_db = slipping(change=lambda dx, dw, db: (dx, dw, db + 1))
    assert said(wrong_db, of=("x", "w")).passed
    refused = said(wrong_db, of=of)
    assert refused.passed is False and "db, the gradient of b" in refused.message


def test_integers_closures_and_static_arguments_are_handed_over():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
    def scaled(x, times, factor):
        return layers.forward(x, jnp.eye(128), jnp.zeros(128)) * 0 + factor * times * x

    scaled.defvjp(
        lambda x, times, factor: (scaled(x, times, factor), times),
        lambda factor, times, g: (factor * times * g, None),
    )
    x, times = arguments()[0], jnp.int32(3)
    assert said(lambda x, times: scaled(x, times, 2.0), x, times, reference=lambda x, times: 2.0 * times * x).passed


def test_the_kink_is_asked_only_where_the_reference_takes_a_side():
    args = arguments()
    assert pulling_back.with_zeros(reference, args, (0, 1, 2)) is not None
    halves = lambda x, w, b: jnp.maximum(layers.pre(x, w, b), 0)  # noqa: E731
    assert pulling_back.with_zeros(halves, args, (0, 1, 2)) is None
    assert pulling_back.with_zeros(in_silu, args, (0, 1, 2)) is None
    assert said(layer(), reference=halves).passed


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"of": "x"}, "of is 'x'"),
        ({"of": ()}, "of is ()"),
        ({"of": ("x", "x")}, "each once"),
        ({"slips": ("db",)}, "a tuple of judges.Slip"),
        ({"pre": 3}, "pre is 3; it must be a function"),
        ({"activation": jax.nn.relu}, "activation is given, but pre is not"),
        ({"budget": 3}, "budget is 3"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(wrong, words):
    with pytest.raises(ValueError, match="Gradient: ") as caught:
        judges.Gradient(**wrong)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"means": ""}, "two sentences"),
        ({"next": None}, "two sentences"),
        ({"value": 3.0}, "a function of the arguments"),
        ({"output": 1.5}, "the number of an output"),
    ],
)
def test_a_slip_that_is_none_is_refused(wrong, words):
    sound = {"means": "it is so", "value": lambda x: x, "next": "mend it."}
    judges.Slip(**sound)
    with pytest.raises(ValueError, match=words):
        judges.Slip(**(sound | wrong))


def test_what_cannot_be_asked_is_an_error_for_the_caller():
    x, w, b = arguments()
    with pytest.raises(ValueError, match="of contains 'v'; the arguments are x, w, b"):
        judges.judge_gradient(layer(), reference, x, w, b, of=("v",))
    with pytest.raises(ValueError, match="judges contains 'device'"):
        judges.judge_gradient(layer(), reference, x, w, b, judges=("device",))
    with pytest.raises(ValueError, match="the reference returns int32, which has no gradient"):
        judges.judge_gradient(layer(), lambda x: x.astype(jnp.int32), x)
    with pytest.raises(ValueError, match="of contains n, whose values are not floats"):
        judges.judge_gradient(layer(), lambda x, n: x, x, jnp.int32(3), of=("n",))


def task(**changes):
    made = {
        "id": "99.1", "title": "A layer", "kind": "write", "defines": "dense", "hints": ("a", "b", "c"), "points": 1,
        "cases": lambda: [arguments(20, 128, 128)], "reference": reference,
        "judges": ("numbers",), "gradient": judges.Gradient(of=("x", "w", "b"), arithmetic_around=True),
    }  # fmt: skip
    return Exercise(**(made | changes))


def test_an_exercise_judges_the_gradient_after_the_function():
    several = task(cases=lambda: [arguments(16, 128, 128), arguments(20, 128, 128)])
    passed = kernel.result(several, layer())
    assert passed.passed and "numbers" in passed.headline and ", on the gradient too." in passed.headline
    refused = kernel.result(several, slipping(blocks=1))
    assert refused.headline == "the numbers judge refused its gradient."
    assert "rows 8 to 15 of g, the last block, are left out" in refused.message
    raw = kernel.result(task(), layers.forward)
    assert raw.headline == "the numbers judge could not run its gradient." and "custom_vjp" in raw.next


def test_the_simulator_hears_a_function_in_its_gradient_where_that_runs_its_kernels_again(monkeypatch):
    asked, simulator = [], judges.JUDGES["simulator"]
    monkeypatch.setitem(judges.JUDGES, "simulator", lambda trial: asked.append(len(trial.args)) or simulator(trial))
    both = task(judges=("numbers", "simulator"))
    passed = kernel.result(both, layer())
    assert passed.passed and "numbers and simulator agree, on the gradient too." in passed.headline
    assert asked == [4]  # x, w, b and g
    asked.clear()
    in_other_blocks = layer(save=lambda x, w, b: (y := layers.forward(x, w, b, bm=16), (x, w, y)))
    assert kernel.result(both, in_other_blocks).passed and asked == [3, 4]


def test_arithmetic_of_the_gradient_may_not_stand_around_its_kernels_unless_it_is_said_so():
    around = slipping(change=lambda dx, dw, db: (dx, dw, db * 1.0))
    strict = task(gradient=judges.Gradient())
    assert kernel.result(strict, layer()).passed
    refused = kernel.result(strict, around)
    assert refused.headline == "part of the gradient is not in a kernel."
    assert "Part of the gradient's arithmetic is outside the kernel: mul." in refused.message
    assert kernel.result(task(), around).passed


def test_a_budget_of_the_gradient_is_of_both_directions():
    small = judges.Gradient(budget=judges.Budget(hbm_bytes=100_000))
    refused = kernel.result(task(gradient=small), layer())
    assert refused.judge == "budget" and refused.headline == "the budget judge refused its gradient."
    large = judges.Gradient(budget=judges.Budget(hbm_bytes=10_000_000))
    assert kernel.result(task(gradient=large), layer()).passed


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"gradient": 3}, "gradient is 3; it is a judges.Gradient"),
        ({"slips": ("a",)}, "slips has ('a',); it is a tuple of judges.Slip"),
        ({"slips": (judges.Slip(means="m", value=jnp.sin, next="n", output="dw"),)}, "only gradients have names"),
        (
            {"cases": None, "inputs": ("x: f32[N]",), "sizes": ({"N": 8}, {"N": 9}, {"N": 16}),
             "gradient": judges.Gradient(of=("w",))},
            "the gradient is asked for by 'w'; the inputs are x",
        ),
    ],
)  # fmt: skip
def test_a_declared_exercise_that_contradicts_itself_is_refused(wrong, words):
    with pytest.raises(ValueError) as caught:
        task(**wrong)
    assert words in str(caught.value)


def test_a_slip_of_an_ordinary_kernel_is_told():
    slip = judges.Slip(means="b is left out", value=lambda x, w, b: layers.pre(x, w, b * 0), next="add b.")
    trial = judges.Trial(
        lambda x, w, b: layers.forward(x, w, b * 0), lambda x, w, b: jax.nn.relu(layers.pre(x, w, b)), arguments(),
        slips=(dataclasses.replace(slip, value=lambda x, w, b: jax.nn.relu(layers.pre(x, w, b * 0))),),
    )  # fmt: skip
    assert_says(judges.JUDGES["numbers"](trial), "Output block .0, 0., .*That is a known slip: b is left out.*add b")
    message = judges.JUDGES["numbers"](dataclasses.replace(trial, slips=(slip,))).message
    assert "slip: b is left out" not in message and "the term b is left out" in message  # found without it


def test_the_cotangent_has_no_zeros_and_tells_positions():
    for random in (False, True):
        g = np.asarray(pulling_back.cotangent(reference, arguments(20, 128, 256, jnp.bfloat16), random), np.float32)
        assert g.shape == (20, 256) and (g != 0).all()
        assert (g[-1] != g[-2]).mean() > 0.9 and (g[:, 0] != g[:, 1]).all()


@pytest.mark.parametrize(("factor", "expected"), [(1, "passed"), (2, "twice what it should be")])
def test_a_function_of_two_outputs(factor, expected):
    @jax.custom_vjp
    def both(x, w, b):
        y = layers.forward(x, w, b)
        return y, 2 * y

    def back(kept, g):
        grads = jax.vjp(lambda *a: (reference(*a), 2 * reference(*a)), *kept)[1](g)
        return tuple(factor * each for each in grads)

    both.defvjp(lambda *a: (both(*a), a), back)
    verdict = said(both, reference=lambda x, w, b: (reference(x, w, b), 2 * reference(x, w, b)))
    assert expected in str(verdict)


def test_gradients_of_its_own_are_what_is_asked_for():
    verdict = said(layer(layers.backward), gradients=lambda x, w, b, g: (0 * x, 0 * w, 0 * b))
    assert verdict.passed is False and "dx" in verdict.message


def scaled(x, s):
    return x * s


def scaling(dx, ds):
    """The gradient of x * s by ``dx(x, s, g)`` and ``ds(x, s, g)``; forwards it runs in a kernel."""

    def forward(x, s):
        def kernel(x_ref, s_ref, o_ref):
            o_ref[...] = x_ref[...] * s_ref[...]

        return pl.pallas_call(kernel, out_shape=x)(x, s.reshape(1, -1))

    fn = jax.custom_vjp(forward)
    fn.defvjp(lambda x, s: (forward(x, s), (x, s)), lambda kept, g: (dx(*kept, g), ds(*kept, g).sum(0)))
    return fn


FACTORS = {
    "s is left out of it, as if it were 1 everywhere": (lambda x, s, g: g, lambda x, s, g: x * g),
    "x is used where s should be": (lambda x, s, g: x * g, lambda x, s, g: x * g),
    "it is multiplied by s once too often": (lambda x, s, g: s * s * g, lambda x, s, g: x * g),
    "": (lambda x, s, g: s * g, lambda x, s, g: x * g),
}


@pytest.mark.parametrize("says", FACTORS)
def test_a_factor_of_a_gradient(says):
    args = tuple(jax.random.normal(jax.random.key(n), shape) for n, shape in ((0, (8, 128)), (1, (128,))))
    verdict = said(scaling(*FACTORS[says]), *args, reference=scaled)
    assert verdict.passed is not bool(says)
    assert_says(verdict, says)
    verdict = said(scaling(lambda x, s, g: s * g + jnp.sin(g), FACTORS[""][1]), *args, reference=scaled)
    assert verdict.passed is False and "known slip" not in verdict.message


@pytest.mark.parametrize(
    "of_g, says",
    [(lambda x, s, g: x + g, "x and g are added, but should be multiplied"), (lambda x, s, g: x * g, "")],
)
def test_a_formula_that_somebody_wrote_is_searched_for_slips(of_g, says):
    args = tuple(jax.random.normal(jax.random.key(n), shape) for n, shape in ((0, (8, 128)), (1, (128,))))
    wrong = scaling(lambda x, s, g: s * g, of_g)
    verdict = said(wrong, *args, reference=scaled, gradients=lambda x, s, g: (g * s, (x * g).sum(0)))
    assert verdict.passed is not bool(says)
    assert_says(verdict, says)
