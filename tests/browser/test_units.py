"""Numbers in words: units.js, which every widget uses, writes what course_lib/text.py writes."""

import pathlib
import random

import chromium
import pytest

from course_lib import text, viz

UNITS = pathlib.Path(viz.__file__).parent / "common/units.js"
NAMES = {
    "count": text.count,
    "sizeOf": text.size,
    "duration": text.duration,
    "flopRate": text.flop_rate,
    "byteRate": text.byte_rate,
    "intensity": text.intensity,
    "percent": text.percent,
}
WRITTEN = """async ([source, names, values]) => {
    const all = `${source}\\nexport const all = { ${names.join(", ")}, amount };`;
    const { all: words } = await import(URL.createObjectURL(new Blob([all], {type: 'text/javascript'})));
    return [...names.map((name) => values[name].map(words[name])), values.amount.map((n) => words.amount(n, 'FLOPs'))];
}"""


def values() -> dict[str, list]:
    """Of every magnitude, and those where rounding decides: halves, the ends of units, what is nearly the next unit."""
    random.seed(0)
    whole = [0, 1, 2, 999, 1000, 1023, 1024, 1025, 1536, 10_240, 2**20 - 1, 2**20, 2**20 + 1, 16 << 20, 2**30 - 1]
    whole += [(n << 20) + half for n in (1, 3, 1000, 1023) for half in (0, 512, 2**19, 2**19 - 1)]
    whole += [round(2 ** random.uniform(0, 49)) for _ in range(400)]
    any = [0.0, 0.5, 1.5, 2.5, 0.125, 0.375, 999.5, 999.4999, 1000.5, 1e-13, 0.9995e-6, 240.5, 1234.5, 12345.678]
    any += [10 ** random.uniform(-12, 17) for _ in range(400)]
    shares = [0, 0.001, 0.005, 0.0049, 0.015, 0.025, 0.125, 0.5, 0.995, 1, 1.7]
    shares += [random.random() for _ in range(200)]
    return dict.fromkeys(NAMES, any) | {
        "count": whole,
        "sizeOf": whole,
        "percent": shares,
        "amount": [*whole, *any[:14]],
    }


def test_the_browser_writes_numbers_as_python_does():
    given = values()
    with chromium.open_browser() as browser:
        page = browser.new_page()
        theirs = page.evaluate(WRITTEN, [UNITS.read_text(), list(NAMES), given])
    for name, said in zip([*NAMES, "amount"], theirs, strict=True):
        ours = NAMES.get(name, lambda n: text.amount(n, "FLOPs"))
        wrong = [(n, js, ours(n)) for n, js in zip(given[name], said, strict=True) if js != ours(n)]
        assert not wrong, (name, wrong[:5])


WIDGETS = [
    viz.GridPlayer,
    viz.RoofPlot,
    viz.VmemTable,
    viz.BundleViewer,
    viz.MemoryLadder,
    viz.PipelineChart,
    viz.TilePainter,
]

DRAWN_BY_PYTHON = [
    viz.SystolicStepper,
    viz.FlowPlayer,
    viz.PrecisionExplorer,
    viz.CostBars,
]  # with all their words, so they need no units.js


@pytest.mark.parametrize("widget", WIDGETS)
def test_no_widget_writes_numbers_by_itself(widget):
    before, units, after = str(widget._esm).partition(UNITS.read_text())
    assert units
    assert written_by_itself(before + after) == []


@pytest.mark.parametrize("widget", DRAWN_BY_PYTHON)
def test_who_has_no_units_writes_no_numbers(widget):
    assert written_by_itself(str(widget._esm)) == []


def written_by_itself(script: str) -> list[str]:
    return [word for word in ("KiB", "toFixed", "toPrecision", "toLocaleString", "1e-6") if word in script]
