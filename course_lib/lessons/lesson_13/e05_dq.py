"""The gradient of attention by its queries."""

import math

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import plain


def _dq(q, k, v, g, lse, delta):
    return plain.weighted(plain.p_and_ds(q, k, v, g, lse, delta)[1], k) / math.sqrt(q.shape[-1])


def _unscaled(q, k, v, g, lse, delta):
    return _dq(q, k, v, g, lse, delta) * math.sqrt(q.shape[-1])


def _without_delta(q, k, v, g, lse, delta):
    return _dq(q, k, v, g, lse, 0 * delta)


def _without_scale_in_p(q, k, v, g, lse, delta):
    return _dq(q * math.sqrt(q.shape[-1]), k, v, g, lse, delta)


def _without_p(q, k, v, g, lse, delta):
    p, ds = plain.p_and_ds(q, k, v, g, lse, delta)
    return plain.weighted(ds / p, k) / math.sqrt(q.shape[-1])


EXERCISE = Exercise(
    id="13.5",
    title="dq",
    kind="write",
    defines="dq_kernel",
    judged="grad_q",
    cases=plain.backward_cases,
    reference=_dq,
    slips=(
        judges.Slip(
            means="the scale is missing: s is scale * q @ k.T, so its gradient by q has that factor too",
            value=_unscaled,
            next="multiply by 1 / sqrt(D) once, at the end.",
        ),
        judges.Slip(
            means="delta is missing: a weight grows at the cost of the others in its row",
            value=_without_delta,
            next="ds = p * (dp - delta).",
        ),
        judges.Slip(
            means="the scores are not scaled in p = exp(s - lse), and lse is that of scaled scores",
            value=_without_scale_in_p,
            next="multiply k @ q.T by 1 / sqrt(D) before lse is subtracted.",
        ),
        judges.Slip(means="the factor p is missing in ds", value=_without_p, next="ds = p * (dp - delta)."),
        judges.Slip(
            means="lse is added to the scores, and a weight is exp(s - lse)",
            value=lambda q, k, v, g, lse, delta: _dq(q, k, v, g, -lse, delta),
            next="subtract lse_ref.",
        ),
        judges.Slip(
            means="p is exp(s) without lse, so the weights of a row do not add up to 1",
            value=lambda q, k, v, g, lse, delta: _dq(q, k, v, g, 0 * lse, delta),
            next="p = exp(s - lse).",
        ),
        judges.Slip(
            means="ds is multiplied by the values, and dq is ds times the keys",
            value=lambda q, k, v, *kept: plain.weighted(plain.p_and_ds(q, k, v, *kept)[1], v) / math.sqrt(q.shape[-1]),
            next="dq = scale * ds @ k.",
        ),
        judges.Slip(
            means="the scale is in it twice",
            value=lambda *args: _dq(*args) / math.sqrt(args[0].shape[-1]),
            next="scale the scores, and the sum once: not dp or ds as well.",
        ),
    ),
    hints=(
        "Everything is transposed: s.T = scale * k @ q.T has keys down and queries across, so lse_ref and delta_ref, "
        "of one row, fit as they are.",
        "p.T = exp(scale * product(k, q, 1, 1) - lse). dp.T = product(v, g, 1, 1). ds.T = p.T * (dp.T - delta).",
        "acc_ref[...] += product(ds_t, k_ref[...], 0, 0), where the sum runs over the keys, axis 0 of both. At the "
        "last step dq is acc times the scale.",
    ),
    points=3,
)
