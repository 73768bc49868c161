"""The units of a TensorCore, by the names that Reports use, in the order of the pictures."""

DOES = {
    "MXU": "multiplies matrices",
    "XLU": "moves data between lanes",
    "VPU": "vector arithmetic",
    "EUP": "exp, tanh, 1/x ...",
    "pop": "fetches results of MXU and XLU",
    "load": "VMEM to registers",
    "store": "registers to VMEM",
    "scalar": "addresses, loops, copies",
    "DMA": "starts copies, and waits for them",
}
SPILLS = ("spill", "fill")  # not units: counts of stores and loads that save and restore registers


def in_order(units) -> list[str]:
    """Sort units in the order of ``DOES``, without the spill counts; unknown units come last, by name."""
    known = list(DOES)
    return sorted(set(units) - set(SPILLS), key=lambda u: (known.index(u) if u in DOES else len(known), u))
