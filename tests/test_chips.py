"""Rates of a core and of a chip: which TensorCores are one device, and what vendors print."""

import pytest

from course_lib import chips


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
