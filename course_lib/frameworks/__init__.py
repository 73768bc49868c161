"""The kernels inside other frameworks. Each module imports its framework, so import only the one you use."""
