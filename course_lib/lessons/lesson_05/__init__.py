"""What the exercises of lesson 5 demand."""

TITLE = "Pipelining and VMEM"
