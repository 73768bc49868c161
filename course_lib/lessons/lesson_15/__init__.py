"""What the exercises of lesson 15 demand."""

TITLE = "Grouped matmul"
GIVES = "double a vector, and then what you will write here."
NEEDS = (1,)
HARDWARE = "The kernels run on it."
