"""The part of docs/zoo.md on kernels that talk to other chips: planted mistakes, who refuses each, and who does not."""

from ring_mistakes import MISTAKES, RIGHT

_INTRODUCTION = """\
## On several chips

{mistakes} mistakes, planted in five kernels that copy round a ring of four devices (`tests/ring_kernels.py`), before
`judges.judge_chips`, which asks *protocol*, *numbers* and *compiler*. Beside its answer stands what else there is:
whether JAX's simulator returns the right values, in how many of three runs its race detector reports a race (that
depends on timing), and whether the compiler takes the kernel. tests/test_judges_chips.py asks the judges again, and
asks for {right} right kernels that every judge lets pass.

| kernel | mistake | refused by | values in the simulator | its race detector | compiler |
|---|---|---|---|---|---|
"""


def section() -> str:
    """With how many of them only judge_chips sees."""
    rows = [
        f"| {m.kernel} | {m.name} | {m.judge} | {m.values} | {m.detector} | {'-' if m.compiles else 'refuses'} |"
        for m in MISTAKES
    ]
    alone = sum(m.values in ("right", "either") and m.detector == "0 of 3" and m.compiles for m in MISTAKES)
    last = f"{alone} of the {len(MISTAKES)} have right values, no race reported and no complaint from the compiler.\n"
    return _INTRODUCTION.format(mistakes=len(MISTAKES), right=len(RIGHT)) + "\n".join([*rows, "", last])
