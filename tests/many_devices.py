"""Ops of the library on 8 CPU devices: test_kernels_devices runs it, hands over the cases and reads the outcomes.

Where a TPU would run a kernel the kernel itself runs here, in Pallas' plain interpreter. That cannot do
``jax.shard_map(check_vma=True)``: there, and for ``pl.kernel``, plain JAX runs, as on a CPU.
"""

import contextlib
import functools
import json
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.interpreters import mlir
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from course_lib.kernels import (
    activations,
    attention,
    block_sparse,
    elementwise,
    grouped,
    grouped_swiglu,
    linear,
    linear_int8,
    matmul,
    matmul_one_block,
    matmul_pipeline,
    norm,
    paged_attention,
    paged_attention_wrappers,
    reduce,
    scale_add,
    scan,
    softmax,
)
from course_lib.kernels.dispatch import launch

rng = np.random.default_rng(0)
X, Y, W, B, V, C = (np.float32(rng.normal(size=s)) for s in ((8, 16), (8, 16), (16, 24), 24, 16, (4, 8, 16)))
H = np.float32(rng.normal(size=(4, 4, 16, 8)))
Z = np.float32(rng.normal(size=(4, 8, 8)))
E = np.stack([W, 1 - W]) / 4
SCALE = np.abs(W).max(0) / 127
Q = np.round(W / SCALE).astype(np.int8)


def gelu_layer(x, w, b, **how):
    return linear.linear(x, w, b, activation="gelu", **how)


def gelu_layer_reference(x, w, b):
    return linear.reference(x, w, b, activation="gelu")


# In shares of SCALE: a gradient by numbers as small as that is so large that its sine, in a loss, is anything.
def int8_layer(x, shares, b, **how):
    return linear_int8.linear_int8(x, jnp.asarray(Q), shares * SCALE, b, activation="silu", **how)


def int8_layer_reference(x, shares, b):
    y = linear_int8.reference(x.reshape(-1, x.shape[-1]), Q, shares * SCALE, b, activation="silu")
    return y.reshape(*x.shape[:-1], -1)


def bf16(x, **how):
    return elementwise.cast(x, jnp.bfloat16, **how).astype(jnp.float32)


def turned(x, y, **how):
    return matmul.matmul_transposed(x, y, transpose_y=True, **how)


def seen_back(q, k, v, **how):
    return attention.flash_attention(q, k, v, causal=True, window=9, softcap=5.0, **how)


def seen_back_reference(q, k, v):
    return attention.reference(q, k, v, causal=True, window=9, softcap=5.0)


def of_pages(op, count=1):
    """With lengths and a table that are fixed: they are no numbers that a gradient could be of."""
    lengths, table = np.int32([9, 0, 3, 5]), np.int32([[2, 4, 1], [9, 9, 9], [3, 9, 9], [0, 4, 9]])
    return lambda q, *more, **how: op(q, *more[:count], lengths, table, *more[count:], **how)


def pages_apart_reference(q, k, v):
    pages = jnp.concatenate([k, v], axis=-1).swapaxes(0, 1)
    return of_pages(functools.partial(paged_attention.reference, scale=1.0))(q, pages)


def by_token(q, pages, **how):
    """Of each sequence one query."""
    ragged = of_pages(paged_attention_wrappers.ragged_paged_attention)
    return ragged(q, pages, jnp.arange(5, dtype=jnp.int32), jnp.int32([4]), **how)


def by_token_reference(q, pages):
    rows = jnp.moveaxis(pages.reshape(*pages.shape[:2], -1, 2 * pages.shape[-1]), 2, 1)
    return of_pages(functools.partial(paged_attention.reference, scale=1.0))(q, rows)


def of_groups(op, reference):
    """Both with groups of sizes that are fixed: they are no numbers that a gradient could be of."""
    sizes = np.int32([3, 4])
    return lambda *arrays, **how: op(*arrays, sizes, **how), lambda *arrays: reference(*arrays, sizes)


