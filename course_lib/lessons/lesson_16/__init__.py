"""What the exercises of lesson 16 demand."""

TITLE = "Many cores, many chips"
GIVES = "share a grid between two cores, and copy to other chips while you compute."
NEEDS = (4, 5, 7)
HARDWARE = "Nothing more: its kernels need four chips."
