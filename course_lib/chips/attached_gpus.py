"""The GPUs of this machine, and which kernels each can run."""

import contextlib
import dataclasses
import subprocess

_QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")
_LIMIT_S = 20


@dataclasses.dataclass(frozen=True)
class AttachedGpu:
    """A GPU as its driver names it, with its compute capability: (9, 0) is Hopper."""

    kind: str
    capability: tuple[int, int]

    @property
    def runs(self) -> str:
        """Which Pallas kernels the GPU runs, and why it does not run the others."""
        if self.capability < (8, 0):
            return "no kernels, only plain JAX: Pallas begins with Ampere (8.0)"
        if self.capability < (9, 0):
            return "pl.pallas_call, by Triton, which JAX has deprecated; plgpu.kernel begins with Hopper (9.0)"
        wgmma = ", wgmma and TMA" if self.capability == (9, 0) else ", without wgmma, which only Hopper has"
        return f"plgpu.kernel, by Mosaic GPU{wgmma}; pl.pallas_call, by Triton, which JAX has deprecated"

    def __str__(self) -> str:
        return f"{self.kind} ({'.'.join(map(str, self.capability))}) runs {self.runs}"


def attached_gpus() -> list[AttachedGpu]:
    """Return the NVIDIA GPUs that ``nvidia-smi`` lists; none if it is not installed or does not answer."""
    try:
        said = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    for line in said.splitlines():
        kind, _, capability = line.rpartition(", ")
        with contextlib.suppress(ValueError):  # drivers from before 2021 cannot report compute_cap
            major, minor = map(int, capability.split("."))
            found.append(AttachedGpu(kind, (major, minor)))
    return found
