"""What lesson 3 and its exercises quote is what docs/measured.csv has."""

import ast
import collections
import csv
import re

import pytest
from lesson_files import ROOT, source

from course_lib.checks.exercise import exercise

LESSON, EXERCISES = source("notebooks/src", "03_roofline"), source("solutions/src", "03_roofline")


def measured():
    with open(ROOT / "docs/measured.csv", newline="") as file:
        return {row["id"]: float(row["seconds"]) for row in csv.DictReader(file)}


def literal(name, source):
    """The dict that ``name`` is given in a percent source, in one cell or in several."""
    parts = re.findall(rf"^{name} \|?= (\{{.*?\}})", source, re.M | re.S)
    return dict(collections.ChainMap(*map(ast.literal_eval, parts)))


@pytest.mark.parametrize(
    "name, kind", [("PUBLISHED_SMALL", "b128"), ("PUBLISHED_LARGE", "b512"), ("PUBLISHED_XLA", "xla")]
)
def test_the_lesson_quotes_what_was_measured(name, kind):
    assert sorted(literal(name, LESSON)) == [1024, 4096, 8192]
    for n, seconds in literal(name, LESSON).items():
        assert seconds == pytest.approx(measured()[f"jax-matmul-{n}-{kind}"], rel=5e-4)


def test_the_opening_quotes_what_was_measured():
    opening = LESSON[: LESSON.index("# FIRST CELL")]
    for id, digits in [("b128", 1), ("b512", 2), ("xla", 2)]:
        assert f"{1e3 * measured()[f'jax-matmul-8192-{id}']:.{digits}f} ms" in " ".join(opening.split())


def test_the_exercises_quote_what_was_measured():
    rows = {
        "XLA, 16384": "jax-matmul-16384-xla",
        "triangle": "jax-masked-matmul-16384",
        "decode": "tokamax-v5e-gmm-8x4096x4096-even-xla",
    }
    for name, milliseconds in literal("published", EXERCISES).items():
        assert milliseconds / 1e3 == pytest.approx(measured()[rows[name]], rel=5e-4)
        assert exercise("03.8").asks.parts[name].value == pytest.approx(milliseconds, rel=5e-4)


def test_the_keras_times_are_those_of_the_guide():
    for id in ("keras-matmul-relu-8192", "keras-matmul-relu-8192-xla"):
        assert f"{1e3 * measured()[id]:.3f} ms" in LESSON
