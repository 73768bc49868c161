"""The card of a Report, the diff of two and the comparison of several: true sentences, safe in every notebook."""

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

from course_lib import chips, compiler
from course_lib.compiler.report import Op
from course_lib.viz import comparison, diff, draw, report, report_words

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
        "Compiles for v5e: predicted 2,340 cycles, 15.6 us; bound by HBM traffic; no spills."
    )


def test_the_sentence_names_the_cycles_where_they_bind():
    assert report.sentence(matmul()) == (
        "Compiles for v5e: predicted 23,884 cycles, 15.9 us; bound by the core's cycles; 87 spills, 257 fills."
    )
    waiting = matmul(time_split={"DMA wait": 89, "issue": 11})
    assert "bound by the core's cycles, 89 % of them waiting for copies;" in report.sentence(waiting)


def test_the_bound_turns_where_the_two_times_meet():
    chip = chips.chip("v5e")
    cycles = 150_000
    equal = cycles / chip.clock_hz * chip.hbm_bandwidth
    for share, bound in ((0.5, "cycles"), (0.9, "cycles"), (1, "both"), (1.1, "hbm"), (2, "hbm")):
        assert report_words.bound(bare(cycles=cycles, hbm_bytes=round(share * equal))) == bound
    assert report_words.bound(bare(cycles=cycles)) is None and report_words.bound(bare(hbm_bytes=1)) is None
    assert report_words.bound(bare(chip="v6e", cycles=1, hbm_bytes=1)) is None, "a clock nobody knows"


def test_of_several_ops_what_binds_for_most_of_the_time_counts():
    by_hbm = Op(name="a", kind="fusion", cycles=1_500, hbm_bytes=8_200_000, seconds=10e-6)
    by_core = Op(name="b", kind="fusion", cycles=9_000, hbm_bytes=0, seconds=6e-6)
    both = bare(cycles=105_000, hbm_bytes=41_000_000, ops=(by_hbm, by_core))
    assert report_words.bound(both) == "hbm", (
        "its bytes take 50 us, its cycles 70, but most time goes into the op that copies"
    )
    assert report_words.bound(dataclasses.replace(both, ops=(by_core,))) == "cycles"


def test_two_cores_of_a_megacore_have_two_shares_of_bandwidth():
    chip = chips.chip("v5p")
    assert report_words.hbm_seconds("v5p", 10**9) == pytest.approx(1e9 / (chip.hbm_bandwidth * chip.cores))


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ("bare", "Compiles for v5e: no cycles were predicted."),
        ("no clock", "Compiles for v6e: predicted 23,884 cycles; no time, as the clock of v6e is not known;"),
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
    assert "predicted 1,222,118 cycles (extrapolated)" in report.sentence(long)
    assert says in report.html(long)
    assert says in " ".join(words(report.svg(long)))
    assert says in " ".join(report.as_text(long).split())
    assert "extrapolated" not in report.html(matmul()) + report.as_text(matmul())
    assert "extrapolated" in comparison.as_text({"long": long})


# The card


@pytest.mark.parametrize("name", ALL)
def test_every_report_has_a_card_in_every_form(name):
    made = report.picture(ALL[name])
    assert overflowing(made.svg) == []
    assert longest(made.text) <= 94
    ElementTree.fromstring(made.html)
    for form in (made.svg, made.text, made.html):
        assert "None" not in form and "nan" not in re.sub(r'base64,[^"]*', "", form)
    assert "<script" not in made.svg + made.html
    assert not re.search(r"(?<!data:image/svg\+xml;base64,)https?://(?!www\.w3\.org/2000/svg)", made.html + made.svg)
    for svg in pictures(made.html):
        assert overflowing(svg) == []


def test_the_card_shows_the_numbers_it_is_given():
    html = report.html(matmul())
    (svg,) = pictures(html)
    shown = set(words(svg))
    assert {"73 %", "15 %", "74 %, 17,727 cycles", "4.34 MiB of 16 MiB used, 11.66 MiB free.", "348 KiB"} <= shown
    page = "".join(ElementTree.fromstring(html).itertext())
    assert page.index("Compiles for v5e") < page.index("200 bundles") < page.index(viz_samples.VERSIONS)
    assert "2,424 bundles; 184 KiB of code; 10 MiB moved to and from HBM" in page
    assert set(words(report.svg(matmul()))) >= shown


def test_the_card_survives_where_style_and_pictures_are_stripped():
    page = ElementTree.fromstring(report.html(matmul()))
    assert {node.tag for node in page.iter()} <= {"div", "img", "details", "summary", "pre", "span", "em", "p"}
    assert "MXU 73 %" in page.find(".//img").get("alt") and "4.34 MiB of 16 MiB" in page.find(".//img").get("alt")


def test_a_refusal_has_its_explanation_and_no_picture():
    html = report.html(refused())
    assert pictures(html) == []
    assert [part.text for part in ElementTree.fromstring(html)][1:4] == [
        "Refused by the v5e compiler.",
        "The kernel needs 18 MiB.",
        "Next: make the blocks smaller.",
    ]


