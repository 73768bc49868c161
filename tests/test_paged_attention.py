"""Paged attention: its kernel by all four judges and at its edges, and mistakes that must be seen."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import accepted
from conftest import needs_libtpu
from jax.experimental.pallas import tpu as pltpu
from paged_attention_mistakes import MISTAKES
from paged_pools import CASES, SMALL, case, tokens
from sweeps import daily

from course_lib import chips, compat, compiler, grid
from course_lib.judges.running import watchdog
from course_lib.kernels import one_page, paged_attention
from course_lib.kernels.common import chip as this_chip
from course_lib.kernels.paged_attention import Blocks
from course_lib.kernels.paged_attention import blocks as paged_attention_blocks
from course_lib.kernels.paged_attention import kernel as paged_attention_kernel
from course_lib.kernels.paged_attention import op as paged_attention_op
from course_lib.kernels.paged_attention import pools as paged_attention_pools
from course_lib.roofline import constants


def simulated(fn, *args, **params):
    """In the TPU simulator, where what nothing has written is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(**params), *a))(*args)[0]


def reference(*args, **options):
    return jax.jit(functools.partial(paged_attention.reference, **options))(*args)


def plain(fn, *args):
    return jax.jit(lambda *a: fn(*a))(*args)


def near(got, want, tolerance):
    got, want = np.float32(got), np.float32(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * max(0.1, np.abs(want).max(initial=0)))


def tolerance(name):
    return 2e-2 if "bf16" in name else 1e-3 if name == "large" else 2e-5  # large scores are not known any better


@pytest.mark.parametrize("name", daily("int8, bf16", of=CASES))
def test_the_kernel_is_the_reference(name):
    described, how = CASES[name]
    args = case(**described)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = simulated(functools.partial(paged_attention.paged_attention, **{"blocks": SMALL} | how), *args)
    near(got, reference(*args, **options), tolerance(name))


@pytest.mark.parametrize("name", daily("heads of 64", of=["ragged", "empty", "heads of 64", "int8", "window"]))
def test_the_printed_page_is_the_reference(name):
    described, how = CASES[name]
    args, names = case(**described), {"__name__": "page"}
    exec(one_page.one_page("paged_attention"), names)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = simulated(functools.partial(names["paged_attention"], **options), *args)
    near(got, reference(*args, **options), tolerance(name))


def test_a_page_that_is_not_there_is_the_first_or_the_last():
    q, pages, lengths, table = case([40, 40])
    pages = jnp.asarray(np.random.default_rng(1).normal(size=pages.shape), pages.dtype)
    wrong = table.at[0, 0].set(-1).at[0, 1].set(-(2**31)).at[1, 2].set(len(pages))
    want = reference(q, pages, lengths, jnp.clip(wrong, 0, len(pages) - 1))
    for run in (simulated, plain):
        near(run(paged_attention.paged_attention, q, pages, lengths, wrong), want, 2e-5)


@pytest.mark.parametrize("size", [1e2, 1e10, -1e10, 1e14])
def test_equal_scores_of_any_size_share_their_values(size):
    """In plain JAX under jit. It was so here when flash attention, with the same formula, was not: a guard."""
    k, v = jnp.full((1, 1, 16, 4), size, jnp.float32), jnp.arange(64.0).reshape(1, 1, 16, 4)
    args = jnp.full((1, 1, 4), abs(size)), jnp.concatenate([k, v], axis=-1), jnp.array([3]), jnp.array([[0]])
    near(plain(paged_attention.paged_attention, *args)[0], v[0, 0, :3].mean(axis=0, keepdims=True), 1e-6)


@pytest.mark.parametrize(
    "name", daily("ragged", "all empty", "longer than the table", "bf16", "int8", "softcap", "window", of=CASES)
)
def test_plain_jax_is_attention_of_each_sequence_by_itself(name):
    """In NumPy, token by token; what is no token is not looked at."""
    described, how = CASES[name]
    q, pages, lengths, table, *scales = args = case(**described)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = plain(functools.partial(paged_attention.paged_attention, **options), *args)
    heads, d = pages.shape[1], q.shape[-1]
    for b, length in enumerate(np.minimum(lengths, table.shape[1] * pages.shape[2])):
        k, v = tokens(np.asarray(pages), np.asarray(table[b]), length, d)
        if window := options.get("window"):
            k, v = k[-window:], v[-window:]
        if scales:
            k, v = k * scales[0][0][:, None], v * scales[0][1][:, None]
        s = np.einsum("hgd,thd->hgt", np.float64(q[b]).reshape(heads, -1, d), k) * options.get("scale", d**-0.5)
        if cap := options.get("softcap"):
            s = cap * np.tanh(s / cap)
        p = np.exp(s - s.max(axis=-1, initial=-1e30, keepdims=True))
        want = np.einsum("hgt,thd->hgd", p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300), v)
        near(got[b], want.reshape(q[b].shape), tolerance(name))


