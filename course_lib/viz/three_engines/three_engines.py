"""A widget with one matmul for three machines side by side: an aspect, the lines that show it, what they compile to."""

import functools
import importlib.resources
import json

import traitlets

from course_lib.viz.common.widget import Widget, source
from course_lib.viz.three_engines import engine_sources, engine_still
from course_lib.viz.three_engines.engine_aspects import ASPECTS
from course_lib.viz.three_engines.engine_sources import ENGINES


def three_engines() -> "ThreeEngines":
    """Show one matmul on a TPU, on Hopper by Mosaic GPU and on Ampere by Triton, side by side.

    The reader picks an aspect, such as who copies. Each column says what is particular to the machine, highlights the
    lines of the library's kernel, and shows what the compiler makes of them. Kernels are read from the library's files;
    the compilers' lines are stored (``python benchmarks/engine_programs.py --write``). Nothing is compiled or run.
    """
    return ThreeEngines()


@functools.cache
def programs() -> dict:
    """Return what the compilers said: "versions", and "lines" by aspect and engine. Excerpts of the whole program."""
    file = importlib.resources.files("course_lib.viz.three_engines").joinpath("engine_programs.json")
    return json.loads(file.read_text("utf-8"))


class ThreeEngines(Widget):
    """The widget. It shows aspect number ``step``."""

    _esm, _css = source(__file__, "dom.js", "stepping.js")
    title = traitlets.Unicode("One matmul, three machines").tag(sync=True)
    engines = traitlets.List().tag(sync=True)  # name, file and lines (number, text) of each
    aspects = traitlets.List().tag(sync=True)  # name, and for each engine words, marked line numbers, program lines
    note = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self):
        said = programs()
        engines = [
            {"name": engine.name, "file": engine.file, "lines": [list(line) for line in engine_sources.source(engine)]}
            for engine in ENGINES
        ]
        aspects = [
            {
                "name": aspect.name,
                "cells": [
                    {
                        "says": cell.says,
                        "marks": [engine_sources.number(engine, mark) for mark in cell.marks],
                        **_excerpt(said, aspect.key, engine),
                    }
                    for cell, engine in zip(aspect.cells, ENGINES, strict=True)
                ],
            }
            for aspect in ASPECTS
        ]
        note = (
            f"The programs are excerpts of what the compilers returned ({said['versions']}). Nothing ran on a device."
        )
        super().__init__(engines=engines, aspects=aspects, note=note)

    def _still(self) -> tuple[str, str]:
        number = min(max(0, self.step), len(self.aspects) - 1)
        shown = engine_still.Shown(self.title, self.engines, self.aspects[number], self.note)
        return engine_still.still(shown), engine_still.as_text(shown)


def _excerpt(said: dict, aspect: str, engine: engine_sources.Engine) -> dict:
    """Return the heading of an excerpt and its lines; both are empty if there is none."""
    excerpt = said["lines"][aspect].get(engine.key)
    if excerpt is None:
        return {"heading": "", "program": []}
    if "verdict" in excerpt:
        return {"heading": "the judge says, without the line", "program": excerpt["verdict"]}
    shown, count = len(excerpt["shown"]), excerpt["count"]
    share = f": {shown} of {count:,} such lines" if count > shown else ""
    return {"heading": f"{engine.program}{share}", "program": excerpt["shown"]}
