"""Project: a matmul on four chips whose partial sums travel while the next ones are computed.

Contract  On each device of a ring x is bfloat16[n M, K] and w bfloat16[K, N], for n devices. The result is float32[M,
          N]: the rows pl.ds(me * M, M) of x @ w, summed over the devices. M is a multiple of 16, K and N of 128. n is 4
          in the check, and may be any number from 3 on.
Accuracy  sums in float32.
Ideal     by the model: all matmuls at the MXUs' peak, or the traffic of a ring that sends halves both ways, whichever
          takes longer.
"""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from course_lib import chips, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import NANOSECONDS, Golf
from course_lib.checks.kinds.project import Ideal, Project
from course_lib.lessons.lesson_16 import rings
from course_lib.lessons.lesson_18 import values

MESH = judges.Mesh(in_specs=(P(None, "d"), P("d")), out_specs=P("d"))
DEVICES = rings.DEVICES
ROWS, DEPTH, COLUMNS = 16, 128, 256  # M, K and N of one device, as the judges run it
LARGE = (512, 4096, 2048)  # M, K and N that the score stands for
SCALE = LARGE[0] * LARGE[2] / (ROWS * COLUMNS)  # bytes of a sum for each byte that is copied
FLOPS = 2 * DEVICES * LARGE[0] * LARGE[1] * LARGE[2]  # of one device


def block_s(chip: str = "v5e") -> float:
    """Return the seconds of one of a device's n matmuls, of M rows, at the chip's peak."""
    return FLOPS / DEVICES / chips.chip(chip).bf16_flops


def ring_s(ways: int, chip: str = "v5e") -> float:
    """Return the seconds in which n - 1 sums pass a link one after another, split over ``ways`` directions."""
    return rings.one_way_s(4 * LARGE[0] * LARGE[2] / ways, chip)


def ideal_s(chip: str = "v5e") -> float:
    """Return the seconds below which no kernel can do it: predicted (model)."""
    return max(DEVICES * block_s(chip), ring_s(2, chip))


def apart_s(chip: str = "v5e") -> float:
    """Return the seconds of all matmuls and then a ring that sends halves both ways: predicted (model)."""
    return DEVICES * block_s(chip) + ring_s(2, chip)


def work(event) -> float:
    """Return the seconds of a matmul with as many results as the core stores at an event."""
    if event.buffer.space != "vmem" or not event.in_kernel:
        return 0.0
    return event.amount / (ROWS * COLUMNS) * block_s()


def reference(x, w):
    """Return x @ w of all devices together: x has K columns and w K rows of each."""
    return jnp.dot(x, w, preferred_element_type=jnp.float32)


def cases() -> list[tuple]:
    """Return x and w of four devices, of two sizes."""
    sizes = ((ROWS, DEPTH, COLUMNS), (2 * ROWS, DEPTH, 2 * COLUMNS))
    return [
        (
            values.uniform(seed, DEVICES * m, DEVICES * k, dtype="bfloat16"),
            values.uniform(9 + seed, DEVICES * k, n, dtype="bfloat16"),
        )
        for seed, (m, k, n) in enumerate(sizes)
    ]


def scored() -> tuple[jax.Array, jax.Array]:
    """Return the arguments whose schedule is scored."""
    return cases()[0]


EXERCISE = Exercise(
    id="18.9",
    title="Project: a collective matmul",
    kind="project",
    defines="matmul_reduce_scatter",
    cases=cases,
    reference=reference,
    mesh=MESH,
    also=(rings.own_kernel(MESH, scored),),
    golf=Golf(unit=NANOSECONDS, par=230_000, scale=SCALE, work=work),
    project=Project(ideal=Ideal(flops=FLOPS), planted=0),
    hints=(
        "It is the reduce-scatter of 16.9, but the rows that a device adds to a sum are a matmul. Which one can be "
        "computed before the sum arrives?",
        "While a sum is under way, compute the product that will be added to the next one. Add it when the sum is "
        "there, and send that on at once.",
        "Let half of the rows travel each way, so that a hop takes as long as the matmul of one device's rows. Write a "
        "product straight into the sum that is sent: o_ref[...] = in_ref[...] + dot(x, w) is one store.",
    ),
    points=8,
)
