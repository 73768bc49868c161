"""A layer in which each token uses two experts: sorting, the kernel, and back."""

import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks import borrowed
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

SIZES = ((24, 4, 128), (40, 6, 256), (16, 3, 128))  # tokens, experts, columns


def _cases() -> list[tuple]:
    """Return tokens with two different experts each, some more popular than others, and shares that add up to 1."""
    cases = []
    for seed, (tokens, experts, n) in enumerate(SIZES):
        rng = np.random.default_rng(seed)
        expert = np.array([rng.permutation(experts)[:2] for _ in range(tokens)], np.int32)
        if seed == 1:
            expert = np.where(expert == experts - 1, (expert[:, ::-1] + 1) % (experts - 1), expert)  # one has no rows
        share = rng.uniform(0.2, 0.8, tokens).astype(np.float32)
        x, w = of.values(seed, tokens, 128), of.values(9 + seed, experts, 128, n)
        cases.append((x, w, jnp.array(expert), jnp.array(np.stack([share, 1 - share], axis=1))))
    return cases


def _of_each(x, w, expert):
    """Return each token multiplied by the matrices of both its experts, [T, 2, N]."""
    chosen = expert[:, :, None] == jnp.arange(len(w))
    return jnp.einsum("tje,tk,ekn->tjn", chosen.astype(jnp.float32), x, w, precision="highest")


def _two_experts(x, w, expert, share):
    return jnp.einsum("tj,tjn->tn", share, _of_each(x, w, expert), precision="highest")


def _order(expert):
    return jnp.argsort(expert.reshape(-1))


def _sorted(each, expert, times):
    """Return rows [T, 2, N], sorted by expert ``times`` times."""
    rows = each.reshape(-1, each.shape[2])
    for _ in range(times):
        rows = rows[_order(expert)]
    return rows.reshape(each.shape)


def _not_back(x, w, expert, share):
    """Return it where the results stay in the order of the experts, with the shares of theirs."""
    return _sorted(share[:, :, None] * _of_each(x, w, expert), expert, 1).sum(axis=1)


def _not_back_shares_alone(x, w, expert, share):
    """Return it where the results stay in the order of the experts, and the shares in that of the tokens."""
    return jnp.sum(share[:, :, None] * _sorted(_of_each(x, w, expert), expert, 1), axis=1)


def _back_by_order(x, w, expert, share):
    """Return it where the sorted results are sorted once more instead of put back."""
    return jnp.sum(share[:, :, None] * _sorted(_of_each(x, w, expert), expert, 2), axis=1)


def _shares_sorted(x, w, expert, share):
    """Return it where the share of a row is taken from the place that the row has after sorting."""
    order, each = _order(expert), _of_each(x, w, expert).reshape(-1, w.shape[2])
    taken = jnp.zeros(len(order)).at[order].set(share.reshape(-1))
    return (taken[:, None] * each).reshape(len(x), 2, -1).sum(axis=1)


def _shares_sorted_too(x, w, expert, share):
    """Return it where the shares are sorted, and the results are back in the order of the tokens."""
    taken = share.reshape(-1)[_order(expert)].reshape(share.shape)
    return jnp.sum(taken[:, :, None] * _of_each(x, w, expert), axis=1)


def _shares_exchanged(x, w, expert, share):
    return jnp.sum(share[:, ::-1, None] * _of_each(x, w, expert), axis=1)


def _other_tokens(at):
    """Return it where row i of the sorted ones is token ``at(order[i], T)``, and not order[i] // 2."""

    def value(x, w, expert, share):
        token = at(_order(expert), len(x))
        rows = jnp.zeros(len(token), jnp.int32).at[_order(expert)].set(token).reshape(expert.shape)
        chosen = (expert[:, :, None] == jnp.arange(len(w))).astype(jnp.float32)
        each = jnp.einsum("tje,tjk,ekn->tjn", chosen, x[rows], w, precision="highest")
        return jnp.sum(share[:, :, None] * each, axis=1)

    return value


def _first_alone(x, w, expert, share):
    return share[:, :1] * _of_each(x, w, expert)[:, 0]


def _second_alone(x, w, expert, share):
    return share[:, 1:] * _of_each(x, w, expert)[:, 1]


def _later_alone(x, w, expert, share):
    """Return it where the expert with the larger number replaces the other."""
    later = jnp.argmax(expert, axis=1)[:, None, None]
    return jnp.take_along_axis(share[:, :, None] * _of_each(x, w, expert), later, axis=1)[:, 0]


def _halves(x, w, expert, share):
    """Return it where the first T of the 2 * T rows are taken for those of the first experts."""
    each = _of_each(x, w, expert).reshape(2, len(x), -1)
    return jnp.sum(share[:, :, None] * jnp.swapaxes(each, 0, 1), axis=1)


