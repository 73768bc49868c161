"""Planted bugs: each must be refused by the judge that should see it, with a sentence that helps."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu, pinned
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compiler, judges

N = 4096


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def blocked(kernel=add_kernel, block=1024, steps=4, index=lambda i: (i,), out=None, semantics=None):
    """Adds two vectors in blocks; every argument is a way to be wrong."""
    spec, out_spec = pl.BlockSpec((block,), index), pl.BlockSpec((block,), out or index)
    params = pltpu.CompilerParams(dimension_semantics=semantics) if semantics else None

    def f(x, y):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(
            kernel, out_shape=shape, grid=(steps,), in_specs=[spec, spec], out_specs=out_spec, compiler_params=params
        )(x, y)

    return f


def half_kernel(x_ref, y_ref, o_ref):
    o_ref[:512] = x_ref[:512] + y_ref[:512]


def in_place_kernel(x_ref, y_ref, o_ref):
    x_ref[...] += y_ref[...]
    o_ref[...] = x_ref[...]


def in_place_when_kernel(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def change():
        x_ref[...] = x_ref[...] * 1

    o_ref[...] = x_ref[...] + y_ref[...]


def copies_back_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]
    pltpu.sync_copy(o_ref, x_ref)


def names_only_kernel(x_ref, y_ref, o_ref):
    o_ref = x_ref[...] + y_ref[...]  # noqa: F841


def unrolled_kernel(x_ref, y_ref, o_ref):
    for i in range(1024):
        o_ref[i] = x_ref[i] + y_ref[i]


def plus_equals_kernel(x_ref, y_ref, o_ref):
    o_ref[...] += x_ref[...] + y_ref[...]


def sum_kernel(x_ref, y_ref, o_ref):
    """All steps add into one block: right in order, a race on two cores."""

    @pl.when(pl.program_id(0) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] + y_ref[...]


def mask_kernel(x_ref, y_ref, o_ref):
    """Masks the ragged tail by multiplying: NaN times zero is NaN."""
    position = pl.program_id(0) * 1024 + jax.lax.broadcasted_iota(jnp.int32, (8, 128), 0) * 128
    position += jax.lax.broadcasted_iota(jnp.int32, (8, 128), 1)
    inside = (position < 1500).reshape(1024)
    o_ref[...] = jnp.full(128, jnp.sum(x_ref[...] * inside.astype(jnp.float32)))


def vectors(n=N, dtype=jnp.float32):
    return jnp.arange(n, dtype=dtype), jnp.arange(n, dtype=dtype) * 2


def last(fn, *args, reference=jnp.add):
    return judges.judge(fn, reference, *(args or vectors()))[-1]


def test_a_right_kernel_passes_all_four():
    verdicts = judges.judge(blocked(), jnp.add, *vectors())
    assert [v.judge for v in verdicts] == ["numbers", "simulator", "races", "compiler"]
    assert all(v.passed for v in verdicts[:3])
    assert verdicts[3].passed or compiler.libtpu_version() is None


BUGS = {
    "half written": (blocked(half_kernel), "numbers", r"Output block \(0,\).*\[512\] is nan; it should be 1536"),
    "element offsets": (
        blocked(index=lambda i: (1024 * i,)),
        "numbers",
        r"index map of x_ref asks for block \(1024,\)",
    ),
    "counts blocks from the end": (blocked(index=lambda i: (-1 - i,)), "simulator", r"asks for block \(-1,\)"),
    "too few steps": (blocked(steps=3), "numbers", r"No grid step writes output block \(3,\)"),
    "wrong arithmetic": (
        blocked(lambda x, y, o: o.__setitem__(..., x[...])),
        "numbers",
        r"\[1\] is 1; it should be 3",
    ),
    "writes to an input": (blocked(in_place_kernel), "numbers", "writes to its input x_ref"),
    "writes to an input, now and then": (blocked(in_place_when_kernel), "numbers", "writes to its input x_ref"),
    "writes to an input by a copy": (blocked(copies_back_kernel), "numbers", "writes to its input x_ref"),
    "returns a list": (lambda x, y: [blocked()(x, y)], "numbers", "returns a list of 1; it should return an array"),
    "returns nothing": (lambda x, y: None, "numbers", "The function returned nothing"),
    "writes nothing": (blocked(names_only_kernel), "numbers", "names_only_kernel writes nothing to o_ref"),
    "unrolled": (blocked(unrolled_kernel), "numbers", "unrolled_kernel is [0-9],[0-9]+ operations long"),
    "+= without a start": (blocked(plus_equals_kernel), "numbers", "is nan; it should be"),
    "no kernel": (jnp.add, "numbers", "any pallas_call"),
    "wrong dtype": (
        lambda x, y: blocked()(x, y).astype(jnp.bfloat16),
        "numbers",
        "is bfloat16; it should be float32",
    ),
    "wrong shape": (lambda x, y: blocked()(x, y)[:8], "numbers", r"has shape \(8,\); it should be \(4096,\)"),
    "two results": (lambda x, y: (blocked()(x, y),) * 2, "numbers", "returns 2 arrays; it should return 1"),
    "block revisited": (
        blocked(steps=8, index=lambda i: (i % 4,)),
        "simulator",
        r"of o_ref left VMEM after step \(0,\)",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_bug_is_refused_by_its_judge(bug):
    fn, judge, says = BUGS[bug]
    verdict = last(fn)
    assert verdict.passed is False
    assert verdict.judge == judge
    assert re.search(says, verdict.message), verdict.message
    assert verdict.next or bug == "no kernel", "a refusal says what to try"


def test_plus_equals_gets_its_own_advice():
    said = last(blocked(plus_equals_kernel))
    assert "At step (0,) o_ref is read before anything has been written to it" in said.message
    assert said.next.startswith("write o_ref with =, not with +=")


def test_rows_that_every_mask_leaves_out_are_named():
    """Two steps share a block, each writes its own rows, and both leave out row 3: the where is not the mistake."""

    def halves_kernel(x_ref, o_ref):
        row, step = jax.lax.broadcasted_iota(jnp.int32, (8, 128), 0), pl.program_id(0)
        mine = (row > 3) == (step == 1)
        o_ref[...] = jnp.where(mine & (row != 3), 2 * x_ref[...], o_ref[...])

    spec = pl.BlockSpec((8, 128), lambda i: (0, 0))
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    fn = pl.pallas_call(halves_kernel, out_shape=out, grid=(2,), in_specs=[spec], out_specs=spec)
    said = judges.judge(fn, lambda x: 2 * x, jnp.arange(1024.0).reshape(8, 128), simulate=False)[-1]
    assert "No step writes row 3 of this block: at steps (0,) to (1,) the jnp.where with o_ref keeps" in said.message
    assert said.next.startswith("together, the masks of a block's steps must cover all its rows")


def test_a_block_that_the_reference_multiplies_by_zero_is_not_needed():
    """It has the mask as zeros and ones, so NaN shows in its result where no step needs the block."""

    def twice_kernel(x_ref, o_ref):
        o_ref[...] = 3 * x_ref[...]  # 2 is asked for

    def reference(x):
        return 2 * jnp.einsum("ij,jk->ik", jnp.eye(4), x, precision="highest")

    spec, x = pl.BlockSpec((1, 128), lambda i: (i, 0)), jnp.arange(1.0, 513).reshape(4, 128)
    said = judges.judge(
        pl.pallas_call(twice_kernel, out_shape=x, grid=(4,), in_specs=[spec], out_specs=spec), reference, x
    )
    assert said[-1].passed is False and "but the result needs" not in said[-1].message


def test_mask_by_multiplying_is_caught_although_the_cpu_compiler_would_hide_it():
    spec = pl.BlockSpec((1024,), lambda i: (i,))
    out_spec = pl.BlockSpec((128,), lambda i: (i,))
    out = jax.ShapeDtypeStruct((256,), jnp.float32)
    fn = pl.pallas_call(mask_kernel, out_shape=out, grid=(2,), in_specs=[spec, spec], out_specs=out_spec)

    def reference(x, y):
        return jnp.repeat(jnp.stack([x[:1024].sum(), x[1024:].sum()]), 128)

    verdict = last(fn, jnp.ones(1500), jnp.ones(1500), reference=reference)
    assert verdict.passed is False and "nan" in verdict.message


def test_parallel_reduction_is_a_race():
    right = blocked(sum_kernel, out=lambda i: (0,), semantics=("arbitrary",))
    wrong = blocked(sum_kernel, out=lambda i: (0,), semantics=("parallel",))

    def one_block(f):
        return lambda x, y: f(x, y)[:1024]

    def reference(x, y):
        return (x + y).reshape(4, 1024).sum(0)

    def verdicts(f):
        return judges.judge(one_block(f), reference, *vectors())

    assert all(v.passed is not False for v in verdicts(right))
    refused = verdicts(wrong)[-1]
    assert refused.passed is False and refused.judge in ("simulator", "races")
    alone = judges.races_judge(one_block(wrong), reference, *vectors())
    assert alone.passed is False and "steps (0,) and (1,) both write block (0,) of o_ref" in alone.message


@needs_libtpu
def test_illegal_block_is_the_compilers_to_refuse():
    verdict = last(blocked(block=100, steps=41))
    assert (verdict.judge, verdict.passed) == ("compiler", False)
    assert "The block (100,) of x_ref is not legal" in verdict.message
    assert "1024" in verdict.next


def doubled_row_by_row(x, unroll):
    def kernel(x_ref, o_ref):
        def row(i, carry):
            o_ref[pl.ds(i, 1)] = 2 * x_ref[pl.ds(i, 1)]
            return carry

        jax.lax.fori_loop(0, x_ref.shape[0], row, 0, unroll=unroll)

    return pl.pallas_call(kernel, out_shape=x)(x)


@pinned  # libtpu 0.0.50 compiles it
def test_an_unroll_that_leaves_turns_over_explains_a_crash():
    x = jnp.ones((20, 128))
    said = judges.compiler_judge(functools.partial(doubled_row_by_row, unroll=8), lambda x: 2 * x, x)
    assert "has 20 iterations and unroll=8, which leaves 4 iterations over" in said.message
    assert "choose an unroll that divides 20: 1, 2, 4, 5, 10;" in said.next
    assert judges.compiler_judge(functools.partial(doubled_row_by_row, unroll=5), lambda x: 2 * x, x).passed


def test_without_libtpu_the_compiler_is_skipped_and_never_passed(monkeypatch):
    monkeypatch.setattr(compiler.tpu, "libtpu_version", lambda: None)
    verdict = judges.judge(blocked(), jnp.add, *vectors())[-1]
    assert verdict.passed is None and "Linux on x86-64" in verdict.message
    assert str(verdict).startswith("compiler: skipped")


def test_an_error_while_tracing_is_explained():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref + y_ref

    verdict = last(blocked(kernel))
    assert verdict.judge == "numbers" and "A Ref is a place in memory" in verdict.message


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8])
def test_close_knows_its_dtype(dtype):
    one = np.asarray(jnp.ones(3, dtype))
    assert judges.close(one, one).all()
    assert not judges.close(one, np.asarray(jnp.asarray([1, 1, 2], dtype))).all()


def test_close_and_nan():
    nan, one = np.full(1, np.nan, np.float32), np.ones(1, np.float32)
    assert judges.close(nan, nan).all()
    assert not judges.close(nan, one).any() and not judges.close(one, nan).any()
    assert judges.close(np.full(1, np.inf), np.full(1, np.inf)).all()
    assert not judges.close(np.full(1, np.inf), np.full(1, -np.inf)).any()
    assert not judges.close(one, np.full(1, np.inf, np.float32)).any()


def test_bf16_accuracy_is_refused_where_f32_is_asked():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = (x_ref[...].astype(jnp.bfloat16) + y_ref[...].astype(jnp.bfloat16)).astype(jnp.float32)

    x = jnp.linspace(0, 1, N)
    assert last(blocked(kernel), x, x).passed is False


def test_a_reference_in_numpy_is_good_enough():
    def reference(x, y):
        return np.asarray(x) + np.asarray(y)

    assert all(v.passed is not False for v in judges.judge(blocked(), reference, *vectors()))
    said = last(blocked(index=lambda i: (0,), out=lambda i: (i,)), reference=reference)
    assert said.judge == "numbers" and "it should be 3072" in said.message


def test_arguments_and_references_that_cannot_be_judged_get_one_sentence():
    with pytest.raises(ValueError, match="'abc' is among the arguments, but the judges take only"):
        judges.judge(blocked(), jnp.add, "abc", vectors()[0])
    with pytest.raises(ValueError, match="the reference cannot be run with these arguments. TypeError"):
        judges.judge(blocked(), lambda x: x, *vectors())


def test_numpy_arguments_are_what_jax_makes_of_them():
    x, y = (np.asarray(v, np.float64) for v in vectors())
    assert all(v.passed is not False for v in judges.judge(blocked(), lambda x, y: x + y, x, y))


def test_a_grid_without_steps_or_with_far_too_many_is_said():
    assert "has no steps" in last(blocked(steps=0)).message
    assert "1,000,000 steps" in last(blocked(steps=10**6, index=lambda i: (0,))).message
    assert "too many to list" in last(blocked(steps=10**9, index=lambda i: (0,))).message


def test_a_refused_simulation_leaves_the_next_one_alone():
    assert last(blocked(steps=8, index=lambda i: (i % 4,))).judge == "simulator"
    assert all(v.passed is not False for v in judges.judge(blocked(), jnp.add, *vectors()))


@pytest.mark.parametrize("columns", [128, 256])
def test_two_outputs_that_are_each_others_are_told_so(columns):
    """Of one shape, and of two."""

    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = 2 * x_ref[:, : o_ref.shape[1]]
        p_ref[...] = 3 * x_ref[:, : p_ref.shape[1]]

    def both(x):
        out = [jax.ShapeDtypeStruct((8, n), x.dtype) for n in (128, columns)]
        return pl.pallas_call(kernel, out_shape=out)(x)

    x = jnp.arange(1.0, 8 * 256 + 1).reshape(8, 256)
    said = judges.numbers_judge(both, lambda x: (3 * x[:, :columns], 2 * x[:, :128]), x)
    assert said.passed is False and "are swapped" in said.message
    assert judges.numbers_judge(both, lambda x: (2 * x[:, :128], 3 * x[:, :columns]), x).passed
