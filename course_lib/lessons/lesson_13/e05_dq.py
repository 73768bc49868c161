"""The gradient of attention with respect to its queries."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import backward, plain


def _result(p, ds, q, k, v, g, scale):
    return scale * plain.weighted(ds, k)


def _dq(*args):
    return backward.right(_result, *args)


def _slip(means: str, next: str, result) -> judges.Slip:
    """Return the slip of a kernel that returns ``result(p, ds, q, k, v, g, scale)``."""
    return judges.Slip(means=means, next=next, value=lambda *args: backward.right(result, *args))


def _times_own_queries(ds, q):
    """Return each block of ds times the queries of its rows, summed over the blocks of keys."""
    heads, t, _ = ds.shape
    summed = ds.reshape(heads, t // 128, 128, -1, 128).sum(axis=3)
    return plain.weighted(summed, q.reshape(heads, t // 128, 128, -1)).reshape(q.shape)


EXERCISE = Exercise(
    id="13.5",
    title="dq",
    kind="write",
    defines="dq_kernel",
    judged="grad_q",
    cases=plain.backward_cases,
    reference=_dq,
    slips=(
        _slip(
            "the scale is missing, but s is scale * q @ k.T, so dq has that factor too",
            "multiply by 1 / sqrt(D) once, at the end.",
            lambda p, ds, q, k, v, g, scale: plain.weighted(ds, k),
        ),
        _slip(
            "the result is scaled twice",
            "scale the scores, and the sum once, but not dp or ds.",
            lambda p, ds, q, k, v, g, scale: scale**2 * plain.weighted(ds, k),
        ),
        _slip(
            "ds is multiplied by the values, but dq is ds times the keys",
            "compute dq = scale * ds @ k.",
            lambda p, ds, q, k, v, g, scale: scale * plain.weighted(ds, v),
        ),
        _slip(
            "p is multiplied by the keys, but dq is ds times the keys",
            "compute dq = scale * ds @ k.",
            lambda p, ds, q, k, v, g, scale: scale * plain.weighted(p, k),
        ),
        _slip(
            "the last matmul sums over the queries, axis 1 of ds.T, but dq is a sum over the keys",
            "use product(ds_t, k_ref[...], 0, 0).",
            lambda p, ds, q, k, v, g, scale: scale * plain.weighted(backward.turned(ds), k),
        ),
        _slip(
            "ds is multiplied by the queries, but dq is ds times the keys",
            "compute dq = scale * ds @ k.",
            lambda p, ds, q, k, v, g, scale: scale * _times_own_queries(ds, q),
        ),
        *backward.slips(_result),
    ),
    hints=(
        "Everything is transposed: s.T = scale * k @ q.T has keys down and queries across, so the rows lse_ref and "
        "delta_ref fit as they are.",
        "Compute p.T = exp(scale * product(k, q, 1, 1) - lse) and dp.T = product(v, g, 1, 1), then ds.T = p.T * (dp.T "
        "- delta).",
        "Add product(ds_t, k_ref[...], 0, 0) to acc_ref, so that the sum runs over the keys, axis 0 of both. In the "
        "last step dq is acc times the scale.",
    ),
    points=3,
)
