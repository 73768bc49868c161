"""Grading in a closed box: honest work has its marks, and no attack has any; what the person at the keyboard sees."""

import dataclasses
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from attacks import ATTACKS, SLOW
from graded_class import make
from lesson_files import LESSONS, answers, mutants
from sweeps import daily

from course_lib.checks import exercise
from course_lib.grading import submission
from course_lib.grading.box import bwrap, process, values
from course_lib.grading.box import hidden as hidden_inputs
from course_lib.grading.box.grader import Grader
from course_lib.grading.box.limits import STUDENT
from course_lib.grading.graft import course_notebook

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMPTY = ROOT / "exercises/01_hello_kernel.ipynb"
SOLVED = ROOT / "solutions/01_hello_kernel.ipynb"
# Our answers to a function, a layer, a number, a listing, an explanation and a score. All of them: in make test-all.
KINDS = {"01.1", "01.3", "01.6", "01.7", "01.9", "01.11"}
OF_EACH_KIND = [("", id.replace(".", "-"), source) for id, source in answers("01_hello_kernel").items() if id in KINDS]
SECONDS = 60.0  # for one cell: on a busy machine JAX takes its time
SHORT = 10.0  # for attacks that use all of it

boxed = pytest.mark.skipif(bool(bwrap.problem()), reason=bwrap.problem() or "there is a box")


@pytest.fixture(scope="module")
def grader():
    grader = Grader(1, seed=20261123)
    yield grader
    grader.end()


def rows(grader, tmp_path, notebook, seconds=SECONDS):
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(notebook))
    submitted = submission.read(path)
    return {row.id: row for row in grader.rows(course_notebook(submitted), submitted, seconds)}


def answered(*attacks, path=EMPTY):
    notebook = json.loads(path.read_text())
    for _, name, source in attacks:
        next(c for c in notebook["cells"] if c["id"] == name)["source"] = source
    return notebook


@boxed
def test_our_solutions_pass_and_blanks_are_not_attempted(grader, tmp_path):
    solved = rows(grader, tmp_path, answered(*OF_EACH_KIND))
    assert {id for id, row in solved.items() if row.outcome == "passed"} == KINDS
    assert {row.outcome for id, row in solved.items() if id not in KINDS} == {"not attempted"}
    assert solved["01.11"].score == solved["01.11"].ours
    given = grader.verdicts.given
    again = rows(grader, tmp_path, answered(*OF_EACH_KIND))
    assert grader.verdicts.given == given, "what says the same is judged once"
    assert [row.outcome for row in again.values()] == [row.outcome for row in solved.values()]
    blank = rows(grader, tmp_path, json.loads(EMPTY.read_text()))
    assert {row.outcome for row in blank.values()} == {"not attempted"}


@boxed
@pytest.mark.sweep
@pytest.mark.parametrize("stem", LESSONS)
def test_every_solution_of_the_course_passes_in_a_box(grader, tmp_path, stem):
    found = rows(grader, tmp_path, json.loads((ROOT / f"solutions/{stem}.ipynb").read_text()), 600.0)
    assert {id: row.message for id, row in found.items() if row.outcome != "passed"} == {}


def wrong_everywhere(stem, number):
    """Our solution of a lesson, each exercise of which has its mutant of that number, and the names of these."""
    notebook, wrong = json.loads((ROOT / f"solutions/{stem}.ipynb").read_text()), {}
    for answer in [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]:
        id = answer["id"].replace("-", ".")
        if mutant := [cell for cell in mutants(stem) if cell.metadata["answer"] == id][number : number + 1]:
            answer["source"], wrong[id] = mutant[0].source, mutant[0].metadata["name"]
    return notebook, wrong


@boxed
@pytest.mark.sweep(one_in=6)
@pytest.mark.parametrize("stem, number", [(stem, number) for stem in LESSONS for number in range(6)])
def test_no_mutant_of_the_course_passes_in_a_box(grader, tmp_path, stem, number):
    notebook, wrong = wrong_everywhere(stem, number)
    found = rows(grader, tmp_path, notebook, 300.0)
    assert wrong or number > 2
    assert {name: found[id].message for id, name in wrong.items() if found[id].outcome != "not yet"} == {}