# Two rows of blocks, the first of them and the last of three columns of 8.
PATTERN = block_sparse.Pattern(np.int32([1, 0, 2, 0]), np.int32([0, 2, 0, 0]), (2, 3))
VALUES = np.float32(rng.normal(size=(4, 4, 8)))


def of_blocks(values, b, **how):
    return block_sparse.dsd(values, PATTERN, b, **how)


def of_blocks_reference(values, b):
    return block_sparse.dsd_reference(values, PATTERN, b)


def eps_an_array(x, weight, **how):
    return norm.rms_norm(x, weight, jnp.float32(0.5), **how)


# What is called, what it must compute, with what, and how that lies on a mesh with axes d and t.
CASES = {
    "add": (elementwise.add, elementwise.add_reference, (X, Y), (P("d", "t"), P("d", "t"))),
    "multiply, cut unlike": (elementwise.multiply, elementwise.multiply_reference, (X, Y), (P("d", "t"), P("d"))),
    "cast": (bf16, lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), (X,), (P("d", "t"),)),
    "scale_add": (scale_add.scale_add, scale_add.reference, (np.float32(2), X, Y), (P(), P("d", "t"), P("d", "t"))),
    "gelu": (activations.gelu, activations.gelu_reference, (X,), (P("d", "t"),)),
    "softmax": (softmax.softmax, softmax.reference, (X,), (P("d"),)),
    "softmax, rows cut": (softmax.softmax, softmax.reference, (X,), (P("d", "t"),)),
    "softmax, along another axis": (
        functools.partial(softmax.softmax, axis=1),
        functools.partial(softmax.reference, axis=1),
        (C,),
        (P("d", None, "t"),),
    ),
    "rms_norm, eps an array": (eps_an_array, lambda x, w: norm.rms_norm_reference(x, w, 0.5), (X, V), (P("d"), P())),
    "rms_norm": (norm.rms_norm, norm.rms_norm_reference, (C, V), (P("d", "t"), P())),
    "rms_norm, weight cut": (norm.rms_norm, norm.rms_norm_reference, (C, V), (P("d"), P("d"))),
    "rms_norm, rows cut": (norm.rms_norm, norm.rms_norm_reference, (X, V), (P("d", "t"), P("t"))),
    "layer_norm": (norm.layer_norm, norm.layer_norm_reference, (X, V, V + 1), (P("d"), P(), P())),
    "rms_norm_residual": (
        norm.rms_norm_residual,
        norm.rms_norm_residual_reference,
        (X, Y, V),
        (P("d"), P("d"), P()),
    ),
    "flash_attention": (seen_back, seen_back_reference, (H, H[:, :2] + 1, -H[:, :2]), (P("d", "t"),) * 3),
    "flash_attention, rows cut": (
        attention.flash_attention,
        attention.reference,
        (H, H, -H),
        (P("d", None, "t"), P("d"), P("d")),
    ),
    "paged_attention": (
        of_pages(paged_attention.paged_attention),
        of_pages(paged_attention.reference),
        (Z, np.concatenate([H, -H[:1]])[:, :, :4].repeat(2, 3)[:, :2]),
        (P("d", "t"), P(None, "t")),
    ),
    "paged_attention, pages apart": (
        of_pages(paged_attention_wrappers.paged_attention, 2),
        pages_apart_reference,
        (Z, H[:2].repeat(2, 1)[:, :5], np.cos(H[:2].repeat(2, 1)[:, :5])),
        (P("d", "t"), P("t"), P("t")),
    ),
    "paged_attention, by token": (
        by_token,
        by_token_reference,
        (Z, H.swapaxes(1, 2)),
        (P("d", "t"), P(None, None, "t")),
    ),
    "dsd": (of_blocks, of_blocks_reference, (VALUES, W.T.copy()), (P(), P(None, ("d", "t")))),
    "dsd, the list cut": (of_blocks, of_blocks_reference, (VALUES, W.T.copy()), (P("d"), P(None, "t"))),
    "sdd": (
        lambda a, b, **how: block_sparse.sdd(a, b, PATTERN, **how),
        lambda a, b: block_sparse.sdd_reference(a, b, PATTERN),
        (X, W),
        (P(), P()),
    ),
    "sdd, K cut": (
        lambda a, b, **how: block_sparse.sdd(a, b, PATTERN, **how),
        lambda a, b: block_sparse.sdd_reference(a, b, PATTERN),
        (X, W),
        (P(None, ("d", "t")), P(("d", "t"))),
    ),
    "grouped_matmul, K cut": (*of_groups(grouped.grouped_matmul, grouped.reference), (X, E), (P(), P(None, "d", "t"))),
    "grouped_matmul": (*of_groups(grouped.grouped_matmul, grouped.reference), (X, E), (P(), P(None, None, "t"))),
    "grouped_swiglu": (
        *of_groups(grouped_swiglu.grouped_swiglu, grouped_swiglu.reference),
        (X, E, -E),
        (P(), P(None, None, "t"), P(None, None, "t")),
    ),
    "matmul": (matmul.matmul, matmul.reference, (X, W), (P("d"), P(None, "t"))),
    "matmul, K cut": (matmul.matmul, matmul.reference, (X, W), (P("d", "t"), P("t"))),
    "matmul, weight cut as the batch": (matmul.matmul, matmul.reference, (X, W), (P("d"), P("d", "t"))),
    "matmul_transposed": (turned, lambda x, y: matmul.reference(x, y.T), (X, W.T.copy()), (P("d"), P("t"))),
    "matmul_one_block": (matmul_one_block.matmul_one_block, matmul.reference, (X, W), (P("d"), P(None, "t"))),
    "matmul_pipelined": (matmul_pipeline.matmul_pipelined, matmul.reference, (X, W), (P("d"), P(None, "t"))),
    "linear": (gelu_layer, gelu_layer_reference, (C, W, B), (P("d"), P(None, "t"), P("t"))),
    "linear, K cut": (gelu_layer, gelu_layer_reference, (C, W, B), (P("d", None, "t"), P("t"), P())),
    "linear, weights cut as the batch": (gelu_layer, gelu_layer_reference, (C, W, B), (P("d"), P("d"), P("d"))),
    "linear_int8": (int8_layer, int8_layer_reference, (C, 1 + V[:1] * B, B), (P("d"), P("t"), P("t"))),
    "sum_over": (functools.partial(reduce.sum_over, axis=0), lambda x: x.sum(0), (X,), (P("d", "t"),)),
    "sum_over all": (reduce.sum_over, jnp.sum, (X,), (P("d", "t"),)),
    "sum_over, an axis between": (
        functools.partial(reduce.sum_over, axis=1),
        lambda x: x.sum(1),
        (C,),
        (P("d", "t"),),
    ),
    "max_over": (functools.partial(reduce.max_over, axis=-1), lambda x: x.max(-1), (X,), (P("d", "t"),)),
    "cumsum": (scan.cumsum, scan.reference, (X,), (P("d"),)),
    "cumsum, its axis cut": (scan.cumsum, scan.reference, (X,), (P("d", "t"),)),
    "cumsum, its axis cut, in reverse": (
        functools.partial(scan.cumsum, reverse=True),
        functools.partial(scan.reference, reverse=True),
        (X,),
        (P("d", ("t", "e")),),
    ),
}


