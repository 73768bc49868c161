"""Grouped products: their kernels by all four judges, with groups of every kind; mistakes that must be seen."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from sweeps import daily

from course_lib import compat, compiler, grid
from course_lib.kernels import grouped, grouped_swiglu
from course_lib.kernels.grouped import Blocks
from course_lib.kernels.grouped import blocks as grouped_blocks
from course_lib.kernels.grouped import kernel as grouped_kernel
from course_lib.kernels.grouped import op as grouped_op
from course_lib.kernels.grouped import visits as grouped_visits

SMALL = Blocks(bm=32, bn=128)  # several tiles of some hundred rows
# Sizes of groups, and how many rows there are: borders on tiles and inside, empty groups first, last and between, more
# borders than one in a tile, rows of nobody, rows that end inside a tile, groups past the last row.
GROUPS = {
    "whole tiles": ([64, 32, 32], 128),
    "borders inside": ([10, 0, 90, 18], 128),  # and rows of nobody
    "one that has all": ([0, 0, 128], 128),
    "the last are empty": ([1, 127, 0, 0], 128),
    "a ragged end": ([70, 3, 5, 40], 118),
    "rows of nobody": ([30, 20], 128),
    "all are nobody's": ([0, 0], 64),
    "many in a tile": ([7, 9, 1, 1, 1, 0, 2], 30),
    "past the last row": ([60, 60, 60], 100),
    "one visit": ([5], 20),  # the steps after it are idle, and of its group
}
EVERY_DAY = ("a ragged end", "rows of nobody")  # in plain JAX


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Backwards too, where nobody chooses blocks; and chunks of 8 rows in them."""
    monkeypatch.setattr(grouped_blocks, "_GRADIENT_ROWS", 32)
    monkeypatch.setattr(grouped_kernel, "CHUNK", 8)


