"""The memory ladder's figures beside the registries that they come from, and the picture of the core."""

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import array
from shapes import words_on_words
from viz_samples import overflowing, parsed, words

from course_lib import chips, compiler, text, viz
from course_lib.roofline import constants
from course_lib.viz.memory_ladder import memory_rungs


def rungs(name: str) -> dict[str, dict]:
    return {rung["name"]: rung for rung in memory_rungs.ladder(name)["rungs"]}


@pytest.mark.parametrize("name", chips.NAMES)
def test_a_tpus_figures_are_those_of_the_registry(name):
    chip, found = chips.chip(name), rungs(name)
    assert list(found) == ["vector registers", "SMEM", "VMEM", "HBM", "a neighbouring chip", "the host"]
    assert found["HBM"]["core"]["bandwidth"] == chip.hbm_bandwidth
    assert found["HBM"]["chip"]["bandwidth"] == chip.chip_bandwidth
    assert found["HBM"]["chip"]["capacity"] == chip.hbm_bytes * chip.tensor_cores
    assert found["VMEM"]["core"]["capacity"] == chip.vmem_bytes
    assert found["VMEM"]["chip"]["capacity"] == chip.vmem_bytes * chip.tensor_cores
    assert found["vector registers"]["core"]["capacity"] == chip.registers * 4096
    if chip.clock_hz and name != "v4":
        latency = constants.LATENCY_CYCLES[name][0] / chip.clock_hz
        assert found["HBM"]["latency_s"] == pytest.approx(latency)


def test_figures_of_a_v5e_in_words():
    found = rungs("v5e")
    said = {name: (memory_rungs.words(rung, "core", "bandwidth"), rung["latency"]) for name, rung in found.items()}
    assert said == {
        "vector registers": ("49.2 TB/s", "1.33 ns (2 cycles)"),
        "SMEM": ("6.01 GB/s", "3.99 ns (6 cycles)"),
        "VMEM": ("18.5 TB/s", "not published"),
        "HBM": ("820 GB/s", "760 ns (1,142 cycles)"),
        "a neighbouring chip": ("45 GB/s", "1 us"),
        "the host": ("16 GB/s", "not published"),
    }
    assert memory_rungs.words(found["a neighbouring chip"], "chip", "bandwidth") == "200 GB/s"


@pytest.mark.parametrize("name", memory_rungs.NAMES)
@pytest.mark.parametrize("view", memory_rungs.VIEWS)
def test_a_figure_has_a_source_and_what_has_none_is_not_guessed(name, view):
    for rung in memory_rungs.ladder(name)["rungs"]:
        for field in ("capacity", "bandwidth", "latency"):
            said = rung["latency"] if field == "latency" else memory_rungs.words(rung, view, field)
            whose = memory_rungs.source(rung, view, field)
            assert (whose in memory_rungs.WHOSE) == (said not in ("not published", "no store of its own")), (
                rung,
                field,
            )


def test_the_time_of_n_bytes_is_latency_and_bandwidth():
    found = rungs("v5e")
    assert memory_rungs.time_words(found["HBM"], "core", 1 << 20) == text.duration(1142 / 1.503e9 + 2**20 / 820e9)
    assert memory_rungs.time_words(found["VMEM"], "core", 1 << 20) == "at least 56.8 ns", "no latency is known"
    assert memory_rungs.time_words(found["VMEM"], "core", 1 << 30).endswith("us, 8 times what it holds")
    assert memory_rungs.time_words(rungs("v6e")["VMEM"], "core", 1 << 20) == "at least 86 cycles", "nor is its clock"
    assert memory_rungs.time_words(rungs("h200")["L2 cache"], "chip", 1 << 20) == "not published"
    assert memory_rungs.time_words(rungs("h200")["HBM"], "chip", 48 * 10**9) == "at least 10 ms"


def scalar_loads(times: int, chained: bool, chip: str) -> int:
    """Cycles of a kernel with so many loads from SMEM: each from where the one before says, or one behind the other."""

    def kernel(s_ref, o_ref):
        found = s_ref[0]
        for n in range(times):
            found = s_ref[found] if chained else found + s_ref[n + 1]
        o_ref[0] = found

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    loads = pl.pallas_call(kernel, out_shape=array((8,), jnp.int32), in_specs=[smem], out_specs=smem)
    return compiler.compile_tpu(loads, array((512,), jnp.int32), chip=chip).cycles


@needs_libtpu
@pytest.mark.parametrize("chip", ["v5e", "tpu7x"])
def test_the_simulator_reads_smem_as_we_say(chip):
    each = [(scalar_loads(96, chained, chip) - scalar_loads(32, chained, chip)) / 64 for chained in (True, False)]
    assert each == [memory_rungs.SMEM_CYCLES, 1]


