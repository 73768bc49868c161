"""Projects: the order of their stages, what each says, what the record keeps, and the report."""

import dataclasses
import json
import os
import re
import threading

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental.pallas import tpu as pltpu
from sweeps import daily
from tiny_kernels import decay, decayed, mean_rows, means
from tiny_projects import a_project, another_project, f32

from course_lib import checks, compiler
from course_lib.checks import checking, projects, record
from course_lib.checks.kinds import golf, project
from course_lib.checks.kinds.project import Ideal, Project
from course_lib.checks.result import passed
from course_lib.checks.stages import log, own_test, pages, prediction, tuned_table, whole
from course_lib.grading.box import hidden, inside, judging, pipes, values

COMPARED = "That is 20 us; you predicted 3 us; the ideal is 639 ns; XLA takes 1 ms, by its bytes."
PREDICTION = ("3 us", "HBM")
TABLE = {("v5e", (256, 256)): {"bt": 64}, ("v5e", (128, 512)): {"bt": 128}}


def good_test(fn):
    """A test of ``decay`` that finds everything."""
    x = jnp.sin(jnp.arange(24.0 * 128)).reshape(24, 128) * 100
    np.testing.assert_allclose(fn(x), decayed(x), rtol=1e-5, atol=1e-4)


def good_test_of_means(fn):
    x = jnp.sin(jnp.arange(13.0 * 300)).reshape(13, 300)
    np.testing.assert_allclose(fn(x), means(x), rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def a_notebook_s_settings(monkeypatch):
    monkeypatch.setattr(record, "_memory", {})
    monkeypatch.setattr(golf, "ours", lambda id: 25_000)
    checks.start()
    yield
    pltpu.set_tpu_interpret_mode(None)


@pytest.fixture
def scored(monkeypatch):
    """The judges agree, and the score is what the test says; par is 60,000 cycles."""

    def set(cycles, **more):
        report = compiler.Report(
            name="decay", chip="v5e", ok=True, cycles=cycles, vmem_bytes=1 << 20, vmem_limit=16 << 20,
            hbm_bytes=524_288, time_split={"DMA wait": cycles // 2, "VPU": cycles // 4}, **more,
        )  # fmt: skip
        said = passed("18.1", "numbers, simulator, races and compiler agree.")
        monkeypatch.setattr(golf.kernel, "result", lambda task, defined: said)
        monkeypatch.setattr(compiler, "compile_tpu", lambda *args, **how: report)

    return set


# The prediction


@pytest.mark.parametrize(
    "given, says",
    [
        (None, 'not attempted.\nNext: write decay_prediction = ("12 us", "HBM")'),
        ("3 us", "not yet: it is not a pair"),
        (("3 KiB", "HBM"), "'3 KiB' has no unit of time: s, ms, us or ns."),
        (("fast", "HBM"), "not yet: its time cannot be read"),
        (("0 us", "HBM"), "not yet: its time is none"),
        (("3 us", "luck"), "not yet: what binds is not known"),
        (("3 us", 5), "not yet: what binds is not known"),
        (("3 us", "hbm"), "passed: 3 us, bound by HBM; it is kept with the hash"),
        (["0.003 ms", "compute"], "passed: 3 us, bound by the core; it is kept"),
        (("3 us", "MXU"), "bound by the core"),
    ],
)
def test_a_prediction_is_a_time_and_what_binds(given, says):
    assert says in str(prediction.result(a_project(), given))


def test_what_a_built_notebook_prints_is_the_same_every_time(monkeypatch):
    monkeypatch.setenv("COURSE_BUILD", "1")
    assert str(prediction.result(a_project(), PREDICTION)) == (
        "18.1 prediction passed: 3 us, bound by HBM; it is kept."
    )


def test_the_last_prediction_before_a_result_counts(scored):
    task = a_project()
    for given in (("9 us", "core"), PREDICTION, PREDICTION):
        assert prediction.result(task, given).passed
    assert [note.said["seconds"] for note in log.notes(task.id)] == [9e-6, pytest.approx(3e-6)], "not twice the same"
    scored(30_000)
    project.result(task, decay)
    later = prediction.result(task, ("20 us", "HBM"))
    assert "The report compares 3 us, which you wrote before the result." in str(later)
    assert log.first_prediction(task.id).said["seconds"] == pytest.approx(3e-6)


def test_a_refusal_shows_no_result_so_a_prediction_may_still_change(monkeypatch):
    task = a_project()
    prediction.result(task, ("9 us", "core"))
    refused = dataclasses.replace(passed(task.id, ""), outcome="not yet", headline="the numbers judge refused it.")
    monkeypatch.setattr(golf.kernel, "result", lambda task, defined: refused)
    project.result(task, decay)
    prediction.result(task, PREDICTION)
    assert log.first_prediction(task.id).said["bound"] == "HBM"


def test_nothing_is_judged_before_a_prediction():
    said = project.result(a_project(), decay)
    assert said.outcome == "not yet" and said.headline == project.FIRST
    assert 'checks.predict("18.1", decay_prediction)' in said.next
    assert project.result(a_project(), None).outcome == "not attempted"
    assert log.notes("18.1") == []


# The check


def test_a_kernel_alone_is_not_the_whole_project(scored):
    task = a_project()
    prediction.result(task, PREDICTION)
    scored(30_000)
    said = project.result(task, decay)
    assert said.outcome == "not yet" and said.headline == project.LEFT and said.score == 30_000
    assert COMPARED in said.message
    assert 'checks.planted("18.1", decay, test_decay)' in said.next
    assert 'checks.tuned("18.1", decay, decay_table)' in said.next


def test_the_project_passes_when_all_stages_have(scored, monkeypatch):
    task = a_project()
    prediction.result(task, PREDICTION)
    scored(30_000)
    assert own_test.result(task, decay, good_test).passed
    assert tuned_table.result(task, decay, TABLE).passed
    said = project.result(task, decay)
    line = "18.1 passed: 30,000 cycles, predicted (compiler); par 60,000, ours 25,000."
    assert str(said) == f"{line}\n{COMPARED}"
    monkeypatch.setenv("COURSE_GRADING", "1")
    assert str(project.result(task, decay)) == line, "a grader reads the last line"


def test_above_par_is_golf_s_verdict_and_is_logged(scored):
    task = a_project()
    prediction.result(task, PREDICTION)
    scored(70_000)
    said = project.result(task, decay)
    assert said.headline == golf.ABOVE_PAR and "That is 46.6 us; you predicted 3 us" in said.message
    (note,) = [note for note in log.notes(task.id) if note.what == log.CHECKED]
    assert (
        note.said["score"] == 70_000
        and note.said["bound"] == "waiting for copies"
        and note.said["vmem_bytes"] == 1 << 20
    )


@needs_libtpu
def test_a_tiny_project_from_end_to_end(capsys, monkeypatch):
    """With nothing replaced: the judges, the compiler, the planted bugs and the table."""
    task = another_project()
    for module in (projects, checking):
        monkeypatch.setattr(module, "exercise", lambda id: task)
    monkeypatch.setattr("course_lib.checks.help.exercise", lambda id: task)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with monkeypatch.context() as inner:
        inner.setattr(record, "recording", lambda: False)
        checks.predict(task.id, ("2 us", "HBM"))
        assert checks.planted(task.id, mean_rows, good_test_of_means).passed
        assert checks.tuned(task.id, mean_rows, {("v5e", (256, 1000)): {"bm": 64, "bn": 512}}).passed
        said = checks.check(task.id, mean_rows)
        shown = checks.report(task.id)
    assert said.passed and said.score < task.golf.par
    printed = capsys.readouterr().out
    assert "18.2 prediction passed: 2 us, bound by HBM" in printed
    assert "18.2 test passed: it finds all 3 planted bugs: mask off by one; initialization; index map." in printed
    assert "18.2 table passed: its shape compiles." in printed
    assert shown.attempts and shown.table and len(shown.planted) == 3


# The learner's own test


@pytest.mark.parametrize(
    "test, says",
    [
        (None, "not attempted.\nNext: write test_decay(fn)"),
        (lambda fn: None, "not attempted"),
        (5, "not yet: it is not a function"),
        (good_test, "passed: it finds all 3 planted bugs: initialization; index map; loop."),
        (
            lambda fn: bool(jnp.allclose(fn(jnp.ones((16, 128))), decayed(jnp.ones((16, 128))))),
            "not yet: it finds 2 of 3",
        ),
    ],
)
def test_a_test_is_tested(test, says):
    assert says in str(own_test.result(a_project(), decay, test))


def test_the_bug_that_survives_is_named():
    def sloppy(fn):
        x = jnp.ones((8, 256))  # no edge, no tail
        np.testing.assert_allclose(fn(x), means(x))

    said = own_test.result(another_project(), mean_rows, sloppy)
    assert said.outcome == "not yet" and "1 of 3 planted bugs" in said.headline or "2 of 3" in said.headline
    assert "It passes although a mask that compares positions lets one position too many through" in said.message
    assert re.search(r"That shows with arguments of float32\[13,300\]\.", said.message)
    assert "a size that is no multiple of the block" in said.next
    assert project.missing(another_project()).startswith("checks.planted"), "it does not count as found"


def test_a_test_that_fails_for_a_right_kernel():
    def never(fn):
        raise AssertionError("no kernel is good enough")

    said = own_test.result(a_project(), decay, never)
    assert said.headline == "it fails for a kernel that is right."
    assert "AssertionError: no kernel is good enough" in said.message


def test_a_test_cannot_go_by_the_order():
    """The right kernel is asked about twice, among the others, in an order that depends on the grader's seed."""
    seen = []

    def counting(fn):
        seen.append(fn)
        if len(seen) > 1:
            raise AssertionError

    said = own_test.result(a_project(), decay, counting)
    assert said.headline == "it fails for a kernel that is right."
    assert len(seen) == 5
    orders = {tuple(own_test._in_any_order([1, 2, 3, None, None], seed)) for seed in range(20)}
    assert len(orders) > 5


def test_a_wrong_kernel_is_not_planted():
    def wrong(x):
        return decay(2 * x)

    said = own_test.result(a_project(arithmetic_around=True), wrong, good_test)
    assert said.headline == "your kernel is not right yet."
    assert "With arguments of float32[16,128] the kernel itself is wrong" in said.message


def test_what_is_no_kernel_has_no_bugs():
    said = own_test.result(a_project(), decayed, good_test)
    assert said.headline == "no bug could be planted."


# The table


@pytest.mark.parametrize(
    "table, says",
    [
        (None, "not attempted.\nNext: write decay_table = {('v5e', (256, 256)): {...}}"),
        ({}, "not attempted"),
        ([1], "not yet: it is not a dict"),
        ({("v5e", (256, 256)): {"bt": 8}}, "It has no entry for ('v5e', (128, 512))"),
        (TABLE | {("v5e", (256, 256)): 8}, "The entry for ('v5e', (256, 256)) is the number 8."),
        (TABLE | {("v5e", (256, 256)): {"bm": 8}}, "has 'bm', but decay takes x, bt."),
    ],
)
def test_a_table_that_cannot_be_used(table, says):
    assert says in str(tuned_table.result(a_project(), decay, table))


@needs_libtpu
def test_a_table_is_compiled():
    task = a_project()
    assert str(tuned_table.result(task, decay, TABLE)) == "18.1 table passed: all 2 shapes compile."
    rows = log.last(task.id, log.TUNED).said["rows"]
    assert [row["blocks"] for row in rows] == ["bt=64", "bt=128"] and all(row["cycles"] for row in rows)
    said = tuned_table.result(task, decay, TABLE | {("v5e", (128, 512)): {"bt": 12}})
    assert said.headline == "an entry does not compile." and "With bt=12 for ('v5e', (128, 512))" in said.message


# The log


def test_a_changed_log_shows(scored):
    task = a_project()
    prediction.result(task, PREDICTION)
    scored(30_000)
    project.result(task, decay)
    assert all(note.genuine for note in log.notes(task.id))
    record._memory[task.id].log[0]["said"]["seconds"] = 20e-6
    assert [note.genuine for note in log.notes(task.id)] == [False, True]
    assert "was changed after it was written" in str(pages.of(task))


def test_an_entry_that_is_taken_out_shows(scored):
    task = a_project()
    for given in (("9 us", "core"), PREDICTION):
        prediction.result(task, given)
    del record._memory[task.id].log[0]
    assert not log.notes(task.id)[0].genuine


@pytest.mark.parametrize("entry", [5, {}, {"what": 1, "on": "", "said": {}, "hash": ""}, {"what": "predicted"}])
def test_a_log_that_somebody_has_edited_is_read_as_far_as_it_can(entry):
    record._memory["18.1"] = record.Entry(log=[entry])
    assert log.notes("18.1") == []
    prediction.result(a_project(), PREDICTION)
    assert [note.what for note in log.notes("18.1")] == [log.PREDICTED]


def test_the_file_has_a_log_for_projects_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "recording", lambda: True)
    prediction.result(a_project(), PREDICTION)
    record.hinted("01.1", 1)
    written = json.loads((tmp_path / record.FILE).read_text())["exercises"]
    assert "log" not in written["01.1"] and written["18.1"]["log"][0]["what"] == "predicted"
    assert log.notes("18.1")[0].genuine


# The report


def whole_report(task, scored):
    prediction.result(task, PREDICTION)
    scored(30_000)
    project.result(task, decay)
    own_test.result(task, decay, good_test)
    tuned_table.result(task, decay, TABLE)
    project.result(task, decay)


def test_the_report_has_everything(scored):
    task = a_project()
    whole_report(task, scored)
    said = str(pages.of(task))
    for part in (
        "18.1 A decaying sum", "Return h[t] = h[t - 1] / 2 + x[t] for each column, in float32.",
        "Scored on a v5e with float32[256, 256].", "the ideal", "your prediction", "3 us", "your kernel", "20 us",
        "our kernel", "par", "XLA", "by its bytes", "1 MiB of 16 MiB of VMEM",
        "It is bound by", "found", "a loop ends one iteration too early", "256 x 256", "bt=64", "has the hash",
    ):  # fmt: skip
        assert part in said, part


def test_the_report_is_two_pages_of_html_without_scripts():
    task = a_project(title="A <b>decaying</b> sum")
    log.add(task.id, log.TESTED, {"planted": {"<i>it</i> is rounded": True}, "passed": True})
    page = pages.of(task).page()
    assert page.count('class="sheet"') == 2 and "<script" not in page and "default-src 'none'" in page
    assert "A &lt;b&gt;decaying&lt;/b&gt; sum" in page and "&lt;i&gt;it&lt;/i&gt; is rounded" in page
    assert pages.of(task)._repr_html_().count('class="sheet"') == 2


def test_a_report_before_anything_is_done():
    said = str(pages.of(a_project()))
    assert "There is no result yet." in said and "Nothing is recorded yet." in said and "none yet" in said


def test_of_many_attempts_the_first_and_the_best_are_shown(scored):
    task = a_project()
    prediction.result(task, PREDICTION)
    for cycles in (50_000, 90_000, 20_000, *[40_000] * 20):
        scored(cycles)
        project.result(task, decay)
    shown = pages.of(task)
    assert len(shown.attempts) <= pages.MOST_ATTEMPTS and shown.attempts_left_out == 23 - len(shown.attempts)
    assert [row[0] for row in shown.attempts][:2] == ["1", "3"] and shown.attempts[-1][0] == "23"


def test_the_report_is_saved_beside_the_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "recording", lambda: True)
    shown = pages.saved(a_project())
    assert shown.file == tmp_path / "project_18.1.html"
    assert shown.file.read_text() == shown.page() and "Saved as project_18.1.html." in str(shown)


