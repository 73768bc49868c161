"""What the exercises of lesson 13 demand."""

TITLE = "Flash attention"
GIVES = (
    "write attention that keeps its scores in VMEM, forwards and backwards, and make its units work at the same time."
)
NEEDS = (7, 8, 10)
HARDWARE = "The kernels run on it."
