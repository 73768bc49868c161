"""Reading what libtpu writes: pinned on pieces of its files, and on files that look like nothing we know."""

import pytest

from course_lib.compiler.dumps import bundles, critical_path, dump, hlo
from course_lib.compiler.dumps.allocations import allocations

HEADERS = {
    "0.0.48 and 0.0.50": "MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU",
    "0.0.51": "MATMUL, MATPUSH, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU",
}

CODE = """\
= control target key start
LB: loop body
= control target key end

     0   :  { %s1_s0 = inlined_call_operand.hbm [shape: f32[8,128]] /* a remark
over two lines { with a brace */  ;;  %s2_s1 = smov 0 /* copy for cssa */ }
   0x1 LB: > { %p3_p0 = scmp.ge.s32.totalorder %s2_s1, 2 }
   0x2   : > { %v4_v1 = vld [vmem:[%s1_s0] sm:$0xff]  ;;  %7 = vst [vmem:[#allocation2_spill]] %v4_v1 }
   0x3   : > { %5 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s1_s0, /*size_in_granules=*/128 }
   0x4   :  {}
"""


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_slots_have_one_set_of_names(header):
    columns = header.split(", ")
    row = " ".join("1" if name in ("VLOAD", "VSTORE", "VSTORE:SPILL", "SALU") else "0" for name in columns)
    text = f"== CAPACITY:\n{header}\n{' 2' * len(columns)}\n== UTILIZATION:\n" + f"{row}\n" * 5
    program = bundles.read("op", CODE, text)
    assert set(program.offered) == {"MXU", "XLU", "VPU", "pop", "EUP", "load", "store", "scalar"}
    assert program.used["store"] == 5 and program.used["MXU"] == 0
    assert (program.spills, program.fills) == (5, 0)
    assert program.listing[2].slots == {"load": 1, "store": 1, "scalar": 1, "spill": 1}


def test_bundles_one_by_one():
    found = bundles.listing("op", CODE)
    assert [b.address for b in found] == [0, 1, 2, 3, 4]
    assert [b.depth for b in found] == [0, 1, 1, 1, 0]
    assert [b.label for b in found] == ["", "LB", "", "", ""]
    assert found[0].instructions == (
        "%s1_s0 = inlined_call_operand.hbm [shape: f32[8,128]]",
        "%s2_s1 = smov 0",
    ), "libtpu's remarks are left out"
    assert found[3].instructions == ("%5 = dma.hbm_to_vmem [thread:$0] /*hbm=*/%s1_s0, /*size_in_granules=*/128",), (
        "but not the names of arguments"
    )
    assert found[4].instructions == ()


def test_critical_path_is_split_by_what_it_waits_for():
    lines = [
        "Length to end: 1500, %s0 = smov 0",
        "Length to end: 1499, %71 = dma.hbm_to_vmem [thread:$0] /*hbm=*/%s70",
        "Length to end: 400, %258 = dma.done.wait %s256, 16384",
        "Length to end: 399, %v1 = vmatmul.bf16.gmra.mxu0 %v0",
        "Length to end: 300, %v2 = vadd.xlane.f32.xlu0 %v1",
        "Length to end: 200, %v3 = vtanh.f32 %v2",
        "Length to end: 190, %v4 = vadd.f32 %v3, %v3",
        "Length to end: 188, %5 = vst [vmem:[%s1]] %v4",
        "something else",
    ]
    split = critical_path.time_split(lines)
    assert split == {
        "issue": 5,
        "scalar": 3,
        "DMA wait": 1098,
        "MXU": 98,
        "XLU": 99,
        "EUP": 9,
        "VPU": 1,
        "store": 187,
    }
    assert sum(split.values()) == 1500


