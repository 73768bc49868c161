"""Block-sparse products on other chips, of other sizes, and under vmap."""

import functools

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sweeps import daily
from test_block_sparse import WAYS, both_ways, dsd_case, near, pattern_of, sample, sdd_case, simulated

from course_lib import compat, compiler, grid
from course_lib.kernels import block_sparse
from course_lib.kernels.block_sparse import Blocks, Pattern
from course_lib.kernels.block_sparse import blocks as block_sparse_blocks


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v5e", of=["v4", "v5e", "v5p", "v6e"]))
@pytest.mark.parametrize("h, w", daily((16, 128), of=[(7, 13), (16, 128), (24, 40), (128, 128), (256, 256)]))
@pytest.mark.parametrize("dtype", daily("bfloat16", of=["float32", "bfloat16"]))
def test_it_compiles_forwards_and_backwards(chip, h, w, dtype):
    dense, product = (
        dsd_case("any order", False, h, w, dtype=dtype),
        sdd_case("any order", False, h, w, dtype=dtype),
    )

    def both(values, b, left, right, *deep):
        pattern = pattern_of("any order")
        dsd, sdd = both_ways(block_sparse.dsd), both_ways(block_sparse.sdd)
        others = [block_sparse.sdd(left, right, pattern, **WAYS[way][0]) for way in ("columns of b", "K cut")]
        others.append(block_sparse.sdd(*deep, pattern, **WAYS["part by part"][0]))
        return dsd(values, pattern, b), sdd(left, right, pattern), others

    deep = sdd_case("any order", False, h, w, k=384, dtype=dtype)[:2]
    args = dense[0], dense[2], *product[:2], *deep
    report = compiler.compile_tpu(both, *args, chip=chip, simulate=False)
    assert report.ok, report.error


