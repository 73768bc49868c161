"""What the exercises of lesson 10 demand."""

TITLE = "Backward kernels"
GIVES = "make any kernel differentiable, judge its gradient, and train with it in a Keras layer."
NEEDS = (1, 7, 9)
HARDWARE = "The layer trains on it."
