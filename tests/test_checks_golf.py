"""Golf: what a score is, when it passes, what is said of it, and what of it is kept."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily

from course_lib import checks, compiler, errors, grid
from course_lib.checks import record
from course_lib.checks.exercise import Exercise, exercise, exercises
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds import golf, kernel
from course_lib.checks.kinds.golf import Golf
from course_lib.checks.result import on_a_screen, passed

SIZES = ({"M": 16, "N": 256}, {"M": 8, "N": 128}, {"M": 5, "N": 130})
AGREE = "numbers, simulator, races and compiler agree."
ONCE = 2 * 16 * 256 * 4


def task(unit="bytes", par=ONCE):
    return Exercise(
        id="01.99", title="t", kind="golf", defines="double", hints=("a", "b", "c"), points=1,
        cases=lambda: arguments(("x: f32[M,N]",), SIZES), reference=lambda x: 2 * x, golf=Golf(unit=unit, par=par),
    )  # fmt: skip


def kernel_of(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def double(x):
    return pl.pallas_call(kernel_of, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def half_by_half(x):
    """Its block of x changes at every step, in a grid that goes through x twice."""
    block = pl.BlockSpec((8, 256), lambda k, i: (i, 0))
    return pl.pallas_call(kernel_of, out_shape=x, grid=(2, 2), in_specs=[block], out_specs=block)(x)


def in_hbm(x):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel_of, out_shape=x, in_specs=[anywhere], out_specs=anywhere)(x)


@pytest.fixture
def as_in_a_notebook():
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


@pytest.fixture
def agreed(monkeypatch):
    """The judges agree with everything; ``agreed(headline, report)`` changes what they say."""

    def set(headline=AGREE, report=None):
        monkeypatch.setattr(kernel, "result", lambda task, defined: passed(task.id, headline, report=report))

    set()
    monkeypatch.setattr(golf, "ours", lambda id: ONCE + 100)
    return set


def report_of(cycles, **more):
    return compiler.Report(name="double", chip="v5e", ok=True, cycles=cycles, **more)


# What passes


@pytest.mark.parametrize(
    "par, ours, says",
    [
        (ONCE, ONCE, "01.99 passed: 32,768 bytes; par 32,768, ours 32,768."),
        (ONCE + 1, ONCE - 1, "01.99 passed: 32,768 bytes; par 32,769, ours 32,767."),
        (ONCE, ONCE + 1, "01.99 passed: 32,768 bytes; par 32,768; beats ours, 32,769."),
        (ONCE, None, "01.99 passed: 32,768 bytes; par 32,768."),
    ],
)
def test_par_passes_whatever_ours_is(agreed, monkeypatch, par, ours, says):
    monkeypatch.setattr(golf, "ours", lambda id: ours)
    said = golf.result(task(par=par), double)
    assert (str(said), said.score) == (says, ONCE)


def test_above_par_is_not_yet_and_says_where_the_bytes_go(agreed):
    said = golf.result(task(par=2 * ONCE - 1), half_by_half)
    assert (said.outcome, said.judge, said.score) == ("not yet", "exercise", 2 * ONCE)
    assert on_a_screen(said) == (
        "01.99 not yet: the judges agree, but the score is above par.\n"
        "It moves 65,536 bytes between HBM and the chip; par is 65,535, ours 32,868. Moving every array\n"
        "once would take 32,768. x_ref is fetched 4 times: 32 KiB, 2 times the whole array.\n"
        "Next: a block is copied again whenever its index changes from one step to the next: choose the\n"
        "order of the grid, or larger blocks if you may, so that x_ref stays in VMEM."
    )


def test_a_kernel_that_a_judge_refuses_has_no_score():
    said = golf.result(task(), lambda x: pl.pallas_call(lambda x_ref, o_ref: None, out_shape=x)(x))
    assert (said.outcome, said.judge, said.score) == ("not yet", "numbers", None)


def test_who_could_not_sit_is_named(agreed):
    agreed("numbers, simulator and races agree; skipped: compiler.")
    assert str(golf.result(task(), double)).endswith("; beats ours, 32,868; skipped: compiler.")


# What is counted


@pytest.mark.parametrize(
    "around, moved",
    [
        (lambda x: double(x.reshape(32, 128)).reshape(16, 256), {}),
        (lambda x: double(jnp.concatenate([x, x]))[:16], {"concatenate": 2 * ONCE, "slice": 3 * ONCE // 2}),
        (jax.jit(lambda x: double(x.T).T), {"transpose": 2 * (16 + 128) * 2**10}),  # tiles: 16 columns take 128
    ],
)
def test_what_stands_outside_the_kernels_counts(around, moved):
    walk = grid.walk(around, jax.ShapeDtypeStruct((16, 256), jnp.float32))
    assert golf.around(walk) == moved


def test_most_of_it_may_stand_outside(agreed):
    said = golf.result(task(), lambda x: double(jnp.concatenate([x, x]))[:16])
    assert "Outside the kernels, concatenate moves 65,536 of them." in said.message and "index map" in said.next


def test_several_kernels_are_told_of_what_lies_between(agreed):
    said = golf.result(task(), lambda x: double(double(x)))
    assert "There are 2 kernels: what one passes to the next is written to HBM" in said.message


def test_bytes_that_nobody_sees_are_no_score(agreed):
    """Refs in HBM, read as if they were in VMEM: a compiler refuses that, and not every machine has one."""
    said = golf.result(task(), in_hbm)
    assert (said.outcome, said.score) == ("not yet", None)
    assert "The count is 0 bytes, but moving every array once takes 32,768" in said.message


def test_bytes_that_depend_on_data_are_no_score(agreed):
    def choosing(x):
        def kernel(x_ref, o_ref, n_ref, semaphore):
            copy = pltpu.make_async_copy(x_ref, x_ref, semaphore)
            pl.when(o_ref[0, 0] > 0)(copy.start)

        return pl.pallas_call(
            kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.SMEM((1,), jnp.int32), pltpu.SemaphoreType.DMA],
        )(x)  # fmt: skip

    said = golf.result(task(), choosing)
    assert (said.outcome, said.score) == ("not yet", None) and "cannot be counted" in said.message


# Cycles


def test_cycles_are_the_compilers(agreed):
    agreed(report=report_of(4312))
    said = golf.result(task("cycles", par=5000), double)
    assert str(said) == "01.99 passed: 4,312 cycles, predicted (compiler); par 5,000; beats ours, 32,868."


def test_cycles_above_par_say_where_they_go(agreed):
    agreed(report=report_of(4312, time_split={"waits for copies": 85, "MXU": 15}, hbm_bytes=8200))
    said = golf.result(task("cycles", par=4000), double)
    assert said.message == (
        "It takes 4,312 cycles, predicted (compiler); par is 4,000, ours 32,868. They go to: waits for copies 85 %, "
        "MXU 15 %. Its HBM traffic alone takes 10 ns at full speed."
    )
    assert said.score == 4312 and 'checks.report("01.99")' in said.next


@pytest.mark.parametrize(
    "most, steps, says",
    [
        ("DMA wait", 1, "try two steps"),
        ("DMA wait", 8, "each of 8 steps waits for its copies' latency, however small its block: try fewer steps"),
        ("DMA wait", 2, "reduce the largest of these"),
        ("DMA wait", None, "reduce the largest of these"),  # nobody knows: several kernels, or copies by hand
        ("XLU", 8, "the core waits for the XLU's results: try more rows"),
        ("issue", 1, "reduce the largest of these"),
    ],
)
def test_what_helps_against_the_largest_part_of_the_cycles(agreed, monkeypatch, most, steps, says):
    agreed(report=report_of(4312, time_split={most: 85, "other": 15}))
    monkeypatch.setattr(golf, "_steps", lambda task, defined: steps)
    assert says in golf.result(task("cycles", par=4000), double).next


def test_an_exercise_may_say_what_helps_above_par(agreed):
    agreed(report=report_of(4312, time_split={"DMA wait": 85}))
    own = dataclasses.replace(task("cycles", par=4000), golf=Golf(unit="cycles", par=4000, next="count the stores."))
    assert golf.result(own, double).next.startswith("count the stores.")


def test_steps_are_those_of_one_kernel_in_blocks():
    assert golf._steps(task("cycles", par=1), double) == 1
    assert golf._steps(task("cycles", par=1), lambda x: double(double(x))) is None


def at_large(monkeypatch, report):
    """A task that scores 1024 rows, and the shapes that the compiler is asked about, which answers with ``report``."""
    asked = []
    monkeypatch.setattr(compiler, "compile_tpu", lambda fn, *args, **more: asked.append(args[0].shape) or report)
    large = Golf(unit="cycles", par=5000, at=lambda: (jax.ShapeDtypeStruct((1024, 256), jnp.float32),))
    return dataclasses.replace(task(), golf=large), asked


def test_cycles_may_be_those_of_arguments_too_large_to_run(agreed, monkeypatch):
    agreed(report=report_of(99))  # of the first arguments
    scored, asked = at_large(monkeypatch, report_of(4312))
    assert golf.result(scored, double).score == 4312 and asked == [(1024, 256)]


def test_what_is_wrong_only_where_it_is_scored_is_refused(agreed, monkeypatch):
    """Arrays are run there; the compiler has been asked, and says nothing against it."""
    scored, _ = at_large(monkeypatch, report_of(4312))
    large = dataclasses.replace(scored.golf, at=lambda: (jnp.ones((64, 256)),))
    scored = dataclasses.replace(scored, golf=large)
    assert golf.result(scored, double).score == 4312
    said = golf.result(scored, lambda x: double(x) if x.shape[0] < 64 else pl.pallas_call(copy, out_shape=x)(x))
    assert (said.outcome, said.judge, said.score) == ("not yet", "numbers", None)
    assert said.headline == "the numbers judge refused it at the size that is scored, (64, 256)."


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


ONCE_AT_1024 = 3844  # 2 MiB at 820 GB/s, 1.503 GHz


@pytest.mark.parametrize(
    "cycles, moved, score",
    [(3406, None, ONCE_AT_1024), (3406, 2**21, ONCE_AT_1024), (3406, 2**22, 2 * ONCE_AT_1024), (3845, 2**21, 3845)],
)
def test_cycles_are_never_fewer_than_the_bytes_need(agreed, monkeypatch, cycles, moved, score):
    """Copies that run at once have HBM's full speed each, in the simulator."""
    scored, _ = at_large(monkeypatch, report_of(cycles, hbm_bytes=moved))
    scored = dataclasses.replace(scored, golf=dataclasses.replace(scored.golf, par=10_000))
    said = golf.result(scored, double)
    assert said.score == score
    assert ("nothing is left to gain: HBM binds" in str(said)) is (score == ONCE_AT_1024)