def loss(fn, count):
    return lambda *a: sum((jnp.sin(leaf) ** 2).sum() for leaf in jax.tree.leaves(fn(*a)))


def gradient(fn, count):
    return jax.grad(loss(fn, count), tuple(range(count)))


def second(fn, count):
    squares = loss(gradient(fn, count), count)
    return jax.grad(squares, tuple(range(count)))


def over_a_batch(fn, count):
    return jax.vmap(fn, (0,) + (None,) * (count - 1))


def scanned(fn, count):
    def turn(total, _):
        return total + loss(fn, count)(*turn.operands), None

    def run(*operands):
        turn.operands = operands
        return jax.lax.scan(turn, 0.0, None, length=2)[0]

    return run


def jvp(fn, count):
    """Forwards, along tangents that are no constants."""
    return lambda *a: jax.jvp(loss(fn, count), a, tuple(jnp.cos(3 * x) for x in a))[1]


def hessian_times_vector(fn, count):
    """Forwards over reverse, as jax.hessian goes."""
    return lambda *a: jax.jvp(gradient(fn, count), a, tuple(jnp.cos(3 * x) for x in a))[1]


TRANSFORMATIONS = {
    "value": lambda fn, count: fn,
    "gradient": gradient,
    "second derivative": second,
    "jvp": jvp,
    "hessian times vector": hessian_times_vector,
    "remat": lambda fn, count: gradient(jax.checkpoint(fn), count),
    "scan": scanned,
    "vmap": over_a_batch,
    "vmap, and its gradient": lambda fn, count: gradient(over_a_batch(fn, count), count),
    "vmap of the gradient": lambda fn, count: over_a_batch(gradient(fn, count), count),
}
SETUPS = (
    "one device",
    "eager",
    "Explicit",
    "layout",
    "Auto",
    "shard_map",
    "shard_map, types checked",
    "shard_map in part",
)


