"""What the exercises of lesson $n demand."""

TITLE = "$title"
