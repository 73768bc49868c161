"""compiler.bundles: a program as data: loops and how often they run, what each operation keeps at work, and its line.

The first part reads pieces of libtpu's files; the rest asks libtpu.
"""

import linecache

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import array, by_rows, matmul

from course_lib import chips, compiler
from course_lib.compiler import operations
from course_lib.compiler.child import cache
from course_lib.compiler.dumps import bundles, loops

# What a grid of 7 steps and a loop of 13 turns look like: libtpu 0.0.48, with most of it cut out.
CODE = """\
     0   :  { %s446_s9 = smov 0 } /* Start region 84 :: End region 84 */
   0x1 LB: > { %s461_s10 = sadd.s32 4294967295, %s420_s9 ;; %s420_s9 = sphi %s446_s9, %s560_s9 } /* Start region 89 */
   0x2   : > { %s465_s12 = sadd.s32 1, %s420_s9 /* copy for cssa */ ;; %s422_s25 = smov (!%p9_p1), 0 }
   0x3 LB: >> { %s144_s25 = sadd.s32 1, %s424_s25 ;; %s424_s25 = sphi %s422_s25, %s144_s25 } /* Start region 78 :: Start region 33 */
   0x4   : >> { %p141_p12 = scmp.ge.s32.totalorder %s144_s25, 13 /* loc("/home/me/k.py":22:8 to :41) */ }
   0x5   : > { %143 = sbr.rel (!%p141_p12) /* loc("/home/me/k.py":22:8 to :41) */ target = $region78 }
   0x6   : >> { %150 = vst [vmem:[%s149_s28] sm:$0xff] /*vst_source=*/%v148_v1 /* loc("/home/me/k.py":20:12 to :37) */ }
   0x7   :  {} /* End region 33 :: End region 78 */
   0x8   : > { %p14_p13 = scmp.ge.s32.totalorder %s465_s12, 9 /* loop exit test */ } /* End region 89 :: Start region 4 */
   0x9   : > { %16 = sbr.rel (!%p14_p13) target = $region89 }
   0xa   :  {}
   0xb   :  {} /* End region 4 */
   0xc   :  { %188 = vsyncpa [#allocation4], 1 }
"""  # noqa: E501


def bodies(code: str) -> list[str]:
    return [body for _, body in bundles._split(code)]


def test_loops_end_behind_their_branch_and_know_their_turns():
    inner, outer = compiler.Loop(first=3, last=7, turns=13), compiler.Loop(first=1, last=11, turns=9)
    assert loops.read(bodies(CODE)) == (outer, inner)


@pytest.mark.parametrize(
    "was, becomes",
    [
        ("%s144_s25, 13 /*", "%s144_s25, %s7_s3 /*"),  # the end is in a register
        ("%s422_s25 = smov (!%p9_p1), 0", "%s422_s25 = sld [smem:[%s2_s1]]"),  # the start is loaded
        ("%s144_s25 = sadd.s32 1, %s424_s25", "%s144_s25 = smul.u32 2, %s424_s25"),  # it doubles
        ("%p141_p12 = scmp.ge", "%p141_p12 = scmp.ne"),
    ],
)
def test_turns_that_cannot_be_read_off_are_not_known(was, becomes):
    assert was in CODE
    assert [loop.turns for loop in loops.read(bodies(CODE.replace(was, becomes)))] == [9, None]


def test_a_counter_by_threes_stops_at_the_first_that_is_not_below_the_end():
    by_threes = CODE.replace("%s144_s25 = sadd.s32 1", "%s144_s25 = sadd.s32 3")
    assert [loop.turns for loop in loops.read(bodies(by_threes))] == [9, 5]


def test_places_are_read_off_the_remarks_and_leave_the_words_alone():
    store = bundles.listing("op", CODE)[6]
    assert store.instructions == ("%150 = vst [vmem:[%s149_s28] sm:$0xff] /*vst_source=*/%v148_v1",)
    assert store.places == (compiler.Place("/home/me/k.py", 20, 12, 37),)
    assert bundles.listing("op", CODE)[0].places == (), "none anywhere in a bundle: nothing is kept"
    other_line = CODE.replace('":20:12 to :37)', '":20:12 to 21:4)')
    assert bundles.listing("op", other_line)[6].places[0].end == 0


