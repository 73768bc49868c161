"""What the exercises of lesson $n demand."""

TITLE = "$title"
GIVES = "double a vector, and then what you will write here."
NEEDS = (1,)
HARDWARE = "The kernels run on it."
