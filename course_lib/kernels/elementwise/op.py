"""Elementwise ops for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Num
from course_lib.kernels.common import arguments, legal, portable
from course_lib.kernels.common.compiler_params import check_fits, vmem_limit
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.elementwise import mosaic_gpu
from course_lib.kernels.elementwise.blocks import blocks_of, seen_as, vmem_bytes
from course_lib.kernels.elementwise.kernel import KERNELS, Blocks, cast_reference, launch


def add(
    x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """Add two arrays of one shape and one dtype (f32, bf16, int32); differentiable.

    Runs the kernel on a TPU and plain JAX elsewhere. ``blocks`` None: those of ``blocks_for``. ``layout`` says how the
    arrays lie on a mesh with Auto axes. Raises ValueError if shapes or dtypes differ, or the blocks need more VMEM than
    there is.
    """
    return _add(*_ready("add", x, y, blocks, layout))


def subtract(
    x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """Subtract y from x; as ``add``."""
    return _subtract(*_ready("subtract", x, y, blocks, layout))


def multiply(
    x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """Multiply x by y, element by element; as ``add``."""
    return _multiply(*_ready("multiply", x, y, blocks, layout))


def cast(
    x: Num[Array, "*shape"], dtype: jax.typing.DTypeLike, *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """Convert x to ``dtype``; both may be f32, bf16, int32 and int8. Differentiable if both are floats.

    A float loses its fraction on the way to an integer, and values that ``dtype`` cannot hold give undefined results.
    Raises ValueError if a dtype is none of the four.
    """
    (x,) = arguments.arrays("cast", arguments.CASTABLE, x=x)
    dtype = _known_dtype(dtype)
    legal.check_kind("cast", blocks, Blocks)
    (x,), cuts = sharding.ready("cast", rule(1, x.ndim), (x,), layout)
    return x if x.dtype == dtype else _cast(x, x.dtype, dtype, blocks, cuts)


def _known_dtype(dtype) -> jnp.dtype:
    shown = legal.shown(dtype)
    try:
        # NumPy takes None for float64, and jnp.dtype of an array is the array's own.
        if dtype is not None and not hasattr(dtype, "ndim"):
            found = jnp.dtype(dtype)
            if found.name in arguments.CASTABLE:
                return found
            shown = found.name
    except TypeError:
        pass
    raise ValueError(f"cast: dtype is {shown}; it may be float32, bfloat16, int32 or int8. Try jnp.bfloat16.")


def blocks_for(x: Num[Described, "*shape"], y: Num[Described, "*shape"]) -> Blocks:
    """Return the blocks that ``add``, ``subtract`` and ``multiply`` choose; right for every chip."""
    return blocks_of(x.shape, x.dtype.itemsize)


def cast_blocks_for(x: Num[Described, "*shape"], dtype: jax.typing.DTypeLike) -> Blocks:
    """Return the blocks that ``cast`` chooses; right for every chip."""
    return blocks_of(x.shape, max(x.dtype.itemsize, jnp.dtype(dtype).itemsize))


@functools.partial(differentiable, settings=2)
def _add(x, y, blocks, cuts):
    return by_blocks("add", KERNELS["add"], lax.add, x, y, blocks=blocks, cuts=cuts)


@functools.partial(differentiable, settings=2)
def _subtract(x, y, blocks, cuts):
    return by_blocks("subtract", KERNELS["subtract"], lax.sub, x, y, blocks=blocks, cuts=cuts)


@functools.partial(differentiable, settings=2)
def _multiply(x, y, blocks, cuts):
    return by_blocks("multiply", KERNELS["multiply"], lax.mul, x, y, blocks=blocks, cuts=cuts)


@functools.partial(differentiable, settings=4)
def _cast(x, _, dtype, blocks, cuts):
    plain = fixed(cast_reference, dtype=dtype)
    return by_blocks("cast", KERNELS["cast"], plain, x, dtype=dtype, blocks=blocks, cuts=cuts)


def _cast_backward(was, dtype, blocks, cuts, _, g):
    floats = jnp.issubdtype(was, jnp.floating) and jnp.issubdtype(dtype, jnp.floating)
    return (_cast(g, dtype, was, blocks, cuts) if floats else None,)


_add.defvjp(lambda x, y, *how: (_add(x, y, *how), None), lambda blocks, cuts, _, g: (g, g))
_subtract.defvjp(lambda x, y, *how: (_subtract(x, y, *how), None), lambda blocks, cuts, _, g: (g, -g))
_multiply.defvjp(
    lambda x, y, *how: (_multiply(x, y, *how), (x, y)),
    lambda blocks, cuts, saved, g: (_multiply(g, saved[1], blocks, cuts), _multiply(g, saved[0], blocks, cuts)),
)
_cast.defvjp(lambda x, *how: (_cast(x, *how), None), _cast_backward)


def _ready(op: str, x: Array, y: Array, blocks: Blocks | None, layout: Layout) -> tuple:
    x, y = pair(op, x, y)
    legal.check_kind(op, blocks, Blocks)
    (x, y), cuts = sharding.ready(op, rule(2, x.ndim), (x, y), layout)
    return x, y, blocks, cuts


def pair(op: str, x: Array, y: Array) -> tuple[Array, Array]:
    """Return two operands as JAX arrays. Raises ValueError if shapes or dtypes differ, or ``op`` does not take them."""
    x, y = arguments.arrays(op, arguments.NUMBERS, x=x, y=y)
    if x.shape != y.shape:
        raise ValueError(f"{op}: x has shape {x.shape} and y {y.shape}; they must be equal. Try jnp.broadcast_to.")
    if x.dtype != y.dtype:
        raise ValueError(f"{op}: x is {x.dtype} and y {y.dtype}; they must be equal. Try y.astype(x.dtype).")
    return x, y


def rule(operands: int, rank: int) -> str:
    """Return the rule of an op on operands of one shape: any axis may be cut among devices, for all of them alike."""
    return ", ".join([mesh_rules.letters(rank)] * operands) + " -> " + mesh_rules.letters(rank)


def by_blocks(
    op: str,
    kernel: Callable,
    plain: Callable,
    *operands: Array,
    dtype=None,
    blocks: Blocks | None = None,
    cuts: mesh_rules.Cuts = None,
) -> Array:
    """Compute one array from ``operands`` of one shape: by ``kernel`` on a TPU, and by ``plain`` elsewhere.

    ``dtype`` is that of the result, if it is not the first operand's. ``kernel`` and ``plain`` are functions of a file,
    or ``launch.fixed`` ones.
    """
    x = operands[0]
    if not x.size:
        return plain(*operands)
    dtype = jnp.dtype(dtype or x.dtype)
    if blocks:
        _check(blocks, x.shape, [*(v.dtype for v in operands), dtype])
    how = {"kernel": kernel, "dtype": dtype, "blocks": blocks}
    launch_op = Op(
        name=op,
        rule=rule(len(operands), x.ndim),
        tpu=fixed(_on_tpu, **how),
        leading=() if blocks else tuple(range(len(operands))),
        tpu_mapped=fixed(_on_tpu, **how, mapped=True),
        gpu=fixed(mosaic_gpu.on_gpu, compute=plain, dtype=dtype, name=op),
        portable=fixed(portable.by_elements, kernel=kernel, dtype=dtype, name=op),
        plain=plain,
        dtypes=(dtype,),
        since=5 if x.ndim == 1 and dtype == jnp.int8 else 4,  # a v4 cannot write parts of a register of int8
    )
    return launch_op(*operands, cuts=cuts)


def _check(blocks: Blocks, shape: tuple[int, ...], dtypes: list[jnp.dtype]) -> None:
    """Raise ValueError if ``blocks`` are not legal for one of the dtypes, or need more VMEM than the chip has."""
    narrowest = min(dtypes, key=lambda dtype: dtype.itemsize)
    view, block = seen_as(shape, narrowest.itemsize, blocks, mapped=False)
    if len(view) == 2 and block[0] != view[0]:  # not the whole axis: one-byte rows come in multiples of 32
        legal.check(blocks, narrowest, bm=legal.step(-2, 2, narrowest), bn=legal.LANES)
    check_fits(blocks, vmem_bytes(block, [dtype.itemsize for dtype in dtypes]))


def _on_tpu(*operands: Array, kernel: Callable, dtype, blocks: Blocks | None, mapped: bool = False) -> Array:
    x, sizes = operands[0], [dtype.itemsize for dtype in (*(v.dtype for v in operands), dtype)]
    if blocks is None and is_by_columns(x.shape):
        transposed = (v.T for v in operands)
        return _on_tpu(*transposed, kernel=kernel, dtype=dtype, blocks=None, mapped=mapped).T
    view, block = seen_as(x.shape, min(sizes), blocks or blocks_of(x.shape, max(sizes)), mapped)
    limit = vmem_limit(vmem_bytes(block, sizes))
    return launch(kernel, *operands, view=view, block=block, dtype=dtype, vmem_limit_bytes=limit)
