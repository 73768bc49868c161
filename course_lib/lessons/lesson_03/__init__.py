"""What the exercises of lesson 3 demand."""

TITLE = "The roofline"
