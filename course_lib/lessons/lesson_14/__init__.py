"""What the exercises of lesson 14 demand."""

TITLE = "Paged attention"
GIVES = "double a vector, and then what you will write here."
NEEDS = (1,)
HARDWARE = "The kernels run on it."
