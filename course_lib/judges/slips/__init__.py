"""Likely mistakes, computed through the reference, to name the one that was made."""
