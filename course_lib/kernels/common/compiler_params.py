"""What a kernel requests from the compiler: VMEM for its blocks, and the semantics of its grid axes."""

from jax.experimental.pallas import tpu as pltpu

from course_lib.kernels.common import chip

_USUAL = 16 << 20  # what a v5e grants a kernel that requests nothing


def check_fits(blocks, needed: int) -> None:
    """Raise ValueError if ``blocks`` need more bytes of VMEM than the chip has."""
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"{blocks} needs {_mebibytes(needed)} of VMEM, and the chip has {_mebibytes(chip.vmem_bytes())}. "
            "Try smaller ones, or leave blocks out."
        )


def vmem_limit(needed: int) -> int:
    """Return the bytes of VMEM to ask for if blocks take ``needed`` bytes: a quarter more, and at least the usual."""
    return min(max(needed * 5 // 4, _USUAL), chip.vmem_bytes())


def compiler_params(needed: int, *semantics: str) -> pltpu.CompilerParams:
    """Return parameters with ``semantics`` of grid axes, and VMEM for ``needed`` bytes of blocks plus a quarter."""
    return pltpu.CompilerParams(dimension_semantics=semantics, vmem_limit_bytes=vmem_limit(needed))


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
