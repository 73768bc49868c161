"""dsd panel by panel: each of its forms by the simulator, the judges and the compiler; where it is chosen; mistakes."""

import functools

import jax
import jax.numpy as jnp
import pytest
from accepted import accepted
from block_sparse_mistakes import IN_PANELS
from conftest import needs_libtpu
from sweeps import daily
from test_block_sparse import PATTERNS, both_ways, dsd_case, near, plant, sdd_case, simulated

from course_lib import compat, compiler, grid
from course_lib.kernels import block_sparse
from course_lib.kernels.block_sparse import Pattern
from course_lib.kernels.block_sparse import blocks as block_sparse_blocks
from course_lib.kernels.block_sparse import kernel as block_sparse_kernel

REFERENCES = {"dsd": block_sparse.dsd_reference, "sdd": block_sparse.sdd_reference}


@pytest.fixture(autouse=True)
def several_steps_and_panels(monkeypatch):
    monkeypatch.setattr(block_sparse_blocks, "_MOST", 4)
    monkeypatch.setattr(block_sparse_blocks, "_COLUMNS", 128)


def case(op, name, transposed, n=384, **sizes):
    """Three panels, of which two of b are in VMEM at once. The gradients of sdd are by dsd of each transposed form."""
    if op == "dsd":
        return dsd_case(name, transposed, n=n, **sizes), {"transpose_a": transposed}
    return sdd_case(name, transposed, k=n, **sizes), {"transpose_b": transposed}


@pytest.mark.parametrize(
    "op, name, transposed",
    daily(
        ("dsd", "surplus", True),
        of=[(op, name, turned) for op in REFERENCES for name in PATTERNS for turned in (False, True)],
    ),
)
def test_it_and_the_gradients_are_the_reference(op, name, transposed):
    args, how = case(op, name, transposed)
    got = simulated(both_ways(getattr(block_sparse, op), **how), *args)
    near(got, jax.jit(both_ways(REFERENCES[op], **how))(*args))


@pytest.mark.parametrize("h, w", daily((24, 40), of=[(7, 13), (24, 40), (128, 128)]))
@pytest.mark.parametrize("dtype", daily("bfloat16", of=["float32", "bfloat16"]))
def test_blocks_of_any_size(h, w, dtype):
    args, _ = case("dsd", "any order", False, h=h, w=w, dtype=dtype)
    near(simulated(block_sparse.dsd, *args), [block_sparse.dsd_reference(*args)], (2e-5, 2e-2)[dtype == "bfloat16"])


def test_what_is_surplus_may_be_anything():
    """NaN in its values, and in the rows of b that no block meets."""
    values, pattern, b = dsd_case("surplus", n=256)
    kept = jnp.array([0, 2])
    spoiled = jnp.full_like(values, jnp.nan).at[kept].set(values[kept])
    got = simulated(block_sparse.dsd, spoiled, pattern, b.at[:128].set(jnp.nan))
    near(got, [block_sparse.dsd_reference(values, pattern, b)])


@pytest.mark.parametrize(
    "op, transposed", daily(("dsd", False), of=[(op, turned) for op in REFERENCES for turned in (False, True)])
)
def test_by_four_judges(op, transposed):
    args, how = case(op, "any order", transposed)
    fn, reference = (functools.partial(fn, **how) for fn in (getattr(block_sparse, op), REFERENCES[op]))
    if op == "sdd":
        fn, reference = both_ways(fn), both_ways(reference)
    accepted(fn, reference, *args)


@pytest.mark.parametrize(
    "n, mapped, chip, steps",
    [
        (384, False, "v5e", (1, 3, 3)),
        (512, False, "v5p", (2, 2, 3)),  # each core has two
        (384, False, "v5p", (3, 3)),  # one core would have two, and the other one
        (128, False, "v5e", (1, 3)),  # which no other follows
        (300, False, "v5e", (3, 3)),  # the last is narrower
        (384, True, "v5e", (2, 3, 3)),  # one more axis
    ],
)
def test_where_panels_are_copied_by_hand(n, mapped, chip, steps):
    values, pattern, b = dsd_case("any order", n=n)
    fn = jax.vmap(block_sparse.dsd, (None, None, 0)) if mapped else block_sparse.dsd
    args = values, pattern, jnp.stack([b, -b]) if mapped else b
    assert grid.walk_traced(grid.trace(fn, *args, chip=chip), args).calls[0].grid == steps


def test_two_cores_divide_the_panels():
    args = dsd_case("any order", n=512)
    traced = grid.trace(block_sparse.dsd, *args, chip="v5p")
    got = jax.jit(lambda *args: grid.run(traced, compat.interpret_params(), *args))(*args)
    near(got, [block_sparse.dsd_reference(*args)])


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v5e", of=["v4", "v5e", "v5p", "v6e"]))
@pytest.mark.parametrize("h, w", daily((16, 128), of=[(7, 13), (16, 128), (24, 40), (128, 128), (256, 256)]))
@pytest.mark.parametrize("dtype", daily("bfloat16", of=["float32", "bfloat16"]))
def test_every_form_compiles(chip, h, w, dtype):
    """Four panels: two for each of two cores."""
    cases = [case(op, "any order", turned, 512, h=h, w=w, dtype=dtype) for op in REFERENCES for turned in (False, True)]
    arrays = [[arg for arg in args if not isinstance(arg, Pattern)] for args, _ in cases]

    def every(arrays):
        found = []
        for (args, how), mine, op in zip(cases, arrays, ["dsd", "dsd", "sdd", "sdd"], strict=True):
            mine = iter(mine)
            filled = [arg if isinstance(arg, Pattern) else next(mine) for arg in args]
            found.append(both_ways(getattr(block_sparse, op), **how)(*filled))
        return found

    report = compiler.compile_tpu(every, arrays, chip=chip, simulate=False)
    assert report.ok, report.error


@pytest.mark.parametrize("name", daily("over a result that leaves", of=IN_PANELS))
def test_a_mistake_is_seen(name, monkeypatch):
    plant(*IN_PANELS[name], block_sparse_kernel, monkeypatch)
    args, _ = case("dsd", "any order", False)
    with pytest.raises(AssertionError):
        near(simulated(block_sparse.dsd, *args), [block_sparse.dsd_reference(*args)])
