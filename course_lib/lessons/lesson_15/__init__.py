"""What the exercises of lesson 15 demand."""

TITLE = "Grouped matmul"
GIVES = "multiply the rows of each expert by a matrix of its own, however many rows it gets."
NEEDS = (4, 7, 9, 12)
HARDWARE = "The kernels run on it."
