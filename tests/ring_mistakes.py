"""Right kernels of ring_kernels, and mistakes planted in them, with what each judge of many chips says of them.

``values`` and ``detector`` are what JAX's own simulator and race detector made of a mistake, in three runs each on
2026-11-29 with jax 0.11.2. That depends on timing, so no test asks for it again.
"""

from typing import NamedTuple

ENTERED, LEFT, ORDER = "nothing ensures that", "may have left the kernel", "nothing orders the two"
EARLY = "has not waited by then on"


# Right kernels: (kernel, variant, devices, topology).
RIGHT = [
    ("permuted", "", 4, "v5e:2x2"),
    ("gathered", "", 4, "v5e:2x2"),
    ("gathered", "left to the compiler's barrier", 4, "v6e:2x2"),
    ("gathered both ways", "", 4, "v5p:2x2x1"),
    ("reduced", "", 4, "v5e:2x2"),
    ("reduced", "", 8, "v5e:2x4"),
    ("multiplied", "", 4, "v5e:2x2"),
    ("all_gather", "", 4, "v5e:2x2"),
    ("all_gather_matmul", "", 4, "v6e:2x2"),
    ("reduce_scatter", "", 8, "v5e:2x4"),
    ("matmul_reduce_scatter", "", 4, "v5e:2x2"),
]


class Mistake(NamedTuple):
    """What is seen of a mistake. ``values`` and ``detector`` are of JAX's simulator, ``compiles`` of libtpu."""

    kernel: str
    name: str
    judge: str  # that refuses it
    says: str
    values: str  # "right", "wrong", "either" or "hangs"
    detector: str  # of three runs those with a race: "0 of 3"
    compiles: bool = True


MISTAKES = (
    Mistake("permuted", "waits for one of two", "protocol", ENTERED, "right", "0 of 3"),
    Mistake("permuted", "signals the same neighbour twice", "protocol", "none from device", "right", "0 of 3"),
    Mistake("permuted", "does not wait for what arrives", "protocol", ORDER, "wrong", "0 of 3"),
    Mistake("gathered", "no barrier", "protocol", "waits for no signal", "right", "0 of 3", compiles=False),
    Mistake("gathered", "the compiler's barrier is skipped", "protocol", ENTERED, "right", "0 of 3"),
    Mistake("gathered", "waits for one of two", "protocol", ENTERED, "right", "0 of 3"),
    Mistake("gathered", "signals the same neighbour twice", "protocol", ENTERED, "right", "0 of 3"),
    Mistake("gathered", "to the device after next", "protocol", ENTERED, "wrong", "0 of 3"),
    Mistake("gathered", "the wrong part is passed on", "protocol", ORDER, "wrong", "3 of 3"),
    Mistake("gathered", "its own part is not awaited", "protocol", EARLY, "wrong", "3 of 3"),
    Mistake(
        "gathered", "one semaphore for all that arrive", "protocol", "3 copies arrive on recv_sem[0] of device 0",
        "wrong", "1 of 3",
    ),
    Mistake("gathered", "does not wait for what arrives", "protocol", EARLY, "wrong", "0 of 3"),
    Mistake("gathered", "does not wait for what it sends", "protocol", LEFT, "right", "0 of 3"),
    Mistake("gathered", "waits twice", "protocol", "16,384 are waited for", "hangs", "hangs"),
    Mistake(
        "gathered both ways", "both ways the same half", "protocol", "check where each copy writes", "wrong", "3 of 3"
    ),
    Mistake("reduced", "does not ask for room", "protocol", ORDER, "right", "3 of 3"),
    Mistake(
        "reduced", "one semaphore for all that arrive", "protocol", "tell its sender when the buffer is free",
        "wrong", "1 of 3",
    ),
    Mistake(
        "reduced", "writes before it is sent", "protocol", "writes sum_ref of device 0 at line", "wrong", "3 of 3"
    ),
    Mistake(
        "reduced", "says once more that there is room", "protocol", "room_sem of device 3 is left at 1", "right",
        "0 of 3",
    ),
    Mistake("multiplied", "does not ask for room", "protocol", ORDER, "either", "3 of 3"),
    Mistake("multiplied", "rows of the device to the right", "numbers", "at [16, 0], on device 0", "wrong", "0 of 3"),
)  # fmt: skip
