"""What the exercises of lesson 5 ask for."""

TITLE = "Pipelining and VMEM"
GIVES = "copy by hand and overlap copies with work, count VMEM to the byte, and say how long a step takes."
NEEDS = (2, 3, 4)
HARDWARE = "One cell under Further measures the times that the compiler predicts."