def test_what_the_compiler_refuses_at_that_size_is_no_score(agreed, monkeypatch):
    scored, _ = at_large(monkeypatch, dataclasses.replace(report_of(None), ok=False))
    said = golf.result(scored, double)
    assert (said.outcome, said.score) == ("not yet", None) and "The compiler refuses it" in said.message


STOPPED = "the compiler gave no answer within 20 s and was stopped"


@pytest.mark.parametrize(
    "fields",
    [
        {"ok": False, "error": errors.explain(f"WorkerDied: {STOPPED}")},
        {"notes": (f"no cycles: with the simulator on, {STOPPED}.",)},
    ],
    ids=["compiling", "simulating"],
)
def test_what_compiles_too_long_has_too_long_a_step(agreed, monkeypatch, fields):
    scored, _ = at_large(monkeypatch, dataclasses.replace(report_of(None), **fields))
    said = golf.result(scored, double)
    assert (
        "It took too long to compile, because one step is too long a program." in said.message
        and "20 s" in said.message
    )
    assert said.next.startswith("make the blocks smaller.") and "refuses" not in str(said)


@pytest.mark.parametrize("cycles, passes", [(4311, False), (4312, True)])
def test_who_is_faster_than_the_work_leaves_some_out(agreed, monkeypatch, cycles, passes):
    scored, _ = at_large(monkeypatch, report_of(cycles))
    scored = dataclasses.replace(scored, golf=dataclasses.replace(scored.golf, floor=4312))
    said = golf.result(scored, double)
    assert said.passed is passes and ("4,312" in said.message) is not passes


