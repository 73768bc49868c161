"""The gradients of attention with respect to its keys and values, from one kernel."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import backward, plain

_DK, _DV = "compute dk = scale * ds.T @ q.", "compute dv = p.T @ g."


def _result(p, ds, q, k, v, g, scale):
    return scale * plain.over_queries(ds, q), plain.over_queries(p, g)


def _grad_kv(*args):
    return backward.right(_result, *args)


def _slip(output: int, means: str, result) -> judges.Slip:
    """Return the slip of a kernel whose dk (0) or dv (1) is ``result(p, ds, q, g, scale)``."""

    def value(*args):
        return backward.right(lambda p, ds, q, k, v, g, scale: result(p, ds, q, g, scale), *args)

    return judges.Slip(means=means, next=(_DK, _DV)[output], value=value, output=output)


EXERCISE = Exercise(
    id="13.6",
    title="dk and dv",
    kind="write",
    defines="grad_kv",
    cases=plain.backward_cases,
    reference=_grad_kv,
    slips=(
        _slip(0, "the scale is missing in dk", lambda p, ds, q, g, scale: plain.over_queries(ds, q)),
        _slip(0, "dk contains the scale twice", lambda p, ds, q, g, scale: scale**2 * plain.over_queries(ds, q)),
        _slip(
            0,
            "dk is computed from p, but it is the sum of ds times q",
            lambda p, ds, q, g, scale: scale * plain.over_queries(p, q),
        ),
        _slip(
            0,
            "dk is computed from g, but it is the sum of ds times q",
            lambda p, ds, q, g, scale: scale * plain.over_queries(ds, g),
        ),
        _slip(
            0,
            "the matmul for dk sums over the keys, axis 0 of ds.T, but dk is a sum over the queries",
            lambda p, ds, q, g, scale: scale * plain.over_queries(backward.turned(ds), q),
        ),
        _slip(
            1,
            "dv is scaled too, but its weights already contain the scale",
            lambda p, ds, q, g, scale: scale * plain.over_queries(p, g),
        ),
        _slip(
            1,
            "dv is computed from ds, but it is the sum of p times g",
            lambda p, ds, q, g, scale: plain.over_queries(ds, g),
        ),
        _slip(
            1,
            "dv is computed from q, but the cotangent g belongs there",
            lambda p, ds, q, g, scale: plain.over_queries(p, q),
        ),
        _slip(
            1,
            "the matmul for dv sums over the keys, axis 0 of p.T, but dv is a sum over the queries",
            lambda p, ds, q, g, scale: plain.over_queries(backward.turned(p), g),
        ),
        *backward.slips(_result),
    ),
    hints=(
        "By the rule of lesson 10, the axis that is summed over goes last, so that a block of the result stays in "
        "VMEM.",
        "The grid is (heads, blocks of keys, blocks of queries). Set dk_ref and dv_ref to 0 at the first block of "
        "queries, and add to them at each.",
        "Compute p.T and ds.T as in 13.5. Then dv_ref[...] += product(p_t, g_ref[...], 1, 0), and dk_ref[...] += "
        "scale * product(ds_t, q_ref[...], 1, 0).",
    ),
    points=4,
)
