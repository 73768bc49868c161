"""What the exercises of lesson 1 demand."""

TITLE = "Hello, kernel"
GIVES = "write a kernel, call it in four ways, and read what the judges say."
NEEDS = ()
HARDWARE = "Your kernels run on it."
