"""What the exercises of lesson 11 demand."""

TITLE = "Debug, profile, autotune"
GIVES = "find why a kernel is wrong or slow, choose its blocks by a search, and keep it right and fast with a test."
NEEDS = (4, 5, 7)
HARDWARE = "A profile of your own, of the chip; here you read one of a CPU, and one that is predicted."
