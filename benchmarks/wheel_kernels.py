"""The JAX wheel's TPU kernels and what the four judges say about them: the table of docs/your_kernels.md.

    python benchmarks/wheel_kernels.py            in the terminal
    python benchmarks/wheel_kernels.py --write    and write it to the page, between its marks

It takes about a minute. Sizes are small for the judges, and those of a model for a predicted time.
"""

import argparse
import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import compiler, judges, text

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/your_kernels.md"
HEAD = ("kernel", "arrays", *judges.JUDGES, "predicted (compiler), v5e")
F32, BF16 = jnp.float32, jnp.bfloat16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A kernel of the wheel with its reference. ``load`` imports it; ``large``: the arguments for a predicted time."""

    load: Callable[[], Callable]
    reference: Callable
    args: tuple
    arrays: str
    large: tuple = ()
    large_arrays: str = ""


def array(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def matmul() -> Callable:
    from jax.experimental.pallas.ops.tpu.matmul import matmul

    def product(x, y):
        block = min(512, x.shape[0] // 2)
        return matmul(x, y, block_shape=(block, block), block_k=block)

    return product


def flash() -> Callable:
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    return functools.partial(flash_attention, causal=True)


def splash() -> Callable:
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    def attention(q, k, v):
        heads, length, _ = q.shape
        mask = masks.MultiHeadMask([masks.CausalMask((length, length))] * heads)
        blocks = kernels.BlockSizes(block_q=128, block_kv=128, block_kv_compute=128)
        return kernels.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=blocks)(q, k, v)

    return attention


def paged() -> Callable:
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

    return functools.partial(paged_attention, pages_per_compute_block=2)


def grouped() -> Callable:
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

    return gmm


def causal(q, k, v):
    """Return softmax(q kᵀ) v in f32, where a query sees the keys up to its own place. Heads and batches lead."""
    length = q.shape[-2]
    scores = jnp.einsum("...qd,...kd->...qk", q, k, preferred_element_type=F32)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores, axis=-1), v)


def by_pages(q, k_pages, v_pages, lengths, table):
    """Attend with one query per sequence to the pages that its row of ``table`` names; all in f32."""
    groups = q.shape[1] // k_pages.shape[0]

    def one(q, length, pages):
        k, v = (jnp.repeat(a[:, pages].reshape(a.shape[0], -1, a.shape[-1]), groups, 0) for a in (k_pages, v_pages))
        scores = jnp.einsum("hd,hkd->hk", q.astype(F32), k.astype(F32))
        scores = jnp.where(jnp.arange(scores.shape[1]) < length, scores, -jnp.inf)
        return jnp.einsum("hk,hkd->hd", jax.nn.softmax(scores, axis=-1), v.astype(F32))

    return jax.vmap(one)(q, lengths, table).astype(q.dtype)


def pages(dtype) -> tuple:
    """Return 8 query heads and 2 key heads; sequences of 50 and 64 tokens, in shuffled pages of 16."""
    table = np.array([[3, 1, 4, 5], [9, 2, 6, 7]], np.int32)
    store = array(2, 16, 16, 128, dtype=dtype)
    return array(2, 8, 128), store, store, np.array([50, 64], np.int32), table


HEADS = array(1, 2, 256, 128)
MODEL = array(1, 8, 2048, 128, dtype=BF16)
CASES = {
    "matmul": Case(
        load=matmul,
        reference=jnp.matmul,
        args=(array(512, 512), array(512, 512)),
        arrays="f32[512, 512] twice",
        large=(array(4096, 4096, dtype=BF16),) * 2,
        large_arrays="bf16, 4096 each way",
    ),
    "flash attention, causal": Case(
        load=flash,
        reference=causal,
        args=(HEADS,) * 3,
        arrays="f32[1, 2, 256, 128] three times",
        large=(MODEL,) * 3,
        large_arrays="bf16[1, 8, 2048, 128]",
    ),
    "splash attention, causal": Case(
        load=splash, reference=causal, args=(array(2, 256, 128),) * 3, arrays="f32[2, 256, 128] three times"
    ),
    "paged attention": Case(load=paged, reference=by_pages, args=pages(F32), arrays="pages of f32"),
    "paged attention, narrow pages": Case(load=paged, reference=by_pages, args=pages(BF16), arrays="pages of bf16"),
    "grouped product": Case(
        load=grouped,
        reference=jax.lax.ragged_dot,
        args=(array(256, 128), array(3, 128, 128), np.array([100, 0, 156], np.int32)),
        arrays="256 rows in groups of 100, 0 and 156",
    ),
}


def verdicts(name: str) -> list[judges.Verdict]:
    """Return what the judges say of a case."""
    case = CASES[name]
    return judges.judge(case.load(), case.reference, *judges.drawn(case.args))


def row(name: str) -> tuple[str, ...]:
    """Return a row of the table."""
    case, said = CASES[name], {verdict.judge: verdict for verdict in verdicts(name)}
    words = {True: "passed", False: "**refused**", None: "skipped"}
    marks = (words[said[judge].passed] if judge in said else "" for judge in judges.JUDGES)
    return name, case.arrays, *marks, predicted(case)


def predicted(case: Case) -> str:
    if not case.large:
        return ""
    report = compiler.compile_tpu(case.load(), *case.large)
    bound = "the core" if report.bound == "core" else report.bound
    return f"{case.large_arrays}: {text.duration(report.seconds)}, bound by {bound}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/your_kernels.md too")
    arguments = parser.parse_args(argv)
    jax.config.update("jax_platforms", "cpu")
    rows = [HEAD, tuple("---" for _ in HEAD), *map(row, CASES)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    print(table)
    if arguments.write:
        PAGE.write_text(with_table(PAGE.read_text(), table))


def with_table(page: str, table: str) -> str:
    """Return the page with another table between its marks."""
    return re.sub(r"(?s)(<!-- wheel -->\n).*(<!-- end of wheel -->)", lambda m: f"{m[1]}{table}\n{m[2]}", page)


if __name__ == "__main__":
    main()
