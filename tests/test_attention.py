"""Attention: its kernels by all four judges and at their edges, forwards and backwards; mistakes that must be seen."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from sweeps import daily

from course_lib import compat, compiler, cost, grid, judges
from course_lib.kernels import attention, attention_backward, attention_forward, attention_tiles
from course_lib.kernels.attention import Blocks
from course_lib.kernels.attention_tiles import Tiles

SMALL = Blocks(tile=256, bq=128, bk=128)  # several tiles, and several products in each, of a few hundred positions


def sample(*shapes, dtype=jnp.float32, scale=1.0):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape) * scale, dtype) for shape in shapes]


def of(s, t=None, d=16, heads=1, key_heads=1, dtype=jnp.float32, scale=1.0):
    t = t or s
    return sample((heads, s, d), (key_heads, t, d), (key_heads, t, d), dtype=dtype, scale=scale)


def ids(size, length=97):
    return jnp.arange(size, dtype=jnp.int32) // length


# What may be seen: all, the diagonal, a window over a tile's edge and within one, groups of heads, segments of which
# one has no keys; and lengths that end within a tile, a product, a register.
EDGES = {
    "ragged": (of(200, 330), {}),
    "one short tile": (of(3, 5), {}),
    "diagonal": (of(512), {"causal": True}),
    "ragged diagonal": (of(300), {"causal": True}),
    "window over tiles": (of(600), {"causal": True, "window": 200}),
    "window within a product": (of(300), {"causal": True, "window": 5}),
    "window of one": (of(300), {"causal": True, "window": 1}),
    "groups": (of(300, heads=4, key_heads=2), {"causal": True}),
    "segments": (of(300, 200, heads=2), {"segments": (ids(300), ids(200))}),
    "segments and a diagonal": (of(300), {"causal": True, "segments": ids(300)}),
    "softcap": (of(300, scale=4.0), {"softcap": 7.0, "scale": 0.3}),
    "values of another size": ([*of(140)[:2], *sample((1, 140, 200))], {}),
    "bf16": (of(300, heads=2, dtype=jnp.bfloat16), {"causal": True}),
    "large": (of(300, scale=30.0), {"causal": True}),
}
DAILY = ("ragged", "ragged diagonal", "window over tiles", "groups", "segments", "bf16")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Backwards too, where nobody chooses blocks."""
    whole = Tiles.of.__func__

    def of_these(cls, q, k, tile, **how):
        return whole(cls, q, k, min(tile, 256), **how)

    monkeypatch.setattr(Tiles, "of", classmethod(of_these))
    monkeypatch.setattr(attention_backward, "_SIDE", 128)


