"""Kernels, one file per family. Each file stands alone: paste it into an empty notebook and it works."""
