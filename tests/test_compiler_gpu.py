"""``compile_gpu``: what ptxas says, with no GPU. Skipped, with the reason, without ``make setup-gpu``."""

import jax
import jax.numpy as jnp
import pytest
from gpu_compiler import needs_gpu_compiler
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler
from course_lib.compiler import __main__ as command
from course_lib.compiler.child import gpu_service
from course_lib.compiler.dumps import ptxas

X = jax.ShapeDtypeStruct((1024,), jnp.float32)


def exponential(x):
    """For every GPU from Ampere on, by Triton."""

    def exponential_kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...])

    spec = pl.BlockSpec((128,), lambda i: (i,))
    return pl.pallas_call(exponential_kernel, out_shape=x, grid=(8,), in_specs=[spec], out_specs=spec)(x)


def by_tma(x):
    """For Hopper: the result leaves shared memory by TMA."""

    @plgpu.kernel(out_type=x, grid=(8,), grid_names=("i",), scratch_types=[plgpu.SMEM((128,), jnp.float32)])
    def twice_kernel(x_gmem, o_gmem, o_smem):
        block = pl.ds(jax.lax.axis_index("i") * 128, 128)
        o_smem[...] = x_gmem[block] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[block])
        plgpu.wait_smem_to_gmem(0)

    return twice_kernel(x)


@needs_gpu_compiler
@pytest.mark.parametrize("chip", ["a100", "l4", "h200"])
def test_a_portable_kernel_compiles_for_each_gpu(chip):
    report = compiler.compile_gpu(exponential, X, chip=chip)
    assert report.ok, report
    (kernel,) = report.kernels
    assert (kernel.name, kernel.kind, kernel.grid) == ("exponential_kernel", "kernel", (8, 1, 1))
    assert 0 < kernel.registers < 64 and kernel.threads == 128 and report.spills == 0
    assert kernel.instructions["global loads"] and f"exponential for {chip}: compiles" in str(report)
    assert kernel.ptx.count("ld.global") == kernel.instructions["global loads"] and "%ctaid.x" in kernel.ptx
    assert "ld.global" not in repr(kernel), "the program would bury the figures"


@needs_gpu_compiler
def test_a_kernel_that_notebooks_simulate_is_compiled():
    x = jnp.ones(1024)
    with pltpu.force_tpu_interpret_mode():  # as after checks.start()
        simulated = jax.jit(exponential)(x)
        report = compiler.compile_gpu(exponential, x, chip="a100")
    assert report.ok and simulated[0] == jnp.exp(1.0), report
    assert [kernel.name for kernel in report.kernels] == ["exponential_kernel"]


@needs_gpu_compiler
def test_a_hopper_kernel_compiles_for_hopper_and_is_refused_for_ampere():
    report = compiler.compile_gpu(by_tma, X, chip="h100")
    (kernel,) = report.kernels
    assert kernel.name == "twice_kernel" and kernel.instructions["TMA stores"] == 1
    assert kernel.shared_bytes == 1024, "of the launch: 512 bytes, in units of 1,024"
    refused = compiler.compile_gpu(by_tma, X, chip="a100")
    assert not refused.ok and refused.stage == "compile" and refused.kernels == ()


@needs_gpu_compiler
def test_what_xla_does_around_a_kernel_is_told_from_it():
    report = compiler.compile_gpu(lambda x: exponential(x) + 1, X)
    assert {kernel.name: kernel.kind for kernel in report.kernels} == {
        "exponential_kernel": "kernel",
        "loop_add_fusion": "fusion",
    }
    said = str(report)
    assert "kernel" in said and "fusion" in said and said.count("registers") == 2


@needs_gpu_compiler
def test_an_answer_is_kept_in_a_file_and_a_damaged_one_is_asked_for_again(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    first, asked = compiler.compile_gpu(exponential, X), []
    monkeypatch.setattr(gpu_service, "_compiled", lambda *program: asked.append(program) or NOTHING)
    assert compiler.compile_gpu(exponential, X) == first and not asked
    assert compiler.compile_gpu(exponential, X, chip="a100").kernels == () and len(asked) == 1
    for file in (tmp_path / "compiled").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    assert compiler.compile_gpu(exponential, X).kernels == () and len(asked) == 2


NOTHING = {"ok": True, "hlo": "", "programs": ()}


@needs_gpu_compiler
def test_a_time_limit_and_a_crash_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path))
    late = compiler.compile_gpu(exponential, X, time_limit_s=0.2)
    assert (late.ok, late.stage) == (False, "no answer") and "0.2 s" in late.error.what
    starved = compiler.compile_gpu(exponential, X, memory_bytes=50 << 20)
    assert (starved.ok, starved.stage) == (False, "no answer")


@needs_gpu_compiler
def test_the_command_compiles_for_a_gpu(tmp_path, capsys):
    file = tmp_path / "kernels.py"
    file.write_text("import jax.numpy as jnp\ndef double(x):\n    return jnp.sin(x) * 2\n")
    assert command.main([f"{file}:double", "f32[1024]", "--chip", "l4"]) == 0
    assert "double for l4: compiles" in capsys.readouterr().out


@needs_gpu_compiler
def test_several_functions_side_by_side():
    both = compiler.compare({"ours": by_tma, "XLA": lambda x: x * 2}, X, chip="h200")
    rows = {line.split()[0]: line.split() for line in str(both).splitlines()}
    assert rows["ours"][-1] == "1" or rows["ours"][-2:] == ["0", "0"]
    assert "registers" in str(both) and "time" not in str(both).splitlines()[1]


