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
    "jax._src.lax.control_flow.solves",
    "jax._src.lax.convolution",
    "jax._src.lax.fft",
    "jax._src.lax.lax",
    "jax._src.lax.linalg",
    "jax._src.lax.slicing",
    "jax._src.lax.special",
    "jax._src.lax.windowed_reductions",
    "jax._src.pallas.core",
    "jax._src.pallas.mosaic.primitives",
    "jax._src.pallas.mpmd",
    "jax._src.pallas.pallas_call",
    "jax._src.pallas.primitives",
    "jax._src.random.core",
    "jax._src.random.philox2x32",
    "jax._src.random.philox4x32",
    "jax._src.random.prng",
    "jax._src.random.threefry2x32",
    "jax._src.random.threefry4x32",
    "jax._src.state.primitives",
)
# Operations from modules that also define others, which may not leave: mutable arrays, and sums over a mapped axis.
_SINGLE = {
    "jax._src.core": ("freeze", "new_ref"),
    "jax._src.lax.parallel": ("axis_index", "pmax", "pmin", "psum"),
}
# Operations of SparseCores and of GPUs, several of which have the name of another one: the prefix of their names here,
# and which may leave. None that holds code of its own (inline_mgpu), prints, or reaches another device.
_ENGINES = {
    "jax._src.pallas.mosaic.sc_primitives": ("sc.", None),
    "jax._src.pallas.mosaic_gpu.core": ("gpu.", ("layout_cast",)),
    "jax._src.pallas.mosaic_gpu.primitives": (
        "gpu.",
        (
            "barrier_arrive", "barrier_wait", "commit_group", "commit_smem", "copy_gmem_to_smem", "copy_smem_to_gmem",
            "load", "set_max_registers_p", "wait_smem_to_gmem", "wgmma_accumulator_deref_p",
            "wgmma_accumulator_store_p", "wgmma_ref", "wgmma", "wgmma_wait",
        ),
    ),
}  # fmt: skip
# Those of them that leave the program: for another device, the host, or opaque code.
_BARRED = ("callback", "ffi", "custom_call", "infeed", "outfeed", "token", "debug_print")

# Calls that are inlined, with the parameter that holds what they call. A custom batching rule has been applied before.
CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat2": "jaxpr",
    "custom_vmap_call": "call",
}  # fmt: skip
# Operations that only show something and are left out, and those that return their inputs as they are.
SHOWS = ("debug_print", "debug_callback", "inspect_sharding")
KEEPS = ("device_put", "name", "sharding_constraint")

# Classes whose fields may appear in a parameter, by the JAX module that has them; enums stand for their members.
_CLASSES = {
    "jax._src.core": ("MemorySpace",),
    "jax._src.indexing": ("Slice",),
    "jax._src.lax.control_flow.solves": ("_LinearSolveTuple",),
    "jax._src.lax.convolution": ("ConvDimensionNumbers",),
    "jax._src.lax.fft": ("FftType",),
    "jax._src.lax.lax": (
        "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision", "RaggedDotDimensionNumbers",
        "RandomAlgorithm", "RoundingMethod",
    ),
    "jax._src.lax.slicing": ("GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers"),
    "jax._src.pallas.core": (
        "BarrierSemaphore", "BlockMapping", "Blocked", "BoundedSlice", "Buffered", "CostEstimate", "DynamicGridDim",
        "Element", "GridMapping", "MemorySpace", "RevisitMode", "Semaphore", "Squeezed",
    ),
    "jax._src.pallas.mosaic.core": (
        "CompilerParams", "DMASemaphore", "GridDimensionSemantics", "MemorySpace", "SideEffectType", "TensorCoreMesh",
    ),
    "jax._src.pallas.mosaic.sc_core": ("Indices", "ScalarSubcoreMesh", "VectorSubcoreMesh"),
    "jax._src.pallas.mosaic.sc_primitives": ("PackFormat",),
    "jax._src.pallas.mosaic_gpu.core": (
        "BarrierType", "CompilerParams", "Layout", "MemorySpace", "Mesh", "ReducedLayout", "SwizzleTransform",
        "TilingTransform", "UnswizzleRef", "UntilingTransform",
    ),
    "jax._src.pallas.primitives": ("DeviceIdType",),
    "jax._src.state.indexing": ("NDIndexer", "Slice"),
    "jax._src.state.types": (
        "AccumEffect", "BitcastTransform", "ReadEffect", "RefEffect", "ReshapeTransform", "TransformedRef",
        "TransposeTransform", "WriteEffect",
    ),
}  # fmt: skip

# References to what is no memory: the accumulator of a GPU's matrix unit.
ACCUMULATOR = "accumulator"


def accumulator_type() -> type | None:
    """Return the class of the type of an accumulator of wgmma; None if this JAX has none."""
    return getattr(importlib.import_module("jax._src.pallas.mosaic_gpu.core"), "WGMMAAbstractAccumulatorRef", None)


# Effects besides those on refs, which are classes above: random numbers, waiting, traces, copies, mutable arrays.
_EFFECTS = {
    "jax._src.core": ("InternalMutableArrayEffect",),
    "jax._src.pallas.core": ("CommsEffect",),
    "jax._src.pallas.mosaic.primitives": ("MXUEffect", "PRNGEffect", "TraceEffect"),
    "jax._src.pallas.mosaic.sc_primitives": ("MemoryEffect",),
    "jax._src.pallas.mosaic_gpu.core": ("MemoryEffect", "_WGMMAPipelineEffect"),
    "jax._src.pallas.primitives": ("DelayEffect", "SemaphoreEffect"),
}
SHOWN = ("DebugEffect", "ErrorEffect", "OrderedDebugEffect")  # of what is left out, and left out with it


@functools.cache
def operations() -> dict[str, core.Primitive]:
    """Return {name: operation} for everything that a program may do."""
    wanted = {module: ("", only) for module, only in (dict.fromkeys(_MODULES) | _SINGLE).items()} | _ENGINES
    found = {}
    for module, (prefix, only) in wanted.items():
        for value in vars(importlib.import_module(module)).values():
            if not isinstance(value, core.Primitive) or any(word in value.name for word in _BARRED):
                continue
            if only is None or value.name in only:
                found[f"{prefix}{value.name}"] = value
    return found


@functools.cache
def _names() -> dict[core.Primitive, str]:
    return {operation: name for name, operation in operations().items()}


def operation_name(operation: core.Primitive) -> str | None:
    """Return the name that ``operations`` uses for an operation; None if it is not listed."""
    return _names().get(operation)


@functools.cache
def effects() -> dict[str, object]:
    """Return {name: JAX's one instance of the effect} for those that concern no ref."""
    found = {}
    for module, names in _EFFECTS.items():
        here = importlib.import_module(module)
        found |= {f"{module}.{name}": only_one(getattr(here, name)) for name in names if hasattr(here, name)}
    return found


def only_one(kind: type) -> object | None:
    """Return the instance of a class that its own module keeps, and JAX compares with ``is``; None if it keeps none."""
    here = vars(importlib.import_module(kind.__module__)).values()
    return next((value for value in here if type(value) is kind), None)


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