def together(attacks):
    """Notebooks with as many attacks as there are cells for: those that run before must not help those after."""
    groups = []
    for attack in attacks:
        for group in groups:
            if attack[1] not in [other[1] for other in group]:
                group.append(attack)
                break
        else:
            groups.append([attack])
    return groups


QUICK = together([attack for attack in ATTACKS if attack[0] not in SLOW])
LASTING = together([attack for attack in ATTACKS if attack[0] in SLOW])


@boxed
@pytest.mark.parametrize("number", daily(0, of=range(len(QUICK))))
def test_no_attack_has_a_mark(grader, tmp_path, number):
    assert_no_mark(rows(grader, tmp_path, answered(*QUICK[number])), QUICK[number])


@boxed
@pytest.mark.sweep
@pytest.mark.parametrize("number", range(len(LASTING)))
def test_no_attack_that_lasts_has_a_mark(grader, tmp_path, number):
    assert_no_mark(rows(grader, tmp_path, answered(*LASTING[number]), SHORT), LASTING[number])
    honest = rows(grader, tmp_path, json.loads(SOLVED.read_text()))
    assert all(row.outcome == "passed" for row in honest.values()), "the next notebook has lost something"


@boxed
@pytest.mark.sweep(one_in=6)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack[0])
def test_each_attack_alone_has_no_mark(grader, tmp_path, attack):
    assert_no_mark(rows(grader, tmp_path, answered(attack), SHORT), [attack])


def assert_no_mark(found, attacks):
    for name, cell, _ in attacks:
        row = found[cell.replace("-", ".")]
        assert row.points == 0 and row.outcome != "passed", f"{name}: {row.message}"
        assert row.message.isprintable() and len(row.message) <= 400, name
    assert sum(row.points for row in found.values()) == 0
    assert not pathlib.Path("/tmp/pwned").exists()


def test_there_are_forty_attacks_or_more_each_with_a_name_of_its_own():
    assert len({name for name, _, _ in ATTACKS}) == len(ATTACKS) >= 40
    assert {name for name, _, _ in ATTACKS} >= SLOW


@boxed
def test_an_answer_that_takes_the_process_with_it_costs_no_other(grader, tmp_path):
    ends = ("", "01-2", "import os\nos._exit(0)\n")
    found = rows(grader, tmp_path, answered(*OF_EACH_KIND, ends))
    assert found["01.2"].outcome == "error" and "os._exit" in found["01.2"].message
    assert {id for id, row in found.items() if row.outcome == "passed"} == KINDS


WRONG_NAME = """
def add_kernel(x_ref, y_ref, o_ref):
    total = x_ref[...] + y_ref[...]
    o_ref[...] = totl


def add_vectors(x, y):
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)
"""
WRONG_CALL = WRONG_NAME.replace("totl", "total.something()")


@boxed
@pytest.mark.parametrize(
    "source, said",
    [
        (WRONG_NAME, "write total, if that is what you meant."),
        (WRONG_CALL, "look at line 3 of add_kernel: o_ref[...] = total.something()"),
    ],
    ids=["a name that is nearly right", "a line"],
)
def test_the_verdict_says_where_to_look(grader, tmp_path, source, said):
    row = rows(grader, tmp_path, answered(("", "01-1", source)))["01.1"]
    assert row.outcome == "not yet" and said in row.verdict


# Right answers in other words than ours: what JAX and NumPy offer around a kernel, and values of other classes.
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


@boxed
def test_right_answers_in_other_words_have_full_marks(grader, tmp_path):
    words = [("", "01-4", NAMED), ("", "01-7", ENUM), ("", "01-8", TEXT), ("", "01-10", BLEND)]
    found = rows(grader, tmp_path, answered(*words))
    assert {id: found[id].message for id in ("01.4", "01.7", "01.8", "01.10") if found[id].outcome != "passed"} == {}


