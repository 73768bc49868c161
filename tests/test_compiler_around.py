"""What XLA does around a kernel is in the report: copies that turn its arrays, arrays in VMEM, arrays of padding."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl

from course_lib import compiler
from course_lib.compiler.dumps import hlo

pytestmark = needs_libtpu


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def in_blocks(x, rows=1024):
    spec = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(copy_kernel, out_shape=x, grid=(pl.cdiv(x.shape[0], rows),), in_specs=[spec], out_specs=spec)(
        x
    )


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


@functools.cache
def report(fn, *args, **options) -> compiler.Report:
    found = compiler.compile_tpu(fn, *args, **options)
    assert found.ok, found
    return found


def copies(found: compiler.Report) -> int:
    """Bytes of the copies in the kernel's own program, once for each place where one is started."""
    (kernel,) = (op.name for op in found.ops if op.kind == "kernel")
    program = "\n".join(i for bundle in found.listing if bundle.op == kernel for i in bundle.instructions)
    return len(re.findall(r"= dma\.(?:hbm_to_vmem|vmem_to_hbm|general) ", program))


def test_narrow_arrays_are_turned_round_and_the_report_has_the_price():
    found = report(in_blocks, array(4096, 64))
    before, kernel, behind = found.ops
    (note,) = (note for note in found.notes if "transposes arrays" in note)
    for op, said in ((before, "x_ref before it"), (behind, "o_ref after it")):
        assert f"{said} ({op.name}, {op.cycles:,} cycles," in note and f"{op.hbm_bytes:,} bytes)" in note
        assert op.kind == "copy" and op.cycles > kernel.cycles
    assert "the last axis is 128 or more" in note and "jax.experimental.layout" in note


def test_wide_arrays_are_not():
    found = report(in_blocks, array(4096, 128))
    assert found.notes == () and [op.kind for op in found.ops] == ["kernel"]
    assert found.hbm_bytes == 2 * 4096 * 128 * 4 and copies(found) == 2


def test_what_the_note_advises_removes_the_copies():
    """The narrow axis before the last, or matrix products on both sides: no copy is left, nor the note."""
    flat = report(lambda x: in_blocks(x, rows=64), array(64, 4096), simulate=False)
    assert [op.kind for op in flat.ops] == ["kernel"]

    def between(a, b, c):
        return in_blocks(a @ b) @ c

    products = report(between, array(4096, 256), array(256, 64), array(64, 256), simulate=False)
    assert not any("transposes arrays" in note for note in flat.notes + products.notes)
    assert "copy" not in [op.kind for op in products.ops]


def test_a_transposition_that_the_program_asks_for_is_not_blamed_on_xla():
    found = report(lambda x: in_blocks(x.T), array(128, 4096), simulate=False)
    assert "copy" in [op.kind for op in found.ops]
    assert not any("transposes arrays" in note for note in found.notes)


def test_what_xla_keeps_in_vmem_is_not_counted():
    """The copies that turn a small array leave it in VMEM: the kernel's own program starts no copy at all."""
    found = report(in_blocks, array(4096, 64))
    (kernel,) = (op for op in found.ops if op.kind == "kernel")
    assert copies(found) == 0 and kernel.hbm_bytes == 0
    assert "XLA keeps x_ref and o_ref of copy_kernel in VMEM, so its HBM bytes do not count them." in found.notes
    assert not any("lie in HBM" in note for note in found.notes)
    assert found.hbm_bytes == sum(op.hbm_bytes for op in found.ops) == 2 * 4096 * 64 * 4, "in and out, once each"


def test_a_column_of_numbers_moves_its_rows_and_the_report_says_so():
    found = report(in_blocks, array(262_144, 1), simulate=False)
    (kernel,) = (op for op in found.ops if op.kind == "kernel")
    assert kernel.hbm_bytes == 2 * 262_144 * 512 and copies(found) == 2
    assert (
        "x_ref and o_ref (float32[262144,1]) lie in HBM in tiles of 8 x 128: a row of 4 bytes moves 512. Their copies "
        "move 128 times the bytes of the elements."
    ) in found.notes


@pytest.mark.parametrize(
    "type, moved",
    [
        ("f32[262144,64]{1,0:T(8,128)}", 262_144 * 512),
        ("f32[262144,64]{0,1:T(8,128)}", 262_144 * 256),
        ("f32[262144,1]{0,1:T(1,128)}", 262_144 * 4),
        ("bf16[20,100]{1,0:T(8,128)(2,1)}", 24 * 256),
        ("s8[3,5,7]{2,1,0:T(8,128)(4,1)}", 3 * 8 * 128),
        ("f32[2500]{0:T(1024)}", 3 * 4096),
        ("f32[20,100]{1,0}", 20 * 100 * 4),
        ("f32[20,100]", 20 * 100 * 4),
        ("f32[20,128]{1,0:T(8,128)S(1)}", 0),
    ],
)
def test_bytes_of_xlas_arrays_are_those_of_their_layout(type, moved):
    module = hlo.read(f"ENTRY %main (a: f32[]) -> f32[] {{\n  ROOT %x = {type} iota(), iota_dimension=0\n}}\n")
    assert [op.hbm_bytes for op in module.ops] == [moved]
