"""The resources that a process in a box may use."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one process and all that it starts; ``disk_bytes`` is the size of its /tmp, which counts as memory."""

    memory_bytes: int
    processes: int  # threads count: JAX has a dozen
    disk_bytes: int
    address_bytes: int | None = None  # per process: JAX reserves far more than it uses
    cpu_s: int | None = None  # per process

    def command(self, groups: list) -> list[str]:
        """Return a shell command prefix that sets these limits, so that none of our code runs between fork and exec.

        ``groups`` are the files that put a process into its control groups.
        """
        enter = [f'echo 0 > "{file}" || exit 1' for file in groups]
        own = {
            "-f": self.disk_bytes // 512,
            "-c": 0,
            "-v": self.address_bytes and self.address_bytes // 1024,
            "-t": self.cpu_s,
        }
        limit = [f"ulimit {flag} {most}" for flag, most in own.items() if most is not None]
        return ["/bin/sh", "-c", "; ".join([*enter, *limit, 'exec "$@"']), "sh"]


STUDENT = Limits(memory_bytes=640 << 20, processes=128, disk_bytes=64 << 20, address_bytes=16 << 30, cpu_s=900)
# A judge's compilers are processes of their own that reserve a lot of memory; no student's code runs in them.
JUDGE = Limits(memory_bytes=4 << 30, processes=1024, disk_bytes=1 << 30)
