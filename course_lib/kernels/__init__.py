"""Kernels, one file per family. ``python -m course_lib.kernels matmul`` prints one with all of ours that it needs."""
