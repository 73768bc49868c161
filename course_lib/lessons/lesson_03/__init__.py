"""What the exercises of lesson 3 demand."""

TITLE = "The roofline"
GIVES = "say how long an operation must take before anybody writes it, and whether a kernel is worth writing."
NEEDS = (1, 2)
HARDWARE = "You time the matmuls yourself."
