"""The card that shows a compiler Report."""
