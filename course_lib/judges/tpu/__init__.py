"""The judges of a kernel for a TPU, one a file; each has a function ``ask(trial)`` that returns its verdict."""