@pytest.mark.parametrize("fields", [{"unit": "bytes", "floor": 1}, {"unit": "cycles", "floor": 5}])
def test_a_floor_is_in_cycles_and_below_par(fields):
    with pytest.raises(ValueError, match="floor is"):
        Golf(par=5, **fields)


def test_bytes_are_those_of_arguments_that_every_judge_has_seen():
    with pytest.raises(ValueError, match="at= is for cycles"):
        Golf(unit="bytes", par=1, at=tuple)


@pytest.mark.parametrize("where", ["under_nbval", "building"])
def test_no_cycles_are_printed_where_lines_are_compared(agreed, monkeypatch, where):
    """A new libtpu must not change what is stored."""
    agreed(report=report_of(4312))
    monkeypatch.setattr(golf.environment, where, lambda: True)
    said = golf.result(task("cycles", par=5000), double)
    assert str(said) == "01.99 passed: at par or below, in cycles, predicted (compiler)."


def test_a_grader_reads_the_cycles(agreed, monkeypatch):
    agreed(report=report_of(4312))
    monkeypatch.setattr(golf.environment, "under_nbval", lambda: True)
    monkeypatch.setenv("COURSE_GRADING", "1")
    assert "passed: 4,312 cycles, predicted (compiler); par 5,000" in str(golf.result(task("cycles", par=5000), double))


