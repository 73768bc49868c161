"""Arrays that blocks do not divide: masks by where, by select, by a branch; padding in their place; or neither."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal, whole

ROWS, COLUMNS = 20, 300  # blocks of 8 x 128: two and a half, two and a third


def sum_of_rows(x):
    return jnp.sum(x, axis=1, keepdims=True)


def masked_row_sums(x):
    def kernel(x_ref, o_ref):
        column = 128 * pl.program_id(1) + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        part = jnp.sum(jnp.where(column < x.shape[1], x_ref[...], 0), axis=1, keepdims=True)

        @pl.when(pl.program_id(1) == 0)
        def first():
            o_ref[...] = part

        @pl.when(pl.program_id(1) > 0)
        def others():
            o_ref[...] += part

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(x.shape[1], 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 1), lambda i, k: (i, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)


def padded_row_sums(x):
    """Zeros around the array before the kernel, a slice behind it; no mask."""
    rows, columns = x.shape

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.sum(x_ref[...], axis=1, keepdims=True)

    padded = jnp.pad(x, ((0, -rows % 8), (0, -columns % 128)))
    sums = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((padded.shape[0], 1), x.dtype),
        grid=(padded.shape[0] // 8, padded.shape[1] // 128),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 1), lambda i, k: (i, 0)),
    )(padded)
    return sums[:rows]


def last_block_apart(x):
    """Only the last step masks; all others take a branch without."""

    def kernel(x_ref, o_ref):
        k, last = pl.program_id(1), pl.num_programs(1) - 1
        column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)

        @pl.when(k == 0)
        def start():
            o_ref[...] = jnp.full_like(o_ref, -jnp.inf)

        def add(block):
            o_ref[...] = jnp.maximum(o_ref[...], jnp.max(block, axis=1, keepdims=True))

        @pl.when(k < last)
        def inside():
            add(x_ref[...])

        @pl.when(k == last)
        def at_the_edge():
            add(jax.lax.select(column < x.shape[1] - 128 * last, x_ref[...], jnp.full_like(x_ref, -jnp.inf)))

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(x.shape[1], 128)),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 1), lambda i, k: (i, 0)),
    )(x)


def no_mask_needed(x, y):
    """Elementwise: what is computed past the edge is never written back."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + y_ref[...]

    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    grid = pl.cdiv(x.shape[0], 8), pl.cdiv(x.shape[1], 128)
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[spec, spec], out_specs=spec)(x, y)


def masked_product(x, y):
    """Both factors are masked: a zero times what lies past the edge may be NaN."""
    (m, depth), n = x.shape, y.shape[1]

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        k = pl.program_id(0)

        @pl.when(k == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        left = depth - 128 * k
        of_x = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) < left
        of_y = jax.lax.broadcasted_iota(jnp.int32, y_ref.shape, 0) < left
        acc_ref[...] += jnp.dot(
            jnp.where(of_x, x_ref[...], 0), jnp.where(of_y, y_ref[...], 0), preferred_element_type=jnp.float32
        )

        @pl.when(k == pl.num_programs(0) - 1)
        def finish():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(pl.cdiv(depth, 128),),
        in_specs=[pl.BlockSpec((m, 128), lambda k: (0, k)), pl.BlockSpec((128, n), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((m, n), lambda k: (0, 0)),
        scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
    )(x, y)


def product(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


def masked_store(x):
    """The mask is on the store: a second one puts zeros above the diagonal of what the first has written."""

    def kernel(x_ref, o_ref):
        row = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        o_ref[...] = x_ref[...]
        pltpu.store(o_ref, jnp.zeros_like(x_ref), mask=column > row)

    return pl.pallas_call(kernel, out_shape=x)(x)


def count_between(x, low, high):
    """How many numbers of each column lie between two; the comparison is masked by the row."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 8 * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        hit = (row < x.shape[0]) & (x_ref[...] > low) & (x_ref[...] <= high)
        o_ref[...] += jnp.sum(hit.astype(jnp.int32), axis=0, keepdims=True)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), jnp.int32),
        grid=(pl.cdiv(x.shape[0], 8),),
        in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0)),
    )(x)


def counts_between(x, low, high):
    return jnp.sum(((x > low) & (x <= high)).astype(jnp.int32), axis=0, keepdims=True)


def relu_past_the_edge(x):
    """A comparison of what lies past the edge; nothing of it is written back."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.where(x_ref[...] > 0, x_ref[...], 0)

    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    grid = pl.cdiv(x.shape[0], 8), pl.cdiv(x.shape[1], 128)
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[spec], out_specs=spec)(x)


def gradient_masked_by_where(x, y, g):
    """x.T @ (g where y > 0), and every factor is masked by the row."""

    def kernel(x_ref, y_ref, g_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        inside = 8 * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0) < x.shape[0]
        dz = jnp.where(inside & (y_ref[...] > 0), g_ref[...], 0)
        o_ref[...] += jnp.dot(jnp.where(inside, x_ref[...], 0).T, dz, precision=jax.lax.Precision.HIGHEST)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((128, 128), x.dtype),
        grid=(pl.cdiv(x.shape[0], 8),),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))] * 3,
        out_specs=pl.BlockSpec((128, 128), lambda i: (0, 0)),
    )(x, y, g)