@pytest.mark.parametrize(
    "operation, unit",
    [
        ("vpop.f32.mrf.mxu0", "MXU"),
        ("vmatpush.bf16.msra.mxu3", "MXU"),
        ("vrot.slane", "XLU"),
        ("vpop.eup", "EUP"),
        ("vpow2.f32", "EUP"),
        ("vmul.f32", "VPU"),
        ("vld", "load"),
        ("vsyncadd", "scalar"),
        ("sadd.s32", "scalar"),
        ("pnand", "scalar"),
    ],
)
def test_every_operation_has_its_unit(operation, unit):
    assert critical_path.waits_for(operation) == unit


VMEM = """<script>const DATA ={"hlo_breakdowns": {
 "<top-inlining-caller>": {"blocks": [{"allocations": [{"size": 1, "tag": "SPILL"}]}]},
 "run.1": {"blocks": [{"allocations": [
   {"size": 8192, "tag": "input window allocation for operator input 1. This allocation has 2 buffering levels."},
   {"size": 4096, "tag": "scratch operand"},
   {"size": 512, "tag": "scoped memory for run.1"},
   {"size": 64, "tag": "SPILL"},
   {"size": 32, "tag": "operand span for operand 3"},
   {"size": 16}]}]}}}; more script</script>"""


def test_vmem_pieces_have_a_purpose():
    found = allocations(VMEM)
    assert [(p.purpose, p.bytes, p.buffers, p.name) for p in found] == [
        ("input window", 8192, 2, "input 1"),
        ("scratch", 4096, 1, ""),
        ("scratch", 512, 1, ""),
        ("spill slots", 64, 1, ""),
        ("other", 32, 1, ""),
        ("other", 16, 1, ""),
    ]


MODULE = """\
HloModule jit_run, is_scheduled=true

%body (arg: (s32[], f32[256,128])) -> (s32[], f32[256,128]) {
  %arg = (s32[]{:T(128)}, f32[256,128]{1,0:T(8,128)}) parameter(0)
  %count = s32[]{:T(128)} get-tuple-element(%arg), index=0
  %one = s32[]{:T(128)} constant(1)
  %next = s32[]{:T(128)} add(%count, %one)
  %x = f32[256,128]{1,0:T(8,128)} get-tuple-element(%arg), index=1
  %run.2 = f32[256,128]{1,0:T(8,128)} custom-call(%x), custom_call_target="tpu_custom_call", a={kernel_metadata={
"course_call":"3"
}}, metadata={op_name="jit(run)/pallas_call"}
  ROOT %out = (s32[]{:T(128)}, f32[256,128]{1,0:T(8,128)}) tuple(%next, %run.2)
}

%condition (arg.1: (s32[], f32[256,128])) -> pred[] {
  %arg.1 = (s32[]{:T(128)}, f32[256,128]{1,0:T(8,128)}) parameter(0)
  %count.1 = s32[]{:T(128)} get-tuple-element(%arg.1), index=0
  %end = s32[]{:T(128)} constant(END)
  ROOT %lt = pred[]{:T(512)} compare(%count.1, %end), direction=LT
}

%sliced (param_0: f32[4096,128], param_1: s32[]) -> f32[8,128] {
  %param_0 = f32[4096,128]{1,0:T(8,128)} parameter(0)
  %param_1 = s32[]{:T(128)} parameter(1)
  ROOT %part = f32[8,128]{1,0:T(8,128)} dynamic-slice(%param_0, %param_1), dynamic_slice_sizes={8,128}
}

ENTRY %main (a: f32[256,128], b: f32[4096,128]) -> f32[256,128] {
  %a = f32[256,128]{1,0:T(8,128)} parameter(0)
  %b = f32[4096,128]{1,0:T(8,128)} parameter(1)
  %zero = s32[]{:T(128)} constant(0)
  %start = s32[]{:T(128)} copy(%zero)
  %copy-start = (f32[256,128]{1,0:T(8,128)S(1)}, f32[256,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a)
  %copy-done = f32[256,128]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %fusion = f32[8,128]{1,0:T(8,128)S(1)} fusion(%b, %zero), kind=kLoop, calls=%sliced
  %doubled = f32[256,128]{1,0:T(8,128)} add(%copy-done, %copy-done)
  %state = (s32[]{:T(128)}, f32[256,128]{1,0:T(8,128)}) tuple(%start, %doubled)
  %while = (s32[]{:T(128)}, f32[256,128]{1,0:T(8,128)}) while(%state), condition=%condition, body=%body
  ROOT %result = f32[256,128]{1,0:T(8,128)} get-tuple-element(%while), index=1
}
"""


