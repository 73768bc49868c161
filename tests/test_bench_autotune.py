"""The search over blocks: ranking, reasons, and nothing compiled twice."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import array
from sample_kernels import matmul as tiled

from course_lib import bench, compiler
from course_lib.compiler.child import cache
from course_lib.kernels import elementwise, linear

X = array((256, 512))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    bm: int
    bn: int
    limit: int | None = None  # bytes of VMEM that it may use


SMALL, LARGE = Blocks(bm=8, bn=128), Blocks(bm=128, bn=512)
TOO_MUCH = Blocks(bm=128, bn=512, limit=1 << 16)  # the compiler refuses it


def add(x, y, *, blocks):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = pl.BlockSpec((blocks.bm, blocks.bn), lambda i, j: (i, j))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // blocks.bm, x.shape[1] // blocks.bn),
        in_specs=[spec, spec],
        out_specs=spec,
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=blocks.limit),
    )(x, y)


def matmul(x, y, *, blocks):
    return tiled(x, y, blocks=blocks)


@needs_libtpu
def test_a_family_op_fastest_first_with_the_compilers_own_figures():
    small, large = elementwise.Blocks(bm=8, bn=128), elementwise.Blocks(bm=128, bn=512)
    tuned = bench.autotune(elementwise.add, X, X, candidates=[small, large])
    assert tuned.best == large
    slow = tuned.candidates[1]
    report = compiler.compile_tpu(functools.partial(elementwise.add, blocks=small), X, X)
    assert (slow.seconds, slow.cycles, slow.hbm_bytes) == (report.seconds, report.cycles, report.hbm_bytes)
    assert (slow.vmem_bytes, slow.spills) == (report.vmem_bytes, report.spills)
    assert tuned.ratio(slow) == slow.seconds / tuned.seconds > 2
    text = str(tuned).splitlines()
    assert text[0].startswith("add: predicted (compiler) for v5e (jax ")
    assert [line.split("  ")[0] for line in text[2:]] == ["bm=128 bn=512", "bm=8 bn=128"]
    assert f"{tuned.ratio(slow):.2f}" in text[3]


@needs_libtpu
def test_keywords_are_the_ops():
    """Arrays among them are arguments of the program, and not part of it."""
    x, w, b = array((256, 512)), array((512, 256)), array((256,))
    blocks = linear.Blocks(bm=256, bk=512, bn=256)
    found = bench.autotune(linear.linear, x, w, b=b, activation="gelu", precision="default", candidates=[blocks])
    fn = functools.partial(linear.linear, activation="gelu", precision="default", blocks=blocks)
    assert found.candidates[0].cycles == compiler.compile_tpu(fn, x, w, b).cycles
    plain = bench.autotune(linear.linear, x, w, b, candidates=[blocks])
    assert plain.candidates[0].cycles > found.candidates[0].cycles  # six passes
    assert str(found).startswith("linear: ")


@needs_libtpu
def test_a_matmul_in_blocks_that_are_a_tuple():
    x = array((512, 512), jnp.bfloat16)
    tuned = bench.autotune(matmul, x, x, candidates=[(128, 128, 128), (256, 256, 512)])
    assert tuned.best == (256, 256, 512)
    assert "(128, 128, 128)" in str(tuned)


@needs_libtpu
def test_what_is_refused_or_wrong_comes_last_with_its_reason():
    larger_than_x, part, illegal = Blocks(bm=512, bn=128), Blocks(bm=96, bn=512), Blocks(bm=4, bn=512)
    tuned = bench.autotune(add, X, X, candidates=[larger_than_x, TOO_MUCH, LARGE, part, illegal])
    assert tuned.best == LARGE
    assert [c.blocks for c in tuned.candidates[1:]] == [larger_than_x, TOO_MUCH, part, illegal]
    nothing, vmem, rest, block = (c.why for c in tuned.candidates[1:])
    assert "no step writes 4 of the 4 blocks of o_ref" in nothing
    assert "MiB of VMEM" in vmem
    assert "no step writes 1 of the 3 blocks of o_ref, for example (2, 0)" in rest
    assert "(4, 512)" in block
    assert "MiB of VMEM" in str(tuned)
    assert max(map(len, str(tuned).splitlines())) <= 94


@needs_libtpu
def test_a_lambda_a_jitted_op_and_cycles_where_no_clock_is_known():
    tuned = bench.autotune(lambda x, blocks: add(x, x, blocks=blocks), X, candidates=[LARGE])
    assert tuned.op == "op"
    jitted = jax.jit(add, static_argnames="blocks")
    tuned = bench.autotune(jitted, X, X, candidates=(b for b in (SMALL, LARGE)), chip="v6e")
    assert tuned.seconds is None
    assert tuned.candidates[0].cycles < tuned.candidates[1].cycles
    assert "not known" in str(tuned)


@needs_libtpu
def test_a_second_search_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    first = bench.autotune(add, X, X, candidates=[SMALL, LARGE, SMALL, TOO_MUCH])
    cache.counts.clear()
    assert bench.autotune(add, X, X, candidates=[SMALL, LARGE, TOO_MUCH]) == first
    assert cache.counts["hits"] > 0 and cache.counts["misses"] == 0
    bench.autotune(add, X, X, candidates=[LARGE], chip="v5p")
    assert cache.counts["misses"] > 0


@pytest.mark.parametrize(
    "op, candidates, error, said",
    [
        (add, [], ValueError, "candidates is empty"),
        (add, LARGE, ValueError, "is not a list of blocks"),
        (add, {"bm": 8}, ValueError, "is not a list of blocks"),
        (jnp.dot, [LARGE], TypeError, "dot takes no blocks="),
        (lambda x, y: x, [LARGE], TypeError, "it takes x, y"),
    ],
)
def test_clear_errors(op, candidates, error, said):
    with pytest.raises(error, match=said):
        bench.autotune(op, X, X, candidates=candidates)


def test_an_unknown_chip():
    with pytest.raises(ValueError, match="chip='v9' is not known"):
        bench.autotune(add, X, X, candidates=[LARGE], chip="v9")


@needs_libtpu
def test_nothing_left_to_choose_says_why():
    too_much = [TOO_MUCH, Blocks(bm=64, bn=512, limit=1 << 16)]
    with pytest.raises(ValueError, match="none of the 2 candidates of add can be ranked for v5e") as error:
        bench.autotune(add, X, X, candidates=too_much)
    assert "MiB of VMEM" in str(error.value)
    assert "Try smaller blocks" in str(error.value)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(compiler, "libtpu_version", lambda: None)
    with pytest.raises(compiler.Unavailable, match="libtpu"):
        bench.autotune(add, X, X, candidates=[LARGE])
