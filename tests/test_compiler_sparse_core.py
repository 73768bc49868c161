"""The listing of what SparseCores run: read as the compiler writes it, and the instructions found in it."""

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sweeps import daily

from course_lib import compiler
from course_lib.compiler.sparse_core import bundles
from course_lib.kernels import sparse_core

SAMPLE = """\
scs
__scs_entry_jumppad:
0x0: {  \t(pc) =\tsbr.rel $0x88  }
0x1: {  \t(tag) =\tssettag $0x0;
\tlr =\tsimm.s32 $0x1  }
.Lfunc_end0:
tec
execute0_lowered:
.LBB3_2:
0x0: {  \t[tilespmem:s21], [sflag:$0x4] =\tstream.indirect.gather [hbm4b:s0+s20], $0x80, s3, s20, $0x80b8;
\t[tilespmem:$0x8100] =\tvst v63  }
"""


def test_a_listing_is_read_bundle_by_bundle():
    first, second, third = bundles("run", SAMPLE)
    assert (first.unit, first.routine, first.address) == ("scalar subcore", "__scs_entry_jumppad", 0)
    assert second.instructions == ("(tag) = ssettag $0x0", "lr = simm.s32 $0x1") and second.address == 1
    assert (third.unit, third.routine, third.address) == ("vector subcore", "execute0_lowered", 0)
    assert third.instructions[0].startswith("[tilespmem:s21], [sflag:$0x4] = stream.indirect.gather [hbm4b:s0+s20]")


def struct(*shape, dtype=jnp.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


ROWS = struct(512, 128, dtype=jnp.float32)
FIND = {  # op: (function, arguments, instructions of a vector subcore)
    "gather": (sparse_core.gather_rows, (ROWS, struct(1024)), ["stream.indirect.gather"]),
    "scatter": (
        lambda r, i: sparse_core.scatter_add(r, i, 100), (ROWS, struct(512)),
        ["stream.indirect.gather", "stream.indirect.scatter.add.f32", "sbarrier.arrive"],
    ),
    "histogram": (
        lambda v: sparse_core.histogram(v, 100), (struct(1024),), ["vunique.msk.u32", "vst.idx.add.s32.msk"],
    ),
}  # fmt: skip
CHIPS = "v6e", "v5p", "tpu7x"


@needs_libtpu
@pytest.mark.parametrize(
    "op, chip", daily(("gather", "v6e"), ("histogram", "v6e"), of=[(op, chip) for op in FIND for chip in CHIPS])
)
def test_the_instruction_is_found(op, chip):
    fn, args, instructions = FIND[op]
    listing = compiler.sparse_core_listing(fn, *args, chip=chip)
    for instruction in instructions:
        found = listing.find(instruction)
        assert found and {bundle.unit for bundle in found} == {"vector subcore"}, instruction
        assert str(found[0]) in str(listing)
    others = {"stream.indirect.gather", "vst.idx.add.s32.msk"} - set(instructions)
    assert not any(map(listing.find, others - {"stream.indirect.gather"} if op == "scatter" else others))
    assert f"for {chip}: {len(listing.bundles):,} bundles" in repr(listing)


@needs_libtpu
def test_what_has_no_listing_is_named():
    with pytest.raises(ValueError, match="<lambda> runs nothing on the SparseCores of a v6e"):
        compiler.sparse_core_listing(lambda x: x + 1, ROWS)
    with pytest.raises(ValueError, match="runs nothing on the SparseCores of a v5e"):
        compiler.sparse_core_listing(sparse_core.gather_rows, ROWS, struct(8), chip="v5e")
    with pytest.raises(ValueError, match="does not compile for a v6e.*multiple of 128"):
        compiler.sparse_core_listing(sparse_core.gather_rows, struct(8, 100), struct(8))


@needs_libtpu
@pytest.mark.sweep  # every day the instructions of our own kernels are found
def test_what_xla_runs_there_by_itself_is_listed():
    vector, many = struct(100_000, dtype=jnp.float32), struct(65_536)
    listing = compiler.sparse_core_listing(lambda x, i: x.at[i].add(1), vector, many)
    assert listing.find("stream.indirect_vreg") and {bundle.op for bundle in listing.bundles} == {
        "scatter_offload_async_start"
    }
    with pytest.raises(ValueError, match="runs nothing"):
        compiler.sparse_core_listing(lambda x, i: jnp.take(x, i, axis=0), ROWS, many)
