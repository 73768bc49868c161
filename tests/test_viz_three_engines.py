"""The three engines: marked lines that exist, the compilers' lines as they are today, the still.

In a browser: tests/browser/test_three_engines.py and tests/browser/test_every_widget.py.
"""

import inspect
import sys

import pytest
from conftest import needs_libtpu, pinned
from gpu_compiler import needs_gpu_compiler
from lesson_files import ROOT
from shapes import words_on_words
from sweeps import daily
from viz_samples import overflowing, words

from course_lib import compiler, viz
from course_lib.kernels.matmul import kernel, mosaic_gpu, triton
from course_lib.viz.three_engines import engine_sources
from course_lib.viz.three_engines.engine_aspects import ASPECTS
from course_lib.viz.three_engines.engine_sources import ENGINES
from course_lib.viz.three_engines.three_engines import programs

sys.path.insert(0, str(ROOT / "benchmarks"))
import engine_programs  # noqa: E402

REWRITE = "the compilers say something else now: python benchmarks/engine_programs.py --write"
MODULES = dict(zip(ENGINES, (kernel, mosaic_gpu, triton), strict=True))
NAMES = [aspect.key for aspect in ASPECTS]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.key)
def test_the_kernel_shown_is_the_librarys(engine):
    shown = [line.text for line in engine_sources.source(engine)]
    wanted = [inspect.getsource(getattr(MODULES[engine], name)) for name in engine.functions]
    assert shown == "".join(wanted).splitlines()
    first = engine_sources.source(engine)[0]
    assert inspect.getsource(MODULES[engine]).splitlines()[first.number - 1] == first.text


@pytest.mark.parametrize("aspect", ASPECTS, ids=lambda aspect: aspect.key)
def test_every_marked_line_exists_once(aspect):
    for engine, cell in zip(ENGINES, aspect.cells, strict=True):
        numbers = [engine_sources.number(engine, mark) for mark in cell.marks]
        assert len(set(numbers)) == len(cell.marks)


def test_a_mark_that_no_line_has_is_named():
    with pytest.raises(ValueError, match=r"0 lines of kernels/matmul/kernel.py contain 'nowhere'"):
        engine_sources.number(ENGINES[0], "nowhere")
    with pytest.raises(ValueError, match="lines of kernels/matmul/kernel.py contain 'acc_ref'; it must be one"):
        engine_sources.number(ENGINES[0], "acc_ref")


def test_every_aspect_has_its_excerpts():
    assert set(programs()["lines"]) == set(NAMES) == {*engine_programs.PATTERNS, "forgotten"}


@needs_libtpu
@pinned
def test_the_tpus_lines_are_those_of_today():
    stored = {aspect: said["tpu"] for aspect, said in programs()["lines"].items() if "tpu" in said}
    asked = {a: patterns[ENGINES[0]] for a, patterns in engine_programs.PATTERNS.items() if ENGINES[0] in patterns}
    today = {aspect: engine_programs.excerpt(ENGINES[0], patterns) for aspect, patterns in asked.items()}
    assert stored == today | {"block": engine_programs.the_loop()}, REWRITE


@needs_gpu_compiler
@pinned
@pytest.mark.parametrize("key", daily("ampere", of=("hopper", "ampere")))
def test_the_gpus_lines_are_those_of_today(key):
    engine = next(engine for engine in ENGINES if engine.key == key)
    for aspect, patterns in engine_programs.PATTERNS.items():
        assert programs()["lines"][aspect][engine.key] == engine_programs.excerpt(engine, patterns[engine]), REWRITE


@pinned
def test_the_forgotten_wait_is_judged_as_it_says():
    assert programs()["lines"]["forgotten"] == {"hopper": engine_programs.forgotten()}, REWRITE
    hopper = ASPECTS[NAMES.index("forgotten")].cells[1]
    assert hopper.marks == (engine_programs.FORGOTTEN,)


@pytest.mark.sweep  # every day its verdict is compared, which the words beside it are about
@needs_gpu_compiler
def test_without_the_wait_it_compiles_all_the_same():
    forgetful = engine_programs.without_the_wait()
    report = compiler.compile_gpu(lambda x, y: forgetful.product(x, y)[0], *[engine_programs.X] * 2, chip="h100")
    assert report.ok, report


def test_a_long_list_of_registers_is_counted():
    registers = ", ".join(f"%r{n}" for n in range(128))
    assert engine_programs.shortened(f"\twgmma {{{registers}}}, %rd1;") == "wgmma {%r0, ... 128 registers}, %rd1;"
    assert engine_programs.shortened("mma {%r1, %r2}, {%r3};") == "mma {%r1, %r2}, {%r3};"


def test_a_statement_is_taken_out_of_its_line():
    line = "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma {%r0, ... 128 registers}, p; }"
    assert engine_programs.statements(line)[2] == "wgmma {%r0, ... 128 registers}, p;"
    assert engine_programs.statements(".maxntid 384, 1, 1") == [".maxntid 384, 1, 1"]


def test_a_pattern_that_no_line_fits_ends_the_script(monkeypatch):
    monkeypatch.setattr(engine_programs, "fitting", lambda *given: [])
    with pytest.raises(SystemExit, match="no line of the program for TPU, by Mosaic fits nowhere: change PATTERNS"):
        engine_programs.excerpt(ENGINES[0], ["nowhere"])


def test_figures_in_the_words_are_those_of_the_programs():
    said = {aspect.key: [cell.says for cell in aspect.cells] for aspect in ASPECTS}
    threads = [
        programs()["lines"]["block"][engine]["shown"][0].split()[1].strip(",") for engine in ("hopper", "ampere")
    ]
    assert threads == ["384", "128"] and all(n in said["block"][1 + k] for k, n in enumerate(threads))
    assert "128 registers" in programs()["lines"]["accumulator"]["hopper"]["shown"][0]
    assert "128 of each multiplying thread" in said["accumulator"][1]
    assert "0x10," in programs()["lines"]["copy"]["ampere"]["shown"][0] and "16 bytes" in said["copy"][2]


def test_the_still_shows_the_marked_lines_and_the_programs():
    widget = viz.three_engines()
    widget.step = NAMES.index("copy")
    bundle = widget._repr_mimebundle_()[0]
    seen, said = words(bundle["image/svg+xml"]), bundle["text/plain"]
    assert "One matmul, three machines: who copies" in seen and "Hopper, by Mosaic GPU" in seen
    assert any("plgpu.copy_gmem_to_smem(x_gmem" in line for line in seen)
    assert "plgpu.copy_gmem_to_smem(y_gmem.at[y_block], y_smem.at[stage], full.at[stage])" in said
    assert programs()["versions"] in said and "dma.hbm_to_vmem" in said and "cp.async" in said


@pytest.mark.parametrize("step", range(len(ASPECTS)), ids=NAMES)
def test_every_still_keeps_its_words_apart(step):
    widget = viz.three_engines()
    widget.step = step
    svg = widget._repr_mimebundle_()[0]["image/svg+xml"]
    assert overflowing(svg) == [] == words_on_words(svg)


def test_a_step_that_does_not_exist_shows_the_nearest():
    widget = viz.three_engines()
    for step, shown in ((-3, ASPECTS[0]), (99, ASPECTS[-1])):
        widget.step = step
        assert widget._repr_mimebundle_()[0]["text/plain"].startswith(f"One matmul, three machines: {shown.name}")
