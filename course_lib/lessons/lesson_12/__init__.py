"""What the exercises of lesson 12 demand."""

TITLE = "Scalar prefetch"
GIVES = "write kernels in which data decides which block comes next, and multiply block-sparse matrices."
NEEDS = (4, 5, 7, 8)
HARDWARE = "The kernels run on it."
