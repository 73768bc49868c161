"""The dial over densities: where curves break even, what it says and draws, what it refuses. In a browser: all widgets
are in tests/browser/test_every_widget.py.
"""

import pytest
from shapes import words_on_words
from viz_samples import DENSE, DENSITIES, HOSTILE, bare, by_density, overflowing, parsed, refused, words

from course_lib import viz
from course_lib.viz.choices.density_data import break_evens


def curve(times, densities=(0.25, 0.5, 1.0)) -> list[viz.Sparse]:
    """Points of the given times in us; ``DENSE`` takes 91.9 us."""
    return [viz.Sparse(d, 8, bare(seconds=us / 1e6)) for d, us in zip(densities, times, strict=True)]


@pytest.mark.parametrize(
    "times, found",
    [
        ((41.9, 141.9, 200), [0.375]),  # halfway between two points
        ((81.9, 121.9, 200), [0.3125]),  # a quarter of the way
        ((200, 101.9, 81.9), [0.75]),  # downwards
        ((41.9, 141.9, 41.9), [0.375, 0.75]),
        ((1, 91.9, 200), [0.5]),  # at a point, once
        ((1, 91.9, 2), [0.5]),  # touches
        ((91.9, 100, 110), [0.25]),
        ((1, 2, 3), []),
        ((100, 200, 92), []),
    ],
)
def test_a_curve_breaks_even_where_its_line_meets_that_of_dense(times, found):
    assert break_evens(curve(times), DENSE) == pytest.approx(found)


def test_the_lessons_figures_break_even_between_an_eighth_and_a_quarter():
    one, eight = by_density().values()
    assert break_evens(one, DENSE) == [pytest.approx(0.125 + 0.125 * (91.9 - 88.9) / (161.1 - 88.9))]
    assert break_evens(eight, DENSE) == []


def test_the_caption_says_what_each_kernel_takes():
    widget = viz.density_dial(by_density(), DENSE, shown=1 / 8)
    assert widget.groups == [{"name": "density", "options": ["6 %", "13 %", "25 %", "50 %"]}] and widget.at == [1]
    assert widget._repr_mimebundle_()[0]["text/plain"] == (
        "At a density of 13 %, one block a step takes 88.9 us in 128 grid steps, which is 3 % faster than dense, and "
        "moves 28.8 MB to and from HBM. At the same density, eight blocks a step takes 33.7 us in 16 grid steps, which "
        "is 2.7 times faster than dense, and moves 21.0 MB to and from HBM. The dense matmul takes 91.9 us and moves "
        "25.2 MB to and from HBM. As the density grows, one block a step breaks even at 13 %; eight blocks a step "
        "stays below dense up to 50 %. All times are predicted (compiler)."
    )
    assert "161.1 us in 256 grid steps, which is 1.8 times slower than dense" in widget.captions[2]


def test_what_the_compiler_did_not_say_is_left_out():
    caption = viz.density_dial({"f": curve((91.9, 120, 200))}, bare(seconds=DENSE.seconds)).captions[0]
    assert caption == (
        "At a density of 25 %, f takes 91.9 us in 8 grid steps, which is as fast as dense. The dense matmul takes "
        "91.9 us. As the density grows, f breaks even at 25 %. All times are predicted (compiler)."
    )


def test_the_still_shows_the_chosen_density():
    widget = viz.density_dial(by_density(), DENSE)
    assert widget.at == [2], "the middle one"
    widget.at = [3]
    bundle = widget._repr_mimebundle_()[0]
    seen = words(bundle["image/svg+xml"])
    assert bundle["text/plain"] == widget.captions[3] and "density 50 %" in seen
    assert {"at 50 %", "311.4", "41.9", "512", "3.4 times slower", "13 %", "stays below", "91.9", "–"} <= set(seen)
    assert seen.count("break-even 13 %") == 1
    assert seen.count("one block a step") == seen.count("eight blocks a step") == 2, "at its line and in the table"