def test_without_a_compiler_cycles_are_skipped_and_nothing_passes(agreed, monkeypatch):
    def unavailable(*args, **settings):
        raise compiler.Unavailable("libtpu is not installed.")

    monkeypatch.setattr(compiler, "compile_tpu", unavailable)
    said = golf.result(task("cycles", par=10**9), double)
    assert (said.outcome, said.score, said.headline) == ("not yet", None, "skipped: its score.")
    assert "The judges agree." in said.message and "libtpu is not installed." in said.message


@needs_libtpu
def test_the_compiler_is_asked_for_cycles():
    assert 100 < golf.score(task("cycles"), double) < 100_000


def test_a_report_without_cycles_is_no_score(agreed):
    agreed(report=report_of(None, notes=("the simulator stopped.",)))
    said = golf.result(task("cycles"), double)
    assert said.outcome == "not yet" and "gives no cycles. the simulator stopped." in said.message


# Declarations


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"unit": "seconds", "par": 1}, 'unit is \'seconds\'; it may be "bytes", "cycles" or "ns"'),
        ({"unit": "bytes", "par": 0}, "par is 0; it is a whole number of bytes, 1 or more"),
        ({"unit": "cycles", "par": 1.5}, "par is 1.5; it is a whole number of cycles"),
    ],
)
def test_a_golf_that_cannot_be(fields, says):
    with pytest.raises(ValueError, match=says):
        Golf(**fields)


@pytest.mark.parametrize("kind, given", [("golf", None), ("write", Golf(unit="bytes", par=1))])
def test_golf_and_only_golf_has_par(kind, given):
    with pytest.raises(ValueError, match="for golf and projects, and for no other kind, it is a Golf"):
        Exercise(
            id="99.1", title="t", kind=kind, defines="f", hints=("a", "b", "c"), points=1, golf=given,
            cases=lambda: [], reference=lambda x: x,
        )  # fmt: skip


