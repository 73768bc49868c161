"""The units of a TensorCore, as Reports name them, in the order in which pictures show them."""

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
SPILLS = ("spill", "fill")  # counts of loads and stores that save and restore registers, not units


def in_order(units) -> list[str]:
    """The units as ``DOES`` lists them, without the counts of spills; strangers come last, by name."""
    known = list(DOES)
    return sorted(set(units) - set(SPILLS), key=lambda u: (known.index(u) if u in DOES else len(known), u))
