"""What the projects of lesson 18 demand."""

TITLE = "Capstone"
GIVES = "take a kernel of your own from its contract to a time near its ideal, and show that it is right."
NEEDS = (7, 9, 10, 11, 12, 13, 16)
HARDWARE = "The kernels run on it."
