"""The error of a matmul beside its cost: ``precision_explorer``."""
