"""One matmul on a TPU, on a Hopper GPU and on an Ampere GPU, side by side: ``three_engines``."""
