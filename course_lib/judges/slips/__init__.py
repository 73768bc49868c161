"""Likely mistakes, computed from the reference, to name the one that was made."""
