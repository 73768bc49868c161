"""A systolic array, cycle by cycle: ``systolic_stepper``."""
