"""Attention: its kernels by all four judges and at their edges, forwards and backwards; mistakes that must be seen."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from attention_mistakes import MISTAKES
from conftest import needs_libtpu
from sweeps import daily

from course_lib import compat, compiler, cost, grid
from course_lib.kernels import attention, one_page
from course_lib.kernels.attention import Blocks
from course_lib.kernels.attention import backward as attention_backward
from course_lib.kernels.attention import blocks as attention_blocks
from course_lib.kernels.attention import kernel as attention_forward
from course_lib.kernels.attention import op as attention_op
from course_lib.kernels.attention import ragged_tiles as attention_tiles
from course_lib.kernels.attention import transposed as attention_transposed
from course_lib.kernels.attention.tiles import Tiles

SMALL = Blocks(tile=256, bq=128, bk=128)  # several tiles, and several products in each, of a few hundred positions


def sample(*shapes, dtype=jnp.float32, scale=1.0):
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape) * scale, dtype) for shape in shapes]


def of(s, t=None, d=16, e=None, heads=1, kv_heads=None, dtype=jnp.float32, scale=1.0):
    t, kv_heads = t or s, kv_heads or heads
    return sample((heads, s, d), (kv_heads, t, d), (kv_heads, t, e or d), dtype=dtype, scale=scale)


def ids(size, length=97):
    return jnp.arange(size, dtype=jnp.int32) // length


# What may be seen: all, the diagonal, a window over a tile's edge and within one, groups of heads, segments of which
# one has no keys; and lengths that end within a tile, a product, a register.
LENGTHS = {
    "ragged": ({"s": 200, "t": 330}, {}),
    "one short tile": ({"s": 3, "t": 5}, {}),
    "diagonal": ({"s": 512}, {"causal": True}),
    "ragged diagonal": ({"s": 300}, {"causal": True}),
    "window over tiles": ({"s": 600}, {"causal": True, "window": 200}),
    "window within a product": ({"s": 300}, {"causal": True, "window": 5}),
    "window of one": ({"s": 300}, {"causal": True, "window": 1}),
    "groups": ({"s": 300, "heads": 4, "kv_heads": 2}, {"causal": True}),
    "segments": ({"s": 300, "t": 200, "heads": 2}, {"segments": (ids(300), ids(200))}),
    "segments and a diagonal": ({"s": 300}, {"causal": True, "segments": ids(300)}),
    "softcap": ({"s": 300, "scale": 3.0}, {"softcap": 7.0, "scale": 0.1}),
    "values of another size": ({"s": 140, "e": 200}, {}),
    "bf16": ({"s": 300, "heads": 2, "dtype": jnp.bfloat16}, {"causal": True}),
    "large": ({"s": 300, "scale": 20.0}, {"causal": True}),
}
# Heads of 72, with positions in the sublanes; and of 16, with positions in the lanes.
WIDTHS = {"": 72, ", narrow": 16}
EDGES = {
    f"{name}{of}": (how | {"d": d}, options) for name, (how, options) in LENGTHS.items() for of, d in WIDTHS.items()
}
DAILY = ("ragged", "groups, narrow")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Backwards too, where nobody chooses blocks."""
    whole = Tiles.__init__
    monkeypatch.setattr(Tiles, "__init__", lambda self, s, t, tile, *how: whole(self, s, t, min(tile, 256), *how))
    monkeypatch.setattr(attention_blocks, "_SIDE", 128)


