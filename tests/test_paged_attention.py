"""Paged attention: its kernel by all four judges and at its edges, mistakes that must be seen, and other libraries'."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental.pallas import tpu as pltpu
from paged_attention_mistakes import MISTAKES
from paged_pools import case, tokens
from sweeps import daily

from course_lib import compat, compiler, grid, judges
from course_lib.kernels import (
    paged_attention,
    paged_attention_kernel,
    paged_attention_pools,
    paged_attention_wrappers,
)
from course_lib.kernels.paged_attention import Blocks

SMALL = Blocks(pages=8, slots=2)  # several blocks of some hundred tokens
# What is asked: lengths that end within a page, a block, on their edges; none at all; more copies than two under way;
# pages and heads of other sizes; options.
CASES = {
    "ragged": ({"lengths": [1, 137, 384, 265]}, {}),
    "whole blocks": ({"lengths": [128, 384, 256]}, {}),
    "empty": ({"lengths": [0, 20, 0, 0, 300, 0]}, {}),
    "all empty": ({"lengths": [0, 0]}, {}),
    "three blocks": ({"lengths": [0, 20, 384, 300, 5]}, {"blocks": Blocks(pages=8, slots=3)}),
    "one block": ({"lengths": [20, 300]}, {"blocks": Blocks(pages=8, slots=1)}),
    "longer than the table": ({"lengths": [1000, 48], "most": 3}, {}),
    "no grouping": ({"lengths": [20, 300], "group": 1, "heads": 3}, {}),
    "one head of keys": ({"lengths": [20, 300], "group": 8, "heads": 1}, {}),
    "heads of 64": ({"lengths": [20, 300], "d": 64}, {}),
    "heads of 72": ({"lengths": [20, 300], "d": 72}, {}),
    "heads of 256": ({"lengths": [20, 300], "d": 256}, {}),
    "pages of 128": ({"lengths": [20, 300], "page": 128, "most": 4}, {"blocks": Blocks(pages=2)}),
    "pages of 24": ({"lengths": [20, 400], "page": 24, "most": 20}, {}),
    "bf16": ({"lengths": [20, 300], "dtype": "bfloat16"}, {}),
    "int8": ({"lengths": [20, 300], "int8": True}, {}),
    "int8, bf16": ({"lengths": [20, 300], "int8": True, "dtype": "bfloat16", "page": 32}, {}),
    "int8, heads of 64, softcap": ({"lengths": [20, 300], "int8": True, "d": 64}, {"softcap": 3.0}),
    "large": ({"lengths": [20, 300], "large": 1e4}, {}),
    "softcap": ({"lengths": [20, 300]}, {"softcap": 2.0, "scale": 0.3}),
}


def simulated(fn, *args, **params):
    """In the TPU simulator, where what nothing has written is NaN."""
    traced = grid.trace(fn, *args)
    return jax.jit(lambda *a: grid.run(traced, compat.interpret_params(**params), *a))(*args)[0]


def near(got, want, tolerance):
    got, want = np.float32(got), np.float32(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * max(0.1, np.abs(want).max(initial=0)))


def tolerance(name):
    return 2e-2 if "bf16" in name else 1e-3 if name == "large" else 2e-5  # large scores are not known any better


@pytest.mark.parametrize("name", daily("ragged", "empty", "int8, bf16", "heads of 64", "three blocks", of=CASES))
def test_the_kernel_is_the_reference(name):
    described, how = CASES[name]
    args = case(**described)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = simulated(functools.partial(paged_attention.paged_attention, **{"blocks": SMALL} | how), *args)
    near(got, jax.jit(functools.partial(paged_attention.reference, **options))(*args), tolerance(name))


@pytest.mark.parametrize("name", CASES)
def test_plain_jax_is_attention_of_each_sequence_by_itself(name):
    """In NumPy, token by token; what is no token is not looked at."""
    described, how = CASES[name]
    q, pages, lengths, table, *scales = args = case(**described)
    options = {key: value for key, value in how.items() if key != "blocks"}
    got = paged_attention.paged_attention(*args, **options)
    heads, d = pages.shape[1], q.shape[-1]
    for b, length in enumerate(np.minimum(lengths, table.shape[1] * pages.shape[2])):
        k, v = tokens(np.asarray(pages), np.asarray(table[b]), length, d)
        if scales:
            k, v = k * scales[0][0][:, None], v * scales[0][1][:, None]
        s = np.einsum("hgd,thd->hgt", np.float64(q[b]).reshape(heads, -1, d), k) * options.get("scale", d**-0.5)
        if cap := options.get("softcap"):
            s = cap * np.tanh(s / cap)
        p = np.exp(s - s.max(axis=-1, initial=-1e30, keepdims=True))
        want = np.einsum("hgt,thd->hgd", p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300), v)
        near(got[b], want.reshape(q[b].shape), tolerance(name))


def apart(pages):
    """Keys and values as JAX and PyTorch/XLA have them."""
    d = pages.shape[-1] // 2
    return pages[..., :d].swapaxes(0, 1), pages[..., d:].swapaxes(0, 1)


def by_token(pages):
    """As vLLM has them."""
    n, heads, page, w = pages.shape
    return jnp.moveaxis(pages.reshape(n, heads, page, 2, w // 2), 2, 1).reshape(n, page, 2 * heads, w // 2)


WRAPPED = {
    name: CASES[name] for name in ("ragged", "empty", "bf16", "heads of 64", "one head of keys", "heads of 256", "int8")
}


@pytest.mark.parametrize("name", daily("empty", of=[name for name in WRAPPED if name != "int8"]))
def test_with_pages_apart_it_is_ours(name):
    q, pages, lengths, table = case(**CASES[name][0])
    for run in (simulated, lambda fn, *args: fn(*args)):
        got = run(paged_attention_wrappers.paged_attention, q, *apart(pages), lengths, table)
        near(got, paged_attention.reference(q, pages, lengths, table, scale=1.0), tolerance(name))


@pytest.mark.parametrize("name", daily("bf16", of=WRAPPED))
def test_with_pages_by_token_it_is_ours(name):
    """Of each sequence one query, its last token, as in decoding."""
    q, pages, lengths, table, *scales = case(**CASES[name][0])
    batch = len(lengths)
    options = {"sm_scale": 0.1, "soft_cap": 5.0}
    if scales:
        scales[0][:] = scales[0][:, :1]
        options |= {"k_scale": float(scales[0][0, 0]), "v_scale": float(scales[0][1, 0])}
    more = jnp.arange(batch + 1, dtype=jnp.int32), jnp.int32([batch])
    fn = functools.partial(paged_attention_wrappers.ragged_paged_attention, **options)
    for run in (simulated, lambda fn, *args: fn(*args)):
        got = run(fn, q, by_token(pages), lengths, table, *more)
        near(got, paged_attention.reference(q, pages, lengths, table, *scales, scale=0.1, softcap=5.0), tolerance(name))


FILES = {"kernel": paged_attention_kernel, "pools": paged_attention_pools}
EVERY_DAY = ("turns begin anew with every sequence", "the last page is not cleaned", "an empty sequence has no block")


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
        monkeypatch.setattr(file, "on_tpu", names["on_tpu"])
    for part in ("both", "clean") if where == "pools" else ():
        monkeypatch.setattr(file.Joined, part, vars(names["Joined"])[part])
    seen = False
    try:
        test_the_kernel_is_the_reference(shows)
    except (AssertionError, jax.errors.JaxRuntimeError):
        seen = True
    finally:
        pltpu.reset_tpu_interpret_mode_state()
    assert seen
