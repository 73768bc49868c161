"""How much a process in a box may have of everything."""

import dataclasses
import resource

UNLIMITED = resource.RLIM_INFINITY


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one process and all that it starts; ``disk_bytes`` is all that lies in its /tmp, and counts as memory."""

    memory_bytes: int
    processes: int  # threads count: JAX has a dozen
    disk_bytes: int
    address_bytes: int = UNLIMITED  # of each process: JAX reserves far more than it uses
    cpu_s: int = UNLIMITED  # of each process

    def set(self) -> None:
        """Set the kernel's own limits for this process; called in the child, before it is in the box."""
        for what, most in (
            (resource.RLIMIT_AS, self.address_bytes),
            (resource.RLIMIT_CPU, self.cpu_s),
            (resource.RLIMIT_FSIZE, self.disk_bytes),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(what, (most, most))


STUDENT = Limits(memory_bytes=2 << 30, processes=128, disk_bytes=64 << 20, address_bytes=16 << 30, cpu_s=900)
# Its compilers are processes of its own, which reserve much; no student's code runs in any of them.
JUDGE = Limits(memory_bytes=6 << 30, processes=1024, disk_bytes=1 << 30)
