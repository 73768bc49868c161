"""How to call a kernel of another project, and what it should return. No line of the kernel is kept here."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
STYLES = (
    "pallas_call",
    "scalar prefetch",
    "emit_pipeline",
    "manual copies",
    "pl.kernel",
    "core_map",
    "aliases",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adapter:
    """One public kernel.

    ``load`` imports it and returns the function to judge; ``reference`` is plain JAX and returns the same arrays.
    ``args`` are small arrays or ``jax.ShapeDtypeStruct``s, for which random values are drawn; ``arrays`` describes
    them. ``path`` is the kernel's file in its project, ``style`` one or more of ``STYLES``. ``large``: the arguments
    for the predicted time; () if the small ones are used.
    """

    name: str
    path: str
    style: str
    load: Callable[[], Callable]
    reference: Callable
    args: Callable[[], tuple]
    arrays: str
    large: tuple = ()
    large_arrays: str = ""
    chip: str = "v5e"
    sparse_core: bool = False  # whether it runs on SparseCores, which have judges of their own

    def __post_init__(self) -> None:
        if unknown := set(self.style.split(", ")) - set(STYLES):
            raise ValueError(f"style of {self.name}: {sorted(unknown)} is not among {', '.join(STYLES)}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Project:
    """A public project. ``package``: the folder of its Python package in a clone, "" if the JAX wheel has it.

    ``stubs`` are the packages that it imports and its kernels do not use. ``whole`` are its own packages whose
    ``__init__.py`` is needed; the others are imported without theirs, which would import the whole project.
    """

    name: str  # owner/name
    adapters: tuple[Adapter, ...]
    package: str = ""
    stubs: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of its clone in the folder of clones."""
        return self.name.split("/")[1]


def array(*shape: int, dtype=F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)
