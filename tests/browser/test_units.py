"""Numbers in words: units.js, which every widget uses, writes what course_lib/text.py writes."""

import pathlib
import random

import chromium
from widget_page import computed

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
WRITTEN = """({ all }, names, values) =>
    [...names.map((name) => values[name].map(all[name])), values.amount.map((n) => all.amount(n, 'FLOPs'))]"""


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
        script = f"{UNITS.read_text()}\nexport const all = {{ {', '.join(NAMES)}, amount }};"
        theirs = computed(browser.new_page(), script, WRITTEN, list(NAMES), given)
    for name, said in zip([*NAMES, "amount"], theirs, strict=True):
        ours = NAMES.get(name, lambda n: text.amount(n, "FLOPs"))
        wrong = [(n, js, ours(n)) for n, js in zip(given[name], said, strict=True) if js != ours(n)]
        assert not wrong, (name, wrong[:5])
