"""What the exercises of lesson 17 demand."""

TITLE = "Other engines"
GIVES = "write kernels for SparseCores and for a Hopper GPU, and call your kernels from PyTorch."
NEEDS = (5, 7, 10, 12)
HARDWARE = "Nothing more: its kernels run elsewhere."