def simulated(fn, *args):
    """In the TPU simulator, where what lies beyond an array is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(), *a))(*args)


def gradients(fn, **how):
    def both(q, k, v):
        o, pull = jax.vjp(functools.partial(fn, **how), q, k, v)
        return o, *pull(jnp.cos(3 * o))

    return both


@pytest.mark.parametrize("name", daily(*DAILY, of=EDGES))
def test_the_kernels_are_the_reference_at_every_edge(name):
    """o, dq, dk and dv; nothing from beyond an array, which is NaN there, gets into them."""
    described, how = EDGES[name]
    args = of(**described)
    got = simulated(gradients(attention.flash_attention, blocks=SMALL, **how), *args)
    want = jax.jit(gradients(attention.reference, **how))(*args)
    near = 2e-2 if "bf16" in name else 1e-2 if "large" in name else 2e-4  # large scores are not known any better
    for found, wanted in zip([got[0], *got[-3:]], want, strict=True):
        found, wanted = np.float32(found), np.float32(wanted)
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near * max(0.1, np.abs(wanted).max()))


JUDGED = {
    "causal": (of(200, d=72), {"causal": True}),
    "narrow": (of(200), {"causal": True}),
    "groups": (of(300, 200, d=72, heads=2, kv_heads=1), {}),
    "bf16": (of(300, 200, d=72, dtype=jnp.bfloat16), {}),
    "narrow bf16": (of(200, dtype=jnp.bfloat16), {"causal": True}),
}


@pytest.mark.parametrize("name", daily("causal", of=JUDGED))
def test_by_four_judges_forwards_and_backwards(name):
    args, how = JUDGED[name]
    accepted(gradients(attention.flash_attention, blocks=SMALL, **how), gradients(attention.reference, **how), *args)


FILES = {  # where a mistake is made: the file, who uses it, and what
    "forward": (attention_forward, attention_op, "launch"),
    "transposed": (attention_transposed, attention_op, "launch_transposed"),
    "backward": (attention_backward, attention_op, "launch_gradient"),
    "tiles": (attention_tiles, attention_blocks, "RaggedTiles"),
}
EVERY_DAY = ("dk of the wrong queries",)


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=MISTAKES))
def test_a_mistake_is_seen(name, monkeypatch):
    """The cases above can fail: with a kernel that has the mistake one of them does."""
    where, right, wrong, case = MISTAKES[name]
    file, user, what = FILES[where]
    source = inspect.getsource(file)
    assert right in source
    names = {"__name__": file.__name__}
    exec(compile(source.replace(right, wrong), file.__file__, "exec"), names)
    monkeypatch.setattr(user, what, names[what])
    with pytest.raises((AssertionError, KeyError)):
        test_the_kernels_are_the_reference_at_every_edge(case)


@pytest.mark.sweep  # every day the page computes its reference: test_kernels_one_page.py
@pytest.mark.parametrize("name", ["ragged", "ragged diagonal", "groups"])
def test_the_page_has_the_kernels_of_the_reference(name):
    """With tiles of its own, and a gradient for sequences that it pads."""
    described, how = LENGTHS[name]
    names = {"__name__": "page"}
    exec(one_page.one_page("attention"), names)
    args = of(**described, d=72)
    got = simulated(gradients(names["flash_attention"], **how, blocks=names["Blocks"](tile=256, bq=128, bk=128)), *args)
    want = jax.jit(gradients(attention.reference, **how))(*args)
    for found, wanted in zip([got[0], *got[-3:]], want, strict=True):
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=2e-4, atol=1e-4)


def test_under_jit_vmap_and_remat_on_a_cpu():
    q, k, v = sample((3, 2, 40, 16), (3, 2, 40, 16), (3, 2, 40, 16))
    how = {"causal": True, "window": 9}
    ours, theirs = (functools.partial(fn, **how) for fn in (attention.flash_attention, attention.reference))

    def gradient(fn):
        return jax.jit(jax.grad(lambda q: (fn(q, k, v) ** 2).sum()))(q)

    want = gradient(theirs)
    for fn in (ours, jax.checkpoint(ours), jax.vmap(ours), jax.vmap(jax.vmap(ours))):
        np.testing.assert_allclose(gradient(fn), want, rtol=1e-4, atol=1e-5)
    segments = jnp.arange(40, dtype=jnp.int32) // 7
    got = jax.vmap(lambda q: attention.flash_attention(q, k[0], v[0], segments=segments))(q)
    for one, row in zip(got, q, strict=True):
        np.testing.assert_allclose(one, attention.reference(row, k[0], v[0], segments=segments), rtol=1e-4, atol=1e-5)


def test_it_is_what_jax_nn_computes():
    q, k, v = (x.swapaxes(0, 1) for x in of(60, heads=4, kv_heads=2))  # positions before heads
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


@needs_libtpu
@pytest.mark.parametrize(
    "chip, depth, causal",
    daily(
        ("v4", 128, False),
        of=[(chip, d, causal) for chip in ("v4", "v5e", "v6e") for d in (128, 256) for causal in (False, True)],
    ),
)
def test_a_long_tile_has_room_for_what_the_compiler_spills(chip, depth, causal, monkeypatch):
    """Up to 20 products of scores were seen; where the chip has less, tiles are smaller."""
    monkeypatch.undo()
    x = jax.ShapeDtypeStruct((1, 4096 if causal else 2048, depth), jnp.bfloat16)
    fn = functools.partial(attention.flash_attention, causal=causal)
    report = compiler.compile_tpu(fn, x, x, x, chip=chip, simulate=False, time_limit_s=100)
    assert report.ok, report.error


@pytest.mark.parametrize("size, depth, together", [(512, 128, 2), (128, 128, 32), (128, 2560, 8), (1024, 128, 1)])
def test_of_a_short_sequence_a_step_takes_several_heads(size, depth, together, monkeypatch):
    """As many as fit into VMEM, and as divide them."""
    monkeypatch.undo()
    x = jax.ShapeDtypeStruct((32, size, depth), jnp.float32)
    (call,) = grid.walk(lambda x: attention.flash_attention(x, x, x), x).calls
    assert call.grid[0] == 32 // together


def test_a_nan_reaches_those_who_see_it_and_a_large_score_nobody():
    """By the interpreted kernel as by plain JAX."""
    q, k, v = of(300, d=72)
    causal = functools.partial(attention.flash_attention, causal=True, blocks=SMALL)
    for args, rows in (((q.at[0, 5].set(jnp.nan), k, v), [5]), ((q, k.at[0, 270].set(jnp.nan), v), range(270, 300))):
        for o in (simulated(causal, *args)[0].reshape(300, 72), causal(*args)[0]):
            assert np.flatnonzero(jnp.isnan(o).any(axis=-1)).tolist() == list(rows)
    o = simulated(causal, 1e15 * q, 1e15 * k, v)[0]  # scores of 1e31
    assert jnp.isfinite(o).all()


@pytest.mark.parametrize("d", daily(16, of=WIDTHS.values()))
def test_a_nan_stays_in_its_segment(d):
    q, k, v = of(300, d=72)
    segments = jnp.zeros(300, jnp.int32).at[7].set(1), jnp.zeros(300, jnp.int32)
    apart = functools.partial(attention.flash_attention, segments=segments, blocks=SMALL)
    o = simulated(apart, q[..., :d].at[0, 5].set(jnp.nan), k[..., :d], v)[0].reshape(300, 72)
    assert np.flatnonzero(jnp.isnan(o).any(axis=-1)).tolist() == [5]
    assert not o[7].any()


@pytest.mark.parametrize("size", [1e2, 1e5, 1e10, 1e14])
@pytest.mark.parametrize("sign", [1, -1])
def test_equal_scores_of_any_size_share_their_values(size, sign):
    """In plain JAX under jit, where a product that is rounded in one place and not in another made NaN of 2e10."""
    q, v = jnp.full((1, 3, 4), size, jnp.float32), jnp.arange(12.0).reshape(1, 3, 4)
    o = jax.jit(attention.flash_attention)(q, sign * q, v)
    np.testing.assert_allclose(o, jnp.broadcast_to(v.mean(axis=1, keepdims=True), v.shape), rtol=1e-6)


@pytest.mark.parametrize("d", daily(72, of=WIDTHS.values()))
def test_who_sees_keys_without_any_score_sees_no_others(d):
    """Row 0 sees key 0 alone, whose score is below all that are masked: zeros, and no mean of later values."""
    q, k, v = of(200, d=d)
    args = jnp.abs(q), k.at[0, 0].set(-1e31), v
    o = simulated(functools.partial(attention.flash_attention, causal=True, blocks=SMALL), *args)[0].reshape(200, d)
    assert not o[0].any()
    np.testing.assert_allclose(o, attention.reference(*args, causal=True)[0], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("how", [{"causal": True}, {"segments": jnp.zeros(128, jnp.int32)}], ids=["causal", "segments"])
def test_products_below_what_is_masked_give_zeros(how):
    """In a tile without padding, by the interpreted kernel as by plain JAX."""
    q, v = jnp.full((1, 128, 16), 1e16), jnp.ones((1, 128, 16))
    fn = functools.partial(attention.flash_attention, **how)
    for o in (simulated(fn, q, -q, v)[0], fn(q, -q, v)):
        assert not o.any()


def test_a_gradient_that_no_vmem_holds_is_refused_by_name():
    x = jax.ShapeDtypeStruct((1, 200_000, 128), jnp.bfloat16)
    with pytest.raises(
        ValueError, match="flash_attention: the gradient keeps dq of all 200000 positions .* parts of q"
    ):
        grid.walk(jax.grad(lambda x: attention.flash_attention(x, x, x, causal=True).astype(jnp.float32).sum()), x)


@pytest.mark.sweep  # every day the heads of a group go together: "groups, narrow"
def test_where_dq_of_a_group_does_not_fit_each_of_its_heads_goes_alone(monkeypatch):
    """With the same results, added up by XLA."""
    args = of(140, heads=4, kv_heads=2)
    want = jax.jit(gradients(attention.reference))(*args)
    fits = attention_blocks.gradient
    needs_more = lambda q, k, v, group, scores: (*fits(q, k, v, group, scores)[:1], (1 << 40) * (group > 1))  # noqa: E731
    monkeypatch.setattr(attention_blocks, "gradient", needs_more)
    got = simulated(gradients(attention.flash_attention, blocks=SMALL), *args)
    for found, wanted in zip(got[-3:], want[1:], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_the_gradient_of_grouped_heads_has_its_shape_where_only_the_queries_are_mapped():
    def loss(q, k, v):
        return jax.vmap(attention.flash_attention, (0, None, None))(q, k, v).sum()

    q, k = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 3, 4, 16, 8), (3, 2, 16, 8)))
    gradients = jax.eval_shape(jax.grad(loss, (0, 1, 2)), q, k, k)
    assert [g.shape for g in gradients] == [q.shape, k.shape, k.shape]
