"""Lesson 17 shows a recorded training run where PyTorch is missing: it must be that of the lesson's own cells."""

import sys

import pytest
from lesson_files import ROOT, built

from course_lib import datasets

sys.path.insert(0, str(ROOT / "tools"))

LAYERS = ("our kernels", "PyTorch")


def test_both_layers_learn_alike():
    run = datasets.torch_run()
    ours, theirs = (run[name] for name in LAYERS)
    assert len(ours) == len(theirs) == 20 and ours[-1] < ours[0] / 10
    assert ours == pytest.approx(theirs, abs=2e-6)
    assert run["v5e"] == [["forward_kernel"], ["forward_kernel", "backward_kernel"]]


def test_the_lesson_says_that_it_is_recorded():
    (cell,) = (cell for cell in built("notebooks", "17_other_engines") if "\ndef trained(" in f"\n{cell.source}")
    said = cell.outputs[0].text
    assert said.startswith(datasets.torch_run()["about"]) and "recorded on 20" in said


def test_the_cells_still_give_this_run():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    import record_torch_run

    run, recorded = record_torch_run.trained(), datasets.torch_run()
    assert run["v5e"] == recorded["v5e"]
    for name in LAYERS:
        assert run[name] == pytest.approx(recorded[name], rel=1e-3)