@pytest.fixture(scope="module")
def box():
    box = process.Process("inside", limits=STUDENT, lessons=False)
    yield box
    box.end()
    assert box.process.poll() is not None


@boxed
def test_a_box_that_has_waited_for_long_is_taken(monkeypatch):
    box = process.Process("inside", limits=STUDENT, lessons=False)
    try:
        assert select.select([box.process.stdout], [], [], SECONDS)[0], "it says that it is there"
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + 10 * process.START_S)
        assert box.ask(["run", "1 + 1"], time.monotonic() + SECONDS) == b'["ok"]'
    finally:
        box.end()


@boxed
@pytest.mark.parametrize(
    "source, said",
    [
        ("import socket\nsocket.create_connection(('1.1.1.1', 53))\n", b"Network is unreachable"),
        ("import os\nassert os.listdir('/course/course_lib/lessons') == []\n", b"ok"),
        ("import os\nassert [n for n in os.listdir('/proc') if n.isdigit()] == ['1', '2']\n", b"ok"),
        ("open('/course/course_lib/text.py', 'a')\n", b"Read-only file system"),
        ("import os\nassert set(os.environ) & {'SECRET', 'USER', 'LOGNAME'} == set()\n", b"ok"),
        ("assert 'PATH' not in open('/proc/1/environ').read().replace('PATH=/usr/bin:/bin', '')\n", b"ok"),
        ("import os\nassert os.getuid() == 1000 and not os.path.exists('/etc/passwd')\n", b"ok"),
        ("with open('/tmp/x', 'wb') as f:\n    while True:\n        f.write(bytes(1 << 20))\n", b"OSError"),
    ],
    ids=["network", "declarations", "processes", "library", "environment", "the caller's", "users", "disk"],
)
def test_a_box_is_closed(box, source, said):
    assert said in box.ask(["run", source], time.monotonic() + SECONDS)


@boxed
@pytest.mark.parametrize(
    "source, said",
    [
        ("%%time\nheld = 1\n%matplotlib inline\n", b"ok"),
        ("assert held == 1\n%time held = 2\n!pip install nothing\nfiles = !ls\n", b"ok"),
        ("assert held == 2 and files == []\nget_ipython().run_line_magic('load_ext', 'autoreload')\n", b"ok"),
        ("%%capture out\nimport math\n%%time\nmath.pi\n", b"ok"),
        ("math?\n", b"ok"),
        ("%%timeit\nheld = 3\n", b"%%timeit defines nothing for the check. Take that line out"),
        ("%%bash\necho\n", b"%%bash defines nothing for the check. Take that line out"),
        ("%%time\nheld = unknown\n", b"NameError"),
    ],
)
def test_magics_are_run_or_ignored_or_named(box, source, said):
    assert said in box.ask(["run", source], time.monotonic() + SECONDS)


@boxed
def test_a_box_has_so_many_processes_and_no_more(box):
    if not any("pids" in str(folder) for folder in box.group.folders):
        pytest.skip("no control group can be made here")
    endless = "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(86399)\n"
    assert b"BlockingIOError" in box.ask(["run", endless], time.monotonic() + SECONDS)


@boxed
def test_too_much_memory_ends_the_box_and_nobody_else():
    box = process.Process("inside", limits=dataclasses.replace(STUDENT, memory_bytes=600 << 20), lessons=False)
    try:
        if not box.group.folders:
            pytest.skip("no control group can be made here")
        with pytest.raises(process.Lost, match="died"):
            box.ask(["run", "held = bytearray(b'x') * (1 << 30)\n"], time.monotonic() + SECONDS)
    finally:
        box.end()


# The command


def grade(*arguments, env=None, **more):
    command = [sys.executable, "-m", "course_lib.grading", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, **more)