def test_a_refusal_with_its_vmem_shows_the_stack():
    over = refused(vmem=matmul().vmem, vmem_limit=4 << 20)
    assert "over the limit of 4 MiB." in " ".join(words(report.svg(over)))


def test_one_op_has_no_table_and_two_have():
    two = matmul(ops=matmul().ops + (Op(name="copy", kind="copy", cycles=1, hbm_bytes=1, seconds=1e-9),))
    assert "2 kernels and fusions" in words(report.svg(two)) and "2 kernels and fusions" in report.as_text(two)
    assert "kernels and fusions" not in report.as_text(matmul())


def test_a_report_shows_its_card_in_a_notebook():
    assert matmul()._repr_html_() == report.html(matmul())
    assert repr(matmul()).startswith("matmul for v5e")


# Two reports


def test_a_diff_says_how_many_times():
    pair = {"mine": matmul(), "XLA": matmul(seconds=30.21e-6, cycles=45_316, spills=0, vmem_bytes=4_550_656)}
    svg = diff.svg(pair)
    assert words(svg)[0] == "mine is predicted to be 1.9 times faster than XLA: 15.9 us against 30.2 us."
    rows = {row.name: row for row in diff.measures(pair)}
    assert rows["cycles"].words == "1.9 times fewer" and rows["cycles"].shown == ("23,884", "45,316")
    assert rows["VMEM"].words == "the same" and rows["spills"].words == "against none"
    assert rows["MXU slots"].shown == ("73 %", "73 %") and "XLU slots" not in rows, "neither uses it"
    mine, xla = boxes(svg, draw.BLUE)[1:], boxes(svg, draw.ORANGE)[1:]  # the first of each is the key
    assert mine[0][2] / xla[0][2] == pytest.approx(15.9 / 30.21, abs=0.01)
    assert overflowing(svg) == [] and longest(diff.as_text(pair)) <= 94


def test_a_diff_with_a_refusal_or_without_times_says_so():
    assert "too_big did not compile" in diff.sentence({"mine": matmul(), "too_big": refused()})
    assert diff.sentence({"a": bare(), "b": matmul()}) == "There is no predicted time of both a and b."
    cycles = {"a": matmul(seconds=None), "b": matmul(seconds=None, cycles=50_000)}
    assert diff.sentence(cycles) == "a is predicted to be 2.1 times faster than b: 23,884 cycles against 50,000 cycles."
    assert diff.sentence({"a": matmul(), "b": matmul()}).startswith("a is predicted to be as fast as b:")


@pytest.mark.parametrize("first", ALL)
@pytest.mark.parametrize("second", ["matmul", "bare", "refused", "hostile"])
def test_any_two_reports_can_be_laid_side_by_side(first, second):
    made = diff.picture({"one": ALL[first], HOSTILE + "x" * 90: ALL[second]})
    assert overflowing(made.svg) == [] and longest(made.text) <= 94
    assert "None" not in made.svg + made.text and "<script" not in made.svg


def test_a_diff_takes_exactly_two():
    with pytest.raises(ValueError, match="reports has 1 entries; it compares exactly two"):
        diff.svg({"mine": matmul()})


# Several reports


def test_a_comparison_names_the_fastest():
    assert comparison.sentence({"mine": matmul(), "add": add(), "slow": add(seconds=78e-6), "too_big": refused()}) == (
        "add is predicted to be the fastest, 15.6 us: mine takes 2 % longer, slow takes 5 times longer; no time for "
        "too_big."
    )
    assert comparison.sentence({"mine": matmul()}) == "mine is predicted to take 15.9 us."
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
    made = comparison.picture({f"{name} {HOSTILE}": r for name, r in ALL.items()})
    assert overflowing(made.svg) == [] and longest(made.text) <= 94
    assert "None" not in made.text and "<script" not in made.svg
    ElementTree.fromstring(report.comparison_html(ALL))
    ElementTree.fromstring(report.comparison_html({}))


# What the real compiler says


@needs_libtpu
def test_a_real_report_has_a_whole_card():
    from viz_samples import copy

    real = compiler.compile_tpu(copy, jax.ShapeDtypeStruct((32, 256), jnp.float32))
    assert real.ok and real.listing and real.slots and real.vmem and real.time_split
    made = report.picture(real)
    shown = words(made.svg)
    assert {"Where the time goes", "Instruction slots filled", "VMEM", "x_ref", "o_ref"} <= set(shown)
    assert f"predicted {real.cycles:,} cycles" in report.sentence(real)
    assert overflowing(made.svg) == [] and longest(made.text) <= 94
    page = ElementTree.fromstring(made.html)
    assert f"{real.bundles} bundles" in page.find(".//details/summary").text
    assert not re.search(r"/(home|root|tmp|work)/", made.html), "no machine's paths"
    assert len(made.html) < 60_000, "a notebook holds several"
    assert parsed(made.svg) is not None
