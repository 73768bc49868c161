"""What the exercises of lesson 14 demand."""

TITLE = "Paged attention"
GIVES = "keep keys and values in pages, and write the kernel that reads them for every token that a model writes."
NEEDS = (5, 8, 12, 13)
HARDWARE = "The kernels run on it."
