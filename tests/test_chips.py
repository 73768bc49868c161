"""Rates of a core and of a chip: which TensorCores are one device, and what vendors print."""

import re

import jax
import pytest
from conftest import needs_libtpu
from sample_kernels import array, by_rows

from course_lib import chips, compiler


@pytest.mark.parametrize(
    "name, tensor_cores, cores, tflops, gigabytes",
    [
        ("v4", 2, 2, 275, 1230),
        ("v5e", 1, 1, 197, 820),
        ("v5p", 2, 2, 459, 2460),
        ("v6e", 1, 1, 920, 1640),
        ("tpu7x", 2, 1, 2310, 7400),
    ],
)
def test_the_whole_chip_is_all_its_tensor_cores(name, tensor_cores, cores, tflops, gigabytes):
    chip = chips.chip(name)
    assert (chip.tensor_cores, chip.cores) == (tensor_cores, cores)
    assert chip.chip_flops == pytest.approx(tflops * 1e12) == chip.bf16_flops * tensor_cores
    assert chip.chip_bandwidth == pytest.approx(gigabytes * 1e9) == chip.hbm_bandwidth * tensor_cores
    assert chip.program_bandwidth == chip.hbm_bandwidth * cores, "of a device: cores that are joined share the HBM"


def test_an_unknown_chip_is_refused():
    with pytest.raises(ValueError, match="chip='v9' is not known. Choose one of: v4, v5e, v5p, v6e, tpu7x."):
        chips.chip("v9")


@needs_libtpu
@pytest.mark.parametrize("name", chips.NAMES)
def test_registers_and_slots_are_the_compilers(name):
    """A softmax that needs more registers than there are uses all of them."""
    code = compiler.bundles(lambda x: by_rows(lambda v: jax.nn.softmax(v), x, 256), array((256, 256)), chip=name)
    found = re.findall(r"%v\d+_v(\d+)", " ".join(words for bundle in code.bundles for words in bundle.instructions))
    assert max(map(int, found)) + 1 == chips.chip(name).registers
    assert code.offered == chips.chip(name).slots
    assert chips.chip(name).register_bytes == 4096


def test_the_links_of_a_chip():
    for name in chips.NAMES:
        out = chips.links(name)
        if out.link_bandwidth and out.chip_bandwidth:  # the book has what is left of a link, Google all of it
            assert 0.85 < out.neighbours * out.link_bandwidth / out.chip_bandwidth <= 1
    assert chips.links("v5e").hop_s == 1e-6 and chips.links("tpu7x").link_bandwidth is None
    with pytest.raises(ValueError, match="chip='h100' is not known"):
        chips.links("h100")


def test_two_gpus():
    h100, h200 = chips.gpu("h100"), chips.gpu("h200")
    assert (h100.hbm_bandwidth, h200.hbm_bandwidth) == (3.35e12, 4.8e12)
    assert h100.bf16_flops == h200.bf16_flops == 989.5e12, "half of what is printed with sparsity"
    assert h100.bf16_flops / h100.hbm_bandwidth == pytest.approx(295, abs=1)
    with pytest.raises(ValueError, match="gpu='b200' is not known. Choose one of: h100, h200."):
        chips.gpu("b200")
