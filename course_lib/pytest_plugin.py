"""A pytest plugin for ``course_lib.testing``: the option ``--kernel-costs`` and the fixture ``kernel_costs``.

pytest finds it wherever course_lib is installed. It does not import JAX until a test asks for the fixture.
"""

import pytest

_CHEAPER = "kernel that costs less than was recorded"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernels")
    group.addoption(
        "--kernel-costs",
        choices=("check", "update"),
        default="check",
        help="compare each kernel with the costs in kernel_costs.json beside its test, or write new ones",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--kernel-costs") == "update" and hasattr(config, "workerinput"):
        raise pytest.UsageError("--kernel-costs=update writes one file: run it without -n, in one process.")


@pytest.fixture
def kernel_costs(request: pytest.FixtureRequest):
    """Return what this test's kernels cost when last recorded, for ``assert_kernel(..., costs=kernel_costs)``."""
    from course_lib.testing import costs

    name = f"{request.node.path.name}::{request.node.nodeid.partition('::')[2]}"
    update = request.config.getoption("--kernel-costs") == "update"
    kept = costs.KeptCosts(request.node.path.with_name(costs.FILE), name, update=update)
    yield kept
    request.node.user_properties.extend((_CHEAPER, name) for name in kept.cheaper)  # xdist carries these over


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    properties = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    if cheaper := sorted({name for what, name in properties if what == _CHEAPER}):
        terminalreporter.section("kernel costs")
        terminalreporter.write_line(f"Cheaper than recorded: {', '.join(cheaper)}.")
        terminalreporter.write_line("To require this from now on: pytest --kernel-costs=update.")
