"""Tokamax's own test base for normalisation, pointed at our norms in the TPU simulator."""

import unittest

import pytest
import tokamax_bases
from norm_examined import normalization
from simulated import tpu_side
from tokamax_bases import EVERYTHING

test_base = tokamax_bases.test_base("normalization")
pytestmark = pytest.mark.sweep  # every day test_jax_references.py stands for it
# One of each kind: a vector, three axes, vmap with a scale for each, RMSNorm; columns that are no power of two; a scale
# offset and an axis that is not the last, which norm_examined.py makes ordinary ones. Those called bench have 9 to 75
# million elements.
SAMPLE = {
    "test_layer_norm0",
    "test_layer_norm6",
    "test_layer_norm_vmap1",
    "test_rms_norm1",
    "test_rms_norm2",
    "test_layer_norm11",
    "test_layer_norm_axis0",
}


class TestNorms(test_base.NormalizationTestBase):
    def __init__(self, *args):
        super().__init__(*args, norm_fn=normalization)

    def setUp(self):
        super().setUp()
        if not EVERYTHING and self._testMethodName not in SAMPLE:
            self.skipTest("not in the sample: EXAMINE=all runs it")
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
