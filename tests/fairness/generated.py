"""Tiled kernels with random shapes, legal blocks, grid orders, directions and dtypes. All of them are right."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import normal, whole

FLOATS = jnp.float32, jnp.bfloat16


def a_block(rng, length: int, unit: int) -> int:
    """A legal block size along an axis: the whole of it, or a multiple of the unit that may reach past its end."""
    most = -(-length // unit)
    return length if rng.random() < 0.25 else unit * int(rng.integers(max(1, most // 3), most + 1))


def an_order(rng, axes: int) -> list[int]:
    """Which loop each grid axis is; the last loop, the reduction, stays the last axis."""
    return [*rng.permutation(axes - 1).tolist(), axes - 1]


def along(rng, axis: int, steps: int):
    """The block number of a loop at a grid step: the coordinate on its axis, counted up or counted down."""
    down = rng.random() < 0.3
    return lambda *at: steps - 1 - at[axis] if down else at[axis]


def semantics(rng, axes: int):
    """The reduction is arbitrary; what is not may be called parallel."""
    said = None if rng.random() < 0.5 else ("parallel",) * (axes - 1) + ("arbitrary",)
    return pltpu.CompilerParams(dimension_semantics=said)


def inside(ref, axis: int, block: jax.Array, length: int) -> jax.Array:
    """The ref's numbers, with zeros past the end of the array along one axis."""
    at = block * ref.shape[axis] + jax.lax.broadcasted_iota(jnp.int32, ref.shape, axis)
    return jnp.where(at < length, ref[...], jnp.zeros_like(ref))


def numbers(rng, shape: tuple[int, ...], dtype, seed: int) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.floating):
        return normal(shape, dtype, seed)
    return whole(shape, -100, 100, dtype, seed)


def a_product(rng) -> Right:
    """x @ y over a grid of rows, columns and the reduction, with an accumulator in scratch or in the output."""
    m, n, depth = (int(k) for k in rng.integers((4, 4, 4), (80, 300, 420)))
    dtype = rng.choice(np.array([jnp.float32, jnp.bfloat16, jnp.int8], object))
    wide = jnp.int32 if dtype == jnp.int8 else jnp.float32
    precision = jax.lax.Precision.HIGHEST if dtype == jnp.float32 else None
    rows = 32 if dtype == jnp.int8 else 8
    bm, bn, bk = a_block(rng, m, rows), a_block(rng, n, 128), a_block(rng, depth, 128)
    steps = [pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(depth, bk)]
    loops = an_order(rng, 3)
    i, j, k = (along(rng, loops.index(loop), steps[loop]) for loop in range(3))
    in_scratch = bool(rng.random() < 0.5)

    def kernel(x_ref, y_ref, o_ref, *scratch):
        at = [pl.program_id(axis) for axis in range(3)]
        (acc_ref,) = scratch or (o_ref,)

        @pl.when(at[2] == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        x, y = inside(x_ref, 1, k(*at), depth), inside(y_ref, 0, k(*at), depth)
        acc_ref[...] += jnp.dot(x, y, preferred_element_type=wide, precision=precision)

        if in_scratch:

            @pl.when(at[2] == steps[2] - 1)
            def finish():
                o_ref[...] = acc_ref[...]

    fn = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), wide),
        grid=tuple(steps[loop] for loop in loops),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda *at: (i(*at), k(*at))),
            pl.BlockSpec((bk, bn), lambda *at: (k(*at), j(*at))),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda *at: (i(*at), j(*at))),
        scratch_shapes=[pltpu.VMEM((bm, bn), wide)] if in_scratch else [],
        compiler_params=semantics(rng, 3),
    )
    order = "".join("ijk"[loop] for loop in loops)
    return Right(
        f"{np.dtype(dtype).name} {m}x{depth} @ {depth}x{n} in {bm}x{bk} and {bk}x{bn}, grid {order}",
        fn,
        lambda x, y: jnp.dot(x, y, preferred_element_type=wide, precision=precision),
        (numbers(rng, (m, depth), dtype, 0), numbers(rng, (depth, n), dtype, 1)),
    )


ROW_WISE = {  # what a row becomes: (in one go, of two parts, of nothing)
    "sum": (jnp.sum, jnp.add, 0),
    "max": (jnp.max, jnp.maximum, -jnp.inf),
    "min": (jnp.min, jnp.minimum, jnp.inf),
    "mean square": (lambda x, **axes: jnp.sum(x * x, **axes), jnp.add, 0),
}


