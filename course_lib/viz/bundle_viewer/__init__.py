"""The compiled program of a kernel, bundle by bundle."""
