"""The card that a compiler Report shows."""
