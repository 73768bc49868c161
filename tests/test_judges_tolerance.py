"""How far from a reference a right kernel may be: derived from the reference's own arithmetic."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import daily

from course_lib import judges
from course_lib.judges.tolerance import op_rounding

RNG = np.random.default_rng(4)


def normal(*shape, dtype=jnp.float32, scale=1.0):
    return jnp.asarray(RNG.normal(size=shape) * scale, dtype)


def share_right(got, reference, *args):
    (want,) = judges.expected(reference, args)
    return judges.right(np.asarray(got), want).mean()


def chunked_product(x, y, chunk, accumulator):
    total = jnp.zeros((x.shape[0], y.shape[1]), accumulator)
    for k in range(0, x.shape[1], chunk):
        part = jnp.dot(x[:, k : k + chunk], y[k : k + chunk], preferred_element_type=jnp.float32)
        total = (total + part).astype(accumulator)
    return total


def product_in_f32(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def product_in_bf16(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.bfloat16)


@pytest.mark.parametrize("depth", daily(512, of=[128, 512, 2048]))
def test_any_order_of_a_float32_sum_is_right_and_a_bfloat16_sum_is_wrong(depth):
    x, y = normal(32, depth), normal(depth, 32)
    for chunk in (32, 128):
        assert share_right(chunked_product(x, y, chunk, jnp.float32), product_in_f32, x, y) == 1
    assert share_right(chunked_product(x, y, 64, jnp.bfloat16), product_in_f32, x, y) < 0.1


def test_a_bfloat16_accumulator_is_wrong_even_where_the_result_is_bfloat16():
    x, y = normal(32, 512, dtype=jnp.bfloat16), normal(512, 32, dtype=jnp.bfloat16)
    right = chunked_product(x, y, 128, jnp.float32).astype(jnp.bfloat16)
    assert share_right(right, product_in_bf16, x, y) == 1
    assert share_right(chunked_product(x, y, 128, jnp.bfloat16), product_in_bf16, x, y) < 0.95


@pytest.mark.parametrize("depth", daily(512, of=[512, 4096]))
def test_one_bfloat16_pass_is_wrong_for_float32_and_right_on_a_chip_that_does_it_by_default(depth):
    x, y = normal(16, depth), normal(depth, 16)
    one_pass = product_in_f32(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16))
    assert share_right(one_pass, product_in_f32, x, y) < 0.5
    (want,) = judges.expected(product_in_f32, (x, y), one_pass=True)
    assert judges.right(np.asarray(one_pass), want).all()


def test_where_highest_precision_is_asked_one_pass_is_wrong_on_the_chip_too():
    reference = functools.partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)
    x, y = normal(16, 512), normal(512, 16)
    (want,) = judges.expected(reference, (x, y), one_pass=True)
    assert not judges.right(np.asarray(product_in_f32(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16))), want).all()


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(q, k, v):
    return jax.nn.softmax(q @ k.T / 8, axis=-1) @ v


def running(x):
    return jax.lax.scan(lambda total, row: (total + row, total), jnp.zeros(x.shape[1]), x)


REFERENCES = {
    "softmax": (lambda x: jax.nn.softmax(x, -1), [normal(16, 256)]),
    "causal softmax": (lambda x: jax.nn.softmax(jnp.where(jnp.tri(16) > 0, x, -jnp.inf), -1), [normal(16, 16)]),
    "layer norm": (layer_norm, [normal(16, 256)]),
    "gelu": (jax.nn.gelu, [normal(64, 64, scale=3)]),
    "attention": (attention, [normal(64, 64) for _ in range(3)]),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, -1), [normal(16, 256, scale=20)]),
    "scan": (running, [normal(32, 128)]),
    "fori_loop": (lambda x: jax.lax.fori_loop(0, 5, lambda i, y: 1.5 * y + i, x), [normal(8, 128)]),
    "cond": (lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), [normal(8, 128)]),
    "gradient": (jax.grad(lambda x: jnp.tanh(x @ x.T).sum()), [normal(32, 32)]),
    "ragged product": (lambda x, y: jax.lax.ragged_dot(x, y, jnp.array([6, 10])), [normal(16, 64), normal(2, 64, 32)]),
    "convolution": (lambda x, y: jnp.convolve(x, y), [normal(256), normal(16)]),
    "products": (lambda x: jnp.prod(x, axis=1), [normal(16, 32)]),
    "sums to a few rows": (lambda x: jnp.zeros((4, 64)).at[jnp.arange(32) % 4].add(x), [normal(32, 64)]),
    "sorted": (lambda x: jnp.sort(jnp.tanh(x), axis=1), [normal(8, 64)]),
    "rows taken apart": (lambda x: jnp.stack([a * b for a, b in zip(x, x[::-1], strict=True)]), [normal(4, 64)]),
    "bfloat16": (lambda x: jax.nn.silu(x), [normal(64, 64, dtype=jnp.bfloat16)]),
    "relu next to zero": (lambda x: jax.nn.relu(x - 1e-9 - x), [normal(8, 128)]),
}


@pytest.mark.parametrize("name", daily(*list(REFERENCES)[::2], of=REFERENCES))
def test_a_bound_is_found_holds_for_the_reference_and_is_no_blank_cheque(name):
    reference, args = REFERENCES[name]
    for want in judges.expected(reference, tuple(args)):
        assert want.bound is not None
        assert judges.right(want.value, want).all()
        size = np.abs(want.exact).max()
        roundings = 2.0**-24 if want.value.dtype == np.float32 else 2.0**-9
        assert 0 <= want.bound.max() <= 3000 * roundings * max(size, 1)
        assert not judges.right(want.value + np.asarray(0.1 * (size + 1), want.value.dtype), want).any()


def test_equal_terms_whose_roundings_all_go_one_way():
    x = jnp.full((4096, 8), 0.1)
    row_by_row = jax.lax.scan(lambda total, row: (total + row, None), jnp.zeros(8), x)[0]
    assert share_right(row_by_row, lambda x: x.sum(0), x) == 1


def test_infinity_and_nan_are_equal_to_themselves_only():
    x = jnp.asarray([0.0, 1.0, -1.0, 0.0])

    def reference(x):
        return jnp.stack([jnp.log(x)[0], x[1], jnp.log(x)[2], x[3] / x[3]])

    nan, inf = np.nan, np.inf
    assert share_right(np.float32([-inf, 1, nan, nan]), reference, x) == 1
    (want,) = judges.expected(reference, (x,))
    assert judges.right(np.float32([0, nan, 0, 0]), want).tolist() == [False] * 4
    assert judges.right(np.float32([inf, inf, inf, inf]), want).tolist() == [False] * 4


def test_what_overflows_in_its_dtype_is_infinite_there():
    assert share_right(np.float32([np.inf]), jnp.exp, jnp.float32([100.0])) == 1
    assert share_right(np.float32([3e38]), jnp.exp, jnp.float32([100.0])) == 0


def test_integers_and_bools_must_be_equal():
    x = jnp.arange(8)
    assert share_right(np.arange(8, dtype=np.int32) * 2, lambda x: 2 * x, x) == 1
    assert share_right(np.arange(8, dtype=np.int32) * 2 + 1, lambda x: 2 * x, x) == 0
    assert share_right(np.arange(8) > 3, lambda x: x > 3, x) == 1


def test_a_reference_in_numpy_gets_a_few_roundings():
    x = np.linspace(1, 2, 8, dtype=np.float32)
    (want,) = judges.expected(lambda x: np.asarray(x) * 3, (x,))
    assert want.bound is None
    assert judges.right(x * 3, want).all() and not judges.right(x * 3.001, want).any()


def test_a_constant_that_changes_between_two_calls_is_seen():
    scale = {"by": jnp.float32(2.0)}

    def reference(x):
        return x * scale["by"]

    assert share_right(np.float32([2, 4]), reference, jnp.float32([1, 2])) == 1
    scale["by"] = jnp.float32(3.0)
    assert share_right(np.float32([3, 6]), reference, jnp.float32([1, 2])) == 1


def test_a_constant_inside_a_jitted_reference_is_not_remembered():
    x = jnp.float32([1, 2])
    for scale in (jnp.float32([2.0, 3.0]), jnp.float32([5.0, 7.0])):
        reference = jax.jit(lambda x, scale=scale: x * scale)
        assert share_right(np.asarray(x * scale), reference, x) == 1
        assert share_right(np.asarray(x * scale) + 1, reference, x) == 0


def test_the_flag_for_64_bits_is_left_as_it_was():
    judges.expected(jnp.sin, (jnp.ones(3),))
    assert jnp.asarray(1.0).dtype == np.float32


FUNCTIONS = {  # name: numbers it is asked about
    "exp": 20, "exp2": 20, "log": 20, "tanh": 20, "logistic": 20, "erf": 6, "erfc": 4, "erf_inv": 0.999, "expm1": 20,
    "log1p": 20, "sin": 20, "cos": 20, "sinh": 20, "cosh": 20, "sqrt": 20, "rsqrt": 20, "cbrt": 20,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_functions_of_this_cpu_are_as_exact_as_a_judge_allows(name):
    """Against float64, over numbers of every size; a new XLA may compute one otherwise."""
    largest = FUNCTIONS[name]
    x = RNG.uniform(-largest, largest, 100_000).astype(np.float32)
    x = np.abs(x) if name in {"log", "sqrt", "rsqrt", "log1p"} else x
    function = getattr(jax.lax, name)
    with jax.enable_x64(True):
        want = np.asarray(jax.jit(function)(x.astype(np.float64)))
    got = np.asarray(jax.jit(function)(x))
    allowed = op_rounding._MORE_ROUNDINGS.get(name, op_rounding._ROUNDINGS)
    sizes = np.maximum(np.abs(want), np.finfo(np.float32).tiny)
    if name in {"sin", "cos"}:  # near its roots the argument's own last bit counts
        sizes = np.maximum(sizes, 1e-2)
    assert np.max(np.abs(got - want) / sizes) <= allowed * np.finfo(np.float32).eps / 2


@pytest.mark.parametrize("function", [jnp.max, jax.nn.logsumexp])
def test_the_gradient_of_a_maximum_has_a_bound(function):
    """It holds a comparison that is made a number: one or nought, whichever of two nearly equal ones is the largest."""
    x, g = normal(20, 30), abs(normal(20))  # one near -1 would be moved by nothing below
    (want,) = judges.expected(lambda x, g: jax.vjp(lambda x: function(x, axis=-1), x)[1](g), (x, g))
    assert want.exact is not None
    (got,) = jax.vjp(lambda x: function(x, axis=-1), x)[1](g)
    assert judges.right(np.asarray(got), want).all() and not judges.right(np.asarray(got * 1.001 + 0.001), want).any()


def test_the_gradient_of_gelu_has_a_bound():
    x = normal(50, scale=2.0)
    gradient = jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum())
    (want,) = judges.expected(gradient, (x,))
    assert want.bound is not None and judges.right(np.asarray(gradient(x)), want).all()


@pytest.mark.parametrize("width", daily(16, of=[3, 16, 64]))
def test_any_order_of_the_sum_in_a_window_is_right_and_a_bfloat16_sum_is_wrong(width):
    x = normal(200, 128)

    def windows(x):
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (width, 1), (1, 1), ((width - 1, 0), (0, 0)))

    def shifted(dtype):
        padded = jnp.pad(x, ((width - 1, 0), (0, 0))).astype(dtype)
        return functools.reduce(jnp.add, [padded[k : k + len(x)] for k in range(width)]).astype(x.dtype)

    assert share_right(shifted(jnp.float32), windows, x) == 1
    assert share_right(shifted(jnp.bfloat16), windows, x) < 0.1


def test_the_largest_of_a_window_and_a_running_logsumexp_have_bounds():
    x = normal(64, 128)

    def of_windows(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (8, 1), (1, 1), "SAME")

    rounded_once = jnp.asarray(2 * np.asarray(x, np.float64) + 1, jnp.float32)
    assert share_right(of_windows(rounded_once), lambda x: of_windows(2 * x + 1), x) == 1
    exact = np.log(np.cumsum(np.exp(np.asarray(x, np.float64)), axis=0))
    assert share_right(exact, lambda x: jax.lax.cumlogsumexp(x, axis=0), x) == 1
    assert share_right(exact + 1e-4, lambda x: jax.lax.cumlogsumexp(x, axis=0), x) < 0.1