def test_ops_of_a_module_and_the_bytes_they_move():
    module = hlo.read(MODULE.replace("END", "7"))
    ops = {op.name: op for op in module.ops if op.hbm_bytes}
    array = 256 * 128 * 4
    assert ops["copy-start"].hbm_bytes == array, "read from HBM, and put into VMEM"
    assert ops["doubled"].hbm_bytes == array, "read from VMEM, and written to HBM"
    assert ops["fusion"].hbm_bytes == 8 * 128 * 4, "a fusion that slices its operand reads the slice"
    assert (ops["run.2"].kind, ops["run.2"].call, ops["run.2"].times) == ("kernel", 3, 7)


def test_a_loop_without_a_known_end_has_no_number_of_trips():
    module = hlo.read(MODULE.replace("constant(END)", "get-tuple-element(%arg.1), index=2"))
    assert next(op for op in module.ops if op.name == "run.2").times is None


@pytest.mark.parametrize("text", ["", "nothing we know", "a, VALU, b\n", "= ENTRY {", "Length to end: x"])
def test_unknown_text_gives_no_answer_instead_of_a_crash(text):
    assert bundles.slot_table(text) == ({}, [])
    assert bundles.listing("op", text) == []
    assert allocations(text) == []
    assert critical_path.time_split(text.splitlines()) == {}
    assert hlo.read(text) == hlo.Module()


def test_an_asynchronous_slice_reads_what_it_brings():
    array, part = "bf16[2048,128]{1,0:T(8,128)(2,1)}", "bf16[512,128]{1,0:T(8,128)(2,1)S(1)}"
    text = f"""ENTRY %main (x: bf16[2048,128]) -> bf16[512,128] {{
  %x = {array} parameter(0)
  %slice-start = (({array}), {part}, s32[]{{:S(2)}}) slice-start(%x), slice={{[0:512], [0:128]}}
  ROOT %slice-done = {part} slice-done(%slice-start)
}}
"""
    (op,) = hlo.read(text).ops
    assert (op.operands, op.results) == ((512 * 128 * 2,), (0,)), "of HBM; the result is in VMEM"


def test_an_empty_folder_is_an_empty_dump(tmp_path):
    assert dump.read(tmp_path) == dump.Dump(cycles={}, alike={}, programs={}, time_split={}, vmem=())


def test_the_files_of_a_folder(tmp_path):
    (tmp_path / "1-run.1-02-final_bundles.txt").write_text(CODE)
    (tmp_path / "1-TLP-02-final_bundles.txt").write_text(CODE)
    (tmp_path / "1-TLP-03-vmem_report.html").write_text(VMEM)
    (tmp_path / "run.1_TPU v5 lite_static_llo_profile.textproto").write_text(
        'hlo_op_estimate {\n  hlo_op_name: "run.1"\n  estimated_cycles: 1500\n  num_equivalent_hlos: 3\n}\n'
    )
    (tmp_path / "run.1_critical_path.txt").write_text("Length to end: 1500, %1 = dma.hbm_to_vmem\n")
    said = dump.read(tmp_path)
    assert said.cycles == {"run.1": 1500} and said.alike == {"run.1": 3}
    assert list(said.programs) == ["run.1"] and len(said.programs["run.1"].listing) == 5
    assert said.time_split == {"run.1": {"scalar": 1, "DMA wait": 1499}}
    assert len(said.vmem) == 6
