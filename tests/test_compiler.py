"""compile_tpu: a real compiler's answer, whatever the kernel does to it."""

import concurrent.futures
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl

from course_lib import chips, compiler
from course_lib.compiler import bundles, service

pytestmark = needs_libtpu
VECTOR = jax.ShapeDtypeStruct((4096,), jnp.float32)


def add(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = pl.BlockSpec((1024,), lambda i: (i,))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(kernel, out_shape=out, grid=(4,), in_specs=[spec, spec], out_specs=spec)(x, y)


def matmul(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((512, 512), jnp.float32))(x, y)


def endless(x):
    """Compiles; but how often its loop runs depends on data, and the cycle simulator cannot know."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.while_loop(lambda v: jnp.max(v) < 1e3, lambda v: v * 1.1, x_ref[...])

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)


@pytest.fixture
def worker():
    """The warm worker with the simulator, started."""
    service.warm_up()
    return service._worker(True, service.MEMORY_BYTES)


def test_report_of_a_vector_add():
    report = compiler.compile_tpu(add, VECTOR, VECTOR)
    assert report.ok and report.error is None
    assert report.hbm_bytes == 3 * 4096 * 4
    assert report.vmem_bytes == 2 * 3 * 1024 * 4, "three blocks, each held twice"
    assert report.vmem_limit == 16 * 2**20
    assert report.spills == 0
    assert report.bundles > 10
    # A few DMA latencies of about 1,100 cycles, on both supported libtpu lines (3,312 and 3,308 when written).
    assert 2_500 < report.cycles < 4_500
    assert report.seconds == pytest.approx(report.cycles / chips.chip("v5e").clock_hz)
    assert "predicted" in str(report) and "libtpu" in str(report)


def test_slots_name_the_unit_that_works():
    square = jax.ShapeDtypeStruct((512, 512), jnp.bfloat16)
    slots = compiler.compile_tpu(matmul, square, square).slots
    assert all(0 <= share <= 1 for share in slots.values())
    mxu = max(share for unit, share in slots.items() if unit.startswith(("MXU", "MATMUL")))
    assert mxu > 0.3, slots
    assert all(share == 0 for unit, share in compiler.compile_tpu(add, VECTOR, VECTOR).slots.items() if "M" in unit[:2])


def test_the_same_kernel_gives_the_same_cycles():
    reports = [compiler.compile_tpu(add, VECTOR, VECTOR) for _ in range(3)]
    assert len({(r.cycles, r.bundles, r.vmem_bytes) for r in reports}) == 1


def test_cycles_are_those_of_jax_own_compile_path():
    """We hand libtpu MLIR ourselves; JAX's lower().compile() must come to the same program."""
    code = """
        import os, pathlib, tempfile
        dump = pathlib.Path(tempfile.mkdtemp())
        os.environ.update(environment(dump, True))
        import jax
        from jax.experimental import topologies
        from jax.sharding import SingleDeviceSharding
        from test_compiler import add, VECTOR
        from course_lib import chips
        from course_lib.compiler import bundles
        topology = topologies.get_topology_desc(
            platform="tpu", topology_name="v5e:1x1", chips_per_host_bounds=[1, 1, 1], num_slices=1)
        x = jax.ShapeDtypeStruct(VECTOR.shape, VECTOR.dtype, sharding=SingleDeviceSharding(topology.devices[0]))
        with chips.chip("v5e").target():
            jax.jit(add).trace(x, x).lower(lowering_platforms=("tpu",)).compile()
        print(sum(bundles.read(dump)["cycles"].values()))
    """
    code = "from course_lib.compiler.service import _environment as environment\n" + textwrap.dedent(code)
    here = pathlib.Path(__file__).parent
    env = os.environ | {"PYTHONPATH": f"{here.parent}{os.pathsep}{here}"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr[-2000:]
    assert int(out.stdout.split()[-1]) == compiler.compile_tpu(add, VECTOR, VECTOR).cycles


@pytest.mark.parametrize("chip", ["v4", "v5p", "v6e", "tpu7x"])
def test_other_chips(chip):
    report = compiler.compile_tpu(add, VECTOR, VECTOR, chip=chip)
    assert report.ok, str(report)
    assert (report.cycles is None) == (chip == "v4")
    assert report.seconds is None, "the clock of this chip is not known"


def test_plain_jax_compiles_too():
    report = compiler.compile_tpu(lambda x, y: x + y, VECTOR, VECTOR)
    assert report.ok and report.cycles > 0 and report.hbm_bytes is None


def test_unknown_chip():
    with pytest.raises(ValueError, match="chip='v9' is not known. Choose one of: v4, v5e"):
        compiler.compile_tpu(add, VECTOR, VECTOR, chip="v9")


def test_a_crash_is_a_verdict_and_the_next_compile_works():
    report = compiler.compile_tpu(add, VECTOR, VECTOR, memory_bytes=64 << 20)
    assert not report.ok and report.error.name == "crash"
    assert compiler.compile_tpu(add, VECTOR, VECTOR).ok


def test_a_killed_worker_is_replaced(worker):
    before = worker.process.pid
    os.kill(before, signal.SIGKILL)
    worker.process.wait()
    assert compiler.compile_tpu(add, VECTOR, VECTOR).ok
    assert worker.process.pid != before


def test_time_limit_then_no_cycles_but_an_answer():
    report = compiler.compile_tpu(endless, jax.ShapeDtypeStruct((8, 128), jnp.float32), time_limit_s=6)
    assert report.ok and report.cycles is None
    assert "no cycles: with the simulator on, the compiler" in report.notes[0]


def test_several_callers_at_once():
    alone = compiler.compile_tpu(add, VECTOR, VECTOR).cycles
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: compiler.compile_tpu(add, VECTOR, VECTOR), range(8)))
    assert [r.cycles for r in reports] == [alone] * 8


