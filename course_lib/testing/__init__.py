"""The four judges in anyone's own tests: a kernel is correct and legal, and costs no more than before.

    from course_lib.testing import assert_kernel

    def test_softmax(kernel_costs):
        x = jax.random.normal(jax.random.key(0), (256, 512))
        assert_kernel(softmax, jax.nn.softmax, x, costs=kernel_costs)

``course_lib.pytest_plugin`` provides the fixture ``kernel_costs`` and the option ``pytest --kernel-costs=update``.
"""

from course_lib.judges import drawn
from course_lib.testing.asserting import KernelRefused, assert_kernel
from course_lib.testing.costs import Costs, KeptCosts

__all__ = ["Costs", "KeptCosts", "KernelRefused", "assert_kernel", "drawn"]
