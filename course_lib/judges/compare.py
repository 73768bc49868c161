"""Where two results differ, and what that may mean."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid

# Relative tolerance of one rounding, as eps of the dtype; a result may be a few roundings off.
_ROUNDINGS = 4


def other_structure(walk: grid.Walk, expected) -> tuple[str, str] | None:
    got, want = jax.tree.structure(walk.result), jax.tree.structure(expected)
    if got == want or got.num_leaves != want.num_leaves:  # the number of arrays has a sentence of its own
        return None
    return f"It returns {_described(walk.result)}; it should return {_described(expected)}.", "look at the return line."


def _described(result) -> str:
    if isinstance(result, (list, tuple, dict)):
        return f"a {type(result).__name__} of {len(result)}"
    return "an array"


def difference(got: list, want: list, args: list, walk: grid.Walk) -> tuple[str, str] | None:
    """(what is wrong and where, what to try), or None if every output is right."""
    if len(got) != len(want):
        return f"It returns {len(got)} arrays; it should return {len(want)}.", "look at out_shape."
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        name = "The output" if len(want) == 1 else f"Output {number}"
        if g.shape != w.shape:
            return f"{name} has shape {g.shape}; it should be {w.shape}.", "look at out_shape."
        if g.dtype != w.dtype:
            return f"{name} is {g.dtype}; it should be {w.dtype}.", "look at the dtype in out_shape."
        if (wrong := ~close(g, w)).any():
            return _where(name, g, w, wrong, walk), _advice(g, w, wrong, args, walk)
    return None


def close(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """bool of the arrays' shape: equal, or within a few roundings of the dtype. NaN equals NaN and nothing else."""
    if got.dtype.kind in "iub":
        return got == want
    eps = float(jnp.finfo(want.dtype).eps)
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(g - w) <= _ROUNDINGS * eps * np.maximum(np.abs(w), 1e-30)
    near &= np.isfinite(g) & np.isfinite(w)  # an infinite tolerance would forgive everything
    return near | (g == w) | (np.isnan(g) & np.isnan(w))


def _where(name: str, got: np.ndarray, want: np.ndarray, wrong: np.ndarray, walk: grid.Walk) -> str:
    """Where an output is first wrong: the element, and the block and step that wrote it if there are several."""
    first = _first(wrong)
    at = f" at [{', '.join(map(str, first))}]" if first else ""
    value = f"{name}{at} is {_show(got[first])}; it should be {_show(want[first])}."
    if strayed := _outside(walk):
        return f"{value} {strayed}"
    return f"{_block_at(first, got.shape, walk)}{value} {int(wrong.sum()):,} of {wrong.size:,} elements are wrong."


def _advice(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, args: list, walk: grid.Walk) -> str:
    """One thing to try, from what the wrong numbers look like."""
    first = _first(wrong)
    if _outside(walk):
        return "an index map returns block numbers, counted from 0: not element numbers, and none past the last block."
    if (name := _read_before_written(walk)) and _unwritten(got[first]):
        return f"{name} is read before anything has been written to it; `+=` reads too. Write it with = first."
    if _unwritten(got[first]):
        return (
            "that is memory nothing has written: a buffer starts as NaN (an integer one as its largest value). "
            "Check that every element of every output block is written."
        )
    for number, arg in enumerate(args):
        if arg.shape == got.shape and arg.dtype == got.dtype and (arg == got).all():
            return f"the output equals argument {number}, element by element: was the rest left out?"
    if got.dtype.kind in "iu" and (np.abs(got.astype(float) - want) <= np.abs(want.astype(float)) * 2.0**-22).all():
        return (
            "integers this large are off by less than one part in four million: somewhere on the way they were "
            "float32, which holds 24 bits. Compute in the dtype you were given."
        )
    return "compute the first wrong element by hand, and compare with what the kernel reads at that step."


def _read_before_written(walk: grid.Walk) -> str:
    """The name of an output ref whose first use in its kernel is a read; "" if there is none."""
    for call in walk.calls:
        for variable, operand in zip(call.kernel.invars, call.operands, strict=False):
            first = next((e.primitive.name for e in call.kernel.eqns if variable in e.invars[:1]), "")
            if operand.role == "output" and first in ("get", "addupdate"):
                return operand.name
    return ""


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()


def _outside(walk: grid.Walk) -> str:
    """The first block that an index map asks for and the array does not have; "" if there is none."""
    for call in walk.calls:
        for operand in call.operands:
            if len(steps := operand.outside()):
                block = tuple(operand.indices[steps[0]].tolist())
                return (
                    f"At step {call.step(int(steps[0]))} the index map of {operand.name} asks for block {block}; the "
                    f"array has {' x '.join(map(str, operand.blocks))} blocks of shape {operand.block_shape}."
                )
    return ""


def _block_at(element: tuple[int, ...], shape: tuple[int, ...], walk: grid.Walk) -> str:
    call = walk.calls[-1]
    output = next((o for o in call.outputs if o.shape == shape), None)
    if output is None or call.steps == 1:
        return ""
    block = tuple(e // b for e, b in zip(element, output.block_shape, strict=True))
    steps = np.flatnonzero((output.indices == np.array(block)).all(axis=1))
    if not len(steps):
        return f"No grid step writes output block {block}. "
    return f"Output block {block}, written at step {call.step(int(steps[-1]))}, is wrong. "


def _unwritten(value) -> bool:
    if value.dtype.kind in "iu":
        return bool(value == np.iinfo(value.dtype).max)
    return value.dtype.kind != "b" and bool(np.isnan(value.astype(np.float64)))


def _show(value) -> str:
    return str(int(value)) if value.dtype.kind in "iu" else f"{float(value):.6g}"
