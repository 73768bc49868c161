"""What the exercises of lesson 1 demand."""

TITLE = "Hello, kernel"
