"""Kernels that talk to other chips: every planted mistake is refused by its judge, and no right kernel is."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
import ring_kernels as rings
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from ring_mistakes import MISTAKES, RIGHT

from course_lib import compat, compiler, judges, testing
from course_lib.judges.many_chips import protocol, values
from course_lib.judges.many_chips.record import Event, Record, Semaphore

TESTS = pathlib.Path(__file__).resolve().parent
SMALL = [("matmul_reduce_scatter", "", 2), ("matmul_reduce_scatter", "", 3), ("reduce_scatter", "", 6)]  # no topology


@functools.cache
def said():
    """The verdicts on all cases by (kernel, mistake, devices), each [judge, passed, message, next].

    One process has the devices, and judges all: a second one would start and compile anew.
    """
    cases = [
        *RIGHT,
        *((*case, "v5e:2x2") for case in SMALL),
        *((each.kernel, each.name, 4, "v5e:2x2") for each in MISTAKES),
    ]
    path = os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"JAX_NUM_CPU_DEVICES": "8", "PYTHONPATH": path}
    out = subprocess.run(
        [sys.executable, TESTS / "judged_chips.py"],
        input=json.dumps(cases), capture_output=True, text=True, env=env, timeout=600,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr[-2000:]
    lines = out.stdout.splitlines()
    return {case[:3]: json.loads(line) for case, line in zip(cases, lines, strict=True)}


def test_right_kernels_pass_every_judge():
    for case in RIGHT:
        verdicts = {judge: (passed, message) for judge, passed, message, _ in said()[case[:3]]}
        wanted = {"protocol": True, "numbers": True, "schedule": True}
        wanted["compiler"] = None if compiler.libtpu_version() is None else True
        assert {judge: passed for judge, (passed, _) in verdicts.items()} == wanted, (case, verdicts)
        assert "predicted (model)" in verdicts["schedule"][1]


def test_a_ring_of_another_size_keeps_the_protocol_and_its_values():
    for case in SMALL:
        assert [(judge, passed) for judge, passed, *_ in said()[case]][:2] == [("protocol", True), ("numbers", True)], (
            case
        )


def test_every_planted_mistake_is_refused_by_its_judge_with_what_to_do():
    for each in MISTAKES:
        last, passed, message, next = said()[each.kernel, each.name, 4][-1]
        assert (last, passed) == (each.judge, False), (each, message)
        assert each.says in f"{message} {next}" and next, (each, message, next)


def test_a_copy_that_every_device_should_have_is_compared_on_each():
    right, wrong = jnp.ones((2, 3)), jnp.ones((2, 3)).at[1, 2].set(5)
    devices = jax.devices("cpu")[:2]
    shards = [jax.device_put(x, device) for x, device in zip((right, wrong), devices, strict=True)]
    everywhere = NamedSharding(jax.make_mesh((2,), ("d",), devices=devices), P())
    got = jax.make_array_from_single_device_arrays((2, 3), everywhere, shards)
    complaint = values.difference([got], judges.expected(lambda: right, ()))
    assert "at [1, 2], on device 1, is 5; it should be 1. 1 of the 6 elements there" in complaint.what
    assert values.difference([right], judges.expected(lambda: right, ())) is None


def test_a_part_of_another_device_and_one_that_nobody_wrote_are_named():
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2])
    x = jnp.arange(4.0)
    want = judges.expected(lambda: x, ())

    def said_of(got):
        return values.difference([jax.device_put(got, NamedSharding(mesh, P("d")))], want).what

    assert said_of(jnp.roll(x, 2)).endswith("They are what device 1 should have.")
    assert said_of(jnp.full(4, jnp.nan)).endswith("The simulator fills memory with NaN until it is written.")
    assert said_of(x + 1).endswith("2 of the 2 elements there are wrong.")


def test_a_device_that_is_not_there_is_named():
    stray = Event(device=0, kind="signal", semaphore=Semaphore(0, -1), amount=1)
    complaint = protocol.complaint(Record(events=[[Event(device=0, kind="enter"), stray]], names={}))
    assert complaint.what == "Device 0 signals device -1, but the devices are 0 to 0."
    assert "lax.rem(me + n - 1, n) to the left" in complaint.next


def test_devices_that_all_wait_first_are_told_to_signal_first():
    waits = [Event(device=d, kind="wait", semaphore=Semaphore(0, d), amount=1) for d in range(2)]
    events = [[Event(device=d, kind="enter"), waits[d]] for d in range(2)]
    complaint = protocol.complaint(Record(events=events, names={0: "the barrier semaphore"}))
    assert "nothing arrives there, but up to here 1 is waited for. Device 1 waits" in complaint.what
    assert "before you wait" in complaint.next


def test_a_device_that_stops_at_an_error_is_told_before_those_that_wait_for_it():
    mesh = judges.Mesh(in_specs=(P("d"),), out_specs=P("d"), shape=(2,), topology="v5e:2x2")

    def beyond(x):
        def kernel(x_ref, o_ref):
            me = jax.lax.axis_index("d")
            o_ref[...] = x_ref[pl.ds(me * 8, 8)]  # device 1 reads beyond its 8 rows
            barrier = pltpu.get_barrier_semaphore()
            pl.semaphore_signal(barrier, 1, device_id={"d": 1 - me})
            pl.semaphore_wait(barrier, 1)

        params = pltpu.CompilerParams(collective_id=0)
        return pl.pallas_call(kernel, out_shape=x, compiler_params=params)(x)

    x = jnp.ones((16, 128))
    (verdict,) = judges.judge_chips(mesh.sharded(beyond), lambda x: x, x, mesh=(2,), in_specs=mesh.in_specs)
    assert verdict.judge == "protocol" and "never ends" not in verdict.message, verdict
    assert "read outside a buffer: [8:16, 0:128]" in verdict.message, verdict


def test_with_too_few_devices_it_says_how_to_get_more():
    x = jnp.ones((64, 128))
    verdicts = judges.judge_chips(lambda x: x, lambda x: x, x, mesh=(64,), topology="v5e:8x8")
    assert [(v.judge, v.passed) for v in verdicts[:2]] == [("protocol", None), ("numbers", None)]
    assert "The mesh has 64 devices" in verdicts[0].message
    assert verdicts[0].next.startswith('jax.config.update("jax_num_cpu_devices", 64)')


@pytest.mark.parametrize(
    "how, says",
    [
        ({"mesh": (2, 2)}, "axes is \\('d',\\)"),
        ({"mesh": (0,)}, "sizes, 1 or more"),
        ({"topology": "v9:2x2"}, "v9"),
        ({"ring": (0, 1, 1, 3)}, "the numbers 0 to 3 in the order"),
    ],
)
def test_bad_arguments_are_named(how, says):
    with pytest.raises(ValueError, match=says):
        judges.judge_chips(lambda x: x, lambda x: x, jnp.ones(8), **how)


def test_a_reference_that_does_not_run_is_named():
    with pytest.raises(ValueError, match="The reference does not run: ZeroDivisionError"):
        judges.judge_chips(lambda x: x, lambda x: 1 / 0, jnp.ones(8), mesh=(1,))


@needs_libtpu
def test_a_topology_of_another_size_is_refused():
    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    report = compiler.compile_chips(lambda x: x, x, mesh=(2,), axes=("d",), topology="v5e:2x2")
    assert not report.ok and "v5e:2x2 has 4 devices, but the mesh has 2" in str(report.error)


@needs_libtpu
def test_a_topology_that_does_not_exist_is_named():
    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    with pytest.raises(ValueError, match="topology is 'v5e:1x2'.*Try \"v5e:2x2\".*not divisible"):
        compiler.compile_chips(lambda x: x, x, mesh=(2,), axes=("d",), topology="v5e:1x2")


def looped(x):
    """Return x, sent by the only device to itself."""
    return rings.sharded(lambda x: rings.permuted(x, 1), P("d"), P("d"))(x)


def test_a_test_of_one_s_own_asks_these_judges_if_a_mesh_is_given():
    x = jax.ShapeDtypeStruct((16, 128), jnp.float32)
    report = testing.assert_kernel(looped, lambda x: x, x, mesh=(1,), in_specs=(P("d"),), topology="v5e:1x1")
    assert report is None or report.ok
    with pytest.raises(testing.KernelRefused, match="numbers: refused(?s:.)*on device 0"):
        testing.assert_kernel(looped, lambda x: 2 * x, x, mesh=(1,), topology="v5e:1x1")
    with pytest.raises(testing.KernelRefused, match="no judge compared its values"):
        testing.assert_kernel(looped, lambda x: x, jnp.ones((128, 128)), mesh=(16,), topology="v5e:4x4")
    with pytest.raises(ValueError, match=r"topology is for kernels .* mesh=\(4,\) as well"):
        testing.assert_kernel(looped, lambda x: x, x, topology="v5e:2x2")
    with pytest.raises(ValueError, match="budget and costs are for kernels of one chip"):
        testing.assert_kernel(looped, lambda x: x, x, mesh=(1,), budget=judges.Budget(cycles=1))


def test_the_schedule_of_small_arrays_stands_for_large_ones():
    x = jnp.ones((16, 128), jnp.float32)
    once, twice = (judges.schedule_chips(looped, x, mesh=(1,), scale=scale) for scale in (1000, 2000))
    assert twice.seconds > 1.5 * once.seconds and {span.lane for span in once.spans} == {"HBM of 0"}
    with pytest.raises(ValueError, match=r"it needs 64. Try jax.config.update\(.jax_num_cpu_devices., 64\)"):
        judges.schedule_chips(looped, x, mesh=(64,))
    with pytest.raises(ValueError, match="chip is 'tpu7x', whose links have no published bandwidth"):
        judges.schedule_chips(looped, x, mesh=(1,), chip="tpu7x")


def test_a_function_that_the_simulator_has_not_is_named():
    with pytest.raises(RuntimeError, match="has no remote_start in its simulator"):
        with compat.simulator_watched({"remote_start": lambda arguments: None}):
            pass
