"""``python -m course_lib.judges``: the four judges for a kernel in any file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_libtpu

from course_lib import judges
from course_lib.judges import __main__ as command

FILE = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

def double(x):
    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]
    return pl.pallas_call(double_kernel, out_shape=x)(x)

def plain(x):
    return x + x

def off(x):
    return double(x) + (jnp.arange(x.shape[0]) == 7)[:, None]

def around(tree):                      # two kernels, arithmetic around them, a tree of arguments
    return {"sum": double(tree["x"]) + double(tree["y"]) / 2}

def around_plain(tree):
    return {"sum": 2 * tree["x"] + tree["y"]}

def gathered(rows, x):                 # scalar prefetch: rows of x in an order of its own
    def gathered_kernel(rows_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(rows.size,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, rows_ref: (rows_ref[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, rows_ref: (i, 0)),
    )
    return pl.pallas_call(
        gathered_kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((8 * rows.size, 128), x.dtype))(rows, x)

def gathered_plain(rows, x):
    return np.asarray(x).reshape(-1, 8, 128)[np.asarray(rows)].reshape(-1, 128)

def tree():
    return ({"x": jax.ShapeDtypeStruct((16, 128), jnp.float32), "y": jnp.ones((16, 128))},)

def order():
    return jnp.array([2, 0, 2, 1], jnp.int32), jax.ShapeDtypeStruct((24, 128), jnp.float32)

def sent(x):                           # to the only device of a mesh, which is itself
    def sent_kernel(x_ref, o_ref, send_sem, recv_sem):
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, device_id={"d": 0})
        copy.start()
        copy.wait()
    def on_one(x):
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            sent_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[hbm], out_specs=hbm,
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2)(x)
    return jax.shard_map(on_one, in_specs=P("d"), out_specs=P("d"), check_vma=False)(x)

def same(x):
    return x

def failing(x):
    raise RuntimeError("no such thing")

def listed():
    return 3
"""


@pytest.fixture
def asked(tmp_path, capsys):
    """A function that runs the command on functions of FILE: (status, what it printed, its error)."""
    file = tmp_path / "kernels.py"
    file.write_text(FILE)

    def run(fn, *arguments, reference="plain"):
        arguments = [f"{file}:{a.removeprefix(':')}" if a.startswith(":") else a for a in arguments]
        status = command.main([f"{file}:{fn}", "--reference", f"{file}:{reference}", *arguments])
        return status, *capsys.readouterr()

    return run


@needs_libtpu
@pytest.mark.parametrize(
    "arguments, options",
    [
        (("double", "f32[16,128]"), {}),
        (("around", "--arguments", ":tree"), {"reference": "around_plain"}),
        (("gathered", "--arguments", ":order"), {"reference": "gathered_plain"}),
    ],
    ids=["one kernel", "two, and a tree", "prefetched"],
)
def test_a_right_kernel_of_any_style_passes_and_is_reported(asked, arguments, options):
    status, said, error = asked(*arguments, **options)
    assert (status, error) == (0, "")
    assert [line for line in said.splitlines()[:4]] == [f"{name}: passed" for name in judges.JUDGES]
    assert f"{arguments[0]} for v5e: compiles" in said


def test_a_wrong_one_is_refused_with_a_sentence(asked):
    status, said, _ = asked("off", "f32[16,128]")
    assert status == 1 and "numbers: refused" in said and "[7, 0]" in said and "simulator" not in said


def test_with_a_mesh_the_judges_of_many_chips_are_asked(asked):
    options = "f32[16,128]", "--mesh", "d=1", "--specs", "d", "--topology", "v5e:1x1"
    status, said, error = asked("sent", *options, reference="same")
    assert (status, error) == (0, "") and said.startswith("protocol: passed\nnumbers: passed\ncompiler: ")
    assert "schedule: passed" in said
    status, said, _ = asked("sent", *options)
    assert status == 1 and "numbers: refused" in said and "on device 0" in said


@needs_libtpu
def test_a_budget_is_asked_last(asked):
    status, said, _ = asked("double", "f32[16,128]", "--budget", "spills=0,cycles=10")
    assert status == 1 and "compiler: passed\nbudget: refused. Predicted (compiler): it takes" in said
    assert asked("double", "f32[16,128]", "--budget", "spills=0,hbm_bytes=16_384")[0] == 0


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("double", "f32[16,"), "is not a type"),
        (("double", "f32[16,128]", "f32[2]"), "was given 2 arguments"),
        (("none", "f32[2]"), "has no function 'none'"),
        (("double", "f32[16,128]", "--chip", "h100"), "Choose one of: v4"),
        (("double", "f32[16,128]", "--budget", "cykles=3"), "'cykles' is not a limit"),
        (("double", "f32[16,128]", "--budget", "cycles=many"), "'many' is not a number"),
        (("double", "f32[2]", "--arguments", ":tree"), "not both"),
        (("double", "f32[8,128]", "--specs", "d"), "for kernels on several chips: give --mesh d=4 too"),
        (("double", "f32[8,128]", "--mesh", "four"), "'four' is not an axis and its number of chips"),
        (("double", "f32[8,128]", "--mesh", "d=1", "--specs", "e"), "'e' is no axis of the mesh. There are: d, and"),
        (("double", "f32[8,128]", "--mesh", "d=1", "--specs", "d;d"), "--specs has 2 of 1 arguments"),
        (("double", "f32[8,128]", "--mesh", "d=1", "--budget", "cycles=1"), "--budget is for kernels of one chip"),
        (("double", "--arguments", ":failing"), "does not run: TypeError"),
        (("double", "--arguments", ":listed"), "must return the arguments in a tuple; it returned int"),
    ],
)
def test_what_cannot_be_asked_is_one_line(asked, arguments, said):
    status, out, error = asked(*arguments)
    assert (status, out, error.count("\n")) == (2, "", 1) and said in error


def test_a_reference_that_does_not_run_is_not_the_kernels_fault(asked):
    status, _, error = asked("double", "f32[16,128]", reference="failing")
    assert status == 2 and "the reference cannot be run with these arguments. RuntimeError: no such thing" in error


def test_numbers_are_drawn_the_same_each_time():
    types = {"f": jax.ShapeDtypeStruct((1000,), jnp.bfloat16), "i": jax.ShapeDtypeStruct((1000,), jnp.int8)}
    first, again, other = judges.drawn(types), judges.drawn(types), judges.drawn(types, seed=1)
    assert all(np.array_equal(first[k], again[k]) and not np.array_equal(first[k], other[k]) for k in types)
    assert first["f"].dtype == jnp.bfloat16 and abs(float(first["f"].mean())) < 0.2 and float(first["f"].max()) > 2
    assert set(np.unique(first["i"])) == set(range(8))
    assert set(map(bool, judges.drawn(jax.ShapeDtypeStruct((64,), bool)))) == {True, False}
    assert np.array_equal(judges.drawn(np.ones(3)), np.ones(3)), "an array stays as it is"
