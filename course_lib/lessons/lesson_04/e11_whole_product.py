"""A whole kernel from an empty cell: a matmul in blocks along all three axes, for any sizes."""

import functools
import itertools

import jax
import jax.numpy as jnp

from course_lib import chips, cost, grid, judges, text
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random

LONG = 65_536  # length of an axis; a bfloat16 block of 128 lanes by this length takes 16 MiB


def _long() -> list[tuple]:
    """Return the types of x and w with a long K, a long M and a long N.

    In VMEM rows are padded to 128 lanes, so 8 columns do: in HBM they are few bytes, which the interpreter copies.
    """
    sizes = (8, LONG, 8), (LONG, 8, 8), (16, 128, LONG)
    return [
        (jax.ShapeDtypeStruct((m, k), jnp.bfloat16), jax.ShapeDtypeStruct((k, n), jnp.bfloat16)) for m, k, n in sizes
    ]


def _serves_long_sums(matmul):
    """Demand that the blocks stay small along all three axes."""
    limit = chips.chip("v5e").scoped_vmem_bytes
    for x, w in _long():
        (m, k), n = x.shape, w.shape[1]
        needs = cost.vmem_bytes(grid.walk(matmul, x, w))
        if needs > limit:
            return (
                f"For x[{m:,}, {k:,}] @ w[{k:,}, {n:,}] the kernel needs {text.size(needs)} of VMEM, but it may "
                f"use only {text.size(limit)}.",
                "cut the long axis too, into blocks whose size does not grow with it.",
            )
    return None


def _sum_so_far(x, w, *, grid, k):
    """Return the accumulator of output block (0, 0) after step (0, 0, k), if ``grid`` divides x and w evenly."""
    (m, depth), n = x.shape, w.shape[1]
    down, across, strips = grid
    if m % down or n % across or (strips > 1 and depth % (128 * strips)):
        return None  # the block sizes are unknown
    end = (k + 1) * depth // strips
    return jnp.dot(x[: m // down, :end], w[:end, : n // across], preferred_element_type=jnp.float32)


def _probes(grid):
    """Return probes of the accumulator after each step of the first output block."""
    first = (
        "check this step by hand: which parts of x_ref and w_ref do the masks let through, and what is their product?"
    )
    later = (
        "what happens to the sum that the step before left, and which parts of these blocks do the masks let through?"
    )
    return [
        judges.Probe(
            scratch="acc_ref",
            place=0,
            after=(0, 0, k),
            grid=grid,
            expect=functools.partial(_sum_so_far, grid=grid, k=k),
            means="the sum of the products so far" if k else "the product of the first blocks",
            next=later if k else first,
        )
        for k in range(grid[2])
    ]


EXERCISE = Exercise(
    id="04.11",
    title="From an empty cell: a whole product",
    kind="write",
    defines="matmul",
    inputs=("x: bf16[M,K]", "w: bf16[K,N]"),
    sizes=({"M": 32, "K": 256, "N": 256}, {"M": 40, "K": 300, "N": 200}, {"M": 5, "K": 130, "N": 70}),
    reference=lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32).astype(x.dtype),
    also=(_serves_long_sums,),
    also_at=lambda: [tuple(at_random(type, number) for number, type in enumerate(types)) for types in _long()],
    probes=tuple(probe for steps in itertools.product((1, 2, 4), (1, 2), (1, 2)) for probe in _probes(steps)),
    hints=(
        "Begin with sizes that the blocks divide. The grid has three axes, and the one that is summed over comes last. "
        "Set a scratch to zero at the first step of that axis, add a product at each step, and write o_ref at the "
        "last.",
        "bfloat16 has 8 significant bits, so a sum that is collected in o_ref is rounded at every step. With "
        "scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)] the kernel receives a float32 ref after the outputs.",
        "What lies past the end of M or N is not written anywhere, but what lies past the end of K is added up. Select "
        "with jnp.where, as in 04.8, in both operands, because 0 times NaN is NaN.",
    ),
    points=3,
)
