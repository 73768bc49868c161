"""What each engine can do, with the reason for every cell: ``capability_matrix``."""
