"""What the compiler refuses of kernels on SparseCores, each mistake provoked for real, and what a learner reads."""

import functools

import jax
import jax.numpy as jnp
import provoke
import pytest
import sparse_kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import compiled

on_v6e = functools.partial(compiled, chip="v6e")


def planted(mistake=""):
    fn, _, args = sparse_kernels.case("gathered", mistake)
    return on_v6e(fn, *args)


def added_into_hbm(rows, indices):
    def kernel(rows_hbm, indices_hbm, o_hbm, indices_ref, rows_ref):
        pltpu.sync_copy(indices_hbm, indices_ref)
        pltpu.sync_copy(rows_hbm, rows_ref)
        pltpu.sync_copy(rows_ref, o_hbm.at[indices_ref], add=True)

    scratch = [pltpu.VMEM(indices.shape, indices.dtype), pltpu.VMEM(rows.shape, rows.dtype)]
    return pl.kernel(kernel, out_type=rows, mesh=sparse_kernels.mesh(), scratch_types=scratch)(rows, indices)


def fetched_by(body):
    """A kernel of which ``body`` fetches 16 rows."""

    def kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref, others_ref):
        pltpu.sync_copy(indices_hbm, indices_ref)
        body(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref, others_ref)
        pltpu.sync_copy(rows_ref, o_hbm)

    def fn(table, indices):
        scratch = [pltpu.VMEM((16,), jnp.int32), *[pltpu.VMEM((16, 128), table.dtype)] * 2]
        return pl.kernel(kernel, out_type=table, mesh=sparse_kernels.mesh(), scratch_types=scratch)(table, indices)

    return on_v6e(fn, jax.ShapeDtypeStruct((16, 128), jnp.float32), jax.ShapeDtypeStruct((16,), jnp.int32))


def one_by_one(table_hbm, _, o_hbm, indices_ref, rows_ref, others_ref):
    pl.loop(0, 16)(lambda k: pltpu.sync_copy(table_hbm.at[indices_ref[k]], rows_ref.at[k]))


def list_in_hbm(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref, others_ref):
    pltpu.sync_copy(table_hbm.at[indices_hbm], rows_ref)


def from_own_memory(table_hbm, _, o_hbm, indices_ref, rows_ref, others_ref):
    pltpu.sync_copy(table_hbm, others_ref)
    pltpu.sync_copy(others_ref.at[indices_ref], rows_ref)


def read_from_hbm(table_hbm, _, o_hbm, indices_ref, rows_ref, others_ref):
    rows_ref[0, pl.ds(0, 8)] = table_hbm[0, pl.ds(0, 8)]


def from_shared(columns):
    """A kernel that brings a table into shared memory and fetches rows of so many columns from there."""

    def kernel(table_hbm, indices_hbm, o_hbm, shared_ref, indices_ref, rows_ref):
        pltpu.sync_copy(indices_hbm, indices_ref)
        pltpu.sync_copy(table_hbm, shared_ref)
        pltpu.sync_copy(shared_ref.at[indices_ref], rows_ref)
        pltpu.sync_copy(rows_ref, o_hbm)

    def fn(table, indices):
        scratch = [
            pltpu.VMEM_SHARED(table.shape, table.dtype),
            pltpu.VMEM((16,), jnp.int32),
            pltpu.VMEM(table.shape, table.dtype),
        ]
        return pl.kernel(kernel, out_type=table, mesh=sparse_kernels.mesh(), scratch_types=scratch)(table, indices)

    return on_v6e(fn, jax.ShapeDtypeStruct((16, columns), jnp.float32), jax.ShapeDtypeStruct((16,), jnp.int32))


FAILURES = {
    "sparse-core-shared-width": (from_shared(256), "the rows are not 128 columns wide"),
    "sparse-core-scalar": (fetched_by(one_by_one), "reads a single element of a ref in VMEM"),
    "sparse-core-list": (fetched_by(list_in_hbm), "The list of indices of a copy lies in HBM"),
    "sparse-core-ways": (fetched_by(from_own_memory), "cannot go from VMEM to VMEM"),
    "sparse-core-hbm": (fetched_by(read_from_hbm), "reads a ref that lies in HBM"),
    "sparse-core-bits": (planted("rows of bfloat16"), "have fewer than 32 bits"),
    "sparse-core-width": (planted("64 columns"), "chooses rows of 64 columns by an index, but the array is stored in"),
    "sparse-core-memory": (planted("more rows than VMEM holds"), "words of SparseCore memory (`spmem`)"),
    "sparse-core-add": (
        on_v6e(added_into_hbm, jax.ShapeDtypeStruct((16, 128), jnp.float32), jax.ShapeDtypeStruct((16,), jnp.int32)),
        "adds rows to an array in HBM (add=True), which SparseCores cannot do",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_the_right_kernel_compiles():
    provoke.assert_compiles(planted())


def test_rows_of_128_columns_leave_shared_memory_by_an_index():
    provoke.assert_compiles(from_shared(128))
