"""What the exercises of lesson 11 demand."""

TITLE = "Debug, profile, autotune"
GIVES = "find out why a kernel is wrong or slow, choose its blocks by a search, and keep it right and fast with a test."
NEEDS = (4, 5, 7)
HARDWARE = "A profile of the chip itself; without one you read a profile of a CPU and a predicted one."
