"""The gradients of attention by its keys and its values, from one kernel."""

import math

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import plain


def _grad_kv(q, k, v, g, lse, delta):
    p, ds = plain.p_and_ds(q, k, v, g, lse, delta)
    return plain.over_queries(ds, q) / math.sqrt(q.shape[-1]), plain.over_queries(p, g)


def _dk(change):
    """Return dk made from what ``change`` returns for p, ds and the arguments."""

    def value(*args):
        p, ds = plain.p_and_ds(*args)
        return plain.over_queries(change(p, ds, *args), args[0]) / math.sqrt(args[0].shape[-1])

    return value


def _without_scale_in_p(q, k, v, g, lse, delta):
    root = math.sqrt(q.shape[-1])
    dk, dv = _grad_kv(root * q, k, v, g, lse, delta)
    return dk / root, dv


EXERCISE = Exercise(
    id="13.6",
    title="dk and dv",
    kind="write",
    defines="grad_kv",
    cases=plain.backward_cases,
    reference=_grad_kv,
    slips=(
        judges.Slip(
            means="the scale is missing in dk",
            value=lambda *args: _dk(lambda p, ds, *_: ds)(*args) * math.sqrt(args[0].shape[-1]),
            next="multiply by 1 / sqrt(D), as for dq.",
            output=0,
        ),
        judges.Slip(
            means="the scores are not scaled in p = exp(s - lse), and lse is that of scaled scores",
            value=_without_scale_in_p,
            next="multiply k @ q.T by 1 / sqrt(D) before lse is subtracted.",
        ),
        judges.Slip(
            means="delta is missing in dk",
            value=lambda q, k, v, g, lse, delta: _grad_kv(q, k, v, g, lse, 0 * delta)[0],
            next="ds = p * (dp - delta).",
            output=0,
        ),
        judges.Slip(
            means="dk is made of p, and it is the sum of ds times q",
            value=_dk(lambda p, ds, *_: p),
            next="ds.T @ q, and p.T @ g for dv.",
            output=0,
        ),
        judges.Slip(
            means="dk is made of g, and it is the sum of ds times q",
            value=lambda *args: plain.over_queries(plain.p_and_ds(*args)[1], args[3]) / math.sqrt(args[0].shape[-1]),
            next="ds.T @ q.",
            output=0,
        ),
        judges.Slip(
            means="dv is made of ds, and it is the sum of p times g",
            value=lambda *args: plain.over_queries(plain.p_and_ds(*args)[1], args[3]),
            next="p.T @ g.",
            output=1,
        ),
        judges.Slip(
            means="dv is made of q, and the cotangent g belongs there",
            value=lambda *args: plain.over_queries(plain.p_and_ds(*args)[0], args[0]),
            next="p.T @ g.",
            output=1,
        ),
    ),
    hints=(
        "Lesson 10 has the rule: the axis that is summed over goes last, so that a block of the result stays in VMEM.",
        "The grid is (heads, blocks of keys, blocks of queries). Set dk_ref and dv_ref to 0 at the first block of "
        "queries, and add at each.",
        "p.T and ds.T as in 13.5; dv_ref[...] += product(p_t, g_ref[...], 1, 0); dk_ref[...] += scale * product(ds_t, "
        "q_ref[...], 1, 0).",
    ),
    points=4,
)