def _with_sizes(sizes_of, sort):
    """Return it where the rows, sorted or not, are cut into groups of ``sizes_of(expert, E)``."""

    def value(x, w, expert, share):
        order = _order(expert) if sort else jnp.arange(expert.size)
        bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(sizes_of(expert, len(w)))])
        o = of.grouped(x[order // 2], w, bounds)
        each = jnp.zeros_like(o).at[order].set(o).reshape(len(x), 2, -1)
        return jnp.sum(share[:, :, None] * each, axis=1)

    return value


def _as_one(x, w, expert, share):
    return _of_each(x, w, expert).sum(axis=1)


def _one_call(two_experts) -> tuple[str, str] | None:
    """Demand one call of the library, with all rows."""
    x, w, expert, share = _cases()[0]
    calls = borrowed.calls(two_experts, x, w, expert, share)
    if [call.outvars[0].aval.shape[0] for call in calls] == [2 * len(x)]:
        return None
    rows = " and ".join(str(call.outvars[0].aval.shape[0]) for call in calls) or "no"
    return (
        f"It calls the library {len(calls)} times, with {rows} rows, but should call it once, with all {2 * len(x)}.",
        "sort both rows of every token together: order = jnp.argsort(expert.reshape(-1)).",
    )


_BACK = "put row i of the sorted results back to order[i]: jnp.zeros_like(o).at[order].set(o)."
_ADD = "add both results of a token: reshape to (T, 2, N) and sum over axis 1, or use .at[token].add."

EXERCISE = Exercise(
    id="15.6",
    title="Two experts for a token",
    kind="write",
    defines="two_experts",
    cases=_cases,
    reference=_two_experts,
    arithmetic_around=True,
    also=(_one_call,),
    slips=(
        judges.Slip(means="the results are left in the order of the experts", value=_not_back, next=_BACK),
        judges.Slip(means="the results are left in the order of the experts", value=_not_back_shares_alone, next=_BACK),
        judges.Slip(means="the results are sorted a second time, and not put back", value=_back_by_order, next=_BACK),
        judges.Slip(
            means="a share is multiplied by the row of another token",
            value=_shares_sorted,
            next="multiply after the results are back in the order of the tokens, or sort the shares like the rows.",
        ),
        judges.Slip(
            means="the shares are sorted by expert, and the results are not",
            value=_shares_sorted_too,
            next="once the results are back in the order of the tokens, take share as it is.",
        ),
        judges.Slip(
            means="each expert's result is multiplied by the share of the other",
            value=_shares_exchanged,
            next="share[t, j] is the share of expert[t, j], so keep their order.",
        ),
        judges.Slip(
            means="x[order % T] takes the rows of other tokens",
            value=_other_tokens(lambda order, tokens: order % tokens),
            next="rows 2 * t and 2 * t + 1 belong to token t, so row i of the sorted ones is token order[i] // 2.",
        ),
        judges.Slip(
            means="x[order] takes the rows of other tokens",
            value=_other_tokens(lambda order, tokens: jnp.minimum(order, tokens - 1)),
            next="rows 2 * t and 2 * t + 1 belong to token t, so row i of the sorted ones is token order[i] // 2.",
        ),
        judges.Slip(means="only the first expert of each token counts", value=_first_alone, next=_ADD),
        judges.Slip(means="only the second expert of each token counts", value=_second_alone, next=_ADD),
        judges.Slip(
            means="the later expert of each token replaces the other: .at[].set keeps one of two rows",
            value=_later_alone,
            next=_ADD,
        ),
        judges.Slip(
            means="the 2 * T rows are split into two halves, but each token has two rows in succession",
            value=_halves,
            next="reshape the results to (T, 2, N), since rows 2 * t and 2 * t + 1 belong to token t.",
        ),
        judges.Slip(
            means="the rows are not sorted by expert before the matmul",
            value=_with_sizes(lambda expert, n: jnp.bincount(expert.reshape(-1), length=n), sort=False),
            next="sort both rows of every token together: order = jnp.argsort(expert.reshape(-1)).",
        ),
        judges.Slip(
            means="the sizes count only the first expert of each token",
            value=_with_sizes(lambda expert, n: jnp.bincount(expert[:, 0], length=n), sort=True),
            next="count all 2 * T rows: jnp.bincount(expert.reshape(-1), length=len(w)).",
        ),
        judges.Slip(
            means="the shares are multiplied twice",
            value=lambda x, w, expert, share: _two_experts(x, w, expert, share**2),
            next="multiply by share either before the matmul or after it.",
        ),
        judges.Slip(
            means="the results are added without being multiplied by the shares",
            value=_as_one,
            next="multiply the result of each expert by the token's share for it before you add.",
        ),
    ),
    hints=(
        "Think of 2 * T rows, in which each token stands twice in succession, once for each of its experts. Then every "
        "row has one expert.",
        "order = jnp.argsort(expert.reshape(-1)) sorts the 2 * T rows, and row i of the sorted ones belongs to token "
        "order[i] // 2. jnp.bincount with length= counts the rows of each expert.",
        "With o = library.grouped_matmul(x[order // 2], w, sizes), put the rows back by "
        "jnp.zeros_like(o).at[order].set(o), reshape to (T, 2, N), multiply by share[:, :, None], and sum over axis 1.",
    ),
    points=3,
)
