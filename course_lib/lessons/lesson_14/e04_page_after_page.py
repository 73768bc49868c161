"""Online softmax over the pages of several sequences."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of

LENGTHS = ((40, 16, 0, 25), (5, 48), (64, 33, 17), (0, 1))


def _cases() -> list[tuple]:
    """Return ragged lengths, full pages and empty sequences.

    From the second case to the fourth, rows without a token hold NaN. In the fifth the scores are far below 0. In the
    last, those of a first page are hundreds above the others.
    """
    cases = [
        (of.queries(seed, len(each), 4, of.D), *of.pool(seed, each, stale=np.nan if seed else 0.5))
        for seed, each in enumerate(LENGTHS)
    ]
    q, pages, lengths, table = cases[1]
    low = of.pool(1, LENGTHS[1], stale=0.5)[0].at[..., : of.D].add(-8)
    high = pages.at[table[1, 0], :, : of.D].add(30)
    return [*cases, (abs(q) + 1, low, lengths, table), (abs(q) + 1, high, lengths, table)]


def _decode(q, pages, lengths, table):
    return of.attention(q, of.rows_of(pages, table), lengths)


def _by_page(
    q,
    pages,
    lengths,
    table,
    *,
    rescaled_l=True,
    rescaled_acc=True,
    carried=True,
    masked=True,
    kept_l=True,
    kept_acc=True,
    divided=False,
):
    """Return online softmax page by page, with something left out; ``divided``: by l at each page."""
    rows = of.kept(of.rows_of(pages, table), lengths)
    m = jnp.full((*q.shape[:2], 1), -jnp.inf)
    total, acc = jnp.zeros_like(m), jnp.zeros(q.shape)
    for j in range(0, rows.shape[1], of.PAGE):
        k, v = jnp.split(rows[:, j : j + of.PAGE], 2, axis=-1)
        there = (j + jnp.arange(of.PAGE))[None, None] < lengths[:, None, None]
        some = (lengths > j)[:, None, None]
        s = jnp.einsum("bgd,btd->bgt", q, k, precision="highest") / jnp.sqrt(of.D)
        s = jnp.where(there | (not masked), s, -jnp.inf)
        new = jnp.maximum(m, s.max(axis=-1, keepdims=True)) if carried else s.max(axis=-1, keepdims=True)
        new = jnp.where(some, new, m)
        p = jnp.where(some, jnp.exp(s - jnp.where(some, new, 0)), 0)
        shrink = jnp.where(some & (m > -jnp.inf), jnp.exp(m - jnp.where(some, new, 0)), 1)
        shrink = shrink if carried else 1.0
        of_page = jnp.where(some & (not kept_l), 0, total)
        total = of_page * (shrink if rescaled_l else 1.0) + p.sum(axis=-1, keepdims=True)
        pv = jnp.einsum("bgt,btd->bgd", p, v, precision="highest")
        pv = pv / jnp.where(total == 0, 1, total) if divided else pv
        acc = jnp.where(some & (not kept_acc), 0, acc) * (shrink if rescaled_acc else 1.0) + pv
        m = new
    return acc if divided else acc / jnp.where(total == 0, 1, total)


def _slip(means: str, next: str, **left_out) -> judges.Slip:
    return judges.Slip(means=means, value=lambda *args: _by_page(*args, **left_out), next=next)


def _without_zeros(q, pages, lengths, table):
    return jnp.where(lengths[:, None, None] > 0, _decode(q, pages, lengths, table), jnp.nan)


def _last_of_each(q, pages, lengths, table):
    """Return attention over the last page of each sequence alone."""
    rows = of.kept(of.rows_of(pages, table), lengths)
    first = jnp.maximum(of.page_count(lengths) - 1, 0) * of.PAGE
    rows = jax.vmap(lambda each, at: jax.lax.dynamic_slice_in_dim(each, at, of.PAGE))(rows, first)
    return of.attention(q, rows, lengths - first)


def _of_the_one_before(q, pages, lengths, table):
    """Return it where a sequence without tokens finds the statistics of the sequence before."""
    right = _decode(q, pages, lengths, table)
    return jnp.where((lengths > 0)[:, None, None], right, jnp.roll(right, 1, axis=0))


def _stale_too(q, pages, lengths, table):
    """Return it where the scores of all rows of a sequence's pages count, and their values are 0."""
    rows = of.rows_of(pages, table)
    rows = jnp.concatenate([rows[..., : of.D], of.kept(rows, lengths)[..., of.D :]], axis=-1)
    return of.attention(q, rows, of.page_count(lengths) * of.PAGE)


def _with_mask(q, pages, lengths, table, *, counts):
    """Return it where token t counts if ``counts(t, lengths)``, and the last page comes again past the end."""
    last = jnp.maximum(of.page_count(lengths) - 1, 0)[:, None]
    again = jnp.take_along_axis(table, jnp.minimum(jnp.arange(table.shape[1]), last), axis=1)
    rows = of.rows_of(pages, jnp.where(lengths[:, None] > 0, again, 0))
    s = jnp.einsum("bgd,btd->bgt", q, rows[..., : of.D], precision="highest") / jnp.sqrt(of.D)
    there = counts(jnp.arange(rows.shape[1]), lengths[:, None])[:, None]
    m = jnp.where(there, s, -jnp.inf).max(axis=-1, keepdims=True)
    p = jnp.where(there, jnp.exp(s - m), 0)
    o = jnp.einsum("bgt,btd->bgd", p, rows[..., of.D :], precision="highest") / p.sum(axis=-1, keepdims=True)
    return jnp.where((lengths > 0)[:, None, None], o, 0)