def test_no_orphan_is_left_when_the_parent_is_killed():
    code = (
        "import time; from course_lib.compiler import service; service.warm_up();"
        "print(service._worker(True, service.MEMORY_BYTES).process.pid, flush=True); time.sleep(60)"
    )
    env = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parent.parent)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while pathlib.Path(f"/proc/{child}/cmdline").exists() and b"worker.py" in _cmdline(child):
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.1)


def _cmdline(pid: int) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_missing_libtpu_is_said(monkeypatch):
    monkeypatch.setattr(compiler.tpu, "libtpu_version", lambda: None)
    with pytest.raises(compiler.Unavailable, match="libtpu, which holds the TPU compiler, is not installed"):
        compiler.compile_tpu(add, VECTOR, VECTOR)

    def illegal(x):
        spec = pl.BlockSpec((100,), lambda i: (i,))
        return pl.pallas_call(lambda a, o: None, out_shape=x, grid=(41,), in_specs=[spec], out_specs=spec)(x)

    report = compiler.compile_tpu(illegal, VECTOR)
    assert not report.ok, "what Pallas itself refuses needs no libtpu"


def test_a_libtpu_that_does_not_start_is_no_verdict_on_the_kernel(monkeypatch):
    no_such_slice = dataclasses.replace(chips.chip("v5e"), topology="v99:1x1")
    monkeypatch.setattr(chips, "chip", lambda name: no_such_slice)
    with pytest.raises(compiler.Unavailable, match="libtpu does not start on this machine"):
        compiler.compile_tpu(add, VECTOR, VECTOR)


HEADERS = {
    "0.0.48 and 0.0.50": "MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU",
    "0.0.51": "MATMUL, MATPUSH, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_utilization_headers_of_both_libtpu_lines(header):
    n = header.count(",") + 1
    text = f"== CAPACITY:\n{header}\n" + " 2" * n + "\n== UTILIZATION:\n" + (" 1" * n + "\n") * 3
    offered, used = bundles.slot_use(text)
    assert set(offered.values()) == {2} and set(used.values()) == {3}
    assert "VSTORE:SPILL" in used


@pytest.mark.parametrize("text", ["", "nothing we know", "a, VALU, b\n"])
def test_unknown_dumps_give_no_answer_instead_of_a_crash(text):
    assert bundles.slot_use(text) == ({}, {})
    assert bundles.vmem_allocations(text) == []
