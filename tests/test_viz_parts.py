"""The panels of a report: slots, time, VMEM, ops and the listing show the numbers they are given."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest
import viz_samples
from viz_samples import HOSTILE, boxes, overflowing, parsed, words

from course_lib import cost, grid
from course_lib.compiler.report import Bundle, Op
from course_lib.cost import Allocation
from course_lib.viz.common import core_units, draw
from course_lib.viz.report import listing, ops, slots, time_split
from course_lib.viz.vmem_table import vmem_stack

MIB = 1 << 20


def card(panel: draw.Panel) -> str:
    """A panel as a whole picture."""
    return draw.card(panel, "a panel", "a panel")


# Slots


def test_slots_are_bars_of_their_share():
    svg = card(slots.panel({"store": 0.25, "MXU": 0.5, "EUP": 0.0}))
    tracks, bars = boxes(svg, draw.TRACK), boxes(svg, draw.BLUE)
    assert len(tracks) == 3 and len(bars) == 2
    assert [bar[2] / tracks[0][2] for bar in bars] == [0.5, 0.25]
    shown = words(svg)
    assert [shown.index(name) for name in ("MXU", "EUP", "store")] == sorted(map(shown.index, ("MXU", "EUP", "store")))
    assert {"50 %", "25 %", "0 %"} <= set(shown)
    assert "Slots filled: MXU 50 %, EUP 0 %, store 25 %." == slots.sentence({"store": 0.25, "MXU": 0.5, "EUP": 0.0})


def test_spills_are_no_unit_and_strangers_come_last():
    said = slots.sentence({"NEW": 0.4, "VPU": 0.1, "load": 0.2, "fill": 0.1, "spill": 0.1, "scalar": 0.3})
    assert said == "Slots filled: VPU 10 %, load 20 %, scalar 30 %, NEW 40 %."


def test_every_unit_of_the_compiler_is_known():
    from course_lib.compiler.dumps import bundles

    assert {*bundles._UNITS.values(), "DMA"} == {*core_units.DOES, *core_units.SPILLS}


# Time


def test_the_time_bar_is_full_and_in_proportion():
    split = {"issue": 300, "DMA wait": 600, "XLU": 100, "MXU": 0}
    svg = card(time_split.panel(split))
    widths = {fill: boxes(svg, fill)[0][2] for fill in (draw.ORANGE, draw.BLUE, draw.PURPLE)}
    assert sum(widths.values()) == pytest.approx(draw.INNER, abs=0.2)
    assert widths[draw.ORANGE] == pytest.approx(2 * widths[draw.BLUE], abs=0.2)
    assert {"60 %, 600 cycles", "30 %, 300 cycles", "10 %, 100 cycles"} <= set(words(svg))
    assert time_split.sentence(split) == "60 % of the critical path waits for copies between HBM and VMEM."
    assert "MXU" not in " ".join(words(svg)), "nothing waited for the MXU"


def test_work_and_the_two_kinds_of_waiting_differ_without_colour():
    plain, leaning = card(time_split.panel({"issue": 1})), card(time_split.panel({"DMA wait": 1}))
    assert plain.count("<path") == 0 and leaning.count("<path") > 0
    assert time_split._LOOKS["DMA wait"][1] != time_split._LOOKS["MXU"][1]


def test_every_wait_of_the_compiler_has_words():
    from course_lib.compiler.dumps import critical_path

    ours = {name for _, name in critical_path._WAITS} | {critical_path.ISSUE, "scalar"}
    assert ours == set(time_split._MEANINGS)


def test_an_unknown_wait_keeps_its_name():
    assert time_split.sentence({"barrier": 9, "issue": 1}) == "90 % of the critical path waits for barrier."


# VMEM


def test_the_vmem_stack_is_in_proportion_to_its_limit():
    rows = viz_samples.matmul(vmem_limit=5 * MIB).vmem
    svg = card(vmem_stack.panel(rows, 5 * MIB))
    room = boxes(svg, draw.TRACK)[0]
    double = boxes(svg, draw.BLUE)
    assert len(double) == 4, "two refs; a double buffer is two boxes"
    assert sum(box[3] for box in double) / room[3] == pytest.approx(2 / 5, abs=0.01)
    assert boxes(svg, draw.GREEN)[0][3] / room[3] == pytest.approx(1 / 5, abs=0.01)
    assert double[0][1] > boxes(svg, draw.GREEN)[0][1], "inputs lie at the bottom"
    assert {"x_ref", "acc_ref", "input window, 2 buffers of 512 KiB", "5 MiB", "limit"} <= set(words(svg))
    assert vmem_stack.sentence(rows, 5 * MIB) == "VMEM: 4.34 MiB of 5 MiB used, 676 KiB free."


def test_a_small_stack_is_enlarged_and_says_so():
    rows = viz_samples.matmul().vmem
    assert "enlarged" in words(card(vmem_stack.panel(rows, 16 * MIB)))
    assert "enlarged" not in words(card(vmem_stack.panel(rows, 5 * MIB)))
    used = boxes(card(vmem_stack.panel(rows, 16 * MIB)), draw.INK)[0]
    assert used[3] / boxes(card(vmem_stack.panel(rows, 16 * MIB)), draw.TRACK)[0][3] == pytest.approx(
        4.34 / 16, abs=0.01
    )


def test_a_stack_over_its_limit_says_by_how_much():
    rows = [Allocation(op="k", bytes=20 * MIB, purpose="input window", name="x_ref", buffers=2)]
    svg = card(vmem_stack.panel(rows, 16 * MIB))
    assert "20 MiB needed, 4 MiB over the limit of 16 MiB." in words(svg)
    over = boxes(svg, draw.RED)
    assert len(over) == 1 and over[0][3] / sum(box[3] for box in boxes(svg, draw.BLUE)) == pytest.approx(0.2, abs=0.01)


def test_of_several_ops_the_fullest_is_shown():
    rows = [
        Allocation(op="small", bytes=MIB, purpose="scratch", name="a"),
        Allocation(op="big", bytes=2 * MIB, purpose="scratch", name="b"),
    ]
    assert [piece.name for piece in vmem_stack.pieces(rows)] == ["b"]
    assert vmem_stack.sentence(rows) == "VMEM: 2 MiB used by big, which needs most; the limit is not known."


def test_many_pieces_are_put_together_and_none_is_lost():
    rows = [Allocation(op="k", bytes=1000 + n, purpose="other", name=f"p{n}") for n in range(40)]
    shown = vmem_stack._few(vmem_stack.pieces(rows))
    assert len(shown) == 12
    assert sum(piece.bytes for piece in shown) == sum(row.bytes for row in rows)
    assert "29 smaller ones" in words(card(vmem_stack.panel(rows)))


def test_the_rows_of_cost_vmem_can_be_drawn():
    from viz_samples import X, copy

    rows = cost.vmem(grid.walk(copy, X))
    assert all(isinstance(row, Allocation) for row in rows)
    assert [(p.name, p.purpose, p.buffers) for p in vmem_stack.pieces(rows)] == [
        ("x_ref", "input window", 2),
        ("o_ref", "output window", 2),
    ]


def test_rows_of_the_legend_never_touch():
    for middles in ([178, 176, 174, 172], [170, 120, 5, 3], [90.0]):
        rows = vmem_stack._spread(middles)
        assert all(low - high >= 20 for low, high in zip(rows, rows[1:], strict=False))
        assert min(rows) >= 4


# Ops


def test_ops_show_their_share_of_the_time():
    rows = (
        Op(name="reduce", kind="fusion", cycles=300, hbm_bytes=2 * MIB, seconds=3e-6),
        Op(name="mine", kind="kernel", cycles=100, hbm_bytes=None, seconds=1e-6),
    )
    shown = words(card(ops.panel(rows)))
    assert {"75 %", "25 %", "300 cycles", "2 MiB", "HBM not counted", "reduce (fusion)"} <= set(shown)
    assert "share of the time, predicted (compiler)" in shown


def test_many_ops_are_cut_to_the_largest():
    rows = [Op(name=f"op{n}", kind="fusion", cycles=n) for n in range(30)]
    shown = words(card(ops.panel(rows)))
    assert "op29 (fusion)" in shown and "op1 (fusion)" not in shown
    assert "18 smaller ones not shown." in shown


# Listing


def test_a_short_program_is_listed_whole():
    program = viz_samples.program(length=50)
    assert list(listing.abridged(program)) == list(program)


def test_a_long_one_is_abridged_around_its_busiest_part():
    program = viz_samples.program(length=1000, loop=range(100, 900), full=range(500, 540))
    lines = list(listing.abridged(program, rows=60))
    shown = [line.address for line in lines if isinstance(line, Bundle)]
    assert set(range(500, 540)) <= set(shown) and {100, 899} <= set(shown)
    assert len(shown) == 60
    left_out = sum(int(line.split()[1].replace(",", "")) for line in lines if isinstance(line, str))
    assert left_out + len(shown) == 1000


def test_an_empty_bundle_does_not_end_a_loop():
    program = viz_samples.program(loop=range(20, 180))
    assert program[62].depth == 0 and not program[62].instructions
    assert listing.innermost_loop(program) == range(20, 180)


def test_a_row_has_address_loop_slots_and_plain_instructions():
    program = viz_samples.program()
    names = listing.columns(program)
    assert names == ["MXU", "VPU", "store", "scalar"]
    assert listing.row(program[60], names).split() == (
        ["0x3c", "2", "1", "·", "·", ">", "v49", "=", "vadd.f32", "v18,", "v31"]
    )
    assert "[spill]" in listing.row(program[61], names) and "vst_source" not in listing.row(program[61], names)
    assert listing.row(program[20], names).startswith("    0x14 LB")
    assert listing.row(program[62], names).endswith("(nothing)")
    assert listing.header(names).index("instructions") == listing.row(program[0], names).index("s1 = ")


def test_several_programs_are_listed_by_name():
    lines = list(listing.abridged(viz_samples.program("first") + viz_samples.program("second")))
    assert [line for line in lines if isinstance(line, str) and "200 bundles" in line] == [
        "first: 200 bundles",
        "second: 200 bundles",
    ]


def test_the_listing_is_well_formed_html_and_small():
    program = [dataclasses.replace(b, instructions=(HOSTILE * 9,)) for b in viz_samples.program(HOSTILE)]
    html = listing.html(program + list(viz_samples.program()))
    details = ElementTree.fromstring(html)
    assert details.tag == "details" and "400 bundles in 2 programs" in details.find("summary").text
    assert details.find(".//span[@title]") is not None, "what is cut is in a tooltip"
    assert "<script" not in html


# All of them

EMPTY = {"slots": (slots, {}), "time": (time_split, {}), "vmem": (vmem_stack, ()), "listing": (listing, ())}


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_gives_a_sentence(name):
    module, nothing = EMPTY[name]
    said = ElementTree.fromstring(module.html(nothing)).text if module is listing else module.sentence(nothing)
    assert len(said.split()) > 4 and "None" not in said
    if module is not listing:
        assert said in " ".join(words(card(module.panel(nothing))))


HOSTILE_NAME = HOSTILE + "long " * 60
FULL = {
    "slots": slots.panel({HOSTILE_NAME: 0.5, "MXU": 1.0, "XLU": 1.7}),
    "time": time_split.panel({HOSTILE_NAME: 10**12, "issue": 1, "DMA wait": 10**11}),
    "vmem": vmem_stack.panel(
        [Allocation(op=HOSTILE, bytes=10**10, purpose="scratch", name=HOSTILE_NAME, buffers=3)], 1 << 30
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_hostile_and_long_names_stay_inside(name):
    svg = card(FULL[name])
    assert overflowing(svg) == [] and parsed(svg) is not None
    assert "<script" not in svg


def test_ops_with_hostile_names_stay_inside():
    rows = [Op(name=HOSTILE_NAME, kind=HOSTILE, cycles=10**12, hbm_bytes=10**14, seconds=1.0)] * 2
    svg = card(ops.panel(rows))
    assert overflowing(svg) == [] and parsed(svg) is not None
