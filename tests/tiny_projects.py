"""Two small projects, of the tiny kernels."""

import jax
import jax.numpy as jnp
from tiny_kernels import averaging, decaying

from course_lib.checks.kinds.golf import Golf
from course_lib.checks.kinds.project import Ideal, Project


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def a_project(**changed):
    """The decaying sum."""
    declared = {
        "kind": "project",
        "golf": Golf(unit="cycles", par=60_000, at=lambda: (f32(256, 256),)),
        "project": Project(
            ideal=Ideal(hbm_bytes=2 * 256 * 256 * 4), xla_s=1e-3, xla_by="by its bytes",
            shapes=(lambda: (f32(256, 256),), lambda: (f32(128, 512),)),
        ),
    }  # fmt: skip
    return decaying(**declared | changed)


def another_project(**changed):
    """The mean of ragged rows."""
    declared = {
        "kind": "project",
        "golf": Golf(unit="cycles", par=60_000, at=lambda: (f32(256, 1000),)),
        "project": Project(ideal=Ideal(hbm_bytes=256 * 1024 * 4)),
    }
    return averaging(**declared | changed)
