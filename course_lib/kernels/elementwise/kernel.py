"""Elementwise kernels: ``o[i] = x[i] + y[i]`` and its siblings, for arrays of any shape.

Cost   FLOPs one per element, none for ``cast``
       HBM bytes size * (sum of the itemsizes of all operands): every element is read once, or written once
VMEM   2 * bm * bn * (sum of the itemsizes): each block is held twice so that copies overlap work

An array of one axis is cut into blocks of bm * bn elements; one of more axes is seen as (M, N), N its last axis,
and cut into (bm, bn). A block that reaches past the edge is no trouble: what is read there is garbage, and what
is written there is dropped.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels.common import arguments, legal, portable
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import cut, is_known, planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.elementwise import mosaic_gpu as elementwise_gpu


def add_reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """What ``add`` must compute."""
    return x + y


def subtract_reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """What ``subtract`` must compute."""
    return x - y


def multiply_reference(x: Num[Array, "*shape"], y: Num[Array, "*shape"]) -> Num[Array, "*shape"]:
    """What ``multiply`` must compute."""
    return x * y


def cast_reference(x: Num[Array, "*shape"], dtype: jax.typing.DTypeLike) -> Num[Array, "*shape"]:
    """What ``cast`` must compute."""
    return x.astype(dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows, and elements of the last axis. They never change the result, only the speed.

    Legal: bm a multiple of 8 (16 for two-byte types fills whole registers; 32 where one type is int8), bn a multiple
    of 128. A block is cut down to an array that is smaller. 256 x 1024 in f32 takes 6 MiB of VMEM for three operands.
    """

    bm: int = 256
    bn: int = 1024

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES, bn=legal.LANES)


def _add_kernel(x_ref: Num[Ref, "*block"], y_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...] + y_ref[...]


def _subtract_kernel(x_ref: Num[Ref, "*block"], y_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...] - y_ref[...]


def _multiply_kernel(x_ref: Num[Ref, "*block"], y_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...] * y_ref[...]


def _cast_kernel(x_ref: Num[Ref, "*block"], o_ref: Num[Ref, "*block"]) -> None:
    o_ref[...] = x_ref[...].astype(o_ref.dtype)


