"""The card of a Report and the comparison of several: true sentences, safe in every notebook."""

import base64
import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import pytest
import viz_samples
from conftest import needs_libtpu
from viz_samples import EXTRAPOLATION, HOSTILE, add, bare, boxes, matmul, overflowing, parsed, refused, words

from course_lib import chips, compiler, text
from course_lib.compiler.report import Op
from course_lib.viz.common import draw
from course_lib.viz.report import comparison, report

ALL = {
    "matmul": matmul(),
    "add": add(),
    "bare": bare(),
    "refused": refused(),
    "refused without a reason": refused(error=None, versions=""),
    "extrapolated": matmul(extrapolation=EXTRAPOLATION, notes=("one thing.", "another.")),
    "no clock": matmul(chip="v6e", seconds=None),
    "not simulated": matmul(cycles=None, seconds=None, time_split={}, notes=("not simulated",)),
    "hostile": matmul(
        name=HOSTILE * 20,
        notes=(HOSTILE * 30,),
        versions=HOSTILE,
        listing=viz_samples.program(HOSTILE),
        ops=(Op(name=HOSTILE * 9, kind=HOSTILE, cycles=1),) * 2,
        slots={HOSTILE: 0.5},
        time_split={HOSTILE: 5},
    ),
    "hostile refusal": refused(error=dataclasses.replace(refused().error, what=HOSTILE * 20, next=HOSTILE)),
}


def pictures(html: str) -> list[str]:
    """The SVG of each picture in an HTML page."""
    return [base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([^\"]+)", html)]


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


# The sentence


def test_the_sentence_names_hbm_traffic_where_it_binds():
    assert report.sentence(add()) == (
        "Compiles for v5e: 2,340 cycles, 15.6 us, predicted (compiler); bound by HBM; no spills."
    )


def test_the_sentence_names_the_cycles_where_they_bind():
    assert report.sentence(matmul()) == (
        "Compiles for v5e: 23,884 cycles, 15.9 us, predicted (compiler); bound by the core; 87 spills, 257 fills."
    )
    some = matmul(time_split={"DMA wait": 40, "issue": 60})
    assert "bound by the core, 40 % of its cycles waiting for copies;" in report.sentence(some)


def test_cycles_that_mostly_wait_are_not_called_the_cores():
    waiting = matmul(time_split={"DMA wait": 89, "issue": 11})
    assert waiting.waiting == 0.89 and waiting.bound == "waiting for copies"
    assert "; bound by waiting for copies, 89 % of its cycles; 87 spills" in report.sentence(waiting)
    assert "bound by waiting for copies" in str(waiting)
    half = dataclasses.replace(waiting, time_split={"DMA wait": 1, "issue": 1})
    assert half.bound == "core" and bare().waiting == 0.0


def test_where_the_bytes_take_as_long_as_cycles_that_wait_they_bind():
    equal = dict(cycles=15_000, hbm_bytes=8_200_000)
    assert bare(**equal).bound == "both"
    assert bare(**equal, time_split={"DMA wait": 89, "issue": 11}).bound == "HBM"


def test_the_bound_turns_where_the_two_times_meet():
    chip = chips.chip("v5e")
    cycles = 150_000
    equal = cycles / chip.clock_hz * chip.hbm_bandwidth
    for share, bound in ((0.5, "core"), (0.9, "core"), (1, "both"), (1.1, "HBM"), (2, "HBM")):
        assert bare(cycles=cycles, hbm_bytes=round(share * equal)).bound == bound
    assert bare(cycles=cycles).bound is None and bare(hbm_bytes=1).bound is None
    assert bare(chip="v6e", cycles=1, hbm_bytes=1).bound is None, "a clock nobody knows"


def test_of_several_ops_what_binds_for_most_of_the_time_counts():
    by_hbm = Op(name="a", kind="fusion", cycles=1_500, hbm_bytes=8_200_000, seconds=10e-6)
    by_core = Op(name="b", kind="fusion", cycles=9_000, hbm_bytes=0, seconds=6e-6)
    both = bare(cycles=105_000, hbm_bytes=41_000_000, ops=(by_hbm, by_core))
    assert both.bound == "HBM", "its bytes take 50 us, its cycles 70, but most time goes into the op that copies"
    assert dataclasses.replace(both, ops=(by_core,)).bound == "core"
    waits = dataclasses.replace(both, time_split={"DMA wait": 9, "issue": 1})
    assert waits.bound == "HBM" and dataclasses.replace(waits, ops=(by_core,)).bound == "waiting for copies"


def test_two_cores_of_a_megacore_have_two_shares_of_bandwidth():
    chip = chips.chip("v5p")
    assert bare(chip="v5p", hbm_bytes=10**9).hbm_seconds == pytest.approx(1e9 / (chip.hbm_bandwidth * chip.cores))


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ("bare", "Compiles for v5e: no cycles were predicted."),
        (
            "no clock",
            "Compiles for v6e: 23,884 cycles, predicted (compiler); no time, because the clock of v6e is not known;",
        ),
        ("not simulated", "Compiles for v5e: no cycles were predicted; 87 spills, 257 fills."),
        ("refused", "Refused by the v5e compiler. The kernel needs 18 MiB. Next: make the blocks smaller."),
        ("refused without a reason", "Refused by the v5e compiler. It gave no reason."),
    ],
)
def test_what_is_missing_is_said(of, says):
    assert report.sentence(ALL[of]).startswith(says)


