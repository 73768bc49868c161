"""What the tests of exercises for other machines share: an answer in the grader's box, and a script of answers."""

import functools
import json
import os
import pathlib
import subprocess
import sys

from course_lib.grading.box import inside, judging, values

TESTS = pathlib.Path(__file__).resolve().parent


def in_the_box(task, source, names):
    """Run an answer as the box does, with ``names`` defined, and judge what it hands out."""
    box = inside.Box(0, 0)
    box.names |= names

    def ask(request):
        return values.loads(values.dumps(box.answer(request[0], request[1:])))

    assert ask(["run", source]) == ["ok"]
    return judging.judged(task, ask)


@functools.cache
def said(script):
    """Run a script of this folder, and return {answer: what the check says, and then what the box's judge says}.

    It runs in a process of its own, because it needs other devices or settings. Each of its lines is
    [name, check, box, outcome, score], as JSON.
    """
    path = os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    out = subprocess.run([sys.executable, TESTS / script], capture_output=True, text=True, env=env)
    assert out.returncode == 0, out.stderr[-3000:]
    lines = [line for line in out.stdout.splitlines() if line.startswith("[")]
    return {name: (check, *box) for name, check, *box in map(json.loads, lines)}
