"""The kernel calls of a traced function, with their index maps evaluated over the whole grid."""

import functools
import math
from collections.abc import Callable, Iterator

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax._src.state.discharge import discharge_state
from jax.experimental import pallas as pl

from course_lib.grid.buffers import buffers
from course_lib.grid.call import Call, Operand, Scratch, Walk
from course_lib.grid.following.follow import index_values
from course_lib.grid.following.refs import dtype_of, space_of
from course_lib.grid.following.scalars import known
from course_lib.grid.jaxprs import (
    KERNELS,
    called,
    holds_a_kernel,
    inside,
    is_variable,
    runs_on_sparse_cores,
    scan_parts,
)
from course_lib.grid.trace import meanings_of_axes, trace_with_result
from course_lib.grid.unreadable import Reason, UnreadableCall

MOST_STEPS = 20_000_000  # a longer list of steps would take gigabytes


def walk(fn: Callable, *args, chip: str = "v5e") -> Walk:
    """Trace ``fn(*args)`` and list what each of its kernels does at every grid step.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s; only the index maps are run. Scalars that index maps read (scalar
    prefetch) must be arrays, or be computed from arrays. Raises UnreadableCall if a grid cannot be read, and whatever
    ``fn`` raises while it is traced.
    """
    jaxpr, result = trace_with_result(fn, *args, chip=chip)
    return walk_traced(jaxpr, args, result)


def walk_traced(jaxpr: jax.extend.core.ClosedJaxpr, args: tuple = (), result: object = None) -> Walk:
    """Return the walk of a function that is already traced. Raises UnreadableCall if a grid cannot be read."""
    given = [_given(n, a) for n, a in enumerate(jax.tree.leaves(args))]
    given += [_given(n, None) for n in range(len(given), len(jaxpr.invars))]
    return Walk(calls=tuple(_calls(jaxpr, given, 1)), jaxpr=jaxpr, result=result)


def _given(number: int, value) -> Callable:
    """Return a function that returns an argument's value, or raises UnreadableCall if only its shape is known."""

    def get():
        if value is None or isinstance(value, jax.ShapeDtypeStruct):
            raise UnreadableCall(
                f"its index maps read scalars (scalar prefetch) from argument {number}, but only its shape is known. "
                "Pass the array itself.",
                reason=Reason.UNKNOWN_SCALARS,
            )
        return value

    return get


def _inside_a_loop():
    raise UnreadableCall(
        "its index maps read scalars (scalar prefetch) that a loop around the kernel computes.",
        reason=Reason.UNKNOWN_SCALARS,
    )


def _calls(jaxpr, inputs: list, times: int | None) -> Iterator[Call]:
    """Yield the kernel calls of a jaxpr. Values are functions that compute them on demand, as almost none is needed."""
    consts = [lambda c=c: c for c in jaxpr.consts]
    env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        values = [env[v] if is_variable(v) else (lambda v=v: v.val) for v in eqn.invars]
        yield from _calls_in(eqn, values, times)
        env.update(zip(eqn.outvars, _outputs(eqn, values), strict=True))


def _calls_in(eqn, values: list, times: int | None) -> Iterator[Call]:
    name, params = eqn.primitive.name, eqn.params
    if name == "pallas_call":
        yield _pallas_call(eqn, values, times)
    elif name == "mpmd_map":
        yield _kernel_call(eqn, times)
    elif not holds_a_kernel(eqn):
        return
    elif name == "scan":
        consts, *_ = scan_parts(eqn, values)
        unknown = [_inside_a_loop] * (len(values) - len(consts))
        often = None if times is None else times * params["length"]
        yield from _calls(params["jaxpr"], [*consts, *unknown], often)
    elif name in ("while", "cond"):
        for inner in inside(eqn):
            yield from _calls(inner, [_inside_a_loop] * len(inner.invars), None)
    elif (inner := called(eqn)) is not None:
        yield from _calls(inner, values, times)
    else:
        raise UnreadableCall(f"a kernel inside `{name}` cannot be read: call it directly.")


