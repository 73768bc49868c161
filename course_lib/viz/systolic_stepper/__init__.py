"""A systolic array, cycle by cycle."""
