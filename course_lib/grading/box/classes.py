"""What a program may consist of: operations by name, and the JAX classes that appear in their parameters.

The lists are closed. Nothing else can come out of a box: no callback, no foreign function, no Python object.
"""

import functools
import importlib

from jax._src import core

# The JAX modules that define the operations of kernels, and of the reshapes around them.
_MODULES = (
    "jax._src.ad_util",
    "jax._src.lax.ann",
    "jax._src.lax.control_flow.common",
    "jax._src.lax.control_flow.conditionals",
    "jax._src.lax.control_flow.loops",
    "jax._src.lax.convolution",
    "jax._src.lax.lax",
    "jax._src.lax.linalg",
    "jax._src.lax.slicing",
    "jax._src.lax.special",
    "jax._src.lax.windowed_reductions",
    "jax._src.pallas.core",
    "jax._src.pallas.mosaic.primitives",
    "jax._src.pallas.pallas_call",
    "jax._src.pallas.primitives",
    "jax._src.state.primitives",
)
# Those of them that leave the program: for another device, the host, or opaque code.
_BARRED = ("callback", "ffi", "custom_call", "infeed", "outfeed", "token", "debug_print", "barrier_semaphore")

# Classes whose fields may appear in a parameter, by the JAX module that has them; enums stand for their members.
_CLASSES = {
    "jax._src.core": ("MemorySpace",),
    "jax._src.indexing": ("Slice",),
    "jax._src.lax.convolution": ("ConvDimensionNumbers",),
    "jax._src.lax.lax": ("DotAlgorithm", "DotAlgorithmPreset", "Precision", "RoundingMethod"),
    "jax._src.lax.slicing": ("GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers"),
    "jax._src.pallas.core": (
        "BarrierSemaphore", "BlockMapping", "Blocked", "BoundedSlice", "Buffered", "CostEstimate", "DynamicGridDim",
        "Element", "GridMapping", "MemorySpace", "RevisitMode", "Semaphore", "Squeezed",
    ),
    "jax._src.pallas.mosaic.core": (
        "CompilerParams", "DMASemaphore", "GridDimensionSemantics", "MemorySpace", "SideEffectType",
    ),
    "jax._src.pallas.primitives": ("DeviceIdType",),
    "jax._src.state.indexing": ("NDIndexer", "Slice"),
    "jax._src.state.types": (
        "AccumEffect", "BitcastTransform", "ReadEffect", "RefEffect", "ReshapeTransform", "TransformedRef",
        "TransposeTransform", "WriteEffect",
    ),
}  # fmt: skip


@functools.cache
def operations() -> dict[str, core.Primitive]:
    """Return {name: operation} for everything that a program may do."""
    found = {}
    for name in _MODULES:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, core.Primitive) and not any(word in value.name for word in _BARRED):
                found[value.name] = value
    return found


@functools.cache
def classes() -> dict[str, type]:
    """Return {name: class}; the name includes the module, as in a node."""
    found = {}
    for module, names in _CLASSES.items():
        here = importlib.import_module(module)
        found |= {
            f"{module}.{name}": getattr(here, name) for name in names if isinstance(getattr(here, name, None), type)
        }
    return found


def name_of(kind: type) -> str | None:
    """Return the name that ``classes`` uses for a class; None if it is not listed."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name if classes().get(name) is kind else None