def _outputs(eqn, values: list) -> list[Callable]:
    """Return one function for each output of an equation that computes it, asking for the inputs in turn.

    The equation is computed once, no matter how many outputs are asked for, and by how many kernels.
    """

    @functools.cache
    def compute():
        if eqn.primitive.name in KERNELS or holds_a_kernel(eqn):
            raise UnreadableCall(
                "its index maps read scalars (scalar prefetch) that another kernel computes.",
                reason=Reason.UNKNOWN_SCALARS,
            )
        outputs = eqn.primitive.bind(*[v() for v in values], **eqn.primitive.get_bind_params(eqn.params))
        return outputs if eqn.primitive.multiple_results else [outputs]

    return [lambda n=n: compute()[n] for n in range(len(eqn.outvars))]


def _pallas_call(eqn, values: list, times: int | None) -> Call:
    mapping, kernel = eqn.params["grid_mapping"], eqn.params["jaxpr"]
    names = _ref_names(kernel)
    prefetched, inputs = mapping.num_index_operands, mapping.num_inputs
    dynamic = mapping.num_dynamic_grid_bounds
    try:
        sizes = iter([int(v()) for v in values[:dynamic]])
        scalars = tuple(np.asarray(v()) for v in values[dynamic : dynamic + prefetched])
    except UnreadableCall as error:
        raise UnreadableCall(f"{_name(kernel)} cannot be read: {error}", reason=error.reason) from None
    grid = tuple(n if isinstance(n, int) else next(sizes) for n in mapping.grid)
    if any(n < 0 for n in grid):
        raise UnreadableCall(
            f"{_name(kernel)} cannot be read: its grid is {grid}, but a size must not be negative. Each is a number "
            "of steps.",
            reason=Reason.NEGATIVE_GRID,
        )
    if math.prod(grid) > MOST_STEPS:
        raise UnreadableCall(
            f"{_name(kernel)} cannot be read: its grid {grid} has {math.prod(grid):,} steps, too many to list.",
            reason=Reason.LONG_GRID,
        )
    operands = [_prefetch(name, array, grid) for name, array in zip(names, scalars, strict=False)]
    aliases = _aliases(eqn, names, prefetched + inputs)
    for number, block in enumerate(mapping.block_mappings, prefetched):
        role = "input" if number < prefetched + inputs else "output"
        operands.append(_operand(block, grid, names[number], role, scalars, aliases.get(names[number])))
    return Call(
        name=_name(kernel),
        grid=grid,
        operands=tuple(operands),
        kernel=kernel,
        scratch=_scratch(kernel, names, len(operands)),
        times=times,
        scalars=scalars,
        semantics=_semantics(eqn),
    )


def _kernel_call(eqn, times: int | None) -> Call:
    """Read a pl.kernel: its refs stay in HBM, and its body copies what it needs."""
    if runs_on_sparse_cores(eqn):
        raise UnreadableCall(
            f"{_name(eqn.params['jaxprs'][0])} runs on SparseCores, where indices in memory say which rows a copy "
            "moves. judges.judge_sparse_core runs it."
        )
    if len(eqn.params["jaxprs"]) != 1:
        raise UnreadableCall("a pl.kernel with bodies for several kinds of cores cannot be read.")
    (kernel,) = eqn.params["jaxprs"]
    names, inputs = _ref_names(kernel), len(eqn.invars)
    outputs = len(eqn.outvars)
    operands = tuple(
        _whole(name, v.aval, "input" if n < inputs else "output")
        for n, (name, v) in enumerate(zip(names, kernel.invars[: inputs + outputs], strict=False))
    )
    return Call(
        name=_name(kernel),
        grid=(),
        operands=operands,
        kernel=kernel,
        scratch=_scratch(kernel, names, len(operands)),
        times=times,
    )


def _name(kernel) -> str:
    return kernel.debug_info.func_name or "the kernel"


def _ref_names(kernel) -> list[str]:
    """Return the kernel's names for its refs; kernels that JAX derives, as for a tangent, have none."""
    names = kernel.debug_info.arg_names or []
    return list(names) if len(names) == len(kernel.invars) else [f"ref {n}" for n in range(len(kernel.invars))]


def _semantics(eqn) -> tuple[str, ...]:
    return tuple(getattr(s, "name", str(s)).lower() for s in meanings_of_axes(eqn.params))


