"""Malformed notebooks and malformed programs: each is refused with a sentence, and nothing else is raised."""

import copy
import json
import pathlib
import random

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid
from course_lib.grading.box import calls, reading, values, writing
from course_lib.grading.grade import grade

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTEBOOK = json.loads((ROOT / "exercises/01_hello_kernel.ipynb").read_text())
STRANGE = (
    None,
    True,
    -1,
    2**80,
    1.5,
    "",
    "x" * 1000,
    "\x00\ud800",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    [1, {}],
    "01-1",
    "code",
)


def mutated(node, rng, changes=3):
    """The same with a few places in it changed for something else, taken out, or doubled."""
    node = copy.deepcopy(node)
    for _ in range(changes):
        place = node
        while isinstance(place, list | dict) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = rng.choice(list(keys))
            if not isinstance(place[key], list | dict) or not place[key] or rng.random() < 0.15:
                match rng.choice(("change", "drop", "double")):
                    case "change":
                        place[key] = copy.deepcopy(rng.choice(STRANGE))
                    case "drop":
                        del place[key]
                    case "double" if isinstance(place, list):
                        place.insert(key, copy.deepcopy(place[key]))
                break
            place = place[key]
    return node


def broken(data: bytes, rng) -> bytes:
    """Bytes cut off, flipped, or put in twice."""
    at, length = rng.randrange(len(data)), rng.randrange(1, 50)
    match rng.choice(("cut", "flip", "double", "nest")):
        case "cut":
            return data[:at]
        case "flip":
            return data[:at] + bytes(rng.randrange(256) for _ in range(length)) + data[at + length :]
        case "double":
            return data[: at + length] + data[at:]
        case _:
            return data[:at] + b"[" * 100_000 + data[at:]


def test_two_hundred_malformed_notebooks_have_a_line_each(tmp_path):
    rng = random.Random(1)
    outcomes = set()
    for number in range(200):
        data = json.dumps(mutated(NOTEBOOK, rng, changes=rng.randrange(1, 200))).encode()
        path = tmp_path / f"{number}.ipynb"
        path.write_bytes(broken(data, rng) if number % 2 else data)
        graded = grade(path, rows_of=lambda course, submitted, seconds: [])
        assert graded.error.isprintable() and len(graded.error) < 400
        assert bool(graded.error) != bool(graded.lesson)
        outcomes.add(bool(graded.error))
    assert outcomes == {True, False}, "some can be read, and some cannot"


def programs():
    """Programs with a grid, scratch, a loop, a branch, and a derivative of their own."""

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def first():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jax.lax.fori_loop(0, 3, lambda i, v: v * 2, x_ref[...])

    def summed(x):
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        whole = pl.BlockSpec((8, 128), lambda i: (0, 0))
        out = jax.ShapeDtypeStruct((8, 128), x.dtype)
        return pl.pallas_call(kernel, grid=(2,), in_specs=[block], out_specs=whole, out_shape=out)(x)

    @jax.custom_vjp
    def derived(x):
        return summed(x) * 2

    derived.defvjp(lambda x: (derived(x), x), lambda x, g: (jnp.concatenate([g, g]) * x,))
    return summed, derived, lambda x: jax.nn.relu(summed(x))


X = jax.ShapeDtypeStruct((16, 128), jnp.float32)


def written(fn):
    return values.loads(values.dumps(writing.program(grid.trace(fn, X))))


@pytest.mark.parametrize("number", range(3))
def test_a_program_comes_back_as_it_was(number):
    fn = programs()[number]
    read = reading.program(written(fn))
    x = jax.random.normal(jax.random.key(0), X.shape)
    run = grid.run(grid.trace(fn, X), True, x), grid.run(grid.trace(read, X), True, x)
    assert (run[0][0] == run[1][0]).all()


def test_a_derivative_comes_along():
    derived = programs()[1]
    _, node, _ = calls.answered(derived, (X,), {}, "v5e", None)
    read = reading.program(values.loads(values.dumps(node)))
    x = jax.random.normal(jax.random.key(1), X.shape)
    with pltpu.force_tpu_interpret_mode():
        ours, its = (jax.grad(lambda x, f=f: jnp.sum(f(x)))(x) for f in (derived, lambda x: read(x)[0]))
    assert (ours == its).all()


@pytest.mark.parametrize("number", range(3))
def test_malformed_programs_are_damaged_or_typed_anew(number):
    node, rng, read = written(programs()[number]), random.Random(number), 0
    for _ in range(60):
        changed = mutated(node, rng)
        try:
            program = reading.program(values.loads(values.dumps(changed)))
        except values.Damaged as damaged:
            assert str(damaged).isprintable() or "\n" in str(damaged)
            continue
        read += 1
        try:
            jax.make_jaxpr(program)(X)
        except Exception as error:  # whatever JAX says of it, it says it as an exception
            assert not isinstance(error, MemoryError)
    assert read < 60, "no change was noticed"


@pytest.mark.parametrize(
    "equation",
    [
        ["ffi_call", [0], [], [], [["target_name", "system"]]],
        ["pure_callback", [0], [], [], []],
        ["add", [0, 7], [["type", [8], ["dtype", "float32"], False]], [], []],
        ["add", [0, 0], [], [], [["x", ["object", "subprocess.Popen", []]]]],
        ["add", [0, 0], [], [], [["x", ["object", "builtins.eval", []]]]],
        ["nothing", [0], [], [], []],
    ],
)
def test_what_no_program_may_do_is_refused(equation):
    node = ["jaxpr", [["type", [8], ["dtype", "float32"], False]], [], [equation], [0], [], ["jit", "f", None]]
    with pytest.raises(values.Damaged):
        reading.program(node)


def test_what_calls_back_into_python_does_not_leave_the_box():
    def sends(x):
        return jax.pure_callback(lambda x: x, X, x)

    with pytest.raises(values.Unportable, match="pure_callback"):
        writing.program(jax.make_jaxpr(sends)(X))