def add(
    x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """``x + y`` for two arrays of one shape and one dtype (f32, bf16, int32), differentiable.

    Runs the kernel on a TPU and plain JAX elsewhere; ``blocks`` are chosen by ``blocks_for`` unless given, and
    ``layout`` says how the arrays lie on a mesh with Auto axes. Raises ValueError where shapes or dtypes differ, or the
    blocks need more VMEM than there is.
    """
    return _add(*_ready("add", x, y, blocks, layout))


def subtract(
    x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """``x - y``; as ``add``."""
    return _subtract(*_ready("subtract", x, y, blocks, layout))


def multiply(
    x: Num[Array, "*shape"], y: Num[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """``x * y``; as ``add``."""
    return _multiply(*_ready("multiply", x, y, blocks, layout))


def cast(
    x: Num[Array, "*shape"], dtype: jax.typing.DTypeLike, *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*shape"]:
    """``x`` as ``dtype``, for f32, bf16, int32 and int8 either way. Differentiable where both are floats.

    Floats lose their fraction on the way to integers; what does not fit into ``dtype`` is not defined. Raises
    ValueError where a dtype is none of the four.
    """
    (x,) = arguments.arrays("cast", arguments.CASTABLE, x=x)
    dtype = _known_dtype(dtype)
    legal.check_kind("cast", blocks, Blocks)
    (x,), cuts = sharding.ready("cast", rule(1, x.ndim), (x,), layout)
    return x if x.dtype == dtype else _cast(x, x.dtype, dtype, blocks, cuts)


def _known_dtype(dtype) -> jnp.dtype:
    shown = legal.shown(dtype)
    try:
        if dtype is not None and not hasattr(dtype, "ndim"):  # NumPy takes None for float64, JAX arrays for their own
            found = jnp.dtype(dtype)
            if found.name in arguments.CASTABLE:
                return found
            shown = found.name
    except TypeError:
        pass
    raise ValueError(f"cast: dtype is {shown}; it may be float32, bfloat16, int32 or int8. Try jnp.bfloat16.")


def blocks_for(x: Num[Described, "*shape"], y: Num[Described, "*shape"]) -> Blocks:
    """The blocks that ``add``, ``subtract`` and ``multiply`` choose for these arguments; right for every chip."""
    return blocks_of(x.shape, x.dtype.itemsize)


def cast_blocks_for(x: Num[Described, "*shape"], dtype: jax.typing.DTypeLike) -> Blocks:
    """The blocks that ``cast`` chooses; right for every chip."""
    return blocks_of(x.shape, max(x.dtype.itemsize, jnp.dtype(dtype).itemsize))


def blocks_of(shape: tuple[int, ...], itemsize: int) -> Blocks:
    """Blocks for operands of ``shape`` whose widest has ``itemsize`` bytes an element.

    A block has about 1 MiB, so that five operands fit into the 16 MiB that a kernel has on every TPU; less where the
    array is small, for the first copy in and the last one out have no work to hide behind. Predicted for ``add`` of
    f32 (8192, 2048) on a v5e: 118k cycles with 256 rows, 236k with 32 and 680k with 8, where HBM needs 369k.
    """
    shape = planned(shape)
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    elements = min(2**20 // itemsize, max(2**19 // itemsize, math.prod(shape) // 4))
    rows, columns = (-(-n // tile) * tile for n, tile in ((rows, legal.SUBLANES), (columns, legal.LANES)))
    bn = min(columns, max(2048, elements // rows // 128 * 128))
    bn = -(-columns // -(-columns // bn) // 128) * 128  # equal parts: past the edge a block is computed in full, too
    bm = min(rows, max(32, elements // bn // 32 * 32))  # whole registers, also of one-byte types
    return Blocks(bm=bm, bn=bn)


@functools.partial(differentiable, settings=2)
def _add(x, y, blocks, cuts):
    return by_blocks("add", _add_kernel, lax.add, x, y, blocks=blocks, cuts=cuts)


@functools.partial(differentiable, settings=2)
def _subtract(x, y, blocks, cuts):
    return by_blocks("subtract", _subtract_kernel, lax.sub, x, y, blocks=blocks, cuts=cuts)


@functools.partial(differentiable, settings=2)
def _multiply(x, y, blocks, cuts):
    return by_blocks("multiply", _multiply_kernel, lax.mul, x, y, blocks=blocks, cuts=cuts)


@functools.partial(differentiable, settings=4)
def _cast(x, _, dtype, blocks, cuts):
    plain = fixed(cast_reference, dtype=dtype)
    return by_blocks("cast", _cast_kernel, plain, x, dtype=dtype, blocks=blocks, cuts=cuts)


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
    """Two operands of ``op``. Raises ValueError where they differ in shape or dtype, or it does not take them."""
    x, y = arguments.arrays(op, arguments.NUMBERS, x=x, y=y)
    if x.shape != y.shape:
        raise ValueError(f"{op}: x has shape {x.shape} and y {y.shape}; they must be equal. Try jnp.broadcast_to.")
    if x.dtype != y.dtype:
        raise ValueError(f"{op}: x is {x.dtype} and y {y.dtype}; they must be equal. Try y.astype(x.dtype).")
    return x, y


def rule(operands: int, rank: int) -> str:
    """The rule of an op on operands of one shape: any axis may be cut among devices, for all of them alike."""
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
    """One array from ``operands`` of one shape: by ``kernel``, block by block, on a TPU, and by ``plain`` elsewhere.

    ``dtype`` is that of the result, if it is not the first operand's. ``kernel`` and ``plain`` are functions of a file,
    or ``launch.fixed`` ones.
    """
    x = operands[0]
    if not x.size:
        return plain(*operands)
    dtype = dtype or x.dtype
    _cut(blocks, dtype, *operands)
    how = {"kernel": kernel, "dtype": dtype, "blocks": blocks}
    launch = Op(
        name=op,
        rule=rule(len(operands), x.ndim),
        tpu=fixed(_on_tpu, **how),
        leading=() if blocks else tuple(range(len(operands))),
        tpu_mapped=fixed(_on_tpu, **how, mapped=True),
        gpu=fixed(elementwise_gpu.on_gpu, compute=plain, dtype=dtype, name=op),
        portable=fixed(portable.by_elements, kernel=kernel, dtype=dtype, name=op),
        plain=plain,
        since=5 if x.ndim == 1 and dtype == jnp.int8 else 4,  # a v4 cannot write parts of a register of int8
    )
    return launch(*operands, cuts=cuts)


def _cut(
    blocks: Blocks | None, dtype, *operands: Array, mapped: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The shape that the operands are seen as, that of their blocks, and the bytes of VMEM that these take."""
    x = operands[0]
    dtypes = [*(v.dtype for v in operands), jnp.dtype(dtype)]
    sizes = [dtype.itemsize for dtype in dtypes]
    blocks = blocks or blocks_of(x.shape, max(sizes))
    flat, block = seen_as(x.shape, min(sizes), blocks, mapped)
    if len(flat) == 2 and block[0] != flat[0]:  # not the whole axis: of one-byte numbers it must be a multiple of 32
        narrowest = min(dtypes, key=lambda dtype: dtype.itemsize)
        legal.check(blocks, narrowest, bm=legal.step(-2, 2, narrowest), bn=legal.LANES)
    needed = vmem_bytes(block, sizes)
    check_fits(blocks, needed)
    return flat, block, needed


def seen_as(
    shape: tuple[int, ...], itemsize: int, blocks: Blocks, mapped: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How an array is cut whose narrowest dtype has ``itemsize`` bytes: the shape it is seen as, and its blocks'.

    ``mapped``: jax.vmap is to add an axis.
    """
    if len(shape) != 1:
        flat = math.prod(shape[:-1]), (shape[-1] if shape else 1)
        return flat, (cut(blocks.bm, flat[0]), cut(blocks.bn, flat[1]))
    length = blocks.bm * blocks.bn
    chunk = legal.step(0, 1)
    block = shape[0] if cut(length, shape[0]) == shape[0] else max(chunk, length // chunk * chunk)
    # A vector of four-byte numbers lies in memory as a row of a matrix does, if it fills its tiles. Else that view
    # costs a copy, which only jax.vmap is worth: it puts more rows beside this one, and no vector can be a block then.
    is_row = itemsize == 4 and is_known(shape[0]) and shape[0] % chunk == 0
    return ((1, shape[0]), (1, block)) if mapped or is_row else (shape, (block,))


def vmem_bytes(block: tuple[int, ...], itemsizes: list[int]) -> int:
    """VMEM that blocks of one shape take: each twice, their last axis padded to 128 elements."""
    return 2 * sum(itemsizes) * math.prod(block[:-1]) * -(-block[-1] // 128) * 128


def _on_tpu(*operands: Array, kernel: Callable, dtype, blocks: Blocks | None, mapped: bool = False) -> Array:
    x = operands[0]
    if blocks is None and is_by_columns(x.shape):
        return _on_tpu(*(v.T for v in operands), kernel=kernel, dtype=dtype, blocks=None, mapped=mapped).T
    flat, block, needed = _cut(blocks, dtype, *operands, mapped=mapped)
    spec = pl.BlockSpec(block, lambda *step: step)
    return pl.pallas_call(
        kernel,
        out_shape=out_type(x, flat, dtype),
        grid=tuple(pl.cdiv(n, b) for n, b in zip(flat, block, strict=True)),
        in_specs=[spec] * len(operands),
        out_specs=spec,
        compiler_params=compiler_params(needed, *["parallel"] * len(flat)),
    )(*(v.reshape(flat) for v in operands)).reshape(x.shape)
