"""An array in its vector registers."""