def test_an_unknown_gpu_is_named():
    with pytest.raises(ValueError, match="chip='v5e' is not a GPU to compile for. Choose one of: a100, l4, h100"):
        compiler.compile_gpu(exponential, X, chip="v5e")


def test_without_the_compiler_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(gpu_service, "extra_folder", lambda: None)
    with pytest.raises(compiler.Unavailable, match="make setup-gpu"):
        compiler.compile_gpu(exponential, X)


def test_what_does_not_trace_needs_no_compiler(monkeypatch):
    monkeypatch.setattr(gpu_service, "extra_folder", lambda: None)
    report = compiler.compile_gpu(lambda x: x @ jnp.ones((3, 3)), X)
    assert (report.ok, report.stage) == (False, "trace") and "for h100" in str(report)


# What an SM holds. The figures are those of NVIDIA's occupancy calculator.

OCCUPANCY = [
    ("h100", dict(registers=32, threads=128, shared_bytes=0), 16, 1.0),
    ("h100", dict(registers=168, threads=384, shared_bytes=200 << 10), 1, 12 / 64),  # shared memory
    ("h100", dict(registers=128, threads=256, shared_bytes=0), 2, 16 / 64),  # registers
    ("h100", dict(registers=255, threads=128, shared_bytes=0), 2, 8 / 64),
    ("h100", dict(registers=16, threads=32, shared_bytes=0), 32, 0.5),  # blocks
    ("a100", dict(registers=64, threads=256, shared_bytes=40 << 10), 4, 0.5),
    ("l4", dict(registers=32, threads=256, shared_bytes=48 << 10), 2, 16 / 48),
]


@pytest.mark.parametrize(("chip", "takes", "blocks", "share"), OCCUPANCY, ids=str)
def test_how_many_blocks_an_sm_holds(chip, takes, blocks, share):
    given = dict(name="k", kind="kernel", spill_stores=0, spill_loads=0, grid=(1,), instructions={})
    kernel = compiler.GpuKernel(**given, **takes)
    assert (kernel.blocks_on(chip), kernel.occupancy(chip)) == (blocks, share)


# What ptxas writes

SAID = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
insufficient register resources for the wgmma pipeline in the function 'mm_mosaic_gpu_kernel'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'mm_mosaic_gpu_kernel' for 'sm_90a'
ptxas info    : Function properties for mm_mosaic_gpu_kernel
    0 bytes stack frame, 1152 bytes spill stores, 1160 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 1 bytes smem
"""
GIVEN = """.version 8.6
.visible .entry mm_mosaic_gpu_kernel(
)
.maxntid 128, 1, 1
{
wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {}
wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {}
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%r2]
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%r1], [%r2]
}
"""
LAUNCHED = (
    "%4 = gpu.launch_func async [%0] @mm::@mm_mosaic_gpu_kernel blocks in (%c8, %c2, %c1_0) threads in "
    "(%c128, %c1_0, %c1_0)  dynamic_shared_memory_size %c98304_i32 args(%1 : !llvm.ptr)"
)


def test_spills_and_serialized_wgmma_are_read(tmp_path):
    for stem in ("mm_0", "17"):  # Mosaic GPU keeps the files too
        (tmp_path / f"{stem}.ptx").write_text(GIVEN)
        (tmp_path / f"{stem}.ptxas").write_text(SAID)
    (tmp_path / "mm_0.mlir-passes.log").write_text(LAUNCHED)
    (found,) = ptxas.read(tmp_path)
    assert (found.name, found.mosaic, found.registers) == ("mm", True, 255)
    assert (found.spill_stores, found.spill_loads) == (1152, 1160)
    assert (found.grid, found.threads, found.static_shared, found.dynamic_shared) == ((8, 2, 1), 128, 0, 98304)
    assert found.instructions == {"wgmma": 2, "TMA loads": 1, "TMA stores": 1}
    assert len(found.remarks) == 1
    kernel = compiler.gpu._kernel(found, "")
    assert kernel.serialized and kernel.blocks_on("h100") == 2


def test_a_report_of_spills_and_its_card():
    slow = compiler.GpuKernel(
        name="mm",
        kind="kernel",
        registers=255,
        spill_stores=1152,
        spill_loads=1160,
        shared_bytes=98304,
        threads=128,
        grid=(8, 2, 1),
        instructions={"wgmma": 2},
        remarks=("wgmma.mma_async instructions are serialized",),
    )
    report = compiler.Report(name="mm", chip="h200", ok=True, kernels=(slow,), spills=288, fills=290)
    assert "255 of each thread, 1,152 bytes spilled" in str(report)
    card = report._repr_html_()
    assert "288 spills, 290 fills" in card and "each wgmma waits for the one before it" in card
    assert report.bound is None and report.core_seconds is None and report.hbm_seconds is None


@pytest.mark.parametrize("name", chips.GPU_TARGETS)
def test_a_gpu_to_compile_for(name):
    gpu = chips.gpu_target(name)
    assert gpu.shared_bytes == gpu.sm_shared_bytes - 1024, "CUDA keeps 1 KiB of each block"
    assert f'name: "{gpu.kind}"' in gpu.config()
    if name in chips.GPU_NAMES:
        sheet = chips.gpu(name)
        assert (sheet.sms, sheet.hbm_bandwidth, sheet.l2_bytes) == (gpu.sms, gpu.memory_bandwidth, gpu.l2_bytes)
        assert sheet.sm_shared_bytes == gpu.sm_shared_bytes
