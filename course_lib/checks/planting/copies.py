"""Mistakes in copies by hand: a wait that is left out."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import replaced


def no_wait(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels that use what a copy brings, or return, before the copy has ended."""
    for eqn, _ in kernel.named("dma_wait"):
        yield Change(
            "wait",
            "a copy is started, but the kernel does not wait for it",
            "compare every element: in the TPU simulator a copy that nobody waits for brings nothing.",
            eqn,
            lambda eqn=eqn: kernel.with_body(replaced(kernel.body, eqn)),
        )