# Golf


def test_one_s_own_scores_beside_par_and_ours(capsys):
    checks.golf()
    assert "You have no score yet" in capsys.readouterr().out
    record.attempted("01.11", "passed", 147_456)
    checks.golf()
    said = capsys.readouterr().out
    assert re.search(r"^01\.11 .* 147,456 +160,000 +25,000 +bytes$", said, re.M)
    assert "You have a score in 1 of" in said


# Declarations


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"project": None}, "project is None; for the kind project, and for no other"),
        ({"golf": None}, "golf is None"),
        ({"golf": golf.Golf(unit="cycles", par=5)}, "golf has no at"),
        ({"golf": golf.Golf(unit="bytes", par=5)}, "golf has no at"),
        ({"kind": "write", "golf": None}, "project is Project"),
    ],
)
def test_a_declaration_that_contradicts_itself(changed, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        a_project(**changed)


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"planted": 4}, "planted is 4; it may be 0 to 3"),
        ({"xla_s": 0}, "xla_s is 0"),
        ({"xla_by": "magic"}, "xla_by is 'magic'"),
        ({"shapes": [f32]}, "shapes is"),
    ],
)
def test_a_project_that_cannot_be(changed, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        Project(**{"ideal": None} | changed)


def test_the_ideal_is_the_longer_of_work_and_bytes():
    one = Ideal(flops=197_000_000, vector_ops=4096, hbm_bytes=819_000_000)
    assert one.seconds("v5e") == pytest.approx(1e-3, rel=0.02) and one.bound() == "HBM"
    assert one.cycles() == pytest.approx(1_500_000, rel=0.02)
    work = Ideal(flops=197_000_000)
    assert work.bound() == "core" and dataclasses.replace(work, int8=True).seconds() < work.seconds()
    assert Ideal(vector_ops=4096 * 1000).cycles() == pytest.approx(1000, abs=1), "four slots of 1,024 elements"


@pytest.mark.parametrize(
    "given, says", [({"flops": -1}, "flops is -1"), ({"hbm_bytes": 1.5}, "hbm_bytes is 1.5"), ({}, "are all 0")]
)
def test_an_ideal_that_cannot_be(given, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        Ideal(**given)


def test_a_stage_of_what_is_no_project():
    with pytest.raises(ValueError, match=r"01\.1 is no project"):
        checks.predict("01.1", PREDICTION)


def test_a_stage_raises_nothing_under_a_grader(monkeypatch):
    monkeypatch.setattr(projects, "exercise", lambda id: a_project())
    monkeypatch.setattr(projects, "next_hint", lambda id: "")
    monkeypatch.setenv("COURSE_GRADING", "1")
    assert checks.predict("18.1", "3 us").outcome == "not yet"


# In the grader's box

ANSWER = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def decay_kernel(x_ref, o_ref, h_ref):
    @pl.when(pl.program_id(0) == 0)
    def _begin():
        h_ref[...] = jnp.zeros_like(h_ref)

    def row(t, h):
        h = 0.5 * h + x_ref[pl.ds(t, 1), :]
        o_ref[pl.ds(t, 1), :] = h
        return h

    h_ref[...] = lax.fori_loop(0, x_ref.shape[0], row, h_ref[...])

def decay(x, bt=8):
    block = pl.BlockSpec((bt, x.shape[1]), lambda t: (t, 0))
    return pl.pallas_call(
        decay_kernel, grid=(x.shape[0] // bt,), in_specs=[block], out_specs=block, out_shape=x,
        scratch_shapes=[pltpu.VMEM((1, x.shape[1]), jnp.float32)],
    )(x)

decay_prediction = ("3 us", "HBM")
decay_table = {("v5e", (256, 256)): {"bt": 64}, ("v5e", (128, 512)): {"bt": 128}}

def test_decay(fn):
    x = jnp.arange(16.0 * 128).reshape(16, 128)
    h, rows = np.zeros(128, np.float32), []
    for row in np.asarray(x):
        h = 0.5 * h + row
        rows.append(h)
    np.testing.assert_allclose(fn(x), np.stack(rows), rtol=1e-5)
"""
DERIVED = (
    ANSWER.replace("def decay(x, bt=8):", "def plain(x, bt):")
    + """
@jax.custom_vjp
def in_eights(x):
    return plain(x, 8)

in_eights.defvjp(lambda x: (plain(x, 8), None), lambda kept, g: (g,))

def decay(x, bt=8):
    return in_eights(x) if bt == 8 else plain(x, bt)
"""
)
SLOPPY = ANSWER + "\ndef test_decay(fn):\n    assert fn(jnp.ones((8, 128))).shape == (8, 128)\n"


def in_the_box(task, source):
    """Judge an answer as the grader does: a box that serves over pipes, in a thread, and a judge that asks it."""
    to_box, from_box = os.pipe(), os.pipe()
    box = inside.Box(to_box[0], from_box[1])
    threading.Thread(target=box.serve, daemon=True).start()

    def ask(request):
        pipes.blocking_send(to_box[1], values.dumps(request))
        return values.loads(pipes.blocking_receive(from_box[0]))

    assert ask(["run", source]) == ["ok"]
    try:
        return judging.judged(hidden.task(task, 7), ask)
    finally:
        os.close(to_box[1])


IN_THE_BOX = {
    "right": (ANSWER, "passed", "18.1 passed: "),
    "a derivative of its own": (DERIVED, "passed", "18.1 passed: "),
    "a sloppy test": (SLOPPY, "not yet", "18.1 test not yet: it finds 0 of 3 planted bugs."),
    "no table": (ANSWER.replace("decay_table", "another"), "not yet", "18.1 table not attempted"),
    "no prediction": (ANSWER.replace("decay_prediction", "another"), "not yet", project.FIRST),
    "wrong": (ANSWER.replace("0.5 * h + x_ref", "0.4 * h + x_ref"), "not yet", "the numbers judge refused it"),
}


@needs_libtpu
@pytest.mark.parametrize("name", daily("right", "no prediction", of=IN_THE_BOX))
def test_all_stages_count_in_the_box(name):
    source, outcome, says = IN_THE_BOX[name]
    text, got, score = in_the_box(a_project(), source)
    assert got == outcome and says in text, text
    assert score.startswith("18.1 score: ") == (outcome == "passed" or "test not yet" in text or "table" in text)


def test_the_names_of_the_parts():
    assert whole.names_of(a_project()) == ("decay_prediction", "test_decay", "decay_table")
