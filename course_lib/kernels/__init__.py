"""Kernels, one folder per family. ``python -m course_lib.kernels matmul`` prints the page of one, for JAX alone."""


def __getattr__(name: str):
    """Return ``kernels.launch``, which has ``gpu_kernels``: the public name of a file that lies in ``dispatch``."""
    if name != "launch":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from course_lib.kernels.dispatch import launch

    return launch
