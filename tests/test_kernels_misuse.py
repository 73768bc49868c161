"""What a wrong call is told: one error each, with the op, the argument, what it was, what it may be, what to try.

A row is a call and what its error must say. More rows are welcome.
"""

import types

import jax
import jax.numpy as jnp
import kernel_calls
import pytest
from jax.sharding import PartitionSpec as P
from kernel_calls import NAMES

from course_lib import bench, grid
from course_lib.kernels import (
    attention,
    block_sparse,
    elementwise,
    grouped,
    linear,
    linear_int8,
    matmul,
    matmul_one_block,
    matmul_pipeline,
    norm,
    paged_attention,
    paged_attention_wrappers,
    reduce,
    scan,
    softmax,
)

X, V = jnp.ones((128, 128)), jnp.ones(128)
H, IDS = jnp.ones((4, 128, 8)), jnp.zeros(128, "int32")  # heads, and numbers of segments
PAGED = jnp.ones((3, 4, 8)), jnp.ones((5, 2, 16, 16)), jnp.ones(3, "int32"), jnp.ones((3, 6), "int32")
QUERIES, PAGES, LENGTHS, TABLE = PAGED
Q = linear_int8.quantize(X)
ONE = block_sparse.from_mask([[True]])
WHOLE = "matmul_one_block"  # an op without blocks


@pytest.mark.parametrize("family, op", [tuple(name.split(".")) for name in NAMES if name != f"{WHOLE}.{WHOLE}"])
def test_blocks_of_no_kind_of_its_own(family, op):
    """A tuple, a dict, and those of another family."""
    others = matmul.Blocks() if family == "norm" else norm.Blocks(bm=8)
    args, named = kernel_calls.arguments(family, op, X, X)
    for blocks, was in (((8, 128), "(8, 128)"), ({"bm": 8}, "{'bm': 8}"), (others, f"{others}, of ")):
        with pytest.raises(ValueError) as error:
            getattr(kernel_calls.module(family), op)(*args, **named, blocks=blocks)
        said = str(error.value)
        assert said.startswith(f"{op}: blocks is {was}") and "; it may be " in said and "Try blocks=" in said
        assert ".Blocks(...), or None" in said