def mesh(kind: str) -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("d", "t", "e"), axis_types=(getattr(AxisType, kind),) * 3)


def cut_by_rows(operands, specs):
    """As a shard_map here cuts them: arrays by their first axis, so that its body has whole rows and weights."""
    rows = next(operand.shape for operand in operands if operand.ndim > 1)
    pairs = zip(operands, specs, strict=True)
    return tuple(
        P("d") if operand.shape[:1] == rows[:1] and tuple(spec)[:1] == ("d",) else P() for operand, spec in pairs
    )


def outcome(name: str, setup: str, transformation: str) -> str:
    """Whether it is right; behind that "plain", where a warning says that plain JAX runs instead of the kernel."""
    (fn, reference, operands, specs), change = CASES[name], TRANSFORMATIONS[transformation]
    count = len(operands)
    on = mesh("Explicit" if setup in ("Explicit", "eager", "shard_map in part") else "Auto")
    if setup == "layout":
        fn = functools.partial(fn, layout=specs)
    elif setup.startswith("shard_map"):
        specs, some = cut_by_rows(operands, specs), {"axis_names": {"d"}} if setup.endswith("in part") else {}
        fn = jax.shard_map(fn, mesh=on, in_specs=specs, out_specs=P("d"), check_vma=setup.endswith("checked"), **some)
    if transformation.startswith("vmap"):
        operands, specs = (np.stack([operands[0]] * 2), *operands[1:]), (P(None, *specs[0]), *specs[1:])
    run, wanted = change(fn, count), jax.jit(change(reference, count))(*operands)
    if setup != "one device":
        operands = [jax.device_put(x, NamedSharding(on, spec)) for x, spec in zip(operands, specs, strict=True)]
    known = jax.set_mesh(on) if setup in ("layout", "eager") else contextlib.nullcontext()
    with warnings.catch_warnings(record=True) as said, known:
        warnings.simplefilter("always")
        found = (run if setup == "eager" else jax.jit(run))(*operands)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        within = 2e-3 * max(1e-3, np.abs(np.asarray(theirs)).max())
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=2e-3, atol=within)
    return "right" + " plain" * any("plain JAX" in str(warning.message) for warning in said)


def kernels_here() -> None:
    """From now on a CPU takes the side of a TPU, and Pallas interprets the kernels."""
    lower = functools.partial(launch.lower_for, "run_tpu")
    mlir.register_lowering(launch.PRIMITIVE, lower, platform="cpu")
    pl.pallas_call = functools.partial(pl.pallas_call, interpret=True)


def not_interpreted(name: str, setup: str) -> bool:
    return name == "matmul_pipelined" or setup in ("shard_map, types checked", "shard_map in part")


def main() -> None:
    cases = sorted(json.load(sys.stdin), key=lambda case: not not_interpreted(*case[:2]))
    interpreting = False
    for name, setup, transformation in cases:
        if not interpreting and not not_interpreted(name, setup):
            kernels_here()
            interpreting = True
        try:
            result = outcome(name, setup, transformation)
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        print(json.dumps([name, setup, transformation, result]), flush=True)


if __name__ == "__main__":
    main()