def simulated(fn, *args):
    """In the TPU simulator, where what lies beyond an array is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(), *a))(*args)


def gradients(fn, **how):
    def both(q, k, v):
        o, pull = jax.vjp(functools.partial(fn, **how), q, k, v)
        return o, *pull(jnp.cos(3 * o))

    return both


def assert_near(got, want, dtype):
    near = 2e-2 if dtype == jnp.bfloat16 else 2e-4
    for found, wanted in zip(got, want, strict=True):
        found, wanted = np.float32(found), np.float32(wanted)
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near * max(0.1, np.abs(wanted).max()))


@pytest.mark.parametrize("name", daily(*DAILY, of=EDGES))
def test_the_kernels_are_the_reference_at_every_edge(name):
    """o, dq, dk and dv; nothing from beyond an array, which is NaN there, gets into them."""
    args, how = EDGES[name]
    got = simulated(gradients(attention.flash_attention, blocks=SMALL, **how), *args)
    want = jax.jit(gradients(attention.reference, **how))(*args)
    assert_near([got[0], *got[-3:]], want, args[0].dtype)


def accepted(fn, reference, *args):
    verdicts = judges.judge(fn, reference, *args)
    assert len(verdicts) == 4 and all(v.passed is not False for v in verdicts), str(verdicts[-1])


JUDGED = {
    "causal": (of(300), {"causal": True}),
    "groups, bf16": (of(300, 200, heads=2, dtype=jnp.bfloat16), {}),
}


@pytest.mark.parametrize("name", daily("causal", of=JUDGED))
def test_by_four_judges_forwards_and_backwards(name):
    args, how = JUDGED[name]
    accepted(gradients(attention.flash_attention, blocks=SMALL, **how), gradients(attention.reference, **how), *args)


# A mistake: a file, what stands there, what somebody writes instead; and a case where it shows.
MISTAKES = {
    "the sum is not rescaled": ("forward", "shrink * before[1] + l", "before[1] + l", "ragged"),
    "the values are not rescaled": ("forward", "wide(shrink, acc.shape[1]) * before[2]", "before[2]", "ragged"),
    "rescaled the wrong way": (
        "forward",
        "jnp.exp2((before[0] - m) * rate)",
        "jnp.exp2((m - before[0]) * rate)",
        "ragged",
    ),
    "a maximum of this product alone": ("forward", "m if before is None else jnp.maximum(before[0], m)", "m", "ragged"),
    "a stale maximum": (
        "forward",
        "ref[at] = value",
        "ref[at] = value if ref is not carried[0] else ref[at]",
        "ragged",
    ),
    "the rate is forgotten in the rescaling": ("forward", "(before[0] - m) * rate)", "before[0] - m)", "ragged"),
    "l of one lane": ("forward", "total = l.sum(axis=1, keepdims=True)", "total = l[:, :1]", "ragged"),
    "l is not carried": ("forward", "shrink * before[1] + l, wide", "l, wide", "ragged"),
    "divided before the end": (
        "forward",
        "ref[at] = value",
        "ref[at] = value if ref is not carried[2] else value / l[:, :1]",
        "ragged",
    ),
    "keys past the end": ("forward", "jnp.where(inside, s, MASKED), zero_beyond", "s, zero_beyond", "ragged"),
    "values past the end": ("forward", "zero_beyond(v, 0, kind.keys - task.k0)\n", "v\n", "ragged"),
    "starts anew at every tile": (
        "forward",
        "jnp.where(first, start, ref[at])",
        "jnp.full_like(ref[at], start)",
        "ragged",
    ),
    "never starts anew": ("forward", "j == 0, tiles.first_key", "j < 0, tiles.first_key", "ragged"),
    "a query without keys is a mean": ("forward", "if ids:  # a query", "if False:  # a query", "segments"),
    "segments of the first queries": (
        "forward",
        "ids[0][0, :, at]",
        "ids[0][0, :, slice(0, at.stop - at.start)]",
        "segments",
    ),
    "the wrong head of keys": ("forward", "(n, h, i, 0)", "(n, h // 2, i, 0)", "groups"),
    "a strict mask": ("tiles", "key <= query", "key < query", "diagonal"),
    "a mask local to a product": ("tiles", "task.q0 + kind.ahead + lax", "0 * task.q0 + kind.ahead + lax", "diagonal"),
    "a mask local to a tile": ("tiles", "task.q0 + kind.ahead + lax", "task.q0 + lax", "window over tiles"),
    "a window off by one": (
        "tiles",
        "(key > query - self.window)",
        "(key >= query - self.window)",
        "window over tiles",
    ),
    "a window a tile too short": (
        "tiles",
        "pl.cdiv(self.window - 1, self.bk) + 1",
        "pl.cdiv(self.window - 1, self.bk)",
        "window over tiles",
    ),
    "the diagonal a product too short": (
        "tiles",
        "min(end, q1 + kind.ahead)",
        "min(end, q1 + kind.ahead - 128)",
        "diagonal",
    ),
    "dk of the wrong queries": (
        "backward",
        "multiply(ds, of_queries(refs.q, task))",
        "multiply(ds, of_queries(refs.q, tasks[0]))",
        "diagonal",
    ),
    "dv of the scores": (
        "backward",
        "multiply(p, of_queries(refs.do, task))",
        "multiply(ds, of_queries(refs.do, task))",
        "diagonal",
    ),
    "delta is forgotten": ("backward", "p * (dp - delta)", "p * dp", "diagonal"),
    "ds without p": ("backward", "p * (dp - delta)", "(dp - delta)", "diagonal"),
    "the scale is forgotten in dq": ("backward", "(dq[:rows] * scores.scale)", "dq[:rows]", "diagonal"),
    "the scale is forgotten in dk": ("backward", "refs.dk, scores.scale)", "refs.dk, 1.0)", "diagonal"),
    "dq of the last keys alone": (
        "backward",
        "dq += jnp.where(j == tiles.first(i), 0.0, refs.dq_sum[h, i, at])",
        "pass",
        "diagonal",
    ),
    "dk starts anew for each head": ("backward", "(h == 0) & (pl", "(pl", "groups"),
    "dk goes on from head to head": ("backward", "jnp.where(first_query, 0.0, total[k0:k1])", "total[k0:k1]", "groups"),
    "exponentials by the wrong row": (
        "backward",
        "refs.lse[0, 0, :, task.q0 : task.q1]",
        "refs.lse[0, 0, :, : task.q1 - task.q0]",
        "diagonal",
    ),
    "the slope of the cap": ("backward", " * scores.slope(bent)", "", "softcap"),
}
FILES = {"forward": attention_forward, "backward": attention_backward, "tiles": attention_tiles}
EVERY_DAY = (
    "the values are not rescaled",
    "a window off by one",
    "dk of the wrong queries",
    "a query without keys is a mean",
)


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=MISTAKES))
def test_a_mistake_is_seen(name, monkeypatch):
    """The cases above can fail: with a kernel that has the mistake one of them does."""
    where, right, wrong, case = MISTAKES[name]
    file = FILES[where]
    source = inspect.getsource(file)
    assert right in source
    names = {"__name__": file.__name__}
    exec(compile(source.replace(right, wrong), file.__file__, "exec"), names)
    if where == "tiles":
        for what in ("counts", "span", "_tasks"):
            monkeypatch.setattr(Tiles, what, vars(names["Tiles"])[what])
    else:
        kernel = "_tile" if where == "forward" else "_on_tpu"
        names["_SIDE"] = 128
        monkeypatch.setattr(
            file, "on_tpu" if where == "forward" else kernel, names["on_tpu" if where == "forward" else kernel]
        )
    with pytest.raises((AssertionError, KeyError)):
        test_the_kernels_are_the_reference_at_every_edge(case)


def test_under_jit_vmap_and_remat_on_a_cpu():
    q, k, v = sample((3, 2, 40, 16), (3, 2, 40, 16), (3, 2, 40, 16))
    how = {"causal": True, "window": 9}
    ours, theirs = (functools.partial(fn, **how) for fn in (attention.flash_attention, attention.reference))
    want = jax.grad(lambda q: (theirs(q, k, v) ** 2).sum())(q)
    for fn in (jax.jit(ours), jax.checkpoint(ours), jax.vmap(ours), jax.vmap(jax.vmap(ours))):
        np.testing.assert_allclose(jax.grad(lambda q, fn=fn: (fn(q, k, v) ** 2).sum())(q), want, rtol=1e-4, atol=1e-5)
    segments = jnp.arange(40, dtype=jnp.int32) // 7
    got = jax.vmap(lambda q: attention.flash_attention(q, k[0], v[0], segments=segments))(q)
    for one, row in zip(got, q, strict=True):
        np.testing.assert_allclose(one, attention.reference(row, k[0], v[0], segments=segments), rtol=1e-4, atol=1e-5)


def test_it_is_what_jax_nn_computes():
    q, k, v = (x.swapaxes(0, 1) for x in of(60, heads=4, key_heads=2))  # positions before heads
    got = attention.flash_attention(*(x.swapaxes(0, 1) for x in (q, k, v)), causal=True, window=8)
    want = jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(7, 0))
    np.testing.assert_allclose(got.swapaxes(0, 1), want, rtol=1e-5, atol=1e-6)


def test_bytes_are_those_of_the_docstring():
    q, k = jax.ShapeDtypeStruct((4, 512, 128), jnp.bfloat16), jax.ShapeDtypeStruct((2, 512, 128), jnp.bfloat16)
    array = 512 * 128 * 2
    moved = cost.payload_bytes(grid.walk(attention.flash_attention, q, k, k))
    assert moved == 2 * 4 * array + 4 * 2 * 2 * array + 4 * 4 * 512  # all keys and values, for each head's two tiles


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v5e", of=["v4", "v5e", "v5p", "v6e"]))
@pytest.mark.parametrize(
    "d, dtype, how",
    daily(
        (72, "bfloat16", {"causal": True, "window": 200, "softcap": 9.0}),
        of=[
            (72, "bfloat16", {"causal": True, "window": 200, "softcap": 9.0}),
            (128, "float32", {}),
            (64, "bfloat16", {"causal": True}),
        ],
    ),
)
def test_it_compiles_forwards_and_backwards(chip, d, dtype, how):
    q, k, v = of(300, d=d, heads=2, dtype=dtype)
    fn = gradients(attention.flash_attention, segments=ids(300), **how)
    report = compiler.compile_tpu(fn, q, k, v, chip=chip, simulate=False)
    assert report.ok, report.error
