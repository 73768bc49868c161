"""Arguments and references of the exercises that sum a matrix in chunks of 16 rows."""

from course_lib.checks.inputs import arguments


def in_chunks() -> list[tuple]:
    """Return matrices of four chunks, one and five, with columns in whole tiles as manual copies require."""
    return arguments(("x: f32[M,N]",), ({"M": 64, "N": 256}, {"M": 16, "N": 128}, {"M": 80, "N": 384}))


def folded(x):
    """Return the sum of the chunks of 16 rows: x[16 n, N] -> [16, N]."""
    return x.reshape(-1, 16, x.shape[1]).sum(axis=0)