# What the grader hears


@pytest.mark.parametrize(
    "printed, value",
    [
        ("01.11 score: 12\n", 12),
        ("01.11 score: 1\n01.11 score: 12\n", 12),
        ("01.11 score: 12\nmore\n", None),
        ("01.11 score: none. why\n", None),
        ("01.10 score: 12\n", None),
        ("01.11 score: -1\n", None),
        ("01.11 score: ²\n", None),
        ("", None),
    ],
)
def test_only_the_last_line_is_a_score(printed, value):
    assert golf.announced("01.11", printed) == value


def test_a_score_is_announced(capsys):
    golf.announce("01.11", lambda x, ys: double(ys))  # no judge is asked: the check has done that
    golf.announce("01.11", 7)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("01.11 score: none. The count is 131,072 bytes") and second.startswith("01.11 score: none.")


# What is kept


def test_the_best_score_is_kept_whatever_comes_after():
    with checks.rehearsal():
        for outcome, score, best in (
            ("not yet", None, 0), ("not yet", 900, 900), ("passed", 700, 700), ("passed", 800, 700),
            ("not yet", None, 700),
        ):  # fmt: skip
            record.attempted("01.11", outcome, score)
            assert record.entry("01.11").best == best
        assert record.entry("01.11").outcome == "passed"
        text = next(line for line in str(checks.progress()).splitlines() if " 01.11 " in line)
        assert ", best 700 bytes" in text and "5 attempts" in text


def test_the_check_keeps_the_score(agreed, monkeypatch):
    with checks.rehearsal():
        checks.check("01.11", exercise("01.11").build(ours_to_four))
        assert record.entry("01.11").best == 147_456


def ours_to_four(x, ys):
    def add(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    whole, each = pl.BlockSpec(x.shape, lambda i: (0,)), pl.BlockSpec(x.shape, lambda i: (i,))
    return pl.pallas_call(add, out_shape=ys, grid=(4,), in_specs=[whole, each], out_specs=each)(x, ys)


GOLFS = [task.id for task in exercises().values() if task.kind == "golf" and not task.engine]  # in a pallas_call


def statement(task):
    """What the exercise asks for, as it says it: all arrays in one block, and the reference as the kernel's body."""

    def asked(*args):
        def kernel(*refs):
            found = task.reference(*(ref[...] for ref in refs[: len(args)]))
            for ref, value in zip(refs[len(args) :], jax.tree.leaves(found), strict=True):
                ref[...] = value

        leaves, tree = jax.tree.flatten(jax.eval_shape(task.reference, *args))
        return jax.tree.unflatten(tree, pl.pallas_call(kernel, out_shape=leaves)(*args))

    asked.__name__ = task.defines
    return asked


@needs_libtpu
@pytest.mark.parametrize("id", daily("01.11", "02.11", of=GOLFS))
def test_the_statement_of_a_golf_does_not_pass(id, as_in_a_notebook):
    """Or there would be nothing to win. It is above par, or has no score, or the budget or the compiler refuses it."""
    said = golf.result(exercise(id), statement(exercise(id)))
    assert said.outcome == "not yet", str(said)
    assert said.judge in ("budget", "compiler") or said.headline in (golf.ABOVE_PAR, golf.NO_SCORE), str(said)


def test_a_file_from_before_there_was_golf_is_read():
    old = {"outcome": "passed", "passed_on": "2026-01-02", "attempts": 4, "hints": 1, "assessed": ""}
    found = record._understood(json.loads(json.dumps({"format": 1, "exercises": {"01.1": old}})))
    assert found == {"01.1": record.Entry(**old, best=0)}


@pytest.mark.parametrize("best", [-1, 1.5, "7", None, True])
def test_a_best_score_that_cannot_be_is_damage(best):
    with pytest.raises(ValueError):
        record._understood({"format": 1, "exercises": {"01.11": {"best": best}}})