def sample(*shapes, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def case(name, k=40, n=200, dtype=jnp.float32):
    sizes, rows = GROUPS[name]
    x, w, up = sample((rows, k), (len(sizes), k, n), (len(sizes), k, n), dtype=dtype)
    return x, w, up, jnp.asarray(sizes, jnp.int32)


def simulated(fn, *args):
    """In the TPU simulator, where what lies beyond an array is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(), *a))(*args)


def both_ways(fn, **how):
    def run(*args):
        *arrays, sizes = args
        o, pull = jax.vjp(lambda *arrays: fn(*arrays, sizes, **how), *arrays)
        return o, *pull(jnp.cos(jnp.arange(o.size)).reshape(o.shape).astype(o.dtype))

    return run


def inside(reference):
    """Groups past the last row end there."""

    def run(x, *args, **how):
        *weights, sizes = args
        ends = jnp.minimum(jnp.cumsum(sizes), x.shape[0])
        return reference(x, *weights, jnp.diff(ends, prepend=0), **how)

    return run


def near(got, want, tolerance=2e-5):
    for found, wanted in zip(got, want, strict=True):
        found, wanted = np.float32(found), np.float32(wanted)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize(
    "name, transpose_w",
    daily(
        ("a ragged end", True),
        of=[(name, turned) for name in GROUPS for turned in (False, True)],
    ),
)
def test_the_kernels_are_the_reference(name, transpose_w):
    """o, dx and dw; what is NaN past the last row gets into none of them."""
    x, w, _, sizes = case(name)
    w = w.swapaxes(1, 2) if transpose_w else w
    how = {"transpose_w": transpose_w}
    got = simulated(both_ways(grouped.grouped_matmul, blocks=SMALL, **how), x, w, sizes)
    near(got, jax.jit(both_ways(inside(grouped.reference), **how))(x, w, sizes))


def test_a_size_below_zero_is_zero():
    x, w, _, sizes = case("borders inside")
    sizes = sizes.at[1].set(-7)
    want = grouped.reference(x, w, sizes.at[1].set(0))
    near([grouped.reference(x, w, sizes), grouped.grouped_matmul(x, w, sizes)], [want, want])
    near(simulated(functools.partial(grouped.grouped_matmul, blocks=SMALL), x, w, sizes), [want])


def test_groups_that_reach_past_the_last_row_end_there():
    """Sizes whose sum 32 bits do not hold, too; and more rows times groups than they hold."""
    x, w, _, sizes = case("borders inside")
    large = jnp.full_like(sizes, 2**31 - 1).at[0].set(3)
    want = grouped.reference(x, w, jnp.zeros_like(sizes).at[0].set(3).at[1].set(x.shape[0] - 3))
    near([grouped.reference(x, w, large), grouped.grouped_matmul(x, w, large)], [want, want])
    near(simulated(functools.partial(grouped.grouped_matmul, blocks=SMALL), x, w, large), [want])
    ends = grouped_visits.ends_of(jnp.int32([2**29, -5, 2**31 - 1, 2**29]), 2**30 - 1)
    assert ends.tolist() == [2**29, 2**29, 2**30 - 1, 2**30 - 1]


def test_a_nan_in_a_matrix_stays_with_its_group():
    x, w, _, sizes = case("borders inside")
    (o,) = simulated(functools.partial(grouped.grouped_matmul, blocks=SMALL), x, w.at[1].set(jnp.nan), sizes)
    first, end = int(sizes[0]), int(sizes[0] + sizes[1])
    assert np.flatnonzero(jnp.isnan(o).any(axis=1)).tolist() == list(range(first, end))


@pytest.mark.sweep  # every day chunks that are longer than they need be
def test_chunks_as_long_as_they_are(monkeypatch):
    monkeypatch.setattr(grouped_kernel, "CHUNK", 128)
    monkeypatch.setattr(grouped_blocks, "_GRADIENT_ROWS", 512)
    x, w = sample((700, 16), (3, 16, 128))
    sizes = jnp.array([140, 300, 200], jnp.int32)
    got = simulated(both_ways(grouped.grouped_matmul, blocks=Blocks(bm=512, bn=128)), x, w, sizes)
    near(got, jax.jit(both_ways(grouped.reference))(x, w, sizes))


@pytest.mark.parametrize("name", daily("borders inside", of=GROUPS))
def test_swiglu_is_its_reference(name):
    x, w, up, sizes = case(name)
    got = simulated(both_ways(grouped_swiglu.grouped_swiglu, blocks=SMALL), x, w, up, sizes)
    near(got, jax.jit(both_ways(inside(grouped_swiglu.reference)))(x, w, up, sizes), 1e-4)


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=GROUPS))
def test_plain_jax_is_the_same(name):
    x, w, up, sizes = case(name)
    near([grouped.grouped_matmul(x, w, sizes)], [inside(grouped.reference)(x, w, sizes)])
    near([grouped_swiglu.grouped_swiglu(x, w, up, sizes)], [inside(grouped_swiglu.reference)(x, w, up, sizes)], 1e-4)


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=[name for name in GROUPS if name != "past the last row"]))
def test_it_is_what_ragged_dot_computes(name):
    x, w, _, sizes = case(name)
    want = jax.lax.ragged_dot(x, w, sizes, precision="highest")
    rows = int(sizes.sum())
    near([grouped.grouped_matmul(x, w, sizes)[:rows]], [want[:rows]])
    assert not grouped.grouped_matmul(x, w, sizes)[rows:].any()


def of_pairs(sizes, rows, tile):
    """The visits by hand: (group, tile) wherever a row of the one lies in the other; nobody is one group more."""
    ends = np.minimum(np.cumsum(sizes), rows)
    group = np.searchsorted(ends, np.arange(rows), side="right")
    return list(dict.fromkeys(zip(group.tolist(), (np.arange(rows) // tile).tolist(), strict=True)))


@pytest.mark.parametrize("seed", daily(*range(5), of=range(20)))
@pytest.mark.parametrize("of_matrices", [False, True])
def test_visits_are_every_pair_that_meets_in_order(seed, of_matrices):
    rng = np.random.default_rng(seed)
    sizes, tile = rng.integers(0, 60, rng.integers(1, 9)) * rng.integers(0, 2), int(rng.choice([8, 32, 100]))
    rows = int(max(1, sizes.sum() + rng.integers(-5, 40)))
    found = grouped_visits.visits_of(jnp.asarray(sizes, jnp.int32), rows, tile, of_matrices=of_matrices)
    idle, steps = int(found.idle[0]), list(zip(found.group.tolist(), found.tile.tolist(), strict=True))
    pairs = [pair for v, pair in enumerate(steps) if not found.is_idle(v)]
    meet = of_pairs(sizes, rows, tile)
    if of_matrices:  # nobody's rows have no matrix, and one without rows has its zeros written
        meet = [(group, at) for group, at in meet if group < len(sizes)]
        assert {group for group, _ in pairs} == set(range(len(sizes)))
        assert [pair for pair in pairs if pair in meet] == meet
        assert len(pairs) - len(meet) == len(sizes) - len({group for group, _ in meet})
    else:
        assert pairs == meet
    assert len(steps) == len(pairs) + idle
    assert set(steps[1 : 1 + idle]) <= {pairs[min(1, len(pairs) - 1)]}, "what is idle has what comes next"
    order = [int(found.written(v)) for v in range(len(steps))]
    assert order == [0] * (1 + idle) + list(range(1 + idle, len(steps))), "and what the first has written"


def test_by_four_judges_forwards_and_backwards():
    x, w, _, sizes = case("borders inside", k=128, n=128)
    accepted(both_ways(grouped.grouped_matmul, blocks=SMALL), both_ways(grouped.reference), x, w, sizes)


@pytest.mark.sweep
def test_swiglu_by_four_judges():
    args = case("borders inside", k=128, n=256)
    accepted(functools.partial(grouped_swiglu.grouped_swiglu, blocks=SMALL), grouped_swiglu.reference, *args)


# A mistake: what stands in grouped/kernel.py, what somebody writes instead, and a case where it shows.
MISTAKES = {
    "a shared tile overwrites its neighbour": (
        "jnp.where(row >= start, o, o_ref[part])",
        "o",
        "borders inside",
    ),
    "rows counted from the array's start": (
        "group, start, end = visits.rows_of(v, rows)",
        "group, start, end = visits.group[v], *(visits.bounds[visits.group[v] + more] for more in (0, 1))",
        "borders inside",
    ),
    "the border a row too late": ("row >= start, o,", "row > start, o,", "rows of nobody"),
    "nobody's rows are left as they are": ("(group == nobody)", "(group > nobody)", "rows of nobody"),
    "whose tile it is decided by its end alone": (
        "(start <= 0) & (end >= rows)",
        "end >= rows",
        "borders inside",
    ),
    "the chunk of the border is left out": (
        "pl.cdiv(jnp.minimum(end, rows), CHUNK)",
        "jnp.minimum(end, rows) // CHUNK",
        "borders inside",
    ),
    "rows of a chunk counted as those of its tile": ("o.shape, 0) + at", "o.shape, 0)", "borders inside"),
    "the next group's matrix": (
        "e = jnp.minimum(visits.group[v], groups - 1)",
        "e = jnp.minimum(visits.group[v] + 1, groups - 1)",
        "borders inside",
    ),
    "the sum goes on in the next group": (
        "begins = (v == 0) | (visits",
        "begins = (v == 0) & (visits",
        "borders inside",
    ),
    "behind what is idle a group does not begin": (
        "visits.group[visits.written(v - 1)]",
        "visits.group[jnp.maximum(v - 1, 0)]",
        "borders inside",
    ),
    "the sum starts anew at every tile": ("jnp.where(begins, 0.0, acc_ref[...])", "0.0", "whole tiles"),
    "stored a visit too early": (
        "visits.group[jnp.minimum(v + 1, last)] != group",
        "visits.group[v] != group",
        "borders inside",
    ),
    "only x is masked": (
        "product(mine(x_ref, part, at), mine(g_ref, part, at))",
        "product(mine(x_ref, part, at), g_ref[part])",
        "a ragged end",
    ),
    "neither is masked": (
        "product(mine(x_ref, part, at), mine(g_ref, part, at))",
        "product(x_ref[part], g_ref[part])",
        "borders inside",
    ),
    "what was there is added to": ("acc_ref[...] = jnp.zeros_like(acc_ref)", "pass", "borders inside"),
}


@pytest.mark.parametrize("name", daily("the chunk of the border is left out", of=MISTAKES))
def test_a_mistake_is_seen(name, monkeypatch):
    right, wrong, shows = MISTAKES[name]
    source = inspect.getsource(grouped_kernel)
    assert right in source
    names = {"__name__": grouped_kernel.__name__}
    source = source.replace("CHUNK = 128", "CHUNK = 8")
    exec(compile(source.replace(right, wrong), grouped_kernel.__file__, "exec"), names)
    monkeypatch.setattr(grouped_op, "launch", names["launch"])
    monkeypatch.setattr(grouped_op, "launch_gradient", names["launch_gradient"])
    with pytest.raises(AssertionError):
        test_the_kernels_are_the_reference(shows, False)


@pytest.mark.sweep
def test_an_empty_group_has_a_gradient_of_zero_because_it_is_visited(monkeypatch):
    without = functools.partial(grouped_visits.visits_of, of_matrices=False)
    monkeypatch.setattr(grouped_op, "visits_of", lambda *args, of_matrices: without(*args))
    with pytest.raises(AssertionError):
        test_the_kernels_are_the_reference("the last are empty", False)


def test_under_jit_vmap_and_remat_on_a_cpu():
    x, w, _, sizes = case("borders inside")
    want = jax.grad(lambda x: (grouped.reference(x, w, sizes) ** 2).sum())(x)
    for fn in (jax.jit(grouped.grouped_matmul), jax.checkpoint(grouped.grouped_matmul)):
        near([jax.grad(lambda x, fn=fn: (fn(x, w, sizes) ** 2).sum())(x)], [want], 1e-4)
    others = jnp.stack([sizes, sizes[::-1]])
    got = jax.vmap(grouped.grouped_matmul, (None, None, 0))(x, w, others)
    near([got], [jnp.stack([grouped.reference(x, w, each) for each in others])])


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v5e", of=["v4", "v5e", "v5p", "v6e"]))
@pytest.mark.parametrize(
    "fn", daily(grouped.grouped_matmul, of=[grouped.grouped_matmul, grouped_swiglu.grouped_swiglu])
)
def test_it_compiles_forwards_and_backwards(chip, fn):
    x, w, up, sizes = case("borders inside", k=200, n=300, dtype=jnp.bfloat16)
    args = (x, w, sizes) if fn is grouped.grouped_matmul else (x, w, up, sizes)
    report = compiler.compile_tpu(both_ways(fn), *args, chip=chip, simulate=False)
    assert report.ok, report.error


@pytest.mark.parametrize("rows", [64 * 8192, 64 * 256])
def test_tiles_are_large_though_groups_are_small(rows):
    """Of a tile that a border crosses, only a chunk is multiplied twice."""
    x, w, sizes = (
        jax.ShapeDtypeStruct((rows, 2048), jnp.bfloat16),
        jax.ShapeDtypeStruct((64, 2048, 1024), jnp.bfloat16),
        jax.ShapeDtypeStruct((64,), jnp.int32),
    )
    assert grouped.blocks_for(x, w, sizes).bm == 512


X, W = jnp.ones((128, 16)), jnp.ones((3, 16, 24))
WRONG = {
    "dtypes": ((X, W.astype("bfloat16"), jnp.ones(3, "int32")), {}, "x is float32 and w bfloat16"),
    "sizes are floats": ((X, W, jnp.ones(3)), {}, r"sizes is float32; it may be int32. Try sizes.astype"),
    "too few sizes": ((X, W, jnp.ones(2, "int32")), {}, r"it must be \(3,\), how many rows"),
    "transposed": ((X, W.swapaxes(1, 2), jnp.ones(3, "int32")), {}, "Then try transpose_w=True"),
    "axes": ((X[0], W, jnp.ones(3, "int32")), {}, r"they must be \(T, K\) and \(E, K, N\)"),
    "blocks": ((X, W, jnp.ones(3, "int32")), {"blocks": 5}, "blocks is 5; it may be grouped.Blocks"),
    "precision": ((X, W, jnp.ones(3, "int32")), {"precision": "best"}, "precision is 'best'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_by_name(name):
    args, how, says = WRONG[name]
    with pytest.raises(ValueError, match=f"^grouped_matmul: .*{says}|{says}"):
        grouped.grouped_matmul(*args, **how)
