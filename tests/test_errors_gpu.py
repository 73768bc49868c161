"""Failures of kernels for GPUs, each provoked for real, and what a learner reads."""

import functools

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from provoke import Shape
from sweeps import daily

from course_lib import compat, compiler, errors

BF16, F32 = jnp.bfloat16, jnp.float32
V = Shape((512,), F32)
X, Y = Shape((128, 64), BF16), Shape((64, 128), BF16)


def compiled(fn, *args, chip="h100"):
    """What compile_gpu makes of fn: an explanation, or None. Most is refused before the compiler sees it."""

    def explain():
        try:
            return compiler.compile_gpu(fn, *args, chip=chip).error
        except compiler.Unavailable as why:
            pytest.skip(str(why))

    return explain


def simulated(fn, *args):
    """What the simulator of a GPU makes of fn(ones)."""

    def explain():
        values = [jnp.ones(a.shape, a.dtype) for a in args]
        try:
            with plgpu.force_gpu_interpret_mode(compat.interpret_gpu_params(detect_races=True, on_race="warn")):
                jax.block_until_ready(jax.jit(lambda *a: fn(*a))(*values))
        except Exception as error:
            return errors.explain(error)
        finally:
            compat.reset_gpu_interpreter()

    return explain


def by_blocks(body, scratch=(), grid=4, out=V, **how):
    """f(x): ``body(x_gmem, o_gmem, here, *scratch)`` for each 128 elements of x."""

    def f(x):
        def kernel(x_gmem, o_gmem, *scratch_refs):
            body(x_gmem, o_gmem, pl.ds(lax.axis_index("i") * 128, 128), *scratch_refs)

        how_else = {"grid": (grid,), "grid_names": ("i",)} | how
        return plgpu.kernel(kernel, out_type=out, scratch_types=list(scratch), **how_else)(x)

    return f


SMEM = plgpu.SMEM((128,), F32)


def straight(x_gmem, o_gmem, here):
    o_gmem[here] = x_gmem[here]


def stored(x_gmem, o_gmem, here, smem, wait=True, there=None):
    smem[...] = x_gmem[here]
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(smem, o_gmem.at[here if there is None else there])
    if wait:
        plgpu.wait_smem_to_gmem(0)


def loaded(x_gmem, o_gmem, here, smem, *barrier):
    plgpu.copy_gmem_to_smem(x_gmem.at[here], smem, *barrier)
    for one in barrier:
        plgpu.barrier_wait(one)
    o_gmem[here] = smem[...]


def left_waiting(x_gmem, o_gmem, here, smem):
    def once_too_few(barrier):
        loaded(x_gmem, o_gmem, here, smem, barrier)
        plgpu.copy_gmem_to_smem(x_gmem.at[here], smem, barrier)

    pl.run_scoped(once_too_few, plgpu.Barrier())
    pl.run_scoped(lambda barrier: loaded(x_gmem, o_gmem, here, smem, barrier), plgpu.Barrier())


def twice_into_one(x_gmem, o_gmem, here, smem, barrier):
    plgpu.copy_gmem_to_smem(x_gmem.at[here], smem, barrier)
    loaded(x_gmem, o_gmem, here, smem, barrier)