@pytest.mark.parametrize(
    "instruction, unit, text",
    [
        ("%v143_v3 = vmul.f32 2.0, %v139_v0", "VPU", "v3 = vmul.f32 2.0, v0"),
        ("%318 = vpow2.f32 %v147_v8", "EUP", "vpow2.f32 v8"),
        ("%v319_v12 = vpop.eup %318", "pop", "v12 = vpop.eup"),
        ("%2 = vmatmul.bf16.gmra.mxu0 %v1_v7", "MXU", "vmatmul.bf16.gmra.mxu0 v7"),
        ("%v3_v1 = vpop.f32.mrf.mxu1", "pop", "v1 = vpop.f32.mrf.mxu1"),
        ("%4 = vadd.xlane.f32.xlu0 %v3_v1", "XLU", "vadd.xlane.f32.xlu0 v1"),
        ("%5 = vst [vmem:[%s136_s28] sm:$0xff] /*vst_source=*/%v1_v14", "store", "vst [vmem:[s28] sm:$0xff] v14"),
        ("%401 = dma.done.wait (%p481_p6), %s114_s23, 512", "DMA", "dma.done.wait (p6), s23, 512"),
        ("%275 = dma.hbm_to_vmem [thread:$0]  (!%p502_p12), /*hbm=*/%s98_s28, /*size_in_granules=*/512", "DMA",
         "dma.hbm_to_vmem (!p12), 16,384 bytes"),
        ("%53 = dma.vmem_to_hbm [thread:$0] /*size_in_granules=*/1", "DMA", "dma.vmem_to_hbm, 32 bytes"),
        ("%p22_p1 = scmp.eq.s32.totalorder %s21_s14, 0", "scalar", "p1 = scmp.eq.s32.totalorder s14, 0"),
    ],
)  # fmt: skip
def test_an_instruction_has_a_unit_and_short_words(instruction, unit, text):
    assert operations.read([instruction]) == (compiler.Operation(unit, text),)


def test_the_compilers_remarks_are_no_operations():
    remarks = ["%s1_s0 = inlined_call_operand.hbm [shape: f32[8,128]]", "%s4_s3 = sphi %s1_s1, %s2_s2"]
    assert operations.read([*remarks, "%s2_s2 = int_to_ptr.vmem [resolvable:$true] %s1_s1"]) == ()


# With the compiler


def in_turns(x, turns=13):
    """exp of 8 rows in each turn of a loop, in a grid of 7 steps."""

    def kernel(x_ref, o_ref):
        def turn(j, carry):
            rows = pl.ds(j * 8, 8)
            o_ref[rows, :] = jnp.exp(x_ref[rows, :] * 2.0)
            return carry

        lax.fori_loop(0, turns, turn, 0)

    block = pl.BlockSpec((104, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(7,), in_specs=[block], out_specs=block)(x)


def until(n, x):
    """A loop whose end is an argument."""

    def kernel(n_ref, x_ref, o_ref):
        o_ref[...] = lax.fori_loop(0, n_ref[0], lambda j, y: y * 0.5 + 1.0, x_ref[...])

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, n: (0, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, n: (0, 0)),
    )
    return pl.pallas_call(kernel, out_shape=x, grid_spec=spec)(n, x)


ROWS = array((728, 128))


@needs_libtpu
@pytest.mark.parametrize("chip", chips.NAMES)
def test_loops_of_a_kernel_and_how_often_they_run(chip):
    code = compiler.bundles(in_turns, ROWS, chip=chip)
    grid, turns = code.loops
    assert (grid.turns, turns.turns) == (9, 13), "7 steps, and two more to fill and to empty the pipeline"
    assert grid.first < turns.first and turns.last < grid.last and code.busiest == turns
    assert code.around(turns.first) == (grid, turns) and code.times(turns.first) == 117
    assert (code.times(grid.first), code.times(0)) == (9, 1)
    assert code.offered == chips.chip(chip).slots


@needs_libtpu
def test_each_operation_has_the_line_that_made_it():
    code = compiler.bundles(in_turns, ROWS)
    found = [(o.unit, o.text.split()[2 if "=" in o.text else 0], code.source(o.place)) for b in code.bundles
             for o in b.operations if o.place]  # fmt: skip
    assert ("VPU", "vmul.f32", "x_ref[rows, :] * 2.0") in found
    assert ("pop", "vpop.eup", "jnp.exp(x_ref[rows, :] * 2.0)") in found
    assert ("load", "vld", "x_ref[rows, :]") in found
    assert {place.file for b in code.bundles for place in b.places if place} == {"test_compiler_code.py"}


@needs_libtpu
def test_places_change_nothing_else():
    code, report = compiler.bundles(in_turns, ROWS), compiler.compile_tpu(in_turns, ROWS, simulate=False)
    assert [(b.depth, b.slots, [o[:2] for o in b.operations]) for b in code.bundles] == [
        (b.depth, b.slots, [o[:2] for o in b.operations]) for b in report.listing
    ]


