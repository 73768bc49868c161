"""The cost of each operation as a bar: ``cost_bars``."""
