"""What every test shares: the CPU, and a machine that keeps none of our processes."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
os.environ["COURSE_PROGRESS"] = "0"
os.environ["COURSE_RECORD"] = "0"
os.environ.pop("COURSE_GRADING", None)

import pytest

from course_lib import compiler

needs_libtpu = pytest.mark.skipif(compiler.libtpu_version() is None, reason=compiler.tpu.missing_libtpu())
