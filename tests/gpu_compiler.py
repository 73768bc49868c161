"""Tests that need the GPU's compiler, and say how to get it where it is not installed."""

import pytest

from course_lib.compiler.child import gpu_service

needs_gpu_compiler = pytest.mark.skipif(gpu_service.extra_folder() is None, reason=gpu_service.missing())
