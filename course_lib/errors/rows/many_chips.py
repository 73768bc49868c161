"""Kernels that talk to other chips: their barrier semaphore and its id, and semaphores that cannot be signalled."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "barrier-without-id",
        r"collective_id has to be specified when using a custom barrier",
        "The kernel uses the barrier semaphore, but its pallas_call has no collective_id, which says which semaphore "
        "that is.",
        "pass compiler_params=pltpu.CompilerParams(collective_id=0); or leave the barrier out, because without a "
        "collective_id Pallas lets all devices meet before the kernel begins.",
    ),
    Row(
        "id-without-barrier",
        r"collective_id has to be unspecified or None when not using a custom barrier",
        "The pallas_call has a collective_id, which promises that the kernel lets its devices meet, but the kernel "
        "does not use the barrier semaphore.",
        "signal the devices that you copy to or that copy to you, with pltpu.get_barrier_semaphore(), and wait for "
        "their signals; or leave collective_id out, and Pallas lets all devices meet.",
    ),
    Row(
        "signal-of-a-copy-s-semaphore",
        r"Must signal semaphores of the following types: .*Got dma_sem",
        "The kernel calls pl.semaphore_signal on a DMA semaphore, which only copies can signal.",
        "signal the barrier semaphore, or scratch of type pltpu.SemaphoreType.REGULAR.",
    ),
)
