"""The functions whose times others published: what ran for each row of docs/measured.csv, as JAX functions.

The kernels have the blocks, the grid and the copies of the published ones. Each row names its source.
"""

import csv
import functools
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"

Program = tuple[Callable, tuple]  # a function and its arguments: one dispatch


def rows() -> list[dict[str, str]]:
    """Return the rows of docs/measured.csv."""
    with open(DOCS / "measured.csv", newline="") as file:
        return list(csv.DictReader(file))


def programs(row: dict[str, str]) -> list[Program]:
    """Return what ran, one program per dispatch. Raise KeyError for an operation that is not implemented here."""
    sizes = {**numbers(row["shape"]), **numbers(row["blocks"])}
    array = functools.partial(jax.ShapeDtypeStruct, dtype=np.dtype(row["dtype"]))
    if row["op"].startswith("grouped_matmul"):
        return [_grouped(row, sizes, array)]
    return _BUILDERS[row["op"], row["implementation"]](sizes, array)


def numbers(text: str) -> dict[str, int]:
    """Parse "m=8 k=128" into a dict."""
    return {name: int(value) for name, value in (pair.split("=") for pair in text.split())}


def group_sizes(name: str, rows: int) -> np.ndarray:
    """Return the group sizes of a grouped matmul. "random G" does as Tokamax: each row draws one of G groups."""
    if name.startswith("random"):
        groups = int(name.split()[1])
        return np.bincount(np.random.default_rng(0).choice(groups, (rows,)), minlength=groups)
    if name.startswith("list"):
        with open(DOCS / "measured_groups.csv", newline="") as file:
            name = {row["name"]: row["sizes"] for row in csv.DictReader(file)}[name]
    return np.array(name.split(), int)


def _matmul(sizes, array, transposed: bool = False, finish=lambda x: x) -> list[Program]:
    """Return (m, k) times (k, n), or times (n, k) transposed; a grid of output blocks with the reduction inside."""
    m, k, n, bm, bk, bn = (sizes[s] for s in ("m", "k", "n", "bm", "bk", "bn"))
    dims = (((1,), (1 if transposed else 0,)), ((), ()))

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jax.lax.dot_general(x_ref[...], y_ref[...], dims, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def end():
            o_ref[...] = finish(acc_ref[...]).astype(o_ref.dtype)

    y_spec = pl.BlockSpec((bk, bn), lambda i, j, r: (r, j))
    if transposed:
        y_spec = pl.BlockSpec((bn, bk), lambda i, j, r: (j, r))
    call = pl.pallas_call(
        kernel,
        out_shape=array((m, n)),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, r: (i, r)), y_spec],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, r: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )
    return [(call, (array((m, k)), array((n, k) if transposed else (k, n))))]


