"""Projects of the reader's own: what a declaration says and demands, and that the stages take them."""

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from tiny_kernels import decay, decay_kernel, decayed
from tiny_projects import f32

from course_lib import checks
from course_lib.checks import exercise, own, record
from course_lib.checks.stages import rival

KNOWN = (1e-3, "by its bytes")  # XLA's time


def cases():
    return [(jnp.ones((n, 128), jnp.float32) * jnp.arange(n)[:, None],) for n in (8, 16, 24)]


RIGHT = {"reference": decayed, "cases": cases, "at": lambda: (f32(256, 256),), "xla": KNOWN}


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    monkeypatch.setattr(record, "_memory", {})
    declared = {}
    for module in (exercise, own, checks.help):
        monkeypatch.setattr(module, "OWN", declared)
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


def test_a_declaration_prints_the_ideal_par_and_xla(capsys):
    capsys.readouterr()
    checks.own_project("decay", **RIGHT)
    assert capsys.readouterr().out == (
        "own.decay on a v5e: the ideal is 639 ns, bound by HBM; par is 800 ns. XLA takes at least 1 ms,\n"
        "by its bytes.\n"
    )
    task = exercise.exercise("own.decay")
    assert task.golf.par == -(-task.project.ideal.cycles() * 5 // 4)
    checks.own_project("decay", **RIGHT | {"par": 60_000, "vector_ops": 10**9})
    assert exercise.exercise("own.decay").golf.par == 60_000
    assert "bound by the core" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"name": "my op"}, "name is 'my op'; it is the name of your function"),
        ({"name": 3}, "name is 3; it is the name of your function"),
        ({"chip": "v5"}, "v5"),
        ({"flops": -1}, "flops is -1; it is a whole number"),
        ({"par": 0}, "par is 0; it is a whole number of cycles"),
        ({"slips": [1]}, "slips is"),
        ({"cases": []}, r"cases is \[\]; it is a function without arguments: cases=lambda"),
        ({"cases": lambda: []}, "cases returns 0 of them; it returns a list of 3 argument tuples or more"),
        ({"cases": lambda: [jnp.ones((n, 128)) for n in (8, 16, 24)]}, "a list of 3 argument tuples"),
        ({"cases": lambda: [(jnp.ones((8, 128)),)] * 3}, "arrays of fewer than 3 sizes"),
        ({"cases": lambda: 1 / 0}, r"cases\(\) raises ZeroDivisionError"),
        ({"at": (f32(256, 256),)}, "at is .*; it is a function without arguments"),
        ({"at": lambda: f32(256, 256)}, "at returns ShapeDtypeStruct.*; it returns the tuple of scored arguments"),
        (
            {"reference": lambda x, y: x},
            "reference cannot be called with the arguments of at, float32.256,256.: TypeError",
        ),
        ({"reference": lambda x: None}, "reference returns no array for the arguments of at"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(changed, says):
    with pytest.raises(ValueError, match=says):
        checks.own_project(**{"name": "decay"} | RIGHT | changed)


def test_what_is_not_declared_is_asked_for():
    with pytest.raises(ValueError, match=r"There is no project 'own.decay' in this kernel: declare it first"):
        checks.check("own.decay", decay)
    with pytest.raises(ValueError, match="the open projects are 'stencil' and 'top_64'"):
        checks.open_project("blur")


def test_hints_and_solution_know_whose_project_it_is(capsys):
    checks.own_project("decay", **RIGHT)
    capsys.readouterr()
    for _ in range(3):
        checks.hint("own.decay")
    checks.solution("own.decay")
    printed = capsys.readouterr().out
    assert 'checks.report("own.decay")' in printed and "own.decay is yours: there is no solution of ours." in printed
    assert checks.predict("own.decay", 5).hint == "(no hints are left)"


@needs_libtpu
def test_the_stages_take_it(capsys):
    checks.own_project("decay", **RIGHT | {"par": 60_000})
    assert checks.check("own.decay", decay).headline == "write your prediction first."
    assert checks.predict("own.decay", ("3 us", "HBM")).passed
    said = checks.check("own.decay", decay)
    assert said.score and 'checks.planted("own.decay", decay, test_decay)' in said.next, str(said)
    assert checks.tuned("own.decay", decay, {("v5e", (256, 256)): {"bt": 64}}).passed
    assert "own.decay decay" in str(checks.report("own.decay"))


@needs_libtpu
def test_xla_s_time_is_the_compiler_s_where_it_has_one():
    seconds, by = rival.time_of(lambda x: x * 2, (f32(256, 256),))
    assert by == "predicted (compiler)" and 0 < seconds < 1e-4
    at_least, by = rival.time_of(lambda x: x * 2, (f32(4096, 2048),), simulate=False)
    assert by in ("by its bytes", "predicted (model)") and at_least >= 2 * 4096 * 2048 * 4 / 819e9 * 0.99


def test_without_the_compiler_xla_s_time_is_not_known(monkeypatch, capsys):
    def unavailable(*args, **how):
        raise rival.compiler.Unavailable("there is none")

    monkeypatch.setattr(rival.compiler, "compile_tpu", unavailable)
    checks.own_project("decay", **{name: value for name, value in RIGHT.items() if name != "xla"})
    assert "XLA's time is not known" in capsys.readouterr().out
    assert exercise.exercise("own.decay").project.xla_s is None


def test_the_times_of_the_course_s_projects():
    found = checks.project_times()
    assert [each.id for each in found] == [f"18.{n}" for n in range(4, 10)]
    assert all(each.xla is None or each.ideal < each.xla and each.ideal_bytes < each.xla_bytes for each in found)


@needs_libtpu
def test_a_kernel_that_leaves_out_part_of_the_scored_arrays_has_no_score():
    """All judges see small arrays only; the compiler's count of bytes shows what a large one misses."""

    def first_blocks_only(x):
        block = pl.BlockSpec((8, x.shape[1]), lambda t: (t, 0))
        return pl.pallas_call(
            decay_kernel, grid=(min(x.shape[0] // 8, 4),), in_specs=[block], out_specs=block, out_shape=x,
            scratch_shapes=[pltpu.VMEM((1, x.shape[1]), jnp.float32)],
        )(x)  # fmt: skip

    checks.own_project("decay", **RIGHT | {"at": lambda: (f32(4096, 1024),), "par": 10**6})
    checks.predict("own.decay", ("3 us", "HBM"))
    said = checks.check("own.decay", first_blocks_only)
    assert not said.passed and said.score is None and "part of them is never read or written" in said.message, str(said)