FILES = {"kernel": paged_attention_kernel, "pools": paged_attention_pools}
EVERY_DAY = ("the last page is not cleaned",)


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=MISTAKES))
def test_a_mistake_is_seen(name, monkeypatch):
    """The cases above can fail: with a kernel that has the mistake one of them does, or the simulator refuses it."""
    where, right, wrong, shows = MISTAKES[name]
    file = FILES[where]
    source = inspect.getsource(file)
    assert right in source
    names = {"__name__": file.__name__}
    exec(compile(source.replace(right, wrong), file.__file__, "exec"), names)
    if where == "kernel":
        monkeypatch.setattr(paged_attention_op, "launch", names["launch"])
    for part in ("both", "clean", "live") if where == "pools" else ():
        monkeypatch.setattr(file.Joined, part, vars(names["Joined"])[part])
    try:
        with watchdog.watched(), pytest.raises((AssertionError, jax.errors.JaxRuntimeError)):
            test_the_kernel_is_the_reference(shows)
    finally:
        pltpu.reset_tpu_interpret_mode_state()


JUDGED = {
    "ragged": {"lengths": [20, 0, 140], "heads": 1, "most": 10},
    "heads of 64": {"lengths": [0, 137, 300], "d": 64},
    "int8": {"lengths": [20, 0, 140], "heads": 1, "most": 10, "int8": True},
    "bf16": {"lengths": [20, 0, 140], "heads": 1, "most": 10, "dtype": "bfloat16"},
}


@pytest.mark.parametrize("name", daily("bf16", of=JUDGED))
def test_by_four_judges(name):
    """Their simulator has memory of NaN, and two cores that race."""
    fn = functools.partial(paged_attention.paged_attention, blocks=Blocks(pages=4, slots=3))
    accepted(fn, paged_attention.reference, *case(**JUDGED[name]))


@pytest.mark.sweep  # every day a judge does
def test_two_cores_and_copies_do_not_race():
    args = case([20, 300, 0, 5])
    fn = functools.partial(paged_attention.paged_attention, blocks=SMALL)
    got = simulated(fn, *args, num_cores_or_threads=2, detect_races=True, random_seed=1)
    near(got, reference(*args), 2e-5)
    assert not compat.races_found()


COMPILED = {
    "bf16": ({"dtype": "bfloat16", "heads": 8, "group": 4}, {}),
    "f32, heads of 64": ({"d": 64}, {"softcap": 5.0}),
    "bf16, heads of 96": ({"dtype": "bfloat16", "d": 96, "heads": 1}, {}),
    "int8, pages of 32": ({"int8": True, "dtype": "bfloat16", "page": 32, "heads": 8}, {}),
    "int8, pages of 16": ({"int8": True, "page": 16, "d": 64}, {}),
    "pages of 128": ({"dtype": "bfloat16", "page": 128, "most": 4}, {}),
    "pages of 24": ({"page": 24}, {}),
    "window": ({"dtype": "bfloat16", "heads": 8, "group": 4}, {"window": 100}),
}


@needs_libtpu
@pytest.mark.parametrize("chip", daily("v5e", of=["v4", "v5e", "v5p", "v6e", "tpu7x"]))
@pytest.mark.parametrize("name", daily("bf16", "int8, pages of 32", of=COMPILED))
def test_it_compiles(name, chip):
    described, how = COMPILED[name]
    fn = functools.partial(paged_attention.paged_attention, **how)
    report = compiler.compile_tpu(fn, *case([20, 300], **described), chip=chip, simulate=False)
    assert report.ok, report.error


def test_under_jit_vmap_and_remat_on_a_cpu():
    """The gradient of q and of pages, whose memory of nobody is NaN and gets zeros."""
    q, pages, lengths, table = case([20, 0, 45], most=3)

    def gradients(fn):
        loss = jax.grad(lambda q, pages: (fn(q, pages, lengths, table) ** 2).sum(), argnums=(0, 1))
        return jax.jit(loss)(q, pages)

    want = gradients(paged_attention.reference)
    assert all(jnp.isfinite(each).all() and each.any() for each in want)
    for found, wanted in zip(gradients(jax.checkpoint(paged_attention.paged_attention)), want, strict=True):
        near(found, wanted, 1e-4)
    batches = [jnp.stack([x, x[::-1]]) for x in (q, lengths, table)]
    got = plain(jax.vmap(paged_attention.paged_attention, (0, None, 0, 0)), batches[0], pages, *batches[1:])
    near(got[1], reference(q, pages, lengths, table)[::-1], 1e-5)
    near(plain(paged_attention.paged_attention, batches[0], pages, *batches[1:]), got, 1e-6)