def _strips(sizes, array) -> list[Program]:
    """Return the kernel of Keras's guide: whole rows times whole columns, ReLU, no reduction axis in the grid.

    Its author says that it ran before Pallas gave each block two buffers (keras-io PR 2284); with two it does not fit.
    """
    m, k, n, bm, bn = (sizes[s] for s in ("m", "k", "n", "bm", "bn"))

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.maximum(jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32), 0)

    call = pl.pallas_call(
        kernel,
        out_shape=array((m, n)),
        grid=(m // bm, n // bn),
        in_specs=[
            pl.BlockSpec((bm, k), lambda i, j: (i, 0), pipeline_mode=pl.Buffered(1)),
            pl.BlockSpec((k, bn), lambda i, j: (0, j), pipeline_mode=pl.Buffered(1)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
    )
    return [(call, (array((m, k)), array((k, n))))]


def _masked(sizes, array) -> list[Program]:
    """Return the lower triangle of x @ y: blocks above the diagonal are not computed, nor their operands fetched."""
    m, k, n, bm, bk, bn = (sizes[s] for s in ("m", "k", "n", "bm", "bk", "bn"))
    wanted = np.tril(np.ones((m // bm, n // bn), np.int32))
    steps = np.flatnonzero(wanted)
    coming = steps[np.minimum(np.searchsorted(steps, np.arange(wanted.size)), len(steps) - 1)]  # the next block wanted
    next_i, next_j = (a.reshape(wanted.shape).astype(np.int32) for a in np.divmod(coming, n // bn))
    kind = np.where(next_i == next_j, 0, 1).astype(np.int32)  # which of two masks: a triangle, or all ones

    def kernel(wanted_ref, kind_ref, next_i_ref, next_j_ref, x_ref, y_ref, mask_ref, o_ref, acc_ref):
        i, j, r = pl.program_id(0), pl.program_id(1), pl.program_id(2)

        @pl.when(r == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when(wanted_ref[i, j] != 0)
        def compute():
            acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

            @pl.when(r == pl.num_programs(2) - 1)
            def end():
                o_ref[...] = (mask_ref[0] * acc_ref[...]).astype(o_ref.dtype)

    call = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(m // bm, n // bn, k // bk),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda i, j, r, w, kind, ni, nj: (ni[i, j], (w[i, j] != 0) * r)),
                pl.BlockSpec((bk, bn), lambda i, j, r, w, kind, ni, nj: ((w[i, j] != 0) * r, nj[i, j])),
                pl.BlockSpec((1, bm, bn), lambda i, j, r, w, kind, ni, nj: (kind[i, j], 0, 0)),
            ],
            out_specs=pl.BlockSpec((bm, bn), lambda i, j, r, *_: (i, j)),
            scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        ),
        out_shape=array((m, n)),
    )
    masks = jax.ShapeDtypeStruct((2, bm, bn), jnp.int32)
    return [(call, (wanted, kind, next_i, next_j, array((m, k)), array((k, n)), masks))]


def _grouped(row, sizes, array) -> Program:
    """Return a matmul of rows in groups, each with its own right operand, or with its own gradient of it."""
    m, k, n, groups = (sizes[s] for s in ("m", "k", "n", "g"))
    gradient, transposed = "drhs" in row["op"], "transposed" in row["op"]
    shapes = ((m, k), (m, n)) if gradient else ((m, k), (groups, n, k) if transposed else (groups, k, n))
    if row["implementation"] == "xla":
        make, scalars = functools.partial(_xla_grouped, gradient=gradient, transposed=transposed), ()
        of_groups = (jax.ShapeDtypeStruct((groups,), jnp.int32),)
    else:
        of_each = group_sizes(row["groups"], m)
        scalars = _visits(of_each, sizes["bm"], empty=gradient)
        if gradient:
            scalars = (*scalars, (of_each[scalars[1]] > 0).astype(np.int32))
        build = _gradient_kernel if gradient else _grouped_kernel
        make, of_groups = build(sizes, array, len(scalars[0]), transposed), ()

    def run(*args):
        result = make(*args)
        return (result, result) if "residuals" in row["op"] else result

    return run, (*scalars, *map(array, shapes), *of_groups)


def _visits(sizes: np.ndarray, bm: int, empty: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the row tile and group of each visit; a tile with rows of two groups is visited once for each."""
    tiles, groups, first = [], [], 0
    for group, size in enumerate(sizes.tolist()):
        last = first + size
        visited = range(first // bm, -(-last // bm)) if size else [first // bm] * empty
        tiles += visited
        groups += [group] * len(visited)
        first = last
    return np.minimum(tiles, sizes.sum() // bm - 1).astype(np.int32), np.array(groups, np.int32)


def _grouped_kernel(sizes, array, visits: int, transposed: bool) -> Callable:
    m, k, n, bm, bk, bn = (sizes[s] for s in ("m", "k", "n", "bm", "bk", "bn"))
    dims = (((1,), (1 if transposed else 0,)), ((), ()))

    def kernel(tile_ref, group_ref, x_ref, w_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jax.lax.dot_general(x_ref[...], w_ref[...], dims, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def end():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    w_spec = pl.BlockSpec((None, bk, bn), lambda j, v, r, tile, group: (group[v], r, j))
    if transposed:
        w_spec = pl.BlockSpec((None, bn, bk), lambda j, v, r, tile, group: (group[v], j, r))
    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(pl.cdiv(n, bn), visits, pl.cdiv(k, bk)),
            in_specs=[pl.BlockSpec((bm, bk), lambda j, v, r, tile, group: (tile[v], r)), w_spec],
            out_specs=pl.BlockSpec((bm, bn), lambda j, v, r, tile, group: (tile[v], j)),
            scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        ),
        out_shape=array((m, n)),
    )


def _gradient_kernel(sizes, array, visits: int, transposed: bool) -> Callable:
    """Return a kernel for x.T @ dy of each group: rows are contracted, so a group's block stays until its last tile."""
    k, n, groups, bm, bk, bn = (sizes[s] for s in ("k", "n", "g", "bm", "bk", "bn"))

    def kernel(tile_ref, group_ref, filled_ref, x_ref, dy_ref, o_ref, acc_ref):
        v = pl.program_id(2)
        group, last = group_ref[v], pl.num_programs(2) - 1

        @pl.when((v == 0) | (group != group_ref[jnp.maximum(v - 1, 0)]))
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when(filled_ref[v] != 0)
        def add():
            acc_ref[...] += jnp.dot(x_ref[...].T, dy_ref[...], preferred_element_type=jnp.float32)

        @pl.when((v == last) | (group != group_ref[jnp.minimum(v + 1, last)]))
        def end():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(pl.cdiv(n, bn), pl.cdiv(k, bk), visits),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda j, i, v, tile, *_: (tile[v], i)),
                pl.BlockSpec((bm, bn), lambda j, i, v, tile, *_: (tile[v], j)),
            ],
            out_specs=pl.BlockSpec((None, bk, bn), lambda j, i, v, tile, group, filled: (group[v], i, j)),
            scratch_shapes=[pltpu.VMEM((bk, bn), jnp.float32)],
        ),
        out_shape=array((groups, k, n)),
    )


def _xla_grouped(x, w, sizes, gradient: bool, transposed: bool) -> jax.Array:
    dims = jax.lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=(((0,), (0,)) if gradient else ((1,), (2 if transposed else 1,)), ((), ())),
        lhs_ragged_dimensions=[0],
        rhs_group_dimensions=[] if gradient else [0],
    )
    return jax.lax.ragged_dot_general(x, w, sizes, dims)


def _xla_matmul(sizes, array) -> list[Program]:
    return [(jnp.matmul, (array((sizes["m"], sizes["k"])), array((sizes["k"], sizes["n"]))))]


def _xla_masked(sizes, array) -> list[Program]:
    m, k, n = sizes["m"], sizes["k"], sizes["n"]
    mask = jax.ShapeDtypeStruct((m, n), jnp.int32)
    return [(lambda mask, x, y: mask * (x @ y), (mask, array((m, k)), array((k, n))))]


def _xla_layer_norm(sizes, array) -> list[Program]:
    shape, axis = (sizes["a"], sizes["b"], sizes["c"]), sizes["axis"] % 3
    along = [1, 1, 1]
    along[axis] = shape[axis]
    weight = jax.ShapeDtypeStruct((shape[axis],), jnp.float32)

    def layer_norm(x, scale, offset):
        wide = x.astype(jnp.float32)
        mean = wide.mean(axis, keepdims=True)
        centred = wide - mean
        variance = (centred * centred).mean(axis, keepdims=True)
        normed = centred * jax.lax.rsqrt(variance + 1e-6)
        return (normed * scale.reshape(along) + offset.reshape(along)).astype(x.dtype)

    return [(layer_norm, (array(shape), weight, weight))]


_BUILDERS = {
    ("matmul", "pallas"): _matmul,
    ("matmul_transposed_rhs", "pallas"): functools.partial(_matmul, transposed=True),
    ("matmul_relu", "pallas"): functools.partial(_matmul, finish=jax.nn.relu),
    ("matmul_relu_strips", "pallas"): _strips,
    ("masked_matmul", "pallas"): _masked,
    ("matmul", "xla"): _xla_matmul,
    ("masked_matmul", "xla"): _xla_masked,
    ("matmul_then_relu", "xla"): lambda sizes, array: [
        *_xla_matmul(sizes, array),
        (jax.nn.relu, (array((sizes["m"], sizes["n"])),)),
    ],
    ("layer_norm", "xla"): _xla_layer_norm,
}