def described(m, k, n, count, block=128, dtype="bfloat16"):
    places = jax.ShapeDtypeStruct((count,), jnp.int32)
    pattern = Pattern(places, places, (m // block, k // block))
    values, b = ((count, block, block), (k, n))
    return jax.ShapeDtypeStruct(values, dtype), pattern, jax.ShapeDtypeStruct(b, dtype)


@pytest.mark.parametrize(
    "sizes, bn",
    [
        ((4096, 4096, 4096), 512),
        ((4096, 4096, 640), 384),
        ((4096, 4096, 64), 128),
        ((16384, 16384, 4096), 512),
        ((65536, 65536, 4096), 128),
    ],
)
def test_panels_of_dsd_are_wide_if_they_fit_and_alike(sizes, bn):
    assert block_sparse.dsd_blocks_for(*described(*sizes, 400)) == Blocks(bn=bn)


@pytest.mark.parametrize(
    "sizes, count, blocks",
    [
        ((4096, 4096, 4096), 128, Blocks(bk=512, bn=4096)),  # part by part of K
        ((4096, 4000, 4096), 128, Blocks(bk=4096, bn=4096)),  # of which 128 divides no part
        ((4096, 4096, 4096), 3000, Blocks(bk=4096, bn=4096)),  # whose sums do not fit beside them
        ((4096, 128, 4096), 128, Blocks(bk=128, bn=4096)),
    ],
)
def test_what_sdd_has_in_vmem(sizes, count, blocks):
    m, k, n = sizes
    _, pattern, _ = described(m, n, 128, count)
    a, b = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((m, k), (k, n)))
    assert block_sparse.sdd_blocks_for(a, b, pattern) == blocks


def test_too_long_for_vmem_and_too_many_for_smem():
    for sizes, says in {
        (
            2**17,
            2**17,
            128,
            9,
        ): r"dsd: b has 131072 rows and the result 131072; 128 columns of both need 19\d.* Try the",
        (4096, 4096, 128, 130_000): "dsd: pattern has 130000 entries, and 125000 fit into the chip's scalar memory",
    }.items():
        with pytest.raises(ValueError, match=says):
            grid.trace(block_sparse.dsd, *described(*sizes))


def test_two_cores_divide_the_blocks_of_sdd_part_by_part(monkeypatch):
    """Each with the sums of its own. An odd number of steps is one core's."""
    monkeypatch.setattr(block_sparse_blocks, "_MOST", 4)
    a, b, pattern = sdd_case("any order", k=384)
    how = {"blocks": Blocks(bk=128)}
    for count, grid_of in ((8, (2, 3, 1)), (11, (1, 3, 3))):
        args = a, b, Pattern(pattern.rows[:count], pattern.cols[:count], pattern.shape)
        traced = grid.trace(functools.partial(block_sparse.sdd, **how), *args, chip="v5p")
        assert grid.walk_traced(traced, args).calls[0].grid == grid_of
        got = jax.jit(lambda *args, traced=traced: grid.run(traced, compat.interpret_params(), *args))(*args)
        near(got, [block_sparse.sdd_reference(*args)])


@pytest.mark.parametrize("of_arrays, of_pattern", daily((0, None), of=[(0, None), (None, 0), (0, 0)]))
def test_under_vmap_in_the_simulator(of_arrays, of_pattern):
    """Heads of one pattern; patterns of one matrix."""
    (values, pattern, b), (a, y, _) = dsd_case("surplus"), sdd_case("surplus")
    pair = jax.tree.map(lambda x: jnp.stack([x, x[::-1]]) if of_pattern == 0 else x, pattern)
    twice = [jnp.stack([x, -2 * x[::-1]]) if of_arrays == 0 else x for x in (values, b, a)]

    def run(dsd, sdd):
        def both(values, b, a, pattern):
            return dsd(values, pattern, b), sdd(a, y, pattern)

        return jax.vmap(both, (of_arrays,) * 3 + (of_pattern,))

    want = run(block_sparse.dsd_reference, block_sparse.sdd_reference)(*twice, pair)
    near(simulated(run(block_sparse.dsd, block_sparse.sdd), *twice, pair), want)


@pytest.mark.parametrize("of_arrays, of_pattern", daily((0, 0), of=[(0, None), (None, 0), (0, 0)]))
def test_part_by_part_under_vmap_in_the_simulator(of_arrays, of_pattern):
    """One after another."""
    a, b, pattern = sdd_case("surplus", k=256)
    pair = jax.tree.map(lambda x: jnp.stack([x, x[::-1]]) if of_pattern == 0 else x, pattern)
    twice = jnp.stack([a, -2 * a[::-1]]) if of_arrays == 0 else a

    def run(sdd, **how):
        return jax.vmap(lambda a, pattern: sdd(a, b, pattern, **how), (of_arrays, of_pattern))

    got = simulated(run(block_sparse.sdd, blocks=Blocks(bk=128)), twice, pair)
    near(got, [run(block_sparse.sdd_reference)(twice, pair)])


@pytest.mark.parametrize("transpose_b", [False, True])
def test_part_by_part_with_one_column_of_any_width(transpose_b):
    a, b = sample((16, 256), (100, 256) if transpose_b else (256, 100))
    pattern = Pattern(jnp.int32([1, 0, 2]), jnp.int32([0, 0, 0]), (2, 1))
    how = {"transpose_b": transpose_b}
    got = simulated(functools.partial(block_sparse.sdd, **how, blocks=Blocks(bk=128)), a, b, pattern)
    near(got, [block_sparse.sdd_reference(a, b, pattern, **how)])


@needs_libtpu
def test_part_by_part_compiles_under_vmap_of_a_gradient_and_with_one_column():
    """Neither of both once did."""

    def gradients(values, b, rows, cols):
        pattern = Pattern(rows, cols, (4, 4))
        return jax.grad(lambda *x: block_sparse.dsd(x[0], pattern, x[1]).astype(jnp.float32).sum(), (0, 1))(values, b)

    def column(a, b, rows, cols):
        return block_sparse.sdd(a, b, Pattern(rows, cols, (4, 1)))

    def described(shape, dtype=jnp.bfloat16):
        return jax.ShapeDtypeStruct(shape, dtype)

    lists = (described((8,), jnp.int32),) * 2
    for fn, arrays in (
        (jax.vmap(gradients, (None, 0, None, None)), (described((8, 128, 128)), described((3, 512, 4096)))),
        (column, (described((512, 4096)), described((4096, 100)))),
    ):
        report = compiler.compile_tpu(fn, *arrays, *lists, simulate=False)
        assert report.ok, report.error
