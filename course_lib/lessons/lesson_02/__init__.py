"""What the exercises of lesson 2 demand."""

TITLE = "The machine"
