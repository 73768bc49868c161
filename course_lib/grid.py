"""Read a ``pallas_call`` out of a traced function and list what every grid step touches.

``walk(f, x, y).calls[0]`` has the grid and, for each operand, the block index at every step, which steps copy
a block from HBM to VMEM, and which write one back. Traffic, pictures and verdicts are views of that one list.

The TPU visits the grid one step after another, the last axis fastest. A block is copied in only when its index
differs from the step before; an output block is written back when the next step's index differs.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips


class UnreadableCall(ValueError):
    """The function holds a kernel whose grid this module cannot read yet. It says so; it never guesses."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operand:
    """One input or output of a pallas_call, over the whole grid of S steps."""

    name: str  # as the kernel calls its ref
    role: str  # "input" or "output"
    shape: tuple[int, ...]  # of the whole array
    dtype: np.dtype
    block_shape: tuple[int, ...]  # one entry per array axis; a squeezed axis counts 1
    indices: np.ndarray  # int64[S, rank]: the block index at each step
    pipelined: bool  # False for a ref left where it is (memory_space ANY, SMEM): no automatic copies

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks cover the array along each axis."""
        return tuple(pl.cdiv(n, b) for n, b in zip(self.shape, self.block_shape, strict=True))

    @property
    def changes(self) -> np.ndarray:
        """bool[S]: the block index differs from the step before (True at step 0)."""
        changed = np.ones(len(self.indices), bool)
        changed[1:] = (self.indices[1:] != self.indices[:-1]).any(axis=1)
        return changed

    @property
    def fetched(self) -> np.ndarray:
        """bool[S]: at this step a block of this input is copied from HBM to VMEM."""
        return self.changes if self.pipelined and self.role == "input" else np.zeros(len(self.indices), bool)

    @property
    def written(self) -> np.ndarray:
        """bool[S]: after this step the block of this output is copied from VMEM back to HBM."""
        if not self.pipelined or self.role == "input":
            return np.zeros(len(self.indices), bool)
        return np.append(self.changes[1:], True)

    def outside(self) -> np.ndarray:
        """int64[n]: the steps whose block lies wholly outside the array."""
        out = (self.indices < 0) | (self.indices >= np.array(self.blocks, np.int64))
        return np.flatnonzero(out.any(axis=1))

    def unvisited(self) -> list[tuple[int, ...]]:
        """Blocks of the array that no step touches, in order."""
        seen = set(map(tuple, self.indices.tolist()))
        return [b for b in itertools.product(*map(range, self.blocks)) if b not in seen]

    def revisits(self) -> list[tuple[tuple[int, ...], int, int]]:
        """(block, last step of the first visit, first step of the second) for blocks that are left and come back to."""
        found, last_seen = [], {}
        for step, block in enumerate(map(tuple, self.indices.tolist())):
            if block in last_seen and last_seen[block] != step - 1:
                found.append((block, last_seen[block], step))
            last_seen[block] = step
        return found

    def bytes_of(self, index: tuple[int, ...]) -> int:
        """Bytes of the part of block ``index`` that lies inside the array (the last block may be ragged)."""
        size = 1
        for i, n, b in zip(index, self.shape, self.block_shape, strict=True):
            size *= max(0, min(n, (i + 1) * b) - max(0, i * b))
        return size * self.dtype.itemsize


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """One pallas_call: its grid and its operands, inputs before outputs, as the kernel receives them."""

    name: str
    grid: tuple[int, ...]
    operands: tuple[Operand, ...]
    kernel: jax.extend.core.Jaxpr  # the kernel's body; its invars are the refs

    @property
    def steps(self) -> int:
        return int(np.prod(self.grid, dtype=np.int64))

    def step(self, number: int) -> tuple[int, ...]:
        """Grid coordinates of a step: the last axis runs fastest."""
        return tuple(int(i) for i in np.unravel_index(number, self.grid)) if self.grid else ()

    @property
    def inputs(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role == "input")

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.role == "output")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Walk:
    """Every pallas_call of a function, in the order it runs them."""

    calls: tuple[Call, ...]
    jaxpr: jax.extend.core.ClosedJaxpr  # of the whole function
    result: object = None  # what the function returns, as shapes and dtypes in their lists and tuples


def trace(fn: Callable, *args, chip: str = "v5e") -> jax.extend.core.ClosedJaxpr:
    """The jaxpr of ``fn(*args)`` as Pallas traces it for ``chip``; args are arrays or ShapeDtypeStructs."""
    return _trace(fn, *args, chip=chip)[0]


def _trace(fn: Callable, *args, chip: str) -> tuple[jax.extend.core.ClosedJaxpr, object]:
    # A fresh function object: JAX must not reuse a trace that was made for a simulator.
    with chips.chip(chip).target(), pltpu.force_tpu_interpret_mode(False):
        jaxpr, result = jax.make_jaxpr(lambda *a: fn(*a), return_shape=True)(*args)
        if any(eqn.primitive.name == "platform_index" for eqn in equations(jaxpr.jaxpr)):
            jaxpr = jax.make_jaxpr(lambda *a: run(jaxpr, False, *a))(*args)  # keeps the TPU's side only
        return jaxpr, result


def run(jaxpr: jax.extend.core.ClosedJaxpr, interpret, *args) -> list:
    """Evaluate a traced function with every pallas_call in the given interpret mode; its flat list of outputs.

    ``interpret``: False lowers for the chip, True is the plain interpreter, InterpretParams the TPU simulator. A
    pallas_call remembers the mode it was made in, so the mode is put into the jaxpr and not only around it.
    """
    return _run(jaxpr.jaxpr, jaxpr.consts, interpret, *jax.tree.leaves(args))


def _run(jaxpr, consts, interpret, *args) -> list:
    values = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [v.val if isinstance(v, jax.extend.core.Literal) else values[v] for v in eqn.invars]
        if eqn.primitive.name == "pallas_call":
            outputs = eqn.primitive.bind(*inputs, **(eqn.params | {"interpret": interpret}))
        elif eqn.primitive.name == "platform_index":  # lax.platform_dependent: take what it does on a TPU
            outputs = next(n for n, p in enumerate(eqn.params["platforms"]) if p is None or "tpu" in p)
        elif eqn.primitive.name == "cond" and isinstance(inputs[0], int):
            branch = eqn.params["branches"][inputs[0]]
            outputs = _run(branch.jaxpr, branch.consts, interpret, *inputs[1:])
        elif _holds_a_kernel(eqn):
            outputs = _run_inside(eqn, interpret, inputs)
        else:
            outputs = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
        outputs = outputs if eqn.primitive.multiple_results else [outputs]
        values |= dict(zip(eqn.outvars, outputs, strict=True))
    return [v.val if isinstance(v, jax.extend.core.Literal) else values[v] for v in jaxpr.outvars]


def equations(jaxpr) -> Iterator:
    """Every equation of a jaxpr, those inside jit, loops and conditions too; not those inside a kernel."""
    for eqn in jaxpr.eqns:
        yield eqn
        if eqn.primitive.name != "pallas_call":
            for inner in sub_jaxprs(eqn):
                yield from equations(inner)


def _holds_a_kernel(eqn) -> bool:
    """Whether an equation must be entered: it wraps a kernel, or a choice by platform that may lead to one."""
    inside = (e.primitive.name for inner in sub_jaxprs(eqn) for e in equations(inner))
    return any(name in ("pallas_call", "platform_index") for name in inside)


def _run_inside(eqn, interpret, inputs: list) -> list:
    """Run an equation that wraps a kernel: jit and the forward side of custom derivatives are simply entered."""
    inner = next((eqn.params[key] for key in ("jaxpr", "call_jaxpr") if key in eqn.params), None)
    if eqn.primitive.name not in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat"):
        raise UnreadableCall(f"a kernel inside `{eqn.primitive.name}` cannot be judged yet: call it directly.")
    return _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), interpret, *inputs)


def walk(fn: Callable, *args, chip: str = "v5e") -> Walk:
    """Trace ``fn(*args)`` and list what each of its pallas_calls does at every grid step.

    ``args`` are arrays or ``jax.ShapeDtypeStruct``s; nothing is run but the index maps.
    Raises UnreadableCall where a grid cannot be read, and whatever ``fn`` raises while it is traced.
    """
    return read(*_trace(fn, *args, chip=chip))


def read(jaxpr: jax.extend.core.ClosedJaxpr, result: object = None) -> Walk:
    """The walk of a function that is traced already. Raises UnreadableCall."""
    return Walk(calls=tuple(_read(eqn) for eqn in pallas_calls(jaxpr.jaxpr)), jaxpr=jaxpr, result=result)


def pallas_calls(jaxpr) -> Iterator:
    """The pallas_call equations of a jaxpr, inside jit, custom_vjp, scan and the like too."""
    return (eqn for eqn in equations(jaxpr) if eqn.primitive.name == "pallas_call")


def sub_jaxprs(eqn) -> Iterator:
    """The jaxprs an equation carries in its parameters (jit, cond, scan, custom_vjp ...)."""
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(item, "jaxpr", item)
            if hasattr(inner, "eqns"):
                yield inner


def _read(eqn) -> Call:
    mapping, kernel = eqn.params["grid_mapping"], eqn.params["jaxpr"]
    names = kernel.debug_info.arg_names
    if mapping.num_index_operands:
        raise UnreadableCall(
            f"{_name(eqn)} uses scalar prefetch: its index maps depend on array values, which grid.walk does "
            "not read yet."
        )
    if not all(isinstance(n, int) for n in mapping.grid):
        raise UnreadableCall(
            f"The grid of {_name(eqn)} is not made of Python integers. Write int(...) around its sizes."
        )
    operands = tuple(
        _operand(block, mapping.grid, name, "input" if number < mapping.num_inputs else "output")
        for number, (block, name) in enumerate(zip(mapping.block_mappings, names, strict=False))
    )
    return Call(name=_name(eqn), grid=tuple(mapping.grid), operands=operands, kernel=kernel)


def _name(eqn) -> str:
    return eqn.params["jaxpr"].debug_info.func_name


def _operand(block, grid: tuple[int, ...], name: str, role: str) -> Operand:
    array = block.array_aval
    space = str(block.block_aval.memory_space).lower()
    return Operand(
        name=name,
        role=role,
        shape=tuple(array.shape),
        dtype=np.dtype(array.dtype),
        block_shape=tuple(_block_size(size, name) for size in block.block_shape),
        indices=_indices(block.index_map_jaxpr, grid, len(array.shape)),
        pipelined=not any(word in space for word in ("any", "hbm", "smem", "semaphore")),
    )


def _block_size(size, name: str) -> int:
    if isinstance(size, pl.Squeezed) or size is None:
        return 1
    if isinstance(size, pl.Blocked):
        return size.block_size
    if isinstance(size, int):
        return size
    raise UnreadableCall(
        f"{name} has a block dimension of kind {type(size).__name__}, which grid.walk does not read yet."
    )


def _indices(index_map, grid: tuple[int, ...], rank: int) -> np.ndarray:
    """Evaluate an index map at every grid step at once: int64[steps, rank]."""
    steps = int(np.prod(grid, dtype=np.int64))
    if rank == 0:
        return np.zeros((steps, 0), np.int64)
    coordinates = [jnp.asarray(c, jnp.int32) for c in np.unravel_index(np.arange(steps), grid)] if grid else []

    def one(*step):
        return jnp.stack(
            [jnp.asarray(i, jnp.int32) for i in jax.core.eval_jaxpr(index_map.jaxpr, index_map.consts, *step)]
        )

    if not grid:
        return np.asarray(one(), np.int64)[None]
    return np.asarray(jax.jit(jax.vmap(one))(*coordinates), np.int64)
