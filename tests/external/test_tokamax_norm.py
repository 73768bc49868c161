"""Tokamax's own test base for normalisation, pointed at our norms in the TPU simulator."""

import importlib.util
import os
import sys
import types
import unittest
import warnings

import pytest
from norm_examined import normalization
from simulated import tpu_side

if importlib.util.find_spec("tokamax") is None:
    pytest.skip("tokamax is not installed: see tests/external/README.md", allow_module_level=True)


def _tokamax_test_base():
    """Tokamax's benchmarks import xprof, 100 MB; its test bases do not use it: a module of that name will do."""
    stand_ins = {} if importlib.util.find_spec("xprof") else {n: types.ModuleType(n) for n in XPROF}
    sys.modules.update(stand_ins)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # theirs
            from tokamax._src.ops.normalization import test_base
    finally:
        for name in stand_ins:
            del sys.modules[name]
    return test_base


XPROF = ("xprof", "xprof.cli", "xprof.cli.tools", "xprof.cli.tools.get_kernel_stats_tool")
try:
    test_base = _tokamax_test_base()
except ImportError as error:
    pytest.skip(f"tokamax is installed and does not start: {error}", allow_module_level=True)

EVERYTHING = os.environ.get("EXAMINE") == "all"
# For every day one of each kind: a vector, three axes, columns that are no power of two, a scale offset, an axis that
# is not the last, vmap with a scale for each, RMSNorm. Those called bench have 9 to 75 million elements.
SAMPLE = {
    "test_layer_norm0",
    "test_layer_norm6",
    "test_layer_norm11",
    "test_layer_norm_axis0",
    "test_layer_norm_vmap1",
    "test_rms_norm1",
    "test_rms_norm2",
}


class TestNorms(test_base.NormalizationTestBase):
    def __init__(self, *args):
        super().__init__(*args, norm_fn=normalization)

    def setUp(self):
        super().setUp()
        if not EVERYTHING and self._testMethodName not in SAMPLE:
            self.skipTest("not in the sample for every day: EXAMINE=all runs it")
        self.kernels = self.enterContext(tpu_side())

    def tearDown(self):
        assert self.kernels, "no kernel of ours was run"
        super().tearDown()


def test_the_examiner_sees_a_wrong_kernel():
    """An eps that is not the one asked for, in the kernel and nowhere else."""

    def wrong(*args, epsilon, **others):
        return normalization(*args, epsilon=epsilon + 1e-3, **others)

    class Wrong(test_base.NormalizationTestBase):
        def __init__(self, *args):
            super().__init__(*args, norm_fn=wrong)

    result = unittest.TestResult()
    with tpu_side() as kernels:
        Wrong("test_rms_norm0").run(result)
    assert kernels and result.testsRun == 1 and len(result.failures) == 1 and not result.errors