def test_traffic_that_was_not_counted_is_said():
    assert "HBM traffic was not counted" in report.sentence(matmul(hbm_bytes=None))


def test_an_extrapolated_figure_says_so_everywhere():
    long = matmul(cycles=EXTRAPOLATION.cycles, extrapolation=EXTRAPOLATION)
    says = (
        "Cycles are extrapolated: 32 and 64 of 512 grid steps were simulated, and each further step counts 2,380 "
        "cycles."
    )
    assert report.sentence(long).startswith(
        "Compiles for v5e: 1,222,118 cycles, 15.9 us, predicted (compiler), extrapolated;"
    )
    assert says in report.html(long)
    assert "32 and 64 of the 512 steps, which were simulated: 2,380 cycles for each" in " ".join(str(long).split())
    assert "extrapolated" not in report.html(matmul()) and "steps" not in str(matmul())
    (shown, _) = pictures(report.comparison_html({"long": long}))
    assert "extrapolated" in " ".join(words(shown))


# The card


@pytest.mark.parametrize("name", ALL)
def test_every_report_has_a_card_and_lines(name):
    html, lines = report.html(ALL[name]), str(ALL[name])
    ElementTree.fromstring(html)
    for form in (lines, html):
        assert "None" not in form and "nan" not in re.sub(r'base64,[^"]*', "", form)
    assert "<script" not in html
    assert not re.search(r"(?<!data:image/svg\+xml;base64,)https?://(?!www\.w3\.org/2000/svg)", html)
    for svg in pictures(html):
        assert overflowing(svg) == [] and "<script" not in svg


@pytest.mark.parametrize("name", [name for name in ALL if "hostile" not in name])
def test_no_line_of_a_report_is_too_long(name):
    assert longest(str(ALL[name])) <= text.COLUMNS


def test_the_card_shows_the_numbers_it_is_given():
    html = report.html(matmul())
    (svg,) = pictures(html)
    shown = set(words(svg))
    assert {"73 %", "15 %", "74 %, 17,727 cycles", "4.34 MiB of 16 MiB used, 11.66 MiB free.", "348 KiB"} <= shown
    page = "".join(ElementTree.fromstring(html).itertext())
    assert page.index("Compiles for v5e") < page.index("200 bundles") < page.index(viz_samples.VERSIONS)
    assert "2,424 bundles; 184 KiB of code; 10 MiB moved to and from HBM" in page


def test_the_card_survives_where_style_and_pictures_are_stripped():
    page = ElementTree.fromstring(report.html(matmul()))
    tags = {"div", "img", "details", "summary", "pre", "span", "em", "p", "style"}
    assert {node.tag for node in page.iter()} <= tags
    assert "MXU 73 %" in page.find(".//img").get("alt") and "4.34 MiB of 16 MiB" in page.find(".//img").get("alt")