@needs_libtpu
def test_a_loop_without_a_known_end():
    code = compiler.bundles(until, array((1,), jnp.int32), array((8, 128)))
    assert None in [loop.turns for loop in code.loops]
    loop = next(loop for loop in code.loops if loop.turns is None)
    assert code.times(loop.first) is None and code.issued(loop) == loop.last - loop.first + 1


CASES = {
    "softmax": (lambda x: by_rows(lambda v: jax.nn.softmax(v, axis=-1), x, 64), array((128, 512))),
    "transpose": (lambda x: by_rows(lambda v: jnp.tanh(v.T).T, x, 128), array((128, 128))),
    "matmul": (matmul, array((512, 512), jnp.bfloat16), array((512, 512), jnp.bfloat16)),
    "a scalar": (lambda x: by_rows(lambda v: v * jnp.sum(v) + jnp.sqrt(v), x, 64), array((64, 128))),
}


@needs_libtpu
@pytest.mark.parametrize("chip", ["v5e", "v6e"])
@pytest.mark.parametrize("name", CASES)
def test_units_are_those_of_the_compilers_own_table(name, chip):
    """The table counts slots: an operation of the EUP takes one of the VPU's too, one that awaits a copy one of the
    loads'. Of MXU, XLU and EUP it counts cycles at work instead."""
    fn, *args = CASES[name]
    code = compiler.bundles(fn, *args, chip=chip)
    for number, bundle in enumerate(code.bundles):
        ours = [o.unit for o in bundle.operations]
        table = {unit: bundle.slots.get(unit, 0) for unit in code.offered}
        assert table["pop"] == ours.count("pop"), number
        assert table["scalar"] + table["load"] + table["store"] + table["VPU"] == sum(
            unit not in ("MXU", "XLU", "pop") or "vpush" in o.text
            for unit, o in zip(ours, bundle.operations, strict=True)
        ), (number, bundle)
        assert table["store"] >= ours.count("store") and table["load"] >= ours.count("load")
    assert {o.unit for b in code.bundles for o in b.operations} <= {*code.offered, "DMA"}


@needs_libtpu
def test_only_kernels_unless_there_is_none():
    def around(x):
        return jnp.sort(in_turns(x), axis=0)

    assert {b.op for b in compiler.bundles(around, ROWS).bundles} == {"kernel"}
    assert compiler.bundles(jnp.exp, array((256, 256))).bundles


@needs_libtpu
def test_what_does_not_compile_has_no_program():
    huge = lambda x, y: matmul(x, y, blocks=(1024, 1024, 1024))  # noqa: E731
    square = array((4096, 4096))
    with pytest.raises(ValueError, match="bundles: <lambda> does not compile for a v5e, so it has no program"):
        compiler.bundles(huge, square, square)
    with pytest.raises(ValueError, match="chip='v9' is not known"):
        compiler.bundles(in_turns, ROWS, chip="v9")
    with pytest.raises(ValueError, match="bundles: .* does not compile"):
        compiler.bundles(lambda x: by_rows(lambda v: jnp.sort(v, axis=0), x), array((64, 128)))


@needs_libtpu
def test_without_libtpu_it_says_so(monkeypatch):
    monkeypatch.setattr(compiler.tpu, "libtpu_version", lambda: None)
    with pytest.raises(compiler.Unavailable, match="libtpu, which holds the TPU compiler, is not installed"):
        compiler.bundles(in_turns, ROWS)


CELL = "def twice(x):\n    return by_rows(lambda v: v + v, x)\n"


def in_a_cell(session: int):
    """``twice`` as a cell of a notebook has it, in one session of its kernel."""
    file = f"/tmp/ipykernel_{session}/1234567.py"
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    names = {"by_rows": by_rows}
    exec(compile(CELL, file, "exec"), names)
    return names["twice"], file


@needs_libtpu
def test_a_cell_is_the_same_program_in_every_session():
    found = []
    for session in (11, 22):
        twice, file = in_a_cell(session)
        before = cache.counts["hits"]
        code = compiler.bundles(twice, array((64, 128)))
        found.append(cache.counts["hits"] - before)
        assert "v + v" in {code.source(place) for b in code.bundles for place in b.places if place}
        assert {place.file for b in code.bundles for place in b.places if place} >= {"1234567.py"}
        del linecache.cache[file]
    assert found[1] == 1


@needs_libtpu
def test_the_first_bundles_of_a_long_program(monkeypatch):
    monkeypatch.setattr(compiler.code, "MOST_BUNDLES", 60)
    code = compiler.bundles(in_turns, ROWS)
    assert len(code.bundles) == 60 and code.left_out == 14
    assert [loop.turns for loop in code.loops] == [13], "the loop around it does not end in what is kept"
