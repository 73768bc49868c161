"""Failures of memory and of copies, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import SMEM, Shape, X, call, compiled, copy, prefetching, simulated

from course_lib import errors


def copy_with_scratch(x_ref, o_ref, scratch_ref):
    o_ref[...] = x_ref[...]


def kernel_copies_without_a_semaphore(x_ref, o_ref):
    pltpu.make_async_copy(x_ref, o_ref).start()


def kernel_takes_both_semaphores(x_ref, o_ref, sem):
    pltpu.make_async_copy(x_ref, o_ref, sem).start()


def kernel_keeps_no_copy(x_ref, o_ref, sem):
    pltpu.make_async_copy(x_ref, o_ref, sem).start().wait()


def in_hbm(x):
    return pl.pallas_call(copy, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)])(x)


def stays_in_hbm(x):
    return pl.pallas_call(copy, out_shape=x, out_specs=pl.BlockSpec(memory_space=pl.ANY))(x)


def in_smem(x):
    return pl.pallas_call(
        lambda s_ref, o_ref: o_ref.__setitem__(..., jnp.full((8, 128), s_ref[0, 0])),
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
    )(x)


def block_in_smem(x):
    return pl.pallas_call(copy, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)])(x)


def copy_of_a_few_rows(x_ref, o_ref):
    """Of large blocks the compiler has less to do with it than with a copy of all."""
    o_ref[:8] = x_ref[:8]


HALF = Shape((4608, 4096), jnp.float32)
BIG = Shape((8192, 8192), jnp.float32)


def interpreted(fn):
    """What the plain interpreter makes of fn(ones)."""

    def explain():
        try:
            with pltpu.force_tpu_interpret_mode(None):
                jax.block_until_ready(fn(jnp.ones(X.shape, X.dtype)))
        except Exception as error:
            return errors.explain(error)

    return explain


def sum_through_smem(x):
    def kernel(x_ref, o_ref):
        o_ref[0, 0] = jnp.sum(x_ref[...])

    return pl.pallas_call(kernel, out_shape=Shape((1, 1), x.dtype), out_specs=SMEM)(x)


def kernel_copies_a_piece(x_hbm, o_ref, x_vmem):
    pltpu.sync_copy(x_hbm.at[0:8], x_vmem)
    o_ref[...] = jnp.tile(x_vmem[...], (32, 1))


FAILURES = {
    "vmem": (
        compiled(call(copy, block=(512, 8192), grid=(16,), index_map=lambda i: (i, 0)), BIG),
        "The kernel needs 64.00 MiB of VMEM, but a kernel may use only 16.00 MiB.",
    ),
    "vmem-physical": (
        compiled(call(copy_of_a_few_rows), HALF),
        "The kernel needs 144.00 MiB of VMEM, but the chip has only 128.00 MiB.",
    ),
    "vmem-buffer": (
        compiled(call(copy_of_a_few_rows), BIG),
        "The block of input 0, f32[8192,8192], alone needs 256.00 MiB of VMEM, but the chip has only 128.00 MiB.",
    ),
    "vmem-buffer, scratch": (
        compiled(
            lambda x: pl.pallas_call(
                copy_with_scratch, out_shape=x, scratch_shapes=[pltpu.VMEM((65536, 1024), jnp.float32)]
            )(x)
        ),
        "A scratch buffer alone needs 256.00 MiB of VMEM",
    ),
    "scalar-store": (compiled(call(lambda x, o: o.__setitem__((0, 0), x[0, 0]))), "writes a scalar to VMEM"),
    "smem-buffer": (
        compiled(in_smem, Shape((2048, 1024), jnp.float32)),
        "The block of input 0, f32[2048,1024], needs 8.00 MiB of SMEM, but the chip has only 1.00 MiB.",
    ),
    "smem-all": (
        compiled(prefetching(lambda i, indices_ref: (indices_ref[i], 0)), Shape((1 << 18,), jnp.int32), X),
        "together need 1.00 MiB of SMEM, but the chip has only 1.00 MiB.",
    ),
    "hbm": (
        compiled(call(copy, (8, 65536), (8192,), lambda i: (i, 0)), Shape((65536, 65536), jnp.float32)),
        "The program needs 32.00 GiB of HBM, but the chip has only 15.75 GiB.",
    ),
    "copy-semaphore": (compiled(call(kernel_copies_without_a_semaphore)), "started without a semaphore"),
    "copy-of-a-value": (
        compiled(call(lambda x, o: pltpu.sync_copy(x[...], o))),
        "A copy was given a value, but it needs two refs",
    ),
    "copy-of-all-semaphores": (
        simulated(call(kernel_takes_both_semaphores, scratch_shapes=[pltpu.SemaphoreType.DMA((2,))])),
        "A copy was given a semaphore array of shape (2,), but takes one semaphore.",
    ),
    "copy-not-kept": (
        compiled(call(kernel_keeps_no_copy, scratch_shapes=[pltpu.SemaphoreType.DMA])),
        ".wait() is called on None",
    ),
    "copy-mismatch": (
        compiled(call(lambda x, o: pltpu.sync_copy(x, o.at[0:8]))),
        "A copy goes between two refs that differ in shape (`dma_start`",
    ),
    "copy-mismatch, of dtypes": (
        compiled(call(lambda x, o: pltpu.sync_copy(x, o), out_shape=Shape(X.shape, jnp.bfloat16))),
        "A copy goes between two refs that differ in element type (`dma_start`",
    ),
    "copy-of-other-axes": (
        interpreted(call(lambda x, o: pltpu.sync_copy(x.at[0], o.at[pl.ds(0, 1)]), interpret=True)),
        "A copy goes between two refs that differ in the number of their axes.",
    ),
    "hbm-ref": (compiled(in_hbm), "The kernel reads or writes a ref that was left in HBM"),
    "hbm-ref, written": (compiled(stays_in_hbm), "The kernel reads or writes a ref that was left in HBM"),
    "hbm-ref, simulated": (simulated(in_hbm), "The kernel reads or writes a ref that was left in HBM"),
    "smem-block": (compiled(block_in_smem), "The kernel tries to load many elements at once, but the ref is in SMEM"),
}
CURES = {
    "hbm-ref": compiled(
        call(
            kernel_copies_a_piece,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.VMEM((8, 512), jnp.float32)],
        )
    ),
    "scalar-store": compiled(sum_through_smem),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


def test_the_cure_fits_the_buffer():
    assert "BlockSpec" in FAILURES["vmem-buffer"][0]().next
    assert "BlockSpec" not in FAILURES["vmem-buffer, scratch"][0]().next


def test_an_update_of_another_rank_in_the_kernel_is_no_copy():
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.dynamic_update_slice(x_ref[...], jnp.zeros(8), (0, 0))

    told = compiled(call(kernel))()
    assert told.name == "" and "copy" not in str(told) and "dynamic_update_slice" in told.next, told