def arrives_too_often(x_gmem, o_gmem, here, smem, barrier):
    twice = pl.ds(0, 128)
    for _ in range(2):
        plgpu.copy_gmem_to_smem(x_gmem.at[twice], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.barrier_arrive(barrier)
        o_gmem[here] = smem[...]


def in_one_piece(x_gmem, o_gmem, here, smem, barrier):
    plgpu.copy_gmem_to_smem(x_gmem, smem, barrier)


def copied_on_the_spot(x_gmem, o_gmem, here):
    plgpu.copy_smem_to_gmem(x_gmem.at[here], o_gmem.at[here])


def unnamed(x_gmem, o_gmem, here):
    o_gmem[here] = x_gmem[pl.ds(lax.axis_index("j") * 128, 128)]


def product(m=128, n=128, acc=None, transforms=(), jnp_dot=False, bias=False, plain=False):
    """f(x, y) = x @ y by one wgmma."""

    def f(x, y):
        def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, o_smem, barrier):
            plgpu.copy_gmem_to_smem(x_gmem, x_smem, barrier)
            plgpu.copy_gmem_to_smem(y_gmem, y_smem, barrier)
            plgpu.barrier_wait(barrier)

            def summed(acc_ref):
                if plain:
                    acc_ref[...] += jnp.ones((m, n), F32)
                plgpu.wgmma(acc_ref, x_smem, y_smem)
                return acc_ref[...]

            ours = (lambda: jnp.dot(x_smem[...], y_smem[...])) if jnp_dot else None
            sums = ours() if ours else pl.run_scoped(summed, plgpu.ACC(acc or (m, n), F32))
            if bias:
                sums = sums + y_gmem.at[0][...].astype(F32)[None]
            o_smem[...] = sums.astype(o_smem.dtype)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem)
            plgpu.wait_smem_to_gmem(0)

        smem = [plgpu.SMEM(x.shape, x.dtype, transforms=transforms), plgpu.SMEM(y.shape, y.dtype)]
        scratch = [*smem, plgpu.SMEM((m, n), x.dtype), plgpu.Barrier(num_arrivals=2)]
        return plgpu.kernel(kernel, out_type=Shape((m, n), x.dtype), scratch_types=scratch)(x, y)

    return f


def triton(body, block=(128,), **settings):
    def f(x):
        spec = pl.BlockSpec(block, lambda i: (i,))
        grid = (x.size // block[0],)
        how = {"out_shape": x, "grid": grid, "in_specs": [spec], "out_specs": spec} | settings
        return pl.pallas_call(body, **how)(x)

    return f


def copy(x_ref, o_ref, *scratch):
    o_ref[...] = x_ref[...]


def sort(x_ref, o_ref):
    o_ref[...] = jnp.sort(x_ref[...])


def whole_product(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32).astype(o_ref.dtype)

    return pl.pallas_call(kernel, out_shape=Shape((256, 256), BF16))(x, y)


SWIZZLED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(64))
BAD_TILES = (plgpu.SwizzleTransform(128),)


def in_triton(fn, dtype=BF16, chip="a100"):
    """What the GPU's compiler says to a pallas_call that computes fn(256 numbers)."""
    return compiled(triton(lambda x, o: o.__setitem__(..., fn(x[...])), (256,)), Shape((256,), dtype), chip=chip)


def less_the_sum(read):
    """f(x) = x - its sums along the lanes, for x as ``read`` from shared memory."""

    def kernel(x_gmem, o_gmem, x_smem, o_smem, barrier):
        plgpu.copy_gmem_to_smem(x_gmem, x_smem, barrier)
        plgpu.barrier_wait(barrier)
        x = read(x_smem)
        o_smem[...] = x - jnp.sum(x, axis=1, keepdims=True)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    block = Shape((128, 128), F32)
    scratch = [plgpu.SMEM(block.shape, F32), plgpu.SMEM(block.shape, F32), plgpu.Barrier()]
    return compiled(lambda x: plgpu.kernel(kernel, out_type=block, scratch_types=scratch)(x), block)