def without_bubblewrap(tmp_path):
    (tmp_path / "bin").mkdir()
    return os.environ | {"PATH": str(tmp_path / "bin")}


def test_without_bubblewrap_a_boxed_run_says_what_to_install_and_grades_nothing(tmp_path):
    said = grade("--boxed", EMPTY, "--out", tmp_path / "out", env=without_bubblewrap(tmp_path))
    assert said.returncode == 2 and not (tmp_path / "out").exists()
    if sys.platform == "linux":
        assert said.stderr == f"make grade: bubblewrap (bwrap) is not installed. {bwrap.INSTALL}\n"


def test_where_namespaces_are_forbidden_it_says_so(tmp_path, monkeypatch):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    said = grade("--boxed", EMPTY, "--out", tmp_path / "out", env=os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert said.returncode == 2
    assert "setting up uid map: Permission denied. It needs user namespaces" in said.stderr


@boxed
@pytest.mark.sweep
def test_a_class_killed_in_the_middle_goes_on_where_it_was(tmp_path):
    (tmp_path / "class").mkdir()
    make(tmp_path / "class", 6)
    out, command = tmp_path / "out", [sys.executable, "-m", "course_lib.grading", "--boxed", tmp_path / "class"]
    command += ["--out", out, "--jobs", "1", "--cell-timeout", "60"]
    first = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list((out / ".grading").glob("*.json"))) < 2:
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    records = sorted((out / ".grading").glob("*.json"))
    kept = {record: record.stat().st_mtime_ns for record in records[1:]}
    records[0].write_text(records[0].read_text()[:50])
    second = grade(*command[3:])
    assert re.search(r"6 notebooks, 6 graded", second.stdout)
    assert not (out / ".grading").exists() and kept
    assert len(list(out.glob("s*.json"))) == 6


@boxed
@pytest.mark.sweep
def test_a_class_gets_what_it_should(tmp_path):
    (tmp_path / "class").mkdir()
    expected = make(tmp_path / "class", 60, seed=1)
    grade("--boxed", tmp_path / "class", "--out", tmp_path / "out", "--cell-timeout", "60")
    wrong = []
    for file, must in expected.items():
        graded = json.loads((tmp_path / "out" / file.replace(".ipynb", ".json")).read_text())
        outcomes = {row["id"]: row["outcome"] == "passed" for row in graded["exercises"] if row["max_points"]}
        wrong += [(file, id) for id, passes in must.items() if id in outcomes and outcomes[id] != passes]
    assert wrong == []


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="a disk to fill is made by root")
@boxed
@pytest.mark.sweep
def test_a_full_disk_is_one_line_and_what_is_done_is_kept(tmp_path):
    out = tmp_path / "small"
    out.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(out)]).returncode:
        pytest.skip("no disk can be made here")
    try:
        (out / "fill").write_bytes(b"x" * 40_000)
        said = grade("--boxed", SOLVED, "--out", out)
        assert said.returncode == 2 and "No space left on device" in said.stderr and "Traceback" not in said.stderr
    finally:
        subprocess.run(["umount", str(out)], check=True)


def test_a_hidden_size_is_larger_along_axes_that_may_have_any_length():
    sizes = ({"M": 96, "N": 384}, {"M": 100, "N": 256}, {"M": 20, "N": 128})
    for seed in range(10):
        *others, hidden = hidden_inputs._sizes(sizes, np.random.default_rng(seed))
        assert tuple(others) == sizes[:2]
        assert 20 < hidden["M"] <= 27 and hidden["M"] % 8 and hidden["N"] == 128


def test_arrays_that_are_scored_are_none_that_anybody_has_seen():
    public = exercise.exercise("08.10")
    (seen,), (hidden,) = public.golf.at(), hidden_inputs.task(public, 7).golf.at()
    assert hidden.shape == seen.shape and hidden.dtype == seen.dtype
    assert (np.asarray(hidden) != np.asarray(seen)).any() and sorted(np.ravel(hidden)) == sorted(np.ravel(seen))
    counted = exercise.exercise("02.8")
    ((seen,),), ((hidden,),) = counted.also_at(), hidden_inputs.task(counted, 7).also_at()
    assert hidden.shape == seen.shape and (np.asarray(hidden) != np.asarray(seen)).any()


