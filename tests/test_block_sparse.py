"""Block-sparse products: their kernels by all four judges, with patterns of every kind; mistakes that must be seen."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from block_sparse_mistakes import BY_INDEX_MAPS, IN_KERNEL, IN_SDD_KERNEL
from sweeps import daily

from course_lib import compat, grid
from course_lib.kernels import block_sparse
from course_lib.kernels.block_sparse import Blocks, Pattern, by_index_maps, on_tpu
from course_lib.kernels.block_sparse import blocks as block_sparse_blocks
from course_lib.kernels.block_sparse import kernel as block_sparse_kernel
from course_lib.kernels.block_sparse import sdd_kernel as block_sparse_sdd

# Rows and columns of blocks, and of each block where it lies: of any number of them a step takes 4.
PATTERNS = {
    "in order": ((4, 3), [0, 0, 1, 2, 3], [0, 2, 1, 2, 0]),
    "any order": ((4, 3), [3, 0, 3, 1, 0, 2, 1, 3, 0, 2, 1], [0, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0]),
    "empty rows and columns": ((4, 3), [2, 0, 2], [1, 0, 0]),
    "one place twice": ((2, 3), [1, 0, 1, 1], [2, 0, 2, 2]),
    "surplus": ((2, 3), [0, 2, 1, -1, 0, 7], [1, 0, 2, 1, 3, -5]),
    "one block": ((1, 1), [0], [0]),
}
SMALL = Blocks(bn=128)
WAYS = {  # in which sdd has its operands in VMEM; seconds of a step; a depth
    "all of a and b": ({}, 1.0, 200),
    "rows of a": ({}, 0.0, 200),
    "columns of b": ({"blocks": SMALL}, 0.0, 200),
    "K cut": ({"blocks": Blocks(bk=128)}, 0.0, 200),
    "part by part": ({"blocks": Blocks(bk=128)}, 0.0, 384),
}


@pytest.fixture(autouse=True)
def several_steps(monkeypatch):
    monkeypatch.setattr(block_sparse_blocks, "_MOST", 4)


def pattern_of(name):
    shape, rows, cols = PATTERNS[name]
    return Pattern(jnp.asarray(rows, jnp.int32), jnp.asarray(cols, jnp.int32), shape)


def sample(*shapes, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def dsd_case(name, transpose_a=False, h=8, w=128, n=200, dtype=jnp.float32):
    pattern = pattern_of(name)
    depth = pattern.shape[0] * h if transpose_a else pattern.shape[1] * w
    values, b = sample((pattern.rows.size, h, w), (depth, n), dtype=dtype)
    return values, pattern, b


def sdd_case(name, transpose_b=False, h=8, w=128, k=200, dtype=jnp.float32):
    pattern = pattern_of(name)
    n = pattern.shape[1] * w
    a, b = sample((pattern.shape[0] * h, k), (n, k) if transpose_b else (k, n), dtype=dtype)
    return a, b, pattern


def simulated(fn, *args):
    """In the TPU simulator, where what lies beyond an array is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(), *a))(*args)


def both_ways(fn, **how):
    """The result and the gradients, of arrays and a pattern, wherever that stands among them."""

    def run(*args):
        arrays, where = [arg for arg in args if not isinstance(arg, Pattern)], [*map(is_pattern, args)].index(True)
        o, pull = jax.vjp(lambda *x: fn(*x[:where], args[where], *x[where:], **how), *arrays)
        return o, *pull(jnp.cos(jnp.arange(o.size)).reshape(o.shape).astype(o.dtype))

    return run


def is_pattern(arg):
    return isinstance(arg, Pattern)


OPS = {
    "dsd": (
        functools.partial(block_sparse.dsd, blocks=SMALL),
        block_sparse.dsd_reference,
        dsd_case("any order", n=200),
    ),
    "sdd": (block_sparse.sdd, block_sparse.sdd_reference, sdd_case("any order", k=256)),
    "sdd, part by part": (
        functools.partial(block_sparse.sdd, blocks=Blocks(bk=128)),
        block_sparse.sdd_reference,
        sdd_case("any order", k=256),
    ),
}