FAILURES = {
    "gpu-smem": (
        compiled(product(256, 256), Shape((256, 512), BF16), Shape((512, 256), BF16)),
        "asks for 640 KiB of shared memory, but may use only 227 KiB",
    ),
    "triton-smem": (
        compiled(whole_product, Shape((256, 1024), BF16), Shape((1024, 256), BF16)),
        "KiB of shared memory, but may use only 227 KiB",
    ),
    "gpu-layouts": (compiled(product(transforms=BAD_TILES), X, Y), "over the 128 threads of a warpgroup"),
    "gpu-layouts, a vector of 100": (
        compiled(lambda x: plgpu.kernel(copy, out_type=x)(x), Shape((100,), F32)),
        "finds no layout of the values",
    ),
    "gpu-swizzle": (
        compiled(product(transforms=SWIZZLED), X, Y),
        "A swizzle of 64 bytes needs tiles that are 32 elements wide, but the tiles here are (16, 1, 8, 64).",
    ),
    "wgmma-rows": (compiled(product(32), Shape((32, 64), BF16), Y), "64 rows at once, but the accumulator has 32."),
    "wgmma-f32": (compiled(product(), Shape((128, 64), F32), Shape((64, 128), F32)), "reads f32 as tf32"),
    "wgmma-dtypes": (compiled(product(), X, Shape((64, 128), jnp.float16)), "these are bfloat16 and float16."),
    "wgmma-shapes": (compiled(product(acc=(128, 64)), X, Y), "y (64, 128) and an accumulator of (128, 64)"),
    "gpu-operation": (compiled(product(jnp_dot=True), X, Y), "`dot_general` is not an operation of Mosaic GPU."),
    "gpu-operation, another": (
        compiled(by_blocks(lambda x, o, here: o.__setitem__(here, jnp.sort(x[here]))), V),
        "`sort` is not an operation of Mosaic GPU.",
    ),
    "triton-operation": (compiled(triton(sort), V), "`sort` is not an operation of Triton"),
    "triton-16-bits": (in_triton(lambda x: x / (x + 1)), "The kernel computes a division in 16 bits (line "),
    "triton-16-bits, softmax": (in_triton(jax.nn.softmax), "The kernel computes a division in 16 bits"),
    "triton-16-bits, of float16": (in_triton(lambda x: 1 / x, jnp.float16), "computes a division in 16 bits (line "),
    "triton-16-bits, a power": (in_triton(lambda x: x**1.5), "The kernel computes a power in 16 bits (line "),
    "triton-16-bits, a power of itself": (in_triton(lambda x: x**x), "The kernel computes a power in 16 bits"),
    "triton-16-bits, a logarithm": (in_triton(jnp.log1p), "The kernel computes log1p in 16 bits"),
    "triton-16-bits, tanh": (in_triton(jax.nn.gelu), "The kernel computes tanh in 16 bits"),
    "triton-power-of-2": (compiled(triton(copy, (96,)), Shape((384,), F32)), "this one is (96,)"),
    "triton-scratch": (
        compiled(triton(copy, scratch_shapes=[pltpu.VMEM((128,), F32)]), V),
        "and it has no scratch_shapes.",
    ),
    "gpu-other-backend": (
        compiled(triton(copy, compiler_params=plgpu.CompilerParams()), V),
        "compiler_params is for another backend",
    ),
    "gpu-other-backend, of a TPU": (
        compiled(triton(copy, compiler_params=pltpu.CompilerParams()), V),
        "compiler_params is for another backend",
    ),
    "gpu-layouts, a sum with keepdims": (less_the_sum(lambda x: x[...]), "finds no layout of the values"),
    "gpu-no-barrier": (compiled(by_blocks(loaded, [SMEM]), V), "was given no barrier"),
    "gpu-no-barrier, simulated": (simulated(by_blocks(loaded, [SMEM]), V), "was given no barrier"),
    "gpu-too-old": (compiled(by_blocks(loaded, [SMEM, plgpu.Barrier()]), V, chip="a100"), "TMA came with Hopper"),
    "gpu-too-old, in the compiler": (compiled(by_blocks(stored, [SMEM]), V, chip="a100"), "TMA came with Hopper"),
    "gpu-too-old, or too new": (compiled(product(), X, Y, chip="b200"), "only Hopper has wgmma"),
    "gpu-copy-space": (compiled(by_blocks(copied_on_the_spot), V), "src must be in SMEM, but is"),
    "gpu-copy-shapes": (
        compiled(by_blocks(functools.partial(stored, there=pl.ds(0, 64)), [SMEM]), V),
        "The copy goes from (128,) to (64,)",
    ),
    "gpu-copy-dtypes": (
        compiled(by_blocks(stored, [SMEM], out=Shape((512,), BF16)), V),
        "The copy goes from float32 to bfloat16",
    ),
    "gpu-copy-256": (
        compiled(by_blocks(in_one_piece, [plgpu.SMEM((512,), F32), plgpu.Barrier()]), V),
        "at most 256 elements along each axis, but this one is (512,)",
    ),
    "gpu-grid-names": (compiled(by_blocks(straight, grid_names=()), V), "was given () for a grid of (4,)"),
    "gpu-axis": (compiled(by_blocks(unnamed), V), "There is no axis called j here."),
    "gpu-not-waited": (simulated(by_blocks(functools.partial(stored, wait=False), [SMEM]), V), "TMA still reads"),
    "gpu-barrier-left": (
        simulated(by_blocks(left_waiting, [SMEM], grid=1), V),
        "Warpgroup 0 ends before it has waited",
    ),
    "gpu-barrier-overrun": (
        simulated(by_blocks(twice_into_one, [SMEM, plgpu.Barrier()], grid=1), V),
        "completes again before any thread has waited",
    ),
    "gpu-barrier-ahead": (
        simulated(by_blocks(arrives_too_often, [SMEM, plgpu.Barrier()], grid=1), V),
        "it counts an arrival too many",
    ),
    "gpu-load-vector": (compiled(product(bias=True), X, Y), "in a layout that Mosaic GPU has no fast load for"),
    "gpu-accumulator": (simulated(product(plain=True), X, Y), "Only plgpu.wgmma adds to it"),
    "gpu-outside": (simulated(by_blocks(straight, grid=5), V), "[512:640] of an array of shape (512,)"),
}  # fmt: skip
CURES = {
    "gpu-not-waited": simulated(by_blocks(stored, [SMEM]), V),
    "gpu-no-barrier": simulated(by_blocks(loaded, [SMEM, plgpu.Barrier()]), V),
    "gpu-swizzle": compiled(product(), X, Y),
    "gpu-layouts, a sum with keepdims": less_the_sum(lambda x: plgpu.layout_cast(x[...], plgpu.Layout.WGMMA)),
    "triton-16-bits": in_triton(lambda x: jax.nn.softmax(x.astype(F32)).astype(x.dtype)),
    "triton-16-bits, a power": in_triton(lambda x: (x.astype(F32) ** 1.5).astype(x.dtype)),
    "triton-16-bits, a logarithm": in_triton(lambda x: jnp.log1p(x.astype(F32)).astype(x.dtype)),
    "triton-16-bits, tanh": in_triton(lambda x: jax.nn.gelu(x.astype(F32)).astype(x.dtype)),
}
# The nearest kernels that are right.
RIGHT = {
    "a product and a sum of bfloat16": in_triton(lambda x: x * x + jnp.sum(x)),
    "exp and log of bfloat16": in_triton(lambda x: jnp.exp(x) + jnp.log(x) + jnp.sqrt(x)),
    "a whole power of bfloat16": in_triton(lambda x: x**2),
    "a division of float32": in_triton(lambda x: x / (x + 1), F32),
}


def but_few_of_16_bits(cases):
    """All cases, but of the many in 16 bits, each of which a compiler of GPUs needs seconds for, only the first."""
    return daily(*(name for name in cases if not name.startswith("triton-16-bits, ")), of=cases)


@pytest.mark.parametrize("failure", but_few_of_16_bits(FAILURES))
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", but_few_of_16_bits(CURES))
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


@pytest.mark.parametrize("program", daily("a product and a sum of bfloat16", of=RIGHT))
def test_no_row_speaks_of_what_is_right(program):
    provoke.assert_compiles(RIGHT[program])
