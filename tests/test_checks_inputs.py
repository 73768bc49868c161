"""Typed inputs: the arrays they stand for, and that no swapped index hides in them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from course_lib.checks import inputs

DTYPES = ["float32", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "float8_e4m3fn", "int4"]
NARROW = ["bfloat16", "int8", "uint8"]


def coded(shape, dtype="float32", number=0, within=None):
    return np.asarray(inputs.position_coded(jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)), number, within))


def random(shape, dtype="float32", number=0, within=None):
    return np.asarray(inputs.at_random(jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)), number, within))


def test_a_declaration_is_read():
    assert inputs.declared("x: f32[M,N]") == ("x", "f32", ("M", "N"))
    assert inputs.declared("s: T[]") == ("s", "T", ())
    assert inputs.declared("b: bf16[N,128]") == ("b", "bf16", ("N", "128"))


@pytest.mark.parametrize("text", ["x f32[N]", "f32[N]", "x: f32", "x: f32[M, N]", 7, "x: f32[N+1]"])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match="cannot be read: write a name, a dtype and a shape"):
        inputs.declared(text)


def test_arguments_are_position_coded_and_random_at_every_size_and_each_dtype_at_an_odd_one():
    sizes = ({"M": 16, "N": 256}, {"M": 5, "N": 130}, {"M": 8, "N": 128})
    made = inputs.arguments(("x: T[M,N]", "rows: int32[M]"), sizes, ("f32", "bf16"))
    types = [tuple(f"{a.dtype}{list(a.shape)}" for a in case) for case in made]
    assert types == [
        *[("float32[16, 256]", "int32[16]")] * 2,
        *[("float32[5, 130]", "int32[5]")] * 2,
        *[("float32[8, 128]", "int32[8]")] * 2,
        *[("bfloat16[5, 130]", "int32[5]")] * 2,
    ]
    assert (made[0][0].ravel() == np.arange(16 * 256)).all(), "x[i] = i"
    assert (made[0][1] == 3 * np.arange(16) + 1000).all(), "y[i] = 3 i + 1000"
    assert abs(made[1][0]).max() <= 1 and made[1][0].std() > 0.5


def test_the_same_arguments_at_every_call():
    wanted = ("x: T[M,N]", "y: T[M,N]"), ({"M": 5, "N": 130},), ("f32", "bf16", "int32", "int8")
    first, again = jax.tree.leaves(inputs.arguments(*wanted)), jax.tree.leaves(inputs.arguments(*wanted))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (4096,), (40, 260), (3, 8, 128)])
def test_codes_are_exact_whole_numbers(shape, dtype):
    for number in range(3):
        values = coded(shape, dtype, number).astype(np.float64)
        assert values.shape == shape and (values == np.rint(values)).all()
        assert (coded(shape, "float64" if dtype == "?" else dtype, number).astype(np.float64) == values).all()
        assert np.isfinite(values).all()


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_wide_dtypes_tell_every_element_from_every_other(dtype):
    values = coded((130, 256), dtype, number=1)
    assert len(np.unique(values)) == values.size


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_dtypes_tell_neighbours_rows_and_blocks_apart(dtype):
    for number in range(3):
        values = coded((256, 512), dtype, number).astype(int)
        for shift in (1, 2, 8, 16, 32, 128):
            for axis in (0, 1):
                assert (np.roll(values, shift, axis) != values).mean() > 0.97, (number, shift, axis)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_transpose_differs_nearly_everywhere(dtype):
    for number in range(3):
        values = coded((64, 64), dtype, number).astype(np.float64)
        assert (values.T != values).mean() > 0.85


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1000,), (16, 128)])
def test_inputs_are_coded_differently(shape, dtype):
    kinds = [coded(shape, dtype, number).astype(np.float64) for number in range(3)]
    for one, other in itertools.combinations(kinds, 2):
        assert (one != other).mean() > 0.9


def test_a_bool_is_on_and_off_and_differs_between_inputs():
    x, y = coded((8, 16), "bool"), coded((8, 16), "bool", 1)
    assert 0.3 < x.mean() < 0.7 and (x != y).mean() > 0.3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("make", [coded, random])
def test_values_stay_within_their_interval(make, dtype):
    values = make((5, 130), dtype, 1, (-4.0, 4.0)).astype(np.float64)
    assert values.min() >= -4 and values.max() <= 4 and len(np.unique(values)) >= 8
    assert values.min() < -2 and values.max() > 2, "all of it is used"


def test_random_integers_are_larger_than_a_float32_can_hold():
    values = random((1000,), "int32")
    assert (abs(values.astype(np.int64)) > 2**24).mean() > 0.9 and values.min() < 0 < values.max()
    assert abs(random((1000,), "int8").astype(int)).max() <= 64, "a sum of two stays inside"


def test_random_inputs_differ():
    assert (random((1000,), number=0) != random((1000,), number=1)).all()


@pytest.mark.parametrize(
    "shape, odd",
    [((16, 256), False), ((8,), False), ((1024,), False), ((1000,), True), ((5, 256), True), ((8, 130), True)],
)
def test_what_an_odd_size_is(shape, odd):
    assert inputs.is_odd(dict(zip("MN", shape, strict=False))) == odd


def test_unknown_axes_and_dtypes_are_named():
    with pytest.raises(ValueError, match="input x has the axis N, which the size {'M': 8} does not give"):
        inputs.arguments(("x: f32[M,N]",), ({"M": 8},))
    with pytest.raises(ValueError, match="'f99' is not a dtype"):
        inputs.arguments(("x: f99[M]",), ({"M": 8},))