def near(got, want, tolerance=2e-5):
    for found, wanted in zip(got, want, strict=True):
        found, wanted = np.float32(found), np.float32(wanted)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize(
    "name, transpose_a",
    daily(("any order", False), of=[(name, turned) for name in PATTERNS for turned in (False, True)]),
)
def test_dsd_and_its_gradients_are_the_reference(name, transpose_a):
    args, how = dsd_case(name, transpose_a), {"transpose_a": transpose_a}
    got = simulated(both_ways(block_sparse.dsd, blocks=SMALL, **how), *args)
    near(got, jax.jit(both_ways(block_sparse.dsd_reference, **how))(*args))


@pytest.mark.parametrize(
    "name, transpose_b",
    daily(("one place twice", False), of=[(name, turned) for name in PATTERNS for turned in (False, True)]),
)
def test_sdd_and_its_gradients_are_the_reference(name, transpose_b):
    args, how = sdd_case(name, transpose_b), {"transpose_b": transpose_b}
    got = simulated(both_ways(block_sparse.sdd, **how), *args)
    near(got, jax.jit(both_ways(block_sparse.sdd_reference, **how))(*args))


@pytest.mark.parametrize(
    "name, way, transpose_b",
    daily(
        ("any order", "rows of a", False),
        ("surplus", "columns of b", False),
        ("any order", "K cut", True),
        ("surplus", "part by part", True),
        of=[(name, way, turned) for name in PATTERNS for way in WAYS for turned in (False, True)],
    ),
)
def test_sdd_however_its_operands_lie_in_vmem(name, way, transpose_b, monkeypatch):
    how, step, depth = WAYS[way]
    monkeypatch.setattr(block_sparse_blocks, "_STEP", step)
    monkeypatch.setattr(block_sparse_blocks, "_OTHER_ROWS", step)
    args = sdd_case(name, transpose_b, k=depth)
    got = simulated(functools.partial(block_sparse.sdd, transpose_b=transpose_b, **how), *args)
    near(got, [block_sparse.sdd_reference(*args, transpose_b=transpose_b)])


def test_each_way_is_another_program(monkeypatch):
    """How many grid steps of a's and b's blocks: else the test above would prove one way five times."""
    found = {}
    for name, (how, step, depth) in WAYS.items():
        args = sdd_case("any order", k=depth)
        monkeypatch.setattr(block_sparse_blocks, "_STEP", step)
        monkeypatch.setattr(block_sparse_blocks, "_OTHER_ROWS", step)
        call = grid.walk(functools.partial(block_sparse.sdd, **how), *args).calls[0]
        found[name] = call.grid, [operand.block_shape for operand in call.operands if operand.memory_space == "vmem"]
    assert found == {
        "all of a and b": ((3, 1), [(4, 8, 200), (200, 384), (4, 8, 128)]),
        "rows of a": ((11, 1), [(1, 8, 200), (200, 384), (1, 8, 128)]),
        "columns of b": ((11, 1), [(1, 8, 200), (200, 128), (1, 8, 128)]),
        "K cut": ((11, 2), [(1, 8, 128), (128, 128), (1, 8, 128)]),
        "part by part": ((1, 3, 3), [(4, 8, 128)]),
    }


@pytest.mark.parametrize("name", daily("surplus", of=PATTERNS))
def test_plain_jax_is_the_same(name):
    for transpose in (False, True):
        args, how = dsd_case(name, transpose, h=5, w=6), {"transpose_a": transpose}
        near(both_ways(block_sparse.dsd, **how)(*args), both_ways(block_sparse.dsd_reference, **how)(*args))
        args, how = sdd_case(name, transpose, h=5, w=6), {"transpose_b": transpose}
        near(both_ways(block_sparse.sdd, **how)(*args), both_ways(block_sparse.sdd_reference, **how)(*args))


