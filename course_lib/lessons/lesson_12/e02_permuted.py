"""Block specs for matrices that are multiplied in the order of a list."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit
from course_lib.lessons.lesson_12.lists import int32


def _cases() -> list[tuple]:
    orders = (2, 0, 3, 1), (1, 2, 0), (0, 1)
    sizes = {"M": 16, "K": 128, "N": 256}, {"M": 8, "K": 128, "N": 128}, {"M": 24, "K": 256, "N": 128}
    return [
        (x, y, int32(*order))
        for order, size in zip(orders, sizes, strict=True)
        for x, y in arguments(("x: f32[G,M,K]", "y: f32[G,K,N]"), ({"G": len(order), **size},))
    ]


def _permuted(x, y, order):
    products = jnp.einsum("gmk,gkn->gmn", x, y[order], precision="highest")
    return jnp.zeros_like(products).at[order].set(products)


def _with_specs(specs):
    """Return the call with the learner's three specs. It raises Unfit if there are not three."""

    def permuted(x, y, order):
        (groups, m, k), n = x.shape, y.shape[2]
        found = specs(m, k, n)
        if not isinstance(found, tuple | list) or len(found) != 3:
            raise Unfit(
                f"specs({m}, {k}, {n}) returns {type(found).__name__}, but it should return three block specs.",
                "return x_spec, y_spec, o_spec.",
            )
        return pl.pallas_call(
            _product_kernel,
            out_shape=jax.ShapeDtypeStruct((groups, m, n), x.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1, grid=(groups,), in_specs=[*found[:2]], out_specs=found[2]
            ),
        )(order, x, y)

    return permuted


def _product_kernel(order_ref, x_ref, y_ref, o_ref):
    """Run the kernel that the exercise gives."""
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision="highest", preferred_element_type=jnp.float32)


EXERCISE = Exercise(
    id="12.2",
    title="Configure only: permuted matrices",
    kind="configure",
    defines="specs",
    build=_with_specs,
    cases=_cases,
    reference=_permuted,
    budget=judges.Budget(hbm_bytes=lambda x, y, order: cost.stored_bytes(x, y, order, _permuted(x, y, order))),
    slips=(
        judges.Slip(
            means="each matmul is right, but the results are stored in the order of x",
            value=lambda x, y, order: jnp.einsum("gmk,gkn->gmn", x, y[order], precision="highest"),
            next="the index map of the result has to look up where this matrix belongs.",
        ),
        judges.Slip(
            means="matrix g of x is multiplied by matrix g of y",
            value=lambda x, y, order: (
                jnp.zeros((len(x), x.shape[1], y.shape[2]), x.dtype)
                .at[order]
                .set(jnp.einsum("gmk,gkn->gmn", x, y, precision="highest"))
            ),
            next="multiply it by matrix order[g], which the index map of y looks up.",
        ),
        judges.Slip(
            means="the index map of x looks up its matrix as well",
            value=lambda x, y, order: _permuted(x[order], y, order),
            next="let step g take matrix g of x.",
        ),
    ),
    hints=(
        "An index map gets the grid index first, then the ref of the prefetched list. Which of the three arrays need "
        "a look-up?",
        "The matrices of x come in the order of the steps, so its map returns (g, 0, 0). The other two look up "
        "order_ref[g].",
        "The block spec of y is pl.BlockSpec((None, k, n), lambda g, order_ref: (order_ref[g], 0, 0)).",
    ),
    points=1,
)
