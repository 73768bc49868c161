"""What the exercises of lesson 8 demand."""

TITLE = "Control flow and masks"
GIVES = "double a vector, and then what you will write here."
NEEDS = (1,)
HARDWARE = "The kernels run on it."