def gradient(x, y, g):
    return jnp.dot(x.T, jnp.where(y > 0, g, 0), precision=jax.lax.Precision.HIGHEST)


def first_of_the_largest(x):
    """The row of each column's first largest value; integers past the edge are masked as the values are."""

    def kernel(x_ref, o_ref, best_ref):
        row = 8 * pl.program_id(0) + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
        inside = row < x.shape[0]
        block = jnp.where(inside, x_ref[...], jnp.iinfo(jnp.int32).min)
        largest = jnp.max(block, axis=0, keepdims=True)
        at = jnp.min(jnp.where(inside & (block == largest), row, x.shape[0]), axis=0, keepdims=True)
        better = (pl.program_id(0) == 0) | (largest > best_ref[...])
        o_ref[...] = jnp.where(better, at, o_ref[...])
        best_ref[...] = jnp.where(better, largest, best_ref[...])

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), jnp.int32),
        grid=(pl.cdiv(x.shape[0], 8),),
        in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((1, x.shape[1]), jnp.int32)],
    )(x)


EDGE = normal((ROWS, 128))

RIGHT = (
    Right("row sums masked by where", masked_row_sums, sum_of_rows, (whole((ROWS, COLUMNS), -9999, 9999),)),
    Right("row sums of padded rows", padded_row_sums, sum_of_rows, (normal((ROWS, COLUMNS)),)),
    Right(
        "a branch for the last block, select with -inf",
        last_block_apart,
        lambda x: jnp.max(x, axis=1, keepdims=True),
        (-counted((ROWS, COLUMNS)),),
    ),
    Right(
        "ragged both ways, no mask needed",
        no_mask_needed,
        lambda x, y: x * y + y,
        (normal((ROWS, COLUMNS)), counted((ROWS, COLUMNS))),
    ),
    Right(
        "a ragged reduction, both factors masked",
        masked_product,
        product,
        (normal((16, COLUMNS), jnp.bfloat16), normal((COLUMNS, 130), jnp.bfloat16, seed=1)),
    ),
    Right("zeros by a masked store", masked_store, jnp.tril, (normal((128, 128)),)),
    Right(
        "a comparison, masked by the row",
        lambda x: count_between(x, -0.5, 0.5),
        lambda x: counts_between(x, -0.5, 0.5),
        (EDGE,),
    ),
    Right("a comparison past the edge, not written back", relu_past_the_edge, jax.nn.relu, (normal((ROWS, COLUMNS)),)),
    Right("a comparison and both factors masked", gradient_masked_by_where, gradient, (EDGE, EDGE[::-1], EDGE + 1)),
    Right(
        "the best so far, integers past the edge masked",
        first_of_the_largest,
        lambda x: jnp.argmax(x, axis=0, keepdims=True).astype(jnp.int32),
        (jnp.round(3 * EDGE).astype(jnp.int32),),
    ),
)
