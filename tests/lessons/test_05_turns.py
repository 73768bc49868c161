"""Lesson 5: its figures of cycles, which the exercises name, are what the compiler says of the kernels they mean."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from lesson_files import code_cells, mutants, source

from course_lib import compiler
from course_lib.lessons.lesson_05 import e06_break_the_overlap as e06
from course_lib.lessons.lesson_05 import under_way

STEM = "05_pipelining_and_vmem"
AHEAD = """\
            @pl.when(i + BUFFERS - 1 < chunks)
            def ahead():
                fetch(i + BUFFERS - 1).start()

"""
WAIT = "            fetch(i).wait()\n"
START = "            fetch(i).start()\n\n"
CHANGES = {
    "A": (),
    "B": (
        (START, START.rstrip() + "\n            fetch(i).wait()\n\n"),
        (AHEAD, AHEAD.rstrip() + "\n                fetch(i + BUFFERS - 1).wait()\n\n"),
        ("            fetch(i).wait()\n            value", "            value"),
    ),
    "C": (("BUFFERS = 2", "BUFFERS = 4"),),
    "D": (("BUFFERS = 2", "BUFFERS = 4"), (AHEAD, ""), (WAIT, WAIT + AHEAD)),
    "E": (("range(15)", "range(82)"),),
}


def names(id: str) -> dict:
    """What the imports and the given cells of an exercise define."""
    found = {}
    for cell in code_cells("solutions/src", STEM):
        if cell.source.startswith("import") or cell.metadata.get("given") == id:
            exec(cell.source, found)
    return found


def loop(part: str):
    """The loop of 05.6 with one thing changed."""
    (given,) = (c.source for c in code_cells("solutions/src", STEM) if c.metadata.get("given") == "05.6")
    for old, new in CHANGES[part]:
        assert given.count(old) == 1, old
        given = given.replace(old, new)
    found = names("05.1")
    exec(given, found)
    return found["loop"]


def chunks(count: int):
    return jax.ShapeDtypeStruct((128 * count, 128), jnp.float32)


@functools.cache
def reports(part: str) -> tuple[compiler.Report, compiler.Report]:
    return tuple(compiler.compile_tpu(loop(part), chunks(n)) for n in (24, 48))


@needs_libtpu
@pytest.mark.parametrize("part", e06.PARTS)
def test_a_turn_takes_what_05_6_says(part):
    few, more = reports(part)
    assert (more.cycles - few.cycles) / 24 == pytest.approx(e06.PARTS[part].value, rel=e06.PARTS[part].tolerance)


@needs_libtpu
def test_copy_and_work_are_those_that_05_6_names():
    text = source("solutions/src", STEM)
    assert f"takes {e06.COPY} cycles, predicted (compiler)" in text and f"busy for {e06.WORK} in each iteration" in text
    few, more = reports("A")
    busy = more.step["work"] + more.step["scalar code"]
    assert busy == pytest.approx(e06.WORK, rel=0.02)
    assert (more.cycles - few.cycles) / 12 - busy == pytest.approx(e06.COPY, rel=0.02), "twice a turn, without the work"


@needs_libtpu
def test_the_scores_that_golf_names():
    """Those of its two mutants above par, rounded."""
    text = source("solutions/src", STEM)
    said = [1000 * int(n) for n in re.findall(r"takes about (\d+),000", text)]
    found = []
    for cell in mutants(STEM):
        if cell.metadata["answer"] == "05.10" and "above par" in cell.metadata["says"]:
            defined = names("05.1")
            exec(cell.source, defined)
            found.append(compiler.compile_tpu(defined["waves"], jax.ShapeDtypeStruct((512, 128), jnp.float32)).cycles)
    assert found == pytest.approx(said, rel=0.02)


# The count of copies under way


def summed(ahead_of_wait: bool, buffers: int = 2):
    def kernel(x_hbm, o_ref, in_ref, sem):
        def fetch(i):
            b = jax.lax.rem(i, buffers)
            return pltpu.make_async_copy(x_hbm.at[pl.ds(8 * i, 8)], in_ref.at[b], sem.at[b])

        o_ref[...] = jnp.zeros_like(o_ref)
        for i in range(buffers - 1):
            fetch(i).start()

        @pl.loop(0, 6)
        def turn(i):
            def ahead():
                @pl.when(i + buffers - 1 < 6)
                def start():
                    fetch(i + buffers - 1).start()

            if ahead_of_wait:
                ahead()
            fetch(i).wait()
            if not ahead_of_wait:
                ahead()
            o_ref[...] += in_ref[jax.lax.rem(i, buffers)]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((buffers, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((buffers,))],
    )


X = jax.ShapeDtypeStruct((48, 128), jnp.float32)


@pytest.mark.parametrize(
    "ahead, buffers, counts",
    [(True, 2, [2, 2, 2, 2, 2, 1]), (False, 2, [1] * 6), (True, 4, [4, 4, 4, 3, 2, 1]), (False, 3, [2] * 5 + [1])],
)
def test_copies_under_way_are_counted(ahead, buffers, counts):
    fn = summed(ahead, buffers)
    assert under_way.at_waits(fn, X) == counts
    assert (under_way.too_few(fn, X, wanted=2) is None) == (min(counts[:-1]) >= 2)


def test_a_kernel_without_copies_has_too_few():
    assert (
        "No copy out of HBM"
        in under_way.too_few(lambda x: pl.pallas_call(copies_nothing, out_shape=x)(x), X, wanted=2)[0]
    )


def copies_nothing(x_ref, o_ref):
    o_ref[...] = x_ref[...]
