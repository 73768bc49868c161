"""Paged attention: one query per sequence, whose keys and values lie in pages all over the pool.

Which page comes next is looked up in a table; pages are copied by hand, one ahead, into two slots.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import normal
from zoo.bug import Bug

PAGE, ROWS, D = 16, 8, 128  # tokens; queries, heads that share keys; numbers of each
MASKED = -1e30
dot = partial(jnp.dot, precision=lax.Precision.HIGHEST)


def whole_and_begun(length):
    return pl.cdiv(length, PAGE)


def whole_alone(length):
    return length // PAGE


def page_of_sequence(table, b, i):
    return table[b, i]


def page_of_token(table, b, i):
    return table[b, jnp.minimum(i * PAGE, table.shape[1] - 1)]


def page_of_first(table, b, i):
    return table[0, i]


def before_the_end(at, length):
    return at < length


def anything(at, length):
    return at >= 0


def paged(
    lengths,
    table,
    q,
    pages,
    pages_of=whole_and_begun,
    page=page_of_sequence,
    live=before_the_end,
    read=lambda i: i % 2,
    waits=lambda i: i % 2,
    ahead_into=lambda i: i % 2,
    guarded=True,
    clean=True,
):
    """softmax(q @ k.T / sqrt(D)) @ v for each sequence b, over the first lengths[b] tokens of its pages."""

    def paged_kernel(len_ref, table_ref, q_ref, pages_ref, o_ref, buf, sem):
        b = pl.program_id(0)
        length = len_ref[b]
        count = pages_of(length)

        def copy(i, slot):
            return pltpu.make_async_copy(pages_ref.at[page(table_ref, b, i)], buf.at[slot], sem.at[slot])

        copy(0, 0).start()

        def one(i, carried):
            m, total, acc = carried

            def start_next():
                copy(i + 1, ahead_into(i + 1)).start()

            pl.when(i + 1 < count)(start_next) if guarded else start_next()
            pltpu.make_async_copy(pages_ref.at[page(table_ref, b, i)], buf.at[i % 2], sem.at[waits(i)]).wait()
            at = i * PAGE + lax.broadcasted_iota(jnp.int32, (ROWS, PAGE), 1)
            s = jnp.where(live(at, length), dot(q_ref[0], buf[read(i), 0].T) * D**-0.5, MASKED)
            v = buf[read(i), 1]
            v = jnp.where(i * PAGE + lax.broadcasted_iota(jnp.int32, v.shape, 0) < length, v, 0) if clean else v
            new = jnp.maximum(m, s.max(1, keepdims=True))
            p, shrink = jnp.exp(s - new), jnp.exp(m - new)
            return new, total * shrink + p.sum(1, keepdims=True), acc * shrink + dot(p, v)

        begun = jnp.full((ROWS, 1), MASKED), jnp.zeros((ROWS, 1)), jnp.zeros((ROWS, D))
        _, total, acc = lax.fori_loop(0, count, one, begun)
        o_ref[0] = acc / total

    spec = pl.BlockSpec((1, ROWS, D), lambda b, lengths, table: (b, 0, 0))
    return pl.pallas_call(
        paged_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(q.shape[0],),
            in_specs=[spec, pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=spec,
            scratch_shapes=[pltpu.VMEM((2, 2, PAGE, D), pages.dtype), pltpu.SemaphoreType.DMA((2,))],
        ),
    )(lengths, table, q, pages)


def in_jax(lengths, table, q, pages):
    k, v = (pages[table, n].reshape(table.shape[0], -1, D) for n in (0, 1))
    live = jnp.arange(k.shape[1]) < lengths[:, None]
    s = jnp.einsum("bgd,btd->bgt", q, k, precision="highest") * D**-0.5
    p = jax.nn.softmax(jnp.where(live[:, None], s, -jnp.inf), -1)
    return jnp.einsum("bgt,btd->bgd", p, jnp.where(live[..., None], v, 0), precision="highest")


LENGTHS = np.array([40, 24], np.int32)
TABLE = np.array([[5, 2, 7], [1, 4, 0]], np.int32)
Q, PAGES = normal(2, ROWS, D, seed=1), normal(8, 2, PAGE, D, seed=2)
UNFILLED = PAGES.copy()
for _b, _length in enumerate(LENGTHS):  # the rest of the last page has not been written yet
    UNFILLED[TABLE[_b, _length // PAGE], :, _length % PAGE :] = np.nan
ARGS = (LENGTHS, TABLE, Q, PAGES)

BUGS = tuple(
    Bug(kind="paged attention", name=name, fn=fn, reference=in_jax, args=args, caught_by=by, says=says)
    for name, fn, args, by, says in (
        (
            "the slot of the page before",
            partial(paged, read=lambda i: (i + 1) % 2),
            ARGS,
            "numbers",
            r"reads buf\[1\] before it has waited for the copy of pages_ref into it",
        ),
        (
            "the page begun last is left out",
            partial(paged, pages_of=whole_alone),
            ARGS,
            "numbers",
            r"the last block of 16 keys is left out if it is not full(?s:.*)pl\.cdiv",
        ),
        (
            "tokens past the end",
            partial(paged, live=anything),
            ARGS,
            "numbers",
            r"all of the partial last block of 16 keys count, including those past the end",
        ),
        (
            "table by token",
            partial(paged, page=page_of_token),
            ARGS,
            "numbers",
            r"table is indexed by an element, not by its block",
        ),
        (
            "table of the first sequence",
            partial(paged, page=page_of_first),
            ARGS,
            "numbers",
            r"the first row of table is used for every row",
        ),
        (
            "waits for the other slot",
            partial(paged, waits=lambda i: (i + 1) % 2),
            ARGS,
            "simulator",
            r"waits on sem\[1\] for a copy into buf, .* the one into buf\[0\] signals sem\[0\]",
        ),
        (
            "next page into the slot in use",
            partial(paged, ahead_into=lambda i: (i + 1) % 2),
            ARGS,
            "numbers",
            r"waits on sem\[1\] for a copy into buf, but nothing has started one",
        ),
        (
            "a page after the last",
            partial(paged, guarded=False),
            ARGS,
            "simulator",
            r"starts a copy into buf\[1\] while another copy into it is under way",
        ),
        (
            "unfilled values times 0",
            partial(paged, clean=False),
            (*ARGS[:3], UNFILLED),
            "numbers",
            r"pages\[4, 0, 8, 0\] is NaN and must not count(?s:.*)0 \* NaN is NaN",
        ),
    )
)