def test_int8_pages_have_no_gradient_and_their_scales_do():
    q, pages, lengths, table, scales = case([20, 45], int8=True, most=3)
    found = [
        plain(jax.grad(lambda q, s, fn=fn: fn(q, pages, lengths, table, s).sum(), argnums=(0, 1)), q, scales)
        for fn in (paged_attention.paged_attention, paged_attention.reference)
    ]
    for ours, theirs in zip(*found, strict=True):
        near(ours, theirs, 1e-5)


def test_a_batch_in_front_is_one_kernel():
    """Mapped or handed over, as rows of one array are."""
    q, pages, lengths, table = case([20, 0, 45, 7], most=3)
    two = [x.reshape(2, 2, *x.shape[1:]) for x in (q, lengths, table)]

    def mapped(q, pages, lengths, table):
        return jax.vmap(paged_attention.paged_attention, (0, None, 0, 0))(q, pages, lengths, table)

    for fn in (mapped, paged_attention.paged_attention):
        (call,) = grid.walk(fn, two[0], pages, *two[1:]).calls
        assert call.grid == (4,)


def test_blocks_are_as_large_as_the_latency_asks():
    """Of three blocks two are under way while one is used: that must be the bytes that a latency takes, and more."""
    longest = max(read / constants.CLOCK_HZ[chip] for chip, (read, _) in constants.LATENCY_CYCLES.items())
    assert longest == pytest.approx(paged_attention_blocks.LATENCY_S, rel=0.01)
    for heads, page, pages in ((8, 16, 16), (8, 128, 2), (1, 16, 96), (32, 16, 16)):
        described = [
            jax.ShapeDtypeStruct(shape, dtype)
            for shape, dtype in (
                ((4, heads, 128), jnp.bfloat16),
                ((500, heads, page, 256), jnp.bfloat16),
                ((4,), jnp.int32),
                ((4, 512), jnp.int32),
            )
        ]
        assert paged_attention.blocks_for(*described) == Blocks(pages=pages, slots=3)


def in_pairs(monkeypatch):
    """SMEM that holds a table's rows of two sequences; and three of them."""
    monkeypatch.setattr(this_chip, "smem_bytes", lambda: 2 * 2 * 512)
    return functools.partial(paged_attention.paged_attention, blocks=SMALL), case([20, 0, 45], most=4, heads=1)


def test_a_table_that_smem_does_not_hold_is_cut(monkeypatch):
    fn, args = in_pairs(monkeypatch)
    assert [call.grid for call in grid.walk(fn, *args).calls] == [(2,), (1,)]
    monkeypatch.setattr(this_chip, "smem_bytes", lambda: 512)
    with pytest.raises(
        ValueError, match="a row of table has 4 pages, and half of SMEM, 256 bytes, .* Try larger pages"
    ):
        grid.walk(fn, *args)


@pytest.mark.sweep
def test_and_its_parts_are_the_whole(monkeypatch):
    fn, args = in_pairs(monkeypatch)
    near(simulated(fn, *args), reference(*args), 2e-5)


def test_of_a_batch_that_is_not_known_yet_it_is_plain_jax():
    q, pages, lengths, table = case([20, 0, 45], most=3)
    (batch,) = jax.export.symbolic_shape("batch")
    described = [jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype) for x in (q, lengths, table)]
    fn = jax.jit(lambda q, lengths, table: paged_attention.paged_attention(q, pages, lengths, table))
    says = "paged_attention: plain JAX instead of the kernel, .* an axis of batch elements is: lengths and table"
    with chips.chip("v5e").target(), pytest.warns(UserWarning, match=says):
        program = jax.export.export(fn, platforms=("cpu", "tpu"))(*described)
    near(program.call(q, lengths, table), reference(q, pages, lengths, table), 1e-5)


@pytest.mark.sweep
def test_pools_that_are_mapped_go_one_after_another():
    q, pages, lengths, table = case([20, 0, 45], most=3)
    pools = jnp.stack([pages, 2 * pages])
    mapped = jax.vmap(functools.partial(paged_attention.paged_attention, blocks=SMALL), (None, 0, None, None))
    want = [reference(q, each, lengths, table) for each in pools]
    for run in (simulated, plain):
        near(run(mapped, q, pools, lengths, table), jnp.stack(want), 1e-5)


def test_a_sequence_alone_needs_no_batch():
    q, pages, lengths, table = case([20, 33], most=3)
    alone = q[1], pages, lengths[1], table[1]
    near(plain(paged_attention.paged_attention, *alone), reference(q, pages, lengths, table)[1], 1e-6)
    (call,) = grid.walk(paged_attention.paged_attention, *alone).calls
    assert call.grid == (1,)
