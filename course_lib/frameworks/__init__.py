"""The kernels inside other frameworks. Each file imports its framework, so import the one you use."""
