"""What the exercises of lesson 2 demand."""

TITLE = "The machine"
GIVES = "name the unit and the memory behind each line of a kernel, read the compiled program, and say what binds it."
NEEDS = (1,)
HARDWARE = "The kernels run on it; no cell is timed."
