"""A kernel's grid, step by step: ``grid_player``."""