@pytest.mark.parametrize("h, w", daily((7, 13), of=[(7, 13), (24, 40), (128, 128), (256, 128)]))
@pytest.mark.parametrize("dtype", daily("bfloat16", of=["float32", "bfloat16"]))
def test_blocks_of_any_size(h, w, dtype):
    near_enough = (2e-5, 2e-2)[dtype == "bfloat16"]
    args = dsd_case("surplus", h=h, w=w, n=130, dtype=dtype)
    near(simulated(block_sparse.dsd, *args), [block_sparse.dsd_reference(*args)], near_enough)
    args = sdd_case("any order", h=h, w=w, dtype=dtype)
    near(simulated(block_sparse.sdd, *args), [block_sparse.sdd_reference(*args)], near_enough)


def test_bf16_is_summed_in_f32_and_rounded_once():
    """1 and 16 times 1/256: bf16 would stay at 1, where the next number is 1 + 1/128."""
    pattern = Pattern(jnp.zeros(17, jnp.int32), jnp.arange(17, dtype=jnp.int32), (1, 17))
    values = jnp.full((17, 8, 8), 2**-11, jnp.bfloat16).at[0].set(1 / 8)
    assert simulated(block_sparse.dsd, values, pattern, jnp.ones((17 * 8, 128), jnp.bfloat16))[0][0, 0] == 1.0625


def test_what_is_surplus_may_be_anything():
    """NaN in its values, and in the rows and columns of a and b that it may read instead."""
    values, pattern, b = dsd_case("surplus")
    kept = jnp.array([0, 2])
    spoiled = jnp.full_like(values, jnp.nan).at[kept].set(values[kept])
    near(simulated(block_sparse.dsd, spoiled, pattern, b), [block_sparse.dsd_reference(values, pattern, b)])
    a, b, _ = sdd_case("surplus")
    (o,) = simulated(block_sparse.sdd, jnp.full_like(a, jnp.nan), b, pattern)
    assert np.isnan(o[kept]).all() and not np.delete(o, kept, axis=0).any()
    assert not np.delete(block_sparse.sdd(jnp.full_like(a, jnp.nan), b, pattern), kept, axis=0).any()


@pytest.mark.parametrize(
    "op, change",
    daily(("sdd, part by part", "alone"), of=[(op, n) for op in OPS for n in ("alone", "vjp")]),
)
def test_by_four_judges(op, change):
    fn, reference, args = OPS[op]
    if change == "vjp":
        fn, reference = both_ways(fn), both_ways(reference)
    accepted(fn, reference, *args)


def plant(right, wrong, module, monkeypatch):
    """Use the functions of ``module`` with ``wrong`` in its source for ``right``."""
    source = inspect.getsource(module)
    assert right in source
    names = {"__name__": module.__name__}
    exec(compile(source.replace(right, wrong), module.__file__, "exec"), names)
    for user in (on_tpu, by_index_maps, block_sparse_sdd):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and getattr(user, name, None) is function:
                monkeypatch.setattr(user, name, names[name])


MISTAKES = {
    name: (module, *mistake)
    for module, mistakes in (
        (block_sparse_kernel, IN_KERNEL),
        (by_index_maps, BY_INDEX_MAPS),
        (block_sparse_sdd, IN_SDD_KERNEL),
    )
    for name, mistake in mistakes.items()
}


@pytest.mark.parametrize("name", daily("the sum is not kept", "not waited for", of=MISTAKES))
def test_a_mistake_is_seen(name, monkeypatch):
    module, right, wrong, shows = MISTAKES[name]
    plant(right, wrong, module, monkeypatch)
    with pytest.raises(AssertionError):
        if len(shows) == 2:
            test_sdd_and_its_gradients_are_the_reference(*shows)
        elif len(shows) == 3:
            test_sdd_however_its_operands_lie_in_vmem(*shows, monkeypatch)
        else:
            args = dsd_case(*shows)
            got = simulated(functools.partial(block_sparse.dsd, blocks=SMALL), *args)
            near(got, [block_sparse.dsd_reference(*args)])
