"""A block-sparse matrix times a dense one: ``o = A @ b`` for A of the blocks ``values``, each where ``pattern`` has it.

Cost   FLOPs 2*Z*h*w*N for Z blocks of (h, w);  HBM bytes (Z*h*w*ceil(N/bn) + K*N + M*N) * itemsize
VMEM   (2*p*h*w + 2*K*bn + M*bn) * itemsize, p blocks to a step;  and 4*(M + h)*bn for the accumulators

The grid is (cores, panels, steps): a panel is bn columns of b and of o, all their rows, and a step takes p blocks in
the order of the list. So a block is found by an index, and costs its product however the pattern jumps. Where blocks
lie is data, read from SMEM: another pattern of as many blocks runs the same program.
Panels are copied by hand: the next one of b is requested before this one is multiplied, and one of o may leave until
the next is done. Index maps would request a panel one grid step before it is needed, and wait for it one step after it
is done, but a step is too short to hide so large a copy.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.block_sparse.pattern import Pattern, counted, dense_of
from course_lib.kernels.common.legal import LANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def dsd_reference(
    values: Float[Array, "Z h w"], pattern: Pattern, b: Float[Array, "K N"], *, transpose_a: bool = False
) -> Float[Array, "M N"]:
    """Return what ``dsd`` must compute: the product of the whole matrix, accumulated in f32, rounded once.

    A NaN in a row of b that no block meets counts here, because it is multiplied by zeros, and not in ``dsd``.
    """
    a = dense_of(values.astype(jnp.float32), pattern)
    return jnp.dot(a.T if transpose_a else a, b.astype(jnp.float32), precision="highest").astype(b.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """How much of b is in VMEM at once; dsd has all of K. They change the speed, not the result."""

    bk: int | None = None  # of K: a multiple of 128; None for all
    bn: int = 512  # of N: a multiple of 128. If K is cut, sdd has one column of blocks, or all if bk divides K

    def __post_init__(self):
        check(self, bk=LANES, bn=LANES)


class Form(NamedTuple):
    """How the operands lie in memory, and the size of a block of A as it is multiplied."""

    transpose_a: bool
    transpose_b: bool  # b is (N, K); then K / C is a multiple of 128
    transpose_o: bool  # o is (N, M); then M / R is a multiple of 128
    height: int
    depth: int

    def o_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """Return the shape of so many rows of blocks of o."""
        return (columns, rows * self.height) if self.transpose_o else (rows, self.height, columns)

    def b_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """Return the shape of so many rows of blocks of b."""
        return (columns, rows * self.depth) if self.transpose_b else (rows, self.depth, columns)


def _dsd_kernel(
    pattern: Pattern,  # of refs in SMEM
    values_ref: Float[Ref, "p _h _w"],  # the blocks of step t
    b_hbm: Float[Ref, "..."],  # (C, w, N), or transposed (N, K)
    o_hbm: Float[Ref, "..."],  # (R, h, N), or transposed (N, M)
    acc_ref: Float32[Ref, "..."],  # a panel, and one more row of blocks, which takes the surplus ones
    b_ref: Float[Ref, "..."],  # 2 panels
    o_ref: Float[Ref, "..."],  # 1 panel
    b_sem: Ref,
    o_sem: Ref,
    *,
    bn: int,
    form: Form,
    precision,
) -> None:
    core, panel, t = (pl.program_id(axis) for axis in range(3))
    panels, steps = pl.num_programs(1), pl.num_programs(2)

    def columns(hbm, panel, transposed):
        part = pl.ds(pl.multiple_of((core * panels + panel) * bn, bn), bn)
        return hbm.at[part] if transposed else hbm.at[:, :, part]

    def fetch(panel):
        slot = lax.rem(panel, 2)
        return pltpu.make_async_copy(columns(b_hbm, panel, form.transpose_b), b_ref.at[slot], b_sem.at[slot])

    def write_back(panel):
        return pltpu.make_async_copy(o_ref, columns(o_hbm, panel, form.transpose_o), o_sem)

    @pl.when((panel == 0) & (t == 0))
    def _first():
        fetch(panel).start()

        def zero(row):  # rows without a block, too
            acc_ref[row] = jnp.zeros_like(acc_ref[row])

        for_every_row(zero, pattern, form)

    @pl.when((panel + 1 < panels) & (t == 0))
    def _next():
        fetch(panel + 1).start()

    @pl.when(t == 0)
    def _arrived():
        fetch(panel).wait()

    add_products(pattern, values_ref, b_ref.at[lax.rem(panel, 2)], acc_ref, t, form, precision)

    @pl.when((panel > 0) & (t == steps - 1))
    def _written():
        write_back(panel - 1).wait()

    @pl.when(t == steps - 1)
    def _store():
        def store(row):
            o_ref[row] = acc_ref[row].astype(o_ref.dtype)  # rounded once
            acc_ref[row] = jnp.zeros_like(acc_ref[row])  # for the next panel

        for_every_row(store, pattern, form)
        write_back(panel).start()

    @pl.when((panel == panels - 1) & (t == steps - 1))
    def _last():
        write_back(panel).wait()


def launch_dsd(values, pattern: Pattern, b, form: Form, *, bn, per_step, precision, vmem, cores=1) -> Array:
    """Run the kernel on one TPU, for an N of one or more whole panels for each core. Not under jax.vmap."""
    (count, h, w), n, (rows, cols) = values.shape, b.shape[0 if form.transpose_b else 1], pattern.shape
    o = pl.pallas_call(
        functools.partial(_dsd_kernel, bn=bn, form=form, precision=precision),
        out_shape=out_type(values, form.o_shape(rows, n), b.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(cores, n // (cores * bn), pl.cdiv(count, per_step)),
            in_specs=[
                pl.BlockSpec((per_step, h, w), lambda core, panel, t, _: (t, 0, 0)),
                pl.BlockSpec(memory_space=pl.ANY),
            ],
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            scratch_shapes=[
                pltpu.VMEM(form.o_shape(rows + 1, bn), jnp.float32),
                pltpu.VMEM((2, *form.b_shape(cols, bn)), b.dtype),
                pltpu.VMEM(form.o_shape(rows, bn), b.dtype),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.DMA,
            ],
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"), vmem_limit_bytes=vmem
        ),
        name="block_sparse_dsd",
    )(pattern, values, b.reshape(form.b_shape(cols, n)))
    return o if form.transpose_o else o.reshape(rows * form.height, n)


def add_products(pattern: Pattern, values_ref, b_ref, acc_ref, t, form: Form, precision) -> None:
    """Add the products of the blocks of step ``t``, each to the accumulator of its row."""
    per_step, (transpose_a, transpose_b, transpose_o, height, depth) = values_ref.shape[0], form
    for x in range(per_step):
        row, col = place(pattern, t * per_step + x, per_step)
        row, col = row_at(row, height, transpose_o), row_at(col, depth, transpose_b)
        if transpose_o:  # o.T = b.T @ A.T
            turned = {"transpose_x": not transpose_b, "transpose_y": not transpose_a}
            acc_ref[row] += dot(b_ref[col], values_ref[x], **turned, precision=precision)
        else:
            turned = {"transpose_x": transpose_a, "transpose_y": transpose_b}
            acc_ref[row] += dot(values_ref[x], b_ref[col], **turned, precision=precision)


def place(pattern: Pattern, at, per_step: int):
    """Return row and column of block ``at``; R and 0 for one that is surplus, or past the end of the list."""
    count = pattern.rows.shape[0]
    if count % per_step == 0:
        return counted(pattern.rows[at], pattern.cols[at], pattern.shape)
    read = jnp.minimum(at, count - 1)
    row, col = counted(pattern.rows[read], pattern.cols[read], pattern.shape)
    return jnp.where(at < count, row, pattern.shape[0]), col


def row_at(row, size: int, transposed: bool):
    """Return where a row of blocks lies: along the first axis or, if transposed, side by side in the lanes."""
    return (slice(None), pl.ds(pl.multiple_of(row * size, size), size)) if transposed else row


def for_every_row(do, pattern: Pattern, form: Form) -> None:
    """Call ``do`` with where each row of blocks of o lies, in a loop: unrolled it would be a long program."""
    lax.fori_loop(0, pattern.shape[0], lambda row, _: do(row_at(row, form.height, form.transpose_o)), None)