def _one_score_more(q, pages, lengths, table):
    """Return it where the score of one row past the last token counts, and its value is 0."""
    rows = of.rows_of(pages, table)
    rows = jnp.concatenate([rows[..., : of.D], of.kept(rows, lengths)[..., of.D :]], axis=-1)
    more = (lengths % of.PAGE > 0).astype(lengths.dtype)
    return of.attention(q, rows, lengths + more)


def _not_scaled(q, pages, lengths, table):
    return _decode(q * jnp.sqrt(of.D), pages, lengths, table)


def _first_page(q, pages, lengths, table):
    return _decode(q, pages, jnp.minimum(lengths, of.PAGE), table)


EXERCISE = Exercise(
    id="14.4",
    title="Page after page",
    kind="write",
    defines="decode_kernel",
    judged="decode",
    cases=_cases,
    reference=_decode,
    slips=(
        _slip(
            "l is not rescaled when the maximum grows",
            "write l = l * shrink + p.sum(...).",
            rescaled_l=False,
        ),
        _slip(
            "acc is not rescaled when the maximum grows",
            "write acc = acc * shrink + p @ v.",
            rescaled_acc=False,
        ),
        _slip("each page has a maximum of its own", "carry m from page to page, and rescale l and acc.", carried=False),
        _slip(
            "tokens past the last one count, with a score of 0",
            "mask the scores with -inf before the maximum.",
            masked=False,
        ),
        judges.Slip(
            means="a sequence without tokens does not get zeros",
            value=_without_zeros,
            next="its l is 0, and 0 / 0 is NaN, so store zeros for it in the last step.",
        ),
        judges.Slip(
            means="only the first page of each sequence counts",
            value=_first_page,
            next="row t of page j holds token j * PAGE + t: compare that number with the length.",
        ),
        judges.Slip(
            means="only the last page of each sequence counts",
            value=_last_of_each,
            next="store the new maximum in m_ref, and add to what l_ref and acc_ref hold.",
        ),
        judges.Slip(
            means="a sequence without tokens gets what the sequence before it left in m, l and acc",
            value=_of_the_one_before,
            next="initialize m, l and acc at j == 0, whether the sequence has tokens or not.",
        ),
        judges.Slip(
            means="rows of the last page count although they belong to no token",
            value=_stale_too,
            next="in page j, rows below lengths_ref[b] - j * PAGE count: replace the scores of the others with -inf.",
        ),
        judges.Slip(
            means="the scores are not divided by sqrt(128)",
            value=_not_scaled,
            next="write s = scores(q, k) / math.sqrt(D).",
        ),
        judges.Slip(
            means="the scores are divided by 128, not by its square root",
            value=lambda q, *rest: _decode(q / jnp.sqrt(of.D), *rest),
            next="write s = scores(q, k) / math.sqrt(D), and scale q no more.",
        ),
        judges.Slip(
            means="the scores are divided by sqrt(256), but a key has 128 elements",
            value=lambda q, *rest: _decode(q / jnp.sqrt(2.0), *rest),
            next="divide by math.sqrt(D): a row of the page holds a key and a value.",
        ),
        judges.Slip(
            means="keys and values are exchanged",
            value=lambda q, pages, *lists: _decode(q, of.exchanged(pages), *lists),
            next="a row begins with the key: k is page_ref[:, :D], and v is page_ref[:, D:].",
        ),
        judges.Slip(
            means="every sequence is masked with the length of sequence 0",
            value=lambda *args: _with_mask(*args, counts=lambda t, lengths: t < lengths[:1]),
            next="read lengths_ref[b], where b is the sequence of this step.",
        ),
        judges.Slip(
            means="every page is masked with the length of the whole sequence, and the last page is added again",
            value=lambda *args: _with_mask(*args, counts=lambda t, lengths: t % of.PAGE < lengths),
            next="in page j, lengths_ref[b] - j * PAGE tokens are left: mask with that number, and skip a step with "
            "none.",
        ),
        judges.Slip(
            means="every page is masked as if it were the last one",
            value=lambda *args: _with_mask(*args, counts=lambda t, lengths: t % of.PAGE < lengths % of.PAGE),
            next="in page j, lengths_ref[b] - j * PAGE tokens are left; 16 or more of them fill the page.",
        ),
        judges.Slip(
            means="the score of the first row past the last token counts",
            value=_one_score_more,
            next="left tokens have rows 0 to left - 1, so mask with < left, not with <= left.",
        ),
        _slip("l holds the sum of the last page alone", "write l = l * shrink + p.sum(...).", kept_l=False),
        _slip("acc holds the values of the last page alone", "write acc = acc * shrink + p @ v.", kept_acc=False),
        _slip(
            "acc is divided by l at every page",
            "divide once, in the last step, when l is the sum of all pages.",
            divided=True,
        ),
        judges.Slip(
            means="m starts at 0, or no maximum is subtracted; these scores are so far below 0 that every exp is 0, "
            "and 0 / 0 is NaN",
            value=lambda q, pages, lengths, table: of.without_maximum(q, of.rows_of(pages, table), lengths),
            next="let m start at -inf, and subtract the maximum of the scores so far.",
        ),
    ),
    hints=(
        "Initialize at the first page of a sequence, add at each page that has a token, and store in the last step. "
        "What tells a step how many of its tokens count?",
        "In page j, left = lengths_ref[b] - j * PAGE tokens count. From row left on, scores become -inf, and values 0. "
        "Rescale l and acc by exp(m_old - m) before you add to them.",
        "Add under pl.when(left > 0). In the last step write o_ref[...] = jnp.where(lengths_ref[b] > 0, acc / l, 0), "
        "because acc / l is 0 / 0 for a sequence without tokens.",
    ),
    points=3,
)
