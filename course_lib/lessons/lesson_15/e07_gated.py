"""Two matmuls and a SiLU in one kernel of visits."""

import jax

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

SIZES = ((10, 0, 22, 8, 24), (16, 32, 16), (1, 62, 1), (0, 0, 64))
LARGE = 8.0  # times the gate's matrix, all above 0, so that its products reach hundreds, whose exp is infinite


def _cases() -> list[tuple]:
    cases = []
    for seed, sizes in enumerate(SIZES):
        n = 256 if seed == 1 else 128
        x, gate, up = of.values(seed, 64, 128), *(of.values(at + seed, len(sizes), 128, n) for at in (9, 50))
        if seed == 2:
            x, gate = abs(x), LARGE * abs(gate)
        cases.append((x / 4, gate / 2, up / 4, *of.lists(sizes, 64)))
    return cases


def _products(x, gate, up, bounds):
    return of.grouped(x, gate, bounds), of.grouped(x, up, bounds)


def _gated(x, gate, up, group, tile, bounds, count):
    g, u = _products(x, gate, up, bounds)
    return jax.nn.silu(g) * u


def _exchanged(x, gate, up, group, tile, bounds, count):
    g, u = _products(x, gate, up, bounds)
    return g * jax.nn.silu(u)


def _instead(activation):
    """Return it with another function in the place of the SiLU."""

    def value(x, gate, up, group, tile, bounds, count):
        g, u = _products(x, gate, up, bounds)
        return activation(g) * u

    return value


def _gate_twice(x, gate, up, group, tile, bounds, count):
    g, _ = _products(x, gate, up, bounds)
    return jax.nn.silu(g) * g


def _before_the_matmul(x, gate, up, group, tile, bounds, count):
    return of.grouped(jax.nn.silu(x), gate, bounds) * of.grouped(x, up, bounds)


def _plus(x, gate, up, group, tile, bounds, count):
    g, u = _products(x, gate, up, bounds)
    return jax.nn.silu(g) + u


def _of_all(x, gate, up, group, tile, bounds, count):
    g, u = _products(x, gate, up, bounds)
    return jax.nn.silu(g * u)


EXERCISE = Exercise(
    id="15.7",
    title="Two matmuls and a SiLU",
    kind="write",
    defines="gated_kernel",
    judged="gated",
    cases=_cases,
    reference=_gated,
    slips=(
        judges.Slip(
            means="the SiLU is applied to up, not to gate",
            value=_exchanged,
            next="write jax.nn.silu(dot(x, gate)) * dot(x, up).",
        ),
        judges.Slip(
            means="sigmoid is applied to the gate, and not SiLU",
            value=_instead(jax.nn.sigmoid),
            next="silu(z) is z * sigmoid(z), which jax.nn.silu computes.",
        ),
        *(
            judges.Slip(
                means=f"{name} is applied to the gate, and not SiLU",
                value=_instead(fn),
                next="use jax.nn.silu, which is z * sigmoid(z).",
            )
            for name, fn in (("GELU", jax.nn.gelu), ("ReLU", jax.nn.relu), ("tanh", jax.numpy.tanh))
        ),
        judges.Slip(
            means="the SiLU is missing, so both matmuls count as they are",
            value=_instead(lambda z: z),
            next="write jax.nn.silu(dot(x, gate)) * dot(x, up).",
        ),
        judges.Slip(
            means="the gate's matrix is used for both matmuls",
            value=_gate_twice,
            next="the second matmul is dot(x_ref[...], up_ref[...]).",
        ),
        judges.Slip(
            means="the results of both matmuls are added, and should be multiplied",
            value=_plus,
            next="write jax.nn.silu(dot(x, gate)) * dot(x, up).",
        ),
        judges.Slip(
            means="the SiLU is applied to x, before the matmul",
            value=_before_the_matmul,
            next="apply it to the result: jax.nn.silu(dot(x, gate)) * dot(x, up).",
        ),
        judges.Slip(
            means="the SiLU is applied after both results are multiplied",
            value=_of_all,
            next="apply it to dot(x, gate) alone, before you multiply.",
        ),
    ),
    hints=(
        "Compared with 15.3, the kernel only writes other values to the group's rows.",
        "A row gets jax.nn.silu of the gate's matmul, multiplied by the other matmul. jax.nn.silu(z) is z * "
        "sigmoid(z), without the overflow that z * exp(z) / (1 + exp(z)) has for large z.",
        "Under pl.when(v < count_ref[0]), compute o = jax.nn.silu(dot(x_ref[...], gate_ref[...])) * dot(x_ref[...], "
        "up_ref[...]), and store jnp.where(mine, o, o_ref[...]).",
    ),
    points=2,
)
