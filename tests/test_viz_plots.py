"""Plots that a learner makes with matplotlib: in the course's style, the same bytes from any process."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import pytest

from course_lib import viz
from course_lib.viz.common import draw

ROOT = pathlib.Path(__file__).parent.parent
PLOT = """
import hashlib
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
from course_lib import viz
plt.rcParams.update(viz.PLOT_STYLE)
fig, axes = plt.subplots()
axes.loglog([16, 32, 64], [10, 11, 20], label="predicted (model)")
axes.loglog([16, 64], [9, 21], "o", label="predicted (compiler)")
axes.axvline(24, linestyle=":")
axes.set(title="Time", xlabel="B", ylabel="us")
axes.legend()
print(hashlib.sha256(viz.plot_picture(fig, "It rises.").svg.encode()).hexdigest())
"""


@pytest.fixture
def fig():
    with plt.rc_context(viz.PLOT_STYLE):
        fig, axes = plt.subplots()
        axes.plot([1, 2, 3], [1, 4, 9], label="squares")
        axes.set(title="Squares", xlabel="n")
        axes.legend()
        yield fig
    plt.close(fig)


def run(code: str) -> str:
    env = os.environ | {"PYTHONHASHSEED": "1", "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, check=True, capture_output=True, text=True
    ).stdout


def test_two_processes_write_the_same_bytes(capsys):
    """This one and another, with hashes of its own."""
    with plt.rc_context(matplotlib.rcParamsDefault):
        exec(PLOT, {})
    ours = capsys.readouterr().out
    assert run(PLOT) == ours and len(ours.strip()) == len(hashlib.sha256().hexdigest())


def test_matplotlib_is_not_imported_before_a_picture_is_made():
    code = (
        "import sys; from course_lib import bench, checks, compiler, grading, judges, roofline, viz; "
        "viz.PLOT_STYLE; print('matplotlib' in sys.modules)"
    )
    assert run(code).strip() == "False"


def test_a_plot_is_a_card_like_the_others(fig):
    picture = viz.plot_picture(fig, "The squares rise.")
    assert picture.svg.startswith(f'<svg xmlns="http://www.w3.org/2000/svg" width="{draw.WIDTH}"')
    assert f'fill="{draw.PAPER}" stroke="{draw.LINE}"' in picture.svg, "white, in a dark theme too"
    assert "<title>Squares</title><desc>The squares rise.</desc>" in picture.svg
    assert {"Squares", "n", "squares"} <= set(re.findall(r">([^<>]+)</text>", picture.svg)), "text stays text"
    assert draw.BLUE in picture.svg and "DejaVu" not in picture.svg and draw.SANS in picture.svg
    assert not re.search(r"<metadata|<!DOCTYPE|<script|20\d\d-\d\d-\d\d", picture.svg)
    assert str(picture) == "The squares rise." and 'alt="The squares rise."' in picture._repr_mimebundle_()["text/html"]
    assert len(picture.svg) < 20_000


def test_a_notebook_shows_it_once(fig):
    viz.plot_picture(fig, "The squares rise.")
    assert not plt.fignum_exists(fig.number)


def test_a_wide_figure_is_shrunk_to_the_card(fig):
    fig.set_size_inches(20, 5)
    svg = viz.plot_picture(fig, "Wide.").svg
    assert re.search(rf'width="{draw.INNER}" height="171" viewBox="0 0 1440 360"', svg)
    assert f'width="{draw.WIDTH}" height="{171 + 2 * draw.PAD}"' in svg


def test_the_style_changes_nothing_by_itself(fig):
    before = dict(plt.rcParams)
    viz.plot_picture(fig, "The squares rise.")
    assert dict(plt.rcParams) == before


def test_who_cannot_see_it_is_told(fig):
    with pytest.raises(ValueError, match="plot_picture: says is empty. Describe in a sentence what the plot shows"):
        viz.plot_picture(fig, " ")