# What comes out of a box


def test_values_come_back_as_they_were():
    for value in (None, True, 3, 2.5, "text", (1, [2, {"a": (3,)}]), {"k": None}):
        assert values.read(values.loads(values.dumps(values.written(value)))) == value
    array = np.arange(6, dtype=np.int8).reshape(2, 3)
    back = values.read(values.loads(values.dumps(values.written(array))))
    assert back.dtype == array.dtype and (back == array).all()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[" * 100_000, b'["array","float32",[4],"AAAA"]', b'["array","object",[1],"AAAA"]', b'["tuple",1]',
        b'["array","float32",[-1],""]', b'["dict",[[["list",[]],1]]]', b'["object","os.system",[]]', b"\xff\xfe",
        b'["array","float32",[1099511627776],""]', b"1" * 5000, b'["dtype","object"]', b"[[]]", b'[1,2]', b'["number"]',
    ],
)  # fmt: skip
def test_what_is_no_value_is_damaged(data):
    with pytest.raises(values.Damaged):
        values.read(values.loads(data))


def test_lists_that_belong_together_stay_as_they_are_and_sizes_still_add_up():
    """Lesson 15: group and tile of a visit, the bounds of the groups; or sizes, which happen to be in order."""
    rng, x = np.random.default_rng(1), jnp.arange(64.0)
    group, bounds = jnp.array([0, 0, 1, 2], jnp.int32), jnp.array([0, 20, 32, 64], jnp.int32)
    *lists, moved = hidden_inputs._permuted((group, bounds, x), rng)
    assert [list(each) for each in lists] == [list(group), list(bounds)] and (moved != x).any()
    sizes, _ = hidden_inputs._permuted((jnp.array([1, 3, 20, 40], jnp.int32), x), rng)
    assert sorted(sizes.tolist()) == [1, 3, 20, 40]


def test_what_nobody_may_read_stays_where_it_is():
    x = jnp.arange(64.0).at[40:].set(jnp.nan)
    (moved,) = hidden_inputs._permuted((x,), np.random.default_rng(1))
    assert np.isnan(moved[40:]).all() and sorted(moved[:40]) == sorted(x[:40]) and (moved[:40] != x[:40]).any()


def test_the_lists_of_what_is_scored_stay_because_cycles_depend_on_them():
    public = exercise.exercise("15.9")
    seen, hidden = public.golf.at(), hidden_inputs.task(public, 7).golf.at()
    assert [list(np.ravel(leaf)) for leaf in hidden if leaf.dtype == jnp.int32] == [
        list(np.ravel(leaf)) for leaf in seen if leaf.dtype == jnp.int32
    ]


def test_a_hidden_list_stays_sorted_and_has_every_number():
    rng = np.random.default_rng(1)
    rows = jnp.array([0, 0, 1, 1, 1, 3, 3, 3, 3], jnp.int32)
    other, x = hidden_inputs._permuted((rows, jnp.arange(6.0)), rng)
    assert (np.diff(other) >= 0).all() and set(other.tolist()) == {0, 1, 3} and other.tolist() != rows.tolist()
    assert sorted(x.tolist()) == list(range(6)) and x.tolist() != list(range(6))


@boxed
def test_block_specs_and_index_maps_that_read_lists_leave_the_box(grader, tmp_path):
    solved = json.loads((ROOT / "solutions/12_scalar_prefetch.ipynb").read_text())
    for cell in solved["cells"]:
        if re.fullmatch(r"12-\d+", cell["id"]) and cell["id"] != "12-2":
            cell["source"] = "pass"
    found = rows(grader, tmp_path, solved)
    assert found["12.2"].outcome == "passed", found["12.2"].message