@pytest.mark.parametrize(
    "densities, options",
    [
        ((0.005, 0.125, 1), ["1 %", "13 %", "100 %"]),
        ((0.002, 0.125, 1), ["0.2 %", "12.5 %", "100.0 %"]),  # never "0 %"
        ((0.12, 0.124, 1), ["12.0 %", "12.4 %", "100.0 %"]),
    ],
)
def test_options_are_as_short_as_they_can_be(densities, options):
    widget = viz.density_dial({"f": curve((1, 2, 3), densities)}, DENSE)
    assert widget.groups[0]["options"] == options


PICTURES = {
    "lesson": by_density(),
    "close": {name: curve((91.8, 91.9, 92 + n / 100)) for n, name in enumerate("abcd")},
    "crowded": {
        HOSTILE * 3: curve(range(70, 170, 10), [(n / 10) ** 3 for n in range(1, 11)]),
        "zigzag": curve((10, 2000) * 5, [(n / 10) ** 3 for n in range(1, 11)]),
    },
    "long": {"f": curve((3e5, 1e5), (0.01, 1))},
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_keeps_its_words_apart(name):
    widget = viz.density_dial(PICTURES[name], DENSE)
    for svg in (*widget.drawings, widget._repr_mimebundle_()[0]["image/svg+xml"]):
        assert overflowing(svg) == [] == words_on_words(svg) and parsed(svg) is not None
        assert len(svg) < 25_000


def test_lines_differ_by_more_than_color():
    widget = viz.density_dial({name: curve((1, 2, 3)) for name in "abcd"}, DENSE)
    paths = [path for path in parsed(widget.drawings[0]).iter("{http://www.w3.org/2000/svg}path")]
    lines = [path for path in paths if path.get("fill") == "none"]
    marks = {path.get("d") for path in paths if path.get("fill") != "none"}
    assert len(lines) == len({path.get("stroke-dasharray") for path in lines}) == len(marks) == 4


GOOD, FEW = curve((1, 2, 3)), curve((1,), (0.5,))
WRONG = [
    (({}, DENSE), r"curves has no curves, but must be a dict of 1 to 4 curves"),
    ((GOOD, DENSE), r"curves has type list, but must be a dict"),
    (({name: GOOD for name in "abcde"}, DENSE), "curves has 5 curves"),
    (({"f": FEW}, DENSE), r"curves\['f'\] has 1 point, but must have at least two"),
    (({"f": []}, DENSE), r"curves\['f'\] has no points"),
    (({"f": GOOD[::-1]}, DENSE), r"curves\['f'\] has densities 1, 0.5, 0.25, but they must increase"),
    (({"f": [GOOD[0], GOOD[0]]}, DENSE), "0.25, 0.25, but they must increase"),
    (({"f": curve((1, 2), (0, 0.5))}, DENSE), r"0, 0.5, but they must increase and lie in \(0, 1\]"),
    (({"f": curve((1, 2), (0.5, 1.5))}, DENSE), r"0.5, 1.5, but they must increase and lie in \(0, 1\]"),
    (({"f": GOOD, "g": GOOD[:2]}, DENSE), r"'g'\] has densities 0.25, 0.5, but must have those of curves\['f'\]"),
    (({"f": GOOD}, bare()), "dense has no predicted time, but must have one"),
    (
        ({"f": [GOOD[0], viz.Sparse(0.5, 8, refused())]}, DENSE),
        r"the report of curves\['f'\] at density 0.5 has no predicted time \(The kernel needs 18 MiB\), but must",
    ),
    (
        ({"f": [GOOD[0], viz.Sparse(0.5, 8, bare(notes=("No cycles.",)))]}, DENSE),
        r"has no predicted time \(No cycles\)",
    ),
]  # fmt: skip


@pytest.mark.parametrize("given, says", WRONG, ids=range(len(WRONG)))
def test_what_is_no_curve_is_refused(given, says):
    with pytest.raises(ValueError, match=f"density_dial: .*{says}"):
        viz.density_dial(*given)


def test_a_density_that_is_not_there_is_refused():
    with pytest.raises(
        ValueError, match="shown=0.3 is not a density of the curves: it must be None or one of the densit"
    ):
        viz.density_dial(by_density(), DENSE, shown=0.3)
    assert viz.density_dial(by_density(), DENSE, shown=DENSITIES[0]).at == [0]