def a_row_reduction(rng) -> Right:
    """One number for each row, over a grid of rows and parts of rows, kept in float32."""
    m, n = (int(k) for k in rng.integers((4, 40), (60, 2000)))
    dtype = rng.choice(np.array(FLOATS, object))
    name = rng.choice(list(ROW_WISE))
    of_part, merge, nothing = ROW_WISE[name]
    bm, bn = a_block(rng, m, 8), a_block(rng, n, 128)
    steps = pl.cdiv(m, bm), pl.cdiv(n, bn)
    row, part = (along(rng, axis, steps[axis]) for axis in range(2))
    scale = 1 / n if name == "mean square" else 1

    def kernel(x_ref, o_ref, acc_ref):
        i, k = pl.program_id(0), pl.program_id(1)

        @pl.when(k == 0)
        def start():
            acc_ref[...] = jnp.full_like(acc_ref, nothing)

        at = part(i, k) * bn + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        x = jnp.where(at < n, x_ref[...].astype(jnp.float32), nothing)
        acc_ref[...] = merge(acc_ref[...], of_part(x, axis=1, keepdims=True))

        @pl.when(k == steps[1] - 1)
        def finish():
            o_ref[...] = (acc_ref[...] * scale).astype(o_ref.dtype)

    fn = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, 1), dtype),
        grid=steps,
        in_specs=[pl.BlockSpec((bm, bn), lambda *at: (row(*at), part(*at)))],
        out_specs=pl.BlockSpec((bm, 1), lambda *at: (row(*at), 0)),
        scratch_shapes=[pltpu.VMEM((bm, 1), jnp.float32)],
        compiler_params=semantics(rng, 2),
    )

    def reference(x):
        return (of_part(x.astype(jnp.float32), axis=1, keepdims=True) * scale).astype(x.dtype)

    return Right(
        f"{name} of rows, {np.dtype(dtype).name} {m}x{n} in {bm}x{bn}", fn, reference, (normal((m, n), dtype),)
    )


FORMULAS = {
    "multiply and add": lambda x, y: x * y + x,
    "the larger": lambda x, y: jnp.where(x > y, x, y),
    "a bell": lambda x, y: jnp.exp(-jnp.abs(x)) * y,
    "a gate": lambda x, y: x * jax.nn.sigmoid(y),
    "a distance": lambda x, y: jnp.sqrt(x * x + y * y),
}


def an_elementwise(rng) -> Right:
    """A formula on blocks of two or three axes, visited in any order; y may be one row for all."""
    batch = int(rng.integers(1, 4))
    m, n = (int(k) for k in rng.integers((3, 5), (60, 400)))
    dtype = rng.choice(np.array(FLOATS, object))
    name = rng.choice(list(FORMULAS))
    bm, bn = a_block(rng, m, 8), a_block(rng, n, 128)
    steps = [batch, pl.cdiv(m, bm), pl.cdiv(n, bn)]
    loops = rng.permutation(3).tolist()
    one_row = bool(rng.random() < 0.3)
    b, i, j = (along(rng, loops.index(loop), steps[loop]) for loop in range(3))

    def kernel(x_ref, y_ref, o_ref):
        x, y = x_ref[...].astype(jnp.float32), y_ref[...].astype(jnp.float32)
        o_ref[...] = FORMULAS[name](x, jnp.broadcast_to(y, x.shape)).astype(o_ref.dtype)

    spec = pl.BlockSpec((None, bm, bn), lambda *at: (b(*at), i(*at), j(*at)))
    row = pl.BlockSpec((None, 1, bn), lambda *at: (b(*at), 0, j(*at)))
    fn = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((batch, m, n), dtype),
        grid=tuple(steps[loop] for loop in loops),
        in_specs=[spec, row if one_row else spec],
        out_specs=spec,
    )

    def reference(x, y):
        x, y = x.astype(jnp.float32), jnp.broadcast_to(y.astype(jnp.float32), x.shape)
        return FORMULAS[name](x, y).astype(dtype)

    return Right(
        f"{name}, {np.dtype(dtype).name} {batch}x{m}x{n} in {bm}x{bn}, axes {loops}{', one row' if one_row else ''}",
        fn,
        reference,
        (normal((batch, m, n), dtype), normal((batch, 1 if one_row else m, n), dtype, 1)),
    )
