"""Whatever JAX has traced leaves the box as it is, or is refused with a sentence that says what to write instead."""

import json
import pathlib

import jax
import numpy as np
import pytest
from programs_in_the_box import ON_A_TPU, PROGRAMS, REFUSED, TYPE
from sweeps import daily

from course_lib import grid
from course_lib.grading import submission
from course_lib.grading.box import bwrap, calls, reading, values
from course_lib.grading.box.grader import Grader
from course_lib.grading.graft import course_notebook

ROOT = pathlib.Path(__file__).resolve().parent.parent


def carried(fn):
    """The function as it comes out of a box, and the structure of its result."""
    _, *nodes = calls.answered(fn, (TYPE,), {}, "v5e", None)
    program, structure = values.loads(values.dumps(nodes))
    return reading.program(program), reading.structure(structure)


EVERY_DAY = (
    "numpy: pad", "grid: numpy", "in: roll", "checkpoint: plain", "fft: real", "random: a constant", "print: pl.when",
    "loop: psum", "call: pl.kernel", "derivative: of integers", "result: an ordered dict",
)  # fmt: skip


@pytest.mark.parametrize("name", daily(*EVERY_DAY, of=PROGRAMS))
def test_what_jax_has_traced_leaves_the_box_as_it_is(name):
    fn = PROGRAMS[name]
    jaxpr, result = grid.trace_with_result(fn, TYPE)
    read, structure = carried(fn)
    x = jax.random.normal(jax.random.key(0), TYPE.shape)
    ours = plain(jax.tree.unflatten(jax.tree.structure(result), grid.run(jaxpr, True, x)))
    its = jax.tree.unflatten(structure, grid.run(grid.trace(read, TYPE), True, x))
    assert jax.tree.structure(its) == jax.tree.structure(ours)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(its), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=1e-5, atol=1e-5)


def plain(result):
    """The result with tuples for its named tuples and dicts for their like, as the judges read it."""
    if isinstance(result, dict):
        return {key: plain(result[key]) for key in result}
    if isinstance(result, list | tuple):
        return (list if type(result) is list else tuple)(map(plain, result))
    return result


@pytest.mark.parametrize("name", daily("random bits", of=ON_A_TPU))
def test_what_only_a_tpu_runs_leaves_the_box_too(name):
    traced = [eqn.primitive for each in (ON_A_TPU[name], carried(ON_A_TPU[name])[0]) for eqn in _kernel(each).eqns]
    assert traced[: len(traced) // 2] == traced[len(traced) // 2 :]


def _kernel(fn):
    return next(e.params["jaxpr"] for e in grid.trace(fn, TYPE).eqns if e.primitive.name == "pallas_call")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_leave_the_box_says_what_to_write(name):
    fn, instead = REFUSED[name]
    with pytest.raises(values.Unportable, match=instead) as error:
        carried(fn)
    assert name in str(error.value) and str(error.value).endswith(".") and len(str(error.value)) < 200


# Plain values that an answer may return


BLEND = """
def blend_kernel(x_ref, y_ref, t_ref, o_ref):
    pl.debug_print("block")
    o_ref[...] = x_ref[...] + t_ref[...] * (y_ref[...] - x_ref[...])


@jax.checkpoint
def blend(x, y, t):
    n = x.shape[0]
    x, y, t = (jnp.split(jnp.roll(jnp.pad(v, (0, -n % 1024)), 1024), 1)[0] for v in (x, y, t))
    block = pl.BlockSpec((1024,), lambda i: (i,), pipeline_mode=pl.Buffered(2))
    out_shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(blend_kernel, grid=x.size // 1024, in_specs=[block] * 3, out_specs=block, out_shape=out_shape)
    return jnp.roll(call(x, y, t), -1024)[:n]
"""
NAMED = """
import collections
import functools
import numpy as np

Layout = collections.namedtuple("Layout", "grid block index_map")


def configure(n):
    return Layout((np.int64(n) // 1024,), tuple(np.array([1024])), functools.partial(lambda k, i: (i,), 3))
"""
ENUM = "import enum\n\n\nclass Line(enum.IntEnum):\n    LAST = 8\n\n\nline = Line.LAST\n"
TEXT = 'import enum\n\n\nclass Judge(enum.StrEnum):\n    NONE = "none"\n\n\njudge = Judge.NONE\n'


@pytest.mark.skipif(bool(bwrap.problem()), reason=bwrap.problem() or "there is a box")
def test_right_answers_in_other_words_have_full_marks_in_the_box(tmp_path):
    notebook = json.loads((ROOT / "exercises/01_hello_kernel.ipynb").read_text())
    answers = {"01-4": NAMED, "01-7": ENUM, "01-8": TEXT, "01-10": BLEND}
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    (tmp_path / "notebook.ipynb").write_text(json.dumps(notebook))
    submitted, grader = submission.read(tmp_path / "notebook.ipynb"), Grader(1, seed=1)
    try:
        rows = grader.rows(course_notebook(submitted), submitted, 60.0)
    finally:
        grader.end()
    said = {row.id: row.message for row in rows if row.outcome != "passed" and row.id.replace(".", "-") in answers}
    assert said == {}
