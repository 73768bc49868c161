"""Slices that start where only the run can tell: the rule, as the real compiler has it, and what a learner reads."""

import functools

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import INDICES, SMEM, Shape, assert_compiles, compiled
from sweeps import daily

DTYPES = ("float32", "int32", "bfloat16", "int16", "int8")


def any_row(dtype, lanes, rows):
    """Whether whole rows of a ref may begin at any row that is known only when the kernel runs."""
    return jnp.dtype(dtype).itemsize == 4 and (lanes <= 128 or rows == 1)


def at_run_time(body, *arrays, out):
    """What the compiler makes of a kernel ``body(start, refs ...)`` with a start out of SMEM."""

    def kernel(starts_ref, *refs):
        body(starts_ref[0], *refs)

    specs = [SMEM, *(pl.BlockSpec() for _ in arrays)]
    return functools.cache(compiled(pl.pallas_call(kernel, out_shape=out, in_specs=specs), INDICES, *arrays))


def slicing(dtype, lanes, rows, width=None, kind="read", multiple=None):
    """A read, or a write, of ``rows`` rows and ``width`` lanes of a ref of 64 rows, from a row known at run time."""

    def part(ref, start):
        start = pl.multiple_of(start, multiple) if multiple else start
        return ref.at[pl.ds(start, rows), pl.ds(0, width or lanes)]

    def reads(start, x_ref, o_ref):
        o_ref[...] = part(x_ref, start)[...]

    def writes(start, x_ref, o_ref):
        part(o_ref, start)[...] = x_ref[...]

    large, small = Shape((64, lanes), dtype), Shape((rows, width or lanes), dtype)
    if kind == "read":
        return at_run_time(reads, large, out=small)
    return at_run_time(writes, small, out=large)


@pytest.mark.parametrize(
    "dtype, lanes, rows, kind",
    daily(
        ("float32", 512, 1, "read"),
        ("float32", 512, 2, "read"),
        ("float32", 128, 8, "write"),
        ("bfloat16", 128, 1, "read"),
        of=[
            (dtype, lanes, rows, kind)
            for dtype in DTYPES
            for lanes in (128, 512)
            for rows in (1, 2, 8, 32)
            for kind in ("read", "write")
        ],
    ),
)
def test_a_row_known_at_run_time_is_taken_by_the_rule(dtype, lanes, rows, kind):
    error = slicing(jnp.dtype(dtype), lanes, rows, kind=kind)()
    assert (error is None) == any_row(dtype, lanes, rows), str(error)
    if error:
        unit = 32 if dtype == "int8" else 8
        assert error.name == "alignment" and f"a multiple of {unit}." in error.what


@pytest.mark.parametrize(
    "dtype, multiple, taken",
    daily(
        ("float32", 4, False),
        ("bfloat16", 8, True),
        of=[
            ("float32", 4, False),
            ("float32", 8, True),
            ("bfloat16", 8, True),
            ("int8", 8, False),
            ("int8", 16, False),
            ("int8", 32, True),
        ],
    ),
)
def test_a_promise_is_believed_where_it_is_large_enough(dtype, multiple, taken):
    error = slicing(jnp.dtype(dtype), 512, 8, multiple=multiple)()
    assert (error is None) == taken, str(error)


def lanes_from(start, x_ref, o_ref):
    o_ref[...] = x_ref[:, pl.ds(start, 128)]


def row_numbers_in_vmem(start, rows_ref, x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(rows_ref[start], 1)]


WIDE, ROW = Shape((64, 512), jnp.float32), Shape((1, 128), jnp.float32)

FAILURES = {
    "alignment": (
        slicing(jnp.float32, 512, 8),
        "slices axis 0 of a ref, f32[64, 512], at a start that the compiler cannot prove to be a multiple of 8.",
    ),
    "alignment, of bytes": (
        slicing(jnp.int8, 128, 1),
        "of a ref, i8[64, 128], at a start that the compiler cannot prove to be a multiple of 32.",
    ),
    "alignment, of lanes": (
        at_run_time(lanes_from, WIDE, out=Shape((64, 128), jnp.float32)),
        "slices axis 1 of a ref, f32[64, 512], at a start that the compiler cannot prove to be a multiple of 128.",
    ),
    "alignment, of a number in VMEM": (
        at_run_time(row_numbers_in_vmem, Shape((256,), jnp.int32), Shape((64, 128), jnp.float32), out=ROW),
        "slices axis 0 of a ref, i32[256], at a start that the compiler cannot prove to be a multiple of 128.",
    ),
    "part-of-a-row": (slicing(jnp.float32, 512, 1, width=128), "takes a part of a row"),
    "part-of-a-row, written": (slicing(jnp.float32, 512, 1, width=128, kind="write"), "takes a part of a row"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    if failure == "part-of-a-row, written" and jax.__version_info__ >= (0, 12):
        pytest.skip("JAX 0.12 stops at the start, which it cannot prove, before it looks at the part of a row")
    provoke.assert_explained(failure, *FAILURES[failure])


ADVICE = {
    "alignment": "take one whole row at a time, or a ref of 128 lanes",
    "alignment, of bytes": "add an axis, (64, 1, 128)",
    "alignment, of lanes": "pltpu.roll(value, 512 - start, axis)",
    "alignment, of a number in VMEM": "belongs in SMEM",
    "part-of-a-row": "slice the lanes out of that value",
}


@pytest.mark.parametrize("failure", ADVICE)
def test_advice_fits_the_ref(failure):
    explain, _ = FAILURES[failure]
    assert ADVICE[failure] in explain().next


def row_by_row(start, x_ref, o_ref):
    for row in range(8):
        o_ref[pl.ds(row, 1), :] = x_ref[pl.ds(start + row, 1), :]


CURES = {
    "a product": (lambda start, x, o: o.__setitem__(..., x[pl.ds(8 * start, 8)]), WIDE, (8, 512)),
    "row by row": (row_by_row, WIDE, (8, 512)),
    "an axis in front": (
        lambda start, x, o: o.__setitem__(..., x[start]),
        Shape((64, 1, 128), jnp.int8),
        (1, 128),
    ),
    "lanes turned": (
        lambda start, x, o: o.__setitem__(..., pltpu.roll(x[...], 512 - start, 1)[:, :128]),
        WIDE,
        (64, 128),
    ),
    "lanes cut out of a row": (
        lambda start, x, o: o.__setitem__(..., x[pl.ds(start, 1), :][:, 128:256]),
        WIDE,
        (1, 128),
    ),
}


@pytest.mark.parametrize("cure", daily("row by row", "an axis in front", of=CURES))
def test_cures_compile(cure):
    kernel, x, out = CURES[cure]
    assert_compiles(at_run_time(kernel, x, out=jax.ShapeDtypeStruct(out, x.dtype)))