def test_a_refusal_has_its_explanation_and_no_picture():
    html = report.html(refused())
    assert pictures(html) == []
    assert [part.text for part in ElementTree.fromstring(html)][2:5] == [
        "Refused by the v5e compiler.",
        "The kernel needs 18 MiB.",
        "Next: make the blocks smaller.",
    ]


def test_a_refusal_with_its_vmem_shows_the_stack():
    over = refused(vmem=matmul().vmem, vmem_limit=4 << 20)
    assert "over the limit of 4 MiB." in " ".join(words(pictures(report.html(over))[0]))


def test_one_op_has_no_table_and_two_have():
    two = matmul(ops=matmul().ops + (Op(name="copy", kind="copy", cycles=1, hbm_bytes=1, seconds=1e-9),))
    assert "2 kernels and fusions" in words(pictures(report.html(two))[0])
    assert "kernels and fusions" not in " ".join(words(pictures(report.html(matmul()))[0]))


def test_a_report_shows_its_card_in_a_notebook():
    assert matmul()._repr_html_() == report.html(matmul())
    assert repr(matmul()).startswith("matmul for v5e")


# Several reports


def test_a_comparison_names_the_fastest():
    assert comparison.sentence({"mine": matmul(), "add": add(), "slow": add(seconds=78e-6), "too_big": refused()}) == (
        "add is the fastest, 15.6 us, predicted (compiler): mine takes 2 % longer, slow takes 5 times longer; no time "
        "for too_big."
    )
    assert comparison.sentence({"mine": matmul()}) == "mine takes 15.9 us, predicted (compiler)."
    assert comparison.sentence({"a": bare(), "b": refused()}) == (
        "None of these kernels has a predicted time to compare."
    )
    assert comparison.sentence({}) == "No reports to compare."


def test_a_comparison_shows_bars_and_every_card():
    reports = {"mine": matmul(), "XLA": add(seconds=31.8e-6), "too_big": refused()}
    html = report.comparison_html(reports)
    first, *_ = pictures(html)
    mine, xla = boxes(first, draw.BLUE)
    assert mine[2] / xla[2] == pytest.approx(0.5, abs=0.01)
    assert {"15.9 us", "31.8 us", "not compiled", "The kernel needs 18 MiB."} <= set(words(first))
    cards = ElementTree.fromstring(html).findall(".//div/details/summary")
    assert [card.text for card in cards if card.text.split(":")[0] in reports] == [
        f"{name}: {report.sentence(r)}" for name, r in reports.items()
    ]


def test_all_kinds_of_reports_can_be_compared():
    html = report.comparison_html({f"{name} {HOSTILE}": r for name, r in ALL.items()})
    assert overflowing(pictures(html)[0]) == [] and "None" not in html and "<script" not in html
    ElementTree.fromstring(report.comparison_html(ALL))
    ElementTree.fromstring(report.comparison_html({}))


# What the real compiler says


@needs_libtpu
def test_a_real_report_has_a_whole_card():
    from viz_samples import copy

    real = compiler.compile_tpu(copy, jax.ShapeDtypeStruct((32, 256), jnp.float32))
    assert real.ok and real.listing and real.slots and real.vmem and real.time_split
    html = report.html(real)
    (svg,) = pictures(html)
    shown = words(svg)
    assert {"Where the time goes", "Instruction slots filled", "VMEM", "x_ref", "o_ref"} <= set(shown)
    assert f"{real.cycles:,} cycles" in report.sentence(real) and f"{real.cycles:,} cycles" in str(real)
    assert overflowing(svg) == [] and longest(str(real)) <= text.COLUMNS
    page = ElementTree.fromstring(html)
    assert f"{real.bundles} bundles" in page.find(".//details/summary").text
    assert not re.search(r"/(home|root|tmp|work)/", html), "no machine's paths"
    assert len(html) < 60_000, "a notebook holds several"
    assert parsed(svg) is not None