def _aliases(eqn, names, outputs_from: int) -> dict[str, str]:
    """Return which operands share memory, by name, in both directions."""
    pairs = [(names[i], names[outputs_from + o]) for i, o in eqn.params["input_output_aliases"]]
    return dict(pairs) | {output: given for given, output in pairs}


def _scratch(kernel, names, first: int) -> tuple[Scratch, ...]:
    return tuple(
        Scratch(name=name, memory_space=space_of(v.aval), shape=tuple(v.aval.shape), dtype=v.aval.dtype)
        for name, v in list(zip(names, kernel.invars, strict=False))[first:]
    )


def _prefetch(name: str, array: np.ndarray, grid: tuple[int, ...]) -> Operand:
    steps = int(np.prod(grid, dtype=np.int64))
    return Operand(
        name=name,
        role="prefetch",
        shape=array.shape,
        dtype=array.dtype,
        block_shape=array.shape,
        indices=np.zeros((steps, array.ndim), np.int64),
        memory_space="smem",
        buffers=1,
    )


def _whole(name: str, aval, role: str) -> Operand:
    return Operand(
        name=name,
        role=role,
        shape=tuple(aval.shape),
        dtype=dtype_of(aval),
        block_shape=tuple(aval.shape),
        indices=np.zeros((1, len(aval.shape)), np.int64),
        memory_space=space_of(aval),
        buffers=1,
    )


def _operand(block, grid: tuple[int, ...], name: str, role: str, scalars: tuple, aliases: str | None) -> Operand:
    array = block.array_aval
    element = tuple(isinstance(size, pl.Element) for size in block.block_shape)
    return Operand(
        name=name,
        role=role,
        shape=tuple(array.shape),
        dtype=dtype_of(array),
        block_shape=tuple(_block_size(size, name) for size in block.block_shape),
        indices=_indices(block.index_map_jaxpr, grid, len(array.shape), scalars),
        memory_space=space_of(block.block_aval),
        buffers=buffers(block, grid),
        element=element if any(element) else (),
        padding=tuple(getattr(size, "padding", (0, 0)) for size in block.block_shape) if any(element) else (),
        letters=_letters(block.index_map_jaxpr, len(grid)),
        aliases=aliases,
    )


def _letters(index_map, axes: int) -> tuple[str, ...]:
    """Return an index map's parameter names, one per grid axis; () for a map that takes *indices."""
    names = tuple((index_map.debug_info.arg_names or ())[:axes])
    return names if len(names) == axes and all(map(str.isidentifier, names)) else ()


def _block_size(size, name: str) -> int:
    if (number := _size_of(size)) is None:
        raise UnreadableCall(
            f"{name} has a block dimension of kind {type(size).__name__}, which grid.walk does not read. "
            "Use a size, None or pl.Element."
        )
    return number


def _size_of(size) -> int | None:
    if isinstance(size, pl.Squeezed) or size is None:
        return 1
    if isinstance(size, (pl.Blocked, pl.Element)):
        return size.block_size
    return size if isinstance(size, int) else None


def _indices(index_map, grid: tuple[int, ...], rank: int, scalars: tuple) -> np.ndarray:
    """Evaluate an index map at every grid step at once; return int64[steps, rank]."""
    steps = int(np.prod(grid, dtype=np.int64))
    if rank == 0:
        return np.zeros((steps, 0), np.int64)
    coordinates = [np.asarray(c, np.int32) for c in np.unravel_index(np.arange(steps), grid)] if grid else []
    columns = index_values(index_map, coordinates, scalars)
    if not all(map(known, columns)):
        columns = _with_jax(index_map, coordinates, scalars)
    return np.stack([np.broadcast_to(np.asarray(c, np.int64), (steps,)) for c in columns], axis=1)


def _with_jax(index_map, coordinates: list, scalars: tuple) -> list[np.ndarray]:
    """Evaluate an index map that does more than arithmetic on scalars."""
    pure = discharge_state(index_map, strip_memory_space=True)
    many = jax.vmap(jax.core.jaxpr_as_fun(pure), in_axes=[0] * len(coordinates) + [None] * len(scalars), axis_size=None)
    outputs = jax.jit(many)(*map(jnp.asarray, coordinates), *map(jnp.asarray, scalars))
    return [np.asarray(o) for o in outputs[: len(index_map.outvars)]]
