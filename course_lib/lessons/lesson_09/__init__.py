"""What the exercises of lesson 9 demand."""

TITLE = "Fusion"
GIVES = "tell what XLA fuses by itself, fuse what it does not, and say honestly whether that pays."
NEEDS = (3, 4, 5, 7)
HARDWARE = "You time the opening's fused layer and XLA's."