def test_gpus_stand_beside_with_what_nvidia_prints():
    found = rungs("h200")
    assert memory_rungs.words(found["registers"], "core", "capacity") == "256 KiB"
    assert memory_rungs.words(found["registers"], "chip", "capacity") == "33 MiB"
    assert memory_rungs.words(found["shared memory"], "core", "bandwidth") == "not published"
    assert found["HBM"]["of_chip"] and memory_rungs.words(found["HBM"], "core", "bandwidth") == "4.8 TB/s"
    assert memory_rungs.words(found["another GPU"], "chip", "bandwidth") == "450 GB/s"


@pytest.mark.parametrize("name", memory_rungs.NAMES)
@pytest.mark.parametrize("view", memory_rungs.VIEWS)
def test_the_ladders_still(name, view):
    widget = viz.memory_ladder(chip=name)
    widget.view = view
    bundle = widget._repr_mimebundle_()[0]
    svg = bundle["image/svg+xml"]
    assert overflowing(svg) == [] == words_on_words(svg)
    assert [line for line in words(svg) if line.endswith("…")] == []
    assert "1 MiB take" in bundle["text/plain"] and "predicted" not in bundle["text/plain"]
    assert len(svg) < 12_000


def test_another_chip_is_refused():
    with pytest.raises(ValueError, match="chip='v3' is not known. Choose one of: v4, .*, h100, h200."):
        viz.memory_ladder(chip="v3")
    with pytest.raises(ValueError, match="chip='h100' is not known"):
        viz.core_picture(chip="h100")


@pytest.mark.parametrize("name", chips.NAMES)
def test_the_core_has_its_units_and_sizes(name):
    picture, chip = viz.core_picture(chip=name), chips.chip(name)
    said = words(picture.svg)
    for unit in ("Scalar unit", "VPU", "EUP", "XLU", "MXU", "Links"):
        assert unit in said
    for part in (f"VMEM {text.size(chip.vmem_bytes)}", "SMEM 1 MiB", f"{chip.registers} vector registers"):
        assert part in said
    assert f"{chip.slots['load']} x 4 KiB" in said and f"DMA engines: {text.byte_rate(chip.hbm_bandwidth)}," in said
    assert overflowing(picture.svg) == [] == words_on_words(picture.svg)
    assert [line for line in said if line.endswith("…")] == [], "nothing is cut short"
    smallest = min(float(node.get("font-size")) for node in parsed(picture.svg).iter() if node.get("font-size"))
    assert smallest * 480 / 720 >= 10, "readable on a page 480 pixels wide"
    assert f"MXU: {chip.mxus} units" in picture.text


def complete(picture, *parts):
    """Assert that all ``parts`` are said, and that every word can be read; return the words."""
    said = words(picture.svg)
    assert [part for part in parts if not any(part in line for line in said)] == []
    assert overflowing(picture.svg) == [] == words_on_words(picture.svg)
    assert [line for line in said if line.endswith("…")] == [], "nothing is cut short"
    smallest = min(float(node.get("font-size")) for node in parsed(picture.svg).iter() if node.get("font-size"))
    assert smallest * 480 / 720 >= 10, "readable on a page 480 pixels wide"


@pytest.mark.parametrize("name", chips.GPU_NAMES)
def test_an_sm_has_its_units_and_sizes_and_says_who_waits(name):
    picture, gpu = viz.sm_picture(gpu=name), chips.gpu(name)
    waits = ("barrier_wait(", "wgmma_wait(", "commit_smem(", "wait_smem_to_gmem(")
    shared = f"Shared memory {text.size(gpu.sm_shared_bytes)}"
    complete(
        picture, f"{gpu.sms} SMs", "TMA", "Warpgroup", "Tensor Cores", shared, text.byte_rate(gpu.hbm_bandwidth), *waits
    )
    assert all(f"{n}. " in picture.text for n in range(1, 5))
    with pytest.raises(ValueError, match="gpu='a100' is not known"):
        viz.sm_picture(gpu="a100")


@pytest.mark.parametrize("name", ["v5p", "v6e", "tpu7x"])
def test_sparse_cores_have_their_memories_and_sizes(name):
    picture, cores, chip = viz.sparse_core_picture(chip=name), chips.sparse_cores(name), chips.chip(name)
    own, more = f"VMEM {text.size(cores.vmem_bytes)}", f"{cores.subcores - 1} more"
    complete(picture, f"The {cores.cores} SparseCores", own, more, "Spmem", f"{cores.lanes} lanes of 32 bits")
    assert f"at {text.byte_rate(chip.program_bandwidth)}, for both" in picture.text
    assert "stream.indirect.gather" in picture.text and "subcore_barrier()" in picture.text


def test_a_chip_without_sparse_cores_has_no_picture_of_them():
    with pytest.raises(ValueError, match="chip='v5e' has no SparseCores. Choose one of: v5p, v6e, tpu7x"):
        viz.sparse_core_picture(chip="v5e")