WRONG = {
    # sizes of blocks
    "bm is no number": (
        lambda: matmul.Blocks(bm="a"),
        ["bm is 'a'", "must be a whole number, and a multiple of 8", "Try bm=8"],
    ),
    "bm is a bool": (lambda: elementwise.Blocks(bm=True), ["bm is True", "whole number, and a multiple of 8"]),
    "bm is no whole number": (lambda: norm.Blocks(bm=8.0), ["bm is 8.0", "whole number"]),
    "bm is None": (lambda: reduce.Blocks(bm=None), ["bm is None", "whole number"]),
    "bm is negative": (lambda: norm.Blocks(bm=-8), ["Blocks(bm=-8) is not legal", "Nearest legal: bm=8"]),
    # dtypes
    "cast to None": (
        lambda: elementwise.cast(X, None),
        ["cast: dtype is None", "may be float32, bfloat16, int32 or int8", "Try jnp.bfloat16"],
    ),
    "cast to nonsense": (lambda: elementwise.cast(X, "nonsense"), ["cast: dtype is 'nonsense'", "may be float32"]),
    "cast to an array": (lambda: elementwise.cast(X, V), ["cast: dtype is an array, float32 of shape (128,)"]),
    "cast to float16": (lambda: elementwise.cast(X, "float16"), ["cast: dtype is float16", "may be float32"]),
    # activations
    "activation is a function": (
        lambda: linear.linear(X, X, activation=jax.nn.relu),
        ["linear: activation is ", "may be one of 'none', 'relu'", "Try activation=None"],
    ),
    "activation is a list": (lambda: linear.linear(X, X, activation=["relu"]), ["linear: activation is ['relu']"]),
    "activation is a number": (lambda: linear.linear(X, X, activation=3), ["linear: activation is 3", "'gelu_tanh'"]),
    "activation of linear_int8": (
        lambda: linear_int8.linear_int8(X, *Q, activation="tanh"),
        ["linear_int8: activation is 'tanh'", "may be one of"],
    ),
    "residuals": (
        lambda: linear.linear(X, X, residuals="keep"),
        ["linear: residuals='keep'", "may be 'save' or 'recompute'"],
    ),
    # precision
    "precision of matmul": (
        lambda: matmul.matmul(X, X, precision="nonsense"),
        ["matmul: precision is 'nonsense'", "may be 'default' (one pass of the MXU), 'high' (three) or 'highest'"],
    ),
    "precision is a list": (lambda: matmul.matmul(X, X, precision=[3]), ["matmul: precision is [3]", "Try precision="]),
    "precision is a pair": (
        lambda: matmul.matmul(X, X, precision=("high", "default")),
        ["matmul: precision is ('high', 'default')"],
    ),
    **{
        f"precision of {name}": (lambda call=call: call("most"), [f"{name}: precision is 'most'"])
        for name, call in {
            "matmul_transposed": lambda p: matmul.matmul_transposed(X, X, precision=p),
            "matmul_one_block": lambda p: matmul_one_block.matmul_one_block(X, X, precision=p),
            "matmul_pipelined": lambda p: matmul_pipeline.matmul_pipelined(X, X, precision=p),
            "linear": lambda p: linear.linear(X, X, precision=p),
            "linear_int8": lambda p: linear_int8.linear_int8(X, *Q, precision=p),
            "dsd": lambda p: block_sparse.dsd(X[None], ONE, X, precision=p),
            "sdd": lambda p: block_sparse.sdd(X, X, ONE, precision=p),
        }.items()
    },
    # axes
    "axis of softmax": (
        lambda: softmax.softmax(X, 2),
        ["softmax: axis is 2", "shape (128, 128)", "whole number from -2 to 1", "Try axis=-1"],
    ),
    "axis of softmax is None": (lambda: softmax.softmax(X, None), ["softmax: axis is None"]),
    "axis of softmax is a tuple": (lambda: softmax.softmax(X, (0, 1)), ["softmax: axis is (0, 1)"]),
    "axis is a bool": (
        lambda: reduce.sum_over(X, True),
        ["sum_over: axis is True", "whole number from -2 to 1, a tuple of such, each axis once, or None"],
    ),
    "axis is no whole number": (lambda: reduce.max_over(X, 1.0), ["max_over: axis is 1.0"]),
    "axis is a string": (lambda: reduce.sum_over(X, "rows"), ["sum_over: axis is 'rows'"]),
    "axis is a list": (lambda: reduce.sum_over(X, [0]), ["sum_over: axis is [0]"]),
    "axis is named twice": (lambda: reduce.sum_over(X, (1, -1)), ["sum_over: axis is (1, -1)", "each axis once"]),
    "axis of cumsum": (lambda: scan.cumsum(X, 2), ["cumsum: axis is 2", "shape (128, 128)"]),
    # eps
    "eps is None": (lambda: norm.rms_norm(X, V, None), ["rms_norm: eps is None", "one real number", "Try eps=1e-6"]),
    "eps is a string": (lambda: norm.layer_norm(X, V, V, "small"), ["layer_norm: eps is 'small'"]),
    "eps is a vector": (
        lambda: norm.rms_norm(X, V, V),
        ["rms_norm: eps is an array, float32 of shape (128,)", "one real"],
    ),
    "eps is differentiated": (
        lambda: jax.grad(lambda eps: norm.rms_norm(X, V, eps).sum())(1e-6),
        ["rms_norm: eps is differentiated, and has no gradient", "Try jax.lax.stop_gradient(eps)"],
    ),
    # attention
    **{
        f"attention, {what}": (lambda args=args, named=named: attention.flash_attention(*args, **named), says)
        for what, (args, named, says) in {
            "dtypes": ((X, X, X.astype("bfloat16")), {}, ["v bfloat16; all must be float32", "Try k.astype"]),
            "lengths": ((X, X, X[:5]), {}, ["v (5, 128); they must be (..., S, D), (..., T, D) and (..., T, E)"]),
            "sizes": ((X, X[:, :64], X), {}, ["as many elements. Try q[..., :64]"]),
            "heads": ((X[None], X[None, None], X[None, None]), {}, ["heads in front", "q.swapaxes(-3, -2)"]),
            "groups": ((H[:3], H[:2], H[:2]), {}, ["its 3 query heads must be a multiple of the 2 KV heads"]),
            "causal": ((X, X, X), {"causal": 1}, ["causal is 1; it may be True or False"]),
            "causal lengths": ((X[:5], X, X), {"causal": True}, ["5 positions and k 128", "pad q in front with zeros"]),
            "window": ((X, X, X), {"causal": True, "window": 0}, ["window is 0; it may be a number of keys from 1 on"]),
            "window alone": ((X, X, X), {"window": 5}, ["a window of 5 keys ends at", "Try causal=True"]),
            "softcap": ((X, X, X), {"softcap": -1.0}, ["softcap is -1.0; it may be a number above zero"]),
            "scale": ((X, X, X), {"scale": V[0]}, ["scale is an array, float32 of shape ()", "Try scale=128**-0.5"]),
            "segments": ((X, X, X), {"segments": V}, ["segments is float32; it may be int32. Try segments.astype("]),
            "three segments": ((X, X, X), {"segments": (V, V, V)}, ["segments are 3 arrays; they may be one, or two"]),
            "segments of heads": ((H, H, H), {"segments": IDS[None]}, ["shape (1, 128); for q of", "must be (128,)"]),
            "segments of keys": (
                (X, X, X),
                {"segments": (IDS, IDS[:5])},
                ["segments[1] has shape (5,)", "without heads"],
            ),
            "precision": ((X, X, X), {"precision": 3}, ["flash_attention: precision is 3"]),
        }.items()
    },
    # pages
    **{
        f"pages, {what}": (lambda args=args, named=named: paged_attention.paged_attention(*args, **named), says)
        for what, (args, named, says) in {
            "axes": ((QUERIES, PAGES[0], LENGTHS, TABLE), {}, ["pages (2, 16, 16); they must be", "(N, KH, P, 2*D)"]),
            "an odd one": ((QUERIES, PAGES[..., :15], LENGTHS, TABLE), {}, ["a key and its value, and 15 is odd"]),
            "elements": ((QUERIES, PAGES[..., :8], LENGTHS, TABLE), {}, ["a query has 8 elements and a key 4"]),
            "heads": (
                (QUERIES[:, :3], PAGES, LENGTHS, TABLE),
                {},
                ["the 3 query heads must be a multiple of the 2"],
            ),
            "dtypes": (
                (QUERIES.astype("bfloat16"), PAGES, LENGTHS, TABLE),
                {},
                ["q is bfloat16 and pages float32; pages must be as q, or int8 with scales", "Try q.astype"],
            ),
            "int8 without scales": (
                (QUERIES, PAGES.astype("int8"), LENGTHS, TABLE),
                {},
                ["the pages are int8, without scales. Try scales=jnp.ones((2, KH))"],
            ),
            "scales without int8": ((*PAGED, jnp.ones((2, 2))), {}, ["scales are for int8. Try scales=None"]),
            "scales": (
                (QUERIES, PAGES.astype("int8"), LENGTHS, TABLE, jnp.ones(2)),
                {},
                ["scales has shape (2,); it must be (2, 2)", "Try jnp.broadcast_to"],
            ),
            "lengths": (
                (QUERIES, PAGES, LENGTHS[:2], TABLE),
                {},
                ["lengths has shape (2,)", "it must be (3,): how many"],
            ),
            "lengths as floats": ((QUERIES, PAGES, V[:3], TABLE), {}, ["lengths is float32; it may be int32"]),
            "table": ((QUERIES, PAGES, LENGTHS, TABLE[0]), {}, ["table has shape (6,)", "it must be (3, M): a row"]),
            "window": (
                PAGED,
                {"window": 2.0},
                ["paged_attention: window is 2.0; it may be a number of keys from 1 on"],
            ),
            "softcap": (PAGED, {"softcap": 0}, ["paged_attention: softcap is 0; it may be a number above zero"]),
            "precision": (PAGED, {"precision": 3}, ["paged_attention: precision is 3"]),
        }.items()
    },
    "no blocks at all": (lambda: paged_attention.Blocks(pages=0), ["pages=0", "Nearest legal: pages=1"]),
    "pages apart of two shapes": (
        lambda: paged_attention_wrappers.paged_attention(QUERIES, PAGES, PAGES[:1], LENGTHS, TABLE),
        ["v_pages (1, 2, 16, 16); they must be", "twice (KH, N, P, D), heads in front", "k_pages.swapaxes(0, 1)"],
    ),
    "pages with a scale for each token": (
        lambda: paged_attention_wrappers.paged_attention(
            QUERIES, types.SimpleNamespace(weight=PAGES, scales=PAGES), PAGES, LENGTHS, TABLE
        ),
        ["k_pages is a QuantizedTensor", "it must be an array", "Try unquantize_from_int8"],
    ),
    "a window of pages": (
        lambda: paged_attention_wrappers.ragged_paged_attention(
            jnp.ones((3, 8, 16)), PAGES, LENGTHS, TABLE, jnp.arange(4), jnp.int32([3]), sliding_window=0
        ),
        [
            "ragged_paged_attention: sliding_window is 0; it may be a number of keys from 1 on",
            "Try sliding_window=1024.",
        ],
    ),
    "pages by token that are none": (
        lambda: paged_attention_wrappers.ragged_paged_attention(
            QUERIES, PAGES[0].astype("int8"), LENGTHS, TABLE, jnp.arange(4), jnp.int32([3])
        ),
        ["ragged_paged_attention: q has shape (3, 4, 8) and kv_pages (2, 16, 16)", "(N, P, 2*KH, D)"],
    ),
    "a scale of pages that are not int8": (
        lambda: paged_attention_wrappers.ragged_paged_attention(
            QUERIES, jnp.ones((5, 16, 4, 8)), LENGTHS, TABLE, jnp.arange(4), jnp.int32([3]), k_scale=2.0
        ),
        ["k_scale is 2.0, and kv_pages are float32; it is for int8 pages. Try k_scale=None."],
    ),
    "a scale for each head of other libraries' pages": (
        lambda: paged_attention_wrappers.ragged_paged_attention(
            QUERIES,
            jnp.ones((5, 16, 4, 8), jnp.int8),
            LENGTHS,
            TABLE,
            jnp.arange(4),
            jnp.int32([3]),
            v_scale=[1.0, 2.0],
        ),
        ["ragged_paged_attention: v_scale is [1.0, 2.0]; it may be a number, one for all heads, or None. Try 1.0."],
    ),
    "pages apart in int8": (
        lambda: paged_attention_wrappers.paged_attention(
            QUERIES, PAGES.astype("int8"), PAGES.astype("int8"), LENGTHS, TABLE
        ),
        ["paged_attention: k_pages is int8; it may be float32 or bfloat16."],
    ),
    "a pool without pages": (
        lambda: paged_attention.paged_attention(QUERIES, PAGES[:0], LENGTHS, TABLE),
        ["pages (0, 2, 16, 16); there must be one page at least"],
    ),
    "pages of an odd number of tokens": (
        lambda: grid.trace(
            paged_attention.paged_attention, jnp.ones((3, 32, 128)), jnp.ones((9, 8, 257, 256)), LENGTHS, TABLE
        ),
        ["pages have 257 tokens, so 128 of them make whole registers", "Try pages of 16, 32, 64 or 128 tokens."],
    ),
    "groups of rows too deep for VMEM": (
        lambda: grid.trace(
            grouped.grouped_matmul, jnp.ones((8, 300_000)), jnp.ones((1, 300_000, 128)), jnp.zeros(1, int)
        ),
        ["grouped_matmul: K is 300000", "MiB. Try K in parts, and add: grouped_matmul(x[:, :n], w[:, :n], sizes) +"],
    ),
    "groups that the scalar memory does not hold": (
        lambda: grid.trace(
            grouped.grouped_matmul, jnp.ones((8, 8)), jnp.ones((100_000, 8, 8), jnp.float32), jnp.zeros(100_000, int)
        ),
        ["sizes has 100000 groups, and x 8 rows", "250000 fit into the chip's scalar memory. Try several calls"],
    ),
    "no sequences": (
        lambda: paged_attention_wrappers.ragged_paged_attention(
            QUERIES, PAGES, LENGTHS, TABLE, jnp.arange(3), jnp.int32([3])
        ),
        ["cu_q_lens (3,)", "they must be (S,), (S, M), (S + 1,), (1,) and (T, H, D), S 1 or more"],
    ),
    # layouts
    "layout is a string": (
        lambda: elementwise.add(X, X, layout="data"),
        ["add: layout is 'data'", "must be a PartitionSpec, or a tuple", "Try layout="],
    ),
    "layout is a list": (lambda: softmax.softmax(X, layout=[P("data")]), ["softmax: layout is [", "PartitionSpec"]),
    "layout for too many": (
        lambda: softmax.softmax(X, layout=(P(), P())),
        ["softmax: layout has 2 PartitionSpecs", "there are 1 operands"],
    ),
    "layout of too many axes": (
        lambda: softmax.softmax(X, layout=P("data", None, "model")),
        ["softmax: layout has", "for operand 0, of shape (128, 128)"],
    ),
    "layout of numbers": (
        lambda: softmax.softmax(X, layout=P(3)),
        ["softmax: layout is P(3", "must be a PartitionSpec"],
    ),
    "layout without a mesh": (
        lambda: softmax.softmax(X, layout=P("data")),
        ["softmax: layout names {'data'}", "Try jax.set_mesh(mesh)"],
    ),
    # bench
    "no candidates": (lambda: bench.autotune(matmul.matmul, X, X, candidates=[]), ["autotune: candidates is empty"]),
    "candidates is None": (
        lambda: bench.autotune(matmul.matmul, X, X, candidates=None),
        ["autotune: candidates=None is not a list of blocks", "Give some"],
    ),
    "candidates is one": (
        lambda: bench.autotune(matmul.matmul, X, X, candidates=matmul.Blocks()),
        ["autotune: candidates=Blocks(", "is not a list of blocks"],
    ),
    "autotune of nothing": (
        lambda: bench.autotune(None, X, X, candidates=[matmul.Blocks()]),
        ["autotune: op is None", "must be a function that takes blocks=", "Try matmul.matmul"],
    ),
    "autotune with another keyword": (
        lambda: bench.autotune(matmul.matmul, X, X, candidates=[matmul.Blocks()], activation="relu"),
        ["autotune: matmul cannot be called like this", "'activation'", "precision"],
    ),
    "measure nothing": (
        lambda: bench.measure(None),
        ["measure: fn is None", "must be a function", "Try bench.measure"],
    ),
}


@pytest.mark.parametrize("call, says", WRONG.values(), ids=WRONG)
def test_what_a_wrong_call_is_told(call, says):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    said = str(error.value)
    assert [words for words in says if words not in said] == [], said
    assert len(said) < 500
