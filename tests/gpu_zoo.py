"""Kernels for Hopper with one bug planted in each, which judge refuses it in which words, and what nobody sees.

Each computes 2 * x, or x @ y; numbers are small, for the simulator of a GPU is slow.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from gpu_zoo_triton import RAGGED, ROW, by_triton, row_by_triton, summed_over_the_grid_by_triton
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu

RNG = np.random.default_rng(0)
V = RNG.normal(size=512).astype(np.float32)
X, Y = (np.asarray(RNG.normal(size=shape), jnp.bfloat16) for shape in ((128, 256), (256, 128)))
BLOCK, STAGES = 128, 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuBug:
    """``caught_by``: "numbers", "races" or "compiler", or two of them where it depends on which thread is faster.

    None: nobody can see it without a GPU, and ``unseen`` says why.
    """

    name: str
    fn: Callable
    args: tuple = (V,)
    reference: Callable = lambda x: 2 * x
    caught_by: str | tuple[str, ...] | None
    says: str = ""  # a regular expression for what a learner should read
    unseen: str = ""


def product(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype)


def narrow_product(x, y):
    """Right in the simulator and for ptxas; an H100 computes something else."""
    return matmul_gpu.product(x, y, blocks=matmul_gpu.Blocks(bn=64, stages=2), sms=1)[0]


def by_tma(x, *, commit=True, wait=True, grid=4, overlap=False):
    """In by plain loads, out by TMA."""

    def kernel(x_gmem, o_gmem, o_smem):
        here = pl.ds(lax.axis_index("i") * BLOCK, BLOCK)
        o_smem[...] = x_gmem[here] * 2
        if commit:
            plgpu.commit_smem()
        there = pl.ds(lax.div(lax.axis_index("i"), 2) * BLOCK, BLOCK) if overlap else here
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[there])
        if wait:
            plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM((BLOCK,), x.dtype)]
    return plgpu.kernel(kernel, out_type=like(x), grid=(grid,), grid_names=("i",), scratch_types=scratch)(x)


def two_pieces(x, *, wait_between):
    """A block leaves in two pieces by the same shared memory."""

    def kernel(x_gmem, o_gmem, o_smem):
        for piece in range(2):
            here = pl.ds(lax.axis_index("i") * 2 * BLOCK + piece * BLOCK, BLOCK)
            if piece and wait_between:
                plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            o_smem[...] = x_gmem[here] * 2
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM((BLOCK,), x.dtype)]
    return plgpu.kernel(kernel, out_type=like(x), grid=(2,), grid_names=("i",), scratch_types=scratch)(x)


def in_by_tma(x, *, wait="before", arrivals=1):
    def kernel(x_gmem, o_gmem, x_smem, barrier):
        here = pl.ds(lax.axis_index("i") * BLOCK, BLOCK)
        plgpu.copy_gmem_to_smem(x_gmem.at[here], x_smem, barrier)
        if wait == "before":
            plgpu.barrier_wait(barrier)
        o_gmem[here] = x_smem[...] * 2
        if wait == "after":
            plgpu.barrier_wait(barrier)

    scratch = [plgpu.SMEM((BLOCK,), x.dtype), plgpu.Barrier(num_arrivals=arrivals)]
    return plgpu.kernel(kernel, out_type=like(x), grid=(4,), grid_names=("i",), scratch_types=scratch)(x)


def summed_over_the_grid(x):
    """The habit of a TPU, where the steps of a grid run one after another."""

    def kernel(x_gmem, o_gmem):
        o_gmem[...] += x_gmem[pl.ds(lax.axis_index("i") * BLOCK, BLOCK)]

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((BLOCK,), x.dtype), grid=(4,), grid_names=("i",))(x)


def out_of_the_array(x):
    def kernel(x_gmem, o_gmem):
        here = pl.ds(lax.axis_index("i") * BLOCK, BLOCK)
        o_gmem[here] = x_gmem[here] * 2

    return plgpu.kernel(kernel, out_type=like(x), grid=(5,), grid_names=("i",))(x)


def ring(x, y, *, empty=True, release_early=False):
    """x @ y: one warpgroup copies blocks of K into a ring of two stages, another multiplies them."""
    bk = 64
    steps, m, n = x.shape[1] // bk, x.shape[0], y.shape[1]

    def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, o_smem, full, free):
        @pl.when(lax.axis_index("wg") == 1)
        def _copy():
            @pl.loop(0, steps)
            def _step(k):
                stage = lax.rem(k, STAGES)
                if empty:

                    @pl.when(k >= STAGES)
                    def _once_it_is_free():
                        plgpu.barrier_wait(free.at[stage])

                plgpu.copy_gmem_to_smem(x_gmem.at[:, pl.ds(k * bk, bk)], x_smem.at[stage], full.at[stage])
                plgpu.copy_gmem_to_smem(y_gmem.at[pl.ds(k * bk, bk)], y_smem.at[stage], full.at[stage])

            if empty:
                for stage in range(STAGES):
                    plgpu.barrier_wait(free.at[stage])

        @pl.when(lax.axis_index("wg") == 0)
        def _multiply():
            def summed(acc_ref):
                @pl.loop(0, steps)
                def _step(k):
                    stage = lax.rem(k, STAGES)
                    plgpu.barrier_wait(full.at[stage])
                    plgpu.wgmma(acc_ref, x_smem.at[stage], y_smem.at[stage])
                    if not release_early:
                        plgpu.wgmma_wait(0)
                    if empty:
                        plgpu.barrier_arrive(free.at[stage])

                return acc_ref[...]

            sums = pl.run_scoped(summed, plgpu.ACC((m, n), jnp.float32))
            o_smem[...] = sums.astype(o_smem.dtype)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem)
            plgpu.wait_smem_to_gmem(0)

    scratch = [
        plgpu.SMEM((STAGES, m, bk), x.dtype),
        plgpu.SMEM((STAGES, bk, n), y.dtype),
        plgpu.SMEM((m, n), x.dtype),
        plgpu.Barrier(num_arrivals=2, num_barriers=STAGES),
        plgpu.Barrier(num_barriers=STAGES),
    ]
    out = jax.ShapeDtypeStruct((m, n), x.dtype)
    return plgpu.kernel(kernel, out_type=out, scratch_types=scratch, num_threads=2, thread_name="wg")(x, y)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def in_64_byte_tiles(x, y):
    """The first 64 of K, x in tiles with a swizzle of 64 bytes, which do not fit those that wgmma wants here."""

    def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, barrier):
        plgpu.copy_gmem_to_smem(x_gmem.at[:, pl.ds(0, 64)], x_smem, barrier)
        plgpu.copy_gmem_to_smem(y_gmem.at[pl.ds(0, 64)], y_smem, barrier)
        plgpu.barrier_wait(barrier)

        def summed(acc_ref):
            plgpu.wgmma(acc_ref, x_smem, y_smem)
            return acc_ref[...]

        o_gmem[...] = pl.run_scoped(summed, plgpu.ACC((128, 128), jnp.float32)).astype(o_gmem.dtype)

    scratch = [
        plgpu.SMEM((128, 64), x.dtype, transforms=(plgpu.TilingTransform((16, 32)), plgpu.SwizzleTransform(64))),
        plgpu.SMEM((64, 128), y.dtype),
        plgpu.Barrier(num_arrivals=2),
    ]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128, 128), x.dtype), scratch_types=scratch)(x, y)


def wide(x):
    """A row of 32,768 numbers in the registers of 128 threads."""

    def kernel(x_gmem, o_gmem):
        row = x_gmem[...]
        o_gmem[...] = jnp.exp(row - jnp.max(row)) + row

    return plgpu.kernel(kernel, out_type=like(x))(x)


def bug(name, fn, *, caught_by, **more):
    return GpuBug(name=name, fn=fn, caught_by=caught_by, **more)


RING = {"args": (X, Y), "reference": product}
RIGHT = {
    "by_tma": bug("by TMA", by_tma, caught_by=None),
    "two_pieces": bug("two pieces", functools.partial(two_pieces, wait_between=True), caught_by=None),
    "in_by_tma": bug("in by TMA", in_by_tma, caught_by=None),
    "ring": bug("ring", ring, caught_by=None, **RING),
    "by_triton": bug("by Triton", by_triton, caught_by=None, args=(RAGGED,)),
    "row_by_triton": bug(
        "a row", functools.partial(row_by_triton, mask=True), caught_by=None, args=(ROW,), reference=jax.nn.softmax
    ),
}
BUGS = (
    bug("no commit before a TMA store", functools.partial(by_tma, commit=False), caught_by="races",
        says=r"TMA stores shared memory that was just written.*commit_smem\(\) between the two"),
    bug("no wait at the end", functools.partial(by_tma, wait=False), caught_by="numbers",
        says=r"ends while TMA still reads.*wait_smem_to_gmem\(0\)"),
    bug("written again while TMA stores it", functools.partial(two_pieces, wait_between=False), caught_by="races",
        says="written again while TMA may still be storing it"),
    bug("read before the barrier", functools.partial(in_by_tma, wait="after"), caught_by="races",
        says="read before the copy into it has arrived"),
    bug("the barrier is never waited for", functools.partial(in_by_tma, wait="never"), caught_by="races",
        says="read before the copy into it has arrived"),
    bug("one arrival too many is waited for", functools.partial(in_by_tma, arrivals=2), caught_by="numbers",
        says="waits for a signal that never comes"),
    bug("two blocks write the same rows", functools.partial(by_tma, overlap=True), caught_by="races",
        says="write the same part of an array in GPU memory"),
    bug("summed over the grid, as on a TPU", summed_over_the_grid, caught_by="races",
        reference=lambda x: x.reshape(4, BLOCK).sum(0), says="(same part of an array|reads GPU memory that)"),
    bug("one block too many", out_of_the_array, caught_by="numbers", says=r"the end of an array: \[512:640\]"),
    bug("a ring without 'empty' barriers", functools.partial(ring, empty=False), caught_by=("numbers", "races"),
        says="(completes again before|overwrites shared memory that may|before the copy into it)", **RING),
    bug("the wrong swizzle: tiles that wgmma cannot read", in_64_byte_tiles, caught_by="compiler",
        says="no layout of the values", args=(X, Y), reference=lambda x, y: product(x[:, :64], y[:64])),
    bug("an array narrower than what TMA copies for wgmma", narrow_product, caught_by="compiler",
        says=r"an array of shape \(64, 24\) for wgmma(?s:.)*an H100 computed wrong matmuls",
        args=(X[:, :64], Y[:64, :24]), reference=product),
    bug("too many registers", wide, caught_by="compiler", args=(RNG.normal(size=1 << 15).astype(np.float32),),
        reference=lambda x: jnp.exp(x - jnp.max(x)) + x, says="spills: a thread has 255 registers"),
    bug("a ragged edge without a mask", functools.partial(by_triton, mask=False), caught_by="numbers", args=(RAGGED,),
        says=r"x_ref is read without a mask, but its last block reaches past the array: axis 0 of shape \(1000,\)"),
    bug("a ragged row without a mask", functools.partial(row_by_triton, mask=False), caught_by="numbers", args=(ROW,),
        reference=jax.nn.softmax, says="x_ref is read without a mask"),
    bug("summed over the grid by pallas_call", summed_over_the_grid_by_triton, caught_by="races",
        reference=lambda x: x.reshape(4, BLOCK).sum(0),
        says=r"Grid steps \(0,\) and \(1,\) both write block \(0,\) of o_ref"),
    bug("a mask that lets one element too many in", functools.partial(by_triton, above=1), caught_by=None,
        args=(RAGGED,), unseen="the interpreter pads an array to whole blocks, and drops what is written there; a GPU "
        "overwrites the first element of the array behind it."),
    bug("a stage is freed while wgmma reads it", functools.partial(ring, release_early=True), caught_by=None,
        unseen="the simulator takes wgmma for something that is done at once; a GPU goes on reading the stage, and the "
        "next copy overwrites it.", **RING),
)  # fmt: skip
